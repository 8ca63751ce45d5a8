//! The system's allocator with a count of what each thread allocates: for tests that a steady submit allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts the allocations of each thread. A test binary makes it the global one:
///
/// ```
/// use rig_conformance::allocations::{self, Counting};
///
/// #[global_allocator]
/// static ALLOCATOR: Counting = Counting;
///
/// assert!(allocations::during(|| drop(Box::new(1))) > 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Counting;

// SAFETY: passes every call on to the system's allocator, unchanged.
#[expect(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(address, layout, size) }
    }
}

fn count() {
    // A thread that ends may allocate after its variables are gone.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

/// How many allocations the calling thread makes in `work`. Counts only where [`Counting`] is the global allocator.
pub fn during(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}
