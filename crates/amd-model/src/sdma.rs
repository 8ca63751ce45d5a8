//! The processor of SDMA packets: a copy engine, version 6 as in gfx1100.
//!
//! Packets begin in order. Copies, fills and writes that are not parted by a fence (or another packet that waits for them)
//! move their bytes at the same time, in any order, as the engine's pipeline may. What a copy or a fill writes to memory that
//! caches may hold stays with the engine until a GCR packet writes it back, and what it read stays until one invalidates.
//! A timestamp is taken while what is before it may still move. Fences, atomics, polls and timestamps go beside every cache.
//!
//! Formats: Linux' sdma_v6_0 packets and ROCr's sdma_registers.h.

use crate::caches::{self, Cache, Found, pieces};
use crate::memory::Miss;
use crate::pm4::holds;
use crate::queue::{Processor, Queue};
use crate::scheduler::{Blocked, Readiness, Stop};
use crate::state::Core;
use crate::trace::Traced;
use crate::violation::{PacketFault, PublicationFault, Violation, Want};
use crate::words::{aligned, zero};

/// What the processor leaves in the ring behind it.
const POISON: u32 = 0xdbdb_dbdb;

/// Bytes of a copy or fill that one step moves, at most.
const CHUNK: usize = 16 * 1024;

/// Copies, fills and writes that move at once.
const MOVES_MAX: usize = 4;

/// Words of the longest packet but WRITE.
const LONGEST: usize = 8;

const NOP: u32 = 0;
const COPY: u32 = 1;
const WRITE: u32 = 2;
const FENCE: u32 = 5;
const TRAP: u32 = 6;
const POLL: u32 = 8;
const ATOMIC: u32 = 10;
const FILL: u32 = 11;
const TIMESTAMP: u32 = 13;
const GCR: u32 = 17;

/// The operations of an atomic that the model has: add, 32 and 64 bits wide.
const ADD32: u32 = 15;
const ADD64: u32 = 47;

/// The processor of one queue.
#[derive(Debug, Default)]
pub(crate) struct SdmaState {
    /// The packet at the head, once it was checked.
    words: Vec<u32>,
    /// Copies, fills and writes that have begun.
    pub(crate) moves: Vec<Move>,
    /// A fence lowered a word: the next packet must raise the half above it, past this.
    carry: Option<(u64, u64)>,
    pub(crate) cache: Cache,
}

/// Bytes that are being moved.
#[derive(Debug)]
pub(crate) struct Move {
    /// The packet's byte.
    index: u64,
    source: Source,
    to: u64,
    bytes: u64,
    moved: u64,
}

#[derive(Debug)]
enum Source {
    Memory(u64),
    Word([u8; 4]),
    Data(Vec<u8>),
}

impl SdmaState {
    /// What a packet that has begun needs of a range: its byte, and what it uses it as.
    pub(crate) fn needs(&self, va: u64, size: u64) -> Option<(u64, &'static str)> {
        let hit = |begin: u64, len: u64| begin < va + size && va < begin + len;
        let of = |moving: &&Move| {
            let source = matches!(moving.source, Source::Memory(from) if hit(from, moving.bytes));
            source || hit(moving.to, moving.bytes)
        };
        self.moves.iter().find(of).map(|moving| (moving.index, "a copy's memory"))
    }
}

fn op(words: &[u32]) -> u32 {
    words[0] & 0xff
}

fn wide(words: &[u32], at: usize) -> u64 {
    u64::from(words[at]) | u64::from(words[at + 1]) << 32
}

fn field(field: &'static str, value: u64, wants: &'static str) -> Stop {
    PacketFault::Field { field, value, wants }.into()
}

/// The words of a packet, by its first; none of one that is not known. A WRITE says more in its fourth.
fn length(first: u32) -> Option<usize> {
    let sub = first >> 8 & 0xff;
    match (first & 0xff, sub) {
        (NOP, 0) => Some(1 + (first >> 16 & 0x3fff) as usize),
        (COPY, 0) => Some(7),
        (WRITE, 0) => Some(4),
        (FENCE, 0) => Some(4),
        (TRAP, 0) => Some(2),
        (POLL, 0) => Some(6),
        (ATOMIC, 0) => Some(8),
        (FILL, 0) => Some(5),
        (TIMESTAMP, 2) => Some(3),
        (GCR, 1) => Some(5),
        _ => None,
    }
}

/// A flush of the host's writes through the window, in the packet that polls a register.
fn flushes_window(words: &[u32]) -> bool {
    words[0] == 8 | 1 << 26 || words[0] == 8 && words[1] == 0 && words[2] == 1 << 31
}

impl Core {
    pub(crate) fn sdma_readiness(&self, queue: &Queue, sdma: &SdmaState) -> Readiness {
        if queue.read >= queue.rung {
            return Readiness::Not;
        }
        match sdma.words.first().map(|first| first & 0xff) {
            // A stamp of the clock waits for nothing: what is moved before it may still be under way.
            None | Some(NOP | TIMESTAMP) => return Readiness::Ready,
            Some(COPY | FILL | WRITE) if sdma.moves.len() < MOVES_MAX => return Readiness::Ready,
            Some(POLL) if !flushes_window(&sdma.words) => {}
            Some(_) => return if sdma.moves.is_empty() { Readiness::Ready } else { Readiness::Not },
        }
        let (va, wants, mask) = (wide(&sdma.words, 1), sdma.words[3], sdma.words[4]);
        match self.word32(queue.gpu, va) {
            Ok(word) if !holds(sdma.words[0] >> 28 & 7, u64::from(word & mask), u64::from(wants)) => {
                Readiness::Blocked(Blocked { va, holds: u64::from(word), wants: u64::from(wants) })
            }
            _ => Readiness::Ready,
        }
    }

    /// Moves the head of the ring.
    pub(crate) fn sdma_head(&mut self, queue: &mut Queue) -> Result<(), Stop> {
        let Processor::Sdma(sdma) = &mut queue.processor else { return Ok(()) };
        queue.at = queue.read;
        if sdma.words.is_empty() {
            let words = self.sdma_take(queue)?;
            self.sdma_check(queue, &words)?;
            queue.delay = self.draw_delay();
            let Processor::Sdma(sdma) = &mut queue.processor else { return Ok(()) };
            sdma.words = words;
            return Ok(());
        }
        let words = std::mem::take(&mut sdma.words);
        let carry = sdma.carry.take();
        self.sdma_run(queue, &words, carry)?;
        let Processor::Sdma(sdma) = &mut queue.processor else { return Ok(()) };
        if let Some((word, from)) = carry.filter(|_| sdma.carry.is_none()) {
            self.carried(queue, word, from)?;
        }
        self.sdma_retire(queue, &words)
    }

    /// A fence lowered a word, which the packet behind it has to have raised past what it was.
    fn carried(&mut self, queue: &Queue, va: u64, from: u64) -> Result<(), Stop> {
        let to = self.word64(queue.gpu, va)?;
        if to < from {
            self.violate(Violation::Fell { queue: queue.id, va, from, to });
        }
        Ok(())
    }

    /// The packet at the head: all of it must be published, and in one piece.
    fn sdma_take(&self, queue: &Queue) -> Result<Vec<u32>, Stop> {
        let left = (queue.rung - queue.read) / 4;
        let word = |at: u64| self.word32(queue.gpu, queue.slot_va(queue.read + at * 4));
        let first = word(0)?;
        let second = if left > 1 { word(1)? } else { 0 };
        if first == POISON {
            return Err(Stop::Publication(PublicationFault::Stale));
        }
        let mut len = length(first).ok_or(PacketFault::Unknown { words: [first, second] })? as u64;
        if first & 0xff == WRITE && left >= 4 {
            len += u64::from(word(3)? & 0xf_ffff) + 1;
        }
        let (bytes, end) = (len * 4, queue.size - queue.read % queue.size);
        if len > left {
            return Err(PacketFault::Truncated { bytes, left: left * 4 }.into());
        }
        if bytes > end && first & 0xff != NOP {
            return Err(PacketFault::Straddles { bytes, left: end }.into());
        }
        let words = (0..len).map(word).collect::<Result<Vec<_>, _>>()?;
        // What the processor left is no word of a packet that was written whole; only data may look like it.
        if words.iter().take(LONGEST).skip(1).any(|&word| word == POISON) && !matches!(first & 0xff, NOP | WRITE | FILL)
        {
            return Err(Stop::Publication(PublicationFault::Stale));
        }
        Ok(words)
    }

    fn sdma_check(&self, queue: &Queue, words: &[u32]) -> Result<(), Stop> {
        let first = words[0];
        let reserved = |mask: u32| zero("the first word", u64::from(first & mask));
        match first & 0xff {
            COPY => {
                reserved(0xffff_0000)?;
                zero("COPY count, bits 30 and 31", u64::from(words[1] >> 30))?;
                zero("COPY parameters", u64::from(words[2]))?;
                let (bytes, from, to) = (u64::from(words[1]) + 1, wide(words, 3), wide(words, 5));
                self.space.covers(queue.gpu, from, bytes, Want::Read)?;
                self.space.covers(queue.gpu, to, bytes, Want::Write)?;
                if from < to + bytes && to < from + bytes {
                    return Err(field("COPY destination", to, "apart from the source"));
                }
            }
            FILL => {
                reserved(0x3fff_0000)?;
                if first >> 30 != 2 {
                    return Err(field("FILL fillsize", u64::from(first >> 30), "2: words"));
                }
                aligned("FILL destination", wide(words, 1), 4)?;
                zero("FILL count, bits 22 to 31", u64::from(words[4] >> 22))?;
                aligned("FILL count", u64::from(words[4]), 4)?;
                self.space.covers(queue.gpu, wide(words, 1), u64::from(words[4]) + 4, Want::Write)?;
            }
            WRITE => {
                reserved(0xffff_0000)?;
                zero("WRITE count, bits 20 to 31", u64::from(words[3] >> 20))?;
                aligned("WRITE destination", wide(words, 1), 4)?;
                self.space.covers(queue.gpu, wide(words, 1), words.len() as u64 * 4 - 16, Want::Write)?;
            }
            FENCE => {
                if first != 5 | 3 << 16 {
                    return Err(field("FENCE's first word", u64::from(first), "0x30005: uncached"));
                }
                aligned("FENCE address", wide(words, 1), 4)?;
            }
            TRAP => {
                reserved(0xffff_0000)?;
                zero("TRAP context, bits 28 to 31", u64::from(words[1] >> 28))?;
            }
            POLL if !flushes_window(words) => {
                reserved(0x0fff_0000)?;
                self.sdma_check_poll(queue, words)?;
            }
            ATOMIC => {
                reserved(0x01ff_0000)?;
                if !matches!(first >> 25, ADD32 | ADD64) {
                    return Err(field("ATOMIC operation", u64::from(first >> 25), "15 or 47: an addition"));
                }
                zero("ATOMIC loop interval, bits 13 to 31", u64::from(words[7] >> 13))?;
            }
            TIMESTAMP => {
                reserved(0xffff_0000)?;
                aligned("TIMESTAMP address", wide(words, 1), 32)?;
            }
            GCR => {
                reserved(0xffff_0000)?;
                zero("GCR word 1, bits 0 to 6", u64::from(words[1] & 0x7f))?;
                zero("GCR word 3, bits 3 to 6", u64::from(words[3] & 0x78))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn sdma_check_poll(&self, queue: &Queue, words: &[u32]) -> Result<(), Stop> {
        let first = words[0];
        if first >> 31 == 0 || first >> 28 & 7 == 7 {
            return Err(field("POLL's first word", u64::from(first), "a function, and the bit 31: memory"));
        }
        aligned("POLL address", wide(words, 1), 4)?;
        if words[5] >> 16 != 0xfff {
            return Err(field("POLL retries", u64::from(words[5] >> 16), "0xfff: for ever"));
        }
        self.word32(queue.gpu, wide(words, 1))?;
        Ok(())
    }

    /// Does what the packet says, or begins it.
    fn sdma_run(&mut self, queue: &mut Queue, words: &[u32], carry: Option<(u64, u64)>) -> Result<(), Stop> {
        let ids = (queue.gpu, queue.id);
        match op(words) {
            COPY => begin(queue, Source::Memory(wide(words, 3)), wide(words, 5), u64::from(words[1]) + 1),
            FILL => begin(queue, Source::Word(words[3].to_le_bytes()), wide(words, 1), u64::from(words[4]) + 4),
            WRITE => {
                let data: Vec<u8> = words[4..].iter().flat_map(|word| word.to_le_bytes()).collect();
                let bytes = data.len() as u64;
                begin(queue, Source::Data(data), wide(words, 1), bytes);
            }
            FENCE => self.sdma_fence(queue, wide(words, 1), words[3], carry)?,
            TRAP => self.interrupt(words[1])?,
            POLL if flushes_window(words) => {}
            POLL => self.traced(Traced::Waited { queue: queue.id, va: wide(words, 1) }),
            ATOMIC if words[0] >> 25 == ADD64 => {
                self.sdma_unreleased(queue, wide(words, 1));
                self.add64(ids, wide(words, 1), wide(words, 3))?;
            }
            ATOMIC => {
                self.sdma_unreleased(queue, wide(words, 1));
                aligned("address", wide(words, 1), 4)?;
                let old = self.word32(queue.gpu, wide(words, 1))?;
                self.raise32(ids, wide(words, 1), old.wrapping_add(words[3]))?;
            }
            TIMESTAMP => {
                let clock = self.clock();
                self.put64(queue.gpu, wide(words, 1), clock)?;
                self.traced(Traced::Stamped { queue: queue.id, va: wide(words, 1) });
            }
            GCR => {
                let Processor::Sdma(sdma) = &mut queue.processor else { return Ok(()) };
                if words[2] & 1 << 31 != 0 {
                    sdma.cache.write_back(&self.space, queue.gpu);
                }
                if words[2] & 1 << 30 != 0 {
                    sdma.cache.drop_clean();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Moves a stretch of the bytes of a packet that has begun.
    pub(crate) fn sdma_move(&mut self, queue: &mut Queue, place: usize) -> Result<(), Stop> {
        let Processor::Sdma(sdma) = &mut queue.processor else { return Ok(()) };
        let mut moving = sdma.moves.swap_remove(place);
        queue.at = moving.index;
        if let Some(left) = &mut self.faults.access {
            if *left == 0 {
                self.faults.access = None;
                return Err(Stop::Tripped(moving.to, Want::Write));
            }
            *left -= 1;
        }
        let (at, some) = (moving.moved, CHUNK / 4 * (1 + self.rng.below(4)));
        let mut block = vec![0; (moving.bytes - at).min(some as u64) as usize];
        match &moving.source {
            Source::Memory(from) => self.sdma_load(queue, from + at, &mut block)?,
            Source::Word(word) => {
                block.iter_mut().enumerate().for_each(|(i, byte)| *byte = word[(at as usize + i) % 4]);
            }
            Source::Data(data) => {
                let len = block.len();
                block.copy_from_slice(&data[at as usize..at as usize + len]);
            }
        }
        self.sdma_store(queue, moving.to + at, &block)?;
        moving.moved += block.len() as u64;
        if moving.moved == moving.bytes {
            self.traced(Traced::Moved { queue: queue.id, index: moving.index, bytes: moving.bytes });
            return Ok(());
        }
        let Processor::Sdma(sdma) = &mut queue.processor else { return Ok(()) };
        sdma.moves.push(moving);
        Ok(())
    }

    fn sdma_load(&mut self, queue: &mut Queue, va: u64, block: &mut [u8]) -> Result<(), Stop> {
        if !self.options.caches {
            return Ok(self.bytes(queue.gpu, va, block)?);
        }
        let Processor::Sdma(sdma) = &mut queue.processor else { return Ok(()) };
        let mut wrong = None;
        for piece in pieces(va, block.len()) {
            let part = &mut block[piece.from..piece.from + piece.len];
            let times = (Want::Read, self.now, u64::MAX - 1);
            match caches::read_through(&mut sdma.cache, (&self.space, queue.gpu), piece, part, times)? {
                Found::Fresh => {}
                found => wrong = wrong.or(Some((found, piece.line + piece.at as u64))),
            }
        }
        let (queue, cache) = (queue.id, "the copy engine's");
        match wrong {
            Some((Found::Unflushed, va)) => self.violate(Violation::Unflushed { queue, va }),
            Some((_, va)) => self.violate(Violation::StaleRead { queue, va, cache }),
            None => {}
        }
        Ok(())
    }

    fn sdma_store(&mut self, queue: &mut Queue, va: u64, block: &[u8]) -> Result<(), Miss> {
        let Processor::Sdma(sdma) = &mut queue.processor else { return Ok(()) };
        for piece in pieces(va, block.len()) {
            let found = self.space.reach(queue.gpu, piece.line + piece.at as u64, Want::Write)?;
            let part = &block[piece.from..piece.from + piece.len];
            if found.cached && self.options.caches {
                sdma.cache.put(piece, part, queue.id);
            } else {
                found.write(part);
            }
        }
        Ok(())
    }

    /// A word must not say that work is done whose bytes are still with the engine.
    fn sdma_unreleased(&mut self, queue: &Queue, word: u64) {
        let Processor::Sdma(sdma) = &queue.processor else { return };
        if let Some(va) = sdma.cache.first_dirty(None) {
            let cache = "the copy engine's";
            self.violate(Violation::Unreleased { queue: queue.id, word, va, cache });
        }
    }

    fn sdma_fence(&mut self, queue: &mut Queue, va: u64, value: u32, carry: Option<(u64, u64)>) -> Result<(), Stop> {
        self.sdma_unreleased(queue, va);
        let ids = (queue.gpu, queue.id);
        let fell = self.raise32(ids, va, value)?;
        let Some(from) = fell else { return Ok(()) };
        let whole = va - va % 8;
        if va == whole && carry.is_none() {
            // The low half of a carry: the high half has to follow at once.
            let Processor::Sdma(sdma) = &mut queue.processor else { return Ok(()) };
            sdma.carry = Some((whole, from));
            return Ok(());
        }
        let to = self.word64(queue.gpu, whole)?;
        self.violate(Violation::Fell { queue: queue.id, va: whole, from, to });
        Ok(())
    }

    /// Takes a packet out of the ring.
    fn sdma_retire(&mut self, queue: &mut Queue, words: &[u32]) -> Result<(), Stop> {
        for (at, &word) in words.iter().enumerate() {
            let va = queue.slot_va(queue.read + at as u64 * 4);
            if self.word32(queue.gpu, va)? != word {
                return Err(Stop::Publication(PublicationFault::Changed));
            }
            let found = self.space.reach(queue.gpu, va, Want::Write)?;
            found.raw.write(found.at, &POISON.to_le_bytes());
        }
        queue.read += words.len() as u64 * 4;
        Ok(self.put64(queue.gpu, queue.read_pointer, queue.read)?)
    }
}

fn begin(queue: &mut Queue, source: Source, to: u64, bytes: u64) {
    let index = queue.read;
    if let Processor::Sdma(sdma) = &mut queue.processor {
        sdma.moves.push(Move { index, source, to, bytes, moved: 0 });
    }
}
