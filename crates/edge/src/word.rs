//! The words that show devices' progress.
//!
//! All words of a process stand in one table of whole pages ([`Words`]), which every opener's `make` is handed. So a
//! driver can map the table once, when its device opens, and place queue waits for the words of devices that open later.
//!
//! # Invariants
//!
//! 1. A word only ever rises, over all devices that use it one after the other: a device's values start after what its
//!    word held when it opened.
//! 2. Only the driver that was given the word writes it, from `make` until its `stop` has returned and the word shows
//!    the last value given to `submit`.
//!
//! # Memory ordering
//!
//! A driver raises a word with Release (or a device's store of system scope), after everything the value's work wrote.
//! [`Word::load`] is Acquire and pairs with it: who reads `v` sees all that the values up to `v` wrote.

use crate::primitive::{AtomicU64, Ordering};

/// How many words a process has, and so how many devices may be open or stopping at one time.
///
/// 4,096 words of 64 bytes are 256 KiB of address space, of which only the pages in use are ever touched.
pub const WORDS_MAX: usize = if cfg!(rig_shuttle) { 16 } else { 4096 };

/// The table's alignment: the largest page of the systems that rig runs on (64 KiB, arm64 Linux).
#[cfg(not(rig_shuttle))]
const TABLE_ALIGN: usize = 64 * 1024;

/// A word's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WordIndex(u32);

impl WordIndex {
    /// The word at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`WORDS_MAX`].
    #[inline]
    pub fn new(index: usize) -> WordIndex {
        assert!(index < WORDS_MAX, "word {index} of {WORDS_MAX}");
        WordIndex(index as u32)
    }

    /// The index, below [`WORDS_MAX`].
    #[inline]
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// One device's word, alone on its cache line: an unsigned 64-bit integer in the host's byte order at the start.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Word(AtomicU64);

impl Word {
    /// The word's value. Acquire: pairs with the Release of [`Word::raise`] or the device's store. SeqCst, which costs
    /// no more on the hosts that rig runs on: rig orders it against the marks of a loss.
    #[inline]
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Raises the word to `value`, as a driver whose host writes the word does. Release: pairs with [`Word::load`].
    ///
    /// A driver's writers must be ordered among themselves; a `value` below the word is a driver's bug.
    #[inline]
    pub fn raise(&self, value: u64) {
        // One writer at a time, so that a load and a store, which cost less than an exchange, are as good.
        let before = self.0.load(Ordering::Relaxed);
        assert!(before <= value, "a word must rise, and this went from {before} to {value}");
        self.0.store(value, Ordering::Release);
    }

    /// Raises the word to `value` unless it shows more already: how rig mirrors a word of a driver's own
    /// ([`WordSource::Own`](crate::WordSource::Own)), from any thread.
    pub fn lift(&self, value: u64) {
        self.0.fetch_max(value, Ordering::AcqRel);
    }

    /// Where the word lies, for a device that writes it or waits for it by its address.
    pub fn address(&self) -> *mut u64 {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

#[cfg(not(rig_shuttle))]
const _: () = {
    assert!(size_of::<Word>() == 64);
    assert!(align_of::<Word>() == 64);
    assert!((WORDS_MAX * size_of::<Word>()).is_multiple_of(TABLE_ALIGN));
};

/// The table of all words.
#[repr(C)]
pub struct Words {
    words: [Word; WORDS_MAX],
}

impl Words {
    /// The process's table. It lives until the process ends.
    #[inline]
    #[cfg(not(rig_shuttle))]
    pub fn get() -> &'static Words {
        &TABLE.0
    }

    /// The table of the current shuttle execution.
    #[cfg(rig_shuttle)]
    pub fn get() -> &'static Words {
        &SHUTTLE_TABLE
    }

    /// The word at `index`.
    #[inline]
    pub fn word(&self, index: WordIndex) -> &Word {
        // PANIC: a WordIndex is below WORDS_MAX by construction.
        &self.words[index.get()]
    }

    /// The first byte of the table: a multiple of the page size of every system that rig runs on.
    pub fn base(&self) -> *mut u8 {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// The table's length in bytes: whole pages of every system that rig runs on.
    pub const fn len_bytes() -> usize {
        size_of::<Words>()
    }
}

#[cfg(not(rig_shuttle))]
#[repr(C, align(65536))]
struct Table(Words);

// Zero-initialised, so it takes no room in the binary and no memory until a word is touched.
#[cfg(not(rig_shuttle))]
static TABLE: Table = {
    assert!(align_of::<Table>() == TABLE_ALIGN);
    Table(Words { words: [const { Word(AtomicU64::new(0)) }; WORDS_MAX] })
};

#[cfg(rig_shuttle)]
shuttle::lazy_static! {
    static ref SHUTTLE_TABLE: Words = Words { words: std::array::from_fn(|_| Word(AtomicU64::new(0))) };
}

#[cfg(all(test, not(rig_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_pages_and_its_words_stand_on_lines_of_their_own() {
        let words = Words::get();
        assert_eq!(words.base().addr() % TABLE_ALIGN, 0);
        let (a, b) = (words.word(WordIndex::new(6)), words.word(WordIndex::new(7)));
        assert_eq!(b.address().addr() - a.address().addr(), 64);
    }

    #[test]
    #[should_panic(expected = "must rise")]
    fn a_word_that_falls_is_caught() {
        let word = Words::get().word(WordIndex::new(WORDS_MAX - 1));
        word.raise(2);
        word.raise(1);
    }
}
