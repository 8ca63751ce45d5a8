//! Memory that the host and the GPU share, by offsets: the only place where the driver reads and writes it.
//!
//! # Invariants
//!
//! 1. Who makes a [`Raw`] promises that its bytes stay mapped, to read and write, for as long as it or a copy of it is used.
//! 2. Words that both sides touch at one time are atomics, and each access names its order. Bytes that the GPU is not told
//!    of yet are plain.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Some bytes at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    base: *mut u8,
    len: usize,
}

// SAFETY: a Raw is an address and a length; every access through it is atomic, or of bytes that its user alone knows of.
#[expect(unsafe_code, reason = "an address is plain data")]
unsafe impl Send for Raw {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "an address is plain data")]
unsafe impl Sync for Raw {}

#[expect(unsafe_code, reason = "reads and writes memory that is shared with the GPU")]
impl Raw {
    /// The `len` bytes at `base`.
    ///
    /// # Safety
    ///
    /// Invariant 1.
    pub unsafe fn new(base: *mut u8, len: usize) -> Raw {
        Raw { base, len }
    }

    #[inline]
    fn at(&self, offset: usize, len: usize, align: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "{len} bytes at {offset} of {}", self.len);
        let at = self.base.wrapping_add(offset);
        assert!(at.addr().is_multiple_of(align), "{at:?} is not on {align} bytes");
        at
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `at` saw that the word is inside and aligned; invariants 1 and 2.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4, 4).cast()) }
    }

    #[inline]
    fn long(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `at` saw that the word is inside and aligned; invariants 1 and 2.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8, 8).cast()) }
    }

    /// Writes bytes that the GPU is not told of yet.
    #[inline]
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        let at = self.at(offset, bytes.len(), 1);
        // SAFETY: inside (`at`), mapped (invariant 1), and nobody else touches them now (invariant 2).
        unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// Writes words that the GPU is not told of yet.
    #[inline]
    pub fn put_words(&self, offset: usize, words: &[u32]) {
        let at = self.at(offset, size_of_val(words), 4);
        // SAFETY: inside and aligned (`at`), mapped (invariant 1), and nobody else touches them now (invariant 2).
        unsafe { at.cast::<u32>().copy_from_nonoverlapping(words.as_ptr(), words.len()) }
    }

    /// Writes zeros that the GPU is not told of yet.
    #[inline]
    pub fn zero(&self, offset: usize, len: usize) {
        let at = self.at(offset, len, 1);
        // SAFETY: as in `put`.
        unsafe { at.write_bytes(0, len) }
    }

    /// Stores 32 bits with Release: pairs with the GPU's read of what they publish.
    #[inline]
    pub fn publish(&self, offset: usize, word: u32) {
        self.word(offset).store(word, Ordering::Release);
    }

    /// Stores 64 bits with Release: pairs with the GPU's read of what they publish.
    #[inline]
    pub fn publish_long(&self, offset: usize, long: u64) {
        self.long(offset).store(long, Ordering::Release);
    }

    /// Loads 64 bits with Acquire: pairs with the GPU's store.
    #[inline]
    pub fn load_long(&self, offset: usize) -> u64 {
        self.long(offset).load(Ordering::Acquire)
    }
}
