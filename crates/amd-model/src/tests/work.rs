//! Work that is right, from its packets to what memory holds: the correct twin of most violations.

use super::kit::*;
use crate::{Machine, Step, Traced};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// add's arguments: x, y and n.
pub(super) fn add_arguments(driver: &Driver, x: Mem, y: Mem, n: u32) -> Mem {
    let arguments = driver.zeroed(4096, SHARED);
    arguments.word(0).store(x.va, Ordering::Relaxed);
    arguments.word(8).store(y.va, Ordering::Relaxed);
    arguments.half(16).store(n, Ordering::Relaxed);
    arguments
}

fn floats(mem: Mem, n: usize) -> Vec<f32> {
    mem.words(n).into_iter().map(f32::from_bits).collect()
}

fn put_floats(mem: Mem, floats: impl Iterator<Item = f32>) {
    mem.put_words(&floats.map(f32::to_bits).collect::<Vec<_>>());
}

#[test]
fn a_dispatch_and_the_end_of_its_pipe_run_and_raise_a_word() {
    for memory in [SHARED, OWN] {
        let driver = Driver::held(3);
        let (image, mut queue) = (driver.suite(), driver.aql());
        let (x, y, word) = (driver.alloc(4096, memory), driver.alloc(4096, memory), driver.zeroed(4096, SHARED));
        put_floats(x, (0..1000).map(|i| i as f32));
        put_floats(y, (0..1000).map(|_| 0.5));
        driver.flush();
        let arguments = add_arguments(&driver, x, y, 1000).va;
        let (kernel, groups, threads) = (image.kernel("add"), 4, 256);
        queue.push(&Launch { header: DISPATCH, kernel, arguments, groups, threads, group_bytes: 0 }.packet());
        queue.push_buffer(&release(word.va, 1));
        queue.ring();
        driver.finish();
        assert_eq!(word.word(0).load(Ordering::Acquire), 1);
        assert_eq!(queue.read_index(), 2);
        assert!(floats(y, 1000).into_iter().enumerate().all(|(i, y)| y == i as f32 + 0.5));
    }
}

#[test]
fn a_copy_and_a_fill_move_bytes_and_fence_a_word() {
    let driver = Driver::held(1);
    let mut queue = driver.sdma();
    let (x, y, word) = (driver.alloc(1 << 20, SHARED), driver.zeroed(1 << 20, OWN), driver.zeroed(4096, SHARED));
    x.put_words(&(0..1 << 18).collect::<Vec<_>>());
    queue.push(&sdma_acquire());
    queue.push(&sdma_copy(x.va + 3, y.va + 64, (1 << 20) - 67));
    queue.push(&sdma_fill(y.va, 7, 64));
    queue.push(&sdma_release());
    queue.push(&sdma_fence(word.va, 5));
    queue.ring();
    driver.finish();
    assert_eq!(word.word(0).load(Ordering::Acquire), 5);
    assert_eq!(queue.read(), queue.write);
    assert!(y.get(64, (1 << 20) - 67) == x.get(3, (1 << 20) - 67));
    assert_eq!(y.words(16), [7; 16]);
}

#[test]
fn two_rings_wait_for_each_other_by_words() {
    for seed in 0..20 {
        let driver = Driver::held(seed);
        let image = driver.suite();
        let (mut compute, mut copies) = (driver.aql(), driver.sdma());
        let (x, y, back) = (driver.alloc(4096, SHARED), driver.alloc(4096, OWN), driver.zeroed(4096, SHARED));
        let word = driver.zeroed(4096, SHARED);
        put_floats(x, (0..1000).map(|i| i as f32));
        // 1: copy x to y. 2: y += x. 3: copy y back.
        copies.push(&sdma_acquire());
        copies.push(&sdma_copy(x.va, y.va, 4096));
        copies.push(&sdma_release());
        copies.push(&sdma_fence(word.va, 1));
        copies.push(&sdma_poll(word.va, 2));
        copies.push(&sdma_acquire());
        copies.push(&sdma_copy(y.va, back.va, 4096));
        copies.push(&sdma_release());
        copies.push(&sdma_fence(word.va, 3));
        compute.push_buffer(&wait(word.va, 1));
        let arguments = add_arguments(&driver, x, y, 1000).va;
        let (kernel, groups, threads) = (image.kernel("add"), 4, 256);
        compute.push(&Launch { header: DISPATCH, kernel, arguments, groups, threads, group_bytes: 0 }.packet());
        compute.push_buffer(&release(word.va, 2));
        compute.ring();
        copies.ring();
        driver.finish();
        assert_eq!(word.word(0).load(Ordering::Acquire), 3);
        assert!(floats(back, 1000).into_iter().enumerate().all(|(i, y)| y == 2.0 * i as f32));
    }
}

#[test]
fn a_machine_that_is_not_held_runs_by_itself() {
    let driver = Driver::open(Machine::builder());
    let (mut queue, word) = (driver.sdma(), driver.zeroed(4096, SHARED));
    for value in 1..=100 {
        queue.push(&sdma_fence(word.va, value));
        queue.ring();
        while word.half(0).load(Ordering::Acquire) < value {
            std::thread::yield_now();
        }
    }
    assert!(driver.machine.quiet(Duration::from_secs(10)));
    driver.machine.assert_clean();
}

#[test]
fn one_seed_replays_a_run_and_seeds_differ() {
    let trace = |seed| {
        let driver = Driver::held(seed);
        let image = driver.suite();
        let (mut compute, mut copies) = (driver.aql(), driver.sdma());
        let (x, y, word) = (driver.zeroed(4096, SHARED), driver.zeroed(4096, OWN), driver.zeroed(4096, SHARED));
        let arguments = add_arguments(&driver, x, x, 256).va;
        let kernel = image.kernel("add");
        for _ in 0..6 {
            let header = DISPATCH & !(1 << 8);
            compute.push(&Launch { header, kernel, arguments, groups: 1, threads: 256, group_bytes: 0 }.packet());
            copies.push(&sdma_copy(x.va, y.va, 4096));
        }
        copies.push(&sdma_release());
        copies.push(&sdma_fence(word.va, 1));
        compute.ring();
        copies.ring();
        assert_eq!(driver.run(), Step::Idle);
        let ends = |step: &Traced| matches!(step, Traced::Ended { .. } | Traced::Moved { .. });
        driver.machine.trace().into_iter().filter(ends).collect::<Vec<_>>()
    };
    assert_eq!(trace(5), trace(5));
    assert!((0..10).any(|seed| trace(seed) != trace(5)), "some seed makes another order");
}
