//! The machine's other side: what a test asks of it and makes it do.

use crate::events::Exception;
use crate::machine::{Call, Machine};
use crate::state::Core;
use crate::trace::Traced;
use crate::violation::{Group, Violation};
use std::time::{Duration, Instant};

/// What is alive on a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Open files.
    pub files: usize,
    /// Memories, the page of events among them.
    pub memories: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// Mappings of memories for GPUs.
    pub mappings: usize,
    /// Queues.
    pub queues: usize,
    /// Events.
    pub events: usize,
    /// Bytes of the host's addresses that are mapped.
    pub host_bytes: usize,
}

/// What the scheduler had to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An engine moved.
    Moved,
    /// Every queue is empty.
    Idle,
    /// Queues have work, and all of it waits.
    Stuck(Vec<Violation>),
}

impl Machine {
    /// Stops all engines where they are. Calls are still served.
    pub fn hold(&self) {
        self.core().held = true;
    }

    /// Lets the engines run again.
    pub fn release(&self) {
        self.core().held = false;
        self.shared().wake();
    }

    /// Moves one engine, which the seed chooses, on a machine that is held.
    pub fn step(&self) -> Step {
        let mut core = self.core();
        let moved = core.step();
        self.tell(&mut core);
        if moved { Step::Moved } else { core.standing() }
    }

    /// Moves engines on a machine that is held until none can, or `most` times.
    pub fn run(&self, most: usize) -> Step {
        let mut core = self.core();
        let moved = (0..most).take_while(|_| core.step()).count();
        self.tell(&mut core);
        if moved == most { Step::Moved } else { core.standing() }
    }

    fn tell(&self, core: &mut Core) {
        if core.take_changed() {
            self.shared().changed.notify_all();
        }
    }

    /// Waits until every queue is empty or stopped, at most so long: false if one still works then.
    pub fn quiet(&self, most: Duration) -> bool {
        let end = Instant::now() + most;
        loop {
            if self.core().standing() == Step::Idle {
                return true;
            }
            if Instant::now() > end {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// What a driver did wrong, so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.core().violations.clone()
    }

    /// What a driver did wrong, which is forgotten with this call.
    pub fn take_violations(&self) -> Vec<Violation> {
        std::mem::take(&mut self.core().violations)
    }

    /// Shows that a driver did nothing wrong.
    ///
    /// # Panics
    ///
    /// With every violation that there is; and if the engine's own thread has ended by a panic.
    pub fn assert_clean(&self) {
        let core = self.core();
        let found: Vec<_> = core.violations.iter().map(ToString::to_string).collect();
        let broken = core.broken.clone();
        let seed = core.options.seed;
        drop(core);
        assert!(broken.is_none(), "the engine ended with: {}", broken.unwrap_or_default());
        assert!(found.is_empty(), "violations (seed {seed}):\n{}", found.join("\n"));
    }

    /// Shows that all that a driver did wrong is of one group, and something is.
    ///
    /// # Panics
    ///
    /// If there is nothing, or something else.
    pub fn assert_found(&self, group: Group) -> Vec<Violation> {
        let found = self.take_violations();
        assert!(!found.is_empty(), "no violation where one of {group:?} belongs");
        assert!(found.iter().all(|violation| violation.group() == group), "not {group:?}: {found:?}");
        found
    }

    /// Fails calls: after `after` more of the kind that go well, the next `times` answer with `errno` and do nothing.
    pub fn fail(&self, call: Call, after: u64, times: u64, errno: i32) {
        self.core().faults.plan(call, after, times, errno);
    }

    /// How often a call was made.
    pub fn calls(&self, call: Call) -> u64 {
        self.core().faults.calls.get(&call).copied().unwrap_or(0)
    }

    /// Loses the next doorbells: the driver rings, and no queue hears.
    pub fn lose_doorbells(&self, count: u64) {
        self.core().faults.lose_doorbells = count;
    }

    /// Loses the next interrupts: the slot of the event is written, and nobody is woken.
    pub fn lose_interrupts(&self, count: u64) {
        self.core().faults.lose_interrupts = count;
    }

    /// Delays every packet by up to so many steps of the scheduler.
    pub fn delay(&self, steps: u64) {
        self.core().faults.delay = steps;
    }

    /// Hangs every engine: queues do not advance, and nobody is told.
    pub fn hang(&self, hung: bool) {
        self.core().faults.hung = hung;
    }

    /// Makes an access of an engine fault as if nothing were mapped there, after `after` more that go well.
    pub fn fault_access(&self, after: u64) {
        self.core().faults.access = Some(after);
    }

    /// Resets a GPU as the kernel does after a hang: its queues stop for good, its memory is lost, and the process's events
    /// of hardware exceptions are signalled.
    ///
    /// # Panics
    ///
    /// If there is no such GPU.
    pub fn reset(&self, gpu: usize) {
        let mut core = self.core();
        let gpu_id = core.gpus[gpu].id;
        core.stop_gpu(gpu);
        core.lose_memory(gpu);
        core.events.raise(Exception::Hardware { reset_type: 0, reset_cause: 0, memory_lost: 1, gpu_id });
        drop(core);
        self.shared().changed.notify_all();
    }

    /// Binds the process's addresses of a GPU to a render node that is not the driver's, as another runtime in the process
    /// would: ACQUIRE_VM answers EBUSY.
    pub fn bind_elsewhere(&self, gpu: usize) {
        self.core().gpus[gpu].bound = Some(-1);
    }

    /// What is alive.
    pub fn counts(&self) -> Counts {
        let core = self.core();
        Counts {
            files: core.files(),
            memories: core.space.len(),
            bytes: core.space.iter().map(|memory| memory.size).sum(),
            mappings: core.space.iter().map(|memory| memory.mapped.len()).sum(),
            queues: core.queues.len(),
            events: core.events.len(),
            host_bytes: core.host.bytes(),
        }
    }

    /// The last steps of all queues, in the order in which they were.
    pub fn trace(&self) -> Vec<Traced> {
        self.core().trace.steps().cloned().collect()
    }

    /// Forgets the steps so far.
    pub fn clear_trace(&self) {
        self.core().trace.clear();
    }

    /// The id that the kernel gives a GPU.
    pub fn gpu_id(&self, gpu: usize) -> u32 {
        self.core().gpus[gpu].id
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.core().options.seed
    }
}
