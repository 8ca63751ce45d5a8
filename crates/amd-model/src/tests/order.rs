//! Order: the sixth group. What nothing orders runs in any order, waits that nobody ends are deadlocks, words do not fall.

use super::kit::*;
use crate::{Group, Machine, Step, Traced, Violation};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Dispatches that store their number into one word, in the order of the ring; what the word holds in the end.
fn last_of(seed: u64, header: u16) -> u32 {
    let driver = Driver::held(seed);
    let (image, mut queue) = (driver.suite(), driver.aql());
    let (y, word) = (driver.zeroed(4096, SHARED), driver.zeroed(4096, SHARED));
    for number in 1..=5 {
        let arguments = driver.zeroed(4096, SHARED);
        arguments.word(0).store(y.va, Ordering::Relaxed);
        arguments.half(8).store(1, Ordering::Relaxed);
        arguments.half(12).store(number, Ordering::Relaxed);
        let kernel = image.kernel("iota");
        queue
            .push(&Launch { header, kernel, arguments: arguments.va, groups: 1, threads: 64, group_bytes: 0 }.packet());
    }
    queue.push_buffer(&release(word.va, 1));
    queue.ring();
    driver.finish();
    y.half(0).load(Ordering::Acquire)
}

#[test]
fn dispatches_without_the_barrier_bit_end_in_any_order() {
    let mut seen: Vec<u32> = (0..60).map(|seed| last_of(seed, DISPATCH & !(1 << 8))).collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() >= 4, "{seen:?}");
}

#[test]
fn dispatches_with_the_barrier_bit_end_in_order() {
    assert!((0..30).all(|seed| last_of(seed, DISPATCH) == 5));
}

#[test]
fn the_end_of_a_pipe_comes_after_every_dispatch_before_it() {
    for seed in 0..30 {
        let driver = Driver::held(seed);
        let (image, mut queue, word) = (driver.suite(), driver.aql(), driver.zeroed(4096, SHARED));
        let x = driver.zeroed(4096, SHARED);
        let arguments = super::work::add_arguments(&driver, x, x, 64).va;
        let (header, kernel) = (DISPATCH & !(1 << 8), image.kernel("add"));
        for _ in 0..4 {
            queue.push(&Launch { header, kernel, arguments, groups: 2, threads: 64, group_bytes: 0 }.packet());
        }
        // Without the barrier bit either: the packet itself waits.
        let mut packet = queue.buffer(&release(word.va, 1));
        put(&mut packet, 0, &(BUFFER & !(1 << 8)).to_le_bytes());
        queue.push(&packet);
        queue.ring();
        driver.finish();
        let trace = driver.machine.trace();
        let stored = trace.iter().position(|step| matches!(step, Traced::Stored { .. })).unwrap();
        assert!(trace[stored..].iter().all(|step| !matches!(step, Traced::Ended { .. })), "{trace:?}");
    }
}

#[test]
fn two_rings_without_waits_interleave_by_the_seed() {
    let order = |seed| {
        let driver = Driver::held(seed);
        let (mut one, mut two, words) = (driver.sdma(), driver.sdma(), driver.zeroed(4096, SHARED));
        for value in 1..6 {
            one.push(&sdma_fence(words.va, value));
            two.push(&sdma_fence(words.va + 64, value));
        }
        one.ring();
        two.ring();
        driver.finish();
        let stores = driver.machine.trace().into_iter().filter_map(|step| match step {
            Traced::Stored { queue, .. } => Some(queue),
            _ => None,
        });
        stores.collect::<Vec<_>>()
    };
    let orders: Vec<_> = (0..20).map(order).collect();
    assert!(orders.iter().any(|order| *order != orders[0]));
    assert_eq!(order(3), orders[3], "and one seed makes one order");
}

#[test]
fn a_wait_that_nobody_ends_is_a_deadlock() {
    let driver = Driver::held(1);
    let (mut queue, word) = (driver.aql(), driver.zeroed(4096, SHARED));
    queue.push_buffer(&wait(word.va, 7));
    queue.ring();
    let Step::Stuck(found) = driver.run() else { panic!("it waits") };
    assert_eq!(found, [Violation::Deadlock { queue: queue.id, index: 0, va: word.va, holds: 0, wants: 7 }]);
    driver.machine.assert_clean();
    word.word(0).store(7, Ordering::Release);
    driver.finish();
}

#[test]
fn queues_that_wait_for_each_other_are_reported_by_a_machine_that_runs_by_itself() {
    let driver = Driver::open(Machine::builder().stuck_after(Duration::from_millis(50)));
    let (mut compute, mut copies, word) = (driver.aql(), driver.sdma(), driver.zeroed(4096, SHARED));
    compute.push_buffer(&wait(word.va, 1));
    compute.push_buffer(&release(word.va + 64, 1));
    copies.push(&sdma_poll(word.va + 64, 1));
    copies.push(&sdma_fence(word.va, 1));
    compute.ring();
    copies.ring();
    while driver.machine.violations().is_empty() {
        std::thread::yield_now();
    }
    assert!(driver.machine.quiet(Duration::from_secs(10)));
    let found = driver.machine.assert_found(Group::Ordering);
    assert!(found.iter().all(|found| matches!(found, Violation::Deadlock { .. })), "{found:?}");
}

#[test]
fn words_do_not_fall() {
    let driver = Driver::held(1);
    let (mut queue, word) = (driver.aql(), driver.zeroed(4096, SHARED));
    for value in [5, 5, 6] {
        queue.push_buffer(&release(word.va, value));
    }
    queue.ring();
    driver.finish();
    queue.push_buffer(&release(word.va, 4));
    queue.ring();
    driver.run();
    let found = driver.machine.assert_found(Group::Ordering);
    assert_eq!(found, [Violation::Fell { queue: queue.id, va: word.va, from: 6, to: 4 }]);
}

/// Fences that raise a word past the end of its low half.
fn carry(fences: impl Fn(u64) -> Vec<Vec<u32>>) -> (Driver, u64) {
    let driver = Driver::held(1);
    let (mut queue, word) = (driver.sdma(), driver.zeroed(4096, SHARED));
    word.word(0).store(0xffff_ffff, Ordering::Release);
    fences(word.va).iter().for_each(|fence| queue.push(fence));
    queue.push(&[0]);
    queue.ring();
    driver.run();
    let value = word.word(0).load(Ordering::Acquire);
    (driver, value)
}

#[test]
fn a_carry_stores_the_low_half_first_and_the_high_half_at_once_after_it() {
    let (driver, value) = carry(|va| vec![sdma_fence(va, 3), sdma_fence(va + 4, 1)]);
    driver.machine.assert_clean();
    assert_eq!(value, 0x1_0000_0003);
    for wrong in [
        (|va| vec![sdma_fence(va + 4, 1), sdma_fence(va, 3)]) as fn(u64) -> Vec<Vec<u32>>,
        |va| vec![sdma_fence(va, 3)],
        |va| vec![sdma_fence(va, 3), vec![0], sdma_fence(va + 4, 1)],
    ] {
        let (driver, _) = carry(wrong);
        let found = driver.machine.assert_found(Group::Ordering);
        assert!(matches!(found[0], Violation::Fell { .. }), "{found:?}");
    }
}

#[test]
fn delays_change_when_work_runs_and_not_what_it_does() {
    let driver = Driver::held(4);
    driver.machine.delay(50);
    let (mut compute, mut copies, word) = (driver.aql(), driver.sdma(), driver.zeroed(4096, SHARED));
    for round in 0..20 {
        copies.push(&sdma_poll(word.va, round * 2));
        copies.push(&sdma_fence(word.va, round * 2 + 1));
        compute.push_buffer(&wait(word.va, u64::from(round) * 2 + 1));
        compute.push_buffer(&release(word.va, u64::from(round) * 2 + 2));
    }
    compute.ring();
    copies.ring();
    driver.finish();
    assert_eq!(word.word(0).load(Ordering::Acquire), 40);
}

#[test]
fn copies_without_a_fence_between_them_land_in_any_order() {
    let run = |seed, ordered: bool| {
        let driver = Driver::held(seed);
        let (mut queue, word) = (driver.sdma(), driver.zeroed(4096, SHARED));
        let (x, y, z) = (driver.zeroed(4096, SHARED), driver.zeroed(4096, SHARED), driver.zeroed(4096, SHARED));
        x.put_words(&[7; 1024]);
        queue.push(&sdma_copy(x.va, y.va, 4096));
        if ordered {
            queue.push(&sdma_fence(word.va, 1));
            queue.push(&sdma_poll(word.va, 1));
        }
        queue.push(&sdma_copy(y.va, z.va, 4096));
        queue.push(&sdma_fence(word.va, 2));
        queue.ring();
        driver.finish();
        z.half(4092).load(Ordering::Acquire)
    };
    assert!((0..40).any(|seed| run(seed, false) == 0), "the second read before the first had written");
    assert!((0..40).all(|seed| run(seed, true) == 7));
}
