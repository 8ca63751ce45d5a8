//! The memory of buffers: host pages, at addresses that find mistakes.
//!
//! A buffer of a page or more has a mapping of its own between two pages that nothing may touch. Smaller ones share a
//! mapping, each at a multiple of 256 bytes with at least 256 bytes that belong to nobody behind it. Memory is zero when it
//! is handed out; what small buffers gave back is used again last of all.
//!
//! # Invariants
//!
//! 1. A [`Memory`]'s bytes belong to it alone until it is dropped, and are mapped until then. Those of the program's own
//!    pages (`Host`) belong to the program, which keeps them until the buffer's deallocator has run.
//! 2. `Heap::allocated` is the sum of the lengths of what lives.
//!
//! Threads: the heap is behind the machine's lock. What a buffer's bytes hold is between the program and its kernels.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::c_void,
    ptr,
};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// A page of the host's.
pub(crate) const PAGE: usize = 4096;

/// Where small buffers start, and the room behind them that belongs to nobody.
const GRAIN: usize = 256;

/// A mapping that small buffers share.
const SLAB: usize = 256 << 10;

/// How far off a multiple of 256 bytes a misplaced buffer lies. It stays fit for any type of Metal's.
const MISPLACED: usize = 64;

/// Bytes of a buffer.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The first byte, a host address.
    pub(crate) address: usize,
    pub(crate) len: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A mapping of its own: where it starts, and its bytes, the guards included.
    Mapped { base: usize, bytes: usize },
    /// A piece of a slab: where it starts, and its bytes, the room behind included.
    Piece { base: usize, bytes: usize },
    /// The program's own.
    Host,
}

/// What buffers take memory from.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    allocated: u64,
    /// Where the next piece of the newest slab starts, and the slab's end.
    next: usize,
    end: usize,
    /// Slabs, kept until the machine is gone.
    slabs: Vec<usize>,
    /// Pieces given back, the oldest first, by their bytes.
    spare: BTreeMap<usize, VecDeque<usize>>,
}

impl Heap {
    /// Bytes of the buffers that live.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Zeroed memory, or none where `limit` bytes would be passed or the system has no more.
    pub(crate) fn allocate(&mut self, len: usize, misplaced: bool, limit: u64) -> Option<Memory> {
        if self.allocated.checked_add(len as u64).is_none_or(|all| all > limit) {
            return None;
        }
        let off = if misplaced { MISPLACED } else { 0 };
        let memory = if len + off < PAGE { self.piece(len, off) } else { mapped(len, off) }?;
        self.allocated += len as u64;
        Some(memory)
    }

    /// The program's own pages.
    pub(crate) fn wrap(&mut self, address: usize, len: usize, limit: u64) -> Option<Memory> {
        if self.allocated.checked_add(len as u64).is_none_or(|all| all > limit) {
            return None;
        }
        self.allocated += len as u64;
        Some(Memory { address, len, kind: Kind::Host })
    }

    fn piece(&mut self, len: usize, off: usize) -> Option<Memory> {
        let bytes = (len + off).next_multiple_of(GRAIN) + GRAIN;
        // Half a slab of spare pieces first, so that a stale pointer finds nobody's memory for a while.
        let spare = self.spare.get_mut(&bytes).filter(|spare| spare.len() * bytes > SLAB / 2);
        let base = if let Some(base) = spare.and_then(VecDeque::pop_front) {
            // SAFETY: the piece lies within a slab, which is mapped, and nobody has it: it was among the spare ones.
            unsafe { ptr::write_bytes(base as *mut u8, 0, bytes) };
            base
        } else {
            if self.end - self.next < bytes {
                let slab = map(SLAB + 2 * PAGE)?;
                if !open(slab + PAGE, SLAB) {
                    return None;
                }
                self.slabs.push(slab);
                (self.next, self.end) = (slab + PAGE, slab + PAGE + SLAB);
            }
            let base = self.next;
            self.next += bytes;
            base
        };
        Some(Memory { address: base + off, len, kind: Kind::Piece { base, bytes } })
    }

    /// Takes memory back.
    pub(crate) fn free(&mut self, memory: Memory) {
        self.allocated -= memory.len as u64;
        match memory.kind {
            Kind::Mapped { base, bytes } => unmap(base, bytes),
            Kind::Piece { base, bytes } => self.spare.entry(bytes).or_default().push_back(base),
            Kind::Host => {}
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for slab in &self.slabs {
            unmap(*slab, SLAB + 2 * PAGE);
        }
    }
}

/// A mapping between two guards.
fn mapped(len: usize, off: usize) -> Option<Memory> {
    let inner = len.checked_add(off)?.checked_next_multiple_of(PAGE)?;
    let bytes = inner.checked_add(2 * PAGE)?;
    let base = map(bytes)?;
    if !open(base + PAGE, inner) {
        unmap(base, bytes);
        return None;
    }
    Some(Memory { address: base + PAGE + off, len, kind: Kind::Mapped { base, bytes } })
}

/// Pages that nothing may touch.
fn map(bytes: usize) -> Option<usize> {
    // SAFETY: a new mapping, where the system has room.
    let base =
        unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE) };
    base.ok().map(|base| base as usize)
}

/// Makes pages of a new mapping readable and writable.
fn open(base: usize, bytes: usize) -> bool {
    // SAFETY: the pages are within a mapping that `map` made and nobody uses yet.
    unsafe { mprotect(base as *mut c_void, bytes, MprotectFlags::READ | MprotectFlags::WRITE) }.is_ok()
}

fn unmap(base: usize, bytes: usize) {
    // SAFETY: the mapping is `map`'s, whole, and its buffers are gone.
    let unmapped = unsafe { munmap(base as *mut c_void, bytes) };
    debug_assert!(unmapped.is_ok(), "a mapping of {bytes} bytes is given back whole");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(memory: &Memory, byte: u8) -> bool {
        // SAFETY: the memory is this test's.
        unsafe { std::slice::from_raw_parts(memory.address as *const u8, memory.len) }.iter().all(|held| *held == byte)
    }

    fn fill(memory: &Memory, byte: u8) {
        // SAFETY: the memory is this test's.
        unsafe { ptr::write_bytes(memory.address as *mut u8, byte, memory.len) };
    }

    #[test]
    fn memory_is_zero_and_placed_at_256_or_at_a_page_and_comes_back() {
        let mut heap = Heap::default();
        let mut kept = Vec::new();
        for len in [1, 4, 256, 300, 4095, 4096, 5000, 1 << 20] {
            let memory = heap.allocate(len, false, u64::MAX).expect("memory");
            assert_eq!(memory.address % if len < PAGE { GRAIN } else { PAGE }, 0, "{len}");
            assert!(is(&memory, 0), "{len}");
            fill(&memory, 7);
            kept.push(memory);
        }
        assert!(kept.iter().all(|memory| is(memory, 7)), "none lies over another");
        for memory in kept {
            heap.free(memory);
        }
        assert_eq!(heap.allocated(), 0);
    }

    #[test]
    fn small_memory_is_zero_when_it_is_handed_out_again() {
        let mut heap = Heap::default();
        for _ in 0..2000 {
            let memory = heap.allocate(256, false, u64::MAX).expect("memory");
            assert!(is(&memory, 0));
            fill(&memory, 9);
            heap.free(memory);
        }
        assert_eq!(heap.slabs.len(), 1, "pieces are used again");
    }

    #[test]
    fn the_limit_holds_and_misplaced_memory_is_off_256() {
        let mut heap = Heap::default();
        assert!(heap.allocate(1001, false, 1000).is_none());
        for len in [16, 100_000] {
            let memory = heap.allocate(len, true, u64::MAX).expect("memory");
            assert_ne!(memory.address % GRAIN, 0);
            heap.free(memory);
        }
    }
}
