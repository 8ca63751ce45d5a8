//! A dispatch on the workers: groups taken, contexts filled, machine code entered.
//!
//! # Invariants
//!
//! 1. Machine code that is entered stays linked: the kernel's instance for the worker is held for the whole run.
//! 2. Machine code runs on fibers alone, so that a violation can leave it behind.
//! 3. With checks, machine code reaches no memory but what the dispatch names (`Reach`), its threadgroup memory and its
//!    stack. Who dispatches keeps that memory mapped meanwhile; without checks, all that the kernel reaches.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Dispatch, Violation};
use crate::fiber::{Code, Ended, GroupEntry, Proof, ThreadEntry};
use crate::jit;
use crate::jit::abi::{self, GroupContext, SLOTS};
use crate::jit::compile::{Compiled, Form};
use crate::jit::host::{Raised, Reach, Reaching};
use crate::jit::link::Linked;
use crate::metadata::ArgumentKind;
use crate::workers::{Work, Worker, Workers};

/// The most threads of a group.
pub(super) const THREADS_MAX: u32 = 1024;

/// A compiled function, and its code for each worker that has run it.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) name: String,
    pub(super) compiled: Compiled,
    instances: Mutex<HashMap<u64, Arc<Instance>>>,
}

/// The kernel's code, linked for one worker.
#[derive(Debug)]
struct Instance {
    entry: Entry,
    /// GPU addresses and bytes of the kernel's own constant variables.
    tables: Vec<(u64, u64)>,
    #[expect(dead_code, reason = "keeps the code that `entry` points to")]
    linked: Arc<Linked>,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    /// With checks; and without, where the proof holds.
    Loop(GroupEntry, Option<(Proof, GroupEntry)>),
    Fibers(Code),
}

// SAFETY: the pointers are to code and variables of `linked`, which belong to no thread; the worker whose instance it is
// uses them alone.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Instance {
    fn new(compiled: &Compiled) -> Result<Self, String> {
        let object = &compiled.object;
        let linked = Linked::new(&object.code)?;
        let entry = match object.form {
            Form::Loop => {
                let checked = group_entry(&linked, jit::GROUP_ENTRY)?;
                Entry::Loop(checked, if object.proved { Some(proved(&linked)?) } else { None })
            }
            Form::Fibers => {
                let address = linked.address(jit::THREAD_ENTRY)?;
                // SAFETY: as above.
                let entry = unsafe { std::mem::transmute::<usize, ThreadEntry>(address) };
                let slot = ptr::with_exposed_provenance_mut(linked.address(jit::CONTEXT)?);
                Entry::Fibers(Code { entry, slot })
            }
        };
        let tables = if object.tables { tables(&linked)? } else { Vec::new() };
        Ok(Self { entry, tables, linked })
    }
}

fn group_entry(linked: &Linked, name: &str) -> Result<GroupEntry, String> {
    let address = linked.address(name)?;
    // SAFETY: the object defines this name as a function of this type (`jit::entry`).
    Ok(unsafe { std::mem::transmute::<usize, GroupEntry>(address) })
}

/// The loop without checks, and the proof that allows it.
fn proved(linked: &Linked) -> Result<(Proof, GroupEntry), String> {
    let address = linked.address(jit::PROOF)?;
    // SAFETY: the object defines this name as a function of this type (`jit::prove`).
    let proof = unsafe { std::mem::transmute::<usize, Proof>(address) };
    Ok((proof, group_entry(linked, jit::PROVED_ENTRY)?))
}

/// The list of constant variables in linked code: how many there are, then each one's host address and bytes.
fn tables(linked: &Linked) -> Result<Vec<(u64, u64)>, String> {
    let list: *const u64 = ptr::with_exposed_provenance(linked.address(jit::TABLES)?);
    // SAFETY: the object defines this name as words: their count, then a pair for each (`jit::specialize`).
    let count = unsafe { list.read() } as usize;
    let pairs = list.wrapping_add(1);
    // SAFETY: as above.
    let words = unsafe { std::slice::from_raw_parts(pairs, count * 2) };
    Ok(words.chunks_exact(2).map(|pair| (crate::address::gpu_address(pair[0]), pair[1])).collect())
}

impl Inner {
    pub(super) fn new(name: &str, compiled: Compiled) -> Self {
        Self { name: name.to_owned(), compiled, instances: Mutex::default() }
    }

    /// The most threads of a group that the kernel allows.
    pub(super) fn threads_max(&self) -> u32 {
        self.compiled.reflection.max_total_threads.map_or(THREADS_MAX, |stated| stated.clamp(1, THREADS_MAX))
    }

    fn instance(&self, worker: u64) -> Result<Arc<Instance>, String> {
        if let Some(instance) = lock(&self.instances).get(&worker) {
            return Ok(Arc::clone(instance));
        }
        let instance = Arc::new(Instance::new(&self.compiled)?);
        lock(&self.instances).insert(worker, Arc::clone(&instance));
        Ok(instance)
    }

    /// What the dispatch itself does wrong.
    fn look_over(&self, dispatch: &Dispatch<'_>) -> Result<(), Violation> {
        let kernel = || self.name.clone();
        let threads = dispatch.threads;
        let limit = self.threads_max();
        let all = threads.iter().try_fold(1_u32, |all, &axis| all.checked_mul(axis));
        if !all.is_some_and(|all| (1..=limit).contains(&all)) {
            return Err(Violation::GroupSize { kernel: kernel(), threads, limit });
        }
        for (groups, threads) in dispatch.groups.into_iter().zip(threads) {
            if groups.checked_mul(threads).is_none() {
                let why = format!("{groups} groups of {threads} threads are more than 2³² threads on an axis");
                return Err(Violation::Host { kernel: kernel(), why });
            }
        }
        for argument in self.compiled.reflection.arguments.iter().filter(|argument| argument.used) {
            // An argument that a function constant turns off needs nothing; one that it turns on is checked when used.
            let (needed, name) = (argument.predicate.is_none(), || argument.name.clone());
            match argument.kind {
                ArgumentKind::Buffer { index, data_size, reference, .. } if needed => {
                    let bound = dispatch.buffers.get(index as usize).copied().flatten();
                    let unbound = Violation::UnboundBuffer { kernel: kernel(), index, argument: name() };
                    let len = bound.ok_or(unbound)?.len;
                    if reference && len < data_size {
                        let (kernel, argument) = (kernel(), name());
                        return Err(Violation::ShortBuffer { kernel, index, argument, needs: data_size, len });
                    }
                }
                ArgumentKind::Threadgroup { index, .. }
                    if needed && dispatch.threadgroup.get(index as usize).is_none_or(|&bytes| bytes == 0) =>
                {
                    return Err(Violation::UnboundThreadgroup { kernel: kernel(), index, argument: name() });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The violation that machine code raised.
    fn violation(&self, raised: Raised) -> Violation {
        let kernel = self.name.clone();
        let Raised { kind, address, size, access, range: (start, len) } = raised;
        match kind {
            abi::VIOLATION_OUT_OF_BOUNDS => Violation::OutOfBounds { kernel, address, size, start, len, access },
            abi::VIOLATION_MISALIGNED => Violation::MisalignedAccess { kernel, address, size },
            abi::VIOLATION_THREADGROUP => Violation::ThreadgroupBounds { kernel, address, size },
            abi::VIOLATION_PRIVATE => Violation::PrivateBounds { kernel, address, size },
            abi::VIOLATION_TIMEOUT => Violation::Timeout { kernel },
            abi::VIOLATION_TRAP => Violation::Trap { kernel },
            _ => Violation::NotResident { kernel, address, size, access },
        }
    }
}

/// Runs a dispatch to its end.
pub(super) fn dispatch(kernel: &Arc<Inner>, dispatch: &Dispatch<'_>, workers: &Workers) -> Result<(), Violation> {
    kernel.look_over(dispatch)?;
    let total = dispatch.groups.iter().map(|&axis| u64::from(axis)).try_fold(1, u64::checked_mul);
    let too_many = || Violation::Host { kernel: kernel.name.clone(), why: "too many groups".to_owned() };
    let total = total.ok_or_else(too_many)?;
    if total == 0 {
        return Ok(());
    }
    let run = Arc::new(Run {
        kernel: Arc::clone(kernel),
        reach: Reach {
            bound: dispatch.buffers.iter().flatten().copied().collect(),
            resident: dispatch.resident.clone(),
        },
        template: template(dispatch),
        threadgroup: *dispatch.threadgroup,
        next: AtomicU64::new(0),
        total,
        // Small enough for all to end at about the same time, large enough to seldom meet.
        chunk: (total / (workers.threads() as u64 * 16)).clamp(1, 1024),
        stop: AtomicBool::new(false),
        late: AtomicBool::new(false),
        violation: Mutex::new(None),
    });
    workers.run(run.clone(), total.div_ceil(run.chunk));
    let violation = lock(&run.violation).take();
    violation.map_or(Ok(()), Err)
}

/// What is the same for all groups.
fn template(dispatch: &Dispatch<'_>) -> GroupContext {
    let whole = [0, 1, 2].map(|axis| dispatch.groups[axis] * dispatch.threads[axis]);
    GroupContext {
        buffers: dispatch.buffers.map(|bound| bound.map_or(0, |bound| bound.address)),
        lengths: dispatch.buffers.map(|bound| bound.map_or(0, |bound| bound.len)),
        threadgroup: [0; SLOTS],
        threadgroup_lengths: dispatch.threadgroup.map(u64::from),
        groups: dispatch.groups,
        threads: dispatch.threads,
        grid: dispatch.grid.unwrap_or(whole),
        stride: dispatch.threads,
        group: [0; 3],
    }
}

/// The loop with checks; and the one without, where the proof holds.
type Entries = (GroupEntry, Option<(Proof, GroupEntry)>);

/// A dispatch that runs.
struct Run {
    kernel: Arc<Inner>,
    reach: Reach,
    template: GroupContext,
    threadgroup: [u32; SLOTS],
    next: AtomicU64,
    total: u64,
    chunk: u64,
    stop: AtomicBool,
    /// Whether the dispatch took too long: kernels that run are left behind.
    late: AtomicBool,
    violation: Mutex<Option<Violation>>,
}

impl Run {
    /// The next groups to run, by number.
    fn take(&self) -> Option<std::ops::Range<u64>> {
        // Relaxed: the counter orders nothing but itself; who waits for the job sees its end under a lock.
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let start = self.next.fetch_add(self.chunk, Ordering::Relaxed);
        (start < self.total).then(|| start..self.total.min(start + self.chunk))
    }

    /// Whether groups are left to take.
    fn has_more(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && self.next.load(Ordering::Relaxed) < self.total
    }

    fn fail(&self, violation: Violation) {
        self.stop.store(true, Ordering::Relaxed);
        lock(&self.violation).get_or_insert(violation);
    }

    fn host_failure(&self, why: String) {
        self.fail(Violation::Host { kernel: self.kernel.name.clone(), why });
    }

    /// A context whose threadgroup arguments lie in the worker's storage.
    fn context(&self, storage: &mut Vec<u128>) -> GroupContext {
        let mut context = self.template;
        let words = |bytes: u32| (bytes as usize).div_ceil(size_of::<u128>());
        storage.clear();
        storage.resize(self.threadgroup.iter().map(|&bytes| words(bytes)).sum(), 0);
        let mut at = storage.as_mut_ptr();
        for (address, &bytes) in context.threadgroup.iter_mut().zip(&self.threadgroup) {
            *address = at.expose_provenance() as u64;
            at = at.wrapping_add(words(bytes));
        }
        context
    }

    /// Puts a group's place, and its size where the grid ends within it, into the context.
    fn place(&self, context: &mut GroupContext, number: u64) {
        let [x, y, _] = self.template.groups.map(u64::from);
        context.group = [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32];
        for axis in 0..3 {
            let first = context.group[axis] * self.template.stride[axis];
            context.threads[axis] = self.template.stride[axis].min(self.template.grid[axis].saturating_sub(first));
        }
    }

    fn raised(&self, reaching: &Reaching<'_>) {
        match reaching.raised() {
            Some(raised) => self.fail(self.kernel.violation(raised)),
            None => self.host_failure("the kernel was left without a reason".to_owned()),
        }
    }

    /// Runs groups by the loop over their threads: the one without checks where the proof holds for the whole grid, or
    /// for the group.
    fn run_loop(&self, entries: Entries, context: &mut GroupContext, worker: &mut Worker, reaching: &Reaching<'_>) {
        let (checked, proved) = entries;
        let all =
            proved.is_some_and(|(proof, _)| self.holds(proof, context, self.template.groups.map(|axis| axis - 1)));
        while let Some(groups) = self.take() {
            let mut work = || {
                for number in groups.clone() {
                    self.place(context, number);
                    let [x, y, z] = context.group;
                    if context.threads.contains(&0) {
                        continue;
                    }
                    let entry = match proved {
                        Some((proof, entry)) if all || self.holds(proof, context, context.group) => entry,
                        _ => checked,
                    };
                    // SAFETY: the entry is the kernel's, which `run` keeps linked; the context is this worker's; what
                    // the kernel reaches is mapped (invariant 3), and is checked here or was proved above.
                    unsafe { entry(context, x, y, z) };
                }
            };
            match worker.runner.run_alone(&mut work) {
                Ok(Ended::Done) => {}
                Ok(_) => self.raised(reaching),
                Err(why) => self.host_failure(why),
            }
        }
    }

    /// Whether no thread of the groups up to a place leaves its buffers.
    fn holds(&self, proof: Proof, context: &GroupContext, [x, y, z]: [u32; 3]) -> bool {
        // SAFETY: the proof is the kernel's, which `run` keeps linked; it reads what it has proved to be in reach.
        unsafe { proof(context, x, y, z) }
    }

    fn run_fibers(&self, code: Code, context: &mut GroupContext, worker: &mut Worker, reaching: &Reaching<'_>) {
        while let Some(groups) = self.take() {
            for number in groups {
                self.place(context, number);
                if context.threads.contains(&0) {
                    continue;
                }
                // SAFETY: as in `run_loop`.
                match unsafe { worker.runner.run(code, context) } {
                    Ok(Ended::Done) => {}
                    Ok(Ended::Mismatch) => {
                        let (kernel, group) = (self.kernel.name.clone(), context.group);
                        return self.fail(Violation::BarrierMismatch { kernel, group });
                    }
                    Ok(Ended::Abandoned) => return self.raised(reaching),
                    Err(why) => return self.host_failure(why),
                }
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    }
}

impl Work for Run {
    fn give_up(&self) {
        self.late.store(true, Ordering::Relaxed);
        self.fail(Violation::Timeout { kernel: self.kernel.name.clone() });
    }

    fn run(&self, worker: &mut Worker) {
        if !self.has_more() {
            return;
        }
        let instance = match self.kernel.instance(worker.id) {
            Ok(instance) => instance,
            Err(why) => return self.host_failure(why),
        };
        let mut storage = std::mem::take(&mut worker.threadgroup);
        let mut context = self.context(&mut storage);
        let reaching = Reaching::new(&self.reach, &instance.tables, &self.late);
        let _flushing = Flushing::new(self.kernel.compiled.flush_denormals);
        match instance.entry {
            Entry::Loop(checked, proved) => self.run_loop((checked, proved), &mut context, worker, &reaching),
            Entry::Fibers(code) => self.run_fibers(code, &mut context, worker, &reaching),
        }
        worker.threadgroup = storage;
    }
}

/// The thread's floating-point mode, until it is dropped.
struct Flushing(u32);

/// Round to nearest, no exception traps.
const DEFAULT: u32 = 0x1f80;
/// Results too small are zero, and so are operands.
const FLUSH: u32 = 0x8040;

impl Flushing {
    fn new(flush: bool) -> Self {
        let mut before = 0_u32;
        let at = &raw mut before;
        // SAFETY: stores the register to the variable.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) at, options(nostack, preserves_flags)) };
        Self::set(if flush { DEFAULT | FLUSH } else { DEFAULT });
        Self(before)
    }

    fn set(mode: u32) {
        let at = &raw const mode;
        // SAFETY: the mode traps nothing; Rust's code on this thread does no arithmetic with floats meanwhile.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        Self::set(self.0);
    }
}
