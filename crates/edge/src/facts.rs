//! What a driver says of its device, read once when the device opens (E02, E40).

use std::time::Duration;

/// What rig and a program may know of a device. Nothing in it changes while the device is open.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The architecture that images are made for, as the vendor's compilers name it.
    pub arch: String,
    /// The bytes that the device should hold at most: the first budget. Counts buffers, images' code and caches.
    pub budget: u64,
    /// The device's queues, each with the kinds of part that it runs.
    pub queues: Vec<Queue>,
    /// The queue that copies beside launches, by its name; `None` where no queue does.
    pub copy_engine: Option<String>,
    /// Who writes the word.
    pub completion: Completion,
    /// Which waits the device's queues can place for other devices' words.
    pub waits: WaitFacts,
    /// Whether `submit` may block until earlier work makes room (E37).
    pub may_block: bool,
    /// How long committed work may leave the word unmoved before rig takes the device for hung; `None`: for ever (E39).
    pub hang: Option<Duration>,
    /// How long a wait should read the word before it sleeps in the driver: a little more than the time of a small
    /// launch. Zero where `sleep` itself is the fastest way on, as where it helps with the work.
    pub spin: Duration,
    /// Whether `map_host` may be called.
    pub maps_host: bool,
    /// Whether the host addresses [`Memory::Device`](crate::Memory::Device) memory.
    pub host_addresses: bool,
    /// The alignment in bytes of every region's first byte, and the least distance of two buffers in one region. A power
    /// of two.
    pub alignment: usize,
    /// The bytes of a line of the cache through which the device reaches memory that others may touch at the same time;
    /// `None` where nothing states it. Two buffers never share a line.
    pub cache_bytes: Option<usize>,
    /// How far a fault reaches that does not say so itself (E43).
    pub reach: Reach,
    /// Which word shows the device's progress.
    pub word: WordSource,
    /// The device's bus address, such as `0000:41:00.0`; `None` where it has none.
    pub bus: Option<String>,
}

impl Facts {
    /// The kinds of part that some queue of the device runs.
    pub fn kinds(&self) -> Kinds {
        self.queues.iter().fold(Kinds::NONE, |all, queue| all.with(queue.kinds))
    }
}

/// One queue of a device.
#[derive(Clone, Debug)]
pub struct Queue {
    /// The queue's name, such as `COMPUTE:0`.
    pub name: String,
    /// What it runs.
    pub kinds: Kinds,
}

/// A set of kinds of part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Launches.
    pub launch: bool,
    /// Copies.
    pub copy: bool,
    /// Memsets.
    pub memset: bool,
    /// Fills.
    pub fill: bool,
}

impl Kinds {
    /// No kind.
    pub const NONE: Kinds = Kinds { launch: false, copy: false, memset: false, fill: false };
    /// Every kind.
    pub const ALL: Kinds = Kinds { launch: true, copy: true, memset: true, fill: true };

    /// The kinds of either.
    pub fn with(self, other: Kinds) -> Kinds {
        Kinds {
            launch: self.launch || other.launch,
            copy: self.copy || other.copy,
            memset: self.memset || other.memset,
            fill: self.fill || other.fill,
        }
    }
}

/// Who writes a device's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A store on a queue.
    Store,
    /// The host: a handler or a thread of the driver.
    Host,
}

/// The words of other devices that a device's queues can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitFacts {
    /// Words of devices whose completion is a store on a queue.
    pub stores: bool,
    /// Words that the host writes.
    pub hosts: bool,
    /// How many waits one submit may place; rig waits on the host for the rest.
    pub most: usize,
}

impl WaitFacts {
    /// A device whose queues wait only for the device's own work.
    pub const NONE: WaitFacts = WaitFacts { stores: false, hosts: false, most: 0 };
}

/// How far a fault reaches (E43).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The device that faulted.
    Device,
    /// Every device of this driver in the process.
    Driver,
}

/// Which word shows a device's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordSource {
    /// The word that the opener's `make` was given.
    Given,
    /// One of the driver's own, read by [`Driver::signaled`](crate::Driver::signaled).
    Own,
}
