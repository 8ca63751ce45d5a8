//! The threads that run kernels.
//!
//! A dispatch is a job of groups. Workers take the first job that has groups left, and of it a few groups at a time; who
//! dispatches waits until the last group has ended.
//!
//! # Invariants
//!
//! 1. A job is in the queue while it may have groups that no worker has taken.
//! 2. A job is finished once its groups are all taken, or given up, and no worker runs any of it.
//! 3. A worker is sent the signal of `stop` only while its thread lives.

#[expect(unsafe_code, reason = "a signal and its handler")]
mod stop;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::fiber::Runner;
use stop::Target;

/// How long a worker that was told to stop has until it is told again: it may have been between two kernels.
const REMINDER: Duration = Duration::from_millis(20);

/// A dispatch as the workers see it.
pub(crate) trait Work: Send + Sync {
    /// Runs groups until none is left to take.
    fn run(&self, worker: &mut Worker);

    /// Lets no more groups be taken, and those that run be left behind when their workers get the signal.
    fn give_up(&self);
}

/// What a worker's thread owns.
#[derive(Debug)]
pub(crate) struct Worker {
    /// No two workers of the process have the same.
    pub(crate) id: u64,
    pub(crate) runner: Runner,
    /// Storage of the threadgroup arguments of the group that runs.
    pub(crate) threadgroup: Vec<u128>,
}

struct Job {
    work: Arc<dyn Work>,
    state: Mutex<State>,
    finished: Condvar,
}

#[derive(Default)]
struct State {
    /// The workers that run it.
    running: Vec<Target>,
    /// Whether its groups are all taken.
    taken: bool,
}

impl State {
    fn is_finished(&self) -> bool {
        self.taken && self.running.is_empty()
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

struct Pool {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
    patience: Option<Duration>,
}

/// A pool of threads that run the groups of dispatches. A clone is another handle to the same pool.
#[derive(Clone)]
pub struct Workers(Arc<Pool>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workers {
    /// A pool of `threads` threads, at least one. They end with the last handle.
    ///
    /// # Panics
    ///
    /// The system refuses a thread.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self::make(threads, None)
    }

    /// A pool whose dispatches may take so long, each from its start to its end: one that takes longer is abandoned with
    /// a timeout. Threads that run its kernels are stopped by the signal `SIGURG`, which this process must leave to this
    /// crate.
    ///
    /// # Panics
    ///
    /// The system refuses a thread.
    #[must_use]
    pub fn with_patience(threads: usize, patience: Duration) -> Self {
        stop::install();
        Self::make(threads, Some(patience))
    }

    fn make(threads: usize, patience: Option<Duration>) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let shared = Arc::new(Shared::default());
        let threads = (0..threads.max(1))
            .map(|_| {
                let shared = Arc::clone(&shared);
                let id = COUNT.fetch_add(1, Ordering::Relaxed);
                let builder = thread::Builder::new().name(format!("metal worker {id}"));
                builder.spawn(move || serve(&shared, id)).expect("the system gives a thread")
            })
            .collect();
        Self(Arc::new(Pool { shared, threads, patience }))
    }

    /// How many threads it has.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.0.threads.len()
    }

    /// Runs work on as many threads of the pool as wanted, and waits until it is finished.
    pub(crate) fn run(&self, work: Arc<dyn Work>, wanted: u64) {
        let job = Arc::new(Job { work, state: Mutex::default(), finished: Condvar::new() });
        lock(&self.0.shared.queue).jobs.push_back(Arc::clone(&job));
        if wanted < self.threads() as u64 {
            (0..wanted).for_each(|_| self.0.shared.arrived.notify_one());
        } else {
            self.0.shared.arrived.notify_all();
        }
        let mut state = lock(&job.state);
        if let Some(patience) = self.0.patience {
            state = self.wait_at_most(&job, state, patience);
        }
        let done = job.finished.wait_while(state, |state| !state.is_finished());
        drop(done.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until the job is finished; gives it up when patience is over.
    fn wait_at_most<'a>(
        &self,
        job: &'a Arc<Job>,
        state: MutexGuard<'a, State>,
        patience: Duration,
    ) -> MutexGuard<'a, State> {
        let wait = |state, time| {
            let waited = job.finished.wait_timeout_while(state, time, |state: &mut State| !state.is_finished());
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        let mut state = wait(state, patience);
        if state.is_finished() {
            return state;
        }
        drop(state);
        job.work.give_up();
        // No worker needs to take it any more.
        lock(&self.0.shared.queue).jobs.retain(|other| !Arc::ptr_eq(other, job));
        state = lock(&job.state);
        state.taken = true;
        while !state.is_finished() {
            state.running.iter().for_each(Target::stop);
            state = wait(state, REMINDER);
        }
        state
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Workers").field("threads", &self.threads()).finish()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.queue).stop = true;
        self.shared.arrived.notify_all();
        let this = thread::current().id();
        for thread in self.threads.drain(..) {
            // The last handle may be dropped by a worker, which ends by itself.
            if thread.thread().id() != this {
                let _ = thread.join();
            }
        }
    }
}

/// The next job, counted as run by one more worker.
fn next(shared: &Shared, target: Target) -> Option<Arc<Job>> {
    let queue = lock(&shared.queue);
    let waited = shared.arrived.wait_while(queue, |queue| queue.jobs.is_empty() && !queue.stop);
    let queue = waited.unwrap_or_else(PoisonError::into_inner);
    let job = queue.jobs.front().cloned()?;
    lock(&job.state).running.push(target);
    Some(job)
}

fn serve(shared: &Shared, id: u64) {
    let target = Target::this_thread();
    let mut worker = Worker { id, runner: Runner::new(), threadgroup: Vec::new() };
    while let Some(job) = next(shared, target) {
        job.work.run(&mut worker);
        lock(&shared.queue).jobs.retain(|other| !Arc::ptr_eq(other, &job));
        let mut state = lock(&job.state);
        state.taken = true;
        state.running.retain(|other| *other != target);
        if state.is_finished() {
            job.finished.notify_all();
        }
    }
}
