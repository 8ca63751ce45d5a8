//! Mappings: memory of one device as another device reaches it, with no copy.
//!
//! A borrow is another region of the same allocation: one set of stamps and one count of holds, so work of both devices is
//! ordered by the memory as work of one is.
//!
//! # Invariants
//!
//! 1. A mapping belongs to a region: all buffers in the region share it, and it stays for later buffers while the region is
//!    in the cache, since making one costs a driver far more than keeping it.
//! 2. A mapping is freed before its region is, and only where no work of its device can use it: when the region goes back
//!    to its driver, whose memory came back by the words of every device that used it; or when the mapping's device is
//!    stopped and its word shows the end.
//! 3. Each mapping is freed once, by whoever takes its region out, and the mapped region is freed by nobody meanwhile.
//! 4. A device's mappings are known to it before the counted call that made them is left, so its end misses none.

use std::sync::{Arc, Weak};

use rig_edge::erased::{AnyDriver, AnyRegion};
use rig_edge::{Dma, Fault, Location, Mapping};

use crate::buffer::Buffer;
use crate::device::{Core, Handle};
use crate::error::invalid;
use crate::memory::{Origin, ROUNDS};
use crate::primitive::Mutex;
use crate::{Device, Error, Result, peer};

/// A region of `core` over memory of another device.
pub(crate) struct Mapped {
    core: Weak<Core>,
    pub(crate) way: Way,
    /// Where the mapped region's first byte lies for `core`.
    pub(crate) location: Location,
    state: Mutex<State>,
}

/// How one device reaches another's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As a peer: the driver maps its other device's memory.
    Peer,
    /// The host addresses the memory, and the driver maps memory that the host addresses.
    Host,
}

enum State {
    Mapped(AnyRegion),
    Freeing,
    Freed,
}

/// What makes a buffer a borrow: the device that reaches the memory, and where it does.
pub(crate) struct Via {
    pub(crate) handle: Arc<Handle>,
    /// Where the allocation's first byte lies for the device.
    pub(crate) device_address: u64,
    /// Where the region lies; `None` for an allocation of no bytes.
    pub(crate) location: Option<Location>,
}

impl Mapped {
    /// Frees the mapping, unless its driver may not be called now. True once it is freed.
    pub(crate) fn free(self: &Arc<Mapped>) -> bool {
        let Some(core) = self.core.upgrade() else {
            // A device goes only after it has freed its mappings.
            return true;
        };
        let region = match &mut *self.state.lock() {
            State::Freed => return true,
            State::Freeing => return false,
            state => std::mem::replace(state, State::Freeing),
        };
        let State::Mapped(region) = region else { return false };
        match core.free_region(region) {
            Ok(()) => {
                *self.state.lock() = State::Freed;
                core.mappings.lock().remove(&Arc::as_ptr(self).addr());
                true
            }
            Err(region) => {
                *self.state.lock() = State::Mapped(region);
                false
            }
        }
    }
}

/// See [`Buffer::borrow`].
pub(crate) fn borrow(buffer: &Buffer, device: &Device) -> Result<Buffer> {
    let home = buffer.allocation().handle();
    device.handle.core.check_open()?;
    home.core.check_open()?;
    if rig_edge::callback::inside() {
        return invalid!("a fill or a kernel cannot borrow a buffer: borrow it before");
    }
    if Arc::ptr_eq(&device.handle, home) {
        return Ok(buffer.reached_by(None));
    }
    let known = find(buffer, &device.handle.core, None);
    let mapped = match known {
        Found::Empty => {
            let via = Via { handle: Arc::clone(&device.handle), device_address: 0, location: None };
            return Ok(buffer.reached_by(Some(Arc::new(via))));
        }
        Found::Mapped(mapped) => mapped,
        Found::Not => map(buffer, device)?,
    };
    let borrow = through(buffer, &mapped, device);
    let (at, alignment) = (borrow.slot().device - borrow.offset() as u64, device.facts().alignment);
    if !at.is_multiple_of(alignment as u64) {
        return Err(Error::Refused(format!(
            "{device} reaches this memory of {} at {at:#x}, off its alignment of {alignment} bytes: make the buffer on {device} \
             and borrow it for {}, or use copy_to",
            home.core.name, home.core.name
        )));
    }
    Ok(borrow)
}

/// As [`borrow`], but only as a peer; `None` where the devices are no peers.
pub(crate) fn borrow_as_peer(buffer: &Buffer, device: &Device) -> Result<Option<Buffer>> {
    let (core, home) = (&device.handle.core, &buffer.allocation().handle().core);
    if Arc::ptr_eq(core, home) {
        return Ok(Some(buffer.reached_by(None)));
    }
    if !core.driver.peer(&*home.driver) {
        return Ok(None);
    }
    let mapped = match find(buffer, core, Some(Way::Peer)) {
        Found::Empty => return Ok(None),
        Found::Mapped(mapped) => mapped,
        Found::Not => match map_peer(buffer, device)? {
            Ok(mapped) => mapped,
            Err(_) => return Ok(None),
        },
    };
    Ok(Some(through(buffer, &mapped, device)))
}

/// The buffer as the mapping's device reaches it.
pub(crate) fn through(buffer: &Buffer, mapped: &Mapped, device: &Device) -> Buffer {
    let device_address =
        if mapped.location.device == 0 { 0 } else { mapped.location.device + buffer.allocation_in_region() };
    let via = Via { handle: Arc::clone(&device.handle), device_address, location: Some(mapped.location) };
    buffer.reached_by(Some(Arc::new(via)))
}

enum Found {
    /// The buffer has no bytes, and so no region.
    Empty,
    Mapped(Arc<Mapped>),
    Not,
}

/// The region's mapping for `core`, if it has one (of this way).
fn find(buffer: &Buffer, core: &Arc<Core>, way: Option<Way>) -> Found {
    // The trial of a pair maps memory too, in a region that later buffers may share: it serves nobody unless bytes move.
    let moves = peer::moves(&buffer.allocation().handle().core, core);
    let mut pool = buffer.allocation().handle().core.pool.lock();
    let Some(region) = pool.region(buffer.allocation()) else { return Found::Empty };
    let of_core = |mapped: &&Arc<Mapped>| std::ptr::eq(mapped.core.as_ptr(), Arc::as_ptr(core));
    let mut mappings = region.mappings.iter().filter(of_core).filter(|mapped| moves || mapped.way != Way::Peer);
    match mappings.find(|mapped| way.is_none_or(|way| way == mapped.way)) {
        Some(mapped) => Found::Mapped(Arc::clone(mapped)),
        None => Found::Not,
    }
}

/// Maps the buffer's region for the device: as a peer where they are, else by the host's addresses.
fn map(buffer: &Buffer, device: &Device) -> Result<Arc<Mapped>> {
    let (core, home) = (&device.handle.core, &buffer.allocation().handle().core);
    let mut why = Vec::new();
    if core.driver.peer(&*home.driver) {
        match map_peer(buffer, device)? {
            Ok(mapped) => return Ok(mapped),
            Err(reason) => why.push(reason),
        }
    } else {
        why.push(format!("{} is no peer of {}", core.name, home.name));
    }
    match map_host(buffer, device)? {
        Ok(mapped) => return Ok(mapped),
        Err(reason) => why.push(reason),
    }
    Err(Error::Refused(format!(
        "{} cannot reach this memory of {} without a copy ({}): use copy_to",
        core.name,
        home.name,
        why.join("; ")
    )))
}

/// What a way came to: the mapping, or why there is none.
pub(crate) type Outcome = std::result::Result<Arc<Mapped>, String>;

/// Maps as a peer, once the pair of devices was seen to move bytes.
fn map_peer(buffer: &Buffer, device: &Device) -> Result<Outcome> {
    match peer::check(buffer.allocation().handle(), device)? {
        Ok(()) => map_peer_unchecked(buffer, device),
        Err(why) => Ok(Err(why)),
    }
}

/// Maps as a peer, whatever is known of the pair.
pub(crate) fn map_peer_unchecked(buffer: &Buffer, device: &Device) -> Result<Outcome> {
    let home = &buffer.allocation().handle().core;
    let Some((region, _, _)) = region_of(buffer) else { return Ok(Err("it has no bytes".into())) };
    mapping(buffer, device, Way::Peer, 0, |driver| {
        // SAFETY: the region is in use by the buffer that the caller lends, and is freed only after its mappings
        // (invariant 2), which this one joins before the buffer can go.
        #[expect(unsafe_code, reason = "the debt of map_peer is paid here")]
        unsafe {
            driver.map_peer(&*home.driver, &region)
        }
    })
}

fn map_host(buffer: &Buffer, device: &Device) -> Result<Outcome> {
    let core = &device.handle.core;
    let Some((_, location, len)) = region_of(buffer) else { return Ok(Err("it has no bytes".into())) };
    if location.host.is_null() {
        return Ok(Err("the host does not address it".into()));
    }
    if !core.facts.maps_host {
        return Ok(Err(format!("{} maps no host memory", core.name)));
    }
    let before = location.host.addr() % rig_edge::page_bytes();
    let start = location.host.wrapping_sub(before);
    mapping(buffer, device, Way::Host, before, |driver| {
        // SAFETY: `start` is rounded down to a page and the length is positive. The pages hold bytes of the region, so
        // they stay allocated as long as it, and it is freed only after its mappings (invariant 2).
        #[expect(unsafe_code, reason = "the debt of map_host is paid here")]
        unsafe {
            driver.map_host(start, len + before)
        }
    })
}

/// The driver's region behind a buffer, where it lies, and its bytes.
fn region_of(buffer: &Buffer) -> Option<(Arc<AnyRegion>, Location, usize)> {
    let mut pool = buffer.allocation().handle().core.pool.lock();
    let region = pool.region(buffer.allocation())?;
    Some((Arc::clone(&region.any), region.location, region.len))
}

/// Asks the driver for a mapping, with rounds of reclamation on its device, and gives it to the buffer's region, whose first
/// byte lies `skip` bytes into what the driver mapped.
fn mapping(
    buffer: &Buffer,
    device: &Device,
    way: Way,
    skip: usize,
    call: impl Fn(&dyn AnyDriver) -> std::result::Result<Mapping<(AnyRegion, Location)>, Fault>,
) -> Result<Outcome> {
    let core = &device.handle.core;
    let made = core.map_in_rounds(buffer.allocation().len, |driver| {
        Ok(match call(driver)? {
            Mapping::Mapped((region, location)) => Mapping::Mapped(core.adopt(region, forward(location, skip), way)),
            Mapping::NoMemory => Mapping::NoMemory,
            Mapping::Never(why) => Mapping::Never(why),
        })
    })?;
    Ok(made.map(|mapped| settle(buffer, mapped, way)))
}

/// The place `bytes` after `location`.
fn forward(location: Location, bytes: usize) -> Location {
    Location {
        device: if location.device == 0 { 0 } else { location.device + bytes as u64 },
        host: if location.host.is_null() { location.host } else { location.host.wrapping_add(bytes) },
        ..location
    }
}

/// Notes the mapping with the region, unless another thread did so first: then theirs serves, and this one is freed.
fn settle(buffer: &Buffer, mapped: Arc<Mapped>, way: Way) -> Arc<Mapped> {
    let first = {
        let mut pool = buffer.allocation().handle().core.pool.lock();
        // PANIC: the buffer has bytes, since its region was mapped.
        let region = pool.region(buffer.allocation()).expect("a buffer with bytes has a region");
        // The mappings of devices that are gone were freed by their ends.
        region.mappings.retain(|other| other.core.strong_count() > 0);
        let same = |other: &&Arc<Mapped>| Weak::ptr_eq(&other.core, &mapped.core) && other.way == way;
        let first = region.mappings.iter().find(same).cloned();
        if first.is_none() {
            region.mappings.push(Arc::clone(&mapped));
        }
        first
    };
    let Some(first) = first else { return mapped };
    if !mapped.free() {
        // Its device is shut, and frees it at its end. The region must not go before.
        let mut pool = buffer.allocation().handle().core.pool.lock();
        if let Some(region) = pool.region(buffer.allocation()) {
            region.mappings.push(mapped);
        }
    }
    first
}

impl Core {
    /// Asks the driver for a mapping of `len` bytes, with rounds of reclamation: the mapping, or why there can be none.
    pub(crate) fn map_in_rounds<T>(
        &self,
        len: usize,
        call: impl Fn(&dyn AnyDriver) -> std::result::Result<Mapping<T>, Fault>,
    ) -> Result<std::result::Result<T, String>> {
        for round in 0..ROUNDS {
            self.reclaim(round);
            match self.counted(&call)? {
                Mapping::Mapped(mapped) => return Ok(Ok(mapped)),
                Mapping::Never(why) => return Ok(Err(why)),
                Mapping::NoMemory => {}
            }
        }
        Err(Error::OutOfMemory { bytes: len as u64 })
    }

    /// Makes the mapping known to its device. Called inside the counted call that made it (invariant 4).
    fn adopt(self: &Arc<Core>, region: AnyRegion, location: Location, way: Way) -> Arc<Mapped> {
        let state = Mutex::new(State::Mapped(region));
        let mapped = Arc::new(Mapped { core: Arc::downgrade(self), way, location, state });
        self.mappings.lock().insert(Arc::as_ptr(&mapped).addr(), Arc::clone(&mapped));
        mapped
    }

    /// Frees the device's mappings of other devices' memory, once it is over. True if none is left.
    pub(crate) fn free_mappings(&self) -> bool {
        let mappings: Vec<_> = self.mappings.lock().values().cloned().collect();
        mappings.iter().filter(|mapped| !mapped.free()).count() == 0
    }
}

/// See [`Buffer::dma`].
pub(crate) fn dma(buffer: &Buffer, function: &str) -> Result<Dma> {
    let core = &buffer.allocation().handle().core;
    if rig_edge::callback::inside() {
        return invalid!("a fill or a kernel cannot give the PCI function {function} access to memory: do it before");
    }
    if buffer.is_borrow() {
        return invalid!(
            "a borrow gives no PCI function access: ask the buffer of {}, which owns the memory",
            core.name
        );
    }
    let any = {
        let mut pool = core.pool.lock();
        let Some(region) = pool.region(buffer.allocation()) else {
            return invalid!("a buffer of no bytes has no memory for the PCI function {function} to reach");
        };
        if region.is_shared() {
            return invalid!(
                "the {} bytes share a region with other small buffers, which {function} would reach too: make a buffer of \
                 more than {} bytes",
                buffer.allocation().len,
                crate::memory::SMALL_MAX
            );
        }
        if matches!(region.origin, Origin::Wrapped(_)) {
            return invalid!("{} did not make this memory: it gives {function} access to its own alone", core.name);
        }
        Arc::clone(&region.any)
    };
    let answer = core.counted(|driver| driver.dma(&any, function))?;
    drop(any);
    let dma = answer
        .map_err(|why| Error::Refused(format!("{} gives the PCI function {function} no access: {why}", core.name)))?;
    Ok(match dma {
        Dma::Bus(ranges) => {
            if let Some(region) = core.pool.lock().region(buffer.allocation()) {
                region.origin = Origin::Exported;
            }
            Dma::Bus(part_of(&ranges, buffer.in_region(), buffer.len() as u64))
        }
        Dma::DmaBuf { descriptor, offset } => Dma::DmaBuf { descriptor, offset: offset + buffer.in_region() },
        other => other,
    })
}

/// The part of the ranges, laid end to end, that starts at `skip` and has `len` bytes.
fn part_of(ranges: &[(u64, u64)], mut skip: u64, mut len: u64) -> Vec<(u64, u64)> {
    let mut part = Vec::new();
    for &(start, bytes) in ranges {
        let before = skip.min(bytes);
        let taken = (bytes - before).min(len);
        if taken > 0 {
            part.push((start + before, taken));
        }
        (skip, len) = (skip - before, len - taken);
    }
    part
}

#[cfg(all(test, not(rig_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_view_gets_the_bus_ranges_of_its_own_bytes_alone() {
        let ranges = [(0x1000, 0x100), (0x8000, 0x100), (0x4000, 0x100)];
        assert_eq!(part_of(&ranges, 0, 0x300), ranges);
        assert_eq!(part_of(&ranges, 0x80, 0x100), [(0x1080, 0x80), (0x8000, 0x80)]);
        assert_eq!(part_of(&ranges, 0x100, 4), [(0x8000, 4)]);
        assert_eq!(part_of(&ranges, 0x2ff, 0), []);
    }
}
