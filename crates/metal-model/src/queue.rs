//! What runs command buffers: queues, what is recorded, the threads that run it, and those that tell of it.
//!
//! Nothing of this module knows Objective-C messages; the classes of `metal` check a program's messages and record
//! [`pass::Pass`]es into a [`work::Work`], which a [`Queue`] runs once it is committed.
//!
//! # Order
//!
//! A queue's command buffers begin in the order in which they were enqueued, and complete in it. Their passes run one at a
//! time. A pass starts after an earlier one of another command buffer that has not completed only where something says so:
//! the pass waits for a fence that the earlier one updates, or both bind a tracked buffer, not both to read it alone. What
//! nothing orders runs in an order of chance, where the machine overlaps passes: so a fence that is missing is found.
//!
//! # Threads
//!
//! Each queue has one thread that runs its passes, from its first commit on, and threads that call handlers, as the
//! machine's [`crate::machine::Handlers`] say. Kernels run on the machine's workers. A thread of the model has an autorelease
//! pool around each thing it does. A panic on one ends the process with its message.

mod courier;
#[expect(unsafe_code, reason = "it reads and writes the memory of buffers")]
mod execute;
#[expect(unsafe_code, reason = "it says which objects may pass to the model's threads")]
pub(crate) mod pass;
mod run;
#[expect(unsafe_code, reason = "it says which objects may pass to the model's threads")]
pub(crate) mod work;

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Condvar, Mutex};

pub(crate) use self::courier::{guarded, spawn};
use self::{courier::Courier, work::Work};
use crate::{machine::Machine, metal::SetState};

/// Residency sets of a queue, or of a command buffer, at most: Apple's documentation of `addResidencySet:`.
pub(crate) const SETS: usize = 32;

/// A command queue, without its object.
pub(crate) struct Queue {
    pub(crate) machine: Machine,
    pub(crate) id: u64,
    max: usize,
    state: Mutex<State>,
    changed: Condvar,
    courier: Arc<Courier>,
}

#[derive(Default)]
struct State {
    /// Command buffers that live and have not completed.
    uncompleted: usize,
    /// Enqueued command buffers that have not completed, in order.
    order: VecDeque<Arc<Work>>,
    sets: Vec<Arc<SetState>>,
    running: bool,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(machine: &Machine, max: usize) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            machine: machine.clone(),
            id: IDS.fetch_add(1, Ordering::Relaxed),
            max,
            state: Mutex::default(),
            changed: Condvar::new(),
            courier: Courier::new(machine),
        })
    }

    /// Takes a place for a command buffer: blocks while the queue has as many as it holds.
    pub(crate) fn take_place(&self) {
        let mut state = self.state.lock();
        while state.uncompleted >= self.max {
            self.changed.wait(&mut state);
        }
        state.uncompleted += 1;
    }

    /// Gives the place of a command buffer back: it has completed, or was never committed.
    pub(crate) fn give_place(&self) {
        self.state.lock().uncompleted -= 1;
        self.changed.notify_all();
    }

    /// Gives a command buffer its place in the order.
    pub(crate) fn enqueue(&self, work: &Arc<Work>) {
        self.state.lock().order.push_back(work.clone());
    }

    /// Takes a command buffer that was never committed out of the order.
    pub(crate) fn forget(&self, work: &Arc<Work>) {
        self.state.lock().order.retain(|other| !Arc::ptr_eq(other, work));
        self.changed.notify_all();
    }

    /// A command buffer of the order is committed: its turn comes.
    pub(crate) fn committed(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if !state.running {
            state.running = true;
            run::start(self.clone());
        }
        self.changed.notify_all();
    }

    /// The sets whose allocations are resident for every command buffer.
    pub(crate) fn sets(&self) -> Vec<Arc<SetState>> {
        self.state.lock().sets.clone()
    }

    /// Adds a set, unless the queue has as many as it may.
    pub(crate) fn add_set(&self, set: &Arc<SetState>) -> bool {
        let mut state = self.state.lock();
        let fits = state.sets.len() < SETS;
        if fits && !state.sets.iter().any(|other| Arc::ptr_eq(other, set)) {
            state.sets.push(set.clone());
        }
        fits
    }

    pub(crate) fn remove_set(&self, set: &Arc<SetState>) {
        self.state.lock().sets.retain(|other| !Arc::ptr_eq(other, set));
    }

    /// The queue's object is gone: its threads end once they have nothing to do.
    pub(crate) fn close(&self) {
        let sets = {
            let mut state = self.state.lock();
            state.closed = true;
            mem::take(&mut state.sets)
        };
        drop(sets);
        self.changed.notify_all();
        self.courier.close();
    }
}
