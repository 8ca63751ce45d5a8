//! Host memory that a device works in without a copy.
//!
//! # Invariants
//!
//! 1. A wrapped owner is kept until the device's mapping of its pages is freed, and that is freed as a region is: once no
//!    work can use it, also after a loss. It is then dropped once, with no lock held.
//! 2. While an owner is wrapped, its bytes are reached through buffers alone (the owner's promise), so holds and stamps order
//!    all accesses.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::MmapMut;
use rig_edge::erased::AnyRegion;
use rig_edge::{Location, page_bytes};

use crate::allocation::{AllocationRef, Place};
use crate::device::{Core, Handle};
use crate::error::invalid;
use crate::memory::{Origin, Region};
use crate::{Buffer, Device, Error, Result};

/// Who owns wrapped memory; dropped when nothing can use it any more.
pub(crate) type HostOwner = Box<dyn Any + Send>;

/// An owner of host memory in whole pages, which [`Buffer::from_host`] can wrap. [`HostMemory`] is one.
///
/// # Safety
///
/// `pages` gives the same bytes every time, and from its first call until the owner is dropped, wherever the owner is moved:
///
/// 1. the first byte starts a page of the system's memory, and the pages that hold the bytes stay allocated and writable,
///    and hold nothing of anybody else's;
/// 2. all bytes are initialised;
/// 3. but for [`pages`](HostPages::pages)'s caller, nobody reads or writes them: not the owner, no other process, and no other
///    wrapping.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// use rig::{Buffer, HostPages};
/// use std::ptr::NonNull;
///
/// /// Pages of the system's own: `MmapOptions::map_copy` would give those of a file.
/// struct Pages(memmap2::MmapMut);
///
/// // SAFETY: a private mapping is whole pages, which hold something from the start, stay where they are, and are nobody else's.
/// unsafe impl HostPages for Pages {
///     fn pages(&mut self) -> NonNull<[u8]> {
///         NonNull::from(&mut self.0[..])
///     }
/// }
///
/// let pages = Pages(memmap2::MmapMut::map_anon(1 << 16).expect("the system has memory"));
/// let buffer = Buffer::from_host(&device, pages)?;
/// buffer.memset(7)?;
/// assert_eq!(buffer.read(|bytes: &[u8]| bytes[65_535])?, 7);
/// # Ok(())
/// # }
/// ```
#[expect(unsafe_code, reason = "an owner promises what rig cannot check")]
pub unsafe trait HostPages: Send + 'static {
    /// The bytes. A length of zero is right.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// use rig::{HostMemory, HostPages};
    /// let mut memory = HostMemory::from_slice(&[1_u8, 2, 3])?;
    /// let pages = memory.pages();
    /// assert_eq!(pages.len(), 3);
    /// // They start a page, and the same bytes come every time.
    /// assert!(pages.cast::<u8>().addr().get().is_multiple_of(4096));
    /// assert_eq!(memory.pages(), pages);
    /// # Ok(())
    /// # }
    /// ```
    fn pages(&mut self) -> NonNull<[u8]>;
}

/// Host memory of its own pages, all zeros when made, for [`Buffer::from_host`]. A slice of bytes until then.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// use rig::{Buffer, HostMemory};
/// let mut memory = HostMemory::zeroed(1 << 16)?;
/// memory[0] = 1;
/// // The device works in these very pages.
/// let buffer = Buffer::from_host(&device, memory)?;
/// assert_eq!(buffer.read(|bytes: &[u8]| bytes[0])?, 1);
/// # Ok(())
/// # }
/// ```
pub struct HostMemory {
    /// `None` for no bytes.
    pages: Option<MmapMut>,
    len: usize,
}

impl HostMemory {
    /// `len` bytes, all zero.
    ///
    /// # Errors
    ///
    /// OutOfMemory if the system has none.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let memory = rig::HostMemory::zeroed(1000)?;
    /// assert!(memory.len() == 1000 && memory.iter().all(|byte| *byte == 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn zeroed(len: usize) -> Result<HostMemory> {
        let pages = match len {
            0 => None,
            // Of whole pages, so the last bytes' whole word is in it too, which kernels may reach.
            len => Some(MmapMut::map_anon(len).map_err(|_| Error::OutOfMemory { bytes: len as u64 })?),
        };
        Ok(HostMemory { pages, len })
    }

    /// The bytes of a slice.
    ///
    /// # Errors
    ///
    /// OutOfMemory if the system has none.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let memory = rig::HostMemory::from_slice(&[1.0_f32, 2.0])?;
    /// assert_eq!(memory.len(), 8);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_slice<T: Pod>(slice: &[T]) -> Result<HostMemory> {
        let bytes: &[u8] = bytemuck::cast_slice(slice);
        let mut memory = HostMemory::zeroed(bytes.len())?;
        memory.copy_from_slice(bytes);
        Ok(memory)
    }
}

impl Deref for HostMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pages.as_ref().map_or(&[], |pages| &pages[..self.len])
    }
}

impl DerefMut for HostMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.pages.as_mut().map_or(&mut [], |pages| &mut pages[..self.len])
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMemory").field("len", &self.len).finish()
    }
}

// SAFETY: an anonymous mapping starts a page, is writable, private to this value and zero, and stays until the value is
// dropped, wherever the value is moved. Nobody reaches it but through this value, which whoever wraps it owns.
#[expect(unsafe_code, reason = "the mapping's pages are this value's own")]
unsafe impl HostPages for HostMemory {
    fn pages(&mut self) -> NonNull<[u8]> {
        NonNull::from(&mut **self)
    }
}

/// Memory that was not wrapped: why, and the memory itself. Turns into the error by `?`.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// use rig::{Buffer, HostMemory};
/// device.close();
/// let Err(not) = Buffer::from_host(&device, HostMemory::zeroed(64)?) else { panic!("it is closed") };
/// println!("{}", not.error);
/// // The memory is there as before.
/// assert_eq!(not.memory.len(), 64);
/// # Ok(())
/// # }
/// ```
pub struct NotWrapped<M> {
    /// Why.
    pub error: Error,
    /// The owner, unharmed.
    pub memory: M,
}

impl<M> From<NotWrapped<M>> for Error {
    fn from(not: NotWrapped<M>) -> Error {
        not.error
    }
}

impl<M> fmt::Display for NotWrapped<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

// By hand, so that any owner's wrapping can be unwrapped.
impl<M> fmt::Debug for NotWrapped<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotWrapped").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<M> std::error::Error for NotWrapped<M> {}

/// See [`Buffer::from_host`].
pub(crate) fn wrap<M: HostPages>(device: &Device, memory: M) -> std::result::Result<Buffer, NotWrapped<M>> {
    let mut memory = Box::new(memory);
    let pages = memory.pages();
    match map(&device.handle, pages) {
        Ok(mapped) => Ok(finish(&device.handle, pages, mapped, memory)),
        Err(error) => Err(NotWrapped { error, memory: *memory }),
    }
}

/// See [`Buffer::from_host_raw`].
pub(crate) fn wrap_raw(
    device: &Device,
    pages: NonNull<[u8]>,
    release: impl FnOnce() + Send + 'static,
) -> Result<Buffer> {
    let mapped = map(&device.handle, pages)?;
    Ok(finish(&device.handle, pages, mapped, Box::new(Release(Some(release)))))
}

/// Calls a closure when dropped.
struct Release<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Release<F> {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

/// A driver's mapping of pages, and where it lies.
type MappedPages = (AnyRegion, Location);

/// Maps the pages for the device; `None` for no bytes.
fn map(handle: &Arc<Handle>, pages: NonNull<[u8]>) -> Result<Option<MappedPages>> {
    let core = &handle.core;
    let (start, len) = (pages.cast::<u8>().as_ptr(), pages.len());
    if rig_edge::callback::inside() {
        return invalid!("a fill or a kernel cannot wrap host memory: wrap it before");
    }
    core.check_open()?;
    if len == 0 {
        return Ok(None);
    }
    if !start.addr().is_multiple_of(page_bytes()) {
        return invalid!("the memory at {start:p} does not start a page of {} bytes", page_bytes());
    }
    let never = |why: &str| {
        Error::Refused(format!("{} cannot work in this host memory: {why}; copy it into a buffer instead", core.name))
    };
    if !core.facts.maps_host {
        return Err(never("it maps no host memory"));
    }
    let mapping = core.map_in_rounds(len, |driver| {
        // SAFETY: the address starts a page and the length is positive, both seen above; whoever gave the pages keeps them,
        // by the owner's promise or the caller's, until the owner is dropped, after the mapping is freed.
        #[expect(unsafe_code, reason = "the debt of map_host is paid here")]
        unsafe {
            driver.map_host(start, len)
        }
    })?;
    mapping.map(Some).map_err(|why| never(&why))
}

/// The buffer over mapped pages, or over none, whose owner then goes at once.
fn finish(handle: &Arc<Handle>, pages: NonNull<[u8]>, mapped: Option<MappedPages>, owner: HostOwner) -> Buffer {
    let place = mapped.map_or(Place::NONE, |(region, location)| {
        // Whatever host address the driver gives, the host reaches the bytes where they are.
        let location = Location { host: pages.cast::<u8>().as_ptr(), ..location };
        let region = Box::new(Region::new(region, location, pages.len(), Origin::Wrapped(owner)));
        Place { device: location.device, host: location.host, region: Box::into_raw(region) }
    });
    Buffer::new(AllocationRef::new(Arc::clone(handle), pages.len(), place))
}

impl Core {
    /// Gives callers' memory back that no work uses any more: frees the mapping, then drops the owner. Called with no lock
    /// held.
    pub(crate) fn give_wrapped_back(&self) {
        if rig_edge::callback::inside() {
            return;
        }
        let regions = std::mem::take(&mut self.pool.lock().unwrapped);
        for region in regions {
            match self.free_unused(region) {
                // The owner's drop is the caller's code.
                Ok(Origin::Wrapped(owner)) => drop(catch_unwind(AssertUnwindSafe(|| drop(owner)))),
                Ok(_) => {}
                Err(region) => self.pool.lock().unwrapped.push(region),
            }
        }
    }
}
