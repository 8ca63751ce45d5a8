//! What of a stream's room is taken: each call that puts something on it takes an entry until that has run.
//!
//! A stream holds 1,020 entries behind what does not go on: launches, graphs of any size, copies and memsets of any length, writes
//! and waits take one each (an H200, driver 580.159.04, 2026-11-30: calls of each kind behind a `cuStreamWaitValue64`, until one
//! did not return). The next call waits inside CUDA, for as long as the entries do; behind a wait for a device that is lost that is for
//! ever, with rig's locks held. So room counts, and answers Later before a call would wait.
//!
//! # Invariants
//!
//! 1. Only the hot calls touch it, and one runs at a time: the atomics are for `&self`, and none orders anything.
//! 2. A value takes at least one entry, so fewer than [`RING`] values are in flight, and each finds its place in the ring.
//! 3. What is counted is never less than what is on the stream: an entry counts until the word shows its value.

use std::sync::atomic::{AtomicU64, Ordering};

/// The most entries in flight: what a stream holds, less some for what a fill puts there.
pub(crate) const ENTRIES_MOST: u64 = 900;

/// The places of the ring: a power of two above [`ENTRIES_MOST`].
const RING: u64 = 1024;

/// The entries of a device's stream.
pub(crate) struct Entries {
    /// All that were ever put.
    all: AtomicU64,
    /// By value: all that had been put with it and before it.
    with: Box<[AtomicU64]>,
    /// What the value takes that room has let through.
    next: AtomicU64,
}

impl Entries {
    pub fn new() -> Entries {
        let with = (0..RING).map(|_| AtomicU64::new(0)).collect();
        Entries { all: AtomicU64::new(0), with, next: AtomicU64::new(0) }
    }

    /// How many are in flight where the word shows `shown`, a value of the device or what its word held before the first.
    #[inline]
    pub fn in_flight(&self, shown: u64) -> u64 {
        self.all.load(Ordering::Relaxed) - self.of(shown).load(Ordering::Relaxed)
    }

    /// Notes what the next value takes.
    #[inline]
    pub fn set_next(&self, entries: u64) {
        self.next.store(entries, Ordering::Relaxed);
    }

    /// Counts the next value's.
    #[inline]
    pub fn put(&self, value: u64) {
        let all = self.all.load(Ordering::Relaxed) + self.next.load(Ordering::Relaxed).max(1);
        self.all.store(all, Ordering::Relaxed);
        self.of(value).store(all, Ordering::Relaxed);
    }

    #[inline]
    fn of(&self, value: u64) -> &AtomicU64 {
        // PANIC: below the length.
        &self.with[(value % RING) as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn what_is_in_flight_is_what_was_put_and_not_yet_shown() {
        let entries = Entries::new();
        let start = 5_000_000_007;
        let (mut last, mut shown, mut plain) = (start, start, VecDeque::new());
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut most = 0;
        for _ in 0..200_000 {
            let next = 1 + draw(4);
            let in_flight = entries.in_flight(shown);
            assert_eq!(in_flight, plain.iter().sum::<u64>());
            if in_flight + next <= ENTRIES_MOST && draw(20) > 0 {
                last += 1;
                entries.set_next(next);
                entries.put(last);
                plain.push_back(next);
                most = most.max(last - shown);
            } else if shown < last {
                let ends = 1 + draw(last - shown);
                shown += ends;
                plain.drain(..ends as usize);
            }
        }
        assert!(most > ENTRIES_MOST / 4, "{most}");
    }
}
