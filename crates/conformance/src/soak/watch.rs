//! Looking at the process and at the driver's counts while the load runs.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::report::{Count, more};
use super::takes::Takes;
use super::{Common, THREADS};

/// How often the process is looked at. TIMEOUT: often enough to see the worst, and rare enough to cost nothing.
const LOOK: Duration = Duration::from_millis(200);

/// TIMEOUT: how long what ends by itself has for it: a reaper looks every 20 ms, and a busy machine may let a thread wait for
/// seconds. What is left after that is left for good.
const SETTLES: Duration = Duration::from_secs(10);

/// TIMEOUT: between two looks at what ends by itself within tens of milliseconds.
const NEXT_LOOK: Duration = Duration::from_millis(10);

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
    /// What was counted at the first rest, and the bytes that were resident there.
    pub first: (u64, Vec<Count>),
    /// The same at the last rest, or at the first that found more.
    pub last: (u64, Vec<Count>),
    /// Episodes that had ended by the first rest.
    pub warm_episodes: u64,
}

/// Looks until the time is up, or a thread of the load has ended by a panic, and ends the load.
pub(super) fn watch(common: &Common, time: Duration, counts: &dyn Fn() -> Vec<Count>) -> Looked {
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
    let counted = || settled(|| at_rest(common, counts), |one, two| one == two);
    let first = rest(common, counted);
    let warm_episodes = common.ended.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    let (mut last, mut most) = (first.clone(), first.0);
    let warm_over = began.elapsed();
    for number in 1..RESTS {
        // The rest of the time in equal shares, also where the first round took longer than its own.
        let end = warm_over + time.saturating_sub(warm_over) * number / (RESTS - 1);
        while began.elapsed() < end && !common.over.load(Ordering::Relaxed) {
            // TIMEOUT: see `LOOK`.
            std::thread::sleep(look);
            most = most.most(Takes::now());
        }
        last = rest(common, || until(|| at_rest(common, counts), |counts| more(&first.1, counts).is_none()));
        if more(&first.1, &last.1).is_some() {
            break;
        }
    }
    common.over.store(true, Ordering::Relaxed);
    Looked { warm, most, first: (first.0.bytes, first.1), last: (last.0.bytes, last.1), warm_episodes }
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

/// Looks until some looks in a row have found the same.
pub(super) fn settled<T>(look: impl Fn() -> T, is_same: impl Fn(&T, &T) -> bool) -> T {
    let began = Instant::now();
    let (mut found, mut same) = (look(), 0);
    while same < STILL && began.elapsed() < SETTLES {
        // TIMEOUT: see `NEXT_LOOK`.
        std::thread::sleep(NEXT_LOOK);
        let next = look();
        same = if is_same(&found, &next) { same + 1 } else { 0 };
        found = next;
    }
    found
}

/// Looks until what is found is due, or nothing ends by itself any more.
pub(super) fn until<T>(look: impl Fn() -> T, due: impl Fn(&T) -> bool) -> T {
    let began = Instant::now();
    loop {
        let found = look();
        if due(&found) || began.elapsed() > SETTLES {
            return found;
        }
        // TIMEOUT: see `NEXT_LOOK`.
        std::thread::sleep(NEXT_LOOK);
    }
}
