//! Publication: the third group of violations.

use super::kit::*;
use super::work::add_arguments;
use crate::{Group, Machine, PublicationFault, Step, Violation};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn fault(driver: &Driver) -> PublicationFault {
    match driver.machine.assert_found(Group::Publication).remove(0) {
        Violation::Publication { fault, .. } => fault,
        other => panic!("{other:?}"),
    }
}

/// A machine with a compute queue, and a packet that does nothing.
fn started() -> (Driver, Aql, [u8; 64]) {
    let driver = Driver::held(1);
    let queue = driver.aql();
    let mut packet = [0; 64];
    put(&mut packet, 0, &BARRIER_AND.to_le_bytes());
    (driver, queue, packet)
}

#[test]
fn a_doorbell_that_covers_what_is_not_published_is_a_violation() {
    let (driver, mut queue, packet) = started();
    queue.push(&packet);
    queue.write += 1;
    queue.ring();
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::Invalid);
    let (driver, mut queue, packet) = started();
    queue.push(&packet);
    queue.push(&packet);
    queue.ring();
    driver.finish();
    assert_eq!(queue.read_index(), 2);
}

#[test]
fn retired_slots_are_poisoned_and_must_be_written_anew() {
    let (driver, mut queue, packet) = started();
    for _ in 0..queue.packets {
        queue.push(&packet);
    }
    queue.ring();
    driver.finish();
    assert_eq!(queue.ring.half(0).load(Ordering::Acquire), 0xdbdb_0001);
    assert!(queue.ring.get(4, 60).iter().all(|&byte| byte == 0xdb));
    // The second time around: the header of a slot whose body nobody wrote.
    queue.ring.half(0).store(u32::from(BARRIER_AND), Ordering::Release);
    queue.write += 1;
    queue.ring();
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::HeaderFirst);
}

#[test]
fn a_header_that_comes_before_its_body_is_seen_without_a_doorbell() {
    let (driver, mut queue, packet) = started();
    for _ in 0..queue.packets {
        queue.push(&packet);
    }
    queue.ring();
    driver.finish();
    queue.ring.half(0).store(u32::from(BARRIER_AND), Ordering::Release);
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::HeaderFirst);
}

#[test]
fn a_machine_that_watches_sees_a_header_that_comes_before_its_body() {
    let driver = Driver::open(Machine::builder().watchful());
    let (mut queue, mut packet) = (driver.aql_of(16), [0; 64]);
    put(&mut packet, 0, &BARRIER_AND.to_le_bytes());
    for _ in 0..queue.packets {
        queue.push(&packet);
    }
    queue.ring();
    assert!(driver.machine.quiet(Duration::from_secs(60)));
    queue.ring.half(0).store(u32::from(BARRIER_AND), Ordering::Release);
    while driver.machine.violations().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(fault(&driver), PublicationFault::HeaderFirst);
}

#[test]
fn a_machine_that_watches_finds_nothing_where_headers_come_last() {
    let driver = Driver::open(Machine::builder().watchful());
    let (mut queue, mut packet) = (driver.aql(), [0; 64]);
    put(&mut packet, 0, &BARRIER_AND.to_le_bytes());
    for _ in 0..200 {
        queue.push(&packet);
        queue.ring();
        while queue.read_index() < queue.write {
            std::thread::yield_now();
        }
    }
    driver.machine.assert_clean();
}

#[test]
fn a_machine_that_traps_finds_a_header_that_is_stored_first() {
    for mistake in [false, true] {
        let driver = Driver::open(Machine::builder().trapping());
        let (mut queue, mut packet) = (driver.aql(), [0; 64]);
        put(&mut packet, 0, &BARRIER_AND.to_le_bytes());
        for _ in 0..200 {
            if mistake {
                queue.ring.half(queue.write % queue.packets * 64).store(u32::from(BARRIER_AND), Ordering::Release);
            }
            queue.push(&packet);
            queue.ring();
            while queue.read_index() < queue.write && driver.machine.violations().is_empty() {
                std::thread::yield_now();
            }
            if mistake {
                break;
            }
        }
        if mistake {
            assert_eq!(fault(&driver), PublicationFault::HeaderFirst);
        } else {
            driver.machine.assert_clean();
        }
    }
}

#[test]
fn a_machine_that_traps_finds_a_doorbell_that_is_rung_before_the_write_index_is_raised() {
    let driver = Driver::open(Machine::builder().trapping());
    let (mut queue, word) = (driver.sdma(), driver.zeroed(4096, SHARED));
    for value in 1..20 {
        queue.push(&sdma_fence(word.va, value));
        queue.ring();
        while word.half(0).load(Ordering::Acquire) < value {
            std::thread::yield_now();
        }
    }
    driver.machine.assert_clean();
    queue.push(&sdma_fence(word.va, 20));
    // The mistake: the doorbell first.
    queue.doorbell.word(0).store(queue.write, Ordering::Release);
    queue.write_pointer.word(0).store(queue.write, Ordering::Release);
    assert!(matches!(fault(&driver), PublicationFault::BeyondWriteIndex { .. }));
}

#[test]
fn doorbells_do_not_run_ahead_of_the_write_index_and_do_not_go_back() {
    let (driver, mut queue, packet) = started();
    queue.push(&packet);
    queue.doorbell.word(0).store(0, Ordering::Release);
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::BeyondWriteIndex { doorbell: 1, write: 0 });
    let (driver, mut queue, packet) = started();
    queue.push(&packet);
    queue.push(&packet);
    queue.ring();
    driver.finish();
    queue.doorbell.word(0).store(0, Ordering::Release);
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::Back { from: 2, to: 1 });
}

#[test]
fn write_indices_do_not_go_back_and_do_not_overrun_the_ring() {
    let (driver, mut queue, packet) = started();
    queue.push(&packet);
    queue.push(&packet);
    queue.ring();
    driver.finish();
    queue.page.word(0x38).store(1, Ordering::Release);
    queue.doorbell.word(0).store(1, Ordering::Release);
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::WriteIndexBack { from: 2, to: 1 });
    let (driver, mut queue, packet) = started();
    for _ in 0..=queue.packets {
        queue.push(&packet);
    }
    queue.ring();
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::Overrun { write: 65, read: 0, size: 64 });
}

#[test]
fn a_packet_does_not_change_once_it_is_published() {
    let (driver, mut queue, _) = started();
    let word = driver.zeroed(4096, SHARED);
    queue.push_buffer(&wait(word.va, 1));
    queue.ring();
    assert!(matches!(driver.run(), Step::Stuck(_)));
    queue.ring.byte(40).store(1, Ordering::Release);
    word.word(0).store(1, Ordering::Release);
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::Changed);
}

#[test]
fn an_indirect_buffer_stays_as_it_is_until_its_packet_retires() {
    let run = |change: bool| {
        let (driver, mut queue, _) = started();
        let word = driver.zeroed(4096, SHARED);
        queue.push_buffer(&wait(word.va, 1));
        queue.ring();
        assert!(matches!(driver.run(), Step::Stuck(_)));
        if change {
            queue.buffers.half(4 * 4).store(9, Ordering::Release);
        }
        word.word(0).store(1, Ordering::Release);
        assert_eq!(driver.run(), Step::Idle);
        (driver, queue.buffers.va)
    };
    let (driver, va) = run(true);
    assert_eq!(fault(&driver), PublicationFault::StorageChanged { va, what: "an indirect buffer" });
    run(false).0.machine.assert_clean();
}

#[test]
fn memory_that_a_packet_needs_is_not_unmapped() {
    let (driver, mut queue, _) = started();
    let word = driver.zeroed(4096, SHARED);
    queue.push_buffer(&wait(word.va, 1));
    queue.ring();
    assert!(matches!(driver.run(), Step::Stuck(_)));
    driver.unmap(queue.buffers).unwrap();
    let va = queue.buffers.va;
    assert_eq!(fault(&driver), PublicationFault::StorageFreed { va, what: "an indirect buffer" });
}

/// A dispatch that has begun and not ended.
fn flying() -> (Driver, Aql, Mem) {
    let driver = Driver::held(1);
    let (image, mut queue) = (driver.suite(), driver.aql());
    let (x, y) = (driver.zeroed(1 << 16, SHARED), driver.zeroed(1 << 16, SHARED));
    let arguments = add_arguments(&driver, x, y, 16384);
    let (kernel, arguments_va) = (image.kernel("add"), arguments.va);
    let launch = Launch { header: DISPATCH, kernel, arguments: arguments_va, groups: 256, threads: 64, group_bytes: 0 };
    queue.push(&launch.packet());
    queue.ring();
    assert_eq!(driver.machine.run(20), Step::Moved);
    (driver, queue, arguments)
}

#[test]
fn arguments_stay_as_they_are_until_their_dispatch_ends() {
    let (driver, _queue, arguments) = flying();
    arguments.half(16).store(5, Ordering::Release);
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::StorageChanged { va: arguments.va, what: "arguments" });
    let (driver, _queue, arguments) = flying();
    driver.unmap(arguments).unwrap();
    assert_eq!(fault(&driver), PublicationFault::StorageFreed { va: arguments.va, what: "arguments" });
    let (driver, _queue, arguments) = flying();
    driver.finish();
    arguments.half(16).store(5, Ordering::Release);
    driver.unmap(arguments).unwrap();
    driver.machine.assert_clean();
}

#[test]
fn the_struct_of_a_compute_queue_says_what_the_processor_needs() {
    for (at, value, named) in [
        (0x88, 0x40, "read_dispatch_id_field_base_byte_offset"),
        (0xb4, 0, "queue_properties"),
        (0x48, 0, "max_cu_id"),
        (0x4c, 0, "max_wave_id"),
    ] {
        let (driver, mut queue, packet) = started();
        queue.page.half(at).store(value, Ordering::Release);
        queue.push(&packet);
        queue.ring();
        driver.run();
        assert!(matches!(fault(&driver), PublicationFault::QueueStruct { field, .. } if field == named));
    }
    let (driver, mut queue, packet) = started();
    queue.ring.half(40 * 64).store(0, Ordering::Release);
    queue.push(&packet);
    queue.ring();
    driver.run();
    assert!(matches!(fault(&driver), PublicationFault::QueueStruct { wants: 1, .. }));
}

#[test]
fn a_copy_ring_is_written_before_it_is_published() {
    let driver = Driver::held(1);
    let (mut queue, word) = (driver.sdma_of(1024), driver.zeroed(4096, SHARED));
    for value in 1..=64 {
        queue.push(&sdma_fence(word.va, value));
    }
    queue.ring();
    driver.finish();
    queue.write += 16;
    queue.ring();
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::Stale);
    let driver = Driver::held(1);
    let mut queue = driver.sdma();
    queue.word(0);
    queue.write += 2;
    queue.ring();
    driver.run();
    assert_eq!(fault(&driver), PublicationFault::Unaligned { doorbell: 6 });
}

#[test]
fn a_doorbell_that_is_lost_leaves_its_work_until_the_next() {
    let (driver, mut queue, packet) = started();
    driver.machine.lose_doorbells(1);
    queue.push(&packet);
    queue.ring();
    assert_eq!(driver.run(), Step::Idle);
    assert_eq!(queue.read_index(), 0);
    queue.push(&packet);
    queue.ring();
    driver.finish();
    assert_eq!(queue.read_index(), 2);
    assert!(driver.machine.quiet(Duration::from_secs(1)));
}
