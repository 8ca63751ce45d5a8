//! The system's allocator with a count of the bytes that a thread holds, and the most that it has held.
//!
//! What a thread frees of another's counts as its own, so a measure is of work on one thread. Memory that is not the Rust
//! heap's (LLVM's, mapped pages) is not seen.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The allocator. Measures are zero where it is not the global one.
#[derive(Clone, Copy, Debug)]
pub struct Heap;

// SAFETY: passes every call on to the system's allocator, unchanged.
#[expect(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While bytes move, both places are held.
        add(size as isize);
        add(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.realloc(address, layout, size) }
    }
}

fn add(bytes: isize) {
    // A thread that ends may allocate after its variables are gone.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

/// The most bytes that `work` holds at one time on this thread, beside what was held before it.
pub fn peak(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    work();
    usize::try_from(PEAK.get() - before).unwrap_or(0)
}
