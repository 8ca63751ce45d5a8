//! Which engine moves next.

use crate::control::Step;
use crate::state::Core;

impl Core {
    /// Moves one engine; false if none can.
    pub(crate) fn step(&mut self) -> bool {
        false
    }

    /// What there is to do, where no engine can move.
    pub(crate) fn standing(&mut self) -> Step {
        Step::Idle
    }

    /// Stops all queues of a GPU.
    pub(crate) fn stop_gpu(&mut self, _gpu: usize) {}

    /// A GPU's own memory holds nothing that was there.
    pub(crate) fn lose_memory(&mut self, _gpu: usize) {}

    /// A GPU's caches let a range of addresses go.
    pub(crate) fn leave(&mut self, _gpu: usize, _va: u64, _size: u64) {}
}
