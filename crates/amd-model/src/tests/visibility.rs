//! Caches: the fifth group. Each wrong scope and each cache control that is missing is found, in every run.

use super::kit::*;
use super::work::add_arguments;
use crate::{Group, Step, Violation};
use std::sync::atomic::Ordering;

/// The GPU's own memory, as a driver has it: without a window.
const HIDDEN: u32 = OWN & !crate::abi::FLAG_PUBLIC;

/// Headers: acquire and release of no, agent and system scope, with the barrier bit.
fn header(acquire: u16, release: u16) -> u16 {
    2 | 1 << 8 | acquire << 9 | release << 11
}

/// A RELEASE_MEM that does not write L2 back.
fn weak_release(word: u64, value: u64) -> Vec<u32> {
    let mut words = release(word, value);
    words[1] &= !(3 << 20);
    words
}

/// y += x by one dispatch, between words.
struct Adder {
    driver: Driver,
    queue: Aql,
    kernel: u64,
    x: Mem,
    y: Mem,
    word: Mem,
}

impl Adder {
    fn new(flags: u32) -> Self {
        let driver = Driver::held(1);
        let (image, queue) = (driver.suite(), driver.aql());
        let memory = |flags| if flags == HIDDEN { driver.hidden(4096, flags) } else { driver.zeroed(4096, flags) };
        let (x, y, word) = (memory(flags), memory(flags), driver.zeroed(4096, SHARED));
        let kernel = image.kernel("iota");
        // What was set through the window so far is flushed.
        driver.finish();
        Self { driver, queue, kernel, x, y, word }
    }

    /// iota(to, n, start): stores start + i.
    fn iota(&mut self, header: u16, to: Mem, start: u32) {
        let arguments = self.driver.zeroed(4096, SHARED);
        arguments.word(0).store(to.va, Ordering::Relaxed);
        arguments.half(8).store(64, Ordering::Relaxed);
        arguments.half(12).store(start, Ordering::Relaxed);
        let (kernel, arguments) = (self.kernel, arguments.va);
        self.queue.push(&Launch { header, kernel, arguments, groups: 1, threads: 64, group_bytes: 0 }.packet());
    }

    /// add(x, y, 64): y += x.
    fn add(&mut self, header: u16, image: &Image) {
        let arguments = add_arguments(&self.driver, self.x, self.y, 64).va;
        let kernel = image.kernel("add");
        self.queue.push(&Launch { header, kernel, arguments, groups: 1, threads: 64, group_bytes: 0 }.packet());
    }

    /// An indirect buffer whose packet itself neither acquires nor releases.
    fn push_bare(&mut self, words: &[u32]) {
        let mut packet = self.queue.buffer(words);
        put(&mut packet, 0, &(1u16 << 8).to_le_bytes());
        self.queue.push(&packet);
    }

    fn run(&mut self) {
        self.queue.ring();
        assert_eq!(self.driver.run(), Step::Idle);
    }

    fn found(&self) -> Vec<Violation> {
        self.driver.machine.assert_found(Group::Visibility)
    }
}

#[test]
fn a_word_must_not_be_stored_before_l2_is_written_back() {
    let mut adder = Adder::new(HIDDEN);
    adder.iota(header(1, 1), adder.y, 5);
    let words = weak_release(adder.word.va, 1);
    adder.queue.push_buffer(&words);
    adder.run();
    let found = adder.found();
    assert!(matches!(found[0], Violation::Unreleased { cache: "L2", va, .. } if va == adder.y.va), "{found:?}");
    let mut adder = Adder::new(HIDDEN);
    adder.iota(header(1, 1), adder.y, 5);
    let words = release(adder.word.va, 1);
    adder.queue.push_buffer(&words);
    adder.run();
    adder.driver.machine.assert_clean();
}

#[test]
fn a_release_of_the_system_in_the_dispatch_serves_too() {
    let mut adder = Adder::new(HIDDEN);
    adder.iota(header(2, 2), adder.y, 5);
    let words = weak_release(adder.word.va, 1);
    adder.queue.push_buffer(&words);
    adder.run();
    adder.driver.machine.assert_clean();
}

#[test]
fn a_dispatch_without_a_release_is_not_seen_by_the_next() {
    let run = |first: u16, second: u16| {
        let mut adder = Adder::new(HIDDEN);
        let image = adder.driver.suite();
        adder.iota(first, adder.x, 5);
        adder.add(second, &image);
        let words = release(adder.word.va, 1);
        adder.queue.push_buffer(&words);
        adder.run();
        adder
    };
    let found = run(header(1, 0), header(1, 1)).found();
    assert!(matches!(found[0], Violation::StaleRead { cache, .. } if cache.contains("did not release")), "{found:?}");
    run(header(1, 1), header(1, 1)).driver.machine.assert_clean();
}

#[test]
fn a_dispatch_without_an_acquire_reads_stale_lines_of_gl0() {
    let run = |acquire: u16| {
        let mut adder = Adder::new(SHARED);
        let image = adder.driver.suite();
        for round in 0..8 {
            adder.x.put_words(&[round + 1; 64]);
            adder.add(header(if round == 0 { 2 } else { acquire }, 2), &image);
            let words = release(adder.word.va, u64::from(round) + 1);
            // The release above invalidates GL0 itself: leave it without that.
            adder.push_bare(&[words[0], words[1] & !(0xf << 12), words[2], words[3], words[4], words[5], 0, 0]);
            adder.run();
        }
        adder
    };
    let adder = run(0);
    let found = adder.found();
    assert!(found.iter().any(|found| matches!(found, Violation::StaleRead { cache: "GL0", .. })), "{found:?}");
    run(1).driver.machine.assert_clean();
}

#[test]
fn an_acquire_of_the_agent_does_not_see_what_a_copy_brought() {
    let run = |acquire: u16| {
        let mut adder = Adder::new(HIDDEN);
        let image = adder.driver.suite();
        let (mut copies, from) = (adder.driver.sdma(), adder.driver.zeroed(4096, SHARED));
        for round in 0..3 {
            from.put_words(&[round + 1; 64]);
            copies.push(&sdma_acquire());
            copies.push(&sdma_copy(from.va, adder.x.va, 256));
            copies.push(&sdma_release());
            copies.push(&sdma_fence(adder.word.va, round * 2 + 1));
            copies.ring();
            assert_eq!(adder.driver.run(), Step::Idle);
            adder.add(header(acquire, 1), &image);
            let mut words = release(adder.word.va, u64::from(round) * 2 + 2);
            words[1] &= !(1 << 20);
            adder.push_bare(&words);
            adder.run();
        }
        adder
    };
    let found = run(1).found();
    assert!(matches!(found[0], Violation::StaleRead { cache: "L2", .. }), "{found:?}");
    run(2).driver.machine.assert_clean();
}

#[test]
fn a_fence_must_not_pass_what_a_copy_left_in_the_engine() {
    let run = |write_back: bool| {
        let driver = Driver::held(1);
        let (mut queue, x, word) = (driver.sdma(), driver.zeroed(4096, SHARED), driver.zeroed(4096, SHARED));
        let y = driver.hidden(4096, HIDDEN);
        queue.push(&sdma_copy(x.va, y.va, 4096));
        if write_back {
            queue.push(&sdma_release());
        }
        queue.push(&sdma_fence(word.va, 1));
        queue.ring();
        driver.run();
        driver
    };
    let found = run(false).machine.assert_found(Group::Visibility);
    assert!(matches!(found[0], Violation::Unreleased { cache: "the copy engine's", .. }), "{found:?}");
    run(true).machine.assert_clean();
}

#[test]
fn a_copy_without_an_acquire_reads_what_it_read_before() {
    let run = |acquire: bool| {
        let mut adder = Adder::new(HIDDEN);
        let (mut copies, back) = (adder.driver.sdma(), adder.driver.zeroed(4096, SHARED));
        for round in 0..3 {
            adder.iota(header(2, 2), adder.y, round * 100);
            let words = release(adder.word.va, u64::from(round) * 2 + 1);
            adder.queue.push_buffer(&words);
            adder.run();
            if acquire {
                copies.push(&sdma_acquire());
            }
            copies.push(&sdma_copy(adder.y.va, back.va, 256));
            copies.push(&sdma_release());
            copies.push(&sdma_fence(adder.word.va, round * 2 + 2));
            copies.ring();
            assert_eq!(adder.driver.run(), Step::Idle);
        }
        (adder, back)
    };
    let found = run(false).0.found();
    assert!(matches!(found[0], Violation::StaleRead { cache: "the copy engine's", .. }), "{found:?}");
    let (adder, back) = run(true);
    adder.driver.machine.assert_clean();
    assert_eq!(back.words(64), (200..264).collect::<Vec<_>>());
}

#[test]
fn writes_through_the_window_are_flushed_before_the_gpu_reads_them() {
    let run = |flush: bool| {
        let mut adder = Adder::new(OWN);
        let image = adder.driver.suite();
        adder.x.put_words(&[1.0f32.to_bits(); 64]);
        if flush {
            adder.driver.flush();
        }
        adder.add(header(2, 2), &image);
        let words = release(adder.word.va, 1);
        adder.queue.push_buffer(&words);
        adder.run();
        adder
    };
    let adder = run(false);
    let found = adder.found();
    assert!(matches!(found[0], Violation::Unflushed { .. }), "{found:?}");
    assert_eq!(adder.y.words(64), [0; 64], "the GPU read what was there");
    let adder = run(true);
    adder.driver.machine.assert_clean();
    assert_eq!(adder.y.words(64), [1.0f32.to_bits(); 64]);
}

#[test]
fn new_code_at_an_old_address_needs_the_instruction_caches_dropped() {
    let run = |invalidate: bool| {
        let mut adder = Adder::new(SHARED);
        let image = adder.driver.suite();
        adder.kernel = image.kernel("iota");
        adder.iota(header(2, 2), adder.y, 5);
        adder.run();
        adder.driver.machine.assert_clean();
        // The kernel's first instruction becomes s_endpgm.
        image.mem.half(image.entry("iota")).store(0xbfb0_0000, Ordering::Release);
        if invalidate {
            let words = acquire();
            adder.queue.push_buffer(&words);
        }
        adder.iota(header(2, 2), adder.y, 9);
        adder.run();
        adder
    };
    let adder = run(false);
    assert!(matches!(adder.found()[0], Violation::StaleRead { cache: "instructions", .. }));
    assert_eq!(adder.y.words(2), [9, 10], "the old code ran");
    let adder = run(true);
    adder.driver.machine.assert_clean();
    assert_eq!(adder.y.words(2), [5, 6], "the new code, which ends at once, ran");
}

#[test]
fn a_machine_without_caches_shows_every_store_at_once() {
    let driver = Driver::open(crate::Machine::builder().held().caches(false));
    let (image, mut queue, y) = (driver.suite(), driver.aql(), driver.zeroed(4096, OWN));
    driver.finish();
    let arguments = driver.zeroed(4096, SHARED);
    arguments.word(0).store(y.va, Ordering::Relaxed);
    arguments.half(8).store(64, Ordering::Relaxed);
    let (kernel, arguments) = (image.kernel("iota"), arguments.va);
    queue.push(&Launch { header: header(0, 0), kernel, arguments, groups: 1, threads: 64, group_bytes: 0 }.packet());
    queue.ring();
    driver.finish();
    assert_eq!(y.words(64), (0..64).collect::<Vec<_>>());
}
