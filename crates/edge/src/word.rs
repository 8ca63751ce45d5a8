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
///
/// ```
/// use rig_edge::{WORDS_MAX, WordIndex, Words};
///
/// // A driver that keeps something for each word, such as a mapping, has this many places at most.
/// let mut mapped = vec![false; WORDS_MAX];
/// mapped[WordIndex::new(WORDS_MAX - 1).get()] = true;
/// assert_eq!(Words::len_bytes(), 64 * WORDS_MAX);
/// ```
pub const WORDS_MAX: usize = if cfg!(rig_shuttle) { 16 } else { 4096 };

/// The table's alignment: the largest page of the systems that rig runs on (64 KiB, arm64 Linux).
#[cfg(not(rig_shuttle))]
const TABLE_ALIGN: usize = 64 * 1024;

/// A word's place in the table.
///
/// ```
/// use rig_edge::{Word, WordIndex};
///
/// /// Where a word lies for a device that has mapped the table at `base`.
/// fn address(base: u64, word: WordIndex) -> u64 {
///     base + (word.get() * size_of::<Word>()) as u64
/// }
/// assert_eq!(address(0x10_0000, WordIndex::new(3)), 0x10_00c0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WordIndex(u32);

impl WordIndex {
    /// The word at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`WORDS_MAX`].
    ///
    /// # Examples
    ///
    /// ```
    /// use rig_edge::WordIndex;
    ///
    /// let last = WordIndex::new(rig_edge::WORDS_MAX - 1);
    /// assert!(WordIndex::new(0) < last);
    /// ```
    #[inline]
    pub fn new(index: usize) -> WordIndex {
        assert!(index < WORDS_MAX, "word {index} of {WORDS_MAX}");
        WordIndex(index as u32)
    }

    /// The index, below [`WORDS_MAX`].
    ///
    /// ```
    /// use rig_edge::WordIndex;
    ///
    /// // What a packet that waits holds of a word: its place in the table.
    /// let wait = WordIndex::new(12).get() as u32;
    /// assert_eq!(wait, 12);
    /// ```
    #[inline]
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// One device's word, alone on its cache line: an unsigned 64-bit integer in the host's byte order at the start.
///
/// ```
/// use rig_edge::{WordIndex, Words};
///
/// // A device's values complete by its word's rise; who saw a value sees what its work wrote.
/// let word = Words::get().word(WordIndex::new(7));
/// word.raise(1);
/// word.raise(4); // and so have 2 and 3 completed
/// assert_eq!(word.load(), 4);
/// ```
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Word(AtomicU64);

impl Word {
    /// The word's value. Acquire: pairs with the Release of [`Word::raise`] or the device's store. SeqCst, which costs
    /// no more on the hosts that rig runs on: rig orders it against the marks of a loss.
    ///
    /// ```
    /// # use rig_edge::{WordIndex, Words};
    /// # let word = Words::get().word(WordIndex::new(7));
    /// # word.raise(5);
    /// // In `room`: the values in flight, by the last one that was submitted.
    /// let last = 8;
    /// assert_eq!(last - word.load(), 3);
    /// ```
    #[inline]
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Raises the word to `value`, as a driver whose host writes the word does. Release: pairs with [`Word::load`].
    ///
    /// A driver's writers must be ordered among themselves; a `value` below the word is a driver's bug.
    ///
    /// ```
    /// # use rig_edge::{WordIndex, Words};
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # let word = Words::get().word(WordIndex::new(7));
    /// let result = AtomicU32::new(0);
    /// std::thread::scope(|threads| {
    ///     threads.spawn(|| {
    ///         result.store(42, Ordering::Relaxed); // the work of value 1
    ///         word.raise(1);
    ///     });
    ///     while word.load() < 1 {
    ///         std::hint::spin_loop();
    ///     }
    ///     assert_eq!(result.load(Ordering::Relaxed), 42);
    /// });
    /// ```
    #[inline]
    pub fn raise(&self, value: u64) {
        // One writer at a time, so that a load and a store, which cost less than an exchange, are as good.
        let before = self.0.load(Ordering::Relaxed);
        assert!(before <= value, "a word must rise, and this went from {before} to {value}");
        self.0.store(value, Ordering::Release);
    }

    /// Raises the word to `value` unless it shows more already: how rig mirrors a word of a driver's own
    /// ([`WordSource::Own`](crate::WordSource::Own)), from any thread.
    ///
    /// ```
    /// # use rig_edge::{WordIndex, Words};
    /// # let word = Words::get().word(WordIndex::new(7));
    /// // Two threads read a driver's own word, one of them late.
    /// word.lift(9);
    /// word.lift(8);
    /// assert_eq!(word.load(), 9);
    /// ```
    pub fn lift(&self, value: u64) {
        self.0.fetch_max(value, Ordering::AcqRel);
    }

    /// Where the word lies, for a device that writes it or waits for it by its address.
    ///
    /// ```
    /// # use rig_edge::{WordIndex, Words};
    /// # let word = Words::get().word(WordIndex::new(7));
    /// // What goes into the packet that ends a value: where the device is to store it.
    /// let address = word.address().expose_provenance() as u64;
    /// assert!(address.is_multiple_of(64), "on a cache line of its own");
    /// ```
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
///
/// ```
/// use rig_edge::{WordIndex, Words};
///
/// // One table for the process, so that a device can wait for the word of one that opens later.
/// let words = Words::get();
/// let (mine, yours) = (words.word(WordIndex::new(7)), words.word(WordIndex::new(8)));
/// yours.raise(1);
/// assert_eq!((mine.load(), yours.load()), (0, 1));
/// ```
#[repr(C)]
pub struct Words {
    words: [Word; WORDS_MAX],
}

impl Words {
    /// The process's table. It lives until the process ends.
    ///
    /// ```
    /// use rig_edge::Words;
    ///
    /// assert!(std::ptr::eq(Words::get(), Words::get()));
    /// ```
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
    ///
    /// ```
    /// use rig_edge::{Wait, WordIndex, Words};
    ///
    /// /// Whether a queue wait is over; a driver that runs work on the host looks at it like this.
    /// fn is_over(wait: Wait) -> bool {
    ///     Words::get().word(wait.word).load() >= wait.value
    /// }
    /// let wait = Wait { word: WordIndex::new(7), value: 2 };
    /// assert!(!is_over(wait));
    /// Words::get().word(wait.word).raise(2);
    /// assert!(is_over(wait));
    /// ```
    #[inline]
    pub fn word(&self, index: WordIndex) -> &Word {
        // PANIC: a WordIndex is below WORDS_MAX by construction.
        &self.words[index.get()]
    }

    /// The first byte of the table: a multiple of the page size of every system that rig runs on.
    ///
    /// ```
    /// use rig_edge::{WordIndex, Words};
    ///
    /// let words = Words::get();
    /// // What a driver registers with its vendor, to be reached by its devices.
    /// let pages = words.base()..words.base().wrapping_add(Words::len_bytes());
    /// assert!(pages.contains(&words.word(WordIndex::new(7)).address().cast()));
    /// ```
    pub fn base(&self) -> *mut u8 {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// The table's length in bytes: whole pages of every system that rig runs on.
    ///
    /// ```
    /// use rig_edge::{Words, page_bytes};
    ///
    /// const BYTES: usize = Words::len_bytes();
    /// assert!(BYTES.is_multiple_of(page_bytes()));
    /// ```
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
