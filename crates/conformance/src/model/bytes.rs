//! The model's memory: the one place that touches bytes.
//!
//! # Invariants
//!
//! 1. A [`Span`] lies inside memory of the model's that is allocated for as long as the span may be used: the model takes
//!    memory back only once no unfinished work names it, and keeps it for ever where its caller freed it too early.
//! 2. Only the work that runs touches the bytes: a caller that breaks this races, which the thread sanitizer sees.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// The least alignment of a block on the host: a cache line, so that two devices never share one.
const LINE: usize = 64;

/// Memory of the host's that the model owns.
#[derive(Debug)]
pub(crate) struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its memory, and all access is by spans, whose invariants say who may when.
#[expect(unsafe_code, reason = "owned memory behind a pointer")]
unsafe impl Send for Block {}

impl Block {
    /// Zeroed memory of `len` bytes, or none.
    pub(crate) fn new(len: usize, alignment: usize) -> Option<Block> {
        let layout = Layout::from_size_align(len.max(1), alignment.max(LINE)).ok()?;
        // SAFETY: the layout has at least one byte.
        #[expect(unsafe_code, reason = "the model's memory is the host's")]
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Block { start, layout })
    }

    pub(crate) fn span(&self) -> Span {
        Span { start: self.start.as_ptr(), len: self.layout.size() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `new` made it with this layout, and by invariant 1 nothing uses it any more.
        #[expect(unsafe_code, reason = "the model's memory is the host's")]
        unsafe {
            dealloc(self.start.as_ptr(), self.layout);
        }
    }
}

/// A range of memory that work may touch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: *mut u8,
    len: usize,
}

// SAFETY: a span is an address and a length; its invariants say who may touch the bytes.
#[expect(unsafe_code, reason = "addresses are plain data")]
unsafe impl Send for Span {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "addresses are plain data")]
unsafe impl Sync for Span {}

impl Span {
    /// Host memory of the caller's.
    pub(crate) fn of_host(start: *mut u8, len: usize) -> Span {
        Span { start, len }
    }

    pub(crate) fn empty() -> Span {
        Span { start: NonNull::dangling().as_ptr(), len: 0 }
    }

    pub(crate) fn start(self) -> *mut u8 {
        self.start
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The part of the span from `at`, of `len` bytes; `None` where it leaves the span.
    pub(crate) fn part(self, at: usize, len: usize) -> Option<Span> {
        let end = at.checked_add(len)?;
        (end <= self.len).then(|| Span { start: self.start.wrapping_add(at), len })
    }

    /// The span with all of its last word. It stays in the region, whose length is whole words.
    pub(crate) fn by_words(self) -> Span {
        let end = (self.start.addr() + self.len).next_multiple_of(rig_edge::WORD_BYTES);
        Span { len: if self.len == 0 { 0 } else { end - self.start.addr() }, ..self }
    }

    /// The bytes.
    pub(crate) fn read(self) -> Vec<u8> {
        let mut bytes = vec![0_u8; self.len];
        // SAFETY: invariant 1 for the source; the destination is a vector of this length; invariant 2.
        #[expect(unsafe_code, reason = "reads the model's memory")]
        unsafe {
            std::ptr::copy_nonoverlapping(self.start, bytes.as_mut_ptr(), self.len);
        }
        bytes
    }

    /// Writes `bytes` at the start.
    ///
    /// # Panics
    ///
    /// If there are more bytes than the span has.
    pub(crate) fn write(self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len, "{} bytes into {}", bytes.len(), self.len);
        // SAFETY: invariant 1 for the destination, which is long enough; invariant 2.
        #[expect(unsafe_code, reason = "writes the model's memory")]
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, bytes.len());
        }
    }

    /// Sets every byte.
    pub(crate) fn fill(self, byte: u8) {
        // SAFETY: invariants 1 and 2.
        #[expect(unsafe_code, reason = "writes the model's memory")]
        unsafe {
            std::ptr::write_bytes(self.start, byte, self.len);
        }
    }

    /// Copies all of `from`, which is as long.
    pub(crate) fn copy_from(self, from: Span) {
        // Through a vector: the ranges may overlap in a test that breaks its caller.
        self.write(&from.read());
    }
}
