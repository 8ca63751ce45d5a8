//! Running the work: one value after the other, each when the pace, its waits and the test allow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rig_edge::{Span, Times, Wait, Words, times};

use super::kernel::Args;
use super::options::{Pace, Tells};
use super::state::{Device, Op, Phase, Shared, State};
use crate::primitive::MutexGuard;

/// Why a device's next value did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blocked {
    /// The device has no unfinished work.
    Idle,
    /// The next value is not committed.
    Uncommitted(u64),
    /// The next value waits, on the queue, for another device's word.
    Waits(Wait),
    /// The device faulted: nothing of it runs any more.
    Faulted(String),
    /// The device does not answer: nothing of it runs, and nothing says why.
    Hung,
    /// Another thread runs the next value.
    Running(u64),
    /// The test broke E42: the next value completes once a later one was submitted.
    NeedsLater(u64),
}

/// Work that runs, as [`Model::watch`](super::Model::watch) tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// The number of the device.
    pub device: usize,
    /// The index of the device's word.
    pub word: usize,
    /// The value.
    pub value: u64,
    /// Whether the work has ended; it begins otherwise.
    pub ended: bool,
}

impl Device {
    /// What keeps the next value from running.
    pub(crate) fn blocked(&self) -> Result<(), Blocked> {
        if let Some(fault) = &self.fault {
            return Err(Blocked::Faulted(fault.clone()));
        }
        let Some(job) = self.jobs.front() else { return Err(Blocked::Idle) };
        if self.running {
            return Err(Blocked::Running(job.value));
        }
        if self.script.hung {
            return Err(Blocked::Hung);
        }
        if job.value > self.committed {
            return Err(Blocked::Uncommitted(job.value));
        }
        if let Some(wait) = self.waits_for() {
            return Err(Blocked::Waits(wait));
        }
        if self.script.break_committed && job.value == self.submitted && self.phase == Phase::Open {
            return Err(Blocked::NeedsLater(job.value));
        }
        Ok(())
    }

    /// The first queue wait of the next value whose word does not show it.
    pub(crate) fn waits_for(&self) -> Option<Wait> {
        if self.script.ignore_waits {
            return None;
        }
        self.jobs.front()?.waits.iter().copied().find(unmet)
    }

    /// Whether any of its work waits, on the queue, for another device's word.
    pub(crate) fn stands_behind_another(&self) -> bool {
        !self.script.ignore_waits && self.jobs.iter().flat_map(|job| &job.waits).any(unmet)
    }
}

/// Whether the word of a queue wait does not show it yet.
fn unmet(wait: &Wait) -> bool {
    Words::get().word(wait.word).load() < wait.value
}

impl Shared {
    /// Runs the device's next value. The lock is given back while its work runs, and taken again.
    pub(crate) fn run_next<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        id: usize,
    ) -> (MutexGuard<'a, State>, Result<u64, Blocked>) {
        let device = &mut state.devices[id];
        if let Err(blocked) = device.blocked() {
            return (state, Err(blocked));
        }
        device.running = true;
        // PANIC: `blocked` found the job.
        let job = device.jobs.front_mut().expect("a job that may run");
        let (value, ops, times) = (job.value, std::mem::take(&mut job.ops), job.times.take());
        let mut ran = Ran { device: id, word: device.index.get(), value, ended: false };
        let (tells, watch) = (state.options.tells, state.watch.clone());
        drop(state);
        let told = |ran| watch.iter().for_each(|watch| watch(ran));
        told(ran);
        let start = times::now();
        let result = perform(ops);
        ran.ended = true;
        result.iter().for_each(|()| told(ran));
        if let Some(times) = times {
            tell(&times, tells, Span { start, end: times::now() });
        }
        let mut state = self.lock();
        let device = &mut state.devices[id];
        device.running = false;
        match result {
            // A fault that came meanwhile keeps the word where it is.
            Ok(()) if device.fault.is_none() => {
                device.jobs.pop_front();
                device.raise(value);
            }
            Ok(()) => {}
            Err(why) => device.fault = device.fault.take().or(Some(why)),
        }
        device.end_if_stopped();
        self.moved.notify_all();
        (state, Ok(value))
    }

    /// Runs all that runs at once, until nothing more does.
    pub(crate) fn pump<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        loop {
            let next =
                state.devices.iter().find(|device| device.script.pace == Pace::AtOnce && device.blocked().is_ok());
            let Some(id) = next.map(|device| device.id) else { return state };
            state = self.run_next(state, id).0;
        }
    }

    /// One step of whatever device the seed picks; `None` if nothing can run.
    pub(crate) fn step_any<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, Option<(usize, u64)>) {
        let ready: Vec<usize> =
            state.devices.iter().filter(|device| device.blocked().is_ok()).map(|device| device.id).collect();
        if ready.is_empty() {
            return (state, None);
        }
        let id = ready[state.rng.below(ready.len())];
        let (state, ran) = self.run_next(state, id);
        (state, ran.ok().map(|value| (id, value)))
    }

    /// In a seeded model: some steps, or none, as the seed says.
    pub(crate) fn chance<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.options.pace != Pace::Seeded {
            return state;
        }
        while state.rng.one_in(3) {
            let stepped;
            (state, stepped) = self.step_any(state);
            if stepped.is_none() {
                break;
            }
        }
        state
    }
}

/// Notes that a value's work ran in this span, as the model's devices tell it.
fn tell(times: &Arc<Times>, tells: Tells, span: Span) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    match tells {
        Tells::Parts => {
            // One after the other, as equal shares: the model runs all parts of a value in one go.
            let parts = times.parts() as u64;
            let share = |part: u64| span.start + (span.end - span.start) * part / parts.max(1);
            for part in 0..parts {
                times.note_part(part as usize, 0, Span { start: share(part), end: share(part + 1) });
            }
        }
        Tells::Settled => times.settle_by(move |times| times.note(span)),
        Tells::Ahead(by) => {
            let by = nanoseconds(by);
            times.note(Span { start: span.start + by, end: span.end + by });
            times.note_error(by);
        }
        Tells::Behind(by) => {
            let by = nanoseconds(by);
            times.note(Span { start: span.start.saturating_sub(by), end: span.end.saturating_sub(by) });
            times.note_error(by);
        }
        Tells::Nothing => {}
    }
}

impl Device {
    /// Once the device is stopped and no work of it runs: the word shows the last value given to submit (E21).
    pub(crate) fn end_if_stopped(&mut self) {
        if self.phase == Phase::Open || self.running {
            return;
        }
        let lingering = self.script.lingers && !self.jobs.is_empty();
        if !lingering {
            self.jobs.clear();
            if self.shown() < self.submitted {
                self.raise(self.submitted);
            }
        }
    }
}

/// Does the work of one value. A panic of a kernel is a fault, as on a host's device.
fn perform(ops: Vec<Op>) -> Result<(), String> {
    let _inside = rig_edge::callback::enter();
    let all = || ops.into_iter().try_for_each(perform_one);
    catch_unwind(AssertUnwindSafe(all)).unwrap_or_else(|_| Err("a kernel panicked".into()))
}

fn perform_one(op: Op) -> Result<(), String> {
    match op {
        Op::Launch { function, grid, params, refs } => {
            (function.kernel.code)(&mut Args { grid, params: &params, refs: &refs })
        }
        Op::Copy { from, to } => {
            to.copy_from(from);
            Ok(())
        }
        Op::Fill { to, byte } => {
            to.fill(byte);
            Ok(())
        }
        Op::Kernel(call) => call(),
    }
}
