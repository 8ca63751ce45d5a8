//! Work: room, submit, and sleep.
//!
//! `room` does more than look: it brings the plan's graph to what the work asks for. Nobody sees that before `submit`
//! launches the graph, and what a graph holds is compared anew by every `room`. So what CUDA refuses of a launch is Invalid
//! to the caller, with CUDA's reason, and takes no value.
//!
//! # The ways
//!
//! * By a graph: the waits on the stream, then the graph, whose last node stores the word.
//! * Part by part on the stream, then a write of the word: where the submission has no launch, where it has a fill, where it
//!   is small and waits for another device, and where the graph does not take a copy or a memset as it is (CUDA documents
//!   that it need not when the kind of memory changes). The graph's counter stays behind then; the next graph brings it up.
//!
//! # Memory ordering
//!
//! The kernel that counts and the stream's write both make everything before them seen by the host before the word.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rig_edge::{Block, Fault, Launch, Part, PlanError, Room, Sleep, Submitted, Work};

use crate::Cuda;
use crate::code::Entry;
use crate::fault::{fault, reason};
use crate::graph::Graph;
use crate::plan::{Held, Refusal, resolve};
use crate::sys::Result;
use crate::sys::abi::Stream;
use crate::sys::stream::Shape;

/// How many values may be in flight: below what a stream of CUDA's holds, some thousand, where a launch would wait.
const IN_FLIGHT_MOST: u64 = 900;

/// How many parts go to the stream one by one, rather than as a graph, behind a wait for another device. On an H200 a graph
/// starts six microseconds later there than a plain launch does, and a plain launch costs three more of the host's.
const PLAIN_AFTER_WAIT_MOST: usize = 2;

/// The shortest nap of a sleep. TIMEOUT: about the shortest that a system's timer gives.
const NAP_FIRST: Duration = Duration::from_micros(40);
/// The longest nap of a sleep. TIMEOUT: forty a second, each ten or twenty microseconds of processor time in a virtual machine.
const NAP_LAST: Duration = Duration::from_millis(25);
/// For how long naps are fine. TIMEOUT: copies of a gigabyte take twenty milliseconds.
const FINE: Duration = Duration::from_millis(32);
/// What part of the time that the word has stood a nap is, while naps are fine and after: how much later than its work a
/// wait may end.
const NAP_SHARES: [u32; 2] = [32, 12];
/// How often a sleep asks the stream. TIMEOUT: a fault is told this late at most, and CUDA itself takes several times as
/// long to find it.
const ASK_PERIOD: Duration = Duration::from_millis(25);

/// How long to nap once the word has stood for some time.
fn nap(stood: Duration) -> Duration {
    let [fine, coarse] = NAP_SHARES;
    (stood / if stood < FINE { fine } else { coarse }).clamp(NAP_FIRST, NAP_LAST)
}

/// What all runs of a submission share: its graph, or none.
pub struct Plan {
    way: Way,
    /// Why the graph could not be changed, where that loses the device: `submit` tells.
    failed: Option<String>,
    /// The parameters of one launch, for launches one by one.
    stage: Vec<u8>,
}

enum Way {
    Plain,
    Graph {
        graph: Graph,
        held: Held,
        /** Whether this run goes part by part. */
        plain: bool,
    },
}

/// What a fill encodes with: the device's stream, with the GPU's context current on the thread.
///
/// What the fill puts on the stream runs in the fill's place. It must leave the context current, and the stream free of
/// captures.
pub struct Encoder<'a> {
    stream: Stream,
    context: *mut c_void,
    lent: PhantomData<&'a ()>,
}

impl Encoder<'_> {
    /// The stream: a `CUstream`, lent for the fill alone. CUDA's runtime and its libraries take it as a `cudaStream_t`.
    pub fn stream(&self) -> *mut c_void {
        self.stream.0
    }

    /// The GPU's primary context: a `CUcontext`.
    pub fn context(&self) -> *mut c_void {
        self.context
    }
}

impl Cuda {
    pub(crate) fn plan_of(&self, parts: &[Part<Cuda>]) -> std::result::Result<Plan, PlanError> {
        let is_launch = |part: &Part<Cuda>| matches!(part, Part::Launch(_));
        let is_fill = |part: &Part<Cuda>| matches!(part, Part::Fill(_));
        let way = if parts.iter().any(is_launch) && !parts.iter().any(is_fill) {
            let graph = Graph::of(self, parts)?;
            graph.map_or(Way::Plain, |graph| Way::Graph { graph, held: Held::new(parts), plain: false })
        } else {
            Way::Plain
        };
        let longest =
            parts.iter().map(|part| if let Part::Launch(launch) = part { launch.entry.params } else { 0 }).max();
        Ok(Plan { way, failed: None, stage: vec![0; longest.unwrap_or(0)] })
    }

    pub(crate) fn room_for(&self, plan: &mut Plan, parts: &[Part<Cuda>], work: &Work<'_>) -> Room {
        // ORDERING: Relaxed: only the hot calls write it, and one runs at a time.
        if self.last.load(Ordering::Relaxed) - self.word.load() >= IN_FLIGHT_MOST {
            return Room::Later;
        }
        let known = if let Way::Graph { held, .. } = &plan.way { held.knows(work.blocks) } else { false };
        if !known && let Some(why) = self.beyond_limits(parts, work) {
            return Room::Refused(why);
        }
        let Way::Graph { graph, held, plain } = &mut plan.way else { return Room::Ok };
        *plain = false;
        let patched = match self.gpu.enter() {
            Ok(_current) => held.patch(parts, work, graph),
            Err(failure) => Err(Refusal { part: 0, failure, is_launch: false }),
        };
        let Err(Refusal { part, failure, is_launch }) = patched else { return Room::Ok };
        if failure.code.is_sticky() {
            plan.failed = Some(reason(self.gpu.api, failure));
        } else if is_launch {
            return Room::Refused(format!("part {part}: {}", self.gpu.api.describe(failure)));
        } else {
            *plain = true;
        }
        Room::Ok
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
        if let Some(why) = plan.failed.take() {
            return Submitted::Failed(why);
        }
        // SAFETY: the caller's promise.
        match unsafe { self.put(value, plan, parts, work) } {
            Ok(()) => {
                // ORDERING: as above.
                self.stored.store(value, Ordering::Release);
                Submitted::Committed
            }
            Err(why) => Submitted::Failed(why),
        }
    }

    #[inline]
    #[expect(unsafe_code, reason = "the caller owes the memory")]
    unsafe fn put(
        &self,
        value: u64,
        plan: &mut Plan,
        parts: &[Part<Cuda>],
        work: &mut Work<'_>,
    ) -> std::result::Result<(), String> {
        let failed = |failure| reason(self.gpu.api, failure);
        let _current = self.gpu.enter().map_err(failed)?;
        for wait in work.waits {
            let word = self.gpu.word(wait.word);
            // SAFETY: the stream lives until `stop`, and the table of words for ever.
            unsafe { self.gpu.api.stream_wait(self.stream, word, wait.value) }.map_err(failed)?;
        }
        let after_wait = !work.waits.is_empty() && parts.len() <= PLAIN_AFTER_WAIT_MOST;
        if let Way::Graph { graph, plain: false, .. } = &plan.way
            && !after_wait
        {
            self.bring_counter_to(value - 1).map_err(failed)?;
            // ORDERING: Relaxed: only the hot calls touch it, and one runs at a time.
            self.counted.store(value, Ordering::Relaxed);
            // SAFETY: the hot calls run one at a time; the memory and code are the caller's promise.
            return unsafe { graph.launch(self.stream) }.map_err(failed);
        }
        for (index, part) in parts.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { self.put_part(&work.blocks[index], part, work, &mut plan.stage) }
                .map_err(|why| format!("part {index}: {why}"))?;
        }
        // SAFETY: the word lasts as long as the process; nothing else on the GPU writes it now.
        unsafe { self.gpu.api.stream_write(self.stream, self.word_at, value) }.map_err(failed)
    }

    /// Sees that the counter holds `value` before the next graph counts it up: values that went part by part left it behind.
    #[inline]
    fn bring_counter_to(&self, value: u64) -> Result<()> {
        if self.counted.load(Ordering::Relaxed) == value {
            return Ok(());
        }
        // SAFETY: the counter lasts as long as the process, and on the GPU only this stream's work writes it.
        #[expect(unsafe_code, reason = "writes the device's counter")]
        unsafe {
            self.gpu.api.stream_write(self.stream, self.counter_at, value)
        }
    }

    /// Puts one part on the stream.
    #[expect(unsafe_code, reason = "the caller owes the memory")]
    unsafe fn put_part(
        &self,
        block: &Block,
        part: &Part<Cuda>,
        work: &Work<'_>,
        stage: &mut [u8],
    ) -> std::result::Result<(), String> {
        let (api, stream) = (self.gpu.api, self.stream);
        let done = match part {
            Part::Launch(launch) => {
                // SAFETY: the caller's promise.
                unsafe { self.put_launch(launch, block, work, stage) }
            }
            Part::Copy(copy) => {
                let (from, to) = (work.slots[copy.from as usize], work.slots[copy.to as usize]);
                // CUDA takes no copy of nothing from addresses of nothing.
                if from.len == 0 {
                    return Ok(());
                }
                // SAFETY: both slots have these bytes, and outlive the work: the caller's promise.
                unsafe { api.copy(stream, from.device, to.device, from.len.min(to.len) as usize) }
            }
            Part::Memset(memset) => {
                let slot = work.slots[memset.slot as usize];
                if slot.len == 0 {
                    return Ok(());
                }
                // SAFETY: the slot has these bytes, and outlives the work: the caller's promise.
                unsafe { api.memset(stream, slot.device, memset.byte, slot.len as usize) }
            }
            Part::Fill(fill) => {
                let mut encoder = Encoder { stream, context: self.gpu.context().0, lent: PhantomData };
                return (fill.code)(&mut encoder, work.slots);
            }
        };
        done.map_err(|failure| reason(api, failure))
    }

    #[expect(unsafe_code, reason = "the caller owes the memory")]
    unsafe fn put_launch(
        &self,
        launch: &Launch<Entry>,
        block: &Block,
        work: &Work<'_>,
        stage: &mut [u8],
    ) -> Result<()> {
        let params = work.params_of(block);
        let stage = &mut stage[..params.len()];
        resolve(params, &launch.refs, work.slots, stage);
        // SAFETY: the function is loaded, and has parameters of this length, which `room` saw; the rest is the caller's
        // promise.
        unsafe { self.gpu.api.launch(self.stream, launch.entry.function, &Shape::of(block), stage) }
    }

    /// Sleeps until the word moves, in naps that grow with how long it has stood. Nothing tells of a fault but the stream:
    /// it is asked now and then, and at the end.
    pub(crate) fn doze(&self, sleep: Sleep) -> std::result::Result<(), Fault> {
        let start = Instant::now();
        let since = self.stands_since(sleep.seen, start);
        let mut asked = start;
        loop {
            let now = Instant::now();
            let passed = now - start;
            let over = self.word.load() != sleep.seen || passed >= sleep.still;
            if over || now - asked >= ASK_PERIOD {
                asked = now;
                self.ask()?;
            }
            if over {
                return Ok(());
            }
            // TIMEOUT: from NAP_FIRST to NAP_LAST, and no longer than is asked for.
            std::thread::sleep(nap(now - since).min(sleep.still - passed));
        }
    }

    /// Since when sleeps have seen the word at `seen`.
    fn stands_since(&self, seen: u64, now: Instant) -> Instant {
        let mut stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        match *stands {
            Some((value, since)) if value == seen => since,
            _ => stands.insert((seen, now)).1,
        }
    }

    /// Asks the stream whether the device has faulted.
    fn ask(&self) -> std::result::Result<(), Fault> {
        // SAFETY: the stream lives until `stop`, which no sleep overlaps.
        #[expect(unsafe_code, reason = "asks the stream")]
        let asked = self.gpu.enter().and_then(|_current| unsafe { self.gpu.api.stream_query(self.stream) });
        asked.map(drop).map_err(|failure| fault(self.gpu.api, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise C15.
    #[test]
    fn a_second_is_two_hundred_naps_and_a_short_wait_ends_little_later_than_its_work() {
        let (mut stood, mut naps) = (Duration::ZERO, 0);
        while stood < Duration::from_secs(1) {
            stood += nap(stood);
            naps += 1;
        }
        assert!(naps <= 200, "{naps}");
        assert!(nap(Duration::from_millis(5)) < Duration::from_micros(160));
        assert!(nap(Duration::from_millis(30)) < Duration::from_millis(1));
        assert_eq!(nap(Duration::from_secs(100)), NAP_LAST);
    }
}
