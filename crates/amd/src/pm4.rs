//! PM4 commands, which the compute queue's packet processor runs from an indirect buffer: the release that stores the word,
//! waits for words, and the invalidation of instruction caches.
//!
//! Encoders are pure. Fields and bits as the GPU's register headers and Linux's `soc15d.h` and `nvd.h` name them, for the
//! tenth generation of the graphics core and later.

use crate::aql::halves;
use crate::scratch::FIELDS;

/// The words of [`release`].
pub(crate) const RELEASE_WORDS: usize = 8;
/// The words of [`wait`].
pub(crate) const WAIT_WORDS: usize = 9;
/// The words of [`store`], with those that it stores.
pub(crate) const STORE_WORDS: usize = 4 + FIELDS;
/// The words of [`invalidate_code`].
pub(crate) const ACQUIRE_WORDS: usize = 8;

const RELEASE_MEM: u32 = 0xC006_4900;
const WRITE_DATA: u32 = 0xC000_3700;
const WAIT_REG_MEM64: u32 = 0xC007_9300;
const ACQUIRE_MEM: u32 = 0xC006_5800;

/// `CACHE_FLUSH_AND_INV_TS_EVENT`, at the end of the pipe.
const END_OF_PIPE: u32 = 0x14 | 5 << 8;
/// What a release does with the caches: all are written back and made to read afresh, from the nearest outwards.
const RELEASE_CACHES: u32 = GLM_WB | GLM_INV | GLV_INV | GL1_INV | GL2_INV | GL2_WB | SEQ_FORWARD;
const GLM_WB: u32 = 1 << 12;
const GLM_INV: u32 = 1 << 13;
const GLV_INV: u32 = 1 << 14;
const GL1_INV: u32 = 1 << 15;
const GL2_INV: u32 = 1 << 20;
const GL2_WB: u32 = 1 << 21;
const SEQ_FORWARD: u32 = 1 << 22;

/// What a release stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// 64 bits.
    Word(u64),
    /// 64 bits, and then an interrupt for the event of this number.
    Event(u32),
}

/// Stores once all work before it is complete and the caches are written back.
#[inline]
pub(crate) const fn release(address: u64, store: Store) -> [u32; RELEASE_WORDS] {
    const SELECT_64: u32 = 2 << 29;
    const INTERRUPT_AFTER_WRITE: u32 = 2 << 24;
    let [low, high] = halves(address);
    let (select, data, context) = match store {
        Store::Word(value) => (SELECT_64, value, 0),
        Store::Event(id) => (SELECT_64 | INTERRUPT_AFTER_WRITE, id as u64, id),
    };
    let [data, data_high] = halves(data);
    [RELEASE_MEM, END_OF_PIPE | RELEASE_CACHES, select, low, high, data, data_high, context]
}

/// Stores the GPU's clock once all work before it is complete; the caches stay as they are.
#[inline]
pub(crate) const fn clock(address: u64) -> [u32; RELEASE_WORDS] {
    const SELECT_CLOCK: u32 = 3 << 29;
    let [low, high] = halves(address);
    [RELEASE_MEM, END_OF_PIPE, SELECT_CLOCK, low, high, 0, 0, 0]
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The 64 bits are this or more.
    AtLeast(u64),
    /// The low 32 bits are this.
    Low(u32),
}

/// Waits for memory.
#[inline]
pub(crate) const fn wait(address: u64, until: Until) -> [u32; WAIT_WORDS] {
    const EQUAL: u32 = 3;
    const GREATER_OR_EQUAL: u32 = 5;
    const IN_MEMORY: u32 = 1 << 4;
    /// How often it looks, and that it lets others run meanwhile.
    const POLL: u32 = 4 | 1 << 31;
    let [low, high] = halves(address);
    let (function, value, mask) = match until {
        Until::AtLeast(value) => (GREATER_OR_EQUAL, value, u64::MAX),
        Until::Low(value) => (EQUAL, value as u64, u32::MAX as u64),
    };
    let ([value, value_high], [mask, mask_high]) = (halves(value), halves(mask));
    [WAIT_REG_MEM64, function | IN_MEMORY, low, high, value, value_high, mask, mask_high, POLL]
}

/// Stores words past the caches, which are there before the next packet runs.
#[inline]
pub(crate) fn store(address: u64, words: &[u32; FIELDS]) -> [u32; STORE_WORDS] {
    const TO_MEMORY: u32 = 5 << 8;
    const CONFIRM: u32 = 1 << 20;
    let [low, high] = halves(address);
    let mut packet = [0; STORE_WORDS];
    packet[..4].copy_from_slice(&[WRITE_DATA | (STORE_WORDS as u32 - 2) << 16, TO_MEMORY | CONFIRM, low, high]);
    packet[4..].copy_from_slice(words);
    packet
}

/// Makes the caches of instructions and of scalars read afresh, over all addresses.
#[inline]
pub(crate) const fn invalidate_code() -> [u32; ACQUIRE_WORDS] {
    const GLI_INV_ALL: u32 = 1;
    const GLK_INV: u32 = 1 << 7;
    const GLV_INV: u32 = 1 << 8;
    const GL1_INV: u32 = 1 << 9;
    const SIZE_HIGH: u32 = 0x00FF_FFFF;
    const POLL_INTERVAL: u32 = 10;
    [ACQUIRE_MEM, 0, u32::MAX, SIZE_HIGH, 0, 0, POLL_INTERVAL, GLI_INV_ALL | GLK_INV | GLV_INV | GL1_INV]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promises A03, A13.
    #[test]
    fn a_release_writes_the_caches_back_and_stores_64_bits_at_the_end_of_the_pipe() {
        let words = release(0x7f12_3456_7840, Store::Word(0x0000_0002_ffff_fffe));
        let caches = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15 | 1 << 20 | 1 << 21 | 1 << 22;
        assert_eq!(
            words,
            [0xC006_4900, 0x514 | caches, 2 << 29, 0x3456_7840, 0x7f12, 0xffff_fffe, 2, 0],
            "event 0x14 of index 5, the caches, 64 bits without an interrupt"
        );
    }

    /// Promise A11.
    #[test]
    fn a_release_for_an_event_stores_its_number_and_interrupts_after_it() {
        let words = release(0x1000, Store::Event(9));
        assert_eq!(words[2], 2 << 29 | 2 << 24);
        assert_eq!(words[3..], [0x1000, 0, 9, 0, 9]);
    }

    /// Promise C22.
    #[test]
    fn a_stamp_is_the_clock_at_the_end_of_the_pipe() {
        assert_eq!(clock(0x7f12_3456_7840), [0xC006_4900, 0x514, 3 << 29, 0x3456_7840, 0x7f12, 0, 0, 0]);
    }

    /// Promise A06.
    #[test]
    fn a_wait_compares_all_64_bits_for_greater_or_equal_in_memory() {
        let words = wait(0x7f12_3456_7840, Until::AtLeast(0x0000_0003_0000_0001));
        assert_eq!(words, [0xC007_9300, 5 | 1 << 4, 0x3456_7840, 0x7f12, 1, 3, 0xffff_ffff, 0xffff_ffff, 4 | 1 << 31]);
    }

    #[test]
    fn a_wait_for_a_mark_compares_the_low_half_alone_for_equality() {
        let words = wait(0x1000, Until::Low(9));
        assert_eq!(words[1..], [3 | 1 << 4, 0x1000, 0, 9, 0, 0xffff_ffff, 0, 4 | 1 << 31]);
    }

    /// Promise A10.
    #[test]
    fn a_store_of_words_says_how_many_and_waits_until_they_are_there() {
        let words = store(0x7f12_3456_788c, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(words[..4], [0xC00C_3700, 5 << 8 | 1 << 20, 0x3456_788c, 0x7f12], "13 words follow the first");
        assert_eq!(words[4..], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        const { assert!(STORE_WORDS * 4 <= crate::aql::BYTES as usize, "the bytes beside a slot") };
    }

    #[test]
    fn an_acquire_after_a_load_of_code_invalidates_instructions_and_scalars_everywhere() {
        let words = invalidate_code();
        assert_eq!(words[..7], [0xC006_5800, 0, 0xffff_ffff, 0x00ff_ffff, 0, 0, 10]);
        assert_eq!(words[7] & 3, 1, "all instructions");
        assert_eq!(words[7] & 1 << 7, 1 << 7, "scalars");
    }
}
