//! Failure: submits that fail at once, command buffers that fail later, and what is kept of it.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use rig::Error;
use rig_edge::{Driver, Fault, Sleep, Submitted};
use rig_metal::Metal;
use rig_metal_model::machine::{Failure, Handlers, What};

use kit::direct::Direct;
use kit::machine::{Mac, until};
use kit::{Kernels, launch, lost, words};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

#[track_caller]
fn failed(answer: Submitted) -> Fault {
    match answer {
        Submitted::Failed(fault) => fault,
        other => panic!("a failure was due, not {other:?}"),
    }
}

fn sleep(direct: &Direct, still: Duration) -> Result<(), Fault> {
    direct.driver.sleep(Sleep { seen: direct.word().load(), until: direct.last, still, help: false })
}

/// Promises M60, M62.
#[test]
fn a_fill_that_fails_drops_the_open_command_buffer_with_all_that_it_holds() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    for start in 0..3 {
        direct.submit(&mut direct.iota(10 * start));
    }
    // Two values in the open command buffer, and then the fill's, after a launch of its own.
    direct.submit(&mut direct.iota(100));
    direct.submit(&mut direct.iota(200));
    let mut step = direct.iota(300);
    step.fill(Box::new(|_, _| Err("the fill's own reason".into())));
    let fault = failed(direct.submit(&mut step));
    assert_eq!(fault.reason, "the fill's own reason");
    assert_eq!(mac.machine.counts().committed, 3);
    mac.machine.release();
    until("the completions", || mac.machine.counts().handlers == 3);
    assert_eq!(direct.words()[1], 21, "what was committed has run, and nothing after it");
    assert_eq!(direct.shown(), 0, "no handler stores into the word any more");
    // The first failure stays.
    assert_eq!(failed(direct.submit(&mut direct.iota(1))), fault);
    assert_eq!(direct.driver.commit(direct.last).unwrap_err(), fault);
    let start = Instant::now();
    assert_eq!(sleep(&direct, Duration::from_secs(60)).unwrap_err(), fault);
    assert!(start.elapsed() < Duration::from_secs(30), "at once");
    assert_eq!(sleep(&direct, Duration::ZERO).unwrap_err(), fault, "every time");
    assert_eq!(mac.machine.counts().committed, 3, "nothing runs");
    direct.driver.stop(Some(&fault.reason)).unwrap();
    assert_eq!(direct.word().load(), direct.last, "the last value given to submit, though that submit failed");
    direct.give_back();
}

/// Promise M37.
#[test]
fn after_a_submit_that_failed_no_handler_stores_until_stop() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.handlers(Handlers::Hold);
    direct.submit(&mut direct.iota(1));
    direct.submit(&mut direct.iota(2));
    until("both", || mac.machine.held_handlers() == 2);
    failed(direct.submit(&mut direct.fill(|_, _| Err("no".into()))));
    mac.machine.release_handler(0);
    until("the handler", || mac.machine.counts().handlers == 1);
    assert_eq!(direct.shown(), 0, "though its command buffer succeeded");
    direct.driver.stop(None).unwrap();
    assert_eq!(direct.shown(), 0);
    mac.machine.release_handler(0);
    until("the end", || direct.shown() == 3);
    direct.give_back();
}

/// Promise M60.
#[test]
fn whatever_metal_refuses_or_raises_in_a_submit_fails_it_and_leaves_nothing() {
    let refusals = [(What::CommandBuffer, false), (What::Encoder, false)];
    let raises = [What::CommandBuffer, What::Encoder, What::Set, What::Dispatch, What::EndEncoding, What::Commit];
    for (what, throws) in refusals.into_iter().chain(raises.map(|what| (what, true))) {
        let mac = Mac::new();
        let mut direct = Direct::new();
        // The arena is there, and the device has worked.
        direct.submit(&mut direct.iota(1));
        direct.driver.commit(direct.last).unwrap();
        direct.wait(1);
        let faults = mac.machine.faults();
        if throws {
            faults.throw(what, 1)
        } else {
            faults.refuse(what, 1)
        };
        let fault = failed(direct.submit(&mut direct.iota(2)));
        let due = if throws { "exception" } else { "Metal makes no" };
        assert!(fault.reason.contains(due), "{what:?}: {fault}");
        assert_eq!(mac.machine.counts().committed, 1, "{what:?}");
        assert_eq!(direct.driver.commit(direct.last).unwrap_err(), fault);
        direct.close();
        mac.ends();
    }
}

/// Promises M60, E41.
#[test]
fn an_exception_in_a_commit_fails_the_commit_and_in_a_handler_the_device() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    (0..4).for_each(|_| drop(direct.submit(&mut direct.iota(1))));
    mac.machine.faults().throw(What::Commit, 1);
    let fault = direct.driver.commit(direct.last).unwrap_err();
    assert!(fault.reason.contains("exception"), "{fault}");
    mac.machine.release();
    direct.close();

    let mut direct = Direct::new();
    mac.machine.hold();
    (0..4).for_each(|_| drop(direct.submit(&mut direct.iota(1))));
    mac.machine.faults().throw(What::Commit, 1);
    mac.machine.release_one();
    let fault = loop {
        if let Err(fault) = sleep(&direct, Duration::from_secs(1)) {
            break fault;
        }
    };
    assert!(fault.reason.contains("exception"), "{fault}");
    mac.machine.release();
    direct.close();
}

/// Promise M60.
#[test]
fn an_exception_or_a_panic_in_a_fill_fails_the_submit() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.faults().throw(What::Dispatch, 1);
    let entry = direct.function("iota");
    let fault = failed(direct.submit(&mut direct.fill(move |encoder, _| {
        use rig_metal::sys::MTLComputeCommandEncoder;
        let one = rig_metal::sys::MTLSize { width: 1, height: 1, depth: 1 };
        let compute = encoder.compute()?;
        compute.setComputePipelineState(entry.pipeline());
        compute.dispatchThreadgroups_threadsPerThreadgroup(one, one);
        panic!("Metal was to raise before");
    })));
    assert!(fault.reason.contains("exception"), "{fault}");
    direct.close();
    let mut direct = Direct::new();
    let fault = failed(direct.submit(&mut direct.fill(|_, _| panic!("a panic of the fill's"))));
    assert!(fault.reason.contains("a panic of the fill's"), "{fault}");
    direct.close();
    mac.ends();
}

/// Promises M33, M61.
#[test]
fn a_command_buffer_that_fails_in_the_middle_of_three_stores_nothing_nor_does_the_third() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    mac.machine.faults().fail_command_buffer(2, Failure::PageFault);
    (0..3).for_each(|start| drop(direct.submit(&mut direct.iota(start))));
    mac.machine.release_one();
    direct.wait(1);
    mac.machine.release();
    until("all three", || mac.machine.counts().handlers == 3);
    assert_eq!(direct.shown(), 1, "the third succeeded, and stores nothing");
    let fault = sleep(&direct, Duration::from_secs(60)).unwrap_err();
    assert_eq!(fault.reason, format!("the GPU's work failed: {}", Failure::PageFault.description()));
    assert_eq!(direct.shown(), 1);
    direct.driver.stop(None).unwrap();
    assert_eq!(direct.shown(), 3);
    direct.give_back();
}

/// Promises M61, M67.
#[test]
fn work_that_metal_ends_because_it_ran_too_long_ends_the_wait_with_the_reason() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(256).unwrap();
    mac.machine.hold();
    mac.machine.faults().fail_command_buffer(1, Failure::Timeout);
    let point = kernels.iota(&y, 1).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || point.wait());
        // TIMEOUT: time enough for a wait that ends too early.
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiter.is_finished(), "a wait lasts until Metal reports");
        mac.machine.release();
        let why = lost(waiter.join().unwrap());
        assert_eq!(why, format!("the GPU's work failed: {}", Failure::Timeout.description()));
    });
}

/// Promise M66.
#[test]
fn a_failed_device_is_live_until_the_next_sleep_submit_or_commit() {
    let mac = Mac::new();
    for call in ["sleep", "submit", "commit"] {
        let kernels = Kernels::new(mac.open());
        let y = kernels.device.buffer(256).unwrap();
        mac.machine.faults().fail_command_buffer(1, Failure::Internal);
        let handlers = mac.machine.counts().handlers;
        let point = kernels.iota(&y, 1).unwrap();
        until("the failure", || mac.machine.counts().handlers == handlers + 1);
        assert!(kernels.device.lost().is_none(), "live");
        kernels.device.buffer(1 << 20).unwrap();
        kernels.device.load(&kit::library("test")).unwrap();
        assert!(!point.reached().unwrap());
        assert!(kernels.device.lost().is_none(), "reached alone loses nothing");
        let answer = match call {
            "submit" => kernels.device.submission().make().unwrap().take().submit(&[]).map(drop),
            // A wait commits first, and sleeps then.
            _ => point.wait(),
        };
        assert!(lost(answer).starts_with("the GPU's work failed"), "{call}");
        assert!(kernels.device.lost().is_some());
    }
}

/// Promise M62.
#[test]
fn the_first_failure_is_the_one_that_stays() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    mac.machine.faults().fail_command_buffer(1, Failure::Timeout);
    mac.machine.faults().fail_command_buffer(2, Failure::OutOfMemory);
    (0..2).for_each(|start| drop(direct.submit(&mut direct.iota(start))));
    mac.machine.release();
    until("both", || mac.machine.counts().handlers == 2);
    let fault = failed(direct.submit(&mut direct.fill(|_, _| Err("later".into()))));
    assert!(fault.reason.contains(Failure::Timeout.description()), "{fault}");
    direct.close();
}

/// Promise M60.
#[test]
fn a_failure_that_a_handler_records_while_a_submit_encodes_fails_that_submit() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    mac.machine.faults().fail_command_buffer(1, Failure::Internal);
    direct.submit(&mut direct.iota(1));
    let machine = mac.machine.clone();
    let fault = failed(direct.submit(&mut direct.fill(move |_, _| {
        machine.release();
        until("the failure", || machine.counts().handlers == 1);
        Ok(())
    })));
    assert!(fault.reason.starts_with("the GPU's work failed"), "{fault}");
    assert_eq!(mac.machine.counts().committed, 1);
    direct.close();
}

/// Promises M63, C15.
#[test]
fn a_sleep_of_a_second_uses_next_to_no_processor_time() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    direct.submit(&mut direct.iota(1));
    let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (before, start) = (used(), Instant::now());
    sleep(&direct, Duration::from_secs(1)).unwrap();
    let after = used();
    assert!(start.elapsed() >= Duration::from_secs(1), "nothing moved the word");
    let nanoseconds = (after.tv_sec - before.tv_sec) * 1_000_000_000 + (after.tv_nsec - before.tv_nsec);
    assert!(nanoseconds < 5_000_000, "{nanoseconds} ns");
    mac.machine.release();
    direct.wait(1);
    direct.close();
}

/// Promise M63.
#[test]
fn a_sleep_ends_when_the_word_moves_at_once_if_it_has_and_is_invalid_after_stop() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    direct.submit(&mut direct.iota(1));
    let long = Sleep { seen: direct.start, until: direct.last, still: Duration::MAX, help: false };
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| direct.driver.sleep(long));
        // TIMEOUT: time enough for a wait that ends too early.
        std::thread::sleep(Duration::from_millis(30));
        assert!(!sleeper.is_finished());
        mac.machine.release();
        sleeper.join().unwrap().unwrap();
    });
    assert_eq!(direct.shown(), 1);
    direct.driver.sleep(long).unwrap();
    direct.driver.stop(None).unwrap();
    assert!(direct.driver.sleep(long).unwrap_err().reason.contains("stopped"));
    direct.give_back();
}

/// Promises M60, C23.
#[test]
fn a_failing_fill_loses_the_device_and_values_not_yet_committed() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(256).unwrap();
    mac.machine.hold();
    let points: Vec<_> = (0..5).map(|start| kernels.iota(&y, start).unwrap()).collect();
    let fill = kernels.device.submission().fill::<Metal>([], |_, _| Err("not today".into())).make().unwrap();
    assert_eq!(lost(launch(&mut fill.take(), &[])), "not today");
    mac.machine.release();
    for point in &points {
        assert_eq!(lost(point.wait()), "not today");
    }
    assert_eq!(lost(y.read(|_: &[u8]| ())), "not today");
    let again = Kernels::new(mac.open());
    let y = again.device.buffer(256).unwrap();
    again.iota(&y, 1).unwrap();
    assert_eq!(words(&y)[1], 2);
}

/// Promise M60.
#[test]
fn no_command_buffer_ever_again_is_a_failure_and_no_hang() {
    let mac = Mac::new();
    let device = mac.open();
    mac.machine.faults().refuse(What::CommandBuffer, 1..);
    let nothing = device.submission().make().unwrap();
    match nothing.take().submit(&[]) {
        Err(Error::Lost { why, .. }) => assert!(why.contains("command buffer"), "{why}"),
        other => panic!("{other:?}"),
    }
}
