//! Caches: what an engine stored and others do not see yet, and what it read and others have changed since.
//!
//! The model keeps lines for ever: it drops them only where the hardware is told to. So a release or an acquire that is
//! missing shows in every run, and not only where a line happens to stay.
//!
//! From a wave outwards:
//!
//! 1. GL0 and the scalar cache keep what was read. A work-group's unit, chosen by the seed, has its own. The acquire of a
//!    dispatch drops them, and so do the instructions that invalidate.
//! 2. The stores of a dispatch are kept together: its own waves see them; nobody else does, until a wave waits for its
//!    stores, or the dispatch has ended and releases to the agent.
//! 3. L2 keeps what was read and stored of memory that is cached (neither COHERENT nor UNCACHED). It belongs to a GPU's
//!    shaders. A release to the system writes it back; an acquire from the system drops what is not dirty.
//! 4. A copy engine has such a cache of its own; its packet GCR writes back and invalidates.
//!
//! The hardware is kinder in places: its stores go through to L2 at once, its L2 serves the copy engines of a GPU too, and
//! lines fall out of every cache by themselves.

use crate::isa::Code;
use crate::memory::{Miss, Space};
use crate::raw::Raw;
use crate::violation::Want;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes of a line.
pub(crate) const LINE: u64 = 128;

/// Compute units that have caches of their own in the model: few, so that lines meet later work.
pub(crate) const UNITS: usize = 2;

#[derive(Clone, Debug)]
struct Line {
    data: [u8; LINE as usize],
    /// A bit for each byte that is there.
    valid: u128,
    /// A bit for each byte that is not in memory yet.
    dirty: u128,
    /// When bytes last came from memory.
    filled: u64,
    /// The queue that stored last.
    writer: u32,
}

/// Addresses of lines are spread well enough by a multiplication.
#[derive(Debug, Default)]
pub(crate) struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// A cache.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    lines: HashMap<u64, Line, BuildHasherDefault<LineHasher>>,
    /// Lines that became dirty; some may be clean again.
    dirty: Vec<u64>,
}

/// A GPU's caches that its shaders share.
#[derive(Debug, Default)]
pub(crate) struct GpuCaches {
    pub(crate) l2: Cache,
    pub(crate) gl0: [Cache; UNITS],
    pub(crate) scalar: [Cache; UNITS],
    pub(crate) code: Code,
    /// The lines that `code` was decoded from, as they were then.
    pub(crate) fetched: Cache,
}

impl GpuCaches {
    /// Drops all instructions.
    pub(crate) fn invalidate_code(&mut self) {
        self.code.invalidate();
        self.fetched.clear();
    }
}

/// A stretch of an access inside one line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Where it begins in the access.
    pub(crate) from: usize,
    pub(crate) len: usize,
    pub(crate) line: u64,
    /// Where it begins in the line.
    pub(crate) at: usize,
}

/// The stretches of an access.
pub(crate) fn pieces(va: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let left = len - from;
        let begin = va + from as u64;
        let at = begin % LINE;
        let piece = Piece { from, len: left.min((LINE - at) as usize), line: begin - at, at: at as usize };
        from += piece.len;
        (left > 0).then_some(piece)
    })
}

fn mask(at: usize, len: usize) -> u128 {
    (u128::MAX >> (128 - len)) << at
}

/// The runs of ones in a mask: where each begins, and how long it is.
fn runs(mut mask: u128) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let skip = mask.trailing_zeros();
        let rest = mask >> skip;
        let len = rest.trailing_ones();
        let begin = from + skip;
        from = begin + len;
        mask = if len == 128 { 0 } else { rest >> len };
        Some((begin as usize, len as usize))
    })
}

impl Line {
    fn new() -> Self {
        Self { data: [0; LINE as usize], valid: 0, dirty: 0, filled: 0, writer: 0 }
    }

    fn fill(&mut self, from: &[u8; LINE as usize], now: u64) {
        for (at, len) in runs(!self.valid) {
            self.data[at..at + len].copy_from_slice(&from[at..at + len]);
        }
        self.valid = u128::MAX;
        self.filled = now;
    }
}

/// What a read of a cache gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// All bytes were there.
    All,
    /// Some were not.
    Missed,
}

impl Cache {
    /// Reads a piece if all of it is there; and when it came from memory.
    pub(crate) fn get(&self, piece: Piece, bytes: &mut [u8]) -> (Hit, u64) {
        let wanted = mask(piece.at, piece.len);
        match self.lines.get(&piece.line) {
            Some(line) if line.valid & wanted == wanted => {
                bytes.copy_from_slice(&line.data[piece.at..piece.at + piece.len]);
                (Hit::All, if line.dirty & wanted == wanted { u64::MAX } else { line.filled })
            }
            _ => (Hit::Missed, 0),
        }
    }

    /// Whether a line is there in whole or in part.
    pub(crate) fn has(&self, line: u64) -> bool {
        self.lines.contains_key(&line)
    }

    /// Takes the bytes of a line that are not there yet.
    pub(crate) fn fill(&mut self, line: u64, from: &[u8; LINE as usize], now: u64) {
        self.lines.entry(line).or_insert_with(Line::new).fill(from, now);
    }

    /// Stores a piece.
    pub(crate) fn put(&mut self, piece: Piece, bytes: &[u8], writer: u32) {
        let line = self.lines.entry(piece.line).or_insert_with(Line::new);
        line.data[piece.at..piece.at + piece.len].copy_from_slice(bytes);
        let stored = mask(piece.at, piece.len);
        if line.dirty == 0 {
            self.dirty.push(piece.line);
        }
        line.valid |= stored;
        line.dirty |= stored;
        line.writer = writer;
    }

    /// Stores a piece where the line is there: what a cache that is written through does.
    pub(crate) fn update(&mut self, piece: Piece, bytes: &[u8]) {
        if let Some(line) = self.lines.get_mut(&piece.line) {
            line.data[piece.at..piece.at + piece.len].copy_from_slice(bytes);
            line.valid |= mask(piece.at, piece.len);
        }
    }

    /// Lays the dirty bytes of a piece over what an outer level gave. Whether that changed any.
    pub(crate) fn overlay(&self, piece: Piece, bytes: &mut [u8]) -> bool {
        let Some(line) = self.lines.get(&piece.line) else { return false };
        let mut changed = false;
        for (at, len) in runs(line.dirty & mask(piece.at, piece.len)) {
            let (own, outer) = (&line.data[at..at + len], &mut bytes[at - piece.at..at - piece.at + len]);
            changed |= own != outer;
            outer.copy_from_slice(own);
        }
        changed
    }

    /// Drops a line, dirty or not.
    pub(crate) fn drop_line(&mut self, line: u64) {
        self.lines.remove(&line);
    }

    /// Drops all that is not dirty.
    pub(crate) fn drop_clean(&mut self) {
        self.lines.retain(|_, line| {
            line.valid = line.dirty;
            line.dirty != 0
        });
    }

    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.dirty.clear();
    }

    /// An address that a queue stored to and memory does not hold.
    pub(crate) fn first_dirty(&self, writer: Option<u32>) -> Option<u64> {
        let of = |line: &Line| line.dirty != 0 && writer.is_none_or(|writer| line.writer == writer);
        let lines = self.dirty.iter().filter(|&va| self.lines.get(va).is_some_and(of));
        let va = *lines.min()?;
        Some(va + u64::from(self.lines[&va].dirty.trailing_zeros()))
    }

    /// Gives every dirty run of bytes to `sink`, by address; the lines stay, clean.
    fn flush(&mut self, mut sink: impl FnMut(Piece, &[u8], u32)) {
        for va in std::mem::take(&mut self.dirty) {
            self.flush_line(va, &mut sink);
        }
    }

    fn flush_line(&mut self, va: u64, sink: &mut impl FnMut(Piece, &[u8], u32)) {
        let Some(line) = self.lines.get_mut(&va) else { return };
        for (at, len) in runs(line.dirty) {
            sink(Piece { from: 0, len, line: va, at }, &line.data[at..at + len], line.writer);
        }
        line.dirty = 0;
    }

    /// Writes back all that is dirty.
    pub(crate) fn write_back(&mut self, space: &Space, gpu: usize) {
        self.flush(|piece, bytes, _| {
            // What is no longer mapped had its lines taken out; what is not writable has no dirty ones.
            if let Ok(found) = space.reach(gpu, piece.line + piece.at as u64, Want::Write) {
                found.write(bytes);
            }
        });
    }

    /// Gives all that is dirty to the next level: L2 for memory that it caches, else memory.
    pub(crate) fn release(&mut self, space: &Space, gpu: usize, l2: &mut Cache) {
        self.flush(|piece, bytes, writer| pass_on(space, gpu, l2, piece, bytes, writer));
        self.lines.clear();
    }

    /// The same for one line.
    pub(crate) fn release_line(&mut self, space: &Space, gpu: usize, l2: &mut Cache, line: u64) {
        self.flush_line(line, &mut |piece, bytes: &[u8], writer| pass_on(space, gpu, l2, piece, bytes, writer));
        self.lines.remove(&line);
    }

    /// Adds another's dirty bytes.
    pub(crate) fn absorb(&mut self, mut other: Cache) {
        other.flush(|piece, bytes, writer| self.put(piece, bytes, writer));
    }

    /// Lets a range of addresses go: dirty bytes to memory, lines away.
    pub(crate) fn leave(&mut self, space: &Space, gpu: usize, va: u64, size: u64) {
        let inside: Vec<u64> = self.lines.keys().copied().filter(|line| (va..va + size).contains(line)).collect();
        for line in inside {
            self.flush_line(line, &mut |piece, bytes: &[u8], _| {
                if let Ok(found) = space.reach(gpu, piece.line + piece.at as u64, Want::Write) {
                    found.write(bytes);
                }
            });
            self.lines.remove(&line);
        }
    }
}

fn pass_on(space: &Space, gpu: usize, l2: &mut Cache, piece: Piece, bytes: &[u8], writer: u32) {
    let Ok(found) = space.reach(gpu, piece.line + piece.at as u64, Want::Write) else { return };
    if found.cached {
        l2.put(piece, bytes, writer);
    } else {
        found.write(bytes);
    }
}

/// A line's bytes in memory. Lines do not straddle pages, so one memory has all of it.
fn line_of(raw: &Raw, at: usize, piece: Piece) -> [u8; LINE as usize] {
    let mut line = [0; LINE as usize];
    raw.read(at - piece.at, &mut line);
    line
}

/// What a read through a cache found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// What memory holds.
    Fresh,
    /// Bytes that were in the cache since before the work began, where memory holds others.
    Stale,
    /// Bytes that the host wrote through the window, and did not flush, are not among it.
    Unflushed,
}

/// Reads a piece through a cache in front of memory.
pub(crate) fn read_through(
    cache: &mut Cache,
    (space, gpu): (&Space, usize),
    piece: Piece,
    bytes: &mut [u8],
    (want, now, since): (Want, u64, u64),
) -> Result<Found, Miss> {
    let found = space.reach(gpu, piece.line + piece.at as u64, want)?;
    if !found.cached {
        found.raw.read(found.at, bytes);
        return Ok(Found::Fresh);
    }
    if found.unflushed(piece.len) {
        found.raw.read(found.at, bytes);
        cache.overlay(piece, bytes);
        return Ok(Found::Unflushed);
    }
    let (hit, filled) = cache.get(piece, bytes);
    if hit == Hit::Missed {
        cache.fill(piece.line, &line_of(found.raw, found.at, piece), now);
        cache.get(piece, bytes);
        return Ok(Found::Fresh);
    }
    if filled >= since {
        return Ok(Found::Fresh);
    }
    let mut current = [0; LINE as usize];
    let current = &mut current[..piece.len];
    found.raw.read(found.at, current);
    cache.overlay(piece, current);
    Ok(if current == bytes { Found::Fresh } else { Found::Stale })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_of_bytes_is_cut_into_its_runs() {
        let all = |mask| runs(mask).collect::<Vec<_>>();
        assert_eq!(all(0), []);
        assert_eq!(all(u128::MAX), [(0, 128)]);
        assert_eq!(all(0b0110_0001), [(0, 1), (5, 2)]);
        assert_eq!(all(1 << 127), [(127, 1)]);
        assert_eq!(mask(0, 128), u128::MAX);
        assert_eq!(mask(126, 2), 3 << 126);
    }

    #[test]
    fn an_access_is_cut_at_lines() {
        let cut: Vec<_> = pieces(120, 140).map(|piece| (piece.from, piece.len, piece.line, piece.at)).collect();
        assert_eq!(cut, [(0, 8, 0, 120), (8, 128, 128, 0), (136, 4, 256, 0)]);
        assert_eq!(pieces(7, 0).count(), 0);
    }
}
