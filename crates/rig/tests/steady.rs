//! What a steady submit costs in allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rig::{read, write};
use rig_conformance::NullOpener;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator, and counts.
#[expect(unsafe_code, reason = "a counting allocator")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> usize {
    let before = COUNT.with(Cell::get);
    f();
    COUNT.with(Cell::get) - before
}

/// Promise S09.
#[test]
fn a_steady_submit_makes_no_heap_allocation() {
    let device = rig::open(NullOpener::new("NULL-STEADY")).unwrap();
    let add = device.load(b"").unwrap().function("add").unwrap();
    let (x, y) = (device.buffer(4096).unwrap(), device.buffer(4096).unwrap());
    let submission = device
        .submission()
        .launch(&add, [read(0), write(1)])
        .launch(&add, [read(1), write(0)])
        .copy(0, 1)
        .make()
        .unwrap();
    let mut run = submission.take();
    let mut go = || {
        // SAFETY: the null driver runs nothing.
        #[expect(unsafe_code, reason = "a launch")]
        let point = unsafe { run.launch(&[&x, &y]) }.unwrap();
        point.wait().unwrap();
    };
    go();
    assert_eq!(allocations(|| (0..1000).for_each(|_| go())), 0);
    assert!(allocations(|| drop(Box::new(1))) > 0, "the counter counts");
}
