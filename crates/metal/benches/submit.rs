//! What a launch costs the host: the driver's room and submit, encoded into an open command buffer, beside a loop of the bare
//! messages in the same run. On software Metal, whose GPU runs nothing meanwhile.
//!
//! `cargo bench -p rig-metal --features model`
#![cfg_attr(feature = "model", expect(clippy::unwrap_used, reason = "a bench"))]

#[cfg(not(all(feature = "model", target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("the bench runs on software Metal: --features model, on x86-64 Linux");
}

#[cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#[expect(dead_code, reason = "the bench uses some of it")]
#[path = "../tests/kit/mod.rs"]
mod kit;

#[cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
fn main() {
    bench::run();
}

#[cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
mod bench {
    use std::time::{Duration, Instant};

    use objc2::rc::autoreleasepool;
    use rig_edge::{Driver, Submitted};
    use rig_metal::sys::{
        MTLCommandBuffer, MTLCommandEncoder, MTLCommandQueue, MTLComputeCommandEncoder, MTLCreateSystemDefaultDevice,
        MTLDevice, MTLDispatchType, MTLResourceOptions, MTLSize,
    };

    use crate::kit::direct::{Direct, ELEMENTS};
    use crate::kit::machine::Mac;

    const ROUNDS: usize = 2000;
    const SUBMITS: usize = 200;

    /// The least and the middle of some times, a launch.
    fn of(mut times: Vec<Duration>, launches: usize) -> (f64, f64) {
        times.sort_unstable();
        let each = |time: Duration| time.as_secs_f64() * 1e9 / launches as f64;
        (each(times[0]), each(times[times.len() / 2]))
    }

    /// The messages of a launch, and no more.
    fn bare(direct: &Direct) -> (f64, f64) {
        let entry = direct.function("iota");
        let gpu = MTLCreateSystemDefaultDevice().unwrap();
        let queue = gpu.newCommandQueue().unwrap();
        let arena = gpu.newBufferWithLength_options(1 << 20, MTLResourceOptions::StorageModeShared).unwrap();
        let one = MTLSize { width: 1, height: 1, depth: 1 };
        let threads = MTLSize { width: ELEMENTS as usize, ..one };
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            autoreleasepool(|_| {
                let buffer = queue.commandBufferWithUnretainedReferences().unwrap();
                let encoder = buffer.computeCommandEncoderWithDispatchType(MTLDispatchType::Serial).unwrap();
                let start = Instant::now();
                for launch in 0..SUBMITS {
                    encoder.setComputePipelineState(entry.pipeline());
                    // SAFETY: the offset is in the buffer.
                    #[expect(unsafe_code, reason = "binds a buffer")]
                    unsafe {
                        encoder.setBuffer_offset_atIndex(Some(&arena), 256 * launch, 0);
                    }
                    encoder.dispatchThreadgroups_threadsPerThreadgroup(one, threads);
                }
                times.push(start.elapsed());
                encoder.endEncoding();
            });
        }
        of(times, SUBMITS)
    }

    /// Submits of some launches each, into an open command buffer.
    fn submits(mac: &Mac, direct: &mut Direct, launches: usize) -> (f64, f64) {
        let mut step = direct.step("iota", &vec![[ELEMENTS, 1]; launches]);
        // The arena, and command buffers that keep the driver from committing.
        direct.submit(&mut step);
        let mut times = Vec::new();
        let submits = SUBMITS / launches;
        for _ in 0..ROUNDS {
            mac.machine.hold();
            direct.driver.commit(direct.last).unwrap();
            while direct.submit(&mut step) == Submitted::Committed {}
            let start = Instant::now();
            for _ in 0..submits {
                assert_eq!(direct.submit(&mut step), Submitted::Encoded);
            }
            times.push(start.elapsed());
            direct.driver.commit(direct.last).unwrap();
            mac.machine.release();
            direct.wait(direct.last - direct.start);
        }
        of(times, submits * launches)
    }

    pub fn run() {
        let mac = Mac::new();
        mac.machine.execution(false);
        let mut direct = Direct::new();
        let floor = bare(&direct);
        println!("{:<34} {:>8} {:>8}", "ns a launch", "least", "median");
        println!("{:<34} {:>8.1} {:>8.1}", "the bare messages", floor.0, floor.1);
        for launches in [1, 4, 40] {
            let cost = submits(&mac, &mut direct, launches);
            let own = (cost.0 - floor.0, cost.1 - floor.1);
            println!("{:<34} {:>8.1} {:>8.1}", format!("submits of {launches} launches"), cost.0, cost.1);
            println!("{:<34} {:>8.1} {:>8.1}", "  above the messages", own.0, own.1);
        }
        direct.close();
    }
}
