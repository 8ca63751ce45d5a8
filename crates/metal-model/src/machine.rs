//! The machine that a program runs on: its GPU, its limits, and what goes wrong on it.
//!
//! A test builds a [`Machine`], enters it, and runs its program: `MTLCreateSystemDefaultDevice` answers this machine's GPU
//! on the threads that entered it, and the GPU of one default machine of the process on all others. Everything made of that
//! GPU belongs to the machine, whatever thread it is used on.
//!
//! What goes wrong is asked for: [`Faults`] refuse objects, fail command buffers, misplace buffers and throw exceptions;
//! [`Machine::hold`] and its kin let the test decide when work runs, completes and tells, and when pipelines are compiled. What
//! is left to chance (delays, which thread runs which handler, which of two unordered passes runs first) comes from one seed.
//!
//! Misuse of Metal, which Metal's validation layer would stop at, is a [`Violation`]: it panics where it is made, or ends the
//! process where the GPU's threads find it, unless the machine records violations.
//!
//! Threads: a machine is shared, and may be asked anything from any thread.

mod build;
mod faults;
mod gate;
#[expect(unsafe_code, reason = "it maps pages and clears them")]
mod memory;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

pub use self::{
    build::Builder,
    faults::{Failure, Faults, Nth, What},
    gate::Handlers,
};
pub(crate) use self::{
    build::Config,
    gate::Job,
    memory::{Heap, Memory, PAGE},
};
use parking_lot::Mutex;

use self::{
    faults::{Fate, FaultState},
    gate::Gate,
};
use crate::{
    live::Tag,
    runtime::{exception, foundation},
    workers::Workers,
};

/// A machine with one GPU, or none. A clone is another handle to the same machine.
#[derive(Clone)]
pub struct Machine(pub(crate) Arc<Inner>);

/// What the handles of a machine share.
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) faults: Mutex<FaultState>,
    pub(crate) gate: Gate,
    pub(crate) heap: Mutex<Heap>,
    pub(crate) tag: Tag,
    pub(crate) tally: Tally,
    /// Whether any fault was asked for: what every message looks at before it takes the lock.
    pub(crate) armed: AtomicBool,
    execution: AtomicBool,
    overlap: AtomicBool,
    random: Mutex<u64>,
    violations: Mutex<Vec<Violation>>,
    workers: OnceLock<Workers>,
}

/// What has happened on a machine so far.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) made: AtomicU64,
    pub(crate) committed: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) dispatches: AtomicU64,
    pub(crate) handlers: AtomicU64,
    pub(crate) compiled: AtomicU64,
    pub(crate) compiling: AtomicU64,
    pub(crate) compiling_most: AtomicU64,
    pub(crate) resident: AtomicU64,
}

/// What lives on a machine, and what has happened on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Living objects of the machine, by class.
    pub live: BTreeMap<String, isize>,
    /// Bytes of its buffers.
    pub allocated: u64,
    /// Command buffers made.
    pub command_buffers: u64,
    /// Command buffers committed.
    pub committed: u64,
    /// Command buffers completed, or failed.
    pub completed: u64,
    /// Dispatches run, or skipped where execution is off.
    pub dispatches: u64,
    /// Completion handlers that have returned.
    pub handlers: u64,
    /// Pipelines compiled.
    pub compiled: u64,
    /// Pipelines that are being compiled, or wait for that because compiles are held.
    pub compiling: u64,
    /// The most pipelines that were compiled at one time.
    pub compiling_most: u64,
    /// Allocations in residency sets that live, uncommitted additions among them.
    pub resident: u64,
}

/// Use of Metal that its validation layer stops at, or that the model finds beyond that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The message that was wrong, or where it was found.
    pub call: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.call, self.why)
    }
}

thread_local! {
    static ENTERED: RefCell<Vec<Machine>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, this thread's programs find the machine's GPU.
#[must_use = "the machine is left when this is dropped"]
pub struct Entered {
    /// Left on the thread that entered.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENTERED.with_borrow_mut(|entered| drop(entered.pop()));
    }
}

impl Machine {
    /// What a machine is to be.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The machine that this thread entered last, else the process's default one.
    #[must_use]
    pub fn current() -> Self {
        static DEFAULT: OnceLock<Machine> = OnceLock::new();
        let entered = ENTERED.with_borrow(|entered| entered.last().cloned());
        entered.unwrap_or_else(|| DEFAULT.get_or_init(|| Self::builder().build()).clone())
    }

    pub(crate) fn new(config: Config) -> Self {
        foundation::version_comes_from(|| Self::current().macos().into());
        foundation::version_comes_from(|| {
            let (major, minor, patch) = Self::current().macos();
            [major, minor, patch]
        });
        Self(Arc::new(Inner {
            faults: Mutex::default(),
            gate: Gate::default(),
            heap: Mutex::new(Heap::default()),
            tag: Tag::new(),
            tally: Tally::default(),
            armed: AtomicBool::new(false),
            execution: AtomicBool::new(true),
            overlap: AtomicBool::new(config.overlap),
            // The generator needs a number that is not zero.
            random: Mutex::new(config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            violations: Mutex::default(),
            workers: OnceLock::new(),
            config,
        }))
    }

    /// Makes this machine the one that this thread's programs find, until the guard is dropped.
    pub fn enter(&self) -> Entered {
        ENTERED.with_borrow_mut(|entered| entered.push(self.clone()));
        Entered { _thread: std::marker::PhantomData }
    }

    /// What is to go wrong.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults(self.clone())
    }

    /// From now on command buffers wait before they run, until released.
    pub fn hold(&self) {
        self.0.gate.hold_execution(true);
    }

    /// From now on command buffers that have run wait before they complete, until released.
    pub fn hold_completions(&self) {
        self.0.gate.hold_completion(true);
    }

    /// Ends every hold of command buffers.
    pub fn release(&self) {
        self.0.gate.hold_execution(false);
        self.0.gate.hold_completion(false);
    }

    /// From now on compiles of pipelines wait before they begin, until released. Counts have those that wait among the ones that
    /// are compiled; a call that blocks until its pipeline is made blocks for as long.
    pub fn hold_compiles(&self) {
        self.0.gate.hold_compiles(true);
    }

    /// Ends the hold of compiles.
    pub fn release_compiles(&self) {
        self.0.gate.hold_compiles(false);
    }

    /// Lets one command buffer pass each hold that is on: one more runs, and one more completes.
    pub fn release_one(&self) {
        self.0.gate.pass_one();
    }

    /// From now on completion handlers run so.
    pub fn handlers(&self, handlers: Handlers) {
        self.0.gate.set_handlers(handlers);
    }

    /// How many command buffers wait for their handlers to be released ([`Handlers::Hold`]).
    #[must_use]
    pub fn held_handlers(&self) -> usize {
        self.0.gate.held()
    }

    /// Runs the handlers of one of the command buffers that wait, by its place among them.
    pub fn release_handler(&self, at: usize) {
        self.0.gate.release_handler(at);
    }

    /// Runs all handlers that wait, in the order in which the command buffers completed.
    pub fn release_handlers(&self) {
        while self.held_handlers() > 0 {
            self.release_handler(0);
        }
    }

    /// Whether command buffers run what they hold (they do), or complete at once.
    pub fn execution(&self, on: bool) {
        self.0.execution.store(on, Ordering::Relaxed);
    }

    /// Whether passes that no fence, no tracked buffer and no completed command buffer orders run in an order of chance
    /// (they do, unless the builder said otherwise).
    pub fn overlap(&self, on: bool) {
        self.0.overlap.store(on, Ordering::Relaxed);
    }

    /// Waits until every committed command buffer has completed, its handlers have returned, and what it kept is released.
    /// What is held must be released first.
    pub fn settle(&self) {
        self.0.gate.settle();
    }

    /// What lives on the machine, and what has happened on it.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let tally = &self.0.tally;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            live: self.0.tag.objects(),
            allocated: self.0.heap.lock().allocated(),
            command_buffers: read(&tally.made),
            committed: read(&tally.committed),
            completed: read(&tally.completed),
            dispatches: read(&tally.dispatches),
            handlers: read(&tally.handlers),
            compiled: read(&tally.compiled),
            compiling: read(&tally.compiling),
            compiling_most: read(&tally.compiling_most),
            resident: read(&tally.resident),
        }
    }

    /// Living objects of the machine.
    #[must_use]
    pub fn live(&self) -> isize {
        self.0.tag.total()
    }

    /// The violations so far, where the machine records them.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.0.violations.lock().clone()
    }

    /// The version of macOS that the machine runs.
    #[must_use]
    pub fn macos(&self) -> (usize, usize, usize) {
        self.0.config.macos
    }

    /// Whether a call may do what it does. Throws an exception where that was asked for.
    #[inline]
    pub(crate) fn permits(&self, what: What) -> bool {
        !self.0.armed.load(Ordering::Relaxed) || self.permits_counted(what)
    }

    #[cold]
    fn permits_counted(&self, what: What) -> bool {
        // The lock is given back before anything unwinds.
        let fate = self.0.faults.lock().call(what);
        match fate {
            Fate::Proceed => true,
            Fate::Refuse => false,
            Fate::Throw => exception::raise("NSInternalInconsistencyException", &format!("{what:?}: asked to throw")),
        }
    }

    /// Records a violation, or panics with it. Where the machine records, the message goes on as harmlessly as it can.
    #[track_caller]
    pub(crate) fn violate(&self, call: &'static str, why: impl Into<String>) {
        let violation = Violation { call, why: why.into() };
        self.0.violations.lock().push(violation.clone());
        if self.0.config.record {
            return;
        }
        if std::thread::panicking() {
            eprintln!("Metal: {violation}");
        } else {
            panic!("Metal: {violation}");
        }
    }

    /// Records a violation that a thread of the machine found, or ends the process: nobody could catch a panic there.
    pub(crate) fn violate_on_gpu(&self, call: &'static str, why: impl Into<String>) {
        let violation = Violation { call, why: why.into() };
        self.0.violations.lock().push(violation.clone());
        if !self.0.config.record {
            eprintln!("Metal: {violation}");
            std::process::abort();
        }
    }

    /// A number below `bound`, from the machine's seed.
    pub(crate) fn random(&self, bound: u64) -> u64 {
        let mut state = self.0.random.lock();
        // xorshift64*: Marsaglia, "Xorshift RNGs" (2003), multiplied as Vigna has it.
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).checked_rem(bound).unwrap_or(0)
    }

    /// Whether command buffers run what they hold.
    pub(crate) fn executes(&self) -> bool {
        self.0.execution.load(Ordering::Relaxed)
    }

    /// Whether unordered passes run in an order of chance.
    pub(crate) fn overlaps(&self) -> bool {
        self.0.overlap.load(Ordering::Relaxed)
    }

    /// The threads that run kernels, started at the first dispatch.
    pub(crate) fn workers(&self) -> &Workers {
        self.0.workers.get_or_init(|| Workers::with_patience(self.0.config.workers, self.0.config.patience))
    }

    /// Seconds since the system started, as `NSProcessInfo` and Metal's own times count them.
    pub(crate) fn now() -> f64 {
        foundation::uptime()
    }

    /// Whether two handles are of one machine.
    pub(crate) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Machine").field("name", &self.0.config.name).finish_non_exhaustive()
    }
}
