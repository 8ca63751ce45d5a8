//! Buffers: handles to allocations and to views of them, and the host's reads and writes.

use std::fmt;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use bytemuck::Pod;
use rig_edge::{Access, Dma, Location, Slot};

use crate::allocation::AllocationRef;
use crate::copy;
use crate::device::Handle;
use crate::error::invalid;
use crate::hold::{Hold, InClosure, Want, hold};
use crate::host;
use crate::mapped::{self, Via};
use crate::{Copied, Device, HostPages, NotWrapped, Result};

/// A handle to memory of a device: to an allocation, or to a range of one (a view).
///
/// Clones and views are further handles to the same memory. Dropping a buffer never waits: its memory comes back once no
/// work uses it and no other handle is left.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let buffer = device.buffer(4 * 3)?;
/// buffer.copy_from_slice(&[1_u32, 2, 3])?;
/// let same = buffer.clone();
/// assert_eq!(same.read(|values: &[u32]| values[2])?, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Buffer {
    allocation: AllocationRef,
    offset: usize,
    len: usize,
    /// Where another device than the allocation's own reaches the memory by this handle.
    via: Option<Arc<Via>>,
}

impl Buffer {
    pub(crate) fn new(allocation: AllocationRef) -> Buffer {
        let len = allocation.len;
        Buffer { allocation, offset: 0, len, via: None }
    }

    #[inline]
    pub(crate) fn allocation(&self) -> &AllocationRef {
        &self.allocation
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Whether the buffer reaches all of its allocation.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.len == self.allocation.len
    }

    /// The same bytes, reached by another device, or by the allocation's own.
    pub(crate) fn reached_by(&self, via: Option<Arc<Via>>) -> Buffer {
        Buffer { allocation: self.allocation.clone(), offset: self.offset, len: self.len, via }
    }

    /// The same bytes, reached as `other` reaches its own of the same allocation.
    pub(crate) fn reached_as(&self, other: &Buffer) -> Buffer {
        self.reached_by(other.via.clone())
    }

    pub(crate) fn is_borrow(&self) -> bool {
        self.via.is_some()
    }

    /// The device that reaches the memory by this handle.
    #[inline]
    pub(crate) fn handle(&self) -> &Arc<Handle> {
        match &self.via {
            None => self.allocation.handle(),
            Some(via) => &via.handle,
        }
    }

    /// The region that the memory lies in, as the handle's device reaches it.
    pub(crate) fn location(&self) -> Option<Location> {
        match &self.via {
            None => self.allocation.handle().core.pool.lock().region(&self.allocation).map(|region| region.location),
            Some(via) => via.location,
        }
    }

    /// The bytes of the allocation's region before the buffer's first.
    pub(crate) fn in_region(&self) -> u64 {
        self.allocation_in_region() + self.offset as u64
    }

    /// The bytes of the allocation's region before the allocation's first.
    pub(crate) fn allocation_in_region(&self) -> u64 {
        let mut pool = self.allocation.handle().core.pool.lock();
        let Some(region) = pool.region(&self.allocation) else { return 0 };
        let start = region.location;
        if start.host.is_null() {
            self.allocation.device_address - start.device
        } else {
            (self.allocation.host_address.addr() - start.host.addr()) as u64
        }
    }

    #[inline]
    pub(crate) fn slot(&self) -> Slot {
        let offset = self.offset as u64;
        let device = match &self.via {
            None => self.allocation.device_address,
            Some(via) => via.device_address,
        };
        let host = self.host();
        Slot {
            device: if device == 0 { 0 } else { device + offset },
            host: if host.is_null() { host } else { host.wrapping_add(self.offset) },
            len: self.len as u64,
            handle: ptr::null(),
            handle_offset: 0,
        }
    }

    /// The host address of the allocation's first byte, or null.
    pub(crate) fn host(&self) -> *mut u8 {
        self.allocation.host_address
    }

    /// The bytes.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// assert_eq!(device.buffer(13)?.len(), 13);
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no bytes.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// assert!(device.buffer(0)?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device that reaches the memory by this handle: the one whose memory it is, or the one that borrows it.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// assert_eq!(device.buffer(64)?.device(), device);
    /// # Ok(())
    /// # }
    /// ```
    pub fn device(&self) -> Device {
        Device { handle: Arc::clone(self.handle()) }
    }

    /// A view of the bytes `range` of this buffer: a buffer with bounds of its own over the same memory. Work through it
    /// orders with all work of the allocation.
    ///
    /// # Errors
    ///
    /// Invalid if the range is not inside the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(64)?;
    /// buffer.memset(0)?;
    /// buffer.view(8..16)?.memset(1)?;
    /// assert_eq!(buffer.read(|bytes: &[u8]| bytes.iter().filter(|&&byte| byte == 1).count())?, 8);
    /// assert!(buffer.view(60..65).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn view(&self, range: Range<usize>) -> Result<Buffer> {
        if range.start > range.end || range.end > self.len {
            return invalid!(
                "the view {}..{} is not inside the {} bytes of the buffer",
                range.start,
                range.end,
                self.len
            );
        }
        let via = self.via.clone();
        Ok(Buffer { allocation: self.allocation.clone(), offset: self.offset + range.start, len: range.len(), via })
    }

    /// The same memory as `device` reaches it, with no copy: a buffer of that device. Work through it orders with all work of
    /// the allocation, whatever device runs it, and so do the host's reads and writes. The memory stays until the borrow is
    /// dropped too.
    ///
    /// Memory reaches another device as a peer's, where the two devices have one driver that maps the memory of one for the
    /// other, and otherwise by its host addresses, where there are any and the driver maps host memory. The first use of two
    /// devices as peers moves some bytes both ways, and refuses peers between which bytes get lost. It waits for these. A
    /// mapping is kept with the memory, also for later buffers in it, so a second borrow costs little.
    ///
    /// # Errors
    ///
    /// Refused with the reasons where no driver can do it: [`copy_to`](Buffer::copy_to) then serves. OutOfMemory; Lost if
    /// either device is; Invalid inside a fill or a kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let memory = rig::open(rig_host::memory())?;
    /// let buffer = device.buffer(64)?;
    /// let there = buffer.borrow(&memory)?;
    /// there.memset(7)?;
    /// assert_eq!(buffer.read(|bytes: &[u8]| bytes[0])?, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn borrow(&self, device: &Device) -> Result<Buffer> {
        mapped::borrow(self, device)
    }

    /// Wraps `memory`, so that the device works in it where it is, without a copy.
    ///
    /// The owner is kept until no work can use the memory, also after a loss, and is then dropped: by the next call that takes
    /// memory back ([`Device::reclaim`]), on the thread of that call. The memory counts in no budget.
    ///
    /// # Errors
    ///
    /// With the memory, unharmed: Refused with the reason where the device cannot work in it (a buffer and
    /// [`copy_from_slice`](Buffer::copy_from_slice) then serve); OutOfMemory; Lost; Invalid inside a fill or a kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// use rig::{Buffer, HostMemory};
    /// let memory = HostMemory::from_slice(&[1_u32, 2, 3])?;
    /// let buffer = Buffer::from_host(&device, memory)?;
    /// assert_eq!(buffer.read(|values: &[u32]| values[1])?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_host<M: HostPages>(device: &Device, memory: M) -> std::result::Result<Buffer, NotWrapped<M>> {
        host::wrap(device, memory)
    }

    /// As [`from_host`](Buffer::from_host), for memory that is known by its address alone. `release` is called once nothing
    /// can use the memory; where the call answers an error, it is dropped and not called.
    ///
    /// # Errors
    ///
    /// As [`from_host`](Buffer::from_host), and Invalid if `pages` starts no page.
    ///
    /// # Safety
    ///
    /// From this call until `release` is called: the pages that hold `pages` stay allocated and writable, its bytes are
    /// initialised, nobody reads or writes them but through the buffer, and they are wrapped by no other call.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// use std::ptr::NonNull;
    /// // Memory that lives as long as the program, from the start of a page on.
    /// let mut memory = rig::HostMemory::zeroed(4096)?;
    /// let pages = NonNull::from(&mut *memory);
    /// // SAFETY: the memory is forgotten, so it stays, and nobody else touches it.
    /// let buffer = unsafe { rig::Buffer::from_host_raw(&device, pages, || println!("nobody uses it any more"))? };
    /// std::mem::forget(memory);
    /// buffer.memset(1)?;
    /// # Ok(())
    /// # }
    /// ```
    #[expect(unsafe_code, reason = "the caller owes what no owner promises")]
    pub unsafe fn from_host_raw(
        device: &Device,
        pages: NonNull<[u8]>,
        release: impl FnOnce() + Send + 'static,
    ) -> Result<Buffer> {
        host::wrap_raw(device, pages, release)
    }

    /// Keeps the memory from being written in place by [`consume`](Buffer::consume), for as long as the claim lives. It keeps
    /// the memory itself too, and orders nothing.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(64)?;
    /// let _claim = buffer.claim();
    /// assert!(buffer.consume().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn claim(&self) -> Claim {
        Claim { _allocation: self.allocation.clone() }
    }

    /// Gives the memory away for writing in place (donation): `Ok` with the buffer if nobody else can see its memory, by
    /// another handle, a view, a borrow, a claim or a closure that runs; `Err` with the buffer, unchanged, if somebody can.
    ///
    /// Work that was submitted over it may still run: later work orders after it as ever. A submit borrows its buffers, so
    /// none of them is given away meanwhile.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(64)?;
    /// match buffer.consume() {
    ///     Ok(mine) => mine.memset(0)?,
    ///     Err(shared) => println!("{} bytes are seen by others too", shared.len()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn consume(self) -> std::result::Result<Buffer, Buffer> {
        if self.allocation.is_only() { Ok(self) } else { Err(self) }
    }

    /// How the PCI function at the bus address `function`, such as `0000:41:00.0`, reaches the buffer's bytes: by bus
    /// addresses, or by a dma-buf whose descriptor is the caller's to close. Moves no memory.
    ///
    /// After this the function sees what each value wrote once the value is reached, and later work sees what the function
    /// wrote. rig does not order the function's own accesses: wait for the work before, and for the function after. Once bus
    /// addresses were given, the memory stays where it is, and in no other buffer, until the process ends; and the device's
    /// hardware does not open again in this process.
    ///
    /// # Errors
    ///
    /// Refused with the driver's reason; Invalid for a borrow, for wrapped host memory, for a small buffer, which shares a
    /// region with others, and inside a fill or a kernel; Lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(1 << 20)?;
    /// match buffer.dma("0000:41:00.0") {
    ///     Ok(rig::Dma::Bus(ranges)) => println!("{} ranges of bus addresses", ranges.len()),
    ///     Ok(_) => println!("a dma-buf"),
    ///     Err(why) => println!("{why}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn dma(&self, function: &str) -> Result<Dma> {
        mapped::dma(self, function)
    }

    /// Runs `f` over the bytes, as a slice of `T`, once every device's last write of them has completed; meanwhile
    /// nothing writes them. In place where the host addresses the memory, else in a staging copy.
    ///
    /// # Errors
    ///
    /// Invalid if the buffer is no whole number of `T`s or not aligned for them, if this thread would have to wait inside
    /// another closure, or inside a fill or a kernel; Lost where the work to wait for failed: then `f` does not run.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(4 * 3)?;
    /// buffer.copy_from_slice(&[1_u32, 2, 3])?;
    /// assert_eq!(buffer.read(|values: &[u32]| values.iter().sum::<u32>())?, 6);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read<T: Pod, R>(&self, f: impl FnOnce(&[T]) -> R) -> Result<R> {
        let count = self.count_of::<T>()?;
        let held = self.hold(Access::Read, false)?;
        if count == 0 {
            return Ok(inside(|| f(&[])));
        }
        if self.host().is_null() {
            let staged = copy::stage_out(self)?;
            // The hold stays, as over memory in place: whether the host addresses memory changes no answer (C30).
            let result = staged.read(f);
            drop(held);
            return result;
        }
        let start = self.host_at::<T>()?;
        // SAFETY: the hold keeps all writes away until it drops, after the closure: submits and write closures wait for it,
        // and the writes before it have completed. The bytes are `count` Ts inside the allocation (view), initialised
        // (zeroed by the driver or written since), aligned (host_at), and any bytes are a T (Pod).
        #[expect(unsafe_code, reason = "lends memory that the hold protects")]
        let slice = unsafe { std::slice::from_raw_parts(start, count) };
        let result = inside(|| f(slice));
        drop(held);
        Ok(result)
    }

    /// Runs `f` over the bytes, as a mutable slice of `T`, once every use of them has completed; meanwhile nothing touches
    /// them. Bytes that `f` does not touch stay as they were. In place where the host addresses the memory, else in a
    /// staging copy.
    ///
    /// # Errors
    ///
    /// As [`read`](Buffer::read).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(4 * 3)?;
    /// buffer.write(|values: &mut [u32]| values.fill(5))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn write<T: Pod, R>(&self, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        let count = self.count_of::<T>()?;
        let held = self.hold(Access::Write, false)?;
        if count == 0 {
            return Ok(inside(|| f(&mut [])));
        }
        if self.host().is_null() {
            let staged = copy::stage_out(self)?;
            let result = staged.write(f)?;
            copy::stage_in(&staged, self)?;
            drop(held);
            return Ok(result);
        }
        let start = self.host_at::<T>()?;
        // SAFETY: as in `read`, and the hold is a writer's: nothing else touches the bytes until it drops.
        #[expect(unsafe_code, reason = "lends memory that the hold protects")]
        let slice = unsafe { std::slice::from_raw_parts_mut(start, count) };
        let result = inside(|| f(slice));
        drop(held);
        Ok(result)
    }

    /// Writes all of the buffer from a slice of the same bytes, after every use of it.
    ///
    /// # Errors
    ///
    /// Invalid if the lengths differ, and otherwise as [`write`](Buffer::write). Memory whose last write failed is whole
    /// again after this, if the buffer is all of its allocation.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(12)?;
    /// buffer.copy_from_slice(&[1.0_f32, 2.0, 3.0])?;
    /// assert!(buffer.copy_from_slice(&[1.0_f32]).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_from_slice<T: Pod>(&self, from: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(from);
        if bytes.len() != self.len {
            return invalid!("a slice of {} bytes does not fill the {} bytes of the buffer", bytes.len(), self.len);
        }
        let held = self.hold(Access::Write, true)?;
        if self.len > 0 {
            copy::host_to_buffer(bytes, self)?;
        }
        if self.is_whole() && !self.host().is_null() {
            held.iter().for_each(Hold::wrote_whole);
        }
        Ok(())
    }

    /// Reads all of the buffer into a slice of the same bytes, after the last write of it.
    ///
    /// # Errors
    ///
    /// Invalid if the lengths differ, and otherwise as [`read`](Buffer::read).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(4)?;
    /// buffer.memset(3)?;
    /// let mut bytes = [0_u8; 4];
    /// buffer.copy_to_slice(&mut bytes)?;
    /// assert_eq!(bytes, [3; 4]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_to_slice<T: Pod>(&self, to: &mut [T]) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(to);
        if bytes.len() != self.len {
            return invalid!("the {} bytes of the buffer do not fill a slice of {} bytes", self.len, bytes.len());
        }
        let _held = self.hold(Access::Read, false)?;
        if self.len > 0 {
            copy::buffer_to_host(self, bytes)?;
        }
        Ok(())
    }

    /// Copies all of this buffer to `to`, which has the same length, on any device; the ranges may overlap. Uses the
    /// device's own queue where one copies, else the host. The answer says how, and the point, if it still runs.
    ///
    /// # Errors
    ///
    /// Invalid if the lengths differ, or as [`read`](Buffer::read) and [`write`](Buffer::write); OutOfMemory for a staging
    /// copy; Lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let memory = rig::open(rig_host::memory())?;
    /// let (here, there) = (device.buffer(64)?, memory.buffer(64)?);
    /// here.memset(9)?;
    /// here.copy_to(&there)?;
    /// assert_eq!(there.read(|bytes: &[u8]| bytes[63])?, 9);
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_to(&self, to: &Buffer) -> Result<Copied> {
        copy::copy(self, to)
    }

    /// Sets every byte to `byte`, on the device's queue where one does, else by the host.
    ///
    /// # Errors
    ///
    /// As [`write`](Buffer::write).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let buffer = device.buffer(64)?;
    /// buffer.memset(255)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn memset(&self, byte: u8) -> Result<()> {
        copy::memset(self, byte)
    }

    /// How many `T`s the buffer holds.
    pub(crate) fn count_of<T: Pod>(&self) -> Result<usize> {
        let size = size_of::<T>();
        if size == 0 {
            return invalid!("a slice of a type of no bytes tells nothing of a buffer");
        }
        if !self.len.is_multiple_of(size) {
            return invalid!("the {} bytes of the buffer are no whole number of {size}-byte elements", self.len);
        }
        Ok(self.len / size)
    }

    fn host_at<T>(&self) -> Result<*mut T> {
        let start = self.host().wrapping_add(self.offset);
        if !start.cast::<T>().is_aligned() {
            return invalid!(
                "the view starts {} bytes into its allocation, off the {} of its elements",
                self.offset,
                align_of::<T>()
            );
        }
        Ok(start.cast())
    }

    /// Whether the devices that the buffer stands on are open.
    pub(crate) fn open(&self) -> Result<()> {
        self.handle().core.check_open()?;
        self.allocation.handle().core.check_open()
    }

    pub(crate) fn hold(&self, access: Access, whole: bool) -> Result<Vec<Hold>> {
        if rig_edge::callback::inside() {
            return invalid!("a fill or a kernel cannot read or write a buffer by rig: do so before or after");
        }
        self.open()?;
        hold(&[Want { allocation: &self.allocation, write: access == Access::Write, whole: whole && self.is_whole() }])
    }
}

/// Keeps memory from being given away for writing in place: see [`Buffer::claim`].
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let buffer = device.buffer(64)?;
/// let claim = buffer.claim();
/// let buffer = buffer.consume().expect_err("it is claimed");
/// drop(claim);
/// assert!(buffer.consume().is_ok());
/// # Ok(())
/// # }
/// ```
pub struct Claim {
    _allocation: AllocationRef,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").finish_non_exhaustive()
    }
}

/// Runs a closure with the thread marked as inside one.
fn inside<R>(f: impl FnOnce() -> R) -> R {
    let _mark = InClosure::enter();
    f()
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("device", &self.allocation.handle().core.name)
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish()
    }
}
