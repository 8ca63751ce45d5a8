//! Work as the host runs it: steps made once, and jobs, which hold all that one submit needs after it has returned.
//!
//! # Invariants
//!
//! 1. A job holds copies: of blocks, parameters (with addresses at the refs) and slots. It keeps its steps, and so the
//!    code that they run; that the memory outlives the work is the contract of `submit`.
//! 2. A job is used again once its value is complete, so a steady submit makes no heap allocation.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rig_edge::{Block, Fault, Part, Ref, Room, Slot, Span, Submitted, Times, Work, callback, times};

use crate::code::{Entry, GROUP_BYTES_MAX};
use crate::encoder::Encoder;
use crate::group::{self, message};
use crate::{Host, Runner};

/// One part, as runs of its submission share it.
pub(crate) enum Step {
    Launch { entry: Entry, refs: Box<[Ref]> },
    Copy { from: u32, to: u32 },
    Memset { slot: u32, byte: u8 },
    Fill,
}

/// The steps of a submission: what all its runs share ([`rig_edge::Driver::Plan`]).
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// // It is made here once, with what launches, copies and memsets need that all runs have in common.
/// let step = device.submission().copy(0, 1).memset(0, 0).make()?;
/// for value in 1..=3_u8 {
///     let (x, y) = (device.from_slice(&[value; 4])?, device.from_slice(&[0_u8; 4])?);
///     step.take().submit(&[&x, &y])?;
///     assert_eq!((x.to_vec()?, y.to_vec()?), (vec![0; 4], vec![value; 4]));
/// }
/// # Ok(())
/// # }
/// ```
pub struct Plan(pub(crate) Arc<[Step]>);

/// What a task of a fill is.
pub(crate) type Task = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// The bytes of a copy or memset that count as one group: long enough that sharing them costs nothing, short enough that
/// the cores end together.
const PIECE_BYTES: u64 = 256 * 1024;

/// About what one piece takes, for the decision to wake other cores: 256 KiB at 8 GB/s.
const PIECE_NS: u64 = 32_000;

/// How much work one claim takes where there is plenty: long beside the lock it costs, short beside a launch that is
/// worth sharing.
const CLAIM_NS: u64 = 60_000;

/// Work below this is never split: another core would take longer to wake.
const WHOLE_NS: u64 = 20_000;

/// One value's work.
#[derive(Default)]
pub(crate) struct Job {
    pub(crate) value: u64,
    steps: Option<Arc<[Step]>>,
    blocks: Vec<Block>,
    /// Words, so that every launch's parameters stand on 8 bytes.
    params: Vec<u64>,
    slots: Vec<Slot>,
    /// The tasks of each fill that has any, by its step.
    tasks: Mutex<Vec<(usize, Vec<Task>)>>,
    /// Where to note when the steps ran, while somebody takes a profile.
    times: Option<Arc<Times>>,
}

impl Job {
    /// Takes one submit's work. The error is a fill's.
    pub(crate) fn encode(
        &mut self,
        value: u64,
        plan: &Plan,
        parts: &[Part<Host>],
        work: &Work<'_>,
    ) -> Result<(), String> {
        self.value = value;
        self.steps = Some(Arc::clone(&plan.0));
        self.times = work.times.cloned();
        self.blocks.clear();
        self.blocks.extend_from_slice(work.blocks);
        self.slots.clear();
        self.slots.extend_from_slice(work.slots);
        self.params.clear();
        self.params.resize(work.params.len().div_ceil(8), 0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.params);
        bytes[..work.params.len()].copy_from_slice(work.params);
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.clear();
        for (at, (step, block)) in plan.0.iter().zip(work.blocks).enumerate() {
            match step {
                Step::Launch { refs, .. } => add_addresses(bytes, block, refs, work.slots),
                Step::Fill => {
                    let of_fill = fill(&parts[at], work.slots)?;
                    if !of_fill.is_empty() {
                        tasks.push((at, of_fill));
                    }
                }
                Step::Copy { .. } | Step::Memset { .. } => {}
            }
        }
        Ok(())
    }

    /// Lets go of the steps and tasks, so that nothing outlives the work in a job that waits to be used again.
    pub(crate) fn clear(&mut self) {
        self.steps = None;
        self.times = None;
        self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn steps(&self) -> &[Step] {
        self.steps.as_deref().unwrap_or_default()
    }

    /// How many groups (of a copy or memset: pieces) a step is.
    pub(crate) fn groups(&self, step: usize) -> u64 {
        match &self.steps()[step] {
            Step::Launch { .. } => self.blocks[step].groups.iter().map(|&axis| u64::from(axis)).product(),
            Step::Copy { to: slot, .. } | Step::Memset { slot, .. } => {
                self.slots[*slot as usize].len.div_ceil(PIECE_BYTES)
            }
            Step::Fill => 1,
        }
    }

    /// About what `groups` of a step take, in nanoseconds; `None` if nothing is known.
    pub(crate) fn cost(&self, step: usize, groups: u64) -> Option<u64> {
        match &self.steps()[step] {
            Step::Launch { entry, .. } => entry.function().cost.of(groups),
            Step::Copy { .. } | Step::Memset { .. } => Some(PIECE_NS.saturating_mul(groups)),
            Step::Fill => None,
        }
    }

    /// How many of the `left` groups of a step one of `cores` should take next.
    pub(crate) fn share(&self, step: usize, left: u64, cores: u64) -> u64 {
        if left <= 1 {
            return left;
        }
        let Step::Launch { entry, .. } = &self.steps()[step] else {
            return 1;
        };
        let cost = &entry.function().cost;
        match cost.of(left) {
            Some(all) if all <= WHOLE_NS => left,
            // Towards the end claims get smaller, so that the cores end together.
            _ => cost.groups_in(CLAIM_NS).min(left.div_ceil(2 * cores)),
        }
    }

    /// Runs `range` of a step's groups.
    pub(crate) fn run(&self, step: usize, range: Range<u64>) -> Result<(), String> {
        let Some(times) = &self.times else { return self.run_groups(step, range) };
        let start = times::now();
        let outcome = self.run_groups(step, range);
        times.note_part(step, 0, Span { start, end: times::now() });
        outcome
    }

    fn run_groups(&self, step: usize, range: Range<u64>) -> Result<(), String> {
        let _inside = callback::enter();
        match &self.steps()[step] {
            Step::Launch { entry, .. } => {
                let block = &self.blocks[step];
                let bytes: &[u8] = bytemuck::cast_slice(&self.params);
                let params = &bytes[block.params_at as usize..][..block.params_len as usize];
                group::run(entry.function(), block, params, range)
            }
            Step::Copy { from, to } => {
                copy(&self.slots[*from as usize], &self.slots[*to as usize], range);
                Ok(())
            }
            Step::Memset { slot, byte } => {
                set(&self.slots[*slot as usize], *byte, range);
                Ok(())
            }
            Step::Fill => self.run_tasks(step),
        }
    }

    /// Notes how long `groups` of a step took.
    pub(crate) fn note(&self, step: usize, groups: u64, took: Duration) {
        if let Step::Launch { entry, .. } = &self.steps()[step] {
            entry.function().cost.note(groups, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX / 64));
        }
    }

    fn run_tasks(&self, step: usize) -> Result<(), String> {
        let tasks = {
            let mut all = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            match all.iter().position(|(at, _)| *at == step) {
                Some(at) => all.swap_remove(at).1,
                None => return Ok(()),
            }
        };
        for task in tasks {
            caught("a task of a fill", task)?;
        }
        Ok(())
    }
}

/// Runs code of the program's and makes its panic an error.
pub(crate) fn caught(what: &str, code: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|panic| Err(format!("{what} panicked: {}", message(&*panic))))
}

/// Adds to each ref's offset the address of its slot.
fn add_addresses(params: &mut [u8], block: &Block, refs: &[Ref], slots: &[Slot]) {
    for r in refs {
        let at = block.params_at as usize + r.at as usize;
        // PANIC: rig checked that refs lie inside the parameters; a slice of 8 bytes is an array of 8.
        let place: &mut [u8; 8] = (&mut params[at..at + 8]).try_into().expect("a ref is 8 bytes");
        let address = u64::from_ne_bytes(*place).wrapping_add(slots[r.slot as usize].device);
        *place = address.to_ne_bytes();
    }
}

/// Runs a fill's code; gives the tasks that it added.
fn fill(part: &Part<Host>, slots: &[Slot]) -> Result<Vec<Task>, String> {
    let Part::Fill(fill) = part else { return Ok(Vec::new()) };
    let mut tasks = Vec::new();
    caught("a fill", || (fill.code)(&mut Encoder { tasks: &mut tasks }, slots))?;
    Ok(tasks)
}

/// The bytes of the pieces `range` of `len` bytes: where they start, and how many.
fn pieces(len: u64, range: Range<u64>) -> (usize, usize) {
    let start = range.start * PIECE_BYTES;
    let end = (range.end * PIECE_BYTES).min(len);
    (start as usize, (end - start) as usize)
}

#[expect(unsafe_code, reason = "touches the memory that the caller of submit keeps")]
fn copy(from: &Slot, to: &Slot, range: Range<u64>) {
    let (start, len) = pieces(to.len, range);
    // SAFETY: `start` is inside the slot, which is memory of this device (the contract of `submit`).
    let source = unsafe { from.host.add(start) };
    // SAFETY: as for the source; the slots of a copy are of one length.
    let target = unsafe { to.host.add(start) };
    // SAFETY: both slots hold these bytes, which outlive the work and do not overlap (the contract of a copy).
    unsafe { source.copy_to_nonoverlapping(target, len) };
}

#[expect(unsafe_code, reason = "touches the memory that the caller of submit keeps")]
fn set(slot: &Slot, byte: u8, range: Range<u64>) {
    let (start, len) = pieces(slot.len, range);
    // SAFETY: `start` is inside the slot, which is memory of this device (the contract of `submit`).
    let target = unsafe { slot.host.add(start) };
    // SAFETY: the slot holds these bytes, which outlive the work.
    unsafe { target.write_bytes(byte, len) };
}

/// The steps of `parts`.
pub(crate) fn plan(parts: &[Part<Host>]) -> Plan {
    let step = |part: &Part<Host>| match part {
        Part::Launch(launch) => Step::Launch { entry: launch.entry.clone(), refs: launch.refs.clone() },
        Part::Copy(copy) => Step::Copy { from: copy.from, to: copy.to },
        Part::Memset(memset) => Step::Memset { slot: memset.slot, byte: memset.byte },
        Part::Fill(_) => Step::Fill,
    };
    Plan(parts.iter().map(step).collect())
}

/// The most groups of a launch: at a nanosecond each, three days' work.
const GROUPS_MAX: u64 = 1 << 48;

/// Whether the host can ever run the work.
pub(crate) fn fits(plan: &Plan, work: &Work<'_>) -> Room {
    for (step, block) in plan.0.iter().zip(work.blocks) {
        if let Step::Launch { entry, .. } = step
            && let Some(why) = refusal(entry, block)
        {
            return Room::Refused(why);
        }
    }
    Room::Ok
}

/// Why a launch can never run.
#[inline]
pub(crate) fn refusal(entry: &Entry, block: &Block) -> Option<String> {
    let product =
        |axes: [u32; 3]| axes.iter().try_fold(1_u64, |all, &axis| all.checked_mul(u64::from(axis))).unwrap_or(u64::MAX);
    let (groups, threads) = (product(block.groups), product(block.threads));
    let function = entry.function();
    let bytes = u64::from(function.group_bytes) + u64::from(block.group_bytes);
    let fine = (1..=GROUPS_MAX).contains(&groups)
        && (1..=u64::from(function.threads_max())).contains(&threads)
        && bytes <= u64::from(GROUP_BYTES_MAX);
    (!fine).then(|| refusal_in_words(entry, block, bytes))
}

#[cold]
fn refusal_in_words(entry: &Entry, block: &Block, bytes: u64) -> String {
    let (name, groups, threads) = (&entry.function().name, block.groups, block.threads);
    if groups.contains(&0) {
        return format!("{name} was launched over {groups:?} groups: each axis must be positive");
    }
    if threads.contains(&0) {
        return format!("{name} was launched with groups of {threads:?} threads: each axis must be positive");
    }
    if bytes > u64::from(GROUP_BYTES_MAX) {
        let own = entry.function().group_bytes;
        return format!(
            "{name} was launched with {} bytes of group memory beside the function's own {own}: \
             a group has at most {GROUP_BYTES_MAX}",
            block.group_bytes
        );
    }
    let most = entry.function().threads_max();
    if threads.iter().map(|&axis| u128::from(axis)).product::<u128>() > u128::from(most) {
        return format!("{name} was launched with groups of {threads:?} threads: its groups hold at most {most}");
    }
    format!("{name} was launched over {groups:?} groups: a launch has at most {GROUPS_MAX}")
}

impl Host {
    pub(crate) fn room_for(&self, plan: &Plan, work: &Work<'_>) -> Room {
        if let Runner::Pool(pool) = &self.runner
            && pool.is_full()
        {
            return Room::Later;
        }
        fits(plan, work)
    }

    pub(crate) fn take(&self, value: u64, plan: &Plan, parts: &[Part<Host>], work: &Work<'_>) -> Submitted {
        match &self.runner {
            Runner::Caller(caller) => caller.submit(value, plan, parts, work),
            Runner::Pool(pool) => pool.submit(value, |job| job.encode(value, plan, parts, work)),
        }
    }

    pub(crate) fn fault(&self) -> Result<(), Fault> {
        match &self.runner {
            Runner::Caller(caller) => caller.fault(),
            Runner::Pool(pool) => pool.fault(),
        }
    }
}
