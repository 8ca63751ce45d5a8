//! Memory: buffers of Metal's in shared storage, and host pages that Metal wraps.
//!
//! # Invariants
//!
//! 1. A region is in the device's residency set from before `alloc` or `map_host` returns until `free`, or `stop`.
//! 2. A region's first byte is on [`ALIGNMENT`], by its GPU address and by its host address.

use std::ffi::c_void;
use std::ptr::NonNull;

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use rig_edge::{Fault, Location, Mapping, page_bytes};

use crate::driver::Metal;
use crate::facts::ALIGNMENT;
use crate::object::Held;
use crate::sys::{MTLBuffer, MTLDevice, MTLResourceOptions, guard};

/// Memory of a device.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// use objc2::runtime::ProtocolObject;
/// use rig_metal::sys::MTLBuffer;
/// let step = device.submission().fill::<rig_metal::Metal>([rig::read(0)], |_, slots| {
///     // A fill finds the region's buffer at the slot, for calls of Metal that take one.
///     // SAFETY: the handle is the buffer of the slot, which lives for the submit.
///     let buffer: &ProtocolObject<dyn MTLBuffer> = unsafe { &*slots[0].handle.cast() };
///     let here = buffer.gpuAddress() + slots[0].handle_offset == slots[0].device;
///     if here { Ok(()) } else { Err("the slot is elsewhere".to_owned()) }
/// });
/// // SAFETY: the fill touches nothing.
/// unsafe { step.make()?.take().launch(&[&y])? };
/// assert!(device.lost().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Region {
    pub(crate) buffer: Held<dyn MTLBuffer>,
    location: Location,
}

/// Where a buffer of Metal's lies, or why it must not be used.
pub(crate) fn located(buffer: &Held<dyn MTLBuffer>) -> Result<Location, String> {
    let (device, host) = (buffer.gpuAddress(), buffer.contents().as_ptr().cast::<u8>());
    if !device.is_multiple_of(ALIGNMENT as u64) || !host.addr().is_multiple_of(ALIGNMENT) {
        return Err(format!(
            "Metal placed a buffer of {} bytes at the GPU address {device:#x} and the host address {host:p}, off a multiple of \
             {ALIGNMENT}",
            buffer.length()
        ));
    }
    Ok(Location { device, host, handle: buffer.address() })
}

impl Metal {
    /// Shared memory, or none if there is none.
    pub(crate) fn alloc_shared(&self, len: usize) -> Result<Option<Region>, Fault> {
        if len == 0 {
            return Err(Fault::here("an allocation of 0 bytes is invalid: ask for 1 or more"));
        }
        // Metal takes a longer buffer for a mistake of its caller's.
        if len as u64 > self.limits.buffer_bytes {
            return Ok(None);
        }
        autoreleasepool(|_| {
            let made = guard(|| self.gpu.newBufferWithLength_options(len, MTLResourceOptions::StorageModeShared));
            match made.map_err(|why| self.shared.fault(why))? {
                Some(buffer) => self.region(buffer).map(Some),
                None => Ok(None),
            }
        })
    }

    /// Looks where a new buffer lies, and makes it resident.
    fn region(&self, buffer: Retained<ProtocolObject<dyn MTLBuffer>>) -> Result<Region, Fault> {
        let buffer = Held::from(buffer);
        let location = located(&buffer).map_err(|why| self.shared.fault(why))?;
        if let Some(running) = self.shared.running() {
            running.reside(ProtocolObject::from_ref(&*buffer)).map_err(|why| self.shared.fault(why))?;
        }
        Ok(Region { buffer, location })
    }

    /// Wraps the whole pages that hold the `len` bytes at `address`.
    ///
    /// # Safety
    ///
    /// As [`map_host`](rig_edge::Driver::map_host), but that `address` need not start a page.
    #[expect(unsafe_code, reason = "the pages are the caller's")]
    pub(crate) unsafe fn wrap(&self, address: *mut u8, len: usize) -> Result<Mapping<Region>, Fault> {
        let page = page_bytes();
        let before = address.addr() % page;
        let pages = len.checked_add(before).and_then(|len| len.checked_next_multiple_of(page));
        let start = NonNull::new(address.wrapping_sub(before).cast::<c_void>());
        let (true, Some(pages), Some(start)) = (len > 0, pages, start) else {
            return Ok(Mapping::Never(format!("{len} bytes at {address:p} are no memory to wrap")));
        };
        let options = MTLResourceOptions::StorageModeShared;
        autoreleasepool(|_| {
            // SAFETY: the caller promises that the whole pages of these bytes stay until the mapping is freed; Metal is given
            // no deallocator, so it frees nothing.
            let made = guard(|| unsafe {
                self.gpu.newBufferWithBytesNoCopy_length_options_deallocator(start, pages, options, None)
            });
            match made {
                Ok(Some(buffer)) => self.region(buffer).map(Mapping::Mapped),
                Ok(None) => {
                    Ok(Mapping::Never(format!("Metal cannot wrap the {pages} bytes at {start:p}, and gives no reason")))
                }
                Err(why) => Ok(Mapping::Never(format!("Metal cannot wrap the {pages} bytes at {start:p}: {why}"))),
            }
        })
    }

    /// Gives a region back.
    pub(crate) fn free_region(&self, region: Region) -> Result<(), Fault> {
        autoreleasepool(|_| {
            let left = match self.shared.running() {
                Some(running) => running.leave(ProtocolObject::from_ref(&*region.buffer)),
                None => Ok(()),
            };
            drop(region);
            left.map_err(|why| self.shared.fault(why))
        })
    }
}

impl Region {
    pub(crate) fn location(&self) -> Location {
        self.location
    }
}
