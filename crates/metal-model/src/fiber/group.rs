//! The threads of one group as fibers, and who runs next.
//!
//! Threads run one at a time, in the order of their lanes, until they wait or end. The lanes of a simdgroup that wait at
//! an exchange are released once no lane of theirs can run: those at the lowest site together, which makes them the
//! active lanes; so lanes that went different ways meet again where their ways do. Threads at a barrier are released once
//! all of the group's are there that have not ended: a GPU counts no thread that has, and kernels that Apple's compiler made
//! and that people run rely on it, though Metal's specification does not allow it.
//!
//! # Invariants
//!
//! 1. A [`Runner`] belongs to one thread, which enters its fibers; a fiber runs on no other.
//! 2. Of the lanes of a simdgroup each is in one of the sets ready, running, exchange, barrier and done.
//! 3. Between `run` calls no fiber is alive: all have ended, or were abandoned. No frame of Rust with a destructor lies
//!    below the machine code on a fiber.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use super::{Stack, StackPointer, enter, leave};
use crate::jit::abi::{EXCHANGE_MAX, GroupContext, LANES, ThreadContext};

/// Bytes of a thread's stack. Pages that a kernel does not touch cost nothing.
const STACK_BYTES: usize = 256 << 10;

/// The machine code of one thread: the group, and the thread's place in it.
pub(crate) type ThreadEntry = unsafe extern "C" fn(*const GroupContext, u32, u32, u32);

/// The machine code of the threads of a group, one after the other: the group, and its place in the grid.
pub(crate) type GroupEntry = unsafe extern "C" fn(*const GroupContext, u32, u32, u32);

/// Answers whether the threads of all groups up to a place stay in bounds.
pub(crate) type Proof = unsafe extern "C" fn(*const GroupContext, u32, u32, u32) -> bool;

/// Why a run of fibers came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All threads ended.
    Done,
    /// Threads wait at different barriers.
    Mismatch,
    /// A thread left for good: what it met was stored by who left.
    Abandoned,
}

/// A thread of the group.
#[derive(Debug)]
struct Fiber {
    stack: Stack,
    at: StackPointer,
    context: ThreadContext,
}

/// What the lanes of an exchange give, side by side.
#[derive(Debug)]
#[repr(C, align(64))]
struct Values([u8; LANES * EXCHANGE_MAX]);

#[derive(Debug)]
struct Simdgroup {
    ready: u32,
    exchange: u32,
    barrier: u32,
    /// The lanes that the last exchange released.
    active: u32,
    sites: [u32; LANES],
    given: [*const u8; LANES],
    bytes: [u32; LANES],
    values: Box<Values>,
}

impl Simdgroup {
    fn new() -> Self {
        Self {
            ready: 0,
            exchange: 0,
            barrier: 0,
            active: 0,
            sites: [0; LANES],
            given: [ptr::null(); LANES],
            bytes: [0; LANES],
            values: Box::new(Values([0; LANES * EXCHANGE_MAX])),
        }
    }

    /// Releases the lanes that wait at the lowest site of an exchange.
    fn release(&mut self) {
        let lanes = Lanes(self.exchange);
        let lowest = lanes.map(|lane| self.sites[lane]).min().unwrap_or(0);
        let active: u32 = lanes.filter(|&lane| self.sites[lane] == lowest).fold(0, |mask, lane| mask | 1 << lane);
        // All lanes of a site give as many bytes.
        let bytes = self.bytes[active.trailing_zeros().min(31) as usize] as usize;
        for lane in Lanes(active) {
            let to = &mut self.values.0[lane * bytes..(lane + 1) * bytes];
            // SAFETY: the lane gave its exchange's `bytes` bytes, at most `EXCHANGE_MAX`, on its own stack, where they
            // stay while it waits.
            unsafe { ptr::copy_nonoverlapping(self.given[lane], to.as_mut_ptr(), bytes) };
        }
        self.active = active;
        self.exchange &= !active;
        self.ready = active;
    }
}

/// The lanes of a mask, from the lowest.
#[derive(Clone, Copy)]
struct Lanes(u32);

impl Iterator for Lanes {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let lane = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    }
}

/// The fibers of one worker.
#[derive(Debug)]
pub(crate) struct Runner {
    worker: StackPointer,
    ended: Ended,
    fibers: Vec<Fiber>,
    simdgroups: Vec<Simdgroup>,
    /// Simdgroups of the group that runs, and which of them runs.
    count: usize,
    simdgroup: usize,
    current: usize,
    done: usize,
    threads: usize,
    /// Where the machine code looks for the running thread's context.
    slot: *mut *const ThreadContext,
    entry: Option<ThreadEntry>,
    group: *const GroupContext,
}

thread_local! {
    static RUNNER: Cell<*mut Runner> = const { Cell::new(ptr::null_mut()) };
}

/// What the machine code of one kernel offers a runner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    pub(crate) entry: ThreadEntry,
    /// Where it looks for the running thread's context.
    pub(crate) slot: *mut *const ThreadContext,
}

impl Runner {
    pub(crate) fn new() -> Self {
        Self {
            worker: StackPointer::none(),
            ended: Ended::Done,
            fibers: Vec::new(),
            simdgroups: Vec::new(),
            count: 0,
            simdgroup: 0,
            current: 0,
            done: 0,
            threads: 0,
            slot: ptr::null_mut(),
            entry: None,
            group: ptr::null(),
        }
    }

    fn provide(&mut self, threads: usize) -> Result<(), String> {
        while self.fibers.len() < threads {
            let stack = Stack::new(STACK_BYTES).map_err(|why| format!("no stack for a thread of a group: {why}"))?;
            let context = ThreadContext {
                lane: 0,
                simdgroup: 0,
                index: 0,
                lanes: 0,
                local: [0; 3],
                reserved: 0,
                group: ptr::null(),
            };
            self.fibers.push(Fiber { stack, at: StackPointer::none(), context });
        }
        while self.simdgroups.len() < threads.div_ceil(LANES) {
            self.simdgroups.push(Simdgroup::new());
        }
        Ok(())
    }

    /// Runs the threads of a group to their ends.
    ///
    /// # Safety
    ///
    /// `code` is a kernel's machine code that is linked on this thread's behalf and stays so, `group` may be read
    /// meanwhile, and its buffers are what the kernel's checks are told.
    pub(crate) unsafe fn run(&mut self, code: Code, group: *const GroupContext) -> Result<Ended, String> {
        // SAFETY: the caller's promise.
        let [x, y, z] = unsafe { (*group).threads };
        self.threads = x as usize * y as usize * z as usize;
        self.provide(self.threads)?;
        (self.slot, self.entry, self.group) = (code.slot, Some(code.entry), group);
        (self.done, self.simdgroup, self.count) = (0, 0, self.threads.div_ceil(LANES));
        let mut left = self.threads;
        for simdgroup in &mut self.simdgroups[..self.count] {
            let lanes = left.min(LANES);
            simdgroup.ready = u32::MAX >> (LANES - lanes);
            (simdgroup.exchange, simdgroup.barrier, simdgroup.active) = (0, 0, 0);
            left -= lanes;
        }
        let mut local = [0; 3];
        for index in 0..self.threads {
            self.start(index, local);
            local[0] += 1;
            if local[0] == x {
                local = [0, local[1] + 1, local[2]];
            }
            if local[1] == y {
                local = [0, 0, local[2] + 1];
            }
        }
        let Some(first) = self.next() else { return Ok(Ended::Done) };
        let to = self.resume(first);
        let this = ptr::from_mut(self);
        RUNNER.set(this);
        // SAFETY: the fiber was just prepared, and its stack is this runner's; this thread alone uses the runner.
        unsafe { enter(worker(this), to) };
        RUNNER.set(ptr::null_mut());
        Ok(self.ended)
    }

    fn start(&mut self, index: usize, local: [u32; 3]) {
        let lanes = (self.threads - index / LANES * LANES).min(LANES);
        let fiber = &mut self.fibers[index];
        fiber.context = ThreadContext {
            lane: (index % LANES) as u32,
            simdgroup: (index / LANES) as u32,
            index: index as u32,
            lanes: lanes as u32,
            local,
            reserved: 0,
            group: self.group,
        };
        fiber.at = fiber.stack.prepare(thread, ptr::without_provenance_mut(index));
    }

    /// Makes a thread the running one, and answers where it goes on.
    fn resume(&mut self, index: usize) -> StackPointer {
        self.current = index;
        let fiber = &self.fibers[index];
        // SAFETY: the slot is the machine code's variable, which lives as long as the code (`run`).
        unsafe { self.slot.write(&raw const fiber.context) };
        fiber.at
    }

    /// The thread that runs next; none when the group is done or can do no more.
    fn next(&mut self) -> Option<usize> {
        loop {
            let simdgroup = &mut self.simdgroups[self.simdgroup];
            if simdgroup.ready == 0 && simdgroup.exchange != 0 {
                simdgroup.release();
            }
            if simdgroup.ready != 0 {
                let lane = simdgroup.ready.trailing_zeros();
                simdgroup.ready &= simdgroup.ready - 1;
                return Some(self.simdgroup * LANES + lane as usize);
            }
            if self.simdgroup + 1 < self.count {
                self.simdgroup += 1;
                continue;
            }
            if !self.cross_barrier() {
                return None;
            }
        }
    }

    /// Releases the threads at the barrier, if all of the group's are there that have not ended.
    fn cross_barrier(&mut self) -> bool {
        if self.done == self.threads {
            self.ended = Ended::Done;
            return false;
        }
        let groups = &mut self.simdgroups[..self.count];
        let mut sites = groups.iter().flat_map(|group| Lanes(group.barrier).map(|lane| group.sites[lane]));
        let first = sites.next();
        if sites.any(|site| Some(site) != first) {
            self.ended = Ended::Mismatch;
            return false;
        }
        for group in groups {
            (group.ready, group.barrier) = (group.barrier, 0);
        }
        self.simdgroup = 0;
        true
    }

    /// Leaves the running thread where it is for the next one, or for the worker.
    ///
    /// # Safety
    ///
    /// Called on the running thread's fiber, which was put in one of the sets, with the runner of this OS thread.
    unsafe fn wait(this: *mut Self) {
        // SAFETY: this OS thread alone uses the runner, and no reference to it lives across a switch.
        let runner = unsafe { &mut *this };
        let from = runner.current;
        let to = match runner.next() {
            Some(index) if index == from => return,
            Some(index) => runner.resume(index),
            None => runner.worker,
        };
        let from = &raw mut runner.fibers[from].at;
        // SAFETY: `to` was stored by the switch that left it, or prepared; `from` is the running fiber's own place.
        unsafe { enter(from, to) };
    }
}

/// Where a runner's worker was left, or is to be.
fn worker(runner: *mut Runner) -> *mut StackPointer {
    // SAFETY: the callers' runners are alive: that of this OS thread, which waits for its fibers, or `self`.
    unsafe { &raw mut (*runner).worker }
}

/// What a fiber runs: its thread, then the next one for good.
extern "C" fn thread(index: *mut c_void) -> ! {
    let runner = RUNNER.get();
    let index = index.addr();
    // SAFETY: the runner set itself before it entered a fiber, and lives until all are left.
    let this = unsafe { &*runner };
    let (entry, group, [x, y, z]) = (this.entry, this.group, this.fibers[index].context.local);
    if let Some(entry) = entry {
        // SAFETY: the machine code is what `run` was given.
        unsafe { entry(group, x, y, z) };
    }
    // SAFETY: as above; nothing of the runner is borrowed across the switch.
    unsafe { (*runner).done += 1 };
    // SAFETY: this fiber is done, in none of the sets, and never entered again.
    unsafe { Runner::wait(runner) };
    unreachable!("a thread that ended is not entered again")
}

/// `rig_barrier`: see `jit::abi`.
pub(crate) extern "C" fn barrier(context: *const ThreadContext, site: u32) {
    let runner = RUNNER.get();
    // SAFETY: machine code calls this on a fiber of this thread's runner, with the context it was handed.
    let context = unsafe { &*context };
    let (simdgroup, lane) = (context.simdgroup as usize, context.lane as usize);
    {
        // SAFETY: this OS thread alone uses the runner; the borrow ends before the switch.
        let simdgroup = unsafe { &mut (&mut (*runner).simdgroups)[simdgroup] };
        simdgroup.sites[lane] = site;
        simdgroup.barrier |= 1 << lane;
    }
    // SAFETY: this fiber runs, and waits at the barrier now.
    unsafe { Runner::wait(runner) };
}

/// `rig_exchange`: see `jit::abi`.
pub(crate) extern "C" fn exchange(
    context: *const ThreadContext,
    site: u32,
    given: *const u8,
    bytes: u32,
    all: *mut *const u8,
) -> u32 {
    let runner = RUNNER.get();
    // SAFETY: machine code calls this on a fiber of this thread's runner, with the context it was handed.
    let context = unsafe { &*context };
    let (place, lane) = (context.simdgroup as usize, context.lane as usize);
    {
        // SAFETY: this OS thread alone uses the runner; the borrow ends before the switch.
        let simdgroup = unsafe { &mut (&mut (*runner).simdgroups)[place] };
        simdgroup.sites[lane] = site;
        simdgroup.given[lane] = given;
        simdgroup.bytes[lane] = bytes.min(EXCHANGE_MAX as u32);
        simdgroup.exchange |= 1 << lane;
    }
    // SAFETY: this fiber runs, and waits at the exchange now.
    unsafe { Runner::wait(runner) };
    // SAFETY: as above, after the switch.
    let simdgroup = unsafe { &(&(*runner).simdgroups)[place] };
    // SAFETY: the machine code hands the address of its own variable.
    unsafe { all.write(simdgroup.values.0.as_ptr()) };
    simdgroup.active
}

/// Whether this code runs on a fiber of a runner, whose worker waits to be entered again.
pub(crate) fn is_entered() -> bool {
    let here = 0_u8;
    let runner = RUNNER.get();
    // SAFETY: a runner is set while it lives; where this code runs on its fiber, or interrupts the code that enters one,
    // its fibers are not changed.
    let runner = unsafe { runner.as_ref() };
    runner.is_some_and(|runner| runner.fibers[runner.current].stack.holds((&raw const here).addr()))
}

/// Leaves the running fiber for good: its group is abandoned.
pub(crate) fn abandon() -> ! {
    let runner = RUNNER.get();
    assert!(!runner.is_null(), "machine code runs on a fiber of a runner");
    // SAFETY: this OS thread alone uses the runner, which waits for its fibers.
    unsafe { (*runner).ended = Ended::Abandoned };
    // SAFETY: the worker was left when the first fiber was entered, and waits there; no fiber of the group is entered
    // again.
    unsafe { leave(worker(runner)) };
    unreachable!("a fiber that was left for good is not entered again")
}

/// Work that runs on one fiber: what is called, and with what.
struct Alone<'a> {
    work: &'a mut dyn FnMut(),
}

extern "C" fn alone(work: *mut c_void) -> ! {
    let runner = RUNNER.get();
    // SAFETY: `run_alone` passes its own, which it keeps until this fiber has left.
    let work = unsafe { &mut *work.cast::<Alone<'_>>() };
    (work.work)();
    // SAFETY: as in `abandon`; this fiber is done.
    unsafe { leave(worker(runner)) };
    unreachable!("a fiber that was left for good is not entered again")
}

impl Runner {
    /// Runs work on a fiber, so that it can be abandoned: it must hold nothing then that needs to be dropped.
    pub(crate) fn run_alone(&mut self, work: &mut dyn FnMut()) -> Result<Ended, String> {
        self.provide(1)?;
        (self.ended, self.current) = (Ended::Done, 0);
        let mut work = Alone { work };
        let to = self.fibers[0].stack.prepare(alone, (&raw mut work).cast());
        let this = ptr::from_mut(self);
        RUNNER.set(this);
        // SAFETY: the fiber was just prepared, and its stack is this runner's; this thread alone uses the runner.
        unsafe { enter(worker(this), to) };
        RUNNER.set(ptr::null_mut());
        Ok(self.ended)
    }
}
