//! What a machine is to be.

use std::{path::PathBuf, time::Duration};

use super::Machine;
use crate::{
    kernel::{Checks, CompileOptions, Effort},
    protocol::MTLGPUFamily,
};

/// What a machine is. The builder's documentation says what each is.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) seed: u64,
    pub(crate) gpu: bool,
    pub(crate) name: String,
    pub(crate) families: Vec<MTLGPUFamily>,
    pub(crate) macos: (usize, usize, usize),
    pub(crate) memory: u64,
    pub(crate) working_set: u64,
    pub(crate) max_buffer_length: usize,
    pub(crate) max_threads: [usize; 3],
    pub(crate) threadgroup_memory: usize,
    pub(crate) workers: usize,
    pub(crate) patience: Duration,
    pub(crate) compile: CompileOptions,
    pub(crate) record: bool,
    pub(crate) overlap: bool,
    pub(crate) delay: Duration,
    pub(crate) compile_time: Duration,
}

/// How long a dispatch may run. TIMEOUT: no kernel of a test takes so long, also on a loaded machine; one that never ends fails
/// its test within the time that people wait.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a machine is to be; [`Builder::build`] makes it. The default is a Mac of the family Apple7 (an M1) with macOS 15.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder(Config);

impl Default for Builder {
    fn default() -> Self {
        Self(Config {
            seed: 0,
            gpu: true,
            name: "Software Metal".to_owned(),
            families: vec![MTLGPUFamily::Apple7, MTLGPUFamily::Mac2, MTLGPUFamily::Common3, MTLGPUFamily::Metal3],
            macos: (15, 0, 0),
            memory: 16 << 30,
            working_set: 11 << 30,
            max_buffer_length: 8 << 30,
            max_threads: [1024; 3],
            threadgroup_memory: 32 << 10,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            patience: PATIENCE,
            compile: CompileOptions::default(),
            record: false,
            overlap: true,
            delay: Duration::ZERO,
            compile_time: Duration::ZERO,
        })
    }
}

impl Builder {
    /// Where every choice of chance comes from.
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// Whether there is a GPU that supports Metal. There is, unless said otherwise.
    pub fn gpu(mut self, gpu: bool) -> Self {
        self.0.gpu = gpu;
        self
    }

    /// The GPU's name.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.0.name);
        self
    }

    /// The families that the GPU supports. A family of Apple's implies those below it.
    pub fn families(mut self, families: &[MTLGPUFamily]) -> Self {
        self.0.families = families.to_vec();
        self
    }

    /// The version of macOS.
    pub fn macos(mut self, major: usize, minor: usize, patch: usize) -> Self {
        self.0.macos = (major, minor, patch);
        self
    }

    /// Bytes that buffers may take together: past them there is no memory.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.0.memory = bytes;
        self
    }

    /// Bytes that Metal recommends to keep allocated at most.
    pub fn recommended_max_working_set_size(mut self, bytes: u64) -> Self {
        self.0.working_set = bytes;
        self
    }

    /// The length of the longest buffer.
    pub fn max_buffer_length(mut self, bytes: usize) -> Self {
        self.0.max_buffer_length = bytes;
        self
    }

    /// The most threads of a threadgroup, along each axis.
    pub fn max_threads_per_threadgroup(mut self, threads: [usize; 3]) -> Self {
        self.0.max_threads = threads;
        self
    }

    /// The most bytes of threadgroup memory.
    pub fn max_threadgroup_memory_length(mut self, bytes: usize) -> Self {
        self.0.threadgroup_memory = bytes;
        self
    }

    /// How many threads run kernels: as many as the host has processors, unless said otherwise.
    pub fn workers(mut self, threads: usize) -> Self {
        self.0.workers = threads.max(1);
        self
    }

    /// How long a dispatch may run before its command buffer ends with a timeout, as Metal ends one that it judges to run too
    /// long: a minute, unless said otherwise. Kernels are stopped by the signal `SIGURG`, which the process must leave to this
    /// crate.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.0.patience = patience;
        self
    }

    /// Compiles kernels with few optimisations, which takes less time where each runs but shortly.
    pub fn fast_compiles(mut self) -> Self {
        self.0.compile.effort = Effort::Fast;
        self
    }

    /// Runs kernels without a check of each access, for measurements.
    pub fn unchecked(mut self) -> Self {
        self.0.compile.checks = Checks::None;
        self
    }

    /// A folder in which compiled kernels are kept.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.0.compile.cache = Some(folder.into());
        self
    }

    /// Collects violations ([`Machine::violations`]) instead of stopping at them.
    pub fn record(mut self) -> Self {
        self.0.record = true;
        self
    }

    /// Whether passes that nothing orders run in an order of chance: see [`Machine::overlap`].
    pub fn overlap(mut self, overlap: bool) -> Self {
        self.0.overlap = overlap;
        self
    }

    /// Delays each command buffer's start, and its completion, by up to so long, as the seed has it.
    pub fn delays(mut self, up_to: Duration) -> Self {
        self.0.delay = up_to;
        self
    }

    /// What each compile of a pipeline takes at least.
    pub fn compile_time(mut self, time: Duration) -> Self {
        self.0.compile_time = time;
        self
    }

    /// The machine.
    #[must_use]
    pub fn build(self) -> Machine {
        Machine::new(self.0)
    }
}
