//! The host's devices of rig: its memory and its cores.
//!
//! * [`memory`] opens the memory device `MEMORY`: work is done before its submit returns, on the thread that submits it.
//! * [`cores`] opens the cores device `CORES`: work runs asynchronously on a pool over the host's cores, several groups at
//!   once.
//!
//! Both run the same images: kernels that are Rust functions ([`Kernels`]), and ELF objects as compilers make them for the
//! host. `include/rig_host.h` in this crate states the calling convention for C.
//!
//! # Fills
//!
//! A fill gets an [`Encoder`], and adds tasks with it: code of the program's, and launches, copies and memsets of the fill's
//! own. Fills may be compiled code: [`abi`] and `include/rig_host.h`.
//!
//! # Kernels
//!
//! A *group kernel* is called once a group and loops over the group's threads itself, so that a compiler vectorises the
//! loop. A *thread kernel* is called once a thread; its threads share group memory and meet at barriers. Threads of a group
//! run on one core, as coroutines; groups run on several.
//!
//! A kernel that calls rig gets Invalid from every call that could wait.
//!
//! # Waiting helps
//!
//! A thread that waits for the cores device runs its work meanwhile, up to the value that it waits for, so a small launch
//! costs no wake-up of another thread. Work that nobody waits for starts within a millisecond.
//!
//! # Faults
//!
//! A kernel's panic loses the device with the panic's message, and never the process. There is no hang bound.
//!
//! A kernel's hardware fault **ends the process on every system**: an access to memory that is not there (SIGSEGV, SIGBUS,
//! an overflow of a thread kernel's stack included), an integer division by zero (SIGFPE on x86-64), an instruction that the
//! processor does not have (SIGILL). Machine code that faulted may have left anything half done in memory that the process
//! shares, so there is no honest way to go on.
//!
//! # Limits
//!
//! * A group has at most [`GROUP_BYTES_MAX`] bytes of group memory, and at most [`THREADS_MAX`] threads in a thread kernel,
//!   [`GROUP_KERNEL_THREADS_MAX`] in a group kernel.
//! * An object takes at most [`IMAGE_BYTES_MAX`], has no constructors and no thread-local variables, and imports only the
//!   functions that the header lists. Objects run where the host is a Unix on x86-64 or little-endian aarch64.
//! * Each thread of a thread kernel has a stack of [`STACK_BYTES`].
//! * Parameters stand on 8 bytes.
//! * The devices wait for no other device's word: rig does that on the host.

pub mod abi;
mod caller;
mod code;
mod elf;
mod encoder;
mod facts;
mod group;
mod kernel;
mod memory;
mod open;
mod pool;
mod stop;
mod symbols;
mod work;

use rig_edge::{
    Code, Driver, EntryAnswer, Facts, Fault, ImageError, Location, Mapping, Memory, Part, PlanError, Room, Sleep,
    Submitted, Work,
};

use caller::Caller;
pub use code::{Entry, GROUP_BYTES_MAX, GROUP_KERNEL_THREADS_MAX, Image, Kernels, THREADS_MAX};
pub use elf::IMAGE_BYTES_MAX;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub use elf::fuzz;
pub use encoder::{Encoder, FillLaunch};
pub use group::STACK_BYTES;
pub use kernel::{Group, Params};
pub use memory::Region;
pub use open::{CoresOpener, MemoryOpener, cores, memory};
use pool::Pool;
use std::sync::Arc;
pub use work::Plan;

/// A device of the host: the memory device or the cores device.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// use rig_host::Host;
/// // The driver that a fill is for: its encoder is the host's, so the same fill serves the cores and the memory.
/// let fill = |encoder: &mut rig_host::Encoder<'_>, _: &[rig_edge::Slot]| {
///     encoder.task(|| Ok(()));
///     Ok(())
/// };
/// for device in [device, rig::open(rig_host::memory())?] {
///     let step = device.submission().fill::<Host>([], fill).make()?;
///     // SAFETY: the fill's task touches nothing.
///     unsafe { step.take().launch(&[])?.wait()? };
/// }
/// # Ok(())
/// # }
/// ```
pub struct Host {
    facts: Facts,
    runner: Runner,
}

/// Who runs the work.
enum Runner {
    /// The thread that submits it.
    Caller(Caller),
    /// A pool.
    Pool(Arc<Pool>),
}

#[expect(unsafe_code, reason = "implements the driver interface")]
impl Driver for Host {
    type Region = Region;
    type Image = Image;
    type Entry = Entry;
    type Plan = Plan;
    type Encoder<'a> = Encoder<'a>;
    type Capability = ();

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn alloc(&self, _: Memory, len: usize) -> Result<Option<Region>, Fault> {
        Ok(Region::new(len))
    }

    unsafe fn free(&self, region: Region) -> Result<(), Fault> {
        drop(region);
        Ok(())
    }

    fn locate(&self, region: &Region) -> Location {
        region.location()
    }

    unsafe fn map_host(&self, address: *mut u8, _: usize) -> Result<Mapping<Region>, Fault> {
        Ok(Mapping::Mapped(Region::alias(address)))
    }

    fn peer(&self, _: &Host) -> bool {
        true
    }

    unsafe fn map_peer(&self, _: &Host, region: &Region) -> Result<Mapping<Region>, Fault> {
        Ok(Mapping::Mapped(Region::alias(region.address())))
    }

    fn image(&self, binary: &[u8]) -> Result<Code<Image>, ImageError> {
        Image::load(binary)
    }

    fn entry(&self, image: &Image, name: &str) -> Result<EntryAnswer<Entry>, Fault> {
        Ok(image.entry(name))
    }

    unsafe fn unload(&self, image: Image) -> Result<(), Fault> {
        drop(image);
        Ok(())
    }

    fn plan(&self, parts: &[Part<Host>]) -> Result<Plan, PlanError> {
        Ok(work::plan(parts))
    }

    unsafe fn room(&self, plan: &mut Plan, _: &[Part<Host>], work: &mut Work<'_>) -> Room {
        self.room_for(plan, work)
    }

    unsafe fn submit(&self, value: u64, plan: &mut Plan, parts: &[Part<Host>], work: &mut Work<'_>) -> Submitted {
        self.take(value, plan, parts, work)
    }

    fn commit(&self, _: u64) -> Result<(), Fault> {
        // Every submit commits.
        self.fault()
    }

    fn sleep(&self, sleep: Sleep) -> Result<(), Fault> {
        match &self.runner {
            // Nothing is in flight: the word shows all there is, or the device has faulted.
            Runner::Caller(caller) => caller.fault(),
            Runner::Pool(pool) => pool.sleep(sleep),
        }
    }

    fn stop(&self, fault: Option<&str>) -> Result<(), Fault> {
        self.end(fault)
    }
}
