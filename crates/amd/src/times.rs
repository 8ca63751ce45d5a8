//! When work ran on the GPU, while somebody takes a profile.
//!
//! Both queues can store the GPU's clock: the compute queue at the end of its pipe, the copy queue as a packet. Such a stamp
//! stands before and behind each part, on the part's queue and once all before it is done, since a device's parts run one
//! after the other. Once the word shows the value, the stamps are read and brought onto the host's clock: the kernel reads the GPU's
//! clock between two readings of the host's, which makes an anchor, and a stamp lies between two anchors. So nothing needs to
//! be known of the clock's rate, and the error of a time is that of the anchors around it, and one tick.
//!
//! # Invariants
//!
//! 1. The stamps of a value are one piece of the ring of stamps; it is free once they are read. Values are read in their order.
//! 2. A stamp of zero was never stored: what it would tell stays unknown.
//! 3. Nothing here is done while no profile is taken, and the memory is made for the first.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rig_edge::{Fault, Grown, Part, Span, Times, Word, Work, times};

use crate::Amd;
use crate::gpu::Gpu;
use crate::kfd::Result;
use crate::memory::{Kind, is_short};
use crate::order::{Engine, Sink, Walk};
use crate::queue::Own;
use crate::raw::Raw;
use crate::ring::Ring;

/// The bytes of a stamp: the copy queue's must be on them.
pub(crate) const STAMP_BYTES: u64 = 32;
/// The bytes of the ring of stamps: 131,072, eight for each packet of the compute ring.
const STAMPS_BYTES: usize = 4 << 20;
/// How old the last anchor may be when a value is submitted: clocks of crystals drift apart by some ten microseconds a second
/// at worst, and what that changes in a tenth of one is less than an anchor's own error.
const ANCHOR_NS: u64 = 100_000_000;
/// How often the clocks are read for an anchor: the reading with the least time between both ends counts.
const READINGS: usize = 4;

/// How much is told of a value: as much as the rings hold the packets for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Nothing,
    /// When it ran as a whole.
    Value,
    /// When each part ran.
    Parts,
}

impl Detail {
    /// The next that takes less.
    pub fn less(self) -> Detail {
        if self == Detail::Parts { Detail::Value } else { Detail::Nothing }
    }

    /// What `room` decided, from a part's scratch.
    pub fn of(work: &Work<'_>) -> Detail {
        match (work.times, work.scratch.first()) {
            (None, _) => Detail::Nothing,
            (Some(_), None) => Detail::Value,
            (Some(_), Some(scratch)) => [Detail::Nothing, Detail::Value, Detail::Parts][scratch[1].min(2) as usize],
        }
    }

    /// Notes it for `submit`.
    pub fn note(self, work: &mut Work<'_>) {
        if let Some(scratch) = work.scratch.first_mut() {
            scratch[1] = self as u64;
        }
    }

    /// The most bytes of stamps that a value of so many parts takes.
    pub fn bytes(self, parts: usize) -> u64 {
        let spans = match self {
            Detail::Nothing => 0,
            Detail::Value => 1,
            Detail::Parts => parts.max(1) as u64,
        };
        2 * spans * STAMP_BYTES
    }
}

/// Between which two stamps of a value something ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Between {
    /// The part; none for the value as a whole.
    pub part: Option<usize>,
    pub engine: Engine,
    pub start: u32,
    pub end: u32,
}

/// The clocks of the GPU and the host at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    gpu: u64,
    host: u64,
    error_ns: u64,
}

/// A value whose stamps are not read yet.
struct Pending {
    value: u64,
    /// Where its stamps are in the ring, and where they end.
    at: usize,
    end: u64,
    spans: Vec<Between>,
    times: Arc<Times>,
}

/// The stamps of a device, and its clock.
pub(crate) struct Clock {
    gpu: Arc<Gpu>,
    word: &'static Word,
    state: Mutex<State>,
}

pub(crate) struct State {
    /// Until the device ends.
    memory: Option<Own>,
    ring: Ring,
    anchors: VecDeque<Anchor>,
    pending: VecDeque<Pending>,
}

/// The stamps of a value that is being placed.
pub(crate) struct Stamps<'a> {
    state: MutexGuard<'a, State>,
    at: usize,
    address: u64,
    count: u32,
    spans: Vec<Between>,
}

impl Clock {
    fn new(gpu: &Arc<Gpu>, word: &'static Word) -> Result<Clock> {
        let memory = Some(Own::new(gpu, Kind::Commands, STAMPS_BYTES)?);
        let ring = Ring::new(STAMPS_BYTES as u64, 0);
        let state = State { memory, ring, anchors: VecDeque::new(), pending: VecDeque::new() };
        Ok(Clock { gpu: Arc::clone(gpu), word, state: Mutex::new(state) })
    }

    /// The ring, to count what fits.
    pub fn ring(&self) -> Ring {
        self.state.lock().ring
    }

    /// Reads the stamps of what the word shows.
    pub fn see(&self) {
        self.state.lock().read(&self.gpu, self.word.load());
    }

    /// Begins the stamps of a value of which `detail` is to be told. `room` saw that they fit.
    pub fn begin(&self, detail: Detail, parts: usize) -> Option<Stamps<'_>> {
        let mut state = self.state.lock();
        let last = state.anchors.back().map_or(0, |anchor| anchor.host);
        if times::now().saturating_sub(last) > ANCHOR_NS || state.anchors.is_empty() {
            state.anchor(&self.gpu);
        }
        let len = detail.bytes(parts);
        let piece = state.ring.take(len);
        let at = state.ring.offset(piece.start);
        let memory = state.memory.as_ref()?;
        memory.raw().zero(at, len as usize);
        let address = memory.address() + at as u64;
        let spans = Vec::with_capacity(parts.max(1));
        Some(Stamps { state, at, address, count: 0, spans })
    }

    /// At the device's end: reads what the word shows, and gives the memory away, which the queues must have left before it is
    /// freed.
    pub fn close(&self) -> Option<Own> {
        let mut state = self.state.lock();
        state.read(&self.gpu, self.word.load());
        state.pending.clear();
        state.memory.take()
    }
}

impl Stamps<'_> {
    /// The next stamp: its number and its address.
    pub fn next(&mut self) -> (u32, u64) {
        let number = self.count;
        self.count += 1;
        (number, self.address + u64::from(number) * STAMP_BYTES)
    }

    /// Notes what ran between two stamps.
    pub fn between(&mut self, between: Between) {
        self.spans.push(between);
    }

    /// Ends them: they are read once the word shows `value`, and `times` gets to know.
    pub fn end(mut self, clock: &Arc<Clock>, value: u64, times: &Arc<Times>) {
        let end = self.state.ring.write();
        let pending = Pending { value, at: self.at, end, spans: self.spans, times: Arc::clone(times) };
        self.state.pending.push_back(pending);
        drop(self.state);
        let clock = Arc::clone(clock);
        times.settle_by(move |_| clock.see());
    }
}

impl State {
    /// Reads the clocks, some times over.
    fn anchor(&mut self, gpu: &Gpu) {
        let read = |_| {
            let before = times::now();
            let clock = gpu.kfd().clock(gpu.id()).ok()?;
            let error_ns = (times::now() - before).div_ceil(2);
            Some(Anchor { gpu: clock, host: before + error_ns, error_ns })
        };
        // What the kernel does not tell, since the GPU is lost, stays unknown.
        let best = (0..READINGS).filter_map(read).min_by_key(|anchor| anchor.error_ns);
        let last = self.anchors.back().copied();
        if let Some(anchor) = best.filter(|anchor| last.is_none_or(|last| anchor.gpu > last.gpu)) {
            self.anchors.push_back(anchor);
        }
    }

    /// Reads the stamps of values up to `shown`.
    fn read(&mut self, gpu: &Gpu, shown: u64) {
        let Some(memory) = self.memory.as_ref().map(Own::raw) else { return };
        if self.pending.front().is_none_or(|pending| pending.value > shown) {
            return;
        }
        // Behind every stamp that is read.
        self.anchor(gpu);
        while let Some(pending) = self.pending.pop_front_if(|pending| pending.value <= shown) {
            self.tell(&pending, memory);
            self.ring.free_to(pending.end);
        }
        if self.pending.is_empty() {
            // What is submitted later is stamped later.
            self.anchors.drain(..self.anchors.len().saturating_sub(1));
        }
    }

    /// Tells of one value.
    fn tell(&self, pending: &Pending, memory: Raw) {
        for between in &pending.spans {
            let [start, end] = [between.start, between.end]
                .map(|number| self.host(memory.load_long(pending.at + number as usize * STAMP_BYTES as usize)));
            let (Some((start, error)), Some((end, end_error))) = (start, end) else { continue };
            let span = Span { start, end: end.max(start) };
            match between.part {
                Some(part) => pending.times.note_part(part, between.engine.row(), span),
                None => pending.times.note(span),
            }
            pending.times.note_error(error.max(end_error));
        }
    }

    /// A stamp on the host's clock, with its error, in nanoseconds: on the line between the anchors around it.
    fn host(&self, stamp: u64) -> Option<(u64, u64)> {
        if stamp == 0 {
            return None;
        }
        let after = self.anchors.partition_point(|anchor| anchor.gpu < stamp).clamp(1, self.anchors.len().max(2) - 1);
        let (a, b) = (self.anchors.get(after - 1)?, self.anchors.get(after)?);
        let (ticks, ns) = (i128::from(b.gpu - a.gpu), i128::from(b.host.saturating_sub(a.host)));
        let past = (i128::from(stamp) - i128::from(a.gpu)) * ns / ticks;
        let tick = u64::try_from(ns / ticks).unwrap_or(0) + 1;
        let host = u64::try_from(i128::from(a.host) + past).ok()?;
        Some((host, a.error_ns.max(b.error_ns) + tick))
    }
}

impl<S: Sink> Walk<'_, S> {
    /// Places the parts with stamps around them, or around all of them.
    #[cold]
    pub(crate) fn timed(
        &mut self,
        parts: &[Part<Amd>],
        work: &Work<'_>,
        decided: impl Fn(usize) -> Engine,
        detail: Detail,
    ) -> std::result::Result<(), String> {
        let each = detail == Detail::Parts && !parts.is_empty();
        let first = if parts.is_empty() { Engine::Compute } else { decided(0) };
        let mut last = (first, self.stamp(first));
        let begin = last.1;
        for (index, part) in parts.iter().enumerate() {
            let engine = decided(index);
            if each && last.0 != engine {
                last = (engine, self.stamp(engine));
            }
            self.part(index, part, work, engine)?;
            if each {
                let (_, start) = std::mem::replace(&mut last, (engine, self.stamp(engine)));
                self.sink.between(Between { part: Some(index), engine, start, end: last.1 });
            }
        }
        if !each {
            let engine = parts.len().checked_sub(1).map_or(first, decided);
            let end = self.stamp(engine);
            self.sink.between(Between { part: None, engine, start: begin, end });
        }
        Ok(())
    }

    /// Places a stamp of `engine`, behind all work before it.
    fn stamp(&mut self, engine: Engine) -> u32 {
        self.enter(engine);
        // Whatever comes next on the other queue waits for the stamp too, so that the word stands behind all of them.
        self.line.sign = None;
        self.sink.stamp(engine)
    }
}

impl Amd {
    /// Makes the stamps' memory, for the first profile.
    pub(crate) fn grow_stamps(&self) -> std::result::Result<Grown, Fault> {
        let _one = self.growing.lock();
        if self.clock.get().is_none() {
            match Clock::new(&self.gpu, self.word) {
                Ok(clock) => drop(self.clock.set(Arc::new(clock))),
                Err(failure) if is_short(&failure) => return Ok(Grown::Short(STAMPS_BYTES as u64)),
                Err(failure) => return Err(self.gpu.fault(&failure)),
            }
        }
        Ok(Grown::Grown)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("word", &self.word.load()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(anchors: &[(u64, u64, u64)]) -> State {
        let anchors = anchors.iter().map(|&(gpu, host, error_ns)| Anchor { gpu, host, error_ns }).collect();
        State { memory: None, ring: Ring::new(64, 0), anchors, pending: VecDeque::new() }
    }

    /// Promise C22.
    #[test]
    fn a_stamp_lies_on_the_line_between_the_anchors_around_it() {
        // A clock of 100 MHz which slows down to 50: 10 ns a tick, then 20.
        let state = state(&[(1000, 50_000, 300), (2000, 60_000, 100), (3000, 80_000, 200)]);
        assert_eq!(state.host(1500), Some((55_000, 300 + 11)));
        assert_eq!(state.host(2000), Some((60_000, 300 + 11)));
        assert_eq!(state.host(2500), Some((70_000, 200 + 21)));
        assert_eq!(state.host(3000), Some((80_000, 200 + 21)));
        // Beyond both ends on the nearest line: a stamp in the midst of an anchor's readings.
        assert_eq!((state.host(999), state.host(3001)), (Some((49_990, 311)), Some((80_020, 221))));
        assert_eq!(state.host(0), None, "never stored");
    }

    #[test]
    fn without_two_anchors_nothing_is_told() {
        assert_eq!((state(&[]).host(5), state(&[(1, 1, 1)]).host(5)), (None, None));
    }
}
