//! The threads that call handlers.
//!
//! A courier has one delivery for each command buffer that has completed: its handlers, in the order in which they were
//! added. How many threads it has, and which delivery each takes next, is the machine's to say ([`Handlers`]).

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use objc2::rc::autoreleasepool;
use parking_lot::{Condvar, Mutex};

use crate::{
    machine::{Handlers, Job, Machine},
    runtime::exception,
};

/// The longest that a late handler waits.
const LATE: Duration = Duration::from_millis(3);

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// What calls the handlers of one queue's command buffers.
pub(super) struct Courier {
    machine: Machine,
    state: Mutex<State>,
    changed: Condvar,
}

impl Courier {
    pub(super) fn new(machine: &Machine) -> Arc<Self> {
        Arc::new(Self { machine: machine.clone(), state: Mutex::default(), changed: Condvar::new() })
    }

    /// Takes a delivery. It is made some time, on some thread.
    pub(super) fn take(self: &Arc<Self>, job: Job) {
        let handlers = self.machine.0.gate.handlers();
        let most = match handlers {
            Handlers::Hold => {
                self.machine.0.gate.hold_handler(job);
                return;
            }
            Handlers::OtherThreads(threads) => threads.max(1),
            Handlers::Prompt | Handlers::Late => 1,
        };
        let mut state = self.state.lock();
        state.waiting.push_back(job);
        if state.threads < most && state.idle < state.waiting.len() {
            state.threads += 1;
            let courier = self.clone();
            spawn("metal handler", move || courier.run());
        }
        self.changed.notify_one();
    }

    /// No more deliveries come once those that wait are made.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    fn run(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state.idle += 1;
            self.changed.wait(&mut state);
            state.idle -= 1;
        }
        match self.machine.0.gate.handlers() {
            Handlers::OtherThreads(_) => {
                let at = usize::try_from(self.machine.random(state.waiting.len() as u64)).unwrap_or(0);
                state.waiting.remove(at)
            }
            Handlers::Late => {
                let job = state.waiting.pop_front();
                drop(state);
                pause(&self.machine, LATE);
                job
            }
            Handlers::Prompt | Handlers::Hold => state.waiting.pop_front(),
        }
    }
}

/// Waits for up to so long, as the seed has it.
pub(super) fn pause(machine: &Machine, up_to: Duration) {
    let longest = u64::try_from(up_to.as_nanos()).unwrap_or(u64::MAX);
    if longest > 0 {
        // TIMEOUT: the delay that the test asked for, by chance; nothing is ordered by it.
        std::thread::sleep(Duration::from_nanos(machine.random(longest)));
    }
}

/// Starts a thread of the model's.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    drop(thread.expect("the system has threads"));
}

/// Does something of the program's on a thread of the model's: in a pool, and a panic ends the process.
pub(crate) fn guarded(what: &str, run: impl FnOnce()) {
    let result = catch_unwind(AssertUnwindSafe(|| autoreleasepool(|_| run())));
    if let Err(payload) = result {
        let said = exception::describe(&*payload)
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .or_else(|| payload.downcast_ref::<&str>().map(|said| (*said).to_owned()));
        eprintln!("Metal: {what} panicked: {}", said.unwrap_or_default());
        std::process::abort();
    }
}
