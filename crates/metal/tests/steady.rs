//! What a steady submit allocates: as much as the bare messages do, which is software Metal's own.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "the test counts allocations, and binds a buffer")]

use objc2::rc::autoreleasepool;
use rig_conformance::allocations::{self, Counting};
use rig_edge::{Driver, Submitted};
use rig_metal::sys::{
    MTLCommandBuffer, MTLCommandEncoder, MTLCommandQueue, MTLComputeCommandEncoder, MTLCreateSystemDefaultDevice,
    MTLDevice, MTLDispatchType, MTLResourceOptions, MTLSize,
};

use kit::direct::{Direct, ELEMENTS};
use kit::machine::Mac;

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SUBMITS: usize = 200;

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
    let driver = allocations::during(|| {
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
        let bare = allocations::during(|| (1..=SUBMITS).for_each(&mut send));
        encoder.endEncoding();
        bare
    });
    assert_eq!(driver, bare, "allocations in {SUBMITS} submits, and of their bare messages");
    direct.driver.commit(direct.last).unwrap();
    mac.machine.release();
    direct.wait(direct.last - direct.start);
    direct.close();
}
