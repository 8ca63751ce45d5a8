//! Stop: what runs on, what never runs, what is released and when, and who writes the last value.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use rig_edge::{Driver, Sleep, Timeline};
use rig_metal_model::machine::{Failure, Handlers, Machine};

use kit::direct::Direct;
use kit::machine::{Mac, until};
use kit::{Kernels, lost, words};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

/// Promise M64.
#[test]
fn stop_writes_the_last_value_at_once_where_no_work_runs_and_drops_what_is_open() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    direct.submit(&mut direct.iota(1));
    direct.wait(1);
    mac.machine.settle();
    mac.machine.hold();
    // Three are committed and run; the fourth is open.
    (0..4).for_each(|_| drop(direct.submit(&mut direct.iota(50))));
    mac.machine.release();
    direct.wait(4);
    until("the last completion, which commits the open one", || direct.shown() == 5);
    mac.machine.settle();
    direct.driver.stop(None).unwrap();
    assert_eq!(direct.shown(), 5);
    direct.give_back();
    drop(direct);
    mac.ends();
}

/// Promises M64, M65.
#[test]
fn stop_with_work_running_waits_for_none_and_the_last_handler_writes_the_last_value() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    for start in 0..5 {
        direct.submit(&mut direct.iota(100 * start));
    }
    assert_eq!(mac.machine.counts().committed, 3);
    direct.driver.stop(None).unwrap();
    assert_eq!(direct.shown(), 0, "committed work may still write memory");
    let queue = mac.live("Queue") + mac.live("Fence") + mac.live("Residency");
    assert_eq!(queue, 3, "the command buffers keep what they need");
    mac.machine.release_one();
    mac.machine.release_one();
    until("two handlers", || mac.machine.counts().handlers == 2);
    assert!(direct.shown() < 5, "{}", direct.shown());
    mac.machine.release();
    until("the last value", || direct.shown() == 5);
    assert_eq!(direct.words()[1], 201, "what was open never ran");
    mac.machine.settle();
    direct.give_back();
    until("the release of what ran the work", || mac.live("Queue") + mac.live("Fence") + mac.live("Residency") == 0);
    drop(direct);
    mac.ends();
}

/// Promise M64.
#[test]
fn the_last_handler_writes_the_last_value_whatever_its_work_did() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    mac.machine.faults().fail_command_buffer(3, Failure::Internal);
    (0..4).for_each(|start| drop(direct.submit(&mut direct.iota(start))));
    direct.driver.stop(None).unwrap();
    mac.machine.release();
    until("the last value", || direct.shown() == 4);
    direct.give_back();
}

/// Promises M64, M65.
#[test]
fn handlers_after_stop_in_any_order_end_with_the_last_value_and_write_nothing_more() {
    for order in [[0, 0, 0], [2, 1, 0], [1, 0, 0], [1, 1, 0], [2, 0, 0], [0, 1, 0]] {
        let mac = Mac::new();
        let mut direct = Direct::new();
        mac.machine.handlers(Handlers::Hold);
        (0..3).for_each(|start| drop(direct.submit(&mut direct.iota(start))));
        until("three completions", || mac.machine.held_handlers() == 3);
        direct.driver.stop(None).unwrap();
        for (ran, at) in order.into_iter().enumerate() {
            assert!(direct.shown() < 3, "{order:?} before {ran}");
            mac.machine.release_handler(at);
            until("the handler", || mac.machine.counts().handlers == ran as u64 + 1);
        }
        assert_eq!(direct.shown(), 3, "{order:?}");
        // The word passes to another device: a late store would be seen, or panic.
        let word = Timeline::new(direct.index).word();
        word.raise(word.load() + 7);
        mac.machine.settle();
        assert_eq!(direct.shown(), 10);
        direct.last += 7;
        direct.give_back();
    }
}

/// Promise M65.
#[test]
fn the_arena_stays_while_committed_work_reads_it() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    direct.submit(&mut direct.iota(7));
    let with_arena = mac.machine.counts().allocated;
    direct.driver.stop(None).unwrap();
    assert_eq!(mac.machine.counts().allocated, with_arena);
    mac.machine.release();
    until("the last value", || direct.shown() == 1);
    assert_eq!(direct.words()[2], 9, "the work found its parameters");
    until("the release of the arena", || mac.machine.counts().allocated + (1 << 20) <= with_arena);
    direct.give_back();
}

/// Promise M65.
#[test]
fn what_reads_the_word_stays_with_the_device() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    direct.submit(&mut direct.iota(7));
    direct.wait(1);
    direct.driver.stop(None).unwrap();
    assert_eq!(direct.driver.facts().arch, "Apple7");
    assert!(direct.driver.capability().unwrap().icb(&[]).is_err());
    let asleep = Sleep { seen: 0, until: 1, still: Duration::ZERO, help: false };
    assert!(direct.driver.sleep(asleep).is_err());
    assert_eq!(direct.words()[0], 7, "memory stays until it is freed");
    direct.give_back();
    drop((direct, mac));
}

/// Promise M64.
#[test]
fn a_program_that_closes_waits_for_nothing_and_its_memory_comes_back_after_the_work() {
    let mac = Mac::of(Machine::builder().seed(5));
    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(1 << 20).unwrap();
    mac.machine.hold();
    let point = kernels.iota(&y, 3).unwrap();
    kernels.device.close();
    assert!(mac.live("Buffer") > 0, "the work still uses it");
    lost(point.wait());
    drop(y);
    drop(kernels);
    mac.machine.release();
    mac.machine.settle();
    until("all memory", || {
        // Any open sweeps what has ended.
        drop(mac.open());
        mac.live("Buffer") == 0
    });
}

/// Promises M65, M03.
#[test]
fn a_device_opens_and_works_while_the_last_ones_handlers_are_still_to_run() {
    let mac = Mac::new();
    let first = Kernels::new(mac.open());
    let y = first.device.buffer(256).unwrap();
    mac.machine.handlers(Handlers::Hold);
    first.iota(&y, 1).unwrap();
    until("its completion", || mac.machine.held_handlers() == 1);
    first.device.close();
    let second = Kernels::new(mac.open());
    let z = second.device.buffer(256).unwrap();
    second.iota(&z, 5).unwrap();
    until("both", || mac.machine.held_handlers() == 2);
    mac.machine.release_handler(1);
    assert_eq!(words(&z)[1], 6);
    mac.machine.handlers(Handlers::Prompt);
    mac.machine.release_handlers();
    lost(y.read(|_: &[u8]| ()));
    drop((first, y));
    second.iota(&z, 9).unwrap();
    assert_eq!(words(&z)[1], 10);
}

/// Promise M64.
#[test]
fn a_stop_while_many_command_buffers_are_in_flight_ends_right() {
    for seed in 0..4 {
        let mac = Mac::of(Machine::builder().seed(seed).delays(Duration::from_micros(50)));
        mac.machine.handlers(Handlers::OtherThreads(4));
        let mut direct = Direct::new();
        let mut step = direct.iota(1);
        for _ in 0..100 + seed * 37 {
            direct.submit(&mut step);
            direct.driver.commit(direct.last).unwrap();
        }
        direct.close();
        drop(step);
        mac.ends();
    }
}
