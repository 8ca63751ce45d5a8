//! Instructions: the seventh group.

use super::kit::*;
use crate::{Group, Machine, Step, Violation, abi};
use std::sync::atomic::Ordering;

fn run(name: &str) -> (Driver, Mem) {
    let driver = Driver::open(Machine::builder().held().wave_budget(10_000));
    let (image, mut queue) = (driver.faults(), driver.aql());
    let (y, arguments) = (driver.zeroed(4096, SHARED), driver.zeroed(4096, SHARED));
    let exceptions = super::events::event(&driver, abi::EVENT_HW_EXCEPTION, 0).unwrap();
    arguments.word(0).store(y.va, Ordering::Relaxed);
    arguments.word(8).store(64, Ordering::Relaxed);
    let kernel = image.kernel(name);
    let launch = Launch { header: DISPATCH, kernel, arguments: arguments.va, groups: 1, threads: 1, group_bytes: 1024 };
    queue.push(&launch.packet());
    queue.ring();
    assert_eq!(driver.run(), Step::Idle);
    let mut wanted = [super::events::named(exceptions.event_id)];
    let told = super::events::wait_for(&driver, &mut wanted, false, 0) == Ok(abi::WAIT_COMPLETE);
    assert_eq!(told, !driver.machine.violations().is_empty(), "what stops a wave is told as a hang");
    (driver, y)
}

#[test]
fn a_wave_that_does_not_end_is_stopped() {
    let found = run("endless").0.machine.assert_found(Group::Bounds);
    assert!(matches!(&found[0], Violation::Budget { why, .. } if why.contains("10000")), "{found:?}");
}

#[test]
fn a_word_that_is_no_instruction_is_told_with_its_place() {
    let (driver, y) = run("bad_instruction");
    let found = driver.machine.assert_found(Group::Bounds);
    assert!(matches!(&found[0], Violation::Instruction { why, .. } if why.contains("bfff0000")), "{found:?}");
    assert_eq!(y.half(0).load(Ordering::Acquire), 0, "what the dispatch stored was not released");
}

#[test]
fn group_memory_has_its_bounds() {
    let (driver, _) = run("trap");
    assert!(matches!(driver.machine.assert_found(Group::Bounds)[0], Violation::Instruction { .. }));
}

#[test]
fn a_kernel_that_ends_is_clean() {
    let (driver, y) = run("store_at");
    driver.machine.assert_clean();
    assert_eq!(y.half(64).load(Ordering::Acquire), 0);
}
