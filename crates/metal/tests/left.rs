//! What is left after much work: alone in its process, since objects are counted in all of it.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use rig::write;
use rig_metal_model::live;

use kit::machine::Mac;
use kit::{Kernels, grid, launch, library};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

/// Promise M65.
#[test]
fn after_a_hundred_thousand_launches_from_plain_threads_as_many_objects_live_as_before() {
    let mac = Mac::new();
    mac.machine.execution(false);
    let kernels = Kernels::new(mac.open());
    let iota = kernels.device.load(&library("suite")).unwrap().function("iota").unwrap();
    let work = |launches: usize| {
        // A thread without a pool: what a call autoreleases there would stay.
        std::thread::scope(|scope| {
            let one = || {
                scope.spawn(|| {
                    let y = kernels.device.buffer(4 * 16).unwrap();
                    let mut builder = kernels.device.submission();
                    for _ in 0..10 {
                        builder = builder.launch(&iota, [write(0)]);
                    }
                    let mut run = builder.make().unwrap().take();
                    for part in 0..10 {
                        grid(&mut run, part, 16).set(8, 16u32);
                    }
                    for submit in 0..launches / 40 {
                        let point = launch(&mut run, &[&y]).unwrap();
                        if submit % 100 == 99 {
                            point.wait().unwrap();
                        }
                    }
                    launch(&mut run, &[&y]).unwrap().wait().unwrap();
                })
            };
            let threads = [(); 4].map(|()| one());
            // Unlike the scope's end, a join waits for what a thread gives back last.
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        kernels.device.reclaim();
        mac.machine.settle();
    };
    let counted = || (live::objects(), live::blocks(), live::data(), live::unpooled());
    work(1000);
    let before = counted();
    work(100_000);
    assert_eq!(counted(), before, "objects, blocks, data, and what was autoreleased outside of pools");
}
