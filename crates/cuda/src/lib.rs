//! NVIDIA GPUs for rig.
//!
//! [`gpu`] opens one by its number, and [`count`] says how many there are. Images are PTX, cubins and fatbins, as nvcc,
//! clang, Triton and others make them. Nothing of CUDA is needed to build: the library that comes with NVIDIA's driver
//! (CUDA 12.4 or later) is opened when a device is, and where it is missing the reason says so.
//!
//! # How work runs
//!
//! A device is a stream of its own in the GPU's primary context. A submission with launches becomes one CUDA graph, made
//! once: its launches, copies and memsets in their order, and at the end a kernel of one thread that counts the device's
//! values up and stores the count in the word, which is host memory. A submit compares what it asks for with what the graph
//! holds, changes the nodes that differ, and launches the graph: new buffers on every run cost some hundred nanoseconds a
//! launch, and the same ones nothing. A fill splits the graph around it. Submissions of copies and memsets alone go to the
//! stream part by part, and a write of the stream stores the word.
//!
//! Parts that share no slot which one of them writes overlap, four at most, in each run whose buffers share no allocation; where
//! two buffers are views of one, the parts run one after the other. So a kernel must not count on an earlier part by memory that
//! is in no slot of both, such as a global variable of its image.
//!
//! Words of other devices are waited for on the stream.
//!
//! # Faults
//!
//! An illegal address, a trap, a failed assertion and the like are *sticky*: CUDA answers every later call of the process
//! with them, on every GPU. They lose every CUDA device of the process with the first reason, devices of other drivers go
//! on, and no CUDA device opens any more: a new process recovers. A kernel that never ends is found by the hang bound
//! ([`GpuOpener::hang`]); it runs on, and what it uses stays allocated until the process ends.
//!
//! # Limits
//!
//! * Freeing memory waits, in CUDA, for all work of the GPU's context. rig's cache frees only when memory is short, when a
//!   device ends, and when a program asks for it; while a kernel hangs such a call hangs with it.
//! * Clusters of groups, cooperative launches and textures are for fills.
//! * A thread that had no CUDA context current keeps the GPU's primary one after its first call; another's own comes back.
//!
//! # Sources
//!
//! CUDA's driver interface: `cuda.h` and its documentation. Figures were measured on an H200; `docs/performance.md` of the
//! repository has them, with the commands.

mod check;
mod code;
mod container;
mod counter;
mod edges;
mod entries;
mod facts;
mod fault;
mod gpu;
mod graph;
mod limits;
mod memory;
mod open;
mod plan;
mod queue;
mod sleep;
mod stop;
#[expect(unsafe_code, reason = "the boundary to CUDA's library")]
mod sys;
mod times;
mod work;

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use rig_edge::{
    Code, Dma, Driver, EntryAnswer, Facts, Fault, ImageError, Location, Mapping, Memory, Part, PlanError, Room, Sleep,
    Submitted, Word, Work,
};

pub use check::{Obstacle, check};
pub use code::{Entry, Image};
pub use counter::{Counter, Entered};
use entries::Entries;
use gpu::Gpu;
pub use memory::Region;
pub use open::{GpuOpener, count, gpu};
pub use queue::Encoder;
use sys::abi::Stream;
pub use work::Plan;

/// A device on an NVIDIA GPU.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// // Of CUDA's devices a program may ask what it asks of no other driver's.
/// let capability = device.capability::<rig_cuda::Cuda>().expect("a device of CUDA's has one");
/// assert_eq!(capability.ordinal, 0);
/// # let cores = rig::open(rig_host::cores())?;
/// assert!(cores.capability::<rig_cuda::Cuda>().is_none());
/// # Ok(())
/// # }
/// ```
pub struct Cuda {
    gpu: &'static Gpu,
    /// The device's own stream, until `stop`.
    stream: Stream,
    facts: Facts,
    capability: Capability,
    word: &'static Word,
    /// The word, as the GPU reaches it.
    word_at: u64,
    /// Where the GPU counts the values of graphs.
    counter_at: u64,
    /// What the counter holds once all work that is on the stream is done.
    counted: AtomicU64,
    /// At which value sleeps see the word stand, and since when.
    stands: Mutex<Option<(u64, Instant)>>,
    /// The last value given to `submit`.
    last: AtomicU64,
    /// The last value whose store is on the stream.
    stored: AtomicU64,
    entries: Entries,
    stopped: AtomicBool,
}

/// CUDA's own handles of a device, for programs and compiled code that go beyond rig.
///
/// Work that goes on the stream beside rig's is not ordered by rig, and must not outlast the device.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// use rig_cuda::{Capability, Cuda};
/// // What a library that shares the GPU's context and the device's order of work is given.
/// let &Capability { context, stream, ordinal } = device.capability::<Cuda>().expect("a device of CUDA's has one");
/// assert!(!context.is_null() && !stream.is_null());
/// assert_eq!(ordinal, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Capability {
    /// The GPU's primary context: a `CUcontext` that lasts as long as the process.
    pub context: *mut c_void,
    /// The device's stream: a `CUstream` that lasts until the device is closed or lost.
    pub stream: *mut c_void,
    /// The GPU's number in CUDA, from 0.
    pub ordinal: i32,
}

// SAFETY: a capability is two handles and a number, and CUDA's calls on them may come from any thread.
#[expect(unsafe_code, reason = "handles are plain data")]
unsafe impl Send for Capability {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "handles are plain data")]
unsafe impl Sync for Capability {}

#[expect(unsafe_code, reason = "implements the driver interface")]
impl Driver for Cuda {
    type Region = Region;
    type Image = Image;
    type Entry = Entry;
    type Plan = Plan;
    type Encoder<'a> = Encoder<'a>;
    type Capability = Capability;

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn capability(&self) -> Option<&Capability> {
        Some(&self.capability)
    }

    fn alloc(&self, memory: Memory, len: usize) -> Result<Option<Region>, Fault> {
        Region::alloc(self.gpu, memory, len)
    }

    unsafe fn free(&self, region: Region) -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        unsafe { region.free(self.gpu) }
    }

    fn locate(&self, region: &Region) -> Location {
        region.location()
    }

    unsafe fn map_host(&self, address: *mut u8, len: usize) -> Result<Mapping<Region>, Fault> {
        // SAFETY: the caller's promise.
        unsafe { Region::register(self.gpu, address, len) }
    }

    fn peer(&self, other: &Cuda) -> bool {
        self.gpu.reaches(other.gpu)
    }

    unsafe fn map_peer(&self, other: &Cuda, region: &Region) -> Result<Mapping<Region>, Fault> {
        region.mapped_for(self.gpu, other.gpu)
    }

    fn dma(&self, region: &Region, function: &str) -> Result<Result<Dma, String>, Fault> {
        region.dma(self.gpu, function)
    }

    fn image(&self, binary: &[u8]) -> Result<Code<Image>, ImageError> {
        Image::load(self.gpu, binary).map(Code::Loaded)
    }

    fn entry(&self, image: &Image, name: &str) -> Result<EntryAnswer<Entry>, Fault> {
        image.entry(self.gpu, name)
    }

    unsafe fn unload(&self, image: Image) -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        unsafe { image.unload(self.gpu) }
    }

    fn plan(&self, parts: &[Part<Cuda>]) -> Result<Plan, PlanError> {
        self.plan_of(parts)
    }

    unsafe fn room(&self, plan: &mut Plan, parts: &[Part<Cuda>], work: &mut Work<'_>) -> Room {
        self.room_for(plan, parts, work)
    }

    unsafe fn submit(&self, value: u64, plan: &mut Plan, parts: &[Part<Cuda>], work: &mut Work<'_>) -> Submitted {
        // SAFETY: the caller's promise.
        unsafe { self.take(value, plan, parts, work) }
    }

    fn commit(&self, _: u64) -> Result<(), Fault> {
        // Every submit commits.
        Ok(())
    }

    fn sleep(&self, sleep: Sleep) -> Result<(), Fault> {
        self.doze(sleep)
    }

    fn stop(&self, _: Option<&str>) -> Result<(), Fault> {
        self.end()
    }
}
