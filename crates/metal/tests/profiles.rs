//! Profiles: when values ran, and what that costs.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rig::{Profile, write};
use rig_edge::times;
use rig_metal::Metal;

use kit::machine::{Mac, until};
use kit::{Kernels, grid, launch, words};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

/// A profile sees all devices of the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Promises M50, M51, E38.
#[test]
fn while_a_profile_is_taken_each_value_has_command_buffers_of_its_own_and_its_times_are_theirs() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(4 * 64).unwrap();
    kernels.iota(&y, 1).unwrap().wait().unwrap();
    mac.machine.settle();
    // Values before the profile fill the open command buffer.
    mac.machine.hold();
    (0..5).for_each(|start| assert!(kernels.iota(&y, start).is_ok()));
    let before = mac.machine.counts();
    assert_eq!(before.command_buffers - before.committed, 1, "two values are open");
    let ((), profile) = Profile::take(|| {
        let point = kernels.spin(&y, 1).unwrap();
        let first = mac.machine.counts();
        assert_eq!(first.committed, before.committed + 2, "the open one, then the value's own");
        kernels.spin(&y, 1).unwrap();
        kernels.spin(&y, 1).unwrap();
        assert_eq!(mac.machine.counts().committed, before.committed + 4, "each at once");
        mac.machine.release();
        assert!(times::now() > 0);
        point.wait().unwrap();
    })
    .unwrap();
    let ran: Vec<_> = profile.values.iter().map(|value| value.ran.unwrap()).collect();
    assert_eq!(ran.len(), 3);
    for (value, span) in profile.values.iter().zip(&ran) {
        assert!(span.start <= span.end && span.end <= profile.took + value.error, "{span:?} of {:?}", profile.took);
        assert!(value.error > Duration::ZERO, "the clocks are two");
    }
    assert!(ran.windows(2).all(|pair| pair[0].end <= pair[1].start), "one after the other: {ran:?}");
    // Batching is back after it.
    mac.machine.hold();
    let before = mac.machine.counts().command_buffers;
    (0..10).for_each(|start| assert!(kernels.iota(&y, start).is_ok()));
    assert_eq!(mac.machine.counts().command_buffers, before + 4);
    mac.machine.release();
    assert_eq!(words(&y)[1], 10);
}

/// Promise M50.
#[test]
fn a_values_times_reach_from_its_first_command_buffer_to_its_last() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let spin = kernels.device.load(&kit::library("suite")).unwrap().function("spin").unwrap();
    let y = kernels.device.buffer(4 * 64).unwrap();
    kernels.iota(&y, 1).unwrap().wait().unwrap();
    mac.machine.settle();
    let submission = kernels
        .device
        .submission()
        .launch(&spin, [write(0)])
        .fill::<Metal>([write(0)], |encoder, _| (0..3).try_for_each(|_| encoder.next_buffer()))
        .launch(&spin, [write(0)])
        .make()
        .unwrap();
    let mut run = submission.take();
    for part in [0, 2] {
        grid(&mut run, part, 64).set(8, 64u32).set(12, 1u32);
    }
    mac.machine.hold();
    let before = mac.machine.counts();
    let (between, profile) = Profile::take(|| {
        let point = launch(&mut run, &[&y]).unwrap();
        assert_eq!(mac.machine.counts().committed, before.committed + 4, "the fill started three more");
        mac.machine.release_one();
        until("the end of the first", || mac.machine.counts().completed == before.completed + 1);
        let between = Instant::now();
        // TIMEOUT: time that lies between the first and the last, far more than any of them takes.
        std::thread::sleep(Duration::from_millis(50));
        let between = between.elapsed();
        mac.machine.release();
        point.wait().unwrap();
        between
    })
    .unwrap();
    let value = &profile.values[0];
    let took = value.ran.unwrap().took();
    assert!(took + 2 * value.error >= between, "{took:?} with {between:?} between the first and the last");
}

/// Promise M50.
#[test]
fn a_value_that_failed_has_no_times() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(4 * 64).unwrap();
    kernels.iota(&y, 1).unwrap().wait().unwrap();
    mac.machine.settle();
    mac.machine.faults().fail_command_buffer(1, rig_metal_model::machine::Failure::Timeout);
    let (point, profile) = Profile::take(|| kernels.iota(&y, 1).unwrap()).unwrap();
    assert!(point.wait().is_err());
    assert_eq!(profile.values[0].ran, None);
    assert!(profile.values[0].lost);
}
