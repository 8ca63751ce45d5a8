//! The opener, and how many GPUs there are.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rig_edge::{Opener, Timeline, Words};

use crate::abi::event_type;
use crate::code::Entry;
use crate::facts::facts;
use crate::gpu::Gpu;
use crate::kfd::Failure;
use crate::limits::Limits;
use crate::memory::Kind;
use crate::object::Object;
use crate::order::{COPY_PARAMS, FIRST_MARK, Line, Places};
use crate::queue::{Own, Queues};
use crate::raw::Raw;
use crate::scratch::Scratch;
use crate::sleep::{Events, Sleepers};
use crate::system::{Event, System};
use crate::timeline::Flights;
use crate::windows::Windows;
use crate::work::{Hot, first_copy};
use crate::{Amd, Capability};

/// How long committed work may leave the word unmoved. TIMEOUT: the longest single kernels of training take seconds, and a
/// program whose kernels take longer says so by [`GpuOpener::hang`].
const HANG: Duration = Duration::from_secs(60);
/// How long the first copy may take. TIMEOUT: it takes some microseconds; a queue that the kernel runs late has this long.
const FIRST_COPY: Duration = Duration::from_secs(5);
/// How often it is looked for.
const FIRST_COPY_LOOK: Duration = Duration::from_micros(50);

/// The kernel for large copies; `kernels/copy.c` of this crate.
const COPY: &[u8] = include_bytes!("../kernels/copy.co");

/// The bytes of the page of marks, and where in it each is, and where the pattern of bytes starts.
const MARKS_BYTES: usize = 4096;
const MARKS: [usize; 2] = [0, 64];
const PATTERN: usize = 1024;

/// Opens devices on one GPU. Each has queues of its own; all share the process's address space on the GPU.
///
/// ```
#[doc = include_str!("example.txt")]
/// let (one, other) = (rig::open(gpu(0))?, rig::open(gpu(1))?);
/// assert_eq!([one.name(), other.name()], ["AMD", "AMD:1"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GpuOpener {
    system: System,
    index: usize,
    hang: Option<Duration>,
}

impl GpuOpener {
    pub(crate) fn new(system: System, index: usize) -> GpuOpener {
        GpuOpener { system, index, hang: Some(HANG) }
    }

    /// Takes the device for hung once committed work has left its word unmoved for `bound`, or never: a minute without
    /// this.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::time::Duration;
    ///
    /// // Kernels that take minutes.
    /// let bound = Some(Duration::from_secs(600));
    /// let device = rig::open(gpu(0).hang(bound))?;
    /// assert_eq!(device.facts().hang, bound);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hang(self, bound: Option<Duration>) -> GpuOpener {
        GpuOpener { hang: bound, ..self }
    }
}

impl Opener for GpuOpener {
    type Driver = Amd;

    fn name(&self) -> String {
        if self.index == 0 { "AMD".into() } else { format!("AMD:{}", self.index) }
    }

    fn make(&self, timeline: Timeline) -> Result<Amd, String> {
        let gpu = self.system.open(self.index)?;
        let mut opening = Opening { gpu: &gpu, own: Vec::new(), events: Vec::new(), queues: None };
        make(&self.system, &mut opening, timeline, self.hang)
    }
}

/// What is made so far; given back if the opening goes no further.
struct Opening<'a> {
    gpu: &'a Arc<Gpu>,
    own: Vec<Own>,
    events: Vec<u32>,
    queues: Option<Queues>,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let ended = self.queues.take().is_none_or(|queues| queues.end(self.gpu).is_ok());
        for own in self.own.drain(..).filter(|_| ended) {
            // SAFETY: the queues, which alone used it, are no more.
            #[expect(unsafe_code, reason = "gives memory back")]
            unsafe {
                own.free(self.gpu);
            }
        }
        for event in self.events.drain(..) {
            let _ = self.gpu.kfd().destroy_event(event);
        }
    }
}

fn failed(what: &str) -> impl Fn(Failure) -> String + '_ {
    move |failure| format!("{what}: {failure}")
}

fn make(system: &System, opening: &mut Opening<'_>, timeline: Timeline, hang: Option<Duration>) -> Result<Amd, String> {
    let gpu = opening.gpu;
    system.map_words(gpu).map_err(failed("the table of words"))?;
    let mut events = [Event::default(); 2];
    for event in &mut events {
        *event = system.signal(gpu).map_err(failed("an event of the queues"))?;
        opening.events.push(event.id);
    }
    for kind in [event_type::MEMORY, event_type::HW_EXCEPTION] {
        let (id, _) = gpu.kfd().create_event(kind, None).map_err(failed("an event of faults"))?;
        opening.events.push(id);
    }
    let marks = Own::new(gpu, Kind::Commands, MARKS_BYTES).map_err(failed("the page of marks"))?;
    let (raw, marks_at) = (marks.raw(), marks.address());
    opening.own.push(marks);
    for byte in 0..=255_u8 {
        raw.put(PATTERN + 4 * usize::from(byte), &[byte; 4]);
    }
    let queues = opening.queues.insert(Queues::new(gpu).map_err(failed("the queues"))?);
    let (code, copy) = copy_kernel(gpu)?;
    let (bytes, code_at) = (code.bytes, code.region.address());
    opening.own.push(code.region);
    let places = Places {
        words: Words::get().base().expose_provenance() as u64,
        word: timeline.word().address().expose_provenance() as u64,
        marks: MARKS.map(|at| marks_at + at as u64),
        pattern: marks_at + PATTERN as u64,
        events,
        range: gpu.range(),
        copy,
    };
    let stage = Own::new(gpu, Kind::Commands, bytes.len()).map_err(failed("memory for an upload"))?;
    stage.raw().put(0, &bytes);
    let from = stage.address();
    opening.own.push(stage);
    first_copy(queues, &places, from, code_at, bytes.len() as u64, FIRST_MARK as u32);
    see_first_copy(raw)?;
    let start = timeline.word().load();
    let [computed, copied, memory, hardware] = [0, 1, 2, 3].map(|at| opening.events[at]);
    opening.events.clear();
    let hot = Hot {
        // PANIC: put there above.
        queues: opening.queues.take().expect("the queues"),
        line: Line::new(start),
        flights: Flights::new(start),
        scratch: Scratch::default(),
    };
    Ok(Amd {
        system: system.clone(),
        facts: facts(gpu, hang),
        capability: Capability::of(gpu),
        limits: Limits::of(gpu.chip()),
        word: timeline.word(),
        places,
        hot: Mutex::new(Some(hot)),
        own: Mutex::new(std::mem::take(&mut opening.own)),
        growing: Mutex::default(),
        clock: OnceLock::new(),
        windows: Windows::default(),
        stale: AtomicBool::new(true),
        events: Events { computed, copied, memory, hardware },
        sleepers: Sleepers::default(),
        fault: OnceLock::new(),
        gpu: Arc::clone(gpu),
    })
}

/// The kernel for large copies, and where it goes.
struct CopyKernel {
    region: Own,
    bytes: Vec<u8>,
}

fn copy_kernel(gpu: &Gpu) -> Result<(CopyKernel, Entry), String> {
    let chip = gpu.chip();
    let object = Object::read(COPY, chip.arch(), chip.mach())?;
    let region = Own::new(gpu, Kind::Vram, object.len()).map_err(failed("memory for the driver's kernel"))?;
    let base = region.address();
    let (bytes, functions) = object.at(base);
    let entry =
        functions.iter().find(|function| function.name == "rig_copy").map(|function| Entry::new(function, 0, base));
    // PANIC: the object is the crate's own, and its tests read it.
    let entry = entry.expect("the kernel for copies");
    assert_eq!(entry.params as usize, COPY_PARAMS, "the parameters of the kernel for copies");
    Ok((CopyKernel { region, bytes }, entry))
}

/// Waits for the first work of the copy queue: an opening that succeeds has seen the queue run.
fn see_first_copy(marks: Raw) -> Result<(), String> {
    let start = Instant::now();
    while marks.load_long(MARKS[1]) as u32 != FIRST_MARK as u32 {
        if start.elapsed() > FIRST_COPY {
            return Err(format!("the GPU's copy queue has not copied anything in {} seconds", FIRST_COPY.as_secs()));
        }
        std::thread::sleep(FIRST_COPY_LOOK);
    }
    Ok(())
}

/// The system of this machine.
fn this() -> &'static System {
    static SYSTEM: OnceLock<System> = OnceLock::new();
    SYSTEM.get_or_init(|| System::new(Arc::new(crate::sys::This)))
}

/// How many AMD GPUs this machine has: 0 where there is no driver of the kernel's. A GPU that is counted may still not open.
///
/// ```
/// use rig_edge::Opener;
///
/// let names: Vec<String> = (0..rig_amd::count()).map(|index| rig_amd::gpu(index).name()).collect();
/// println!("AMD's GPUs: {names:?}");
/// # assert_eq!(names.len(), rig_amd::count());
/// ```
pub fn count() -> usize {
    this().count()
}

/// The opener of the GPU `index` of this machine, counted from 0: `AMD`, `AMD:1` and so on. Never fails: its
/// [`make`](Opener::make) does.
///
/// ```
/// use rig_edge::Opener;
///
/// match rig::open(rig_amd::gpu(0)) {
///     Ok(device) => println!("{device} is {}", device.facts().arch),
///     // What is missing, and what mends it.
///     Err(why) => println!("{why}"),
/// }
/// assert_eq!(rig_amd::gpu(1).name(), "AMD:1");
/// assert!(rig::open(rig_amd::gpu(1000)).is_err());
/// ```
pub fn gpu(index: usize) -> GpuOpener {
    this().gpu(index)
}

/// A machine with software GPUs as a system: its GPUs open like hardware's.
///
/// ```
/// use rig_amd_model::Machine;
///
/// let machine = Machine::builder().seed(7).build();
/// let device = rig::open(rig_amd::on(&machine).gpu(0))?;
/// let x = device.from_slice(&[1_u32, 2, 3])?;
/// x.memset(0)?;
/// assert_eq!(x.to_vec()?, [0; 3]);
/// // The driver did nothing that a GPU or the kernel would refuse.
/// machine.assert_clean();
/// # Ok::<(), rig::Error>(())
/// ```
#[cfg(all(unix, feature = "model"))]
pub fn on(machine: &rig_amd_model::Machine) -> System {
    System::new(Arc::new(crate::sys::Model(machine.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openers_are_named_by_their_gpus() {
        assert_eq!(gpu(0).name(), "AMD");
        assert_eq!(gpu(7).hang(None).name(), "AMD:7");
    }
}
