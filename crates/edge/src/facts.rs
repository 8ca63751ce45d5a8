//! What a driver says of its device, read once when the device opens (E02, E40).

use std::time::Duration;

/// What rig and a program may know of a device. Nothing in it changes while the device is open.
///
/// ```
/// use std::time::Duration;
///
/// use rig_edge::{Completion, Facts, Kinds, Queue, Reach, WaitFacts, WordSource};
///
/// // A card with a copy engine, whose queues wait for one another's words.
/// let queue = |name: &str, kinds| Queue { name: name.into(), kinds };
/// let copies = Kinds { copy: true, ..Kinds::NONE };
/// let facts = Facts {
///     arch: "sm_90".into(),
///     budget: 64 << 30,
///     queues: vec![queue("COMPUTE:0", Kinds::ALL), queue("COPY:0", copies)],
///     copy_engine: Some("COPY:0".into()),
///     completion: Completion::Store,
///     waits: WaitFacts { stores: true, hosts: true, most: 16 },
///     may_block: false,
///     hang: Some(Duration::from_secs(60)),
///     spin: Duration::from_micros(20),
///     maps_host: true,
///     host_addresses: false,
///     alignment: 256,
///     cache_bytes: Some(128),
///     reach: Reach::Device,
///     word: WordSource::Given,
///     bus: Some("0000:41:00.0".into()),
/// };
/// assert_eq!(facts.kinds(), Kinds::ALL);
/// ```
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
    /// Whether `submit` may block until earlier work makes room (E37): work that waits for no other device.
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
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let mut facts = facts();
    /// facts.queues = vec![Queue { name: "COPY:0".into(), kinds: Kinds { copy: true, ..Kinds::NONE } }];
    /// // rig refuses a launch on such a device when the submission is made.
    /// assert!(!facts.kinds().launch);
    /// ```
    pub fn kinds(&self) -> Kinds {
        self.queues.iter().fold(Kinds::NONE, |all, queue| all.with(queue.kinds))
    }
}

/// One queue of a device.
///
/// ```
/// use rig_edge::{Kinds, Queue};
///
/// // Profiles show what each queue ran by the queue's name.
/// let queues = ["COMPUTE:0", "COPY:0"].map(|name| Queue { name: name.into(), kinds: Kinds::ALL });
/// assert_eq!(queues[1].name, "COPY:0");
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    /// The queue's name, such as `COMPUTE:0`.
    pub name: String,
    /// What it runs.
    pub kinds: Kinds,
}

/// A set of kinds of part.
///
/// ```
/// use rig_edge::Kinds;
///
/// // A queue of a copy engine runs no kernels.
/// let engine = Kinds { copy: true, memset: true, ..Kinds::NONE };
/// assert!(engine.copy && !engine.launch);
/// ```
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
    ///
    /// ```
    /// use rig_edge::Kinds;
    ///
    /// let launches = Kinds { launch: true, ..Kinds::NONE };
    /// assert!(!launches.fill);
    /// ```
    pub const NONE: Kinds = Kinds { launch: false, copy: false, memset: false, fill: false };
    /// Every kind.
    ///
    /// ```
    /// use rig_edge::Kinds;
    ///
    /// // A driver whose vendor's interface has nothing to fill with.
    /// let kinds = Kinds { fill: false, ..Kinds::ALL };
    /// assert!(kinds.launch && kinds.copy && kinds.memset);
    /// ```
    pub const ALL: Kinds = Kinds { launch: true, copy: true, memset: true, fill: true };

    /// The kinds of either.
    ///
    /// ```
    /// use rig_edge::Kinds;
    ///
    /// let (launches, copies) = (Kinds { launch: true, ..Kinds::NONE }, Kinds { copy: true, ..Kinds::NONE });
    /// assert_eq!(launches.with(copies), Kinds { memset: false, fill: false, ..Kinds::ALL });
    /// ```
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
///
/// ```
/// use rig_edge::{Completion, WaitFacts};
///
/// /// Whether a device's queues can wait for the word of a device whose word is written so.
/// fn can_wait(waits: WaitFacts, other: Completion) -> bool {
///     match other {
///         Completion::Store => waits.stores,
///         Completion::Host => waits.hosts,
///     }
/// }
/// assert!(!can_wait(WaitFacts { stores: true, hosts: false, most: 8 }, Completion::Host));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A store on a queue.
    Store,
    /// The host: a handler or a thread of the driver.
    Host,
}

/// The words of other devices that a device's queues can wait for.
///
/// ```
/// use rig_edge::WaitFacts;
///
/// // Its queues poll host memory, so that it is all one to them who writes a word. Each wait is a packet of the ring.
/// let waits = WaitFacts { stores: true, hosts: true, most: 64 };
/// assert_ne!(waits, WaitFacts::NONE);
/// ```
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
    ///
    /// ```
    /// use rig_edge::WaitFacts;
    ///
    /// // rig then waits on the host for the work of other devices.
    /// assert_eq!(WaitFacts::NONE.most, 0);
    /// ```
    pub const NONE: WaitFacts = WaitFacts { stores: false, hosts: false, most: 0 };
}

/// How far a fault reaches (E43).
///
/// ```
/// use rig_edge::{Fault, Reach};
///
/// /// How far a fault reaches on a device whose facts say `facts`.
/// fn reach(fault: &Fault, facts: Reach) -> Reach {
///     fault.reach.unwrap_or(facts)
/// }
/// // One context for all cards: what a kernel breaks is lost on all of them, but not for a fill's own error.
/// assert_eq!(reach(&Fault::new("illegal address"), Reach::Driver), Reach::Driver);
/// assert_eq!(reach(&Fault::here("no such algorithm"), Reach::Driver), Reach::Device);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The device that faulted.
    Device,
    /// Every device of this driver in the process.
    Driver,
}

/// Which word shows a device's progress.
///
/// ```
/// use rig_edge::WordSource;
///
/// /// A device whose vendor signals only events of its own has a word of its own, which `signaled` reads.
/// fn source(stores_to_host_memory: bool) -> WordSource {
///     if stores_to_host_memory { WordSource::Given } else { WordSource::Own }
/// }
/// assert_eq!(source(false), WordSource::Own);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordSource {
    /// The word that the opener's `make` was given.
    Given,
    /// One of the driver's own, read by [`Driver::signaled`](crate::Driver::signaled).
    Own,
}
