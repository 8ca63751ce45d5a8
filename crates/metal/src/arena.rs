//! Where launches' parameters lie: bytes of one buffer, taken and given back in turn.
//!
//! Pure: it counts places and touches no memory. Places are positions that only ever rise; a position's offset is its rest by
//! the capacity. Blocks are whole multiples of [`BLOCK`], and none crosses the end: one that would starts at offset 0.
//!
//! # Invariants
//!
//! 1. `tail <= head <= tail + capacity`: the bytes from `tail` to `head` are in use, and no block overlaps another.
//! 2. An empty arena takes any work whose blocks together are no more than the capacity, since it starts at offset 0.
//!
//! A ring and not an allocator: command buffers complete in the order in which they took their bytes.

/// The bytes of which each block is a multiple, and its offset too: the largest alignment of a constant buffer's offset in
/// Apple's feature set tables.
pub(crate) const BLOCK: u64 = 256;

/// The least capacity: parameters of 4,096 launches of up to 256 bytes.
pub(crate) const LEAST: u64 = 1 << 20;

/// What a launch's parameters take.
#[inline]
pub(crate) fn taken(bytes: u32) -> u64 {
    u64::from(bytes).next_multiple_of(BLOCK)
}

/// The capacity of an arena for work that takes `need` bytes: the least power of two from [`LEAST`] to `most` that holds
/// twice that.
pub(crate) fn capacity_for(need: u64, most: u64) -> u64 {
    let most = most / BLOCK * BLOCK;
    need.saturating_mul(2).checked_next_power_of_two().unwrap_or(most).clamp(LEAST.min(most), most)
}

/// A ring of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Arena {
    capacity: u64,
    head: u64,
    tail: u64,
}

/// Places for the blocks of one submission, before they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placing {
    pub start: u64,
    pub end: u64,
}

impl Arena {
    /// An empty arena of `capacity` bytes, a multiple of [`BLOCK`].
    pub fn new(capacity: u64) -> Arena {
        debug_assert!(capacity.is_multiple_of(BLOCK));
        Arena { capacity, head: 0, tail: 0 }
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether no bytes are in use.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Begins to place a submission.
    #[inline]
    pub fn placing(&self) -> Placing {
        // Nothing is in use: the start of the arena holds as much as the arena does.
        let start = if self.head == self.tail && !self.head.is_multiple_of(self.capacity) {
            self.head.next_multiple_of(self.capacity)
        } else {
            self.head
        };
        Placing { start, end: start }
    }

    /// The offset of the next block, of `bytes`, a multiple of [`BLOCK`]; none where bytes in use are in the way.
    #[inline]
    pub fn place(&self, placing: &mut Placing, bytes: u64) -> Option<u64> {
        let mut offset = placing.end % self.capacity;
        let mut at = placing.end;
        if offset + bytes > self.capacity {
            at += self.capacity - offset;
            offset = 0;
        }
        let tail = if self.head == self.tail { placing.start } else { self.tail };
        if at + bytes - tail > self.capacity {
            return None;
        }
        placing.end = at + bytes;
        Some(offset)
    }

    /// Takes what was placed. Bytes may have come back since, and none were taken.
    #[inline]
    pub fn take(&mut self, placing: Placing) {
        if self.head == self.tail {
            self.tail = placing.start;
        }
        self.head = placing.end;
    }

    /// Gives back the bytes that were taken before `head` was `to`.
    #[inline]
    pub fn give_back(&mut self, to: u64) {
        debug_assert!(to <= self.head, "bytes that were not taken");
        self.tail = self.tail.max(to);
    }
}

#[cfg(test)]
#[path = "arena_tests.rs"]
mod tests;
