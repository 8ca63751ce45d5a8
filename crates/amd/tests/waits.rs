//! Waits: what a sleeping thread costs, and that no value is slept through.
#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use machine::bare::{Bare, Task};
use rig_amd_model::Machine;
use rig_edge::{Driver, Sleep};
use rustix::time::{ClockId, clock_gettime};

/// The processor time of this thread.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Promise A11.
#[test]
fn a_second_of_waiting_takes_less_than_five_milliseconds_of_the_processor() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    machine.hold();
    let value = device.submit(&mut Task::new(vec![], vec![]));
    let (start, before) = (Instant::now(), processor());
    while start.elapsed() < Duration::from_secs(1) {
        let sleep = Sleep { seen: value - 1, until: value, still: Duration::from_millis(400), help: false };
        device.driver.sleep(sleep).unwrap();
    }
    let spent = processor() - before;
    assert!(spent < Duration::from_millis(5), "{spent:?} in {:?}", start.elapsed());
    machine.release();
    device.wait(value);
    device.close();
    machine.assert_clean();
}

/// Promises A11, E12: each of many threads wakes by the interrupt of the value that it waits for, long before its time is over.
#[test]
fn every_sleeping_thread_wakes_when_the_word_moves() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    for round in 0..20 {
        machine.hold();
        let value = device.submit(&mut Task::new(vec![], vec![]));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let sleep = Sleep { seen: value - 1, until: value, still: Duration::from_secs(60), help: false };
                    while device.word().load() < value {
                        device.driver.sleep(sleep).unwrap();
                    }
                });
            }
            machine.release();
        });
        assert!(start.elapsed() < Duration::from_secs(20), "round {round}");
    }
    device.close();
    machine.assert_clean();
}

/// Promise E12.
#[test]
fn a_lost_interrupt_delays_a_wait_and_no_more() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    machine.lose_interrupts(3);
    for _ in 0..3 {
        let start = Instant::now();
        device.run(&mut Task::new(vec![], vec![]));
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    device.close();
    machine.assert_clean();
}

/// Promise E11.
#[test]
fn the_word_never_falls_and_never_runs_ahead() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let (word, start) = (device.word(), device.last());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut before = start;
            while !done.load(Ordering::Relaxed) {
                let shown = word.load();
                assert!(before <= shown && shown <= start + 400, "the word went from {before} to {shown}");
                before = shown;
            }
        });
        let memory = device.memory(rig_edge::Memory::Pinned, 64);
        let mut fill = Task::new(vec![machine::bare::memset(0, 1)], vec![machine::bare::slot(memory, 0, 64)]);
        for value in 0..400 {
            // Every third value ends on the other queue.
            if value % 3 == 0 {
                device.submit(&mut fill)
            } else {
                device.submit(&mut Task::new(vec![], vec![]))
            };
        }
        device.wait(device.last());
        done.store(true, Ordering::Relaxed);
    });
    device.close();
    machine.assert_clean();
}
