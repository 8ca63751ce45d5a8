//! Packets of the copy queue (SDMA).
//!
//! Encoders are pure. Fields as Linux's `sdma_v6_0_0_pkt_open.h` names them; they hold from SDMA 5.2 on. A packet must not
//! straddle the end of its ring: `ring` sees to that, and what is left there is zeros, which are NOPs.

use crate::aql::halves;

/// The most bytes of one copy: 30 bits hold one less than the count.
pub(crate) const COPY_BYTES_MOST: u64 = 1 << 30;
/// The most bytes of one fill of words: 22 bits hold the count less a word.
pub(crate) const FILL_BYTES_MOST: u64 = 1 << 22;

const COPY_LINEAR: u32 = 1;
const FENCE: u32 = 5;
const TRAP: u32 = 6;
const POLL_REGMEM: u32 = 8;
const CONST_FILL: u32 = 11;
const TIMESTAMP: u32 = 13;
const GCR: u32 = 17;

/// Copies `len` bytes, from 1 to [`COPY_BYTES_MOST`].
#[inline]
pub(crate) const fn copy(from: u64, to: u64, len: u64) -> [u32; 7] {
    debug_assert!(len > 0 && len <= COPY_BYTES_MOST);
    let ([from, from_high], [to, to_high]) = (halves(from), halves(to));
    [COPY_LINEAR, (len - 1) as u32, 0, from, from_high, to, to_high]
}

/// Sets `len` bytes, whole words from 4 to [`FILL_BYTES_MOST`], to copies of `word`.
#[inline]
pub(crate) const fn fill(to: u64, word: u32, len: u64) -> [u32; 5] {
    debug_assert!(len > 0 && len <= FILL_BYTES_MOST && len.is_multiple_of(4) && to.is_multiple_of(4));
    const BY_WORDS: u32 = 2 << 30;
    let [to, to_high] = halves(to);
    [CONST_FILL | BY_WORDS, to, to_high, word, (len - 4) as u32]
}

/// Stores 32 bits once all before it is complete.
#[inline]
pub(crate) const fn fence(address: u64, value: u32) -> [u32; 4] {
    /// Memory that no cache holds.
    const UNCACHED: u32 = 3 << 16;
    let [low, high] = halves(address);
    [FENCE | UNCACHED, low, high, value]
}

/// Waits until the 32 bits at `address` are `value`.
#[inline]
pub(crate) const fn poll(address: u64, value: u32) -> [u32; 6] {
    const EQUAL: u32 = 3 << 28;
    const IN_MEMORY: u32 = 1 << 31;
    /// Every fourth of its steps, for ever.
    const POLL: u32 = 4 | 0xfff << 16;
    let [low, high] = halves(address);
    [POLL_REGMEM | EQUAL | IN_MEMORY, low, high, value, u32::MAX, POLL]
}

/// Interrupts the host for the event of this number.
#[inline]
pub(crate) const fn trap(event: u32) -> [u32; 2] {
    [TRAP, event]
}

/// Stores the GPU's clock, at a place on 32 bytes.
#[inline]
pub(crate) const fn clock(address: u64) -> [u32; 3] {
    const GET_GLOBAL: u32 = 2 << 8;
    let [low, high] = halves(address);
    [TIMESTAMP | GET_GLOBAL, low, high]
}

/// What the GPU's caches do around copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caches {
    /// They read afresh, before a copy.
    Invalidate,
    /// They are written back, after one.
    WriteBack,
}

/// Sees to the GPU's caches, over all addresses.
#[inline]
pub(crate) const fn caches(what: Caches) -> [u32; 5] {
    const USER: u32 = 1 << 8;
    const GLM_WB: u32 = 1 << 4;
    const GLM_INV: u32 = 1 << 5;
    const GLK_WB: u32 = 1 << 6;
    const GLK_INV: u32 = 1 << 7;
    const GLV_INV: u32 = 1 << 8;
    const GL1_INV: u32 = 1 << 9;
    const GL2_INV: u32 = 1 << 14;
    const GL2_WB: u32 = 1 << 15;
    let control = match what {
        // Written back too: what a cache alone holds must not be dropped.
        Caches::Invalidate => GLM_WB | GLM_INV | GLK_WB | GLK_INV | GLV_INV | GL1_INV | GL2_WB | GL2_INV,
        // The metadata cache is invalidated wherever it is written back, as Linux has it in every such request.
        Caches::WriteBack => GLM_WB | GLM_INV | GLK_WB | GL2_WB,
    };
    [GCR | USER, 0, control << 16, control >> 16, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise A02.
    #[test]
    fn copies_name_one_byte_less_than_they_move() {
        assert_eq!(copy(0x7f00_0000_1001, 0x7e00_2000_0003, 1), [1, 0, 0, 0x0000_1001, 0x7f00, 0x2000_0003, 0x7e00]);
        assert_eq!(copy(0, 0, COPY_BYTES_MOST)[1], 0x3fff_ffff);
    }

    #[test]
    fn fills_are_by_words_and_name_one_word_less() {
        assert_eq!(fill(0x7f00_0000_1004, 0xABAB_ABAB, 4), [11 | 2 << 30, 0x0000_1004, 0x7f00, 0xABAB_ABAB, 0]);
        assert_eq!(fill(0, 0, FILL_BYTES_MOST)[4], 0x3f_fffc);
    }

    /// Promise A03.
    #[test]
    fn a_fence_stores_32_bits_past_the_caches_and_a_poll_waits_for_them() {
        assert_eq!(fence(0x7f00_0000_1040, 77), [5 | 3 << 16, 0x0000_1040, 0x7f00, 77]);
        assert_eq!(
            poll(0x7f00_0000_1040, 77),
            [8 | 3 << 28 | 1 << 31, 0x0000_1040, 0x7f00, 77, 0xffff_ffff, 4 | 0xfff << 16]
        );
        assert_eq!(trap(12), [6, 12]);
        assert_eq!(clock(0x7f00_0000_1040), [13 | 2 << 8, 0x0000_1040, 0x7f00]);
    }

    #[test]
    fn caches_are_seen_to_over_all_addresses() {
        let before = caches(Caches::Invalidate);
        assert_eq!((before[0], before[1], before[4]), (17 | 1 << 8, 0, 0));
        assert_eq!(
            before[2] >> 16 & (1 << 14 | 1 << 15),
            1 << 14 | 1 << 15,
            "the second cache: write back, invalidate"
        );
        assert_eq!(caches(Caches::WriteBack)[2] >> 16 & (1 << 14 | 1 << 15), 1 << 15);
    }
}
