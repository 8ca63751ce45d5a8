//! The thread of a queue: which pass runs next, and when a command buffer has completed.
//!
//! The thread takes committed command buffers from the queue in order, a few at a time, and runs their passes. What it picks
//! next is said in [`crate::queue`]. Command buffers complete in order, whatever the order in which their passes ran.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, atomic::Ordering},
};

use objc2::rc::autoreleasepool;

use super::{
    Queue,
    courier::{guarded, pause, spawn},
    execute,
    pass::Pass,
    work::{Failed, Handler, Running, Work},
};
use crate::{
    metal::{CommandBuffer, Reach},
    protocol::{MTLCommandBuffer, MTLCommandBufferStatus},
};

/// Command buffers whose passes may overlap.
const WINDOW: usize = 4;

/// A command buffer on its way.
struct Active {
    work: Arc<Work>,
    object: Running,
    passes: Vec<Pass>,
    /// The next pass.
    at: usize,
    reach: Reach,
    begun: bool,
    failed: Option<Failed>,
}

/// Starts a queue's thread.
pub(super) fn start(queue: Arc<Queue>) {
    spawn("metal gpu", move || {
        let mut runner = Runner { window: VecDeque::new(), queue };
        while runner.take() {
            // Nothing of the program's runs in here but its own threads' work: a panic is the model's own fault.
            guarded("the model", || runner.step());
        }
    });
}

struct Runner {
    queue: Arc<Queue>,
    window: VecDeque<Active>,
}

impl Runner {
    /// Takes command buffers that are committed, and waits for one where there is none. False: there will be none.
    fn take(&mut self) -> bool {
        let queue = self.queue.clone();
        let mut state = queue.state.lock();
        loop {
            while self.window.len() < WINDOW {
                let committed = |work: &&Arc<Work>| work.status() >= MTLCommandBufferStatus::Committed;
                let Some(work) = state.order.front().filter(committed).cloned() else { break };
                state.order.pop_front();
                self.window.extend(active(work));
            }
            if !self.window.is_empty() {
                return true;
            }
            if state.closed && state.order.is_empty() {
                return false;
            }
            queue.changed.wait(&mut state);
        }
    }

    /// Runs one pass, and completes what has none left.
    fn step(&mut self) {
        let at = self.pick();
        let Some(active) = self.window.get_mut(at) else { return };
        if !active.begun {
            begin(active);
        }
        if let Some(pass) = active.passes.get(active.at) {
            if active.failed.is_none() && self.queue.machine.executes() {
                active.failed = execute::run(&self.queue.machine, pass, &active.reach).err();
            }
            if let Some(done) = &pass.done {
                done.set();
            }
            active.at += 1;
        }
        while self.window.front().is_some_and(|front| front.begun && front.at >= front.passes.len()) {
            if let Some(front) = self.window.pop_front() {
                complete(front);
            }
        }
    }

    /// Which command buffer's next pass runs.
    fn pick(&self) -> usize {
        let machine = &self.queue.machine;
        if self.window.len() < 2 || !machine.overlaps() || machine.0.gate.holds() {
            return 0;
        }
        // The first may always run: what it waits for was committed later, if it is not done.
        let mut ready = vec![0];
        for at in 1..self.window.len() {
            let active = &self.window[at];
            let Some(pass) = active.passes.get(active.at) else { continue };
            let earlier =
                self.window.range(..at).flat_map(|earlier| earlier.passes.get(earlier.at..).unwrap_or_default());
            let free =
                pass.after.iter().all(|done| done.get()) && !earlier.into_iter().any(|earlier| pass.conflicts(earlier));
            if free {
                ready.push(at);
            }
        }
        let chosen = usize::try_from(machine.random(ready.len() as u64)).unwrap_or(0);
        ready[chosen]
    }
}

/// What the thread needs of a committed command buffer.
fn active(work: Arc<Work>) -> Option<Active> {
    let mut state = work.state.lock();
    let object = state.object.take()?;
    let (passes, reach) = (mem::take(&mut state.passes), mem::take(&mut state.reach));
    let fate = state.fate.take();
    let failed = fate.map(|failure| Failed { code: failure.code(), why: failure.description().to_owned() });
    drop(state);
    Some(Active { work, object, passes, at: 0, reach, begun: false, failed })
}

/// The command buffer is scheduled, and starts.
fn begin(active: &mut Active) {
    active.begun = true;
    let machine = &active.work.queue.machine;
    machine.0.gate.await_execution();
    pause(machine, machine.0.config.delay);
    let scheduled = {
        let mut state = active.work.state.lock();
        state.status = MTLCommandBufferStatus::Scheduled;
        let now = crate::machine::Machine::now();
        (state.times.kernel.1, state.times.gpu.0) = (now, now);
        mem::take(&mut state.scheduled)
    };
    active.work.changed.notify_all();
    if !scheduled.is_empty() {
        let object = Running(active.object.0.clone());
        machine.0.gate.begin();
        let gate = machine.clone();
        active.work.queue.courier.take(Box::new(move || {
            guarded("a scheduled handler", || call(scheduled, object));
            gate.0.gate.end();
        }));
    }
}

/// The command buffer has completed: its handlers are told, its place is free, what it kept is released.
fn complete(active: Active) {
    let Active { work, object, passes, reach, failed, .. } = active;
    let machine = work.queue.machine.clone();
    pause(&machine, machine.0.config.delay);
    machine.0.gate.await_completion();
    drop((passes, reach));
    let completed = {
        let mut state = work.state.lock();
        // Times of one queue never run backwards, nor stand still.
        state.times.gpu.1 = crate::machine::Machine::now().max(state.times.gpu.0 + 1e-9);
        state.status = if failed.is_some() { MTLCommandBufferStatus::Error } else { MTLCommandBufferStatus::Completed };
        state.failed = failed;
        mem::take(&mut state.completed)
    };
    work.changed.notify_all();
    machine.0.tally.completed.fetch_add(1, Ordering::Relaxed);
    work.queue.give_place();
    if completed.is_empty() {
        work.set_handled();
        drop(work);
        autoreleasepool(|_| drop(object));
        machine.0.gate.end();
        return;
    }
    let courier = work.queue.courier.clone();
    courier.take(Box::new(move || {
        let count = completed.len() as u64;
        guarded("a completed handler", || {
            Work::handling(Arc::as_ptr(&work));
            call(completed, Running(object.0.clone()));
            Work::handling(std::ptr::null());
            machine.0.tally.handlers.fetch_add(count, Ordering::Relaxed);
            work.set_handled();
            drop((work, object));
        });
        machine.0.gate.end();
    }));
}

/// Calls handlers in order, and releases them.
fn call(handlers: Vec<Handler>, object: Running) {
    let buffer: &CommandBuffer = &object.0;
    let buffer = objc2::runtime::ProtocolObject::<dyn MTLCommandBuffer>::from_ref(buffer);
    for handler in handlers {
        handler.0.call((std::ptr::NonNull::from(buffer),));
    }
}
