//! A system with GPUs: this machine's kernel, or a software one; and what all of its GPUs share.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::{EVENT_SLOTS, event_type};
use crate::gpu::Gpu;
use crate::kfd::{Handle, Kfd, Result};
use crate::memory::{Kind, Region};
use crate::open::GpuOpener;
use crate::sys::Port;
use crate::topology;

/// The bytes of the page of events' slots.
const EVENT_PAGE_BYTES: usize = EVENT_SLOTS * 8;

/// The kernel that drives GPUs, and those of them that are open. Clones are the same system.
#[derive(Clone)]
pub struct System {
    shared: Arc<Shared>,
}

struct Shared {
    port: Arc<dyn Port>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kfd: Option<Arc<Kfd>>,
    gpus: HashMap<u32, Arc<Gpu>>,
    events: Option<EventPage>,
}

/// The page where GPUs note the events that they interrupt the host for. It is the process's one, and it is never given back:
/// the kernel keeps it.
struct EventPage {
    handle: Handle,
    address: u64,
    /// Whether the kernel was told of it.
    told: bool,
    /// The GPUs that reach it.
    mapped: Vec<u32>,
    /// Keeps its GPU open.
    _region: Region,
}

/// An event that a GPU sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub id: u32,
    /// The address of its slot.
    pub slot: u64,
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("System").field("gpus", &self.count()).finish()
    }
}

impl System {
    /// The system under `port`.
    pub(crate) fn new(port: Arc<dyn Port>) -> System {
        System { shared: Arc::new(Shared { port, state: Mutex::default() }) }
    }

    /// How many GPUs the system has: 0 where the kernel's driver is missing. A GPU that is counted may still not open.
    pub fn count(&self) -> usize {
        topology::gpus(&*self.shared.port).map_or(0, |nodes| nodes.len())
    }

    /// The opener of the GPU `index`, counted from 0: `AMD`, `AMD:1` and so on. Never fails: its
    /// [`make`](rig_edge::Opener::make) does.
    pub fn gpu(&self, index: usize) -> GpuOpener {
        GpuOpener::new(self.clone(), index)
    }

    /// Opens the GPU `index`, or gives the open one.
    pub(crate) fn open(&self, index: usize) -> std::result::Result<Arc<Gpu>, String> {
        let mut state = self.shared.state.lock();
        let kfd = match &state.kfd {
            Some(kfd) => Arc::clone(kfd),
            None => Arc::clone(state.kfd.insert(Arc::new(Kfd::open(Arc::clone(&self.shared.port))?))),
        };
        let nodes = topology::gpus(&*self.shared.port)
            .map_err(|errno| format!("the kernel's list of GPUs cannot be read: {errno}"))?;
        let count = nodes.len();
        let node = nodes.into_iter().nth(index).ok_or_else(|| match count {
            0 => "this machine has no AMD GPU that the process may use".to_string(),
            _ => format!("this machine has {count} AMD GPUs, and {index} was asked for: they count from 0"),
        })?;
        if let Some(gpu) = state.gpus.get(&node.gpu_id) {
            return match gpu.lost() {
                None => Ok(Arc::clone(gpu)),
                Some(why) => Err(format!(
                    "{why}; the kernel runs nothing more of this process on that GPU, and a new process recovers"
                )),
            };
        }
        let gpu = Arc::new(Gpu::open(kfd, node)?);
        state.gpus.insert(gpu.id(), Arc::clone(&gpu));
        Ok(gpu)
    }

    /// Makes an event that `gpu` sets.
    pub(crate) fn signal(&self, gpu: &Gpu) -> Result<Event> {
        let mut state = self.shared.state.lock();
        if state.events.is_none() {
            let region = Region::make(gpu, Kind::Commands, EVENT_PAGE_BYTES)?;
            state.events = Some(EventPage {
                handle: region.handle(),
                address: region.location().device,
                told: false,
                mapped: vec![gpu.id()],
                _region: region,
            });
        }
        // PANIC: it was made just now, or before.
        let page = state.events.as_mut().expect("a page of events");
        if !page.mapped.contains(&gpu.id()) {
            gpu.kfd().map(page.handle, gpu.id())?;
            page.mapped.push(gpu.id());
        }
        let (id, slot) = gpu.kfd().create_event(event_type::SIGNAL, (!page.told).then_some(page.handle))?;
        page.told = true;
        Ok(Event { id, slot: page.address + 8 * u64::from(slot) })
    }
}
