//! Copies and memsets of whole buffers, and the staging copies behind closures over memory that the host cannot address.
//!
//! # Invariants
//!
//! 1. Bytes are touched by the host only under holds of their allocations, taken together (see [`hold`]).
//! 2. A staging buffer is known to its call alone until the call returns it.

use std::ptr;

use rig_edge::{Access, Memory};

use crate::bulk;
use crate::error::invalid;
use crate::hold::{self, Hold, Want};
use crate::mapped;
use crate::profile::{self, HostWork};
use crate::submit::submit_holding;
use crate::{Buffer, Device, Point, Result};

/// The most bytes that one staging copy holds at a time: large enough that its fixed cost vanishes in the copy's, small
/// beside what devices hold.
const STAGE_BYTES: usize = 32 << 20;

/// How a copy went.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let (a, b) = (device.buffer(64)?, device.buffer(64)?);
/// match a.copy_to(&b)?.path {
///     rig::CopyPath::Nothing => println!("they are the same bytes, or none"),
///     path => println!("by way of {path:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyPath {
    /// There was nothing to copy.
    Nothing,
    /// On a queue of the device.
    Queue,
    /// On a queue of one device, which reaches the other's memory as a peer's.
    Peer,
    /// By the host, which addresses both.
    Host,
    /// By the host, through memory that it and the device address.
    Staging,
}

/// What came of [`Buffer::copy_to`].
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let (a, b) = (device.buffer(64)?, device.buffer(64)?);
/// let copied = a.copy_to(&b)?;
/// if let Some(point) = copied.point {
///     point.wait()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// How it went.
    pub path: CopyPath,
    /// The point of the copy where a queue runs it; `None` where it is done.
    pub point: Option<Point>,
}

/// See [`Buffer::copy_to`].
pub(crate) fn copy(from: &Buffer, to: &Buffer) -> Result<Copied> {
    let what =
        |copied: &Result<Copied>| copied.as_ref().ok().map(|copied| (HostWork::Copy(copied.path), from.len() as u64));
    profile::host(&to.handle().core.name, || copy_by_some_path(from, to), what)
}

fn copy_by_some_path(from: &Buffer, to: &Buffer) -> Result<Copied> {
    if from.len() != to.len() {
        return invalid!("a copy from {} bytes to {}: the buffers have the same length", from.len(), to.len());
    }
    if from.is_empty() {
        from.open()?;
        to.open()?;
        return Ok(Copied { path: CopyPath::Nothing, point: None });
    }
    let (a, b) = (from.allocation().as_ptr(), to.allocation().as_ptr());
    let same = ptr::eq(a, b);
    let overlap = same && from.offset().abs_diff(to.offset()) < from.len();
    if from.device() == to.device() && from.device().facts().kinds().copy && !overlap {
        return Ok(Copied { path: CopyPath::Queue, point: Some(queue_copy(from, to, false)?) });
    }
    from.open()?;
    to.open()?;
    if rig_edge::callback::inside() {
        return invalid!(
            "a fill or a kernel cannot copy a buffer between devices or by the host: copy before or after"
        );
    }
    if !same && let Some(point) = peer_copy(from, to)? {
        return Ok(Copied { path: CopyPath::Peer, point: Some(point) });
    }
    let read = Want { allocation: from.allocation(), write: false, whole: false };
    let write = Want { allocation: to.allocation(), write: true, whole: to.is_whole() && !same };
    let held = if same { hold::hold(&[write])? } else { hold::hold(&[read, write])? };
    let path = copy_held(from, to)?;
    if to.is_whole() && !same && !to.host().is_null() {
        held.iter().filter(|hold| hold.is_of(to.allocation())).for_each(Hold::wrote_whole);
    }
    Ok(Copied { path, point: None })
}

/// Copies on the queue of the device that gets the bytes, else of the one that has them, where it reaches the other's memory
/// as a peer's; `None` where neither does.
fn peer_copy(from: &Buffer, to: &Buffer) -> Result<Option<Point>> {
    let (source, target) = (from.device(), to.device());
    if target.facts().kinds().copy
        && let Some(from) = mapped::borrow_as_peer(from, &target)?
    {
        return queue_copy(&from, to, false).map(Some);
    }
    if source.facts().kinds().copy
        && let Some(to) = mapped::borrow_as_peer(to, &source)?
    {
        return queue_copy(from, &to, false).map(Some);
    }
    Ok(None)
}

/// Copies under the caller's holds of both.
fn copy_held(from: &Buffer, to: &Buffer) -> Result<CopyPath> {
    if !from.host().is_null() && !to.host().is_null() {
        // SAFETY: both ranges lie inside their allocations, whose holds keep everybody else away; `copy` allows overlap.
        #[expect(unsafe_code, reason = "moves bytes that the holds protect")]
        unsafe {
            bulk::copy(from.slot().host, to.slot().host, from.len());
        }
        return Ok(CopyPath::Host);
    }
    if ptr::eq(from.allocation().as_ptr(), to.allocation().as_ptr()) {
        // Overlapping ranges of one allocation: all of it out, then all of it in, by the one device.
        stage_in(&stage_out(from)?, &to.reached_as(from))?;
        return Ok(CopyPath::Staging);
    }
    for start in (0..from.len()).step_by(STAGE_BYTES) {
        let range = start..from.len().min(start + STAGE_BYTES);
        let (from, to) = (from.view(range.clone())?, to.view(range)?);
        let readable = if from.host().is_null() { stage_out(&from)? } else { from };
        host_to_buffer(bytes_of(&readable), &to)?;
    }
    Ok(CopyPath::Staging)
}

/// The bytes of a host-addressed buffer, under the caller's hold or known to the caller alone.
fn bytes_of(buffer: &Buffer) -> &[u8] {
    // SAFETY: the range is inside the allocation, initialised, and nothing writes it: a hold or invariant 2 says so.
    #[expect(unsafe_code, reason = "reads bytes that a hold protects")]
    unsafe {
        std::slice::from_raw_parts(buffer.slot().host, buffer.len())
    }
}

/// A staging buffer with the bytes of `buffer`, under the caller's hold of it.
pub(crate) fn stage_out(buffer: &Buffer) -> Result<Buffer> {
    let staged = staging(&buffer.device(), buffer.len())?;
    queue_copy(buffer, &staged, true)?.wait()?;
    Ok(staged)
}

/// Copies a staging buffer's bytes into `buffer`, under the caller's hold of it.
pub(crate) fn stage_in(staged: &Buffer, buffer: &Buffer) -> Result<()> {
    queue_copy(staged, buffer, true)?.wait()
}

fn staging(device: &Device, len: usize) -> Result<Buffer> {
    let staged = device.buffer_in(Memory::Pinned, len)?;
    if staged.host().is_null() {
        let core = &device.handle.core;
        core.lose("its driver made Pinned memory that the host does not address");
        return Err(core.lost_error());
    }
    Ok(staged)
}

/// Writes a buffer from host bytes of the same length, under the caller's hold.
pub(crate) fn host_to_buffer(from: &[u8], to: &Buffer) -> Result<()> {
    if !to.host().is_null() {
        // SAFETY: the range is inside the allocation and the caller's hold keeps everybody else away. A caller's slice
        // may lie in the same memory only inside a closure over it, and then the hold would not have been given.
        #[expect(unsafe_code, reason = "writes bytes that a hold protects")]
        unsafe {
            bulk::copy(from.as_ptr(), to.slot().host, from.len());
        }
        return Ok(());
    }
    for (index, chunk) in from.chunks(STAGE_BYTES).enumerate() {
        let start = index * STAGE_BYTES;
        let staged = staging(&to.device(), chunk.len())?;
        host_to_buffer(chunk, &staged)?;
        stage_in(&staged, &to.view(start..start + chunk.len())?)?;
    }
    Ok(())
}

/// Reads a buffer into host bytes of the same length, under the caller's hold.
pub(crate) fn buffer_to_host(from: &Buffer, to: &mut [u8]) -> Result<()> {
    if !from.host().is_null() {
        let (from, len) = (bytes_of(from), to.len());
        assert_eq!(from.len(), len, "a copy is between ranges of one length");
        // SAFETY: both slices hold `len` bytes; the one is borrowed to be read, the other alone to be written.
        #[expect(unsafe_code, reason = "moves bytes between two slices")]
        unsafe {
            bulk::copy(from.as_ptr(), to.as_mut_ptr(), len);
        }
        return Ok(());
    }
    for (index, chunk) in to.chunks_mut(STAGE_BYTES).enumerate() {
        let start = index * STAGE_BYTES;
        let staged = stage_out(&from.view(start..start + chunk.len())?)?;
        chunk.copy_from_slice(bytes_of(&staged));
    }
    Ok(())
}

/// See [`Buffer::memset`].
pub(crate) fn memset(buffer: &Buffer, byte: u8) -> Result<()> {
    if buffer.is_empty() {
        return buffer.open();
    }
    let device = buffer.device();
    if device.facts().kinds().memset {
        device.submission().memset(0, byte).make()?.take().submit(&[buffer])?;
        return Ok(());
    }
    let held = buffer.hold(Access::Write, true)?;
    if buffer.host().is_null() {
        let chunk = vec![byte; buffer.len().min(STAGE_BYTES)];
        for start in (0..buffer.len()).step_by(STAGE_BYTES) {
            let end = buffer.len().min(start + STAGE_BYTES);
            host_to_buffer(&chunk[..end - start], &buffer.view(start..end)?)?;
        }
        return Ok(());
    }
    // SAFETY: the range is inside the allocation and the hold is a writer's.
    #[expect(unsafe_code, reason = "writes bytes that a hold protects")]
    unsafe {
        ptr::write_bytes(buffer.slot().host, byte, buffer.len());
    }
    if buffer.is_whole() {
        held.iter().for_each(Hold::wrote_whole);
    }
    Ok(())
}

/// Copies on the device's queue; with `own_hold`, under holds that the caller has.
fn queue_copy(from: &Buffer, to: &Buffer, own_hold: bool) -> Result<Point> {
    let submission = from.device().submission().copy(0, 1).make()?;
    submit_holding(&mut submission.take(), &[from, to], own_hold)
}
