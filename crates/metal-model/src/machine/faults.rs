//! What is to go wrong on a machine, and when.
//!
//! Each fault counts from the call that asks for it: 1 is the next of its kind.

use std::{
    collections::BTreeMap,
    ops::{RangeFrom, RangeFull, RangeInclusive},
    sync::atomic::Ordering,
};

use parking_lot::MutexGuard;

use super::Machine;
use crate::protocol::MTLCommandBufferError;

/// What can be refused, or throw an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum What {
    /// A buffer that Metal allocates.
    Buffer,
    /// A buffer over the program's own pages.
    HostBuffer,
    /// A command queue.
    Queue,
    /// A command buffer.
    CommandBuffer,
    /// An encoder.
    Encoder,
    /// A fence.
    Fence,
    /// A residency set.
    ResidencySet,
    /// A library.
    Library,
    /// A function of a library.
    Function,
    /// A pipeline.
    Pipeline,
    /// An indirect command buffer.
    IndirectCommandBuffer,
    /// A message that sets what a dispatch reads. It can throw alone.
    Set,
    /// A dispatch. It can throw alone.
    Dispatch,
    /// The end of an encoder. It can throw alone.
    EndEncoding,
    /// A commit of a command buffer. It can throw alone.
    Commit,
    /// A commit of a residency set. It can throw alone.
    CommitResidency,
}

/// Which of the calls of a kind: `1` is the next one, `2..=3` the two after it, `1..` all from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nth {
    from: u64,
    to: u64,
}

impl From<u64> for Nth {
    fn from(nth: u64) -> Self {
        Self { from: nth, to: nth }
    }
}

impl From<RangeFrom<u64>> for Nth {
    fn from(range: RangeFrom<u64>) -> Self {
        Self { from: range.start, to: u64::MAX }
    }
}

impl From<RangeInclusive<u64>> for Nth {
    fn from(range: RangeInclusive<u64>) -> Self {
        Self { from: *range.start(), to: *range.end() }
    }
}

impl From<RangeFull> for Nth {
    fn from(_: RangeFull) -> Self {
        Self { from: 1, to: u64::MAX }
    }
}

/// How a command buffer fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// Metal ended it because it ran too long.
    Timeout,
    /// Its work reached memory that is not there.
    PageFault,
    /// Metal had no memory for it.
    OutOfMemory,
    /// It used a resource that Metal does not know.
    InvalidResource,
    /// The GPU is gone.
    DeviceRemoved,
    /// The process may not use the GPU.
    NotPermitted,
    /// The process may not use the GPU any more.
    AccessRevoked,
    /// Its stacks overflowed.
    StackOverflow,
    /// Metal has no name for it.
    Internal,
}

impl Failure {
    /// Metal's code of it.
    #[must_use]
    pub fn code(self) -> MTLCommandBufferError {
        match self {
            Self::Timeout => MTLCommandBufferError::Timeout,
            Self::PageFault => MTLCommandBufferError::PageFault,
            Self::OutOfMemory => MTLCommandBufferError::OutOfMemory,
            Self::InvalidResource => MTLCommandBufferError::InvalidResource,
            Self::DeviceRemoved => MTLCommandBufferError::DeviceRemoved,
            Self::NotPermitted => MTLCommandBufferError::NotPermitted,
            Self::AccessRevoked => MTLCommandBufferError::AccessRevoked,
            Self::StackOverflow => MTLCommandBufferError::StackOverflow,
            Self::Internal => MTLCommandBufferError::Internal,
        }
    }

    /// What Metal's error says of it.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Timeout => "the command buffer ran too long, and was ended",
            Self::PageFault => "the GPU reached an address that no allocation holds",
            Self::OutOfMemory => "there is no memory to run the command buffer",
            Self::InvalidResource => "the command buffer used a resource that is not valid",
            Self::DeviceRemoved => "the GPU was removed",
            Self::NotPermitted => "the process may not use the GPU",
            Self::AccessRevoked => "the process may not use the GPU any more",
            Self::StackOverflow => "the stack of a function overflowed",
            Self::Internal => "the GPU failed",
        }
    }
}

/// What is asked of one kind of call.
#[derive(Default)]
struct Kind {
    /// Calls so far.
    calls: u64,
    /// Calls that fail, by their count since the machine was made.
    refused: Vec<Nth>,
    thrown: Vec<Nth>,
}

/// What is asked of a machine.
#[derive(Default)]
pub(crate) struct FaultState {
    kinds: BTreeMap<What, Kind>,
    /// Command buffers committed so far.
    committed: u64,
    failing: BTreeMap<u64, Failure>,
    pub(crate) misaligned: bool,
}

/// What a call is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Proceed,
    Refuse,
    Throw,
}

/// Asks for faults of a machine.
#[derive(Clone, Debug)]
pub struct Faults(pub(super) Machine);

impl Faults {
    /// The nth command buffer that is committed from now on fails, and runs nothing.
    pub fn fail_command_buffer(&self, nth: u64, failure: Failure) -> &Self {
        let mut state = self.0.0.faults.lock();
        let at = state.committed + nth.max(1);
        state.failing.insert(at, failure);
        self
    }

    /// Answers as if Metal could not make the nth of these objects.
    ///
    /// # Panics
    /// Where the call answers no object, and so cannot refuse.
    pub fn refuse(&self, what: What, nth: impl Into<Nth>) -> &Self {
        let refuses =
            !matches!(what, What::Set | What::Dispatch | What::EndEncoding | What::Commit | What::CommitResidency);
        assert!(refuses, "{what:?} answers nothing, so it cannot refuse; it can throw");
        let mut state = self.armed();
        let kind = state.kinds.entry(what).or_default();
        let nth = nth.into().counted_from(kind.calls);
        kind.refused.push(nth);
        self
    }

    /// Throws an Objective-C exception from the nth of these calls.
    pub fn throw(&self, what: What, nth: impl Into<Nth>) -> &Self {
        let mut state = self.armed();
        let kind = state.kinds.entry(what).or_default();
        let nth = nth.into().counted_from(kind.calls);
        kind.thrown.push(nth);
        self
    }

    /// Whether buffers are placed off a multiple of 256 bytes.
    pub fn misalign_buffers(&self, misaligned: bool) -> &Self {
        self.0.0.faults.lock().misaligned = misaligned;
        self
    }

    /// From now on calls are counted.
    fn armed(&self) -> MutexGuard<'_, FaultState> {
        self.0.0.armed.store(true, Ordering::Relaxed);
        self.0.0.faults.lock()
    }

    /// Forgets every fault that was asked for.
    pub fn clear(&self) -> &Self {
        let mut state = self.0.0.faults.lock();
        state.failing.clear();
        state.misaligned = false;
        for kind in state.kinds.values_mut() {
            kind.refused.clear();
            kind.thrown.clear();
        }
        self
    }
}

impl Nth {
    /// The same calls, counted from the machine's first.
    fn counted_from(self, calls: u64) -> Self {
        Self { from: calls.saturating_add(self.from), to: calls.saturating_add(self.to) }
    }

    fn holds(&self, call: u64) -> bool {
        (self.from..=self.to).contains(&call)
    }
}

impl FaultState {
    /// Counts a call, and says what it is to do.
    pub(crate) fn call(&mut self, what: What) -> Fate {
        let kind = self.kinds.entry(what).or_default();
        kind.calls += 1;
        if kind.thrown.iter().any(|nth| nth.holds(kind.calls)) {
            Fate::Throw
        } else if kind.refused.iter().any(|nth| nth.holds(kind.calls)) {
            Fate::Refuse
        } else {
            Fate::Proceed
        }
    }

    /// Counts a commit, and says how its command buffer fails, if it does.
    pub(crate) fn commit(&mut self) -> Option<Failure> {
        self.committed += 1;
        self.failing.remove(&self.committed)
    }
}
