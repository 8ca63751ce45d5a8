//! What a steady submit allocates: as much as the bare messages do, which is software Metal's own.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "the test counts allocations, and binds a buffer")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use objc2::rc::autoreleasepool;
use rig_edge::{Driver, Submitted};
use rig_metal::sys::{
    MTLCommandBuffer, MTLCommandEncoder, MTLCommandQueue, MTLComputeCommandEncoder, MTLCreateSystemDefaultDevice,
    MTLDevice, MTLDispatchType, MTLResourceOptions, MTLSize,
};

use kit::direct::{Direct, ELEMENTS};
use kit::machine::Mac;

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SUBMITS: usize = 200;

fn counted(mut work: impl FnMut()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

/// Promise S09.
#[test]
fn a_launch_into_an_open_command_buffer_allocates_nothing_of_the_drivers() {
    let mac = Mac::new();
    mac.machine.execution(false);
    let mut direct = Direct::new();
    let mut step = direct.iota(1);
    mac.machine.hold();
    // Three behind, and one open, with its encoder and the driver's own thread-locals made.
    while direct.submit(&mut step) == Submitted::Committed {}
    let driver = counted(|| {
        for _ in 0..SUBMITS {
            assert_eq!(direct.submit(&mut step), Submitted::Encoded);
        }
    });
    let entry = direct.function("iota");
    let bare = autoreleasepool(|_| {
        let gpu = MTLCreateSystemDefaultDevice().unwrap();
        let queue = gpu.newCommandQueue().unwrap();
        let arena = gpu.newBufferWithLength_options(1 << 20, MTLResourceOptions::StorageModeShared).unwrap();
        let buffer = queue.commandBufferWithUnretainedReferences().unwrap();
        let encoder = buffer.computeCommandEncoderWithDispatchType(MTLDispatchType::Serial).unwrap();
        let one = MTLSize { width: 1, height: 1, depth: 1 };
        let mut send = |launch: usize| {
            autoreleasepool(|_| {
                encoder.setComputePipelineState(entry.pipeline());
                // SAFETY: the offset is in the buffer.
                unsafe { encoder.setBuffer_offset_atIndex(Some(&arena), 256 * launch, 0) };
                encoder.dispatchThreadgroups_threadsPerThreadgroup(one, MTLSize { width: ELEMENTS as usize, ..one });
            });
        };
        send(0);
        let bare = counted(|| (1..=SUBMITS).for_each(&mut send));
        encoder.endEncoding();
        bare
    });
    assert_eq!(driver, bare, "allocations in {SUBMITS} submits, and of their bare messages");
    direct.driver.commit(direct.last).unwrap();
    mac.machine.release();
    direct.wait(direct.last - direct.start);
    direct.close();
}
