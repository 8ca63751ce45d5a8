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

/// From this length on a block is pages of its own: the allocator would write all bytes of an aligned block to zero them.
#[cfg(target_os = "linux")]
const PAGES_FROM: usize = 1 << 20;

/// The least page of any system: what pages of the system's are aligned to.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

/// Memory of the host's that the model owns.
#[derive(Debug)]
pub(crate) struct Block {
    start: NonNull<u8>,
    len: usize,
    memory: Memory,
}

/// Where a block's bytes are from.
#[derive(Debug)]
enum Memory {
    Allocator(Layout),
    /// Pages that are zero for nothing: only those that are touched are memory of the system's.
    #[cfg(target_os = "linux")]
    Pages {
        _pages: memmap2::MmapMut,
    },
    /// A file of memory that stands for a dma-buf: it outlives the mapping where somebody holds its descriptor.
    #[cfg(target_os = "linux")]
    File {
        _pages: memmap2::MmapMut,
        file: std::fs::File,
    },
}

// SAFETY: a block owns its memory, and all access is by spans, whose invariants say who may when.
#[expect(unsafe_code, reason = "owned memory behind a pointer")]
unsafe impl Send for Block {}

impl Block {
    /// Zeroed memory of `len` bytes, or none.
    pub(crate) fn new(len: usize, alignment: usize) -> Option<Block> {
        #[cfg(target_os = "linux")]
        if len >= PAGES_FROM && alignment <= PAGE {
            let mut pages = memmap2::MmapMut::map_anon(len).ok()?;
            let start = NonNull::new(pages.as_mut_ptr())?;
            return Some(Block { start, len, memory: Memory::Pages { _pages: pages } });
        }
        let layout = Layout::from_size_align(len.max(1), alignment.max(LINE)).ok()?;
        // SAFETY: the layout has at least one byte.
        #[expect(unsafe_code, reason = "the model's memory is the host's")]
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Block { start, len: layout.size(), memory: Memory::Allocator(layout) })
    }

    /// Zeroed memory of `len` bytes in a file of memory, or none: where the system has no such files, or no memory. It starts
    /// a page, whatever the alignment of regions is.
    #[cfg(target_os = "linux")]
    pub(crate) fn in_file(len: usize) -> Option<Block> {
        let file = rustix::fs::memfd_create("rig-model", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
        let file = std::fs::File::from(file);
        file.set_len(len.max(1) as u64).ok()?;
        // SAFETY: the file is the model's own, and nobody makes it shorter: who gets its descriptor is a test of the
        // model's.
        #[expect(unsafe_code, reason = "the model's memory is the host's")]
        let mut pages = unsafe { memmap2::MmapMut::map_mut(&file) }.ok()?;
        let start = NonNull::new(pages.as_mut_ptr())?;
        Some(Block { start, len, memory: Memory::File { _pages: pages, file } })
    }

    /// A new descriptor of the block's file, which the caller owns; why there is none otherwise.
    pub(crate) fn descriptor(&self) -> Result<i32, String> {
        match &self.memory {
            #[cfg(target_os = "linux")]
            Memory::File { file, .. } => {
                let twin = file.try_clone().map_err(|why| format!("the memory's file gives no descriptor: {why}"))?;
                Ok(std::os::fd::IntoRawFd::into_raw_fd(twin))
            }
            _ => Err("the memory is in no file".into()),
        }
    }

    pub(crate) fn span(&self) -> Span {
        Span { start: self.start.as_ptr(), len: self.len, loses: Loses::default() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match self.memory {
            // SAFETY: `new` made it with this layout, and by invariant 1 nothing uses it any more.
            #[expect(unsafe_code, reason = "the model's memory is the host's")]
            Memory::Allocator(layout) => unsafe { dealloc(self.start.as_ptr(), layout) },
            #[cfg(target_os = "linux")]
            Memory::Pages { .. } | Memory::File { .. } => {}
        }
    }
}

/// Which accesses of a mapping get lost on their way, though nobody is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loses {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// What a read that got lost gives, as on PCI.
const LOST: u8 = 0xFF;

/// A range of memory that work may touch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: *mut u8,
    len: usize,
    loses: Loses,
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
        Span { start, len, loses: Loses::default() }
    }

    pub(crate) fn empty() -> Span {
        Span::of_host(NonNull::dangling().as_ptr(), 0)
    }

    /// The span as reached on a way that loses bytes.
    pub(crate) fn losing(self, loses: Loses) -> Span {
        Span { loses, ..self }
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
        (end <= self.len).then(|| Span { start: self.start.wrapping_add(at), len, ..self })
    }

    /// The span with all of its last word. It stays in the region, whose length is whole words.
    pub(crate) fn by_words(self) -> Span {
        let end = (self.start.addr() + self.len).next_multiple_of(rig_edge::WORD_BYTES);
        Span { len: if self.len == 0 { 0 } else { end - self.start.addr() }, ..self }
    }

    /// The bytes.
    pub(crate) fn read(self) -> Vec<u8> {
        let mut bytes = vec![LOST; self.len];
        if self.loses.reads {
            return bytes;
        }
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
        if self.loses.writes {
            return;
        }
        // SAFETY: invariant 1 for the destination, which is long enough; invariant 2.
        #[expect(unsafe_code, reason = "writes the model's memory")]
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, bytes.len());
        }
    }

    /// Sets every byte.
    pub(crate) fn fill(self, byte: u8) {
        if self.loses.writes {
            return;
        }
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
