//! What a machine is made of: its builder.

use crate::machine::Machine;
use std::time::Duration;

/// What a machine is made of.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) gpus: usize,
    pub(crate) vram: u64,
    pub(crate) gtt: u64,
    pub(crate) version: (u32, u32),
    pub(crate) gfx_target: u32,
    pub(crate) areas_in_topology: bool,
    pub(crate) peers: bool,
    pub(crate) window: bool,
    pub(crate) wave_budget: u64,
    pub(crate) stuck_after: Duration,
    pub(crate) caches: bool,
    pub(crate) held: bool,
    pub(crate) watchful: bool,
    pub(crate) trapping: bool,
    /// The bus addresses of the machine's other functions.
    pub(crate) functions: Vec<String>,
    /// Ticks of the GPUs' clock in a second.
    pub(crate) clock_hz: u64,
}

/// Makes a [`Machine`].
#[derive(Clone, Debug)]
pub struct Builder {
    options: Options,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            options: Options {
                seed: 0,
                gpus: 1,
                vram: 1 << 30,
                gtt: 1 << 30,
                version: (1, 17),
                gfx_target: 110_000,
                areas_in_topology: true,
                peers: true,
                window: true,
                wave_budget: 200_000_000,
                stuck_after: Duration::from_secs(10),
                caches: true,
                held: false,
                watchful: false,
                trapping: false,
                functions: Vec::new(),
                clock_hz: 100_000_000,
            },
        }
    }
}

impl Builder {
    /// What every choice of the scheduler comes from.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// How many GPUs there are; none is possible.
    pub fn gpus(mut self, count: usize) -> Self {
        self.options.gpus = count;
        self
    }

    /// A PCI function that the machine has beside the GPUs, such as a network card, by its bus address.
    pub fn pci_function(mut self, address: &str) -> Self {
        self.options.functions.push(address.to_owned());
        self
    }

    /// The rate of the GPUs' clock: 100 MHz without this.
    pub fn clock_hz(mut self, rate: u64) -> Self {
        self.options.clock_hz = rate;
        self
    }

    /// Bytes of each GPU's own memory.
    pub fn vram(mut self, bytes: u64) -> Self {
        self.options.vram = bytes;
        self
    }

    /// Bytes of the host's memory that GPUs may use.
    pub fn gtt(mut self, bytes: u64) -> Self {
        self.options.gtt = bytes;
        self
    }

    /// The version of the kernel's interface.
    pub fn kfd_version(mut self, major: u32, minor: u32) -> Self {
        self.options.version = (major, minor);
        self
    }

    /// The chip that the topology names, as `gfx_target_version`: 110000 is gfx1100. The machine behaves as gfx1100.
    pub fn gfx_target_version(mut self, version: u32) -> Self {
        self.options.gfx_target = version;
        self
    }

    /// Whether the topology gives the sizes of the areas that save waves, as the newest kernels do.
    pub fn areas_in_topology(mut self, given: bool) -> Self {
        self.options.areas_in_topology = given;
        self
    }

    /// Whether the topology says that GPUs reach each other's memory.
    pub fn peers(mut self, linked: bool) -> Self {
        self.options.peers = linked;
        self
    }

    /// Whether the topology says that the host's window covers all of a GPU's memory.
    pub fn window(mut self, whole: bool) -> Self {
        self.options.window = whole;
        self
    }

    /// Instructions that a wave may run.
    pub fn wave_budget(mut self, instructions: u64) -> Self {
        self.options.wave_budget = instructions;
        self
    }

    /// How long a queue may wait while nothing on the machine moves, until that is a deadlock.
    pub fn stuck_after(mut self, time: Duration) -> Self {
        self.options.stuck_after = time;
        self
    }

    /// Without caches: every store is visible at once. For tests of speed alone.
    pub fn caches(mut self, modelled: bool) -> Self {
        self.options.caches = modelled;
        self
    }

    /// The queues do not run until they are released or stepped.
    pub fn held(mut self) -> Self {
        self.options.held = true;
        self
    }

    /// A second thread looks at the slots that are not published yet, without a pause, for a header that comes before its
    /// packet's body. It costs a processor.
    pub fn watchful(mut self) -> Self {
        self.options.watchful = true;
        self
    }

    /// Every first store of the host's to a slot's page or to a doorbell is looked at before it is done: a header that comes
    /// before its body, and a doorbell that comes before the write index, are found in every run. Each submission costs
    /// faults, and the process gets a handler of SIGSEGV. On Linux alone; elsewhere it does nothing.
    pub fn trapping(mut self) -> Self {
        self.options.trapping = true;
        self
    }

    /// Switches the machine on.
    pub fn build(self) -> Machine {
        Machine::new(self.options)
    }
}
