//! Work: command buffers, when they are committed, in which order they show, and how many there are.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rig_edge::{Driver, Part, Submitted};
use rig_metal_model::machine::{Failure, Handlers, Machine};

use kit::direct::{Direct, ELEMENTS, Step};
use kit::machine::{Mac, until};
use kit::{Kernels, grid, launch, spun, words};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

/// How many command buffers a device has at most.
const MOST: u64 = 1024;

/// Promises M30, M31.
#[test]
fn a_submit_commits_while_fewer_than_three_command_buffers_are_behind() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    let mut step = direct.iota(1);
    let answers: Vec<Submitted> = (0..6).map(|_| direct.submit(&mut step)).collect();
    use Submitted::{Committed, Encoded};
    assert_eq!(answers, [Committed, Committed, Committed, Encoded, Encoded, Encoded]);
    assert_eq!(mac.machine.counts().committed, 3);
    assert_eq!(mac.machine.counts().command_buffers, 4, "one is open, and collects values");
    // One completes: its handler commits the open one, since it holds work.
    mac.machine.release_one();
    until("the handler's commit", || mac.machine.counts().committed == 4);
    assert_eq!(direct.shown(), 1);
    assert_eq!(direct.submit(&mut step), Encoded, "three are behind again");
    mac.machine.release();
    until("the completion that commits the rest", || direct.shown() == 7);
    direct.close();
}

/// Promise M31.
#[test]
fn a_completion_commits_nothing_where_nothing_is_open() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    direct.submit(&mut direct.iota(1));
    direct.wait(1);
    mac.machine.settle();
    let counts = mac.machine.counts();
    assert_eq!((counts.command_buffers, counts.committed), (1, 1));
    direct.close();
}

/// Promise M31.
#[test]
fn a_submit_that_leaves_256_values_commits_them() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    let mut step = direct.iota(1);
    mac.machine.hold();
    (0..3).for_each(|_| drop(direct.submit(&mut step)));
    for round in 0..3 {
        for value in 1..=256 {
            let due = if value == 256 { Submitted::Committed } else { Submitted::Encoded };
            assert_eq!(direct.submit(&mut step), due, "value {value} of round {round}");
        }
        assert_eq!(mac.machine.counts().committed, 4 + round);
    }
    mac.machine.release();
    direct.wait(3 + 3 * 256);
    direct.close();
}

/// Promises M31, M39.
#[test]
fn a_commit_for_any_value_commits_all_that_is_encoded() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    let mut step = direct.iota(1);
    mac.machine.hold();
    (0..8).for_each(|_| drop(direct.submit(&mut step)));
    assert_eq!(mac.machine.counts().committed, 3);
    direct.driver.commit(direct.start + 1).unwrap();
    assert_eq!(mac.machine.counts().committed, 4);
    direct.driver.commit(direct.last).unwrap();
    assert_eq!(mac.machine.counts().committed, 4, "there is nothing left to commit");
    mac.machine.release();
    direct.wait(8);
    direct.close();
}

/// Promise M30.
#[test]
fn parts_and_values_run_one_after_the_other_whatever_the_gpu_may_overlap() {
    // The model runs passes that nothing orders in an order of chance.
    for seed in 0..5 {
        let mac = Mac::of(Machine::builder().seed(seed).delays(Duration::from_micros(200)));
        let kernels = Kernels::new(mac.open());
        let y = kernels.device.buffer(4 * 64).unwrap();
        let spin = kernels.device.load(&kit::library("suite")).unwrap().function("spin").unwrap();
        let refs = || [rig::write(0)];
        let built = kernels.device.submission().launch(&spin, refs()).launch(&spin, refs()).launch(&spin, refs());
        let mut run = built.make().unwrap().take();
        let mut due = 5u32;
        y.write(|y: &mut [u32]| y.fill(5)).unwrap();
        for value in 0..60 {
            for part in 0..3 {
                let rounds = 1 + (value + part) % 4;
                grid(&mut run, part as usize, 64).set(8, 64u32).set(12, rounds);
                due = spun(due, rounds);
            }
            launch(&mut run, &[&y]).unwrap();
            // Also an iota between, which forgets all before it.
            if value % 16 == 7 {
                kernels.iota(&y, value).unwrap();
                kernels.spin(&y, 1).unwrap();
                due = spun(value + 63, 1);
                y.write(|y: &mut [u32]| y.fill(due)).unwrap();
            }
        }
        assert!(words(&y).iter().all(|&word| word == due), "seed {seed}");
    }
}

/// Promise M32.
#[test]
fn the_word_shows_values_in_commit_order_whatever_the_order_of_the_handlers() {
    // Every order of four handlers.
    let orders = (0..24).map(|code| {
        let mut rest: Vec<usize> = (0..4).collect();
        let mut code = code;
        (1..=4)
            .rev()
            .map(|left| {
                let at = code % left;
                code /= left;
                rest.remove(at)
            })
            .collect::<Vec<_>>()
    });
    for order in orders {
        let mac = Mac::new();
        let mut direct = Direct::new();
        mac.machine.handlers(Handlers::Hold);
        let mut step = direct.iota(1);
        for _ in 0..4 {
            direct.submit(&mut step);
            direct.driver.commit(direct.last).unwrap();
        }
        until("four completions", || mac.machine.held_handlers() == 4);
        assert_eq!(direct.shown(), 0);
        let mut waiting: Vec<usize> = (0..4).collect();
        for (ran, &handler) in order.iter().enumerate() {
            let at = waiting.iter().position(|&other| other == handler).unwrap();
            waiting.remove(at);
            mac.machine.release_handler(at);
            let due = (0..4).take_while(|value| order[..=ran].contains(value)).count() as u64;
            until("the handler", || mac.machine.counts().handlers == ran as u64 + 1);
            assert_eq!(direct.shown(), due, "{order:?} after {ran}");
        }
        direct.close();
    }
}

/// Promise M32.
#[test]
fn a_command_buffer_shows_the_last_of_its_values_and_no_earlier_one() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    let mut step = direct.iota(1);
    mac.machine.hold();
    (0..10).for_each(|_| drop(direct.submit(&mut step)));
    direct.driver.commit(direct.last).unwrap();
    let mut seen = Vec::new();
    for released in 1..=4 {
        mac.machine.release_one();
        until("the handler", || mac.machine.counts().handlers == released);
        seen.push(direct.shown());
    }
    assert_eq!(seen, [1, 2, 3, 10]);
    mac.machine.release();
    direct.close();
}

/// Promise M32.
#[test]
fn handlers_that_run_late_and_on_many_threads_raise_the_word_in_order() {
    for handlers in [Handlers::Late, Handlers::OtherThreads(4)] {
        let mac = Mac::of(Machine::builder().seed(11).delays(Duration::from_micros(100)));
        mac.machine.handlers(handlers);
        let mut direct = Direct::new();
        let mut step = direct.iota(1);
        let over = AtomicBool::new(false);
        let word = direct.word();
        std::thread::scope(|scope| {
            // A word that falls panics in Word::raise, and a reader that sees it fall here.
            scope.spawn(|| {
                let mut seen = 0;
                while !over.load(Ordering::Relaxed) {
                    let now = word.load();
                    assert!(now >= seen, "{now} after {seen}");
                    seen = now;
                }
            });
            for value in 1..=400u32 {
                direct.submit(&mut step);
                if value.is_multiple_of(3) {
                    direct.driver.commit(direct.last).unwrap();
                }
            }
            direct.driver.commit(direct.last).unwrap();
            direct.wait(400);
            over.store(true, Ordering::Relaxed);
        });
        direct.close();
    }
}

/// Promise M34.
#[test]
fn a_value_without_parts_is_reached_once_the_work_before_it_has_completed() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    direct.submit(&mut Step::empty());
    direct.driver.commit(direct.last).unwrap();
    direct.wait(1);
    mac.machine.hold();
    direct.submit(&mut direct.iota(3));
    direct.submit(&mut Step::empty());
    direct.driver.commit(direct.last).unwrap();
    assert_eq!(direct.shown(), 1);
    mac.machine.release();
    direct.wait(3);
    assert_eq!(direct.words()[1], 4);
    direct.close();
}

/// Promise M34.
#[test]
fn a_value_without_parts_shows_nothing_while_an_earlier_handler_is_late() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.handlers(Handlers::Hold);
    direct.submit(&mut direct.iota(3));
    direct.submit(&mut Step::empty());
    direct.driver.commit(direct.last).unwrap();
    until("both", || mac.machine.held_handlers() == 2);
    mac.machine.release_handler(1);
    until("the handler", || mac.machine.counts().handlers == 1);
    assert_eq!(direct.shown(), 0);
    mac.machine.release_handler(0);
    direct.wait(2);
    direct.close();
}

/// Commits as many command buffers of one value each, which are held.
fn held(mac: &Mac, direct: &mut Direct, count: u64) {
    mac.machine.hold();
    for _ in 0..count {
        direct.submit(&mut Step::empty());
        direct.driver.commit(direct.last).unwrap();
    }
    assert_eq!(mac.machine.counts().committed, count);
}

/// Promise M36.
#[test]
fn a_submit_blocks_before_it_opens_a_command_buffer_while_there_are_1024() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    held(&mac, &mut direct, MOST - 1);
    // The last one there is room for is opened, collects values, and is committed.
    for _ in 0..3 {
        assert_eq!(direct.submit(&mut Step::empty()), Submitted::Encoded);
    }
    direct.driver.commit(direct.last).unwrap();
    let blocked = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            direct.submit(&mut Step::empty());
            blocked.store(false, Ordering::SeqCst);
            direct
        });
        // TIMEOUT: time enough for a submit that does not block.
        std::thread::sleep(Duration::from_millis(100));
        assert!(blocked.load(Ordering::SeqCst));
        assert_eq!(mac.machine.counts().command_buffers, MOST);
        // A handler takes the driver's lock while the submit waits, and ends the wait.
        mac.machine.release_one();
        direct = thread.join().unwrap();
        assert_eq!(mac.machine.counts().command_buffers, MOST + 1);
        mac.machine.release();
        direct.driver.commit(direct.last).unwrap();
        direct.wait(MOST + 3);
        direct.close();
    });
}

/// Promises M36, M62.
#[test]
fn a_command_buffer_that_fails_wakes_a_blocked_submit() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.faults().fail_command_buffer(1, Failure::PageFault);
    held(&mac, &mut direct, MOST);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let answer = direct.submit(&mut Step::empty());
            (answer, direct)
        });
        // TIMEOUT: time enough for a submit that does not block.
        std::thread::sleep(Duration::from_millis(50));
        mac.machine.release_one();
        let (answer, mut direct) = thread.join().unwrap();
        match answer {
            Submitted::Failed(fault) => assert!(fault.reason.starts_with("the GPU's work failed: "), "{fault}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(direct.shown(), 0);
        direct.driver.stop(None).unwrap();
        assert_eq!(direct.shown(), 0, "work is still committed");
        mac.machine.release();
        until("the end", || direct.word().load() == direct.last);
        direct.give_back();
    });
}

/// Promises M36, C28.
#[test]
fn while_a_submit_blocks_on_command_buffers_other_threads_go_on() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(256).unwrap();
    let nothing = kernels.device.submission().make().unwrap();
    let point = kernels.iota(&y, 1).unwrap();
    point.wait().unwrap();
    let before = mac.machine.counts().command_buffers;
    mac.machine.hold();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut run = nothing.take();
            for _ in 0..MOST + 10 {
                let point = run.submit(&[]).unwrap();
                // Commits what is open, as a wait would.
                let _ = std::hint::black_box(point.reached());
                kernels.device.submission().make().unwrap();
            }
        });
        // TIMEOUT: time enough for a submit that does not block.
        std::thread::sleep(Duration::from_millis(50));
        assert!(point.reached().unwrap());
        let z = kernels.device.buffer(1 << 20).unwrap();
        z.write(|z: &mut [u32]| z.fill(1)).unwrap();
        kernels.device.load(&kit::library("test")).unwrap().function("nothing").unwrap();
        mac.machine.release();
    });
    assert!(mac.machine.counts().command_buffers > before);
    kernels.iota(&y, 4).unwrap();
    assert_eq!(words(&y)[5], 9);
}

/// Promise M30.
#[test]
fn a_copy_that_reached_the_driver_would_be_refused() {
    let _mac = Mac::new();
    let direct = Direct::new();
    let mut step = Step::empty();
    step.fill(Box::new(|_, _| Ok(())));
    step.parts[0] = Part::Memset(rig_edge::Memset { slot: 0, byte: 0 });
    assert!(matches!(direct.room(&mut step), rig_edge::Room::Refused(_)));
    direct.close();
}

/// Promises M30, M32.
#[test]
fn a_mix_of_values_from_a_seed_ends_as_a_serial_run_does() {
    for seed in 0..3u64 {
        let mac = Mac::of(Machine::builder().seed(seed).delays(Duration::from_micros(50)));
        mac.machine.handlers(Handlers::OtherThreads(3));
        let mut direct = Direct::new();
        let mut random = seed + 99;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut due: Vec<u32> = vec![0; ELEMENTS as usize];
        let mut values = 0;
        for _ in 0..300 {
            let step = &mut match next(4) {
                0 => {
                    let start = next(1000) as u32;
                    due.iter_mut().enumerate().for_each(|(i, word)| *word = start + i as u32);
                    direct.iota(start)
                }
                1 => Step::empty(),
                _ => {
                    let rounds = next(3) as u32;
                    due.iter_mut().for_each(|word| *word = spun(*word, rounds));
                    direct.step("spin", &[[ELEMENTS, rounds]])
                }
            };
            direct.submit(step);
            values += 1;
            if next(10) == 0 {
                direct.driver.commit(direct.last).unwrap();
            }
            if next(40) == 0 {
                direct.driver.commit(direct.last).unwrap();
                direct.wait(values);
            }
        }
        direct.driver.commit(direct.last).unwrap();
        direct.wait(values);
        assert_eq!(direct.words(), due, "seed {seed}");
        direct.close();
    }
}
