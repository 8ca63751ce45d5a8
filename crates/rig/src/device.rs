//! Devices: opening one, asking it for things, closing it.

mod core;
mod held_up;
mod loss;
mod stop;

use std::fmt;
use std::sync::Arc;

use rig_edge::erased::erase;
use rig_edge::{Driver, Facts, Memory, Opener, Timeline, WordIndex, WordSource, Words};

pub(crate) use self::core::{Core, Kept, Retired, SubmissionEnd, refresh_own_words};
pub(crate) use self::loss::panic_message;
pub(crate) use self::stop::sweep_stopped;
use crate::error::invalid;
use crate::events::tell;
use crate::primitive::atomic::AtomicU64;
use crate::profile::process;
use crate::timeline::timelines;
use crate::{Buffer, Builder, Error, Image, Result};

/// An open device.
///
/// A `Device` is a handle: clones are further handles to the same device. The device lives until [`close`](Device::close),
/// a loss, or until the last handle, buffer, image and submission of it is dropped. Every call may come from any thread.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::open(rig_host::cores())?;
/// let other = device.clone();
/// assert_eq!(device, other);
/// let buffer = device.buffer(1 << 20)?;
/// drop((device, other));
/// // The buffer keeps the device open.
/// buffer.memset(1)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Device {
    pub(crate) handle: Arc<Handle>,
}

/// What programs' handles, buffers, images and submissions of one device share. Its drop closes the device.
pub(crate) struct Handle {
    pub(crate) core: Arc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.close("every handle to it was dropped");
    }
}

/// Opens the device of `opener`.
///
/// If a device of the same name is lost, it is stopped first. Blocks as long as the driver's opening does.
///
/// # Errors
///
/// Refused with the driver's reason where the device cannot be opened; Invalid from inside a fill or a kernel.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::open(rig_host::cores())?;
/// assert_eq!(device.name(), "CORES");
/// # Ok(())
/// # }
/// ```
pub fn open<O: Opener>(opener: O) -> Result<Device> {
    let name = opener.name();
    if rig_edge::callback::inside() {
        return invalid!("{name} cannot be opened inside a fill or a kernel: open it before");
    }
    process::look();
    stop::stop_lost(&name);
    sweep_stopped();
    let timelines = timelines();
    let no_slot = || {
        Error::Refused(format!(
            "{name} cannot be opened: {} devices are open or stopping, as many as a process can have; close some",
            rig_edge::WORDS_MAX
        ))
    };
    let mut slot = timelines.claim(false).ok_or_else(no_slot)?;
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        opener.make(Timeline::new(WordIndex::new(slot as usize)))
    }));
    let made = made.unwrap_or_else(|payload| Err(format!("its driver panicked: {}", loss::panic_message(&*payload))));
    let driver = match made {
        Ok(driver) => erase(driver),
        Err(why) => {
            timelines.release(slot);
            tell!(warn, "a device could not be opened", device = &*name, why = &*why);
            return Err(Error::Refused(format!("{name} cannot be opened: {why}")));
        }
    };
    let word = |slot: u32| Words::get().word(WordIndex::new(slot as usize));
    let mut start = word(slot).load();
    if driver.facts().word == WordSource::Own {
        // A word of the driver's own may start below what an earlier device left in the slot: then take a new slot.
        start = driver.signaled();
        if start < word(slot).load() {
            timelines.release(slot);
            slot = timelines.claim(true).ok_or_else(no_slot)?;
        }
        word(slot).lift(start);
    }
    let core = Arc::new(Core::new(name, driver, slot, start));
    timelines.attach(slot, &core);
    core::register(&core);
    let budget = core.facts.budget;
    tell!(info, "a device is open", device = &*core.name, driver = std::any::type_name::<O::Driver>(), budget = budget);
    process::opened();
    Ok(Device { handle: Arc::new(Handle { core }) })
}

impl Device {
    /// The device's name, such as `CORES`.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// assert_eq!(device.name(), "CORES");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.handle.core.name
    }

    /// What the driver says of the device. The same for as long as the device lives, also once it is lost.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// println!("{} with {} queues", device.facts().arch, device.facts().queues.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn facts(&self) -> &Facts {
        &self.handle.core.facts
    }

    /// `len` bytes of the device's own memory. A length of zero works and touches no driver.
    ///
    /// The bytes are initialised and otherwise unspecified: zeros where the host addresses fresh memory, else what an
    /// earlier buffer left. Blocks only where memory must come back first (see the crate's Memory section).
    ///
    /// A buffer of more than 4 KiB takes its bytes, in whole words, and at most a sixteenth more. Smaller ones share regions
    /// of 64 KiB by size, in powers of two: those of one size take as many regions as the most of them that lived at one
    /// time fill, until none of them is left. [`budget`](Device::budget) says when there is room.
    ///
    /// # Errors
    ///
    /// OutOfMemory after every round of reclamation; Lost; Invalid inside a fill or a kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(4 * 1000)?;
    /// buffer.write(|values: &mut [u32]| values.fill(7))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffer(&self, len: usize) -> Result<Buffer> {
        self.buffer_in(Memory::Device, len)
    }

    /// `len` bytes of a kind of memory, otherwise as [`buffer`](Device::buffer).
    ///
    /// # Errors
    ///
    /// As [`buffer`](Device::buffer).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let pinned = device.buffer_in(rig::Memory::Pinned, 1 << 20)?;
    /// assert_eq!(pinned.len(), 1 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffer_in(&self, memory: Memory, len: usize) -> Result<Buffer> {
        Ok(Buffer::new(crate::memory::allocate(&self.handle, memory, len)?))
    }

    /// Loads an image: a binary of the device's architecture.
    ///
    /// # Errors
    ///
    /// Refused with the driver's reason; OutOfMemory; Lost; Invalid inside a fill or a kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let kernels = rig_host::Kernels::new().group("nothing", 0, |_, _| {});
    /// let image = device.load(&kernels.image())?;
    /// assert_eq!(image.function("nothing")?.name(), "nothing");
    /// # Ok(())
    /// # }
    /// ```
    pub fn load(&self, image: &[u8]) -> Result<Image> {
        Image::load(self, image)
    }

    /// Begins a submission.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// // Slot 0 is copied to slot 1, and then cleared.
    /// let step = device.submission().copy(0, 1).memset(0, 0).make()?;
    /// assert_eq!(step.slots(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn submission(&self) -> Builder {
        Builder::new(self)
    }

    /// The bytes that the device may hold in buffers, images' code and the cache.
    ///
    /// As long as the driver has the memory, a buffer can be had wherever its bytes and what the others take (see
    /// [`buffer`](Device::buffer)) fit the budget, whatever was allocated and dropped before: nothing is lost between
    /// buffers, and the cache makes room. So nine tenths of the budget in buffers of more than 4 KiB can always be had.
    /// Memory of dropped buffers counts until their work is done, which an allocation waits for.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// println!("{} MiB at most", device.budget() >> 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn budget(&self) -> u64 {
        self.handle.core.pool.lock().budget
    }

    /// Sets the budget in bytes. What is held already stays; new memory is found only under the budget, and a lower one
    /// first gives the cache back.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// device.set_budget(1 << 20);
    /// assert!(matches!(device.buffer(2 << 20), Err(rig::Error::OutOfMemory { .. })));
    /// device.set_budget(4 << 20);
    /// device.buffer(2 << 20)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_budget(&self, bytes: u64) {
        let core = &self.handle.core;
        let over = {
            let mut pool = core.pool.lock();
            pool.budget = bytes;
            pool.live + pool.cached > bytes
        };
        if over && !rig_edge::callback::inside() {
            core.take_back(true);
            core.give_cache_back();
        }
    }

    /// The bytes in use by buffers, images' code and dropped buffers whose work still runs, rounded as rig rounds them.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(1 << 20)?;
    /// assert_eq!(device.allocated(), 1 << 20);
    /// drop(buffer);
    /// assert_eq!(device.allocated(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn allocated(&self) -> u64 {
        self.settled_pool(|pool| pool.live)
    }

    /// The bytes that rig keeps for later buffers.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// drop(device.buffer(1 << 20)?);
    /// assert_eq!(device.cached(), 1 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cached(&self) -> u64 {
        self.settled_pool(|pool| pool.cached)
    }

    /// Takes back now what work has completed with: dropped buffers, wrapped host memory, and what submissions keep, whose
    /// drops it runs. Waits for no work. Other calls do so by themselves where they need memory; call it to have owners and
    /// kept objects dropped early. Inside a fill or a kernel it does nothing.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let memory = rig::HostMemory::zeroed(1 << 16)?;
    /// let wrapped = rig::Buffer::from_host(&device, memory)?;
    /// drop(wrapped);
    /// // The owner of the memory is dropped here, and not at some later call.
    /// device.reclaim();
    /// # Ok(())
    /// # }
    /// ```
    pub fn reclaim(&self) {
        if !rig_edge::callback::inside() {
            self.handle.core.take_back(true);
            self.handle.core.sweep_retired();
        }
    }

    fn settled_pool<R>(&self, f: impl FnOnce(&crate::memory::Pool) -> R) -> R {
        self.handle.core.take_back(true);
        f(&self.handle.core.pool.lock())
    }

    /// Closes the device: later calls answer Lost, also those of its buffers, and its points that are not reached by now
    /// are Lost. Waits for no work: committed work may still run, work that was never committed never does, and memory
    /// comes back once its work can no longer run. Closing twice is closing once.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(64)?;
    /// device.close();
    /// assert!(matches!(buffer.memset(0), Err(rig::Error::Lost { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&self) {
        self.handle.core.close("it was closed");
    }

    /// Loses the device with a reason of the program's own, as a fault of it alone would: for what only the program can
    /// know, such as that other machines which the work needs are gone, and that what it writes is not right. Its points that
    /// are not reached by now are Lost once this returns, and so is what waited for them. Waits for no work: what is committed
    /// may still run. Its driver has had no fault, and ends it as at any close. A device that is lost or closed keeps its first
    /// reason. Inside a fill or a kernel it does nothing: return an error there.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// device.lose("its results are not to be trusted");
    /// assert_eq!(device.lost().as_deref(), Some("its results are not to be trusted"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lose(&self, why: &str) {
        if !rig_edge::callback::inside() {
            self.handle.core.lose_unfaulted(why);
        }
    }

    /// Why the device is lost or closed; `None` while it is open.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// assert!(device.lost().is_none());
    /// device.close();
    /// assert!(device.lost().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> Option<Arc<str>> {
        self.handle.core.why_lost()
    }

    /// The device's record of the driver `D`'s own, for compiled code and for what goes beyond rig; `None` if the device's
    /// driver is another, or has no record. The same for as long as the device lives, also once it is lost.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// // The host's devices have no record.
    /// assert!(device.capability::<rig_host::Host>().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn capability<D: Driver>(&self) -> Option<&D::Capability> {
        self.handle.core.driver.as_any().downcast_ref::<D>()?.capability()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("name", &self.name()).field("lost", &self.lost()).finish_non_exhaustive()
    }
}

impl PartialEq for Device {
    /// Whether both are handles to the same device.
    fn eq(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }
}

impl Eq for Device {}

/// The number that a new core's marks start from.
fn mark(value: u64) -> AtomicU64 {
    AtomicU64::new(value)
}
