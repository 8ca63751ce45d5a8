//! Work: plans, room, and submit.
//!
//! `room` does more than look: it brings the plan's graphs to what the work asks for. Nobody sees that before `submit`
//! launches them, and what a graph holds is compared anew by every `room`. So what CUDA refuses of a launch is Invalid to the
//! caller, with CUDA's reason, and takes no value.
//!
//! # The steps of a plan
//!
//! Fills cut a submission into runs of parts. A run with a launch is a graph, and so is a long one; a short one without goes to the
//! stream part by part, as a fill does: a graph takes two hundred microseconds to make, and rig makes a submission for each copy
//! that a program asks for. A graph at the end has one node more, which counts the value and stores the word; behind any other end a write of the
//! stream stores it. `queue.rs` puts the steps on the stream.
//!
//! A graph is a line of its parts. Where their slots allow an order with less (`edges.rs`), a second graph has that one, for runs
//! whose slots are apart: where two slots share an allocation, parts that share no slot may share memory, and the line serves. Each
//! graph holds what its own last run asked for.

use std::ops::Range;
use std::sync::atomic::Ordering;

use rig_edge::{Part, PlanError, Room, Submitted, Work};

use crate::Cuda;
use crate::edges::Edges;
use crate::entries::ENTRIES_MOST;
use crate::fault::{reason, told};
use crate::graph::Graph;
use crate::plan::{Held, Refusal};

/// How many parts make a graph of a run without a launch: making one takes as long as putting so many copies on the stream one by
/// one, some three microseconds each.
const LONG: usize = 64;

/// What all runs of a submission share.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// # let suite = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/suite.ptx"));
/// # let iota = device.load(suite)?.function("iota")?;
/// // One graph of CUDA's for the launch and the copy, made here.
/// let step = device.submission().launch(&iota, [rig::write(0)]).params(16).copy(0, 1).make()?;
/// let mut run = step.take();
/// for start in [5_u32, 60] {
///     let (x, y) = (device.from_slice(&[0_u32; 64])?, device.from_slice(&[0_u32; 64])?);
///     // Other buffers and parameters are changes of its nodes.
///     run.part(0).threads([64, 1, 1]).set(8, 64_u32).set(12, start);
///     // SAFETY: the kernel writes the 64 numbers of slot 0, from `start` on.
///     unsafe { run.launch(&[&x, &y])? };
///     assert_eq!(y.read(|y| y[63])?, start + 63);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Why a graph could not be changed, where that loses the device: `submit` tells.
    failed: Option<String>,
    /// The parameters of one launch, for launches one by one.
    pub(crate) stage: Vec<u8>,
}

/// Some parts of a submission in a row.
pub(crate) struct Step {
    pub parts: Range<usize>,
    /// The graph of them in a line; none where they go to the stream one by one.
    pub graph: Option<Patched>,
    /// The graph of them in the order of their slots; none where the line serves as well.
    wide: Option<Patched>,
}

impl Step {
    /// The graph for a run whose slots are `apart`, or not.
    #[inline]
    pub fn graph(&self, apart: bool) -> Option<&Patched> {
        if apart && self.wide.is_some() { self.wide.as_ref() } else { self.graph.as_ref() }
    }

    #[inline]
    fn graph_mut(&mut self, apart: bool) -> Option<&mut Patched> {
        if apart && self.wide.is_some() { self.wide.as_mut() } else { self.graph.as_mut() }
    }
}

/// A graph, and what it holds.
pub(crate) struct Patched {
    pub graph: Graph,
    held: Held,
    /// Whether this run goes part by part, since CUDA does not take its copies or memsets as changes of the nodes.
    pub plain: bool,
    /// Whether its last node counts the value.
    pub counts: bool,
}

/// How many parts go to the stream one by one, rather than as a graph, behind a wait for another device. On an H200 a graph
/// starts six microseconds later there than a plain launch does, and a plain launch costs three more of the host's.
const PLAIN_AFTER_WAIT_MOST: usize = 2;

impl Patched {
    /// Whether the run goes to the stream as this graph, and not part by part.
    #[inline]
    pub fn goes(&self, work: &Work<'_>) -> bool {
        !self.plain && (work.waits.is_empty() || work.blocks.len() > PLAIN_AFTER_WAIT_MOST)
    }
}

/// Where a submission is cut: fills alone, and what stands between them.
fn cut(fills: impl IntoIterator<Item = bool>) -> Vec<Range<usize>> {
    let mut steps: Vec<Range<usize>> = Vec::new();
    let mut open = false;
    for (index, is_fill) in fills.into_iter().enumerate() {
        match steps.last_mut() {
            Some(last) if open && !is_fill => last.end = index + 1,
            _ => steps.push(index..index + 1),
        }
        open = !is_fill;
    }
    steps
}

impl Cuda {
    pub(crate) fn plan_of(&self, parts: &[Part<Cuda>]) -> Result<Plan, PlanError> {
        let is_launch = |part: &Part<Cuda>| matches!(part, Part::Launch(_));
        let mut steps = Vec::new();
        for range in cut(parts.iter().map(|part| matches!(part, Part::Fill(_)))) {
            let (own, counts) = (&parts[range.clone()], range.end == parts.len());
            let make = |edges: &Edges| {
                let graph = Graph::of(self, own, edges, counts)?;
                Ok(graph.map(|graph| Patched { graph, held: Held::new(own), plain: false, counts }))
            };
            let (mut graph, mut wide) = (None, None);
            if own.iter().any(is_launch) || own.len() >= LONG {
                graph = make(&Edges::line(own.len()))?;
                let edges = Edges::of_slots(own);
                if graph.is_some() && edges.is_wide() {
                    wide = make(&edges)?;
                }
            }
            steps.push(Step { parts: range, graph, wide });
        }
        let bytes = |part: &Part<Cuda>| if let Part::Launch(launch) = part { launch.entry.params } else { 0 };
        let longest = parts.iter().map(bytes).max();
        Ok(Plan { steps, failed: None, stage: vec![0; longest.unwrap_or(0)] })
    }

    #[inline]
    pub(crate) fn room_for(&self, plan: &mut Plan, parts: &[Part<Cuda>], work: &Work<'_>) -> Room {
        let in_flight = self.entries.in_flight(self.word.load());
        if in_flight >= ENTRIES_MOST {
            return Room::Later;
        }
        let known = |step: &Step| {
            step.graph(work.apart).is_some_and(|patched| patched.held.knows(&work.blocks[step.parts.clone()]))
        };
        if !plan.steps.iter().all(known)
            && let Some(why) = self.beyond_limits(parts, work)
        {
            return Room::Refused(why);
        }
        for step in &mut plan.steps {
            let range = step.parts.clone();
            let Some(patched) = step.graph_mut(work.apart) else { continue };
            if let Err(mut refusal) = self.patch(patched, &parts[range.clone()], work, range.clone()) {
                refusal.part += range.start;
                if let Some(why) = self.refused(refusal, patched, &mut plan.failed) {
                    return Room::Refused(why);
                }
            }
        }
        self.on_the_stream(plan, work, in_flight)
    }

    /// Whether the stream has room for the work, behind so many entries.
    #[inline]
    fn on_the_stream(&self, plan: &Plan, work: &Work<'_>, in_flight: u64) -> Room {
        let takes = self.takes(plan, work);
        self.entries.set_next(takes);
        if in_flight + takes <= ENTRIES_MOST {
            return Room::Ok;
        }
        if in_flight > 0 {
            return Room::Later;
        }
        // More than a stream holds, with nothing before it, goes on as its own work does; but not behind another device's.
        match work.waits {
            [] => Room::Ok,
            _ => Room::Refused(format!(
                "of this submission CUDA takes {takes} parts one by one, more than the {ENTRIES_MOST} that may wait on its stream                  for another device's work: wait for that work first, or make it of fewer parts"
            )),
        }
    }

    /// How many entries of the stream the next value takes, as [`put`](Cuda::put) puts it there: a fill is taken for one.
    #[inline]
    fn takes(&self, plan: &Plan, work: &Work<'_>) -> u64 {
        let mut takes = work.waits.len() + if work.times.is_some() { 2 } else { 0 };
        let mut ends = false;
        for step in &plan.steps {
            match step.graph(work.apart) {
                Some(patched) if patched.goes(work) => {
                    takes += 1;
                    if patched.counts {
                        ends = true;
                        // ORDERING: Relaxed: only the hot calls write them, and one runs at a time.
                        let lags = self.counted.load(Ordering::Relaxed) != self.last.load(Ordering::Relaxed);
                        takes += usize::from(lags);
                    }
                }
                _ => takes += step.parts.len(),
            }
        }
        (takes + usize::from(!ends)) as u64
    }

    /// Brings a graph to what the work asks of its parts.
    #[inline]
    fn patch(
        &self,
        patched: &mut Patched,
        parts: &[Part<Cuda>],
        work: &Work<'_>,
        range: Range<usize>,
    ) -> Result<(), Refusal> {
        patched.plain = false;
        let of_step = Work { blocks: &work.blocks[range], waits: &[], scratch: &mut [], ..*work };
        match self.gpu.enter() {
            Ok(_current) => patched.held.patch(parts, &of_step, &mut patched.graph),
            Err(failure) => Err(Refusal { part: 0, failure, is_launch: false }),
        }
    }

    /// What becomes of a part that its graph did not take: the reason where the work can never run.
    #[cold]
    fn refused(&self, refusal: Refusal, patched: &mut Patched, failed: &mut Option<String>) -> Option<String> {
        let Refusal { part, failure, is_launch } = refusal;
        if failure.code.is_sticky() {
            *failed = Some(reason(self.gpu.api, failure));
        } else if is_launch {
            return Some(format!("part {part}: {}", self.gpu.api.describe(failure)));
        } else {
            patched.plain = true;
        }
        None
    }

    /// Why some launch can never run, if there is one.
    fn beyond_limits(&self, parts: &[Part<Cuda>], work: &Work<'_>) -> Option<String> {
        parts.iter().zip(work.blocks).enumerate().find_map(|(index, (part, block))| {
            let Part::Launch(launch) = part else { return None };
            let why = self.gpu.limits.refuse(&launch.entry, block)?;
            Some(format!("part {index} asks for {why}"))
        })
    }

    /// Puts the work on the stream.
    ///
    /// # Safety
    ///
    /// As [`submit`](rig_edge::Driver::submit).
    #[inline]
    #[expect(unsafe_code, reason = "the caller owes the memory")]
    pub(crate) unsafe fn take(
        &self,
        value: u64,
        plan: &mut Plan,
        parts: &[Part<Cuda>],
        work: &mut Work<'_>,
    ) -> Submitted {
        // ORDERING: Release: pairs with the Acquire of `end`.
        self.last.store(value, Ordering::Release);
        self.entries.put(value);
        if let Some(why) = plan.failed.take() {
            return Submitted::Failed(told(why));
        }
        // SAFETY: the caller's promise.
        match unsafe { self.put(value, plan, parts, work) } {
            Ok(()) => {
                // ORDERING: as above.
                self.stored.store(value, Ordering::Release);
                Submitted::Committed
            }
            Err(why) => Submitted::Failed(told(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_stand_alone_and_what_is_between_them_together() {
        for (parts, due) in [
            ("", vec![]),
            ("lcm", vec![(0, 3)]),
            ("f", vec![(0, 1)]),
            ("ff", vec![(0, 1), (1, 2)]),
            ("llfcffm", vec![(0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]),
            ("fll", vec![(0, 1), (1, 3)]),
        ] {
            let steps = cut(parts.chars().map(|part| part == 'f'));
            assert_eq!(steps.into_iter().map(|step| (step.start, step.end)).collect::<Vec<_>>(), due, "{parts}");
        }
    }
}
