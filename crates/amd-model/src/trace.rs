//! What ran, in which order: the last steps of every queue, as a test reads them.

use std::collections::VecDeque;

/// A thing that an engine did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Traced {
    /// The doorbell was seen.
    Rung {
        /// The queue.
        queue: u32,
        /// How far work is published: packets (AQL) or bytes (SDMA).
        to: u64,
    },
    /// A dispatch began.
    Launched {
        /// The queue.
        queue: u32,
        /// The packet.
        index: u64,
    },
    /// A dispatch has ended.
    Ended {
        /// The queue.
        queue: u32,
        /// The packet.
        index: u64,
    },
    /// A barrier packet, or an indirect buffer, has retired.
    Retired {
        /// The queue.
        queue: u32,
        /// The packet.
        index: u64,
    },
    /// A wait was satisfied.
    Waited {
        /// The queue.
        queue: u32,
        /// The word.
        va: u64,
    },
    /// A word was stored.
    Stored {
        /// The queue.
        queue: u32,
        /// The word.
        va: u64,
        /// What the 8 bytes around it hold now.
        value: u64,
    },
    /// A copy or a fill of the copy engine has ended.
    Moved {
        /// The queue.
        queue: u32,
        /// The packet's byte.
        index: u64,
        /// How many bytes it wrote.
        bytes: u64,
    },
    /// The clock was stored.
    Stamped {
        /// The queue.
        queue: u32,
        /// Where.
        va: u64,
    },
    /// The queue stopped for a fault.
    Stopped {
        /// The queue.
        queue: u32,
    },
}

/// Steps that are kept.
const KEPT: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Trace {
    steps: VecDeque<Traced>,
}

impl Trace {
    pub(crate) fn push(&mut self, step: Traced) {
        if self.steps.len() == KEPT {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &Traced> {
        self.steps.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.steps.clear();
    }
}
