//! The cores device's pool: a queue of values, worker threads, and waiters that help.
//!
//! # How work gets done
//!
//! Values run one after the other, and the steps of a value too. The groups of the step at hand are claimed in chunks by
//! *runners*: workers of the pool, and threads that wait for a value and help meanwhile. At most as many run as the device
//! has cores.
//!
//! Waking a parked thread costs far more than a small launch, so a submit of little work wakes nobody: most often its
//! caller waits for it next, and runs it. For when nobody does, one worker keeps *watch*: it looks at the queue every
//! [`TICK`] and runs what it already saw at its last look. A watch that sees no new work for a while ends, and then the
//! next submit wakes a worker, which takes the watch up again. Large work, by the running mean of what its function's groups
//! cost, wakes workers at the submit; a runner that finds more work at hand than was known wakes them then.
//!
//! # Invariants
//!
//! 1. While values are left to run and the device has not faulted: a runner is active, or a worker keeps watch, or a
//!    worker has been notified and not yet looked. So committed work runs without further calls (E10).
//! 2. A job is touched by `encode` and `clear` only while it is in no queue and claimed by nobody.
//! 3. The word is raised under the lock: to each value in order, and by a stop to the last value given to submit.
//!
//! # Threads and memory ordering
//!
//! All state is under one lock, which orders what one chunk wrote before the next step's chunks, on whatever thread. The
//! word's Release publishes a value's writes to who reads the word without the lock. No code of the program's runs under
//! the lock.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rig_edge::{Fault, Sleep, Submitted, Word};

use crate::work::Job;

/// How often the watch looks. A look costs about 8 us of processor time here, so this is under 2% of a core; work that
/// nobody waits for starts within two looks.
pub(crate) const TICK: Duration = Duration::from_micros(500);

/// After so many looks without new work the watch ends.
const QUIET_TICKS: u32 = 20;

/// Work that takes longer wakes other cores: about what their waking takes (57 to 82 us seen).
const WAKE_NS: u64 = 80_000;

/// How long a runner with nothing to claim waits for the next step before it parks: about the time that a chunk of
/// another runner's takes, and that waking it again would take.
const LINGER: Duration = Duration::from_micros(60);

/// The most values in flight: what bounds the queue's memory. A submit beyond it waits (Later).
pub(crate) const VALUES_MAX: u64 = 1024;

/// The pool of one device.
pub(crate) struct Pool {
    state: Mutex<State>,
    /// Workers park here.
    work: Condvar,
    /// Who sleeps until the word moves parks here.
    moved: Condvar,
    word: &'static Word,
    cores: u32,
    /// The last value given to submit, for `room` alone, which never runs beside a submit. Relaxed.
    last: AtomicU64,
    /// Counts the steps that became claimable, so that a runner sees the next one without the lock. Relaxed: a hint.
    steps_begun: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The values to run, the current one first.
    queue: VecDeque<Arc<Job>>,
    /// Jobs to use again.
    spare: Vec<Arc<Job>>,
    /// The current step of the first job; how many groups it has, the first that nobody claimed, and how many claims run.
    step: usize,
    groups: u64,
    next: u64,
    claims: u32,
    /// Threads that run work or look for it.
    runners: u32,
    /// Workers that are parked, and of those the ones that were notified and have not yet looked.
    parked: u32,
    waking: u32,
    /// Whether a worker keeps watch.
    watch: bool,
    sleepers: u32,
    /// The last value given to submit.
    last: u64,
    fault: Option<Fault>,
    stopping: bool,
}

/// A chunk of a step's groups, claimed by one runner.
struct Claim {
    job: Arc<Job>,
    step: usize,
    groups: Range<u64>,
}

impl Pool {
    /// A pool of `cores` workers that raises `word`. The error says why a thread could not be made.
    pub(crate) fn new(word: &'static Word, cores: u32) -> Result<Arc<Pool>, String> {
        let pool = Arc::new(Pool {
            state: Mutex::new(State { last: word.load(), ..State::default() }),
            work: Condvar::new(),
            moved: Condvar::new(),
            word,
            cores,
            last: AtomicU64::new(word.load()),
            steps_begun: AtomicU64::new(0),
        });
        for core in 0..cores {
            let of_worker = Arc::clone(&pool);
            let spawned = std::thread::Builder::new().name(format!("rig core {core}")).spawn(move || of_worker.work());
            if let Err(why) = spawned {
                pool.stop(None);
                return Err(format!("the host has no thread for core {core}: {why}"));
            }
        }
        Ok(pool)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the lock but a broken invariant, which then shows at its next user too.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the queue holds as many values as it may. Only submits make it more, and those run one at a time.
    pub(crate) fn is_full(&self) -> bool {
        self.last.load(Ordering::Relaxed).saturating_sub(self.word.load()) >= VALUES_MAX
    }

    /// Takes a value, whose job `encode` makes.
    pub(crate) fn submit(&self, value: u64, encode: impl FnOnce(&mut Job) -> Result<(), String>) -> Submitted {
        self.last.store(value, Ordering::Relaxed);
        let mut job = self.lock().spare.pop().unwrap_or_default();
        // With no lock held: fills are code of the program's.
        let encoded = match Arc::get_mut(&mut job) {
            Some(job) => encode(job),
            None => unreachable!("a spare job has one handle"),
        };
        let mut state = self.lock();
        state.last = value;
        if let Err(why) = encoded {
            self.fail(&mut state, why.clone());
            return Submitted::Failed(Fault::here(why));
        }
        if let Some(fault) = &state.fault {
            return Submitted::Failed(fault.clone());
        }
        let large = state.runners < self.cores && large(&job);
        state.queue.push_back(job);
        if state.queue.len() == 1 {
            self.begin(&mut state, 0);
        }
        if state.runners == 0 && !state.watch || large {
            self.wake(&mut state);
        }
        Submitted::Committed
    }

    /// The fault, if there is one.
    pub(crate) fn fault(&self) -> Result<(), Fault> {
        self.lock().fault()
    }

    /// See [`rig_edge::Driver::sleep`].
    pub(crate) fn sleep(&self, sleep: Sleep) -> Result<(), Fault> {
        let until = sleep.help.then_some(sleep.until);
        let mut helped = false;
        let mut state = self.lock();
        loop {
            if let Some(fault) = &state.fault {
                return Err(fault.clone());
            }
            if self.word.load() != sleep.seen {
                return Ok(());
            }
            // Once also where nothing can be claimed yet: what another runner is at may end shortly.
            if let Some(until) = until
                && state.runners < self.cores
                && (state.claimable(until) || !helped && state.concerns(until))
            {
                helped = true;
                state = self.run(state, until, Some(&sleep));
                if state.claimable(until) {
                    return state.fault();
                }
                continue;
            }
            if state.runners == 0 && state.claimable(u64::MAX) {
                self.wake(&mut state);
            }
            state.sleepers += 1;
            let (woken, waited) = wait(&self.moved, state, sleep.still);
            state = woken;
            state.sleepers -= 1;
            if waited {
                return state.fault();
            }
        }
    }

    /// Ends the device: see [`crate::stop`].
    pub(crate) fn stop(&self, fault: Option<&str>) {
        let mut state = self.lock();
        state.stopping = true;
        if let Some(why) = fault
            && state.fault.is_none()
        {
            state.fault = Some(Fault::new(why));
        }
        self.end(&mut state);
        self.work.notify_all();
        self.moved.notify_all();
    }

    /// A worker's life.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if state.runners < self.cores && state.claimable(u64::MAX) {
                state = self.run(state, u64::MAX, None);
            }
            if state.stopping && (state.fault.is_some() || state.queue.is_empty()) {
                break;
            }
            state = if state.watch { self.park(state, None).0 } else { self.keep_watch(state) };
        }
    }

    /// Parks a worker until it is notified or `time` has passed; says whether it was notified.
    fn park<'a>(&self, mut state: MutexGuard<'a, State>, time: Option<Duration>) -> (MutexGuard<'a, State>, bool) {
        state.parked += 1;
        let (mut state, timed_out) = match time {
            Some(time) => wait(&self.work, state, time),
            None => (self.work.wait(state).unwrap_or_else(PoisonError::into_inner), false),
        };
        state.parked -= 1;
        state.waking = state.waking.saturating_sub(1);
        (state, !timed_out)
    }

    /// Keeps watch until there is work for this worker, or has been none for a while; in the latter case parks.
    fn keep_watch<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.watch = true;
        let mut quiet = 0;
        let mut last = state.last;
        let mut seen = None;
        loop {
            let (woken, notified) = self.park(state, Some(TICK));
            state = woken;
            let first = state.queue.front().map(|job| (job.value, state.step));
            let work = state.runners < self.cores && state.claimable(u64::MAX);
            if state.stopping || work && (notified || seen == first) {
                state.watch = false;
                return state;
            }
            seen = first;
            quiet = if state.last == last { quiet + 1 } else { 0 };
            last = state.last;
            if quiet >= QUIET_TICKS && !work {
                state.watch = false;
                // If a runner is active it wakes a worker should it leave work behind; else there is none.
                return self.park(state, None).0;
            }
        }
    }

    /// Runs chunks of values up to `until` as long as there are any, and lingers shortly for the next step. A helper's
    /// session ends with the chunk that outlasts its sleep.
    fn run<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        until: u64,
        helper: Option<&Sleep>,
    ) -> MutexGuard<'a, State> {
        state.runners += 1;
        let start = Instant::now();
        let mut time = start;
        let patient = |time: Instant| helper.is_none_or(|sleep| time.duration_since(start) < sleep.still);
        loop {
            while patient(time)
                && let Some(claim) = state.claim(until, self.cores)
            {
                self.call_for_help(&mut state);
                drop(state);
                let outcome = claim.job.run(claim.step, claim.groups.clone());
                let now = Instant::now();
                claim.job.note(claim.step, claim.groups.end - claim.groups.start, now.duration_since(time));
                time = now;
                state = self.lock();
                self.finish(&mut state, claim, outcome);
            }
            if state.claims == 0 || !state.concerns(until) || self.cores == 1 || !patient(time) {
                break;
            }
            let begun = self.steps_begun.load(Ordering::Relaxed);
            drop(state);
            let on = self.linger(begun, helper);
            state = self.lock();
            if !on && !state.claimable(until) {
                break;
            }
            time = Instant::now();
        }
        state.runners -= 1;
        if state.runners == 0 && !state.watch && state.claimable(u64::MAX) {
            self.wake(&mut state);
        }
        state
    }

    /// Waits shortly for a step to begin after `begun` had; says whether one did. A helper stops once its word has moved.
    fn linger(&self, begun: u64, helper: Option<&Sleep>) -> bool {
        let start = Instant::now();
        while start.elapsed() < LINGER {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
            if self.steps_begun.load(Ordering::Relaxed) != begun {
                return true;
            }
            if helper.is_some_and(|sleep| self.word.load() != sleep.seen) {
                return false;
            }
        }
        false
    }

    /// Wakes another worker if what is left of the current step is worth it.
    fn call_for_help(&self, state: &mut State) {
        let left = state.groups - state.next;
        if left == 0 || state.parked <= state.waking || state.runners + state.waking >= self.cores {
            return;
        }
        // PANIC: groups are left only of the first job of the queue.
        if state.queue[0].cost(state.step, left).is_some_and(|ns| ns > WAKE_NS) {
            self.wake(state);
        }
    }

    /// Notifies a parked worker, if one is left to notify.
    fn wake(&self, state: &mut State) {
        if state.parked > state.waking {
            state.waking += 1;
            self.work.notify_one();
        }
    }

    /// Ends a claim; ends its step and value with it where it was the last.
    fn finish(&self, state: &mut State, claim: Claim, outcome: Result<(), String>) {
        let next_step = claim.step + 1;
        // Under the lock: who takes the job out of the queue finds it claimed by nobody.
        drop(claim);
        state.claims -= 1;
        if let Err(why) = outcome {
            self.fail(state, why);
        }
        if state.fault.is_some() {
            self.end(state);
        } else if state.claims == 0 && state.next == state.groups {
            self.begin(state, next_step);
        }
    }

    /// Makes the first step from `step` on that has groups claimable, over as many values as it takes to find one, and
    /// completes the values that end meanwhile.
    fn begin(&self, state: &mut State, step: usize) {
        (state.step, state.next, state.groups) = (step, 0, 0);
        let mut moved = false;
        while let Some(job) = state.queue.front() {
            if state.step < job.steps().len() {
                state.groups = job.groups(state.step);
                if state.groups > 0 {
                    break;
                }
                state.step += 1;
                continue;
            }
            self.word.raise(job.value);
            moved = true;
            let done = state.queue.pop_front();
            state.spare.extend(done.and_then(cleared));
            state.step = 0;
        }
        if state.groups > 0 {
            self.steps_begun.fetch_add(1, Ordering::Relaxed);
        }
        if moved && state.sleepers > 0 {
            self.moved.notify_all();
        }
        if state.stopping && state.queue.is_empty() {
            self.end(state);
        }
    }

    /// Faults the device, with the first reason.
    fn fail(&self, state: &mut State, why: String) {
        state.fault.get_or_insert_with(|| Fault::new(why));
        self.moved.notify_all();
    }

    /// Where a stopped device runs nothing any more: writes the last value, once and for all.
    fn end(&self, state: &mut State) {
        let over = state.claims == 0 && (state.fault.is_some() || state.queue.is_empty());
        if !state.stopping || !over {
            return;
        }
        state.queue.clear();
        (state.step, state.next, state.groups) = (0, 0, 0);
        if self.word.load() < state.last {
            self.word.raise(state.last);
        }
        self.work.notify_all();
        self.moved.notify_all();
    }
}

impl State {
    fn fault(&self) -> Result<(), Fault> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// Whether the next job concerns who runs values up to `until`.
    fn concerns(&self, until: u64) -> bool {
        self.fault.is_none() && self.queue.front().is_some_and(|job| job.value <= until)
    }

    /// Whether a runner of values up to `until` can claim something.
    fn claimable(&self, until: u64) -> bool {
        self.next < self.groups && self.concerns(until)
    }

    fn claim(&mut self, until: u64, cores: u32) -> Option<Claim> {
        if !self.claimable(until) {
            return None;
        }
        // PANIC: `claimable` found a first job.
        let job = Arc::clone(&self.queue[0]);
        let groups = self.next..self.next + job.share(self.step, self.groups - self.next, u64::from(cores));
        self.next = groups.end;
        self.claims += 1;
        Some(Claim { job, step: self.step, groups })
    }
}

/// Whether the job is known to take so long that other cores should begin on it at once.
fn large(job: &Job) -> bool {
    let costs = (0..job.steps().len()).filter_map(|step| job.cost(step, job.groups(step)));
    costs.fold(0, u64::saturating_add) > WAKE_NS
}

/// A job that nobody claims, to be used again.
fn cleared(mut job: Arc<Job>) -> Option<Arc<Job>> {
    Arc::get_mut(&mut job)?.clear();
    Some(job)
}

/// Waits for at most `time`; says whether it ran out.
fn wait<'a>(condvar: &Condvar, state: MutexGuard<'a, State>, time: Duration) -> (MutexGuard<'a, State>, bool) {
    let (state, result) = condvar.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
    (state, result.timed_out())
}
