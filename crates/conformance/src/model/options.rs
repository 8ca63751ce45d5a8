//! What a model's devices are like: chosen before the first one opens.

use std::time::Duration;

use super::bytes::Loses;
use rig_edge::{Completion, Facts, Kinds, Memory, Queue, Reach, WaitFacts, WordSource};

/// When a device's work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As soon as it may: in the submit, commit or step that lets it.
    AtOnce,
    /// When the test steps it.
    Stepped,
    /// In the driver's sleep, up to the value that is waited for: on the sleeping thread where it helps.
    Slept,
    /// When the seed says: inside any call of the driver.
    Seeded,
}

/// Facts and habits of a model's devices. Made by [`Model::options`](super::Model::options).
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) facts: Facts,
    pub(crate) pace: Pace,
    pub(crate) seed: u64,
    pub(crate) capacity: u64,
    pub(crate) depth: usize,
    pub(crate) peer: bool,
    pub(crate) place: Option<Memory>,
    pub(crate) lingers: bool,
    pub(crate) own_start: u64,
    pub(crate) shortages: bool,
    pub(crate) ignore_waits: bool,
    pub(crate) break_committed: bool,
    pub(crate) peers_lose: Loses,
    pub(crate) dma: DmaAnswer,
    pub(crate) tells: Tells,
}

/// What a device tells of the times of its work, while a profile is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// When each part ran, before the word shows the value.
    Parts,
    /// When the value ran, only in a settle.
    Settled,
    /// When the value ran, by a clock that is this far ahead of the host's.
    Ahead(Duration),
    /// When the value ran, by a clock that is this far behind the host's.
    Behind(Duration),
    /// Nothing.
    Nothing,
}

/// How `dma` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DmaAnswer {
    Refused,
    Bus,
    Buf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            facts: Facts {
                arch: "model".into(),
                budget: 1 << 32,
                queues: vec![Queue { name: "MODEL:0".into(), kinds: Kinds::ALL }],
                copy_engine: None,
                completion: Completion::Store,
                waits: WaitFacts::NONE,
                may_block: false,
                hang: None,
                spin: Duration::ZERO,
                maps_host: false,
                host_addresses: true,
                alignment: 256,
                cache_bytes: Some(64),
                reach: Reach::Device,
                word: WordSource::Given,
                bus: None,
            },
            pace: Pace::Stepped,
            seed: 0,
            capacity: u64::MAX,
            depth: usize::MAX,
            peer: false,
            place: None,
            lingers: false,
            own_start: 0,
            shortages: false,
            ignore_waits: false,
            break_committed: false,
            peers_lose: Loses::default(),
            dma: DmaAnswer::Refused,
            tells: Tells::Parts,
        }
    }
}

impl Options {
    /// When work runs. [`Pace::Stepped`] unless said otherwise.
    pub fn pace(mut self, pace: Pace) -> Options {
        self.pace = pace;
        self
    }

    /// Runs all from one seed: [`Pace::Seeded`], and at random Later while work is in flight, Encoded, and growths.
    pub fn seed(mut self, seed: u64) -> Options {
        self.pace = Pace::Seeded;
        self.seed = seed;
        self
    }

    /// With a seed: also Short of growths and no memory for entries and regions, at random, never four in a row.
    pub fn shortages(mut self) -> Options {
        self.shortages = true;
        self
    }

    /// Who writes the words, as the facts say it.
    pub fn completion(mut self, completion: Completion) -> Options {
        self.facts.completion = completion;
        self
    }

    /// The queue waits that devices can place.
    pub fn waits(mut self, waits: WaitFacts) -> Options {
        self.facts.waits = waits;
        self
    }

    /// The hang bound.
    pub fn hang(mut self, hang: Duration) -> Options {
        self.facts.hang = Some(hang);
        self
    }

    /// How long a wait spins.
    pub fn spin(mut self, spin: Duration) -> Options {
        self.facts.spin = spin;
        self
    }

    /// `submit` blocks while `depth` values are unfinished, instead of `room` answering Later.
    pub fn may_block(mut self) -> Options {
        self.facts.may_block = true;
        self
    }

    /// Device memory has no host address; Pinned and Mapped memory does.
    pub fn no_host_addresses(mut self) -> Options {
        self.facts.host_addresses = false;
        self
    }

    /// Host memory can be mapped.
    pub fn maps_host(mut self) -> Options {
        self.facts.maps_host = true;
        self
    }

    /// Devices of this model map one another's memory.
    pub fn peers(mut self) -> Options {
        self.peer = true;
        self
    }

    /// Devices of this model map one another's memory, and what they read and write there gets lost: reads give bytes that
    /// are not there, writes change none. As behind an IOMMU or a switch that does not forward.
    pub fn peers_lose_bytes(self) -> Options {
        self.peers_lose_reads().peers_lose_writes()
    }

    /// As [`peers_lose_bytes`](Options::peers_lose_bytes), but only what is read.
    pub fn peers_lose_reads(mut self) -> Options {
        self.peers_lose.reads = true;
        self.peers()
    }

    /// As [`peers_lose_bytes`](Options::peers_lose_bytes), but only what is written.
    pub fn peers_lose_writes(mut self) -> Options {
        self.peers_lose.writes = true;
        self.peers()
    }

    /// `dma` gives bus addresses, more than one range for a region of more than a page. The test plays the function by
    /// [`ModelDevice::dma_read`](super::ModelDevice::dma_read) and [`dma_write`](super::ModelDevice::dma_write). Without an
    /// option of `dma`, a model gives no function access, and says so.
    pub fn dma_bus(mut self) -> Options {
        self.dma = DmaAnswer::Bus;
        self
    }

    /// `dma` gives dma-bufs: descriptors of files of memory that hold the regions' bytes, so that the test plays the function
    /// by reading and writing the file. Where the system has no such files (Linux has), it refuses, with that reason.
    pub fn dma_buf(mut self) -> Options {
        self.dma = DmaAnswer::Buf;
        self
    }

    /// How far a fault reaches.
    pub fn reach(mut self, reach: Reach) -> Options {
        self.facts.reach = reach;
        self
    }

    /// Devices have words of their own, which start at `start`.
    pub fn own_word(mut self, start: u64) -> Options {
        self.facts.word = WordSource::Own;
        self.own_start = start;
        self
    }

    /// The queues, by name, and what each runs.
    pub fn queues(mut self, queues: &[(&str, Kinds)]) -> Options {
        self.facts.queues = queues.iter().map(|&(name, kinds)| Queue { name: name.into(), kinds }).collect();
        self
    }

    /// The queue that copies beside launches.
    pub fn copy_engine(mut self, name: &str) -> Options {
        self.facts.copy_engine = Some(name.into());
        self
    }

    /// The alignment of regions: a power of two.
    pub fn alignment(mut self, alignment: usize) -> Options {
        assert!(alignment.is_power_of_two(), "the alignment {alignment} is no power of two");
        self.facts.alignment = alignment;
        self
    }

    /// The line of the cache through which a device reaches memory that others may touch.
    pub fn cache_bytes(mut self, bytes: Option<usize>) -> Options {
        self.facts.cache_bytes = bytes;
        self
    }

    /// The first budget in bytes.
    pub fn budget(mut self, bytes: u64) -> Options {
        self.facts.budget = bytes;
        self
    }

    /// The bytes that a device has, of all kinds together.
    pub fn capacity(mut self, bytes: u64) -> Options {
        self.capacity = bytes;
        self
    }

    /// How many values may be unfinished before `room` answers Later (or `submit` blocks, with
    /// [`may_block`](Options::may_block)).
    pub fn depth(mut self, values: usize) -> Options {
        self.depth = values.max(1);
        self
    }

    /// Images must be placed in device memory.
    pub fn placed_code(self) -> Options {
        self.placed_code_in(Memory::Device)
    }

    /// Images must be placed in memory of this kind.
    pub fn placed_code_in(mut self, memory: Memory) -> Options {
        self.place = Some(memory);
        self
    }

    /// Committed work outlives `stop`: it runs, or goes away, when the test says.
    pub fn lingers(mut self) -> Options {
        self.lingers = true;
        self
    }

    /// The devices' queues run work without its waits, as broken ones would.
    pub fn ignores_waits(mut self) -> Options {
        self.ignore_waits = true;
        self
    }

    /// Breaks E42: a committed value completes only once a later one was submitted.
    pub fn breaks_committed(mut self) -> Options {
        self.break_committed = true;
        self
    }

    /// Tells the times of work so.
    pub fn tells(mut self, tells: Tells) -> Options {
        self.tells = tells;
        self
    }

    /// Any other change of the facts.
    pub fn facts(mut self, change: impl FnOnce(&mut Facts)) -> Options {
        change(&mut self.facts);
        self
    }
}
