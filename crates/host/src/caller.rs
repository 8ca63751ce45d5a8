//! The memory device's runner: the thread that submits runs the work, before `submit` returns.
//!
//! # Invariants
//!
//! 1. The word is written by `submit`, which runs one at a time, and by `stop`, which comes after all of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rig_edge::{Fault, Part, Submitted, Word, Work};

use crate::Host;
use crate::work::{Job, Plan};

/// Runs each value's work on the thread that submits it.
pub(crate) struct Caller {
    word: &'static Word,
    state: Mutex<State>,
}

struct State {
    /// What each value is encoded in; taken out while it runs.
    job: Job,
    last: u64,
    fault: Option<Fault>,
}

impl Caller {
    pub(crate) fn new(word: &'static Word) -> Caller {
        Caller { word, state: Mutex::new(State { job: Job::default(), last: word.load(), fault: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn submit(&self, value: u64, plan: &Plan, parts: &[Part<Host>], work: &Work<'_>) -> Submitted {
        let mut job = {
            let mut state = self.lock();
            state.last = value;
            if let Some(fault) = &state.fault {
                return Submitted::Failed(fault.clone());
            }
            std::mem::take(&mut state.job)
        };
        // With no lock held: kernels and fills are code of the program's.
        let outcome = job.encode(value, plan, parts, work).and_then(|()| run(&job));
        job.clear();
        let mut state = self.lock();
        state.job = job;
        match outcome {
            Ok(()) => {
                self.word.raise(value);
                Submitted::Committed
            }
            Err(why) => {
                let fault = Fault::here(why);
                state.fault = Some(fault.clone());
                Submitted::Failed(fault)
            }
        }
    }

    pub(crate) fn fault(&self) -> Result<(), Fault> {
        self.lock().fault.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn stop(&self) {
        let last = self.lock().last;
        if self.word.load() < last {
            self.word.raise(last);
        }
    }
}

fn run(job: &Job) -> Result<(), String> {
    (0..job.steps().len()).try_for_each(|step| match job.groups(step) {
        0 => Ok(()),
        groups => job.run(step, 0..groups),
    })
}
