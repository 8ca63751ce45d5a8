//! What millions of tiny buffers cost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::Buffer;
use rig_conformance::NullOpener;

/// Counts the bytes that the heap holds, with the 8 bytes that glibc keeps before each piece and its steps of 16.
struct Weighing;

static HELD: AtomicUsize = AtomicUsize::new(0);

fn weight(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: passes everything on to the system's allocator, and counts.
#[expect(unsafe_code, reason = "a counting allocator")]
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(weight(layout), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        HELD.fetch_sub(weight(layout), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Weighing = Weighing;

/// Promise C33.
#[test]
fn two_million_one_byte_buffers_cost_less_than_200_bytes_each_and_share_no_words() {
    const COUNT: usize = 2_000_000;
    let device = rig::open(NullOpener::new("NULL-SMALL")).unwrap();
    let mut buffers: Vec<Buffer> = Vec::with_capacity(COUNT);
    let before = HELD.load(Ordering::Relaxed);
    buffers.extend((0..COUNT).map(|_| device.buffer(1).unwrap()));
    // The vector's own room was made before; the handles in it count all the same.
    let each = (HELD.load(Ordering::Relaxed) - before) / COUNT + size_of::<Buffer>();
    println!("a buffer of 1 byte: {each} bytes, its memory in the region included");
    assert!(each < 200, "{each} bytes each");

    for (index, buffer) in buffers.iter().enumerate().step_by(997) {
        buffer.write(|byte: &mut [u8]| byte[0] = index as u8).unwrap();
    }
    for (index, buffer) in buffers.iter().enumerate().step_by(997) {
        buffer.read(|byte: &[u8]| assert_eq!(byte[0], index as u8)).unwrap();
    }
    let live = device.allocated();
    drop(buffers);
    assert_eq!(device.allocated(), 0);
    assert_eq!(device.cached(), live, "the regions went to the cache whole");
    device.set_budget(0);
    assert_eq!(device.cached(), 0, "and from there to the driver");
}
