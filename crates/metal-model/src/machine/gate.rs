//! When command buffers run, complete and tell, and when compiles begin, where the test decides it; and when everything has
//! come to rest.

use parking_lot::{Condvar, Mutex};

/// How completion handlers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handlers {
    /// At once, in the order in which command buffers complete, on a thread of each queue's.
    #[default]
    Prompt,
    /// In that order, but some time after, as the seed has it.
    Late,
    /// On any of so many threads for each queue, in an order of chance.
    OtherThreads(usize),
    /// Not before they are released: [`super::Machine::release_handler`].
    Hold,
}

/// Something for a thread to do.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    holds_execution: bool,
    may_execute: u64,
    holds_completion: bool,
    may_complete: u64,
    holds_compiles: bool,
    handlers: Handlers,
    held: Vec<Job>,
    /// Command buffers, compiles and handlers that are not done.
    busy: u64,
}

/// The gate that every command buffer and every compile of a machine passes.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn hold_execution(&self, hold: bool) {
        let mut state = self.state.lock();
        state.holds_execution = hold;
        state.may_execute = 0;
        self.changed.notify_all();
    }

    pub(crate) fn hold_completion(&self, hold: bool) {
        let mut state = self.state.lock();
        state.holds_completion = hold;
        state.may_complete = 0;
        self.changed.notify_all();
    }

    pub(crate) fn hold_compiles(&self, hold: bool) {
        self.state.lock().holds_compiles = hold;
        self.changed.notify_all();
    }

    pub(crate) fn pass_one(&self) {
        let mut state = self.state.lock();
        if state.holds_execution {
            state.may_execute += 1;
        }
        if state.holds_completion {
            state.may_complete += 1;
        }
        self.changed.notify_all();
    }

    /// Waits until a command buffer may run.
    pub(crate) fn await_execution(&self) {
        let mut state = self.state.lock();
        while state.holds_execution && state.may_execute == 0 {
            self.changed.wait(&mut state);
        }
        state.may_execute = state.may_execute.saturating_sub(1);
    }

    /// Waits until a command buffer may complete.
    pub(crate) fn await_completion(&self) {
        let mut state = self.state.lock();
        while state.holds_completion && state.may_complete == 0 {
            self.changed.wait(&mut state);
        }
        state.may_complete = state.may_complete.saturating_sub(1);
    }

    /// Waits until compiles are not held.
    pub(crate) fn await_compiles(&self) {
        let mut state = self.state.lock();
        while state.holds_compiles {
            self.changed.wait(&mut state);
        }
    }

    /// Whether command buffers are held.
    pub(crate) fn holds(&self) -> bool {
        let state = self.state.lock();
        state.holds_execution || state.holds_completion
    }

    pub(crate) fn set_handlers(&self, handlers: Handlers) {
        self.state.lock().handlers = handlers;
    }

    pub(crate) fn handlers(&self) -> Handlers {
        self.state.lock().handlers
    }

    pub(crate) fn hold_handler(&self, job: Job) {
        self.state.lock().held.push(job);
        self.changed.notify_all();
    }

    pub(crate) fn held(&self) -> usize {
        self.state.lock().held.len()
    }

    /// Runs a held handler on a thread of its own, and waits for it.
    pub(crate) fn release_handler(&self, at: usize) {
        let job = {
            let mut state = self.state.lock();
            let held = state.held.len();
            assert!(at < held, "handler {at} is to be released, and {held} are held");
            state.held.remove(at)
        };
        std::thread::scope(|scope| {
            let runner = std::thread::Builder::new().name("metal handler".to_owned()).spawn_scoped(scope, job);
            drop(runner.expect("the system has threads"));
        });
    }

    /// Something has begun that `settle` waits for.
    pub(crate) fn begin(&self) {
        self.state.lock().busy += 1;
    }

    /// It is done.
    pub(crate) fn end(&self) {
        self.state.lock().busy -= 1;
        self.changed.notify_all();
    }

    /// Waits until nothing is left to do.
    pub(crate) fn settle(&self) {
        let mut state = self.state.lock();
        while state.busy > 0 {
            self.changed.wait(&mut state);
        }
    }
}
