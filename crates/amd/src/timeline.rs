//! Which values are in flight, and how much of the rings each took: what the word frees.
//!
//! # When a ring's bytes are free
//!
//! What a value took is free once the word shows the value and the GPU's read position has passed it, and at the latest once
//! the word shows a later value: then the GPU has taken a packet behind all of it. Kernels read arguments while they run, so
//! for them the word alone tells.

use crate::queue::Queues;

/// How many values may be in flight.
const MOST: usize = 4096;

/// What the rings' positions were at the end of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ends {
    compute: u64,
    copier: u64,
    arguments: u64,
}

/// The values in flight: the ends of those after the word, and of the last that it showed.
#[derive(Debug)]
pub(crate) struct Flights {
    ends: Box<[Ends]>,
    /// The last value given to `submit`.
    last: u64,
    /// The last value that the word was seen to show.
    shown: u64,
}

impl Flights {
    /// No value is in flight after `start`.
    pub fn new(start: u64) -> Flights {
        Flights { ends: vec![Ends::default(); MOST].into(), last: start, shown: start }
    }

    /// The last value.
    #[inline]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether no more values may be in flight. Two places are kept: of the last shown value, and of the one before.
    #[inline]
    pub fn are_full(&self) -> bool {
        self.last - self.shown >= MOST as u64 - 2
    }

    #[inline]
    fn place(value: u64) -> usize {
        (value % MOST as u64) as usize
    }

    /// Frees what the word shows to be done.
    pub fn see(&mut self, word: u64, queues: &mut Queues) {
        let word = word.min(self.last);
        if word <= self.shown {
            // The read positions may have moved.
            let end = self.ends[Self::place(self.shown)];
            return free(queues, end);
        }
        let before = self.ends[Self::place(word - 1)];
        // The value before was never here where it was the one before the device's first, and its ends are then zeros.
        queues.compute.ring.free_to(before.compute);
        queues.copier.ring.free_to(before.copier);
        self.shown = word;
        free(queues, self.ends[Self::place(word)]);
    }

    /// Notes the next value, which ends where the rings are now.
    #[inline]
    pub fn note(&mut self, value: u64, queues: &Queues) {
        self.last = value;
        self.ends[Self::place(value)] = Ends {
            compute: queues.compute.ring.write(),
            copier: queues.copier.ring.write(),
            arguments: queues.arguments.ring.write(),
        };
    }
}

/// Frees what ends at `end`, as far as the GPU has taken it.
fn free(queues: &mut Queues, end: Ends) {
    let (compute, copier) = (queues.compute.read(), queues.copier.read());
    queues.compute.ring.free_to(end.compute.min(compute));
    queues.copier.ring.free_to(end.copier.min(copier));
    queues.arguments.ring.free_to(end.arguments);
}
