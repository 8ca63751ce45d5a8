//! A device's memory: regions, the cache, small buffers that share regions, and the rounds of reclamation.
//!
//! # Invariants
//!
//! 1. Everything here is under the device's memory lock, a leaf: no driver is called and no other lock taken under it.
//! 2. `live + cached` never passes the budget by an allocation: bytes are reserved before the driver is asked (C18).
//! 3. A region is in one place: used by one allocation, a slab, the cache, or on its way to the driver.
//! 4. Memory goes back to the cache only once the words show every stamp of it (C31).
//!
//! # Why this allocator
//!
//! Programs of the kind that rig serves allocate the same few sizes again and again, so an exact-size cache of whole
//! regions (a `BTreeMap` from size to regions, best fit) answers in a lock and a look-up, and never has to merge. Sizes
//! are rounded to a sixteenth of their power of two, so that sizes that grow a little find what the last one left. Small
//! buffers share slabs of [`SLAB_BYTES`] in classes of powers of two: a driver's own unit is a page or more, and millions
//! of small buffers must live. A general allocator over large regions (TLSF, buddies) would pack tighter, but a buffer
//! would no longer be a region of its own, which mapping it for another device or the host wants.

use std::collections::{BTreeMap, VecDeque};
use std::ptr;
use std::sync::Arc;

use rig_edge::erased::AnyRegion;
use rig_edge::{Facts, Location, Memory, WORD_BYTES};

use crate::allocation::{AllocationRef, Dropped, Place};
use crate::device::{Core, Handle};
use crate::error::invalid;
use crate::host::HostOwner;
use crate::mapped::Mapped;
use crate::timeline::Stamp;
use crate::{Error, Result};

/// The bytes of a region that small buffers share: 1,024 of the smallest, in 16 pages of 4 KiB.
const SLAB_BYTES: usize = 64 * 1024;

/// The largest buffer that shares a region: a sixteenth of it, so that a slab's tail wastes little.
pub(crate) const SMALL_MAX: usize = SLAB_BYTES / 16;

/// How many tries an allocation makes (C17): as things are, after taking back what has completed, after waiting for what
/// was dropped and still runs, after giving the cache back.
pub(crate) const ROUNDS: usize = 4;

/// How many of the oldest dropped allocations one ordinary allocation looks at, so that it stays cheap while much runs.
const LOOKED_AT: usize = 16;

/// The kinds of memory, as indices.
const KINDS: usize = 3;

fn kind(memory: Memory) -> usize {
    match memory {
        Memory::Device => 0,
        Memory::Pinned => 1,
        _ => 2,
    }
}

/// A driver's region, as rig keeps it. All but `any` is touched under the memory lock of the device that it belongs to.
pub(crate) struct Region {
    /// Shared with a call that maps or exports the region, while a buffer keeps it in use.
    pub(crate) any: Arc<AnyRegion>,
    pub(crate) location: Location,
    pub(crate) len: usize,
    kind: usize,
    /// Where small buffers share the region.
    slab: Option<Slab>,
    /// How other devices reach it: freed before the region is.
    pub(crate) mappings: Vec<Arc<Mapped>>,
    pub(crate) origin: Origin,
}

/// Where a region's memory comes from, and with it where it goes.
pub(crate) enum Origin {
    /// The driver made it: it goes to the cache, and back to the driver.
    Made,
    /// It was mapped over memory of the caller's, whose owner is dropped once the mapping is freed.
    Wrapped(HostOwner),
    /// The driver made it, and some PCI function may reach it until the process ends: it is never used again (E36).
    Exported,
}

impl Region {
    /// A region with which nothing has happened yet.
    pub(crate) fn new(any: AnyRegion, location: Location, len: usize, origin: Origin) -> Region {
        Region { any: Arc::new(any), location, len, kind: 0, slab: None, mappings: Vec::new(), origin }
    }

    /// Whether several buffers share the region.
    pub(crate) fn is_shared(&self) -> bool {
        self.slab.is_some()
    }
}

/// The granules of a shared region.
struct Slab {
    class: usize,
    granule: usize,
    /// Granules that were used and are free again.
    again: Vec<u16>,
    /// The first granule that was never used.
    fresh: u16,
    used: u16,
    /// Where the first granule starts: the region may start off the granules' own alignment, and no two granules may share
    /// a cache line.
    skip: usize,
}

impl Slab {
    fn new(class: usize, granule: usize, location: &Location) -> Slab {
        let start = if location.host.is_null() { location.device as usize } else { location.host.addr() };
        let skip = start.next_multiple_of(granule) - start;
        Slab { class, granule, again: Vec::new(), fresh: 0, used: 0, skip }
    }

    fn count(&self) -> u16 {
        ((SLAB_BYTES - self.skip) / self.granule) as u16
    }

    fn is_full(&self) -> bool {
        self.used == self.count()
    }

    fn take(&mut self) -> usize {
        self.used += 1;
        let index = self.again.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        });
        self.skip + usize::from(index) * self.granule
    }
}

/// The memory of one device. Guarded by the device's memory lock.
pub(crate) struct Pool {
    pub(crate) budget: u64,
    pub(crate) live: u64,
    pub(crate) cached: u64,
    granule: usize,
    #[expect(clippy::vec_box, reason = "a region keeps its box from use to use")]
    bins: [BTreeMap<usize, Vec<Box<Region>>>; KINDS],
    /// Slabs with a free granule, by kind and class. Raw, because allocations point to them too.
    partial: [Vec<Vec<*mut Region>>; KINDS],
    /// Dropped allocations that work may still use, oldest first.
    pending: VecDeque<Dropped>,
    /// Mappings of callers' memory that nothing uses any more, on their way to the driver.
    #[expect(clippy::vec_box, reason = "a region keeps its box from use to use")]
    pub(crate) unwrapped: Vec<Box<Region>>,
}

// SAFETY: the raw pointers are regions that this pool owns: made by Box::into_raw, freed by it alone.
#[expect(unsafe_code, reason = "owned regions that allocations point to as well")]
unsafe impl Send for Pool {}

/// What a try found.
enum Found {
    Place(Place),
    /// Nothing cached fits; the bytes are reserved for a new region.
    Reserved(usize),
    /// The budget has no room.
    Full,
}

impl Pool {
    pub(crate) fn new(facts: &Facts) -> Pool {
        let granule = facts.alignment.max(facts.cache_bytes.unwrap_or(64)).max(64).next_power_of_two();
        let classes = if granule > SMALL_MAX { 0 } else { (SMALL_MAX / granule).ilog2() as usize + 1 };
        Pool {
            budget: facts.budget,
            live: 0,
            cached: 0,
            granule,
            bins: Default::default(),
            partial: std::array::from_fn(|_| vec![Vec::new(); classes]),
            pending: VecDeque::new(),
            unwrapped: Vec::new(),
        }
    }

    /// The class of a small buffer; `None` for one with a region of its own.
    fn class(&self, len: usize) -> Option<usize> {
        let granules = len.div_ceil(self.granule).next_power_of_two();
        (granules * self.granule <= SMALL_MAX).then(|| granules.ilog2() as usize)
    }

    fn find(&mut self, kind: usize, len: usize, round: usize) -> Found {
        let own_region = round + 1 == ROUNDS;
        match self.class(len) {
            Some(class) if !own_region || !self.partial[kind][class].is_empty() => self.find_small(kind, class),
            _ => self.find_whole(kind, len, round),
        }
    }

    fn find_small(&mut self, kind: usize, class: usize) -> Found {
        let Some(&region) = self.partial[kind][class].last() else {
            return self.reserve(SLAB_BYTES);
        };
        // SAFETY: regions in `partial` are this pool's, and the memory lock, under which this runs, excludes others.
        #[expect(unsafe_code, reason = "a region that allocations point to as well")]
        let of = unsafe { &mut *region };
        // PANIC: only slabs stand in `partial`.
        let slab = of.slab.as_mut().expect("a partial region is a slab");
        if slab.used == 0 {
            self.cached -= SLAB_BYTES as u64;
            self.live += SLAB_BYTES as u64;
        }
        let offset = slab.take();
        if slab.is_full() {
            self.partial[kind][class].pop();
        }
        Found::Place(place(region, &of.location, offset))
    }

    fn find_whole(&mut self, kind: usize, len: usize, round: usize) -> Found {
        // A much larger region is left for whom it fits: the last round gives it back and makes one of the right size.
        let fit = self.bins[kind].range(len..=len.saturating_add(len / 4)).next().map(|(&size, _)| size);
        let Some(size) = fit else {
            return self.reserve(if round + 1 == ROUNDS { len } else { rounded(len) });
        };
        let region = self.take_cached(kind, size);
        self.live += size as u64;
        let region = Box::into_raw(region);
        // SAFETY: just made from a box, and used by nobody else yet.
        #[expect(unsafe_code, reason = "a region leaves its box for its allocation")]
        let location = unsafe { &(*region).location };
        Found::Place(place(region, location, 0))
    }

    fn take_cached(&mut self, kind: usize, size: usize) -> Box<Region> {
        // PANIC: the caller found the size, and an empty bin is removed at once.
        let bin = self.bins[kind].get_mut(&size).expect("the bin was just found");
        let region = bin.pop().expect("a bin is never empty");
        if bin.is_empty() {
            self.bins[kind].remove(&size);
        }
        self.cached -= size as u64;
        region
    }

    fn reserve(&mut self, bytes: usize) -> Found {
        if self.live.saturating_add(self.cached).saturating_add(bytes as u64) > self.budget {
            return Found::Full;
        }
        self.live += bytes as u64;
        Found::Reserved(bytes)
    }

    /// The region of an allocation in use, which the caller keeps; `None` where it has no bytes.
    pub(crate) fn region(&mut self, allocation: &AllocationRef) -> Option<&mut Region> {
        // SAFETY: regions of allocations in use are this pool's, and are touched only under the pool's lock, which whoever
        // has `self` holds.
        #[expect(unsafe_code, reason = "a region that allocations point to as well")]
        unsafe {
            allocation.region.as_mut()
        }
    }

    /// Takes back what was dropped and whose stamps the words show: all of it, or only the oldest few.
    fn take_back(&mut self, all: bool) {
        let looked_at = if all { self.pending.len() } else { self.pending.len().min(LOOKED_AT) };
        for _ in 0..looked_at {
            // PANIC: no more are popped than there were.
            let mut dropped = self.pending.pop_front().expect("counted above");
            if dropped.stamps().all_shown() {
                self.cache(dropped.into_place());
            } else if all {
                self.pending.push_back(dropped);
            } else {
                self.pending.push_front(dropped);
                break;
            }
        }
    }

    /// Puts the memory of a dropped allocation where the next one finds it.
    fn cache(&mut self, place: Place) {
        if place.region.is_null() {
            return;
        }
        // SAFETY: the region belongs to this pool and the lock is held; the allocation that pointed to it is gone.
        #[expect(unsafe_code, reason = "a region that allocations point to as well")]
        let region = unsafe { &mut *place.region };
        let Some(slab) = &mut region.slab else {
            // SAFETY: a region without a slab is pointed to by one allocation alone, and was made by Box::into_raw.
            #[expect(unsafe_code, reason = "the region returns to its box")]
            let region = unsafe { Box::from_raw(place.region) };
            self.keep(region);
            return;
        };
        let offset = if place.host.is_null() {
            (place.device - region.location.device) as usize
        } else {
            place.host.addr() - region.location.host.addr()
        };
        if slab.is_full() {
            self.partial[region.kind][slab.class].push(place.region);
        }
        slab.again.push(((offset - slab.skip) / slab.granule) as u16);
        slab.used -= 1;
        if slab.used == 0 {
            self.live -= SLAB_BYTES as u64;
            self.cached += SLAB_BYTES as u64;
        }
    }

    /// Puts a whole region where its origin says.
    fn keep(&mut self, region: Box<Region>) {
        match region.origin {
            Origin::Made => {
                self.live -= region.len as u64;
                self.cached += region.len as u64;
                self.bins[region.kind].entry(region.len).or_default().push(region);
            }
            Origin::Wrapped(_) => self.unwrapped.push(region),
            // Leaked on purpose: a device function may write it for as long as the process lives.
            Origin::Exported => std::mem::forget(region),
        }
    }

    /// Takes everything cached out, to be given back to the driver. Its bytes still count as cached until then.
    #[expect(clippy::vec_box, reason = "a region keeps its box from use to use")]
    fn take_cache(&mut self) -> Vec<Box<Region>> {
        let mut out: Vec<_> = self.bins.iter_mut().flat_map(std::mem::take).flat_map(|(_, bin)| bin).collect();
        for slabs in self.partial.iter_mut().flatten() {
            slabs.retain(|&region| {
                // SAFETY: as in `find_small`.
                #[expect(unsafe_code, reason = "a region that allocations point to as well")]
                let used = unsafe { (*region).slab.as_ref().is_some_and(|slab| slab.used > 0) };
                if !used {
                    // SAFETY: no granule is used, so no allocation points to it; it was made by Box::into_raw.
                    #[expect(unsafe_code, reason = "the region returns to its box")]
                    out.push(unsafe { Box::from_raw(region) });
                }
                used
            });
        }
        out
    }

    /// Puts a region back that the driver could not be asked to free.
    fn put_back(&mut self, region: Box<Region>) {
        match &region.slab {
            None => self.bins[region.kind].entry(region.len).or_default().push(region),
            Some(slab) => self.partial[region.kind][slab.class].push(Box::into_raw(region)),
        }
    }

    /// The stamps that keep dropped memory from coming back.
    fn unshown(&mut self) -> Vec<Stamp> {
        let mut stamps: Vec<Stamp> = Vec::new();
        for stamp in self.pending.iter_mut().flat_map(|dropped| dropped.stamps().all()) {
            match stamps.iter_mut().find(|s| s.slot == stamp.slot) {
                Some(same) => same.value = same.value.max(stamp.value),
                None => stamps.push(stamp),
            }
        }
        stamps
    }
}

/// Where an allocation lies that starts `offset` bytes into a region.
fn place(region: *mut Region, location: &Location, offset: usize) -> Place {
    Place {
        device: if location.device == 0 { 0 } else { location.device + offset as u64 },
        host: if location.host.is_null() { ptr::null_mut() } else { location.host.wrapping_add(offset) },
        region,
    }
}

/// A length rounded up to a sixteenth of its power of two: at most 6.25% more.
fn rounded(len: usize) -> usize {
    let step = (1usize << len.ilog2().saturating_sub(4)).max(256);
    len.checked_next_multiple_of(step).unwrap_or(len)
}

/// A new allocation of `len` bytes.
///
/// # Errors
///
/// OutOfMemory after the rounds, Lost, and Invalid from a fill.
pub(crate) fn allocate(handle: &Arc<Handle>, memory: Memory, len: usize) -> Result<AllocationRef> {
    let core = &handle.core;
    if rig_edge::callback::inside() {
        return invalid!("{} makes no buffer inside a fill or a kernel: make it before the submit", core.name);
    }
    if core.gate.is_shut() {
        return Err(core.lost_error());
    }
    let place = if len == 0 { Place::NONE } else { core.place(memory, len)? };
    Ok(AllocationRef::new(Arc::clone(handle), len, place))
}

impl Core {
    /// Finds memory for `len` bytes, with up to [`ROUNDS`] tries.
    fn place(&self, memory: Memory, len: usize) -> Result<Place> {
        let no_memory = Error::OutOfMemory { bytes: len as u64 };
        let Some(words) = len.checked_next_multiple_of(WORD_BYTES).filter(|&n| n <= isize::MAX as usize) else {
            return Err(no_memory);
        };
        for round in 0..ROUNDS {
            self.reclaim(round);
            if let Some(place) = self.try_place(kind(memory), memory, words, round)? {
                return Ok(place);
            }
        }
        Err(no_memory)
    }

    /// One round of reclamation, 0 to 3: see [`ROUNDS`].
    pub(crate) fn reclaim(&self, round: usize) {
        match round {
            0 | 1 => self.take_back(round > 0),
            2 => {
                let unshown = self.pool.lock().unshown();
                for stamp in unshown {
                    crate::wait::wait_shown(stamp);
                }
                self.take_back(true);
            }
            _ => {
                self.take_back(true);
                self.give_cache_back();
            }
        }
        if round > 0 {
            self.sweep_retired();
        }
    }

    /// Moves what was dropped and has completed to the cache, and gives callers' memory back.
    pub(crate) fn take_back(&self, all: bool) {
        self.refresh();
        if all {
            crate::device::refresh_own_words();
        }
        let unwrapped = {
            let mut pool = self.pool.lock();
            self.take_back_into(&mut pool, all);
            !pool.unwrapped.is_empty()
        };
        if unwrapped {
            self.give_wrapped_back();
        }
    }

    fn take_back_into(&self, pool: &mut Pool, all: bool) {
        for mut dropped in self.take_dropped() {
            if dropped.stamps().all_shown() {
                pool.cache(dropped.into_place());
            } else {
                pool.pending.push_back(dropped);
            }
        }
        pool.take_back(all);
    }

    /// Gives every cached region back to the driver. True if no memory of dropped buffers is left with rig.
    pub(crate) fn give_cache_back(&self) -> bool {
        let regions = self.pool.lock().take_cache();
        for region in regions {
            let len = region.len as u64;
            match self.free_unused(region) {
                Ok(_) => self.pool.lock().cached -= len,
                Err(region) => self.pool.lock().put_back(region),
            }
        }
        self.give_wrapped_back();
        let pool = self.pool.lock();
        pool.cached == 0 && pool.pending.is_empty() && pool.unwrapped.is_empty()
    }

    /// Frees a region that no work uses, its mappings first, and gives its origin. Gives the region back if a driver may not
    /// be called now.
    pub(crate) fn free_unused(&self, mut region: Box<Region>) -> std::result::Result<Origin, Box<Region>> {
        region.mappings.retain(|mapped| !mapped.free());
        if !region.mappings.is_empty() {
            return Err(region);
        }
        // PANIC: others share it only while a buffer keeps the region in use.
        let any = Arc::into_inner(region.any).expect("an unused region is its pool's alone");
        match self.free_region(any) {
            Ok(()) => Ok(region.origin),
            Err(any) => {
                region.any = Arc::new(any);
                Err(region)
            }
        }
    }

    fn try_place(&self, kind: usize, memory: Memory, len: usize, round: usize) -> Result<Option<Place>> {
        let (bytes, class) = {
            let mut pool = self.pool.lock();
            let bytes = match pool.find(kind, len, round) {
                Found::Place(place) => return Ok(Some(place)),
                Found::Full => return Ok(None),
                Found::Reserved(bytes) => bytes,
            };
            (bytes, pool.class(len).filter(|_| round + 1 < ROUNDS))
        };
        let made = self.counted(|driver| driver.alloc(memory, bytes));
        let Ok(Some((any, location))) = made else {
            self.pool.lock().live -= bytes as u64;
            return made.map(|_| None);
        };
        self.check_aligned(&location, bytes)?;
        let mut pool = self.pool.lock();
        let granule = pool.granule;
        let slab = class.map(|class| Slab::new(class, granule << class, &location));
        let mut region = Box::new(Region { kind, slab, ..Region::new(any, location, bytes, Origin::Made) });
        let offset = region.slab.as_mut().map_or(0, Slab::take);
        let shared = region.slab.as_ref().map(|slab| slab.class);
        let region = Box::into_raw(region);
        if let Some(class) = shared {
            pool.partial[kind][class].push(region);
        }
        Ok(Some(place(region, &location, offset)))
    }

    /// A region off the device's alignment is the driver's fault: kernels may not run over it (M12, M18).
    fn check_aligned(&self, location: &Location, bytes: usize) -> Result<()> {
        let alignment = self.facts.alignment as u64;
        if location.device.is_multiple_of(alignment) && (location.host.addr() as u64).is_multiple_of(alignment) {
            return Ok(());
        }
        self.pool.lock().live -= bytes as u64;
        self.lose(format!(
            "the driver placed a region at {:#x} (host {:p}), off its alignment of {alignment}",
            location.device, location.host
        ));
        Err(self.lost_error())
    }

    /// The memory that a driver asks rig to place code in.
    pub(crate) fn place_code(&self, memory: Memory, len: usize) -> Result<(AnyRegion, Location)> {
        let len = len.next_multiple_of(WORD_BYTES);
        for round in 0..ROUNDS {
            self.reclaim(round);
            {
                let mut pool = self.pool.lock();
                if pool.live + pool.cached + len as u64 > pool.budget {
                    continue;
                }
                pool.live += len as u64;
            }
            match self.counted(|driver| driver.alloc(memory, len)) {
                Ok(Some(made)) => return Ok(made),
                other => {
                    self.pool.lock().live -= len as u64;
                    other?;
                }
            }
        }
        Err(Error::OutOfMemory { bytes: len as u64 })
    }
}
