//! What happened, in the order in which it did: the simulation's one clock, and what the checkers look at.
//!
//! The lock is the standard library's, so that taking it is no point where threads change, and nothing of rig's or of the
//! model's is called under it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rig::{Error, Point};

use crate::plan::BOUND;
use crate::primitive::passed;

/// The exit status of a run that broke a promise.
pub const BROKEN: i32 = 3;

/// A point as plain numbers: the timeline's and the value's.
pub type Key = (usize, u64);

/// What a call came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Running,
    Done,
    Point(Key),
    Lost { device: String, why: String },
    Invalid(String),
    OutOfMemory,
    Refused(String),
}

impl Outcome {
    pub fn of(error: &Error) -> Outcome {
        match error {
            Error::Invalid(why) => Outcome::Invalid(why.clone()),
            Error::OutOfMemory { .. } => Outcome::OutOfMemory,
            Error::Lost { device, why } => Outcome::Lost { device: device.clone(), why: why.to_string() },
            other => Outcome::Refused(other.to_string()),
        }
    }

    /// The column of the table of operations.
    pub fn column(&self) -> usize {
        match self {
            Outcome::Running | Outcome::Done | Outcome::Point(_) => 0,
            Outcome::Invalid(_) => 1,
            Outcome::OutOfMemory => 2,
            Outcome::Lost { .. } => 3,
            Outcome::Refused(_) => 4,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Running => f.write_str("(still running)"),
            Outcome::Done => f.write_str("done"),
            Outcome::Point((slot, value)) => write!(f, "point {slot}:{value}"),
            Outcome::Lost { device, why } => write!(f, "Lost, {device}: {why}"),
            Outcome::Invalid(why) => write!(f, "Invalid: {why}"),
            Outcome::OutOfMemory => f.write_str("OutOfMemory"),
            Outcome::Refused(why) => write!(f, "Refused: {why}"),
        }
    }
}

/// Bytes of an allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub allocation: usize,
    pub range: Range<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}[{}..{}]", self.allocation, self.range.start, self.range.end)
    }
}

/// What an operation does with bytes.
#[derive(Clone)]
pub enum Part {
    /// `y = 3 y + x + c`
    Mix {
        x: Place,
        y: Place,
        c: u8,
    },
    /// `y = 5 y + c`
    Scale {
        y: Place,
        c: u8,
    },
    Copy {
        from: Place,
        to: Place,
    },
    Memset {
        to: Place,
        byte: u8,
    },
    Put {
        to: Place,
        bytes: Vec<u8>,
    },
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Mix { x, y, c } => write!(f, "{y} = 3 {y} + {x} + {c}"),
            Part::Scale { y, c } => write!(f, "{y} = 5 {y} + {c}"),
            Part::Copy { from, to } => write!(f, "{to} = {from}"),
            Part::Memset { to, byte } => write!(f, "{to} = {byte}"),
            Part::Put { to, bytes } => write!(f, "{to} = {} bytes", bytes.len()),
        }
    }
}

impl Part {
    pub fn written(&self) -> &Place {
        match self {
            Part::Mix { y, .. } | Part::Scale { y, .. } => y,
            Part::Copy { to, .. } | Part::Memset { to, .. } | Part::Put { to, .. } => to,
        }
    }
}

/// How an operation uses an allocation.
#[derive(Clone, Debug)]
pub struct Use {
    pub allocation: usize,
    pub write: bool,
    /// Whether it may count as writing all of it without a look at what was there.
    pub whole: bool,
    pub empty: bool,
}

/// A call of rig's that uses memory.
#[derive(Clone, Debug)]
pub struct Op {
    pub what: String,
    /// The devices that it needs.
    pub devices: Vec<usize>,
    pub uses: Vec<Use>,
    /// The allocations whose stamps it meets, those without bytes included.
    pub meets: Vec<usize>,
    pub parts: Vec<Part>,
    pub after: Vec<Key>,
    pub call: u64,
    pub ret: u64,
    pub outcome: Outcome,
    /// From when to when a closure had the bytes.
    pub window: Option<(u64, u64)>,
    /// What the host saw.
    pub seen: Vec<(Place, Vec<u8>)>,
    /// Whether a queue runs it and no point says which value it is.
    pub blind: bool,
}

/// A call that makes an allocation.
#[derive(Clone, Debug)]
pub struct Allocation {
    pub device: usize,
    pub len: usize,
    /// Whether the bytes are the device's, and count in its budget.
    pub counts: bool,
    pub made: u64,
    /// When the last handle to it was gone.
    pub dropped: Option<u64>,
    pub handles: usize,
    /// Whether a PCI function has its bus addresses: then it is never used again, and counts for ever.
    pub exported: bool,
}

/// A handle's life: to be surely seen between the middle two, and by no means outside the outer two.
#[derive(Clone, Copy, Debug)]
pub struct HandleLife {
    pub allocation: usize,
    pub begun: u64,
    pub born: u64,
    pub dying: u64,
    pub dead: u64,
}

/// A call of consume.
#[derive(Clone, Debug)]
pub struct Consumed {
    pub handle: usize,
    pub call: u64,
    pub ret: u64,
    pub given: bool,
    pub what: String,
}

/// A budget that a device was given.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub bytes: u64,
    /// When the call that gives it began, and when it returned: in between it may hold or not.
    pub begun: u64,
    pub set: u64,
}

/// What is known of a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceLife {
    pub name: String,
    /// Its model, and its number there.
    pub of: (usize, usize),
    /// Why it may be lost.
    pub causes: Vec<String>,
    /// Why the program loses it: nobody else is lost for that, whatever faults reach.
    pub gave_up: Vec<String>,
    /// Why it is.
    pub lost: Option<String>,
    /// Whether the program gave its handle away, and so does not see a loss.
    pub forgotten: bool,
    /// Since when the program knows.
    pub known_lost: Option<u64>,
    /// Whether it has stopped answering.
    pub hung: bool,
    /// When its work ended last, by the clock by which waits give up.
    pub moved: Duration,
    pub budgets: Vec<Budget>,
}

#[derive(Default)]
pub struct Inner {
    pub clock: u64,
    pub ops: Vec<Op>,
    pub allocations: Vec<Allocation>,
    pub handles: Vec<HandleLife>,
    pub consumed: Vec<Consumed>,
    /// Owners of wrapped memory that were dropped, and when.
    pub owners: Vec<(usize, u64)>,
    pub devices: Vec<DeviceLife>,
    /// When each value's work ran.
    pub ran: BTreeMap<Key, (u64, Option<u64>)>,
    /// The timeline of each device of each model: not always that of the word that the driver was given.
    pub timelines: HashMap<(usize, usize), usize>,
    /// The last value that ran of each device of each model.
    last_ran: HashMap<(usize, usize), u64>,
    /// What kernels found, in their order.
    pub inputs: HashMap<u64, Vec<Vec<Vec<u8>>>>,
    /// What was answered about each point.
    pub answers: HashMap<Key, Outcome>,
    /// What failed, for the causes of all devices: with a reach of the whole driver any reason may be anyone's.
    pub reach_all: bool,
    text: Vec<String>,
    doing: BTreeMap<usize, String>,
    pub counts: BTreeMap<&'static str, [u64; 5]>,
    pub steps: u64,
}

pub struct Log {
    inner: Mutex<Inner>,
    trace: bool,
    pub seed: u64,
}

impl Log {
    pub fn new(seed: u64, trace: bool, reach_all: bool) -> Arc<Log> {
        let inner = Inner { reach_all, ..Inner::default() };
        Arc::new(Log { inner: Mutex::new(inner), trace, seed })
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next moment.
    pub fn now(&self) -> u64 {
        let mut inner = self.lock();
        inner.clock += 1;
        inner.clock
    }

    /// The moment before which everything so far was.
    pub fn clock(&self) -> u64 {
        self.lock().clock
    }

    pub fn say(&self, thread: usize, text: &str) {
        let mut inner = self.lock();
        let line = format!("{:6} t{thread} {text}", inner.clock);
        if self.trace {
            println!("{line}");
        }
        inner.text.push(line);
    }

    /// Notes what a thread is about to do.
    pub fn begin(&self, thread: usize, step: &str) {
        let mut inner = self.lock();
        inner.steps += 1;
        inner.doing.insert(thread, step.into());
    }

    pub fn end(&self, thread: usize) {
        self.lock().doing.remove(&thread);
    }

    pub fn count(&self, kind: &'static str, outcome: &Outcome) {
        self.lock().counts.entry(kind).or_default()[outcome.column()] += 1;
    }

    /// Ends the run: a promise is broken.
    pub fn broken(&self, promise: &str, how: &str) -> ! {
        let inner = self.lock();
        println!("BROKEN {promise}: {how}");
        println!("seed {}, at moment {}", self.seed, inner.clock);
        for (thread, step) in &inner.doing {
            println!("thread {thread} is in: {step}");
        }
        for (index, op) in inner.ops.iter().enumerate().filter(|(_, op)| op.outcome == Outcome::Running) {
            println!("#{index} {} has not returned (called {})", op.what, op.call);
        }
        if !self.trace {
            inner.text.iter().for_each(|line| println!("{line}"));
        }
        std::process::exit(BROKEN);
    }

    /// A value's work begins or ends.
    pub fn ran(&self, model: usize, ran: rig_conformance::model::Ran) {
        let mut inner = self.lock();
        // Before the program knows a device's timeline, only the trial runs that tells it.
        let Some(&timeline) = inner.timelines.get(&(model, ran.device)) else { return };
        inner.clock += 1;
        let (now, key) = (inner.clock, (timeline, ran.value));
        if ran.ended {
            if let Some(entry) = inner.ran.get_mut(&key) {
                entry.1 = Some(now);
            }
            let time = passed();
            inner.devices.iter_mut().filter(|life| life.of == (model, ran.device)).for_each(|life| life.moved = time);
            return;
        }
        let last = inner.last_ran.insert((model, ran.device), ran.value);
        let twice = inner.ran.insert(key, (now, None)).is_some();
        let line = format!("{now:6}    the device of timeline {} runs {}", key.0, key.1);
        if self.trace {
            println!("{line}");
        }
        inner.text.push(line);
        drop(inner);
        if twice || last.is_some_and(|last| last + 1 != ran.value) {
            self.broken("C13, E09", &format!("timeline {} runs {} after {last:?}", key.0, key.1));
        }
    }

    /// What a kernel of an operation found.
    pub fn input(&self, op: u64, found: Vec<Vec<u8>>) {
        self.lock().inputs.entry(op).or_default().push(found);
    }

    /// What was answered about a point so far, for good.
    pub fn answer(&self, key: Key) -> Option<Outcome> {
        self.lock().answers.get(&key).cloned()
    }

    /// An answer about a point for good: of a wait or a future, or a `reached` that is no false.
    pub fn answered(&self, key: Key, answer: &rig::Result<bool>) {
        let outcome = match answer {
            Ok(true) => Outcome::Done,
            Ok(false) => Outcome::Running,
            Err(error) => Outcome::of(error),
        };
        if let Outcome::Refused(why) = &outcome {
            // The point stays what it is, and a later wait may go on.
            return self.held_up(why);
        }
        let mut inner = self.lock();
        let ended = inner.ran.get(&key).is_some_and(|ran| ran.1.is_some());
        let before = inner.answers.get(&key).cloned();
        if outcome != Outcome::Running {
            inner.answers.insert(key, outcome.clone());
        }
        drop(inner);
        let named = format!("point {}:{}", key.0, key.1);
        match (&outcome, before) {
            (Outcome::Done, _) if !ended => {
                self.broken("C15, C25, C31", &format!("{named} is reached, and its work has not ended"));
            }
            (Outcome::Done, None) => {}
            (Outcome::Lost { device, why }, None) => self.check_lost(device, why),
            (now, Some(before)) if *now == before => {}
            (now, before) => self.broken("C31", &format!("{named} was {before:?}, and is {now}")),
        }
    }

    /// Whether a Lost names a device that may be lost, with a reason that it may be lost for.
    pub fn check_lost(&self, device: &str, why: &str) {
        let inner = self.lock();
        let all = inner.reach_all;
        let named = |life: &&DeviceLife| all || life.name == device;
        let known = inner.devices.iter().filter(named).any(|life| life.causes.iter().any(|cause| why == cause));
        let own = |life: &DeviceLife| life.name == device && life.gave_up.iter().any(|cause| why == cause);
        let known = known || inner.devices.iter().any(own);
        // A fault of a whole driver is none of the hang bound's, which loses the one device.
        let hangs = |life: &DeviceLife| life.name == device && life.hung && life.moved + BOUND <= passed();
        let known = known || hung_for(why).is_some_and(|ms| ms >= BOUND.as_millis()) && inner.devices.iter().any(hangs);
        drop(inner);
        if !known {
            self.broken("C20", &format!("{device} is lost for {why:?}, which nobody caused"));
        }
    }

    /// Whether a wait may end with this, though its point has neither failed nor been reached: somebody is lost, of the name and
    /// for the reason that it says, and time has passed since.
    fn held_up(&self, why: &str) {
        let named = why
            .split_once(" stands behind work that waits for ")
            .and_then(|(_, rest)| rest.split_once(", which is lost ("));
        let reason = named.and_then(|(name, rest)| Some((name, rest.split_once("): close ")?.0)));
        match reason {
            Some((name, reason)) if !passed().is_zero() => self.check_lost(name, reason),
            _ => self.broken("C15, C20", &format!("a wait is refused: {why}")),
        }
    }

    /// The run's last line but the verdict: what was done how often.
    pub fn print_counts(&self) {
        let inner = self.lock();
        for (kind, counts) in &inner.counts {
            println!("COUNT {} {kind}", counts.map(|count| count.to_string()).join(" "));
        }
        println!("STEPS {}", inner.steps);
    }

    /// Does what waits for no work: no time passes meanwhile, which it only does where all stand still.
    pub fn in_no_time<R>(&self, what: &str, does: impl FnOnce() -> R) -> R {
        let before = passed();
        let result = does();
        let took = passed() - before;
        if !took.is_zero() {
            self.broken("C02, C16", &format!("{what} took {took:?}, and was to wait for no work"));
        }
        result
    }

    /// What threads are in.
    pub fn doing(&self) -> String {
        let inner = self.lock();
        inner.doing.iter().map(|(thread, step)| format!("t{thread}: {step}")).collect::<Vec<_>>().join("; ")
    }
}

/// For how many milliseconds the word stood, where a reason is that.
fn hung_for(why: &str) -> Option<u128> {
    let (_, rest) = why.strip_prefix("its work hung: the word stood at ")?.split_once(" for ")?;
    rest.strip_suffix(" ms")?.parse().ok()
}

/// A point's numbers, which only its Debug tells.
pub fn key(point: &Point) -> Key {
    let text = format!("{point:?}");
    let inner = text.trim_start_matches("Point(").trim_end_matches(')');
    let (slot, value) = inner.split_once(':').expect("a point prints its timeline and value");
    (slot.parse().expect("a timeline"), value.parse().expect("a value"))
}
