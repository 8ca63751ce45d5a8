//! A device's memory: regions, the cache, small buffers that share regions, and the rounds of reclamation.
//!
//! # Invariants
//!
//! 1. Everything here is under the device's memory lock, a leaf: no driver is called under it, and no other lock taken but
//!    that of the list of exported regions.
//! 2. `live + cached` never passes the budget by an allocation: bytes are reserved before the driver is asked, and what
//!    makes room for them has gone to the driver before (C18).
//! 3. A region is in one place: used by one allocation, a slab, the cache, or on its way to the driver.
//! 4. Memory goes back to the cache only once the words show every stamp of it (C31).
//! 5. A buffer above [`SMALL_MAX`] takes a region of at most a sixteenth more than its bytes. The exception is one that
//!    serves a last round because its mapping for a lost device keeps it from going to the driver.
//! 6. A slab is made only while no other of its class has a free granule. So a class takes no more slabs than the most of
//!    its buffers that lived at one time fill; one that is empty serves any class.
//!
//! So an allocation fails only where its bytes and the most that 5 and 6 let the others take pass the budget, which the
//! traces of tests/pressure hold against an oracle, or where the driver has no memory.
//!
//! # Why this allocator
//!
//! Programs of the kind that rig serves allocate the same few sizes again and again, so a cache of whole regions (a
//! `BTreeMap` from size to regions, best fit) answers in a lock and a look-up, and never has to merge. No region is split, so
//! the only loss is inside a region, and what does not fit can always go back to the driver: no order of allocations and
//! drops strands memory, as it would in a general allocator over large regions (TLSF, buddies). There a buffer would also be
//! no region of its own, which mapping it for another device or the host wants. The price is a call of the driver where no
//! cached region fits.
//!
//! Sizes are rounded to a sixteenth of their power of two, so that sizes that grow a little find what the last one left,
//! and a cached region serves what is up to a sixteenth smaller. At nine tenths of the budget, with the bytes taken for one
//! asked and the driver allocs of an allocation (docs/performance.md has the rest):
//!
//! | a region serves down to | a dozen sizes | any magnitude | uniform |
//! | --- | --- | --- | --- |
//! | its own size | 1.01, 0.30 | 1.02, 0.40 | 1.00, 0.98 |
//! | a sixteenth less | 1.02, 0.31 | 1.03, 0.36 | 1.01, 0.87 |
//! | a quarter less | 1.02, 0.31 | 1.05, 0.30 | 1.04, 0.69 |
//!
//! A quarter would save calls where sizes hardly repeat, but then four fifths of a budget are all that is sure to be had.
//! With a sixteenth, nine tenths are.
//!
//! The last round gives the driver as much of the cache as the allocation lacks, and at least an eighth of it, the fewest
//! regions first. All of it, as before, took a fifth more driver allocs (0.37 for a dozen sizes).
//!
//! Small buffers share slabs of [`SLAB_BYTES`] in classes of powers of two: a driver's own unit is a page or more, and
//! millions of small buffers must live.

mod rounds;
mod slab;

use std::collections::{BTreeMap, VecDeque};
use std::ptr;
use std::sync::Arc;

use rig_edge::erased::AnyRegion;
use rig_edge::{Facts, Location, Memory};

pub(crate) use self::slab::SMALL_MAX;
use self::slab::{SLAB_BYTES, Slab};
use crate::Result;
use crate::allocation::{AllocationRef, Dropped, Place};
use crate::device::Handle;
use crate::error::invalid;
use crate::host::HostOwner;
use crate::mapped::Mapped;
use crate::primitive::{Condvar, Mutex, process_wide};
use crate::timeline::Stamp;

/// How many tries an allocation makes (C17): as things are, after taking back what has completed, after waiting for what
/// was dropped and still runs, after giving the cache back.
pub(crate) const ROUNDS: usize = 4;

/// A buffer above [`SMALL_MAX`] takes at most one part in so many more than its bytes. With a sixteenth, nine tenths of a
/// budget in such buffers can always be had.
const SPARE: usize = 16;

/// Where an allocation makes cached regions go to the driver, at least one part in so many of the cache goes, so that not
/// each of a run of allocations must wait for work before.
const GIVEN: u64 = 8;

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

process_wide! {
    /// Regions that PCI functions may reach for as long as the process lives, and that no buffer uses any more. Its lock is
    /// taken under devices' memory locks, and nothing is done under it.
    fn exported() -> Mutex<Vec<Box<Region>>> { Mutex::new(Vec::new()) }
}

/// The memory of one device. Guarded by the device's memory lock.
pub(crate) struct Pool {
    pub(crate) budget: u64,
    pub(crate) live: u64,
    pub(crate) cached: u64,
    /// Those of the cached bytes that are on their way to the driver.
    going: u64,
    /// Told when none is on its way any more.
    given: Arc<Condvar>,
    granule: usize,
    #[expect(clippy::vec_box, reason = "a region keeps its box from use to use")]
    bins: [BTreeMap<usize, Vec<Box<Region>>>; KINDS],
    /// Slabs with a used and a free granule, by kind and class. Raw, because allocations point to them too.
    partial: [Vec<Vec<*mut Region>>; KINDS],
    /// Slabs of which nothing is used: cached, and for any class.
    #[expect(clippy::vec_box, reason = "a region keeps its box from use to use")]
    empty: [Vec<Box<Region>>; KINDS],
    /// Dropped allocations that work may still use, oldest first.
    pending: VecDeque<Dropped>,
    /// Mappings of callers' memory that nothing uses any more, on their way to the driver.
    #[expect(clippy::vec_box, reason = "a region keeps its box from use to use")]
    pub(crate) unwrapped: Vec<Box<Region>>,
}

// SAFETY: the raw pointers are regions that this pool owns: made by Box::into_raw, freed by it alone.
#[expect(unsafe_code, reason = "owned regions that allocations point to as well")]
unsafe impl Send for Pool {}

/// Cached regions that go to the driver for an allocation.
struct Trade {
    #[expect(clippy::vec_box, reason = "a region keeps its box from use to use")]
    regions: Vec<Box<Region>>,
    /// The bytes that are reserved for the allocation.
    bytes: u64,
    /// The bytes of all the regions.
    taken: u64,
}

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
            going: 0,
            given: Arc::default(),
            granule,
            bins: Default::default(),
            partial: std::array::from_fn(|_| vec![Vec::new(); classes]),
            empty: Default::default(),
            pending: VecDeque::new(),
            unwrapped: Vec::new(),
        }
    }

    /// Whether all memory but that of buffers is back with the driver.
    pub(crate) fn is_back(&self) -> bool {
        self.cached == 0 && self.pending.is_empty() && self.unwrapped.is_empty()
    }

    /// The class of a small buffer; `None` for one with a region of its own.
    fn class(&self, len: usize) -> Option<usize> {
        let granules = len.div_ceil(self.granule).next_power_of_two();
        (granules * self.granule <= SMALL_MAX).then(|| granules.ilog2() as usize)
    }

    /// Finds what serves a buffer, or reserves bytes for a region that will.
    fn find(&mut self, kind: usize, len: usize) -> Found {
        let Some(class) = self.class(len) else { return self.find_whole(kind, len) };
        self.take_partial(kind, class).map_or_else(|| self.find_slab(kind, class), Found::Place)
    }

    /// A place in a shared region with a free granule, if there is any of that class.
    fn take_partial(&mut self, kind: usize, class: usize) -> Option<Place> {
        let &region = self.partial[kind][class].last()?;
        // SAFETY: regions in `partial` are this pool's, and the memory lock, under which this runs, excludes others.
        #[expect(unsafe_code, reason = "a region that allocations point to as well")]
        let of = unsafe { &mut *region };
        // PANIC: only slabs stand in `partial`.
        let slab = of.slab.as_mut().expect("a partial region is a slab");
        let offset = slab.take();
        if slab.is_full() {
            self.partial[kind][class].pop();
        }
        Some(place(region, &of.location, offset))
    }

    /// The place of the first small buffer of that class in a region that was made for it. If another thread has made one
    /// meanwhile, that serves, and this one is kept for any class (invariant 6).
    fn begin_shared(&mut self, class: usize, region: Box<Region>) -> Place {
        match self.take_partial(region.kind, class) {
            None => self.begin(region),
            Some(place) => {
                self.live -= SLAB_BYTES as u64;
                self.cached += SLAB_BYTES as u64;
                self.empty[region.kind].push(region);
                place
            }
        }
    }

    fn find_slab(&mut self, kind: usize, class: usize) -> Found {
        if let Some(mut region) = self.empty[kind].pop() {
            let granule = self.granule << class;
            // PANIC: only slabs stand in `empty`.
            region.slab.as_mut().expect("an empty region is a slab").begin(class, granule, &region.location);
            self.cached -= SLAB_BYTES as u64;
            self.live += SLAB_BYTES as u64;
            return Found::Place(self.begin(region));
        }
        self.reserve(SLAB_BYTES)
    }

    /// The place of the first buffer in a region that serves it alone or, if it is a slab, others after it.
    fn begin(&mut self, mut region: Box<Region>) -> Place {
        let (kind, location) = (region.kind, region.location);
        let offset = region.slab.as_mut().map_or(0, Slab::take);
        let shared = region.slab.as_ref().filter(|slab| !slab.is_full()).map(|slab| slab.class);
        let region = Box::into_raw(region);
        if let Some(class) = shared {
            self.add_partial(kind, class, region);
        }
        place(region, &location, offset)
    }

    fn add_partial(&mut self, kind: usize, class: usize, region: *mut Region) {
        let partial = &mut self.partial[kind][class];
        // SAFETY: the region is this pool's, the lock is held, and the caller uses no reference into it any more.
        #[expect(unsafe_code, reason = "a region that allocations point to as well")]
        if let Some(slab) = unsafe { &mut (*region).slab } {
            slab.at = partial.len();
        }
        partial.push(region);
    }

    fn find_whole(&mut self, kind: usize, len: usize) -> Found {
        let most = len.saturating_add(len / SPARE);
        let fit = self.bins[kind].range(len..=most).next().map(|(&size, _)| size);
        let Some(size) = fit else {
            return self.reserve(rounded(len));
        };
        let region = self.take_cached(kind, size);
        self.cached -= size as u64;
        self.live += size as u64;
        Found::Place(self.begin(region))
    }

    /// A cached region of at least these bytes, however large, that could not go back to the driver for its mappings' sake.
    fn find_stuck(&mut self, kind: usize, len: usize) -> Option<Place> {
        let stuck = |bin: &[Box<Region>]| bin.last().is_some_and(|region| !region.mappings.is_empty());
        let size = self.bins[kind].range(len..).find(|(_, bin)| stuck(bin)).map(|(&size, _)| size)?;
        let region = self.take_cached(kind, size);
        self.cached -= size as u64;
        self.live += size as u64;
        Some(self.begin(region))
    }

    fn take_cached(&mut self, kind: usize, size: usize) -> Box<Region> {
        // PANIC: the caller found the size, and an empty bin is removed at once.
        let bin = self.bins[kind].get_mut(&size).expect("the bin was just found");
        let region = bin.pop().expect("a bin is never empty");
        if bin.is_empty() {
            self.bins[kind].remove(&size);
        }
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
        let (kind, class, was_full) = (region.kind, slab.class, slab.is_full());
        slab.give(offset);
        if slab.is_empty() {
            let at = (!was_full).then_some(slab.at);
            self.set_empty(kind, class, at, place.region);
        } else if was_full {
            self.add_partial(kind, class, place.region);
        }
    }

    /// Puts a slab of which nothing is used any more with the cache; `at` is its place among its class, if it has one.
    fn set_empty(&mut self, kind: usize, class: usize, at: Option<usize>, region: *mut Region) {
        if let Some(at) = at {
            let partial = &mut self.partial[kind][class];
            partial.swap_remove(at);
            if let Some(&moved) = partial.get(at) {
                // SAFETY: as in `find`, and it is another region than the one that was taken out.
                #[expect(unsafe_code, reason = "a region that allocations point to as well")]
                if let Some(slab) = unsafe { &mut (*moved).slab } {
                    slab.at = at;
                }
            }
        }
        self.live -= SLAB_BYTES as u64;
        self.cached += SLAB_BYTES as u64;
        // SAFETY: no granule is used, so no allocation points to it; it was made by Box::into_raw.
        #[expect(unsafe_code, reason = "the region returns to its box")]
        self.empty[kind].push(unsafe { Box::from_raw(region) });
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
            Origin::Exported => exported().lock().push(region),
        }
    }

    /// Takes everything cached out, to be given back to the driver. Its bytes still count as cached until then.
    #[expect(clippy::vec_box, reason = "a region keeps its box from use to use")]
    fn take_cache(&mut self) -> Vec<Box<Region>> {
        let bins = self.bins.iter_mut().flat_map(std::mem::take).flat_map(|(_, bin)| bin);
        let out: Vec<_> = bins.chain(self.empty.iter_mut().flat_map(std::mem::take)).collect();
        self.going += out.iter().map(|region| region.len as u64).sum::<u64>();
        out
    }

    /// The last round's try for a buffer of that kind, or for code: what serves it or is reserved for it, or the regions that
    /// are to go for it and for no more than its own bytes.
    fn find_or_trade(&mut self, buffer: Option<usize>, len: usize) -> std::result::Result<Found, Trade> {
        if let Some(kind) = buffer {
            match self.find(kind, len) {
                Found::Full => {}
                found => return Ok(found),
            }
            // Small buffers get a slab if there can be one, so that the next ones need no round.
            if self.class(len).is_some()
                && let Some(trade) = self.trade(SLAB_BYTES as u64)
            {
                return Err(trade);
            }
        }
        self.trade(len as u64).map_or(Ok(Found::Full), Err)
    }

    /// Whether bytes would fit, but for cached regions that are on their way to the driver.
    fn is_on_its_way(&self, bytes: u64) -> bool {
        self.going > 0 && self.live.saturating_add(bytes) <= self.budget
    }

    /// Takes cached regions out that are to go to the driver for `bytes` that are not there, and reserves those: the bytes
    /// count as live from now on, and what the regions have beyond them as cached until they are gone. `None` where the
    /// budget has no room, or too much of the cache is already on its way.
    fn trade(&mut self, bytes: u64) -> Option<Trade> {
        let over = self.live.saturating_add(bytes).saturating_add(self.cached).saturating_sub(self.budget);
        if over > self.cached - self.going {
            return None;
        }
        let over = if over == 0 { 0 } else { over.max((self.cached - self.going) / GIVEN) };
        let (mut regions, mut taken) = (Vec::new(), 0);
        while taken < over
            && let Some(region) = self.take_about(over - taken)
        {
            taken += region.len as u64;
            regions.push(region);
        }
        self.live += bytes;
        self.cached -= taken.min(bytes);
        self.going += taken - taken.min(bytes);
        Some(Trade { regions, bytes, taken })
    }

    /// The smallest cached region of at least `bytes`, or else the largest.
    fn take_about(&mut self, bytes: u64) -> Option<Box<Region>> {
        let least = usize::try_from(bytes).unwrap_or(usize::MAX);
        let sizes = |kind: usize| self.bins[kind].range(least..).next().map(|(&size, _)| (size, kind));
        let enough = (0..KINDS).filter_map(sizes).min();
        let largest = || (0..KINDS).filter_map(|kind| Some((*self.bins[kind].last_key_value()?.0, kind))).max();
        let Some((size, kind)) = enough.or_else(largest) else {
            return self.empty.iter_mut().find_map(Vec::pop);
        };
        Some(self.take_cached(kind, size))
    }

    /// Puts a region back that the driver could not be asked to free.
    fn put_back(&mut self, region: Box<Region>) {
        match &region.slab {
            None => self.bins[region.kind].entry(region.len).or_default().push(region),
            Some(_) => self.empty[region.kind].push(region),
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
    core.check_open()?;
    let place = if len == 0 { Place::NONE } else { core.place(memory, len)? };
    Ok(AllocationRef::new(Arc::clone(handle), len, place))
}
