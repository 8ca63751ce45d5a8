//! A system with GPUs: this machine's kernel, or a software one; and what all of its GPUs share.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rig_edge::Words;

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
///
/// ```
#[doc = include_str!("example.txt")]
/// use rig_amd::System;
/// use rig_amd_model::Machine;
///
/// // A test of a program, on a machine of two software GPUs.
/// let system: System = rig_amd::on(&Machine::builder().gpus(2).build());
/// let (one, other) = (rig::open(system.gpu(0))?, rig::open(system.clone().gpu(1))?);
/// let (x, y) = (one.from_slice(&[1_u32; 8])?, other.buffer(32)?);
/// x.copy_to(&y)?;
/// assert_eq!(y.read(|y: &[u32]| y[7])?, 1);
/// # Ok(())
/// # }
/// ```
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
    words: Option<Common>,
    events: Option<EventPage>,
}

/// Memory that every GPU of the system reaches: made by one of them, mapped for each.
struct Common {
    handle: Handle,
    mapped: Vec<Arc<Gpu>>,
}

impl Common {
    fn new(handle: Handle, gpu: &Arc<Gpu>) -> Common {
        Common { handle, mapped: vec![Arc::clone(gpu)] }
    }

    /// Maps it for a GPU that does not reach it yet.
    fn map(&mut self, gpu: &Arc<Gpu>) -> Result<()> {
        if self.mapped.iter().all(|mapped| mapped.id() != gpu.id()) {
            gpu.kfd().map(self.handle, gpu.id())?;
            self.mapped.push(Arc::clone(gpu));
        }
        Ok(())
    }
}

/// The page where GPUs note the events that they interrupt the host for: the process's one, which the kernel keeps.
struct EventPage {
    common: Common,
    address: u64,
    /// Whether the kernel was told of it.
    told: bool,
}

/// An event that a GPU sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use rig_amd_model::Machine;
    ///
    /// assert_eq!(rig_amd::on(&Machine::builder().gpus(2).build()).count(), 2);
    /// // The kernel's driver is there, and no GPU.
    /// assert_eq!(rig_amd::on(&Machine::builder().gpus(0).build()).count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count(&self) -> usize {
        topology::gpus(&*self.shared.port).map_or(0, |nodes| nodes.len())
    }

    /// The opener of the GPU `index`, counted from 0: `AMD`, `AMD:1` and so on. Never fails: its
    /// [`make`](rig_edge::Opener::make) does.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use rig_amd_model::Machine;
    ///
    /// let system = rig_amd::on(&Machine::builder().gpus(2).build());
    /// assert_eq!(rig::open(system.gpu(1))?.name(), "AMD:1");
    /// // The mistake is told when it opens.
    /// assert!(rig::open(system.gpu(2)).is_err_and(|why| why.to_string().contains("count from 0")));
    /// # Ok(())
    /// # }
    /// ```
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
        // Kept from here on: the kernel binds the process to its render node.
        state.gpus.insert(gpu.id(), Arc::clone(&gpu));
        Ok(gpu)
    }

    /// Whether some GPU of the system owns the memory at a host address, which is then a window to it.
    pub(crate) fn owns(&self, address: usize) -> bool {
        let state = self.shared.state.lock();
        state.gpus.values().any(|gpu| (gpu.range().0..gpu.range().1).contains(&(address as u64)))
    }

    /// Gives `gpu` the table of words, at the addresses where the host has it.
    pub(crate) fn map_words(&self, gpu: &Arc<Gpu>) -> Result<()> {
        let mut state = self.shared.state.lock();
        if let Some(words) = &mut state.words {
            return words.map(gpu);
        }
        let base = Words::get().base();
        // SAFETY: the table lasts as long as the process.
        #[expect(unsafe_code, reason = "gives the GPU the table of words")]
        let handle = unsafe { gpu.wrap_at(base.expose_provenance() as u64, base, Words::len_bytes()) }?;
        state.words = Some(Common::new(handle, gpu));
        Ok(())
    }

    /// Makes an event that `gpu` sets.
    pub(crate) fn signal(&self, gpu: &Arc<Gpu>) -> Result<Event> {
        let mut state = self.shared.state.lock();
        if state.events.is_none() {
            let region = Region::make(gpu, Kind::Commands, EVENT_PAGE_BYTES)?;
            let (common, address) = (Common::new(region.handle(), gpu), region.location().device);
            state.events = Some(EventPage { common, address, told: false });
        }
        // PANIC: it was made just now, or before.
        let page = state.events.as_mut().expect("a page of events");
        page.common.map(gpu)?;
        let handle = (!page.told).then_some(page.common.handle);
        let (id, slot) = gpu.kfd().create_event(event_type::SIGNAL, handle)?;
        page.told = true;
        Ok(Event { id, slot: page.address + 8 * u64::from(slot) })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // The page of events stays: the kernel has it for as long as the process lives.
        let Some(Common { handle, mapped }) = self.words.take() else { return };
        for gpu in &mapped {
            // SAFETY: no device of the system is left, so no work uses the table.
            #[expect(unsafe_code, reason = "takes the table from the GPU")]
            let _ = unsafe { gpu.kfd().unmap(handle, gpu.id()) };
        }
        if let Some(kfd) = &self.kfd {
            // SAFETY: as above.
            #[expect(unsafe_code, reason = "gives the table back")]
            let _ = unsafe { kfd.free(handle) };
        }
    }
}
