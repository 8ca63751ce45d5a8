//! AMD GPUs for rig, through the interface of Linux's kernel driver.
//!
//! [`gpu`] opens one by its number, and [`count`] says how many there are. Images are code objects for gfx1100 (Radeon RX
//! 7900), as clang, hipcc and others make them. Nothing of ROCm is needed, to build or to run: the driver opens `/dev/kfd` and
//! the GPU's render node, and where they are missing the reason says so. The user must be in the group that owns them,
//! often `render`.
//!
//! In the examples here, a software GPU stands for what [`gpu`] opens, by their hidden lines:
//!
//! ```
#![doc = include_str!("example.txt")]
//! let device = rig::open(gpu(0))?;
//! // Made of kernels/copy.c, whose first line is the compiler's. Its parameters: from, to, pieces of 16 bytes, threads, rest.
//! let copy = device.load(&std::fs::read("kernels/copy.co")?)?.function("rig_copy")?;
//! let (x, y) = (device.from_slice(&[2.5_f32; 1024])?, device.buffer(4096)?);
//! let mut run = device.submission().launch(&copy, [rig::read(0), rig::write(1)]).make()?.take();
//! run.part(0).threads([256, 1, 1]).set(16, 256_u64).set(24, 256_u32).set(28, 0_u32);
//! // SAFETY: it reads 256 pieces of slot 0 and writes as many of slot 1.
//! unsafe { run.launch(&[&x, &y])? };
//! assert_eq!(y.read(|y: &[f32]| y[1023])?, 2.5);
//! # Ok(())
//! # }
//! ```
//!
//! # How work runs
//!
//! A device is two queues on the GPU: a compute queue of AQL packets and a copy queue (SDMA). Launches run on the compute
//! queue, and copies and memsets on the copy queue, but a large copy within the GPU's memory is a kernel on the compute
//! queue. A submit writes packets into the rings' memory and rings the doorbells; it makes no call of the kernel's and allocates
//! nothing. The last packet of a value writes the GPU's caches back and stores the value in the word, which is host memory.
//! Where consecutive work runs on different queues, the later queue waits for a word that the earlier stores; so do waits
//! for other devices' words.
//!
//! # Private memory
//!
//! What a function keeps for each thread beside its registers (arrays that values index, spilled registers, a stack) lies in
//! scratch, which resolving the function makes. A stack whose size the compiler cannot tell, of deep or unknown calls, has
//! 16 KiB for each thread beside what the function declares: a thread that needs more faults, or reaches what is another's. A
//! function that asks for more than a wave can have, 256 KiB for each of 32 threads, is refused by its name.
//!
//! # Fills
//!
//! A fill gets an [`Encoder`], which places launches of resolved functions, copies, memsets and packets of its own in the
//! device's order.
//!
//! # Times
//!
//! A profile has the times of values and parts by the GPU's clock, each part on its own queue, with the error of the clocks'
//! alignment. The first profile makes the memory for them; without one, nothing is placed and no clock is read.
//!
//! # Faults
//!
//! A memory fault, a hang and a reset lose the device with the kernel's words and the faulting address. The kernel then
//! runs nothing more of the process on that GPU, so that no device opens on it again: a new process recovers. Devices on
//! other GPUs go on.
//!
//! # Limits
//!
//! * gfx1100 alone; other chips are refused by their names.
//! * Functions that need their runtime's services (printf, malloc, device-side enqueue) are refused.
//! * A GPU has one user in a process: rig and HIP cannot share one.
//! * Parts of one submission run one after the other. A fill places at most some thousand packets.
//! * `fork` is not supported while a device is open.
//!
//! # Sources
//!
//! `linux/kfd_ioctl.h`; Linux's amdkfd, where it checks what it is given; LLVM's "User Guide for AMDGPU Backend"; the HSA
//! platform system architecture; ROCR-Runtime's headers. `docs/amd.md` of the repository says what of this driver is shown by
//! which test, and what only hardware can show.

mod abi;
mod aql;
mod check;
mod code;
mod encoder;
mod facts;
mod fault;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod gpu;
mod hal;
mod kernel;
mod kfd;
mod limits;
mod memory;
mod msgpack;
mod object;
mod open;
mod order;
mod pm4;
mod queue;
mod raw;
mod ring;
mod scratch;
mod sdma;
mod sleep;
mod spans;
mod stop;
mod sys;
mod system;
mod timeline;
mod times;
mod topology;
mod windows;
mod work;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rig_edge::{
    Code, Dma, Driver, EntryAnswer, Facts, Fault, Grown, ImageError, Location, Mapping, Memory, Part, PlanError, Room,
    Sleep, Submitted, Word, Work,
};

pub use check::{CHIPS, Obstacle, check};
pub use code::{Entry, Image};
pub use encoder::Encoder;
use gpu::Gpu;
use limits::Limits;
pub use memory::Region;
#[cfg(all(target_os = "linux", feature = "model"))]
pub use open::on;
pub use open::{GpuOpener, count, gpu};
use order::Places;
use queue::Own;
use sleep::{Events, Sleepers};
pub use system::System;
use times::Clock;
use windows::Windows;
use work::Hot;
pub use work::Plan;

/// A device on an AMD GPU.
///
/// ```
#[doc = include_str!("example.txt")]
/// use rig_amd::Amd;
///
/// let device = rig::open(gpu(0))?;
/// // The type says whose a device's record, fills and entries are.
/// let record = device.capability::<Amd>().ok_or("this is no device of AMD's")?;
/// assert_eq!(record.arch, device.facts().arch);
/// # Ok(())
/// # }
/// ```
pub struct Amd {
    gpu: Arc<Gpu>,
    facts: Facts,
    capability: Capability,
    limits: Limits,
    word: &'static Word,
    places: Places,
    /// What the hot calls work on, until `stop`.
    hot: Mutex<Option<Hot>>,
    /// The driver's own memory, beside the queues'.
    own: Mutex<Vec<Own>>,
    /// Held while scratch is made, so that one thread makes it.
    growing: Mutex<()>,
    /// The GPU's clock and the stamps of it, from the first profile on.
    clock: OnceLock<Arc<Clock>>,
    /// The regions that the host writes through a GPU's window.
    windows: Windows,
    /// Whether the GPU's instruction caches may be stale.
    stale: AtomicBool,
    events: Events,
    sleepers: Sleepers,
    fault: OnceLock<Fault>,
    /// Keeps what all GPUs share.
    system: System,
}

/// What compilers need to know of a GPU.
///
/// ```
#[doc = include_str!("example.txt")]
/// use rig_amd::Amd;
///
/// let device = rig::open(gpu(0))?;
/// let of = device.capability::<Amd>().ok_or("this is no device of AMD's")?;
/// // A group of four waves on each of the compute units.
/// let (groups, threads) = (of.compute_units, 4 * of.wave_threads);
/// assert!(groups > 0 && threads <= of.group_threads);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The architecture, such as `gfx1100`.
    pub arch: String,
    /// The compute units.
    pub compute_units: u32,
    /// The threads of a wave.
    pub wave_threads: u32,
    /// The bytes of group memory that a group can have.
    pub group_bytes: u32,
    /// The most threads of a group.
    pub group_threads: u32,
}

impl Capability {
    fn of(gpu: &Gpu) -> Capability {
        let chip = gpu.chip();
        Capability {
            arch: chip.arch().into(),
            compute_units: gpu.node().compute_units(),
            wave_threads: 32,
            group_bytes: chip.group_bytes_most(),
            group_threads: chip.threads_most(),
        }
    }
}

#[expect(unsafe_code, reason = "implements the driver interface")]
impl Driver for Amd {
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
        let mut region = Region::alloc(&self.gpu, memory, len)?;
        if region.is_none() && self.free_scratch() {
            region = Region::alloc(&self.gpu, memory, len)?;
        }
        region.iter().for_each(|region| self.windows.add(region));
        Ok(region)
    }

    unsafe fn free(&self, region: Region) -> Result<(), Fault> {
        self.windows.remove(&region);
        // SAFETY: the caller's promise.
        unsafe { region.free(&self.gpu) };
        Ok(())
    }

    fn locate(&self, region: &Region) -> Location {
        region.location()
    }

    unsafe fn map_host(&self, address: *mut u8, len: usize) -> Result<Mapping<Region>, Fault> {
        // SAFETY: the caller's promise.
        unsafe { Region::wrap(&self.system, &self.gpu, address, len) }
    }

    fn peer(&self, other: &Amd) -> bool {
        self.gpu.reaches(&other.gpu)
    }

    unsafe fn map_peer(&self, _: &Amd, region: &Region) -> Result<Mapping<Region>, Fault> {
        let mapping = region.mapped_for(&self.gpu);
        if let Mapping::Mapped(region) = &mapping {
            self.windows.add(region);
        }
        Ok(mapping)
    }

    fn dma(&self, region: &Region, function: &str) -> Result<Result<Dma, String>, Fault> {
        Ok(region.dma(&self.gpu, function))
    }

    fn image(&self, binary: &[u8]) -> Result<Code<Image>, ImageError> {
        code::image(self.gpu.chip(), binary)
    }

    fn entry(&self, image: &Image, name: &str) -> Result<EntryAnswer<Entry>, Fault> {
        self.entry_of(image, name)
    }

    unsafe fn unload(&self, _: Image) -> Result<(), Fault> {
        // rig frees the memory that holds the code.
        Ok(())
    }

    fn plan(&self, _: &[Part<Amd>]) -> Result<Plan, PlanError> {
        Ok(Plan)
    }

    unsafe fn room(&self, _: &mut Plan, parts: &[Part<Amd>], work: &mut Work<'_>) -> Room {
        self.room_for(parts, work)
    }

    unsafe fn submit(&self, value: u64, _: &mut Plan, parts: &[Part<Amd>], work: &mut Work<'_>) -> Submitted {
        self.take(value, parts, work)
    }

    fn grow(&self) -> Result<Grown, Fault> {
        self.grow_stamps()
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
