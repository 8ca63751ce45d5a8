//! A work-group: its waves, its group memory, its barrier.

use super::bus::Bus;
use super::dispatch::Dispatch;
use super::fault::{Fault, FaultKind};

/// Decoded instructions: the cache of instructions of a shader array. It keeps what it fetched until it is invalidated.
#[derive(Debug, Default)]
pub struct Code {}

/// What a step has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Waves are left.
    Running,
    /// All waves have ended.
    Done,
}

/// A work-group that runs.
#[derive(Debug)]
pub struct WorkGroup {
    id: [u32; 3],
}

impl Code {
    /// A cache that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops all that was fetched.
    pub fn invalidate(&mut self) {}
}

impl WorkGroup {
    /// Starts the waves of a work-group of the dispatch.
    pub fn new(_dispatch: &Dispatch, id: [u32; 3], _seed: u64) -> Self {
        Self { id }
    }

    /// Its place in the grid.
    pub fn id(&self) -> [u32; 3] {
        self.id
    }

    /// Advances one wave, chosen by the seed, by at most `instructions`: less if it ends, meets the barrier or sleeps.
    ///
    /// # Errors
    ///
    /// What stopped the wave. The group is not to be stepped after it.
    pub fn step(&mut self, _code: &mut Code, _bus: &mut dyn Bus, _instructions: u32) -> Result<Progress, Fault> {
        Err(FaultKind::Unsupported { what: "instructions".to_owned() }.into())
    }
}
