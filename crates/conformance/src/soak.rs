//! The soak: mixed load of real threads on a driver's devices for as long as it is told, with memory that stays flat and handles
//! that all come back. What any author of a driver runs from that driver's own tests:
//!
//! ```
//! # #[cfg(not(rig_shuttle))] {
//! use std::time::Duration;
//!
//! use rig_conformance::model::{Model, Options, Pace, image};
//! use rig_conformance::soak::{Count, Kernels, Soak};
//!
//! let model = Model::with("MODEL", Options::default().pace(Pace::Slept));
//! let kernels = Kernels {
//!     image: image(&["add params=24", "scale params=16", "iota", "spin"]),
//!     groups: [16, 1, 1],
//!     threads: [64, 1, 1],
//!     spin_rounds: 3,
//! };
//! let open = || rig::open(model.opener());
//! Soak::new("the model", |_| (kernels.clone(), open))
//!     .shared(&kernels, open)
//!     .shared(&kernels, open)
//!     .counts(|| {
//!         let regions = (0..model.opened()).map(|device| model.device(device).regions() as u64);
//!         vec![Count::exact("regions", regions.sum())]
//!     })
//!     .run(Duration::from_millis(50))
//!     .unwrap();
//! # }
//! ```
//!
//! [`main`] makes a test program of it, which is told for how long: `--minutes N`.
//!
//! # The load
//!
//! Four threads share the devices that [`Soak::shared`] opens, and each opens, loses and closes devices of its own ([`Own`]). A
//! thread does one *episode* after the other, of a [`Kind`] that is drawn, with the kernels of the [suite](crate::suite), and
//! compares what it computes with the same on the host. It begins with one of each kind, so that even a short soak has all.
//!
//! A kind that the devices' facts rule out, such as wrapped memory where no device maps the host's, is left out, and the soak says
//! which and why. A kind that they do not rule out and that never ran fails the soak. Fills are no part of it: each driver's encoder
//! is its own.
//!
//! # What it looks at
//!
//! While the load runs, the process's resident bytes, open files and threads: after the warm-up, which is a fifth of the time and as
//! long as the first round takes, none may be more than the most of the warm-up and what can still come ([`MARGIN_BYTES`],
//! [`LOSS_BYTES`], [`OWN_DEVICES`], where the arithmetic stands).
//!
//! Five times, at the end of each fifth, the load comes to a *rest*: every thread has ended its episode, so that no device of its own
//! is open, and what the shared devices keep for later is taken back ([`Device::reclaim`], and a budget of nothing for a moment). There
//! the bytes that buffers and code take on each shared device, and whatever the driver counts ([`Soak::counts`]), must be what they
//! were at the first rest. What ends late, on threads of its own, has ten seconds for it ([`Soak::settles`]).
//!
//! Where no episode ends for two minutes, one waits for what never comes. Its thread cannot be ended, so the process is.
//!
//! At the end, with every device closed, files, threads and the driver's counts must be what they were before the first was opened.
//!
//! # Invariants
//!
//! 1. An episode holds one lock for reading; a rest holds it for writing. So nobody works while a rest looks.
//! 2. An episode leaves nothing: what it opened is closed and dropped when it returns.
//!
//! Threads: the load's are scoped to [`Soak::run`], which looks from the thread that called it. A soak counts what its process has,
//! so it runs alone in one.

mod episodes;
mod mixer;
mod program;
mod report;
mod takes;
mod watch;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use rig::Device;

use self::episodes::{Load, SHORT_BUDGET};
pub use self::mixer::{Kernels, LEN};
pub use self::program::main;
pub use self::report::Count;
use self::report::{Report, Tally, more};
use self::takes::Takes;
use crate::suite::Fixtures;

/// The threads of the load.
pub const THREADS: u64 = 4;

/// By how many bytes resident memory may still grow after the warm-up. Each thread has a heap of its own, and each may only then
/// meet its worst: an episode of [`Kind::Short`], whose buffers take what the budget allows and are the host's memory on a model
/// or on the host; and 2 MiB for a chain under a profile, of which all threads' submits are a part. A heap gives back little of
/// what it once had. No more than that is ever held at a time: whatever grows with the number of episodes passes it, but for [`LOSS_BYTES`].
pub const MARGIN_BYTES: u64 = THREADS * (SHORT_BUDGET + (2 << 20));

/// By how many bytes more for each device that ended with work under way since the warm-up: rig keeps 48 bytes for each loss, since
/// the points of a lost device answer for ever (C31), in vectors that have room for up to twice as many.
pub const LOSS_BYTES: u64 = 2 * 48;

/// How many devices of their own the threads have at a time, at most: two each, of which one has ended, and one before them that is
/// still closing. By so many, times what one of them takes ([`Soak::handles`]), open files and threads may be more than in the warm-up.
pub const OWN_DEVICES: u64 = THREADS * 3;

/// TIMEOUT: how long what ends by itself has for it: a reaper looks every 20 ms, and a busy machine may let a thread wait for
/// seconds. What is left after that is left for good.
const SETTLES: Duration = Duration::from_secs(10);

/// What a thread of the load does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Launches, memsets and copies over all shared devices, on integers.
    Words,
    /// The same on floats, with launches that read another device's memory.
    Floats,
    /// The same, whose points are awaited as futures.
    Futures,
    /// The same under a profile.
    Profiles,
    /// Memory of one shared device that another writes where it is.
    Borrows,
    /// The host's memory that a shared device writes where it is.
    Wraps,
    /// Images that are loaded, used and dropped.
    Images,
    /// Objects that submissions keep for their work.
    Keeps,
    /// A device of the thread's own whose memory runs out.
    Short,
    /// One that is lost by [`Device::lose`] with work under way, and opened again.
    Losses,
    /// One that is closed with work under way, and opened again.
    Closes,
    /// One that faults with work under way, and is opened again.
    Faults,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 12] = [
        Kind::Words,
        Kind::Floats,
        Kind::Futures,
        Kind::Profiles,
        Kind::Borrows,
        Kind::Wraps,
        Kind::Images,
        Kind::Keeps,
        Kind::Short,
        Kind::Losses,
        Kind::Closes,
        Kind::Faults,
    ];

    /// The kind's name in what the soak says.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Words => "words",
            Kind::Floats => "floats",
            Kind::Futures => "futures",
            Kind::Profiles => "profiles",
            Kind::Borrows => "borrows",
            Kind::Wraps => "wraps",
            Kind::Images => "images",
            Kind::Keeps => "keeps",
            Kind::Short => "shortages",
            Kind::Losses => "losses",
            Kind::Closes => "closes",
            Kind::Faults => "faults",
        }
    }
}

/// The devices that one thread of the load opens, loses and closes for itself.
///
/// A pair of kernels and a closure that opens is one.
pub trait Own {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// Those of an open: they fail the soak.
    fn open(&mut self) -> rig::Result<Device>;

    /// The suite's kernels for such a device.
    fn kernels(&self) -> &Kernels;

    /// Whether [`fault`](Own::fault) makes a device fault, after which another can be opened.
    fn faults(&self) -> bool {
        false
    }

    /// Makes the device that was opened last fault as its hardware would, and returns at once.
    fn fault(&mut self, device: &Device) {
        let _ = device;
    }

    /// Called after each episode that opened devices, once their handles are dropped. Their work may still run.
    fn closed(&mut self) {}
}

impl<F: FnMut() -> rig::Result<Device>> Own for (Kernels, F) {
    fn open(&mut self) -> rig::Result<Device> {
        (self.1)()
    }

    fn kernels(&self) -> &Kernels {
        &self.0
    }
}

/// Opens a shared device.
type Open<'s> = Box<dyn Fn() -> rig::Result<Device> + 's>;

/// Gives what the thread of this number opens devices by.
type OwnOf<'s> = Box<dyn Fn(u64) -> Box<dyn Own + 's> + Sync + 's>;

/// A soak to be run. See the head of the [module](self).
pub struct Soak<'s> {
    name: &'s str,
    shared: Vec<(Kernels, Open<'s>)>,
    own: OwnOf<'s>,
    counts: Box<dyn Fn() -> Vec<Count> + 's>,
    once: Option<&'s str>,
    handles: u64,
    settles: Duration,
}

impl<'s> Soak<'s> {
    /// A soak whose threads, numbered from 0, open devices of their own by what `own` gives each.
    pub fn new<O: Own + 's>(name: &'s str, own: impl Fn(u64) -> O + Sync + 's) -> Soak<'s> {
        let own: OwnOf<'s> = Box::new(move |thread| Box::new(own(thread)));
        Soak { name, shared: Vec::new(), own, counts: Box::new(Vec::new), once: None, handles: 1, settles: SETTLES }
    }

    /// Adds a device that all threads share. It is opened twice where [`once_before`](Soak::once_before) was asked for.
    #[must_use]
    pub fn shared(mut self, kernels: &Kernels, open: impl Fn() -> rig::Result<Device> + 's) -> Soak<'s> {
        self.shared.push((kernels.clone(), Box::new(open)));
        self
    }

    /// What the driver, or what stands under it, counts of its own. Called before the first device is opened, at each rest and
    /// after the last device is closed, with no episode under way.
    #[must_use]
    pub fn counts(mut self, counts: impl Fn() -> Vec<Count> + 's) -> Soak<'s> {
        self.counts = Box::new(counts);
        self
    }

    /// Runs each kind once on devices that are then closed, before anything is counted: for a library under the driver that opens
    /// files and threads when they are first needed and keeps them until the process ends. `why` is part of what the soak says.
    #[must_use]
    pub fn once_before(mut self, why: &'s str) -> Soak<'s> {
        self.once = Some(why);
        self
    }

    /// How many files, or threads, a device has at most, with its buffers: one unless this says otherwise.
    #[must_use]
    pub fn handles(mut self, most: u64) -> Soak<'s> {
        self.handles = most;
        self
    }

    /// How long what ends by itself has for it, at rests and at the end: ten seconds unless this says otherwise. Only a soak that
    /// fails takes so long.
    #[must_use]
    pub fn settles(mut self, time: Duration) -> Soak<'s> {
        self.settles = time;
        self
    }

    /// Runs it for so long, and prints what ran and what was seen.
    ///
    /// # Errors
    ///
    /// What grew, what is left, or which kind never ran.
    ///
    /// # Panics
    ///
    /// If an episode does not find what is due: then the soak ends with it.
    pub fn run(self, time: Duration) -> Result<(), String> {
        if let Some(why) = self.once {
            println!("soak of {}: each kind once before, as {why}", self.name);
            let common = self.open()?;
            let mut load = Load::new(&common, 0, (self.own)(0));
            common.kinds.iter().for_each(|&kind| load.episode(kind));
        }
        let looks = || (Takes::now(), (self.counts)());
        let same = |one: &(Takes, Vec<Count>), two: &(Takes, Vec<Count>)| one.0.same_handles(two.0) && one.1 == two.1;
        let before = watch::settled(self.settles, looks, same);
        let common = self.open()?;
        let looked = self.load(&common, time);
        let tally = Tally::of(&common);
        drop(common);
        let due = |(takes, counts): &(Takes, Vec<Count>)| {
            takes.files <= before.0.files && takes.threads <= before.0.threads && more(&before.1, counts).is_none()
        };
        let after = watch::until(self.settles, looks, due);
        Report { name: self.name, time, handles: OWN_DEVICES * self.handles, tally, before, looked, after }.judge()
    }

    /// Opens the shared devices, and finds which kinds they rule out.
    fn open(&self) -> Result<Common, String> {
        let opened = |(kernels, open): &(Kernels, Open<'s>)| Ok((open()?, kernels.clone()));
        let shared: rig::Result<Vec<_>> = self.shared.iter().map(opened).collect();
        let shared = shared.map_err(|why| format!("a shared device does not open: {why}"))?;
        assert!(!shared.is_empty(), "a soak needs a device that its threads share");
        Common::new(shared, (self.own)(0).faults())
    }

    /// Runs the threads, and looks.
    fn load(&self, common: &Common, time: Duration) -> watch::Looked {
        std::thread::scope(|scope| {
            let guard = scope.spawn(|| watch::guard(self.name, common)).thread().clone();
            for thread in 0..THREADS {
                let own = &self.own;
                scope.spawn(move || {
                    let _ends = Ends(common);
                    let mut load = Load::new(common, thread, own(thread));
                    load.first_round(thread);
                    common.rounds.fetch_add(1, Ordering::Relaxed);
                    while !common.over.load(Ordering::Relaxed) {
                        load.any_episode();
                    }
                });
            }
            let looked = watch::watch(common, time, self.settles, &*self.counts);
            guard.unpark();
            looked
        })
    }
}

/// Ends the soak where its thread panics.
struct Ends<'c>(&'c Common);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.over.store(true, Ordering::Relaxed);
        }
    }
}

/// What the threads share.
struct Common {
    shared: Vec<(Device, Kernels)>,
    /// Which devices, by number, can borrow whose memory: lender and borrower.
    pairs: Vec<(usize, usize)>,
    /// Which devices map the host's memory.
    maps: Vec<usize>,
    /// The kinds that run.
    kinds: Vec<Kind>,
    /// And those that do not, with the reason.
    left_out: Vec<(Kind, String)>,
    resting: RwLock<()>,
    /// Ends the load.
    over: AtomicBool,
    /// How many threads have ended their first round.
    rounds: AtomicU64,
    /// How many episodes of each kind have ended.
    ended: [AtomicU64; Kind::ALL.len()],
    /// The ways that copies went, and how many each.
    copies: Mutex<Vec<(rig::CopyPath, u64)>>,
    /// The names of the shared devices of which a profile had times.
    timed: Mutex<Vec<String>>,
}

impl Common {
    fn new(shared: Vec<(Device, Kernels)>, faults: bool) -> Result<Common, String> {
        let mut left_out = Vec::new();
        let (pairs, refusal) = pairs(&shared)?;
        if pairs.is_empty() {
            left_out.push((Kind::Borrows, refusal));
        }
        let maps: Vec<usize> = (0..shared.len()).filter(|&at| shared[at].0.facts().maps_host).collect();
        if maps.is_empty() {
            left_out.push((Kind::Wraps, "the facts of no shared device say that it maps the host's memory".into()));
        }
        if !faults {
            left_out.push((Kind::Faults, "what opens the threads' own devices makes none fault".into()));
        }
        let runs = |kind: &Kind| !left_out.iter().any(|(out, _)| out == kind);
        let kinds = Kind::ALL.into_iter().filter(runs).collect();
        Ok(Common {
            shared,
            pairs,
            maps,
            kinds,
            left_out,
            resting: RwLock::new(()),
            over: AtomicBool::new(false),
            rounds: AtomicU64::new(0),
            ended: Default::default(),
            copies: Mutex::default(),
            timed: Mutex::default(),
        })
    }

    /// How many episodes have ended, and how many of them ended a device with work under way.
    fn ends(&self) -> (u64, u64) {
        let count = |kind: &Kind| self.ended[*kind as usize].load(Ordering::Relaxed);
        (Kind::ALL.iter().map(count).sum(), [Kind::Losses, Kind::Closes, Kind::Faults].iter().map(count).sum())
    }

    /// Counts one more copy that went this way.
    fn copied(&self, path: rig::CopyPath) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        match copies.iter_mut().find(|(known, _)| *known == path) {
            Some((_, count)) => *count += 1,
            None => copies.push((path, 1)),
        }
    }

    /// Notes that a profile had times of this device.
    fn told_times(&self, name: &str) {
        let mut timed = self.timed.lock().unwrap_or_else(PoisonError::into_inner);
        if !timed.iter().any(|known| known == name) {
            timed.push(name.to_owned());
        }
    }
}

/// Which shared devices borrow one another's memory, and the last reason why two do not.
fn pairs(shared: &[(Device, Kernels)]) -> Result<(Vec<(usize, usize)>, String), String> {
    let mut refusal = "there is one shared device alone".to_owned();
    let mut pairs = Vec::new();
    for (from, (lender, _)) in shared.iter().enumerate() {
        let buffer = lender.buffer(4 * LEN).map_err(|why| format!("{lender} has no buffer: {why}"))?;
        for (to, (borrower, _)) in shared.iter().enumerate().filter(|&(to, _)| to != from) {
            match buffer.borrow(borrower) {
                Ok(_) => pairs.push((from, to)),
                Err(rig::Error::Refused(why)) => refusal = why,
                Err(other) => return Err(format!("{borrower} neither borrows of {lender} nor refuses: {other}")),
            }
        }
    }
    Ok((pairs, refusal))
}

impl Kernels {
    /// The kernels that a driver's fixtures give the suite.
    pub fn of(fixtures: &impl Fixtures) -> Kernels {
        let (groups, threads) = fixtures.grid(LEN as u32);
        Kernels { image: fixtures.image(), groups, threads, spin_rounds: fixtures.spin_rounds() }
    }
}
