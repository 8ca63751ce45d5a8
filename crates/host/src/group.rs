//! Runs groups on the calling thread: group memory, threads of a group, barriers.
//!
//! A thread of a thread kernel is a stackful coroutine, so a barrier is a switch of stacks and no system call. A group
//! stays on the thread that began it.
//!
//! The threads of a group run in order, each up to its next barrier, round after round. A thread that returns leaves its
//! stack to the next that begins, so a kernel that meets no barrier uses one stack.
//!
//! # Invariants
//!
//! 1. A coroutine is dropped, and so unwound where it is suspended, only if another thread of its group panicked: only
//!    Rust kernels panic, so no frame of machine code is ever unwound.
//! 2. `YIELDER` points to the yielder of the coroutine that runs on this thread, and is null outside of one.

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rig_edge::Block;

use crate::code::{Function, FunctionCode};
use crate::elf::MachineKernel;
use crate::kernel::{Group, Kind, Params};

/// The bytes of a thread kernel's stack. A page below it is no memory, so an overflow ends the process (SIGSEGV) and
/// overwrites nothing.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// /// What a thread keeps for itself takes a quarter of its stack.
/// const KEPT: usize = rig_host::STACK_BYTES / 4;
/// let kernels = rig_host::Kernels::new().thread("k", 16, 0, |params, at| {
///     let kept = std::hint::black_box([1_u8; KEPT]);
///     // SAFETY: slot 0 has a float for each thread, and this is this thread's.
///     let x: &mut [f32] = unsafe { params.slice_mut(0, at.thread[0] as usize, 1) };
///     x[0] += kept.iter().map(|&byte| f32::from(byte)).sum::<f32>();
/// });
/// # let function = device.load(&kernels.image())?.function("k")?;
/// # let x = device.from_slice(&[1.0_f32; 64])?;
/// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
/// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
/// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
/// # unsafe { run.launch(&[&x])?.wait()? };
/// assert_eq!(x.read(|x| x[63])?, 1.0 + KEPT as f32);
/// # Ok(())
/// # }
/// ```
pub const STACK_BYTES: usize = 64 * 1024;

thread_local! {
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
    static LANE: Cell<Option<Box<Lane>>> = const { Cell::new(None) };
    /// Whether this thread was unwinding already when it came to run groups.
    static UNWINDING: Cell<bool> = const { Cell::new(false) };
}

/// What a thread keeps from group to group: group memory and stacks.
///
/// Dropped in the order of the fields: threads that are suspended unwind while their group memory lives.
#[derive(Default)]
pub(crate) struct Lane {
    threads: Vec<Thread>,
    memory: Vec<Line>,
    stacks: Vec<DefaultStack>,
}

/// Group memory comes by lines, for its alignment.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "read and written by kernels, through addresses")] [u8; 64]);

/// One thread of a group: its coroutine where it has begun and not returned, and its place, which the coroutine borrows
/// and so outlives it.
struct Thread {
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    at: Box<Group>,
}

/// Runs the groups `range` of a launch, counted along x, then y, then z. The error is a panic's message.
pub(crate) fn run(function: &Function, block: &Block, params: &[u8], range: Range<u64>) -> Result<(), String> {
    // Taken, not borrowed: a kernel that comes here again on the same thread finds no lane and makes one.
    let mut lane = LANE.take().unwrap_or_default();
    UNWINDING.set(std::thread::panicking());
    let outcome = catch_unwind(AssertUnwindSafe(|| lane.run(function, block, params, range)));
    let why = match outcome {
        Ok(Ok(())) => {
            LANE.set(Some(lane));
            return Ok(());
        }
        Ok(Err(why)) => why,
        Err(panic) => format!("the kernel {} panicked: {}", function.name, message(&*panic)),
    };
    // The threads that are suspended are dropped with the lane, which unwinds their stacks. A destructor there may panic
    // in its turn: the first failure is the reason.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(lane)));
    Err(why)
}

/// What a panic said.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "(no message)".into())
}

/// Suspends this thread of the group until all have come so far. Outside of a thread kernel it does nothing, nor in a
/// destructor that runs because the kernel panicked: the group's other threads go no further either.
pub(crate) fn meet() {
    let yielder = YIELDER.get();
    if yielder.is_null() || std::thread::panicking() && !UNWINDING.get() {
        return;
    }
    suspend(yielder);
}

#[expect(unsafe_code, reason = "the yielder lies on the coroutine's own stack")]
fn suspend(yielder: *const Yielder<(), ()>) {
    // SAFETY: by invariant 2 this is the yielder of the coroutine that runs now, which lives on its stack.
    unsafe { &*yielder }.suspend(());
    // Other threads of the group ran meanwhile.
    YIELDER.set(yielder);
}

/// The barrier as machine code calls it.
extern "C" fn meet_from_machine_code(_: *const Group) {
    meet();
}

impl Lane {
    fn run(&mut self, function: &Function, block: &Block, params: &[u8], range: Range<u64>) -> Result<(), String> {
        // `room` held the sum to GROUP_BYTES_MAX.
        let group_bytes = function.group_bytes + block.group_bytes;
        let group_memory = self.group_memory(group_bytes)?;
        let mut at = Group {
            group: place(range.start, block.groups),
            groups: block.groups,
            threads: block.threads,
            thread: [0; 3],
            group_bytes,
            reserved: 0,
            group_memory,
            barrier: meet_from_machine_code,
        };
        for _ in range {
            match function.kind {
                Kind::Group => call(&function.code, params, &at),
                Kind::Thread => self.run_threads(&function.code, params, &at)?,
            }
            step(&mut at.group, block.groups);
        }
        Ok(())
    }

    fn group_memory(&mut self, bytes: u32) -> Result<*mut c_void, String> {
        let lines = (bytes as usize).div_ceil(size_of::<Line>());
        if lines > self.memory.len() {
            let more = lines - self.memory.len();
            self.memory
                .try_reserve_exact(more)
                .map_err(|_| format!("the host has no memory for {bytes} bytes of group memory"))?;
            self.memory.resize(lines, Line([0; 64]));
        }
        Ok(self.memory.as_mut_ptr().cast())
    }

    /// Runs one group of a thread kernel.
    fn run_threads(&mut self, code: &FunctionCode, params: &[u8], at: &Group) -> Result<(), String> {
        let count = at.thread_count();
        while self.threads.len() < count {
            self.threads.push(Thread { coroutine: None, at: Box::new(at.clone()) });
        }
        let mut suspended = 0;
        let mut place = [0; 3];
        for thread in &mut self.threads[..count] {
            *thread.at = Group { thread: place, ..at.clone() };
            step(&mut place, at.threads);
            let stack = match self.stacks.pop() {
                Some(stack) => stack,
                None => DefaultStack::new(STACK_BYTES)
                    .map_err(|why| format!("the host has no memory for the stack of a thread: {why}"))?,
            };
            thread.coroutine = Some(begin(stack, code, params, &thread.at));
            suspended += usize::from(go_on(thread, &mut self.stacks));
        }
        while suspended > 0 {
            suspended = 0;
            for thread in self.threads[..count].iter_mut().filter(|thread| thread.coroutine.is_some()) {
                suspended += usize::from(go_on(thread, &mut self.stacks));
            }
        }
        Ok(())
    }
}

/// Makes the coroutine of a thread. It borrows code, parameters and place until it returns or is dropped.
#[expect(unsafe_code, reason = "a coroutine that borrows what outlives it")]
fn begin(stack: DefaultStack, code: &FunctionCode, params: &[u8], at: &Group) -> Coroutine<(), (), (), DefaultStack> {
    let body = |yielder: &Yielder<(), ()>, ()| {
        YIELDER.set(std::ptr::from_ref(yielder));
        call(code, params, at);
    };
    // SAFETY: what the body borrows outlives the coroutine. `run_threads` drives it to its end; if it cannot, `run` drops
    // the lane, and with it every coroutine and then every place, before its borrows of code and parameters end: a lane
    // goes back to its thread only with no coroutine in it.
    unsafe { Coroutine::with_stack_unchecked(stack, body) }
}

/// Runs a thread up to its next barrier or its end; says whether it is suspended at a barrier.
fn go_on(thread: &mut Thread, stacks: &mut Vec<DefaultStack>) -> bool {
    // PANIC: called for threads that have begun and not returned.
    let coroutine = thread.coroutine.as_mut().expect("the thread has begun");
    YIELDER.set(std::ptr::null());
    let _outside = Outside;
    // The coroutine sets its yielder itself, when it begins and when it goes on.
    match coroutine.resume(()) {
        CoroutineResult::Yield(()) => true,
        CoroutineResult::Return(()) => {
            stacks.extend(thread.coroutine.take().map(Coroutine::into_stack));
            false
        }
    }
}

/// Marks, when dropped, that this thread has left the coroutine, also by a panic.
struct Outside;

impl Drop for Outside {
    fn drop(&mut self) {
        YIELDER.set(std::ptr::null());
    }
}

/// Calls a kernel.
#[inline]
fn call(code: &FunctionCode, params: &[u8], at: &Group) {
    match code {
        FunctionCode::Rust(kernel) => kernel(&Params::new(params), at),
        FunctionCode::Machine { kernel, .. } => call_machine(*kernel, params, at),
    }
}

#[inline]
#[expect(unsafe_code, reason = "runs machine code")]
fn call_machine(kernel: MachineKernel, params: &[u8], at: &Group) {
    // SAFETY: the code is mapped as long as its function lives. That it keeps to the calling convention, and touches only
    // what its refs and parameters allow, is what the caller of `launch` vouches for.
    unsafe { kernel(params.as_ptr(), at) }
}

/// The place of the `index`th of a grid of `extent`.
fn place(index: u64, extent: [u32; 3]) -> [u32; 3] {
    let (x, y) = (u64::from(extent[0]), u64::from(extent[1]));
    // Each is below its extent, so it fits.
    [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32]
}

/// The place after `place`.
#[inline]
fn step(place: &mut [u32; 3], extent: [u32; 3]) {
    place[0] += 1;
    if place[0] == extent[0] {
        place[0] = 0;
        place[1] += 1;
        if place[1] == extent[1] {
            place[1] = 0;
            place[2] += 1;
        }
    }
}
