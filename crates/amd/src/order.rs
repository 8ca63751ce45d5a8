//! The order of a device's work over its two queues: what is placed where, so that every part starts after the one before it,
//! and every value after the value before.
//!
//! All parts of all values stand in one line. Consecutive parts on the compute queue are ordered by the barrier bit of their
//! packets. Everywhere else the next part's queue waits for a word that the part before it stores when it is done: the
//! device's own word where a value ended there, and else a mark of the queue that it ran on. The copy queue waits for its own
//! fences too, between two parts: its engine may start a copy before an earlier one has landed.
//!
//! # Why the copy queue may compare for equality
//!
//! Its wait reads 32 bits. A mark, and the device's word, hold the awaited value from its store until the next store, which
//! only work behind the wait makes. So equality of the low half holds exactly from the store on, across every wrap.
//!
//! # Why a value whose low half is zero ends on the compute queue
//!
//! The copy queue's fence stores 32 bits. A value that changes the word's high half would need two of them, between which the
//! word would have fallen; the compute queue stores 64 bits at once. Every other value leaves the high half as it is.
//!
//! The same walk counts the space for `room` and places the work for `submit`: they cannot differ.

use rig_edge::{Block, Copy, Fill, Launch, Part, Ref, Slot, Wait, Word, Work};

use crate::Amd;
use crate::aql::Scope;
use crate::code::Entry;
use crate::pm4::{self, Store, Until};
use crate::sdma::{self, Caches};
use crate::system::Event;
use crate::times::{Between, Detail};

/// From this length on a copy within the GPU's memory runs as a kernel: the copy engines move some ten gigabytes a second,
/// the shaders some hundreds, and a change of queues costs some microseconds.
pub(crate) const LARGE_COPY: u64 = 1 << 20;
/// The bytes that a thread of the kernel for copies moves at a time: both ends of a large copy must be on them.
const COPY_ALIGN: u64 = 16;
/// Threads of a group of the kernel for copies, and the most groups: enough to fill a GPU of 96 units some times over.
const COPY_THREADS: u32 = 256;
const COPY_GROUPS_MOST: u64 = 4096;
/// The bytes of the kernel's parameters.
pub(crate) const COPY_PARAMS: usize = 32;

/// The mark of the copy queue that a device's opening uses.
pub(crate) const FIRST_MARK: u64 = 1;

/// One of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Compute,
    Copier,
}

impl Engine {
    /// Its place among the queues of the facts.
    pub fn row(self) -> u32 {
        self as u32
    }
}

/// What a queue stores once its work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The device's word, with this value.
    Word(u64),
    /// The queue's mark, with this number.
    Mark(u64),
}

/// Where the line of work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The queue of the last work.
    pub engine: Engine,
    /// What it stores when it is done, if that is placed.
    pub sign: Option<Sign>,
    /// Whether the queue has waited for its last work.
    pub waited: bool,
    /// The last mark.
    mark: u64,
    /// Whether the next work must read afresh what others wrote.
    pub afresh: bool,
    /// The size of a wave's piece of the scratch that the compute queue has, in the chip's units.
    scratch: u32,
}

impl Line {
    /// The line of a device whose word stands at `start`.
    pub fn new(start: u64) -> Line {
        let sign = Some(Sign::Word(start));
        Line { engine: Engine::Compute, sign, waited: false, mark: FIRST_MARK, afresh: true, scratch: 0 }
    }
}

/// Addresses and numbers that placed work names.
#[derive(Debug)]
pub(crate) struct Places {
    /// The table of words.
    pub words: u64,
    /// The device's word.
    pub word: u64,
    /// The mark of the compute queue, and that of the copy queue.
    pub marks: [u64; 2],
    /// Four bytes of each value of a byte, one after the other.
    pub pattern: u64,
    /// The event that each queue sets at the end of a value. Each has its own, so that the host's answer to the one queue's
    /// interrupt clears nothing of the other's.
    pub events: [Event; 2],
    /// The GPU's own memory.
    pub range: (u64, u64),
    /// The kernel for copies.
    pub copy: Entry,
}

impl Places {
    /// Whether an address lies in the GPU's own memory.
    #[inline]
    fn owns(&self, at: u64) -> bool {
        at >= self.range.0 && at < self.range.1
    }

    /// Which queue runs a copy.
    #[inline]
    pub fn engine_of(&self, copy: &Copy, slots: &[Slot]) -> Engine {
        let (from, to) = (&slots[copy.from as usize], &slots[copy.to as usize]);
        self.engine_for(from.device, to.device, from.len)
    }

    /// Which queue runs a copy of `len` bytes.
    #[inline]
    fn engine_for(&self, from: u64, to: u64, len: u64) -> Engine {
        let aligned = (from | to).is_multiple_of(COPY_ALIGN);
        let large = len >= LARGE_COPY && self.owns(from) && self.owns(to) && aligned;
        if large { Engine::Compute } else { Engine::Copier }
    }
}

/// A launch, ready to be placed.
pub(crate) struct Placed<'a> {
    pub entry: &'a Entry,
    pub block: &'a Block,
    pub params: &'a [u8],
    pub refs: &'a [Ref],
    pub slots: &'a [Slot],
    pub acquire: Scope,
}

/// Where a walk puts work: into the rings, or into their counts.
pub(crate) trait Sink {
    /// PM4 commands on the compute queue, in one packet.
    fn commands(&mut self, words: &[u32]);
    /// A launch on the compute queue.
    fn launch(&mut self, launch: &Placed<'_>);
    /// A packet of the copy queue.
    fn copier(&mut self, words: &[u32]);
    /// Whether the instruction caches may be stale; they are not after this.
    fn is_stale(&mut self) -> bool;
    /// A command that gives the compute queue the newest scratch: the size of a wave's piece.
    fn scratch(&mut self) -> u32;
    /// A stamp of the GPU's clock on a queue: its number in the value.
    fn stamp(&mut self, engine: Engine) -> u32;
    /// Notes what ran between two stamps.
    fn between(&mut self, between: Between);
    /// A fill; the error is its own.
    fn fill(walk: &mut Walk<'_, Self>, fill: &Fill<Amd>, work: &Work<'_>) -> Result<(), String>
    where
        Self: Sized;
}

/// One walk over the work of a value.
pub(crate) struct Walk<'a, S> {
    pub line: Line,
    pub places: &'a Places,
    pub sink: S,
}

impl<S: Sink> Walk<'_, S> {
    /// The next work goes to `engine`: it starts after all before it.
    #[inline]
    pub(crate) fn enter(&mut self, engine: Engine) {
        let stays = self.line.engine == engine;
        if stays && (engine == Engine::Compute || self.line.waited) {
            return;
        }
        let sign = match self.line.sign {
            Some(sign) => sign,
            None => self.mark(),
        };
        self.wait(engine, sign);
        self.line.engine = engine;
        self.line.waited = true;
        self.line.afresh |= !stays;
    }

    /// Places the store of a mark behind the last work.
    fn mark(&mut self) -> Sign {
        self.line.mark += 1;
        let mark = self.line.mark;
        match self.line.engine {
            Engine::Compute => self.sink.commands(&pm4::release(self.places.marks[0], Store::Word(mark))),
            Engine::Copier => {
                self.sink.copier(&sdma::caches(Caches::WriteBack));
                self.sink.copier(&sdma::fence(self.places.marks[1], mark as u32));
            }
        }
        Sign::Mark(mark)
    }

    /// Places a wait for what the last work's queue stores.
    fn wait(&mut self, engine: Engine, sign: Sign) {
        let own = &self.places.marks;
        let (address, value) = match sign {
            Sign::Word(value) => (self.places.word, value),
            Sign::Mark(mark) => (own[usize::from(self.line.engine == Engine::Copier)], mark),
        };
        match (engine, sign) {
            (Engine::Copier, _) => self.sink.copier(&sdma::poll(address, value as u32)),
            (Engine::Compute, Sign::Word(_)) => self.sink.commands(&pm4::wait(address, Until::AtLeast(value))),
            // The copy queue's marks have 32 bits.
            (Engine::Compute, Sign::Mark(_)) => self.sink.commands(&pm4::wait(address, Until::Low(value as u32))),
        }
    }

    /// Notes that work was placed on the queue that was entered.
    #[inline]
    pub(crate) fn placed(&mut self) {
        self.line.sign = None;
        self.line.waited = false;
    }

    /// Places the work of the value `value`. `decided` says which queue runs each part, and `detail` what is timed. The error
    /// is a fill's.
    #[inline]
    pub fn value(
        &mut self,
        value: u64,
        parts: &[Part<Amd>],
        work: &Work<'_>,
        decided: impl Fn(usize) -> Engine,
        detail: Detail,
    ) -> Result<(), String> {
        self.line.afresh = true;
        self.waits(work.waits);
        if detail == Detail::Nothing {
            for (index, part) in parts.iter().enumerate() {
                self.part(index, part, work, decided(index))?;
            }
        } else {
            self.timed(parts, work, decided, detail)?;
        }
        self.end(value);
        Ok(())
    }

    /// Places waits for other devices' words: on the compute queue, and through it on the copy queue.
    #[inline]
    fn waits(&mut self, waits: &[Wait]) {
        if waits.is_empty() {
            return;
        }
        self.enter(Engine::Compute);
        for wait in waits {
            let word = self.places.words + (wait.word.get() * size_of::<Word>()) as u64;
            self.sink.commands(&pm4::wait(word, Until::AtLeast(wait.value)));
        }
        self.placed();
        self.line.afresh = true;
    }

    #[inline]
    pub(crate) fn part(
        &mut self,
        index: usize,
        part: &Part<Amd>,
        work: &Work<'_>,
        engine: Engine,
    ) -> Result<(), String> {
        match part {
            Part::Launch(launch) => self.launch(launch, &work.blocks[index], work),
            Part::Copy(copy) => {
                let (from, to) = (&work.slots[copy.from as usize], &work.slots[copy.to as usize]);
                let len = from.len.min(to.len);
                match engine {
                    Engine::Compute => self.large_copy(from.device, to.device, len),
                    Engine::Copier => self.copy(from.device, to.device, len),
                }
            }
            Part::Memset(memset) => {
                let slot = &work.slots[memset.slot as usize];
                self.set_bytes(slot.device, memset.byte, slot.len);
            }
            Part::Fill(fill) => S::fill(self, fill, work).map_err(|why| format!("part {index}: {why}"))?,
        }
        Ok(())
    }

    #[inline]
    fn launch(&mut self, launch: &Launch<Entry>, block: &Block, work: &Work<'_>) {
        let params = work.params_of(block);
        self.dispatch(&launch.entry, block, params, &launch.refs, work.slots);
    }

    #[inline]
    pub(crate) fn dispatch(&mut self, entry: &Entry, block: &Block, params: &[u8], refs: &[Ref], slots: &[Slot]) {
        self.enter(Engine::Compute);
        if self.sink.is_stale() {
            self.sink.commands(&pm4::invalidate_code());
        }
        if entry.scratch > self.line.scratch {
            self.line.scratch = self.sink.scratch();
        }
        let acquire = if self.line.afresh { Scope::System } else { Scope::Agent };
        self.sink.launch(&Placed { entry, block, params, refs, slots, acquire });
        self.line.afresh = false;
        self.placed();
    }

    /// A copy, on the queue that it is for.
    pub(crate) fn copy_bytes(&mut self, from: u64, to: u64, len: u64) {
        match self.places.engine_for(from, to, len) {
            Engine::Compute => self.large_copy(from, to, len),
            Engine::Copier => self.copy(from, to, len),
        }
    }

    /// A copy as a launch of the driver's kernel.
    fn large_copy(&mut self, from: u64, to: u64, len: u64) {
        let pieces = len / COPY_ALIGN;
        let groups = pieces.div_ceil(COPY_THREADS.into()).clamp(1, COPY_GROUPS_MOST) as u32;
        let mut params = [0; COPY_PARAMS];
        let fields = [from, to, pieces, u64::from(groups * COPY_THREADS) | (len % COPY_ALIGN) << 32];
        for (field, place) in fields.iter().zip(params.chunks_exact_mut(8)) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let block = Block {
            groups: [groups, 1, 1],
            threads: [COPY_THREADS, 1, 1],
            group_bytes: 0,
            params_at: 0,
            params_len: COPY_PARAMS as u32,
        };
        let places = self.places;
        self.dispatch(&places.copy, &block, &params, &[], &[]);
    }

    /// Makes the copy queue ready for work on memory.
    pub(crate) fn enter_copier(&mut self) {
        self.enter(Engine::Copier);
        if self.line.afresh {
            self.sink.copier(&sdma::caches(Caches::Invalidate));
            self.line.afresh = false;
        }
    }

    fn copy(&mut self, mut from: u64, mut to: u64, mut len: u64) {
        if len == 0 {
            return;
        }
        self.enter_copier();
        while len > 0 {
            let piece = len.min(sdma::COPY_BYTES_MOST);
            self.sink.copier(&sdma::copy(from, to, piece));
            (from, to, len) = (from + piece, to + piece, len - piece);
        }
        self.placed();
    }

    /// A memset: whole words by fills, and the bytes before and after them by copies from the pattern.
    pub(crate) fn set_bytes(&mut self, mut at: u64, byte: u8, mut len: u64) {
        if len == 0 {
            return;
        }
        self.enter_copier();
        let pattern = self.places.pattern + 4 * u64::from(byte);
        let before = (at.wrapping_neg() & 3).min(len);
        if before > 0 {
            self.sink.copier(&sdma::copy(pattern, at, before));
            (at, len) = (at + before, len - before);
        }
        let word = u32::from_ne_bytes([byte; 4]);
        while len >= 4 {
            let piece = (len & !3).min(sdma::FILL_BYTES_MOST);
            self.sink.copier(&sdma::fill(at, word, piece));
            (at, len) = (at + piece, len - piece);
        }
        if len > 0 {
            self.sink.copier(&sdma::copy(pattern, at, len));
        }
        self.placed();
    }

    /// Ends the value: the last queue stores it in the word, and then interrupts the host.
    #[inline]
    fn end(&mut self, value: u64) {
        if value as u32 == 0 {
            self.enter(Engine::Compute);
        }
        let Places { word, events: [computed, copied], .. } = *self.places;
        match self.line.engine {
            Engine::Compute => {
                let mut words = [0; 2 * pm4::RELEASE_WORDS];
                words[..pm4::RELEASE_WORDS].copy_from_slice(&pm4::release(word, Store::Word(value)));
                words[pm4::RELEASE_WORDS..].copy_from_slice(&pm4::release(computed.slot, Store::Event(computed.id)));
                self.sink.commands(&words);
            }
            Engine::Copier => {
                self.sink.copier(&sdma::caches(Caches::WriteBack));
                self.sink.copier(&sdma::fence(word, value as u32));
                self.sink.copier(&sdma::fence(copied.slot, copied.id));
                self.sink.copier(&sdma::trap(copied.id));
            }
        }
        self.line.sign = Some(Sign::Word(value));
        self.line.waited = false;
    }
}
