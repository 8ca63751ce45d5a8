//! Timelines: what the whole process knows of every word, and which values have failed.
//!
//! A timeline is a word's slot in the process-wide table. It outlives the devices that use it one after the other, and
//! its values only rise over all of them, so a stamp or a point is a slot number and a value: plain data that counts
//! nothing and never dangles.
//!
//! # Invariants
//!
//! 1. A value is reached once the word shows it, unless it failed. A value that was ever reached is never failed: a loss
//!    reads the word after it has announced itself, and a reader looks for the announcement after it has read the word.
//! 2. A failed value stays failed for ever, whatever the word shows: failures are kept with the slot and only ever added.
//! 3. Whether memory can be touched is asked of the word alone ([`word_shows`]), never of failures (C31).
//!
//! # Memory ordering
//!
//! Invariant 1 stands on the order of four SeqCst operations: the loss stores the announcement, then reads the word; a
//! reader reads the word, then the announcement. A reader that misses the announcement read the word before the loss
//! did, so the loss's reading is no lower.

mod failures;

use std::sync::{Arc, Weak};

use rig_edge::{WORDS_MAX, WordIndex, Words};

use crate::device::Core;
use crate::primitive::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::primitive::{Mutex, process_wide};

use self::failures::{Failures, Reasons};

/// No slot: the stamp of memory that nobody has used.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// A value of a slot. Plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    pub(crate) slot: u32,
    pub(crate) value: u64,
}

/// Who was lost, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lost {
    pub(crate) device: Arc<str>,
    pub(crate) why: Arc<str>,
}

impl Lost {
    /// Whether the texts are the very same memory.
    fn is_same(&self, other: &Lost) -> bool {
        Arc::ptr_eq(&self.device, &other.device) && Arc::ptr_eq(&self.why, &other.why)
    }
}

impl From<Lost> for crate::Error {
    fn from(lost: Lost) -> crate::Error {
        crate::Error::Lost { device: lost.device.to_string(), why: lost.why }
    }
}

/// How a value stands.
#[derive(Debug)]
pub(crate) enum State {
    Reached,
    Pending,
    Failed(Lost),
}

/// One slot of the table.
struct TimelineSlot {
    failed: AtomicBool,
    failures: Mutex<Failures>,
    device: Mutex<Weak<Core>>,
}

struct Free {
    /// Slots that were used and are free again.
    again: Vec<u32>,
    /// The first slot that was never used.
    fresh: u32,
}

/// The process's timelines.
pub(crate) struct Timelines {
    /// How many slots have failures, or a loss that looks whether there are any.
    with_failures: AtomicU32,
    slots: Box<[TimelineSlot]>,
    free: Mutex<Free>,
    /// Taken under a slot's failures.
    reasons: Mutex<Reasons>,
}

process_wide! {
    /// The timelines of the process.
    pub(crate) fn timelines() -> Timelines { Timelines::new() }
}

/// The number of slots: one a word.
const SLOTS: usize = WORDS_MAX;

impl Timelines {
    fn new() -> Timelines {
        let slot = || TimelineSlot {
            failed: AtomicBool::new(false),
            failures: Mutex::new(Failures::default()),
            device: Mutex::new(Weak::new()),
        };
        Timelines {
            with_failures: AtomicU32::new(0),
            slots: std::iter::repeat_with(slot).take(SLOTS).collect(),
            free: Mutex::new(Free { again: Vec::new(), fresh: 0 }),
            reasons: Mutex::new(Reasons::default()),
        }
    }

    /// Takes a slot: one that was never used if `fresh`, else any. `None` if all are taken.
    pub(crate) fn claim(&self, fresh: bool) -> Option<u32> {
        let mut free = self.free.lock();
        if !fresh && let Some(slot) = free.again.pop() {
            return Some(slot);
        }
        let slot = free.fresh;
        if slot as usize == self.slots.len() {
            return if fresh { None } else { free.again.pop() };
        }
        free.fresh += 1;
        Some(slot)
    }

    /// Gives a slot back, once nothing writes its word any more.
    pub(crate) fn release(&self, slot: u32) {
        *self.slot(slot).device.lock() = Weak::new();
        self.free.lock().again.push(slot);
    }

    pub(crate) fn attach(&self, slot: u32, core: &Arc<Core>) {
        *self.slot(slot).device.lock() = Arc::downgrade(core);
    }

    /// The device that uses the slot now.
    pub(crate) fn device(&self, slot: u32) -> Option<Arc<Core>> {
        self.slot(slot).device.lock().upgrade()
    }

    fn slot(&self, slot: u32) -> &TimelineSlot {
        // PANIC: slots come from `claim`, which gives only those that there are.
        &self.slots[slot as usize]
    }

    /// Whether any value of any device has failed since the process began. One load; false costs a submit nothing more.
    #[inline]
    pub(crate) fn any_failed(&self) -> bool {
        self.with_failures.load(Ordering::SeqCst) != 0
    }

    /// Fails every value of the slot above what its word shows: the announcement first, then the reading (invariant 1).
    pub(crate) fn fail_unreached(&self, slot: u32, lost: &Lost) {
        let of = self.slot(slot);
        let mut failures = of.failures.lock();
        self.announce(of);
        failures.fail_from(shown(slot) + 1, lost);
    }

    /// Fails one value of the slot, unless its word already shows it or it has failed. True if it failed now.
    pub(crate) fn fail_value(&self, slot: u32, value: u64, lost: &Lost) -> bool {
        let of = self.slot(slot);
        let mut failures = of.failures.lock();
        self.announce(of);
        let fails = shown(slot) < value && failures.fail(value, self.reasons.lock().kept(lost));
        self.settle(of, &failures);
        fails
    }

    /// Tells readers to look for failures. Called under the slot's lock.
    fn announce(&self, of: &TimelineSlot) {
        if !of.failed.swap(true, Ordering::SeqCst) {
            self.with_failures.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Takes the announcement back if nothing failed after all, so that a device that closes in peace leaves nobody
    /// slower. Called under the slot's lock.
    fn settle(&self, of: &TimelineSlot, failures: &Failures) {
        if failures.is_empty() && of.failed.swap(false, Ordering::SeqCst) {
            self.with_failures.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Ends the open range of a lost device at its last value, so that the slot's next device starts clean.
    pub(crate) fn end_failures(&self, slot: u32, last: u64) {
        let of = self.slot(slot);
        let mut failures = of.failures.lock();
        failures.end(last, |lost| self.reasons.lock().kept(lost));
        self.settle(of, &failures);
    }

    /// The failure of a value, if it failed.
    pub(crate) fn failure(&self, stamp: Stamp) -> Option<Lost> {
        let of = self.slot(stamp.slot);
        if !of.failed.load(Ordering::SeqCst) {
            return None;
        }
        of.failures.lock().of(stamp.value).cloned()
    }

    /// How a value stands: the word first, the failures second.
    #[inline]
    pub(crate) fn state(&self, stamp: Stamp) -> State {
        let reached = word_shows(stamp);
        if self.any_failed()
            && let Some(lost) = self.failure(stamp)
        {
            return State::Failed(lost);
        }
        if reached { State::Reached } else { State::Pending }
    }
}

/// What the slot's word shows.
#[inline]
pub(crate) fn shown(slot: u32) -> u64 {
    Words::get().word(WordIndex::new(slot as usize)).load()
}

/// Whether the word shows the stamp's value: then no work up to it touches memory any more. For a device with a word of
/// its own, [`Core::refresh`] brings that into the table first.
#[inline]
pub(crate) fn word_shows(stamp: Stamp) -> bool {
    shown(stamp.slot) >= stamp.value
}
