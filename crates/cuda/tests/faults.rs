//! Faults, each in a process of its own: after CUDA's sticky errors only a new process recovers.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod gpu;

use std::time::{Duration, Instant};

use gpu::{in_child, launch, run};
use rig::{Device, Error, write};

/// The reason of a loss.
#[track_caller]
fn lost<T>(answer: rig::Result<T>) -> String {
    match answer {
        Err(Error::Lost { why, .. }) => why.to_string(),
        Err(other) => panic!("Lost was due, not {other:?}"),
        Ok(_) => panic!("Lost was due, not an answer"),
    }
}

/// Runs a kernel that faults, and sees what becomes of the device, of another on the GPU, of the host's cores, and of a
/// later open.
fn faults(kernel: &str, says: &str) {
    let device = rig::open(rig_cuda::gpu(0)).unwrap();
    let other = rig::open(rig_cuda::gpu(rig_cuda::count() - 1)).unwrap();
    let cores = rig::open(rig_host::cores()).unwrap();
    let image = device.load(gpu::TEST).unwrap();
    let (y, z, c) = (device.buffer(64).unwrap(), other.buffer(64).unwrap(), cores.buffer(64).unwrap());
    y.memset(1).unwrap();
    z.memset(1).unwrap();
    let mut bad = run(&image, kernel, [write(0)]);
    bad.part(0).groups([1; 3]).threads([1; 3]);
    let start = Instant::now();
    let why = lost(launch(&mut bad, &[&y]).and_then(|point| point.wait()));
    println!("{kernel}: lost after {:?}: {why}", start.elapsed());
    assert!(why.contains(says), "{why}");
    assert_eq!(lost(y.read(|_: &[u8]| ())), why);
    assert_eq!(lost(z.memset(2)), why, "every CUDA device of the process has the first reason");
    assert_eq!(device.lost().as_deref(), Some(&*why));
    let Err(Error::Refused(refusal)) = rig::open(rig_cuda::gpu(0)) else { panic!("CUDA is over in this process") };
    assert!(refusal.contains(&why) && refusal.contains("a new process recovers"), "{refusal}");
    c.memset(7).unwrap();
    c.read(|c: &[u8]| assert!(c.iter().all(|&byte| byte == 7), "devices of other drivers go on")).unwrap();
    device.close();
    drop((y, z, image, bad, other));
}

/// Promise N06.
#[test]
fn an_illegal_address_loses_every_cuda_device_and_later_opens_are_refused() {
    in_child("an_illegal_address_loses_every_cuda_device_and_later_opens_are_refused", || {
        faults("wild", "CUDA_ERROR_ILLEGAL_ADDRESS");
    });
}

/// Promise N06.
#[test]
fn a_trap_loses_every_cuda_device_and_later_opens_are_refused() {
    in_child("a_trap_loses_every_cuda_device_and_later_opens_are_refused", || faults("trap", "CUDA_ERROR_"));
}

/// Promise N06.
#[test]
fn a_failed_assertion_loses_every_cuda_device_and_later_opens_are_refused() {
    in_child("a_failed_assertion_loses_every_cuda_device_and_later_opens_are_refused", || {
        faults("assertion", "CUDA_ERROR_ASSERT");
    });
}

/// Promises N06, C20.
#[test]
fn an_endless_kernel_is_found_by_the_hang_bound() {
    in_child("an_endless_kernel_is_found_by_the_hang_bound", || {
        let bound = Duration::from_millis(1500);
        let device: Device = rig::open(rig_cuda::gpu(0).hang(Some(bound))).unwrap();
        let image = device.load(gpu::TEST).unwrap();
        let y = device.buffer(64).unwrap();
        y.memset(0).unwrap();
        let mut endless = run(&image, "forever", [write(0)]);
        endless.part(0).groups([1; 3]).threads([1; 3]);
        let start = Instant::now();
        let why = lost(launch(&mut endless, &[&y]).and_then(|point| point.wait()));
        let took = start.elapsed();
        assert!(why.contains("hung"), "{why}");
        assert!(took >= bound && took < bound * 4, "{took:?}");
        // The kernel runs on: nothing here may wait for it.
        device.close();
        println!("hung after {took:?}: {why}");
        // What of the process's end waits for the GPU is CUDA's: leave without it.
        println!("test result: ok. 1 passed");
        std::process::exit(0);
    });
}

/// Promises C23, N07.
#[test]
fn a_fill_that_fails_loses_the_device_with_its_words_and_opens_go_on() {
    in_child("a_fill_that_fails_loses_the_device_with_its_words_and_opens_go_on", || {
        let device = rig::open(rig_cuda::gpu(0)).unwrap();
        let y = device.buffer(64).unwrap();
        let fill = device.submission().fill::<rig_cuda::Cuda>([write(0)], |_, _| Err("no such algorithm".into()));
        let why = lost(launch(&mut fill.make().unwrap().take(), &[&y]));
        assert!(why.contains("no such algorithm"), "{why}");
        device.close();
        let again = rig::open(rig_cuda::gpu(0)).unwrap();
        let y = again.buffer(64).unwrap();
        y.memset(3).unwrap();
        y.read(|y: &[u8]| assert_eq!(y, [3; 64])).unwrap();
    });
}
