//! The rounds of an allocation: taking memory back, waiting for it, giving the cache to the driver.
//!
//! # Threads
//!
//! Drivers are called and waits made with no lock held. So one thread may find the cache empty while another still gives it
//! to the driver: bytes on their way are counted, and the last round waits for them rather than fail. It also reserves an
//! allocation's bytes under the lock under which it takes out the regions that make room for them, so that no other thread
//! can take that room in between.

use std::sync::Arc;
use std::time::Duration;

use rig_edge::erased::AnyRegion;
use rig_edge::{Location, Memory, WORD_BYTES};

use super::slab::{SLAB_BYTES, Slab};
use super::{Found, Origin, Pool, ROUNDS, Region, Trade, kind};
use crate::allocation::Place;
use crate::device::{Core, Retired};
use crate::events;
use crate::profile::{self, HostWork};
use crate::timeline::{Stamp, word_shows};
use crate::{Error, Result};

/// How often the round that waits looks again: what a dropped submission keeps comes back only after the submission has,
/// and may itself be in use.
const PASSES: usize = 4;

/// How long one wait for regions lasts that another thread gives to the driver, and how many such waits are made.
/// TIMEOUT: a driver frees a region within milliseconds, and the wait ends with it; after two seconds an allocation would
/// rather fail than hang with it.
const GOING: Duration = Duration::from_millis(50);
const GOING_WAITS: usize = 40;

/// What a try came to.
enum Tried {
    Place(Place),
    /// The budget has no room.
    Full,
    /// The driver has no memory.
    Refused,
}

impl Core {
    /// Finds memory for `len` bytes, with up to [`ROUNDS`] rounds.
    pub(super) fn place(&self, memory: Memory, len: usize) -> Result<Place> {
        let no_memory = Error::OutOfMemory { bytes: len as u64 };
        let Some(words) = len.checked_next_multiple_of(WORD_BYTES).filter(|&n| n <= isize::MAX as usize) else {
            return Err(no_memory);
        };
        let kind = kind(memory);
        let mut refused = false;
        for round in 0..ROUNDS - 1 {
            self.reclaim(round);
            let found = self.pool.lock().find(kind, words);
            match self.make(memory, words, found)? {
                Tried::Place(place) => return Ok(place),
                Tried::Full => {}
                Tried::Refused => refused = true,
            }
        }
        // As much of the cache as the budget lacks. Where the driver has no memory, nobody knows how much: then all of it.
        if !refused {
            match self.make(memory, words, self.claim(Some(kind), words))? {
                Tried::Place(place) => return Ok(place),
                Tried::Full => {}
                Tried::Refused => refused = true,
            }
        }
        self.give_all_back(refused);
        match self.make(memory, words, self.claim(Some(kind), words))? {
            Tried::Place(place) => return Ok(place),
            Tried::Full | Tried::Refused => {}
        }
        let stuck = self.pool.lock().find_stuck(kind, words);
        stuck.ok_or_else(|| {
            events::out_of_memory(self, len as u64);
            no_memory
        })
    }

    /// One round of reclamation, 0 to 3: see [`ROUNDS`].
    pub(crate) fn reclaim(&self, round: usize) {
        if round == 0 {
            return self.take_back(false);
        }
        let rounds = || {
            self.sweep_retired();
            match round {
                1 => self.take_back(true),
                2 => self.wait_for_dropped(),
                _ => self.give_all_back(true),
            }
        };
        profile::host(&self.name, rounds, |()| Some((HostWork::Reclaim, 0)));
        events::reclaimed(self, round);
    }

    /// Gives the driver all that is not used, and can wait until what other threads give it is there too.
    fn give_all_back(&self, wait: bool) {
        self.take_back(true);
        self.give_cache_back();
        if wait {
            self.wait_for_going();
        }
    }

    /// Waits for the work that uses what was dropped: buffers, and submissions with what they keep.
    fn wait_for_dropped(&self) {
        for _ in 0..PASSES {
            self.take_back(true);
            let mut unshown = self.pool.lock().unshown();
            unshown.extend(self.retired.lock().iter().filter_map(|retired| match retired {
                Retired::Submission(end) => Some(Stamp { slot: self.slot, value: end.last }),
                Retired::Image(_) => None,
            }));
            unshown.retain(|stamp| !word_shows(*stamp));
            if unshown.is_empty() {
                break;
            }
            for stamp in unshown {
                crate::wait::wait_shown(stamp);
            }
            self.sweep_retired();
        }
        self.take_back(true);
    }

    /// Waits until no region is on its way to the driver.
    fn wait_for_going(&self) {
        let mut pool = self.pool.lock();
        for _ in 0..GOING_WAITS {
            if pool.going == 0 {
                break;
            }
            let given = Arc::clone(&pool.given);
            pool = given.wait_timeout(pool, GOING);
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
            let freed = self.free_unused(region);
            let mut pool = self.pool.lock();
            pool.going -= len;
            match freed {
                Ok(_) => pool.cached -= len,
                Err(region) => pool.put_back(region),
            }
            if pool.going == 0 {
                pool.given.notify_all();
            }
        }
        self.give_wrapped_back();
        self.pool.lock().is_back()
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

    /// The last round's try: finds what serves a buffer of that kind (or code, which no cached region serves), or reserves
    /// bytes for it, for which cached regions go to the driver.
    fn claim(&self, buffer: Option<usize>, len: usize) -> Found {
        let mut pool = self.pool.lock();
        for _ in 0..GOING_WAITS {
            let found = pool.find_or_trade(buffer, len);
            match found {
                Err(trade) => {
                    drop(pool);
                    return self.carry_out(trade);
                }
                Ok(Found::Full) if pool.is_on_its_way(len as u64) => {}
                Ok(found) => return found,
            }
            let given = Arc::clone(&pool.given);
            pool = given.wait_timeout(pool, GOING);
        }
        Found::Full
    }

    /// Frees the regions of a trade. If some cannot be freed now, there is no room.
    fn carry_out(&self, trade: Trade) -> Found {
        let left: Vec<_> = trade.regions.into_iter().filter_map(|region| self.free_unused(region).err()).collect();
        let mut pool = self.pool.lock();
        let beyond = trade.taken - trade.taken.min(trade.bytes);
        pool.going -= beyond;
        pool.cached -= beyond;
        pool.given.notify_all();
        if left.is_empty() {
            return Found::Reserved(trade.bytes as usize);
        }
        pool.live -= trade.bytes;
        for region in left {
            pool.cached += region.len as u64;
            pool.put_back(region);
        }
        Found::Full
    }

    /// Makes a region where bytes were reserved for one.
    fn make(&self, memory: Memory, len: usize, found: Found) -> Result<Tried> {
        let bytes = match found {
            Found::Place(place) => return Ok(Tried::Place(place)),
            Found::Full => return Ok(Tried::Full),
            Found::Reserved(bytes) => bytes,
        };
        let made = self.counted(|driver| driver.alloc(memory, bytes));
        let Ok(Some((any, location))) = made else {
            self.pool.lock().live -= bytes as u64;
            return made.map(|_| Tried::Refused);
        };
        self.check_aligned(&location, bytes)?;
        events::tell!(trace, "a driver made memory", device = &*self.name, memory = memory.name(), bytes = bytes);
        let mut pool = self.pool.lock();
        let granule = pool.granule;
        let class = pool.class(len).filter(|_| bytes == SLAB_BYTES);
        let slab = class.map(|class| Slab::new(class, granule << class, &location));
        let region = Box::new(Region { kind: kind(memory), slab, ..Region::new(any, location, bytes, Origin::Made) });
        Ok(Tried::Place(match class {
            Some(class) => pool.begin_shared(class, region),
            None => pool.begin(region),
        }))
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
            let last = round + 1 == ROUNDS;
            let found = if last { self.claim(None, len) } else { self.pool.lock().reserve(len) };
            if !matches!(found, Found::Reserved(_)) {
                continue;
            }
            match self.counted(|driver| driver.alloc(memory, len)) {
                Ok(Some(made)) => return Ok(made),
                other => {
                    self.pool.lock().live -= len as u64;
                    other?;
                }
            }
        }
        events::out_of_memory(self, len as u64);
        Err(Error::OutOfMemory { bytes: len as u64 })
    }
}
