//! Looking at the process and at the driver's counts while the load runs.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::report::{Count, more};
use super::takes::Takes;
use super::{Common, Kind, THREADS};

/// How often the process is looked at. TIMEOUT: often enough to see the worst, and rare enough to cost nothing.
const LOOK: Duration = Duration::from_millis(200);

/// TIMEOUT: between two looks at what ends by itself within tens of milliseconds.
const NEXT_LOOK: Duration = Duration::from_millis(10);

/// TIMEOUT: how long no episode may end. One takes milliseconds, or seconds on a machine that does much else, and a rest that fails
/// takes ten.
const STANDS: Duration = Duration::from_mins(2);

/// How many looks in a row find the same where nothing moves any more: so many that a reaper has come by in between.
const STILL: usize = 10;

/// How many rests there are: the end of each fifth of the time.
const RESTS: u32 = 5;

/// What was seen.
pub(super) struct Looked {
    /// The most of the warm-up.
    pub warm: Takes,
    /// The most after it.
    pub most: Takes,
    /// The bytes that were resident at each rest.
    pub rests: Vec<u64>,
    /// What was counted at the first rest.
    pub first: Vec<Count>,
    /// What was counted at the last rest, or at the first that found more.
    pub last: Vec<Count>,
    /// Episodes that ended after the first rest, and those of them that ended a device with work under way.
    pub episodes: u64,
    pub losses: u64,
}

/// Looks until the time is up, or a thread of the load has ended by a panic, and ends the load.
pub(super) fn watch(common: &Common, time: Duration, settles: Duration, counts: &dyn Fn() -> Vec<Count>) -> Looked {
    let (began, look) = (Instant::now(), LOOK.min(time / 20));
    let mut warm = Takes::default();
    while began.elapsed() < time / RESTS || common.rounds.load(Ordering::Relaxed) < THREADS {
        if common.over.load(Ordering::Relaxed) {
            break;
        }
        // TIMEOUT: see `LOOK`.
        std::thread::sleep(look);
        warm = warm.most(Takes::now());
    }
    let counted = || settled(settles, || at_rest(common, counts), |one, two| one == two);
    let first = rest(common, counted);
    let warm_ends = common.ends();
    let (mut last, mut most, mut rests) = (first.1.clone(), first.0, vec![first.0.bytes]);
    let warm_over = began.elapsed();
    for number in 1..RESTS {
        // Four more fifths, also where the first round took longer than its own.
        let end = warm_over + time * number / RESTS;
        while began.elapsed() < end && !common.over.load(Ordering::Relaxed) {
            // TIMEOUT: see `LOOK`.
            std::thread::sleep(look);
            most = most.most(Takes::now());
        }
        let found =
            rest(common, || until(settles, || at_rest(common, counts), |counts| more(&first.1, counts).is_none()));
        rests.push(found.0.bytes);
        (most, last) = (most.most(found.0), found.1);
        if more(&first.1, &last).is_some() {
            break;
        }
    }
    common.over.store(true, Ordering::Relaxed);
    let ends = common.ends();
    let (episodes, losses) = (ends.0 - warm_ends.0, ends.1 - warm_ends.1);
    Looked { warm, most, rests, first: first.1, last, episodes, losses }
}

/// Ends the process where no episode ends any more, until the load is over and its threads with it.
pub(super) fn guard(name: &str, common: &Common) {
    let ended = || common.ended.each_ref().map(|count| count.load(Ordering::Relaxed));
    let (mut moved, mut seen) = (Instant::now(), ended());
    while !common.over.load(Ordering::Relaxed) {
        // TIMEOUT: between two looks; who ends the load wakes it.
        std::thread::park_timeout(Duration::from_secs(1));
        let now = ended();
        if now != seen {
            (moved, seen) = (Instant::now(), now);
        }
        if moved.elapsed() > STANDS {
            println!(
                "soak of {name}: no episode has ended for {} s: {seen:?} have, of {:?}",
                STANDS.as_secs(),
                Kind::ALL
            );
            std::process::exit(1);
        }
    }
}

/// Looks while no episode is under way.
fn rest(common: &Common, counts: impl FnOnce() -> Vec<Count>) -> (Takes, Vec<Count>) {
    let _nobody_works = common.resting.write().unwrap_or_else(PoisonError::into_inner);
    let counts = counts();
    (Takes::now(), counts)
}

/// What is counted with the shared devices' caches given back.
fn at_rest(common: &Common, counts: &dyn Fn() -> Vec<Count>) -> Vec<Count> {
    let held = |(number, (device, _)): (usize, &(rig::Device, _))| {
        device.reclaim();
        let budget = device.budget();
        device.set_budget(0);
        device.set_budget(budget);
        Count::exact(&format!("bytes of {device} ({number})"), device.allocated() + device.cached())
    };
    common.shared.iter().enumerate().map(held).chain(counts()).collect()
}

/// Looks until some looks in a row have found the same, or the time is up.
pub(super) fn settled<T>(time: Duration, look: impl Fn() -> T, is_same: impl Fn(&T, &T) -> bool) -> T {
    let began = Instant::now();
    let (mut found, mut same) = (look(), 0);
    while same < STILL && began.elapsed() < time {
        // TIMEOUT: see `NEXT_LOOK`.
        std::thread::sleep(NEXT_LOOK);
        let next = look();
        same = if is_same(&found, &next) { same + 1 } else { 0 };
        found = next;
    }
    found
}

/// Looks until what is found is due, or the time is up.
pub(super) fn until<T>(time: Duration, look: impl Fn() -> T, due: impl Fn(&T) -> bool) -> T {
    let began = Instant::now();
    loop {
        let found = look();
        if due(&found) || began.elapsed() > time {
            return found;
        }
        // TIMEOUT: see `NEXT_LOOK`.
        std::thread::sleep(NEXT_LOOK);
    }
}
