//! The threads that run kernels.
//!
//! A dispatch is a job of groups. Workers take the first job that has groups left, and of it a few groups at a time; who
//! dispatches waits until the last group has ended.
//!
//! # Invariants
//!
//! 1. A job is in the queue while it may have groups that no worker has taken.
//! 2. A job is finished once it has no groups left to take and no worker runs any of it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::fiber::Runner;

/// A dispatch as the workers see it.
pub(crate) trait Work: Send + Sync {
    /// Runs groups until none is left to take.
    fn run(&self, worker: &mut Worker);
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
    /// Workers that run it, and whether its groups are all taken.
    state: Mutex<(usize, bool)>,
    finished: Condvar,
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
        Self(Arc::new(Pool { shared, threads }))
    }

    /// How many threads it has.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.0.threads.len()
    }

    /// Runs work on as many threads of the pool as wanted, and waits until it is finished.
    pub(crate) fn run(&self, work: Arc<dyn Work>, wanted: u64) {
        let job = Arc::new(Job { work, state: Mutex::new((0, false)), finished: Condvar::new() });
        lock(&self.0.shared.queue).jobs.push_back(Arc::clone(&job));
        if wanted < self.threads() as u64 {
            (0..wanted).for_each(|_| self.0.shared.arrived.notify_one());
        } else {
            self.0.shared.arrived.notify_all();
        }
        let state = lock(&job.state);
        let done = job.finished.wait_while(state, |(running, taken)| *running > 0 || !*taken);
        drop(done.unwrap_or_else(PoisonError::into_inner));
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
fn next(shared: &Shared) -> Option<Arc<Job>> {
    let queue = lock(&shared.queue);
    let waited = shared.arrived.wait_while(queue, |queue| queue.jobs.is_empty() && !queue.stop);
    let queue = waited.unwrap_or_else(PoisonError::into_inner);
    let job = queue.jobs.front().cloned()?;
    lock(&job.state).0 += 1;
    Some(job)
}

fn serve(shared: &Shared, id: u64) {
    let mut worker = Worker { id, runner: Runner::new(), threadgroup: Vec::new() };
    while let Some(job) = next(shared) {
        job.work.run(&mut worker);
        let mut queue = lock(&shared.queue);
        queue.jobs.retain(|other| !Arc::ptr_eq(other, &job));
        drop(queue);
        let mut state = lock(&job.state);
        state.1 = true;
        state.0 -= 1;
        if state.0 == 0 {
            job.finished.notify_all();
        }
    }
}
