//! What the model knows: its devices, their memory, code and work, and what was done wrong.
//!
//! # Invariants
//!
//! 1. All of it stands under one lock, which is held over no kernel, fill, hook or call of anybody's code: so it is a leaf
//!    of every order of locks.
//! 2. A device's entry is never removed: tests look at it after its driver is gone.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use rig_edge::{Facts, Times, Wait, Word, WordIndex, WordSource, Words};

use super::bytes::{Block, Span};
use super::kernel::{FunctionOf, Grid, Kernel, Resolved};
use super::options::{Options, Pace};
use super::running::Ran;
use super::{Call, Calls, Violation};
use crate::primitive::thread::ThreadId;
use crate::primitive::{Condvar, Mutex, MutexGuard};
use crate::rng::Rng;

/// What the controller and all drivers of a model share.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) state: Mutex<State>,
    /// Told of every change.
    pub(crate) moved: Condvar,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) devices: Vec<Device>,
    pub(crate) kernels: HashMap<String, Kernel>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) rng: Rng,
    /// Why the next opens fail.
    pub(crate) refuse_open: VecDeque<String>,
    /// The PCI function that bus addresses were given to, first: from then on nothing opens the model's hardware (E36).
    pub(crate) bus_given: Option<String>,
    pub(crate) next_bus: u64,
    /// Told of the work that runs.
    pub(crate) watch: Option<Arc<dyn Fn(Ran) + Send + Sync>>,
}

/// Where a device is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Stopping,
    Stopped,
}

pub(crate) struct Device {
    pub(crate) id: usize,
    pub(crate) facts: Facts,
    pub(crate) index: WordIndex,
    /// Whether rig gives the device another place than `index`, since its own word begins below what that shows.
    elsewhere: bool,
    /// The word of the driver's own, where it has one.
    pub(crate) own: u64,
    pub(crate) word_freed: bool,
    pub(crate) phase: Phase,
    pub(crate) stopped_with: Option<Option<String>>,
    pub(crate) dropped: bool,

    pub(crate) inflight: u32,
    pub(crate) hot: Option<Call>,
    pub(crate) calls: Calls,
    pub(crate) script: Script,

    pub(crate) start: u64,
    pub(crate) submitted: u64,
    pub(crate) committed: u64,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) running: bool,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) tickets: u64,
    /// Whether the slots of the last submit were said to be apart.
    pub(crate) apart: bool,
    /// Threads whose room answered Grow, and for which plan.
    pub(crate) grow_due: Vec<(ThreadId, u64)>,
    /// Why the device faulted.
    pub(crate) fault: Option<String>,
    /// Whether the caller has had a cause to lose the device.
    pub(crate) cause: bool,

    pub(crate) memory: BTreeMap<u64, Region>,
    pub(crate) next_address: u64,
    pub(crate) live_bytes: u64,
    /// Memory that was freed too early: kept, so that the work that still names it touches nothing of others'.
    pub(crate) quarantine: Vec<Block>,
    /// The images that are loaded.
    pub(crate) images: BTreeMap<u64, Image>,
    pub(crate) plans: BTreeMap<u64, PlanState>,
    pub(crate) next_id: u64,
}

/// What the test decided in advance.
pub(crate) struct Script {
    pub(crate) pace: Pace,
    pub(crate) encode_only: bool,
    pub(crate) ignore_waits: bool,
    pub(crate) break_committed: bool,
    pub(crate) lingers: bool,
    pub(crate) hung: bool,
    pub(crate) later: u32,
    pub(crate) grow: u32,
    pub(crate) short: u32,
    pub(crate) no_memory: u32,
    pub(crate) plan_no_memory: u32,
    pub(crate) image_no_memory: u32,
    pub(crate) alloc_fail: u32,
    /// What the next maps of each kind answer: no memory, or never and why.
    pub(crate) maps: Vec<(Call, Option<String>)>,
    pub(crate) refuse: VecDeque<String>,
    pub(crate) faults: Vec<(Call, String)>,
    pub(crate) panics: Vec<Call>,
    /// How many calls go well before the next one fails, and whether that panics.
    pub(crate) last_good: Option<(u64, bool)>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) hooks: Vec<(Call, Arc<dyn Fn() + Send + Sync>)>,
    /// Shortages in a row, which a seed keeps below four.
    pub(crate) in_a_row: u32,
}

/// Calls of one kind that stand still until the test lets them go.
pub(crate) struct Hold {
    pub(crate) id: u64,
    pub(crate) call: Call,
    pub(crate) inside: u32,
}

/// One value's work.
pub(crate) struct Job {
    pub(crate) value: u64,
    pub(crate) waits: Vec<Wait>,
    pub(crate) ops: Vec<Op>,
    /// The device addresses of the regions that it uses.
    pub(crate) regions: Vec<u64>,
    pub(crate) images: Vec<u64>,
    pub(crate) plan: u64,
    pub(crate) times: Option<Arc<Times>>,
}

/// One step of a value's work.
pub(crate) enum Op {
    Launch {
        function: FunctionOf,
        grid: Grid,
        params: Vec<u8>,
        refs: Vec<Resolved>,
    },
    Copy {
        from: Span,
        to: Span,
    },
    Fill {
        to: Span,
        byte: u8,
    },
    /// A fill's command.
    Kernel(Box<dyn FnOnce() -> Result<(), String> + Send>),
}

/// What an Ok of room was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) number: u64,
    pub(crate) plan: u64,
    pub(crate) blocks: Vec<rig_edge::Block>,
    pub(crate) params: Vec<u8>,
    pub(crate) slots: Vec<SlotKey>,
    pub(crate) apart: bool,
    pub(crate) waits: Vec<Wait>,
}

/// A slot's addresses, to compare: device, host, length.
pub(crate) type SlotKey = (u64, usize, u64);

/// What a region is.
pub(crate) enum Backing {
    Owned(Block),
    Host(Span),
    /// Memory of another device of the model, by its number and device address.
    Peer(usize, u64, Span),
    /// Freed: a tombstone.
    Freed,
}

pub(crate) struct Region {
    pub(crate) len: usize,
    /// Whether the host sees an address.
    pub(crate) host: bool,
    pub(crate) backing: Backing,
    /// How many mappings of other devices stand on it.
    pub(crate) mapped: u32,
    /// The bus addresses that were given of it, in the order of its bytes.
    pub(crate) bus: Vec<(u64, u64)>,
}

impl Region {
    /// Whether it is to be freed: it is not yet, and no PCI function has its bus addresses.
    pub(crate) fn is_owed(&self) -> bool {
        !matches!(self.backing, Backing::Freed) && self.bus.is_empty()
    }

    pub(crate) fn span(&self) -> Option<Span> {
        match &self.backing {
            Backing::Owned(block) => block.span().part(0, self.len),
            Backing::Host(span) | Backing::Peer(_, _, span) => Some(*span),
            Backing::Freed => None,
        }
    }
}

pub(crate) struct Image {
    pub(crate) functions: Vec<FunctionOf>,
    pub(crate) entries: Vec<Arc<str>>,
    /// The bytes that its entries took.
    pub(crate) memory: u64,
    /// Where the code was placed, and the bytes that must stand there.
    pub(crate) place: Option<(u64, Vec<u8>)>,
}

pub(crate) struct PlanState {
    pub(crate) grown: bool,
}

impl State {
    pub(crate) fn new(options: Options) -> State {
        let rng = Rng::new(options.seed);
        let kernels = super::kernel::builtin();
        State {
            kernels: kernels.into_iter().map(|(name, code)| (name.to_string(), Kernel { code })).collect(),
            options,
            devices: Vec::new(),
            violations: Vec::new(),
            rng,
            refuse_open: VecDeque::new(),
            bus_given: None,
            next_bus: super::sharing::FIRST_BUS,
            watch: None,
        }
    }

    /// Notes a violation, and gives its text for the driver's answer.
    pub(crate) fn violate(&mut self, violation: Violation) -> String {
        let text = format!("the model's caller broke its promise: {violation}");
        let device = violation.device();
        self.violations.push(violation);
        // What the driver answers is a fault, so stop may be told of it.
        self.devices[device].cause = true;
        text
    }

    /// The device of the model whose word is at `index`: the last one opened with it.
    pub(crate) fn of_word(&self, index: WordIndex) -> Option<&Device> {
        self.devices.iter().rev().find(|device| device.index == index && !device.elsewhere)
    }
}

/// What a device's word is first: its own one's start, or what the given word holds.
fn first_value(options: &Options, index: WordIndex) -> u64 {
    match options.facts.word {
        WordSource::Own => options.own_start,
        WordSource::Given => Words::get().word(index).load(),
    }
}

impl Device {
    pub(crate) fn new(id: usize, options: &Options, index: WordIndex) -> Device {
        let start = first_value(options, index);
        let elsewhere = options.facts.word == WordSource::Own && start < Words::get().word(index).load();
        Device {
            id,
            elsewhere,
            facts: options.facts.clone(),
            index,
            own: start,
            word_freed: false,
            phase: Phase::Open,
            stopped_with: None,
            dropped: false,
            inflight: 0,
            hot: None,
            calls: Calls::default(),
            script: Script::new(options),
            start,
            submitted: start,
            committed: start,
            jobs: VecDeque::new(),
            running: false,
            ticket: None,
            tickets: 0,
            apart: false,
            grow_due: Vec::new(),
            fault: None,
            cause: false,
            memory: BTreeMap::new(),
            // Device addresses look like no host address, and those of two devices never meet.
            next_address: ((id as u64 % 0xFFFF) + 1) << 44,
            live_bytes: 0,
            quarantine: Vec::new(),
            images: BTreeMap::new(),
            plans: BTreeMap::new(),
            next_id: 1,
        }
    }

    pub(crate) fn word(&self) -> &'static Word {
        Words::get().word(self.index)
    }

    pub(crate) fn shown(&self) -> u64 {
        match self.facts.word {
            WordSource::Own => self.own,
            WordSource::Given => self.word().load(),
        }
    }

    /// Raises the word.
    pub(crate) fn raise(&mut self, value: u64) {
        match self.facts.word {
            WordSource::Own => {
                assert!(self.own <= value, "a word must rise, and this went from {} to {value}", self.own);
                self.own = value;
            }
            WordSource::Given => self.word().raise(value),
        }
    }

    pub(crate) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The region that holds `len` bytes at `address`, and the offset of the first in it.
    pub(crate) fn region_at(&self, address: u64, len: u64) -> Option<(u64, &Region, usize)> {
        let (&base, region) = self.memory.range(..=address).next_back()?;
        let end = address.checked_add(len)?;
        (end <= base + region.len as u64).then(|| (base, region, (address - base) as usize))
    }

    /// The value of unfinished work that uses what `uses` says.
    pub(crate) fn in_use(&self, uses: impl Fn(&Job) -> bool) -> Option<u64> {
        self.jobs.iter().find(|job| uses(job)).map(|job| job.value)
    }
}

impl Script {
    fn new(options: &Options) -> Script {
        Script {
            pace: options.pace,
            encode_only: false,
            ignore_waits: options.ignore_waits,
            break_committed: options.break_committed,
            lingers: options.lingers,
            hung: false,
            later: 0,
            grow: 0,
            short: 0,
            no_memory: 0,
            plan_no_memory: 0,
            image_no_memory: 0,
            alloc_fail: 0,
            maps: Vec::new(),
            refuse: VecDeque::new(),
            faults: Vec::new(),
            panics: Vec::new(),
            last_good: None,
            holds: Vec::new(),
            hooks: Vec::new(),
            in_a_row: 0,
        }
    }
}

/// Takes one of what is left, if there is any.
pub(crate) fn take_one(left: &mut u32) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}
