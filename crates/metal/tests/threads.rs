//! Many threads, two devices of one GPU, and what is left after them.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use rig_metal_model::machine::{Handlers, Machine};

use kit::machine::{Mac, until};
use kit::{Kernels, spun, words};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

/// Promises C03, S08.
#[test]
fn fifty_threads_work_on_two_devices_of_one_gpu_and_all_of_it_is_right() {
    let mac = Mac::of(Machine::builder().seed(8).delays(Duration::from_micros(20)));
    mac.machine.handlers(Handlers::OtherThreads(4));
    let devices = [Kernels::new(mac.open()), Kernels::new(mac.open())];
    let shared = devices[0].device.buffer(4 * 64).unwrap();
    let borrowed = shared.borrow(&devices[1].device);
    std::thread::scope(|scope| {
        for thread in 0..50u32 {
            let (kernels, shared) = (&devices[thread as usize % 2], &shared);
            let borrowed = borrowed.as_ref();
            scope.spawn(move || {
                let y = kernels.device.buffer(4 * 100).unwrap();
                for round in 0..20 {
                    kernels.iota(&y, thread * 1000 + round).unwrap();
                    kernels.spin(&y, 2).unwrap();
                    // One buffer that all threads write: whole values, in some order.
                    if thread.is_multiple_of(2) {
                        kernels.iota(shared, thread).unwrap();
                    } else if let Ok(borrowed) = borrowed {
                        kernels.iota(borrowed, thread).unwrap();
                    }
                    if round % 7 == 0 {
                        assert_eq!(words(&y)[99], spun(thread * 1000 + round + 99, 2));
                    }
                }
                assert_eq!(words(&y)[5], spun(thread * 1000 + 19 + 5, 2));
            });
        }
    });
    let seen = words(&shared);
    assert!(seen[0] < 50 && seen.iter().enumerate().all(|(i, &word)| word == seen[0] + i as u32), "{seen:?}");
}

#[test]
fn threads_load_and_resolve_while_others_work_and_close() {
    let mac = Mac::of(Machine::builder().compile_time(Duration::from_millis(2)));
    let device = mac.open();
    let machine = &mac.machine;
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let device = &device;
            scope.spawn(move || {
                let _entered = machine.enter();
                for round in 0..5 {
                    let kernels = Kernels::new(if thread.is_multiple_of(2) {
                        device.clone()
                    } else {
                        rig::open(rig_metal::gpu(0)).unwrap()
                    });
                    let y = kernels.device.buffer(256).unwrap();
                    kernels.iota(&y, round).unwrap();
                    assert_eq!(words(&y)[7], round + 7);
                    if thread % 2 == 1 && round % 2 == 0 {
                        kernels.device.close();
                    }
                }
            });
        }
    });
    drop(device);
    mac.machine.settle();
    until("all to be released", || {
        drop(mac.open());
        mac.machine.settle();
        mac.live("Queue") == 0 && mac.live("Buffer") == 0
    });
}
