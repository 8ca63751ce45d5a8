//! Packets: the second group of violations, each made by one change of a packet that is right.

use super::kit::*;
use super::work::add_arguments;
use crate::{Group, PacketFault, Step, Violation};
use std::sync::atomic::Ordering;

/// Runs one AQL packet, and gives what was wrong with it.
fn fault_of(packet: impl Fn(&Driver, &Aql, [u8; 64]) -> [u8; 64]) -> Option<PacketFault> {
    let driver = Driver::held(1);
    let (image, mut queue) = (driver.suite(), driver.aql());
    let x = driver.zeroed(4096, SHARED);
    let arguments = add_arguments(&driver, x, x, 64).va;
    let kernel = image.kernel("add");
    let right = Launch { header: DISPATCH, kernel, arguments, groups: 2, threads: 64, group_bytes: 0 }.packet();
    let packet = packet(&driver, &queue, right);
    queue.push(&packet);
    queue.ring();
    assert_eq!(driver.run(), Step::Idle);
    fault(&driver)
}

fn fault(driver: &Driver) -> Option<PacketFault> {
    if driver.machine.violations().is_empty() {
        return None;
    }
    match driver.machine.assert_found(Group::Packets).remove(0) {
        Violation::Packet { fault, .. } => Some(fault),
        other => panic!("{other:?}"),
    }
}

fn with(at: usize, bytes: &[u8]) -> impl Fn(&Driver, &Aql, [u8; 64]) -> [u8; 64] {
    move |_, _, mut packet| {
        put(&mut packet, at, bytes);
        packet
    }
}

fn is_field(fault: Option<PacketFault>, named: &str) -> bool {
    match fault.unwrap() {
        PacketFault::Field { field, .. }
        | PacketFault::Reserved { field, .. }
        | PacketFault::Misaligned { field, .. }
        | PacketFault::TooSmall { field, .. } => field == named,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_packet_that_the_others_are_made_from_is_right() {
    assert_eq!(fault_of(|_, _, packet| packet), None);
}

#[test]
fn unknown_types_and_formats_are_refused() {
    for header in [0x1504u16, 0x1507, 0x15ff] {
        assert!(matches!(fault_of(with(0, &header.to_le_bytes())), Some(PacketFault::Unknown { .. })));
    }
    // The vendor's packet with a format that gfx1100 does not have: a wait for a value of a signal.
    assert!(matches!(fault_of(with(0, &[0x00, 0x15, 2, 0])), Some(PacketFault::Unknown { .. })));
}

#[test]
fn reserved_bits_of_a_dispatch_are_zero() {
    assert!(is_field(fault_of(with(1, &[0x35])), "header bits 13 to 15"));
    assert!(is_field(fault_of(with(0, &0x1f02u16.to_le_bytes())), "header"));
    assert!(is_field(fault_of(with(10, &[1])), "bytes 10 and 11"));
    assert!(is_field(fault_of(with(50, &[1])), "bytes 48 to 55"));
}

#[test]
fn dimensions_and_sizes_agree() {
    assert!(is_field(fault_of(with(2, &[0])), "setup"));
    assert!(is_field(fault_of(with(2, &[9])), "setup"));
    assert!(is_field(fault_of(with(16, &[2])), "grid_size"), "two rows in one dimension");
    assert!(is_field(fault_of(with(12, &[0; 4])), "grid_size"));
    assert!(is_field(fault_of(with(4, &[0, 0])), "workgroup_size"));
    assert!(is_field(fault_of(with(4, &1025u16.to_le_bytes())), "workgroup_size"));
    let two = |_: &Driver, _: &Aql, mut packet: [u8; 64]| {
        put(&mut packet, 2, &[2]);
        put(&mut packet, 16, &[2]);
        packet
    };
    assert_eq!(fault_of(two), None);
}

#[test]
fn addresses_in_a_dispatch_are_aligned_and_mapped() {
    let moved = |at: usize, by: u64| {
        move |_: &Driver, _: &Aql, mut packet: [u8; 64]| {
            let value = u64::from_le_bytes(std::array::from_fn(|i| packet[at + i])).wrapping_add(by);
            put(&mut packet, at, &value.to_le_bytes());
            packet
        }
    };
    assert!(is_field(fault_of(moved(40, 8)), "kernarg_address"));
    assert!(is_field(fault_of(moved(40, 4096 - 16)), "kernarg_address"), "20 bytes of arguments, 16 of them mapped");
    assert!(is_field(fault_of(moved(56, 8)), "completion_signal"));
    for by in [8, 1 << 40] {
        assert!(matches!(fault_of(moved(32, by)), Some(PacketFault::NoKernel { .. })));
    }
    let start = |_: &Driver, _: &Aql, mut packet: [u8; 64]| {
        let kernel = u64::from_le_bytes(std::array::from_fn(|i| packet[32 + i]));
        put(&mut packet, 32, &(kernel & !0xfff).to_le_bytes());
        packet
    };
    assert!(matches!(fault_of(start), Some(PacketFault::NoKernel { why, .. }) if why.contains("no descriptor")));
}

#[test]
fn a_kernel_lies_in_memory_that_may_run() {
    let driver = Driver::held(1);
    let (image, mut queue) = (driver.suite(), driver.aql());
    let copy = driver.alloc(image.mem.len, SHARED & !crate::abi::FLAG_EXECUTABLE);
    copy.put(0, &image.mem.get(0, image.mem.len));
    let x = driver.zeroed(4096, SHARED);
    let arguments = add_arguments(&driver, x, x, 64).va;
    let kernel = image.kernel("add") - image.mem.va + copy.va;
    queue.push(&Launch { header: DISPATCH, kernel, arguments, groups: 1, threads: 64, group_bytes: 0 }.packet());
    queue.ring();
    assert_eq!(driver.run(), Step::Idle);
    assert!(matches!(fault(&driver), Some(PacketFault::NoKernel { why, .. }) if why.contains("may run")));
}

#[test]
fn group_memory_is_as_much_as_the_descriptor_asks_for() {
    let run = |group_bytes| {
        let driver = Driver::held(1);
        let (image, mut queue) = (driver.work(), driver.aql());
        let x = driver.zeroed(4096, SHARED);
        let arguments = add_arguments(&driver, x, driver.zeroed(4096, SHARED), 0).va;
        let kernel = image.kernel("reduce");
        queue.push(&Launch { header: DISPATCH, kernel, arguments, groups: 1, threads: 256, group_bytes }.packet());
        queue.ring();
        assert_eq!(driver.run(), Step::Idle);
        fault(&driver)
    };
    assert!(is_field(run(512), "group_segment_size"));
    assert!(is_field(run(65540), "group_segment_size"));
    assert_eq!(run(1024), None);
}

#[test]
fn a_kernel_of_another_width_is_refused() {
    let driver = Driver::held(1);
    let image = driver.load(include_bytes!("../../fixtures/wave64.co"));
    let mut queue = driver.aql();
    let x = driver.zeroed(4096, SHARED);
    let kernel = image.any();
    queue.push(&Launch { header: DISPATCH, kernel, arguments: x.va, groups: 1, threads: 64, group_bytes: 0 }.packet());
    queue.ring();
    assert_eq!(driver.run(), Step::Idle);
    assert!(matches!(fault(&driver), Some(PacketFault::NoKernel { why, .. }) if why.contains("wave64")));
}

#[test]
fn barriers_have_aligned_signals_and_zeros() {
    let barrier = |at: usize, value: u64| {
        move |_: &Driver, _: &Aql, _: [u8; 64]| {
            let mut packet = [0; 64];
            put(&mut packet, 0, &BARRIER_AND.to_le_bytes());
            put(&mut packet, at, &value.to_le_bytes());
            packet
        }
    };
    assert!(is_field(fault_of(barrier(8, 8)), "dep_signal"));
    assert!(is_field(fault_of(barrier(48, 1)), "bytes 48 to 55"));
    assert_eq!(fault_of(barrier(8, 0)), None);
}

#[test]
fn a_barrier_waits_for_its_signals_and_completes_its_own() {
    let driver = Driver::held(2);
    let (mut queue, signals) = (driver.aql(), driver.zeroed(4096, SHARED));
    signals.word(8).store(1, Ordering::Relaxed);
    signals.word(64 + 8).store(5, Ordering::Relaxed);
    let mut packet = [0; 64];
    put(&mut packet, 0, &BARRIER_AND.to_le_bytes());
    put(&mut packet, 8, &signals.va.to_le_bytes());
    put(&mut packet, 56, &(signals.va + 64).to_le_bytes());
    queue.push(&packet);
    queue.ring();
    assert!(matches!(driver.run(), Step::Stuck(_)));
    signals.word(8).store(0, Ordering::Release);
    driver.finish();
    assert_eq!(signals.word(64 + 8).load(Ordering::Acquire), 4);
}

fn buffer_fault(change: impl Fn(&mut [u8; 64], &mut Vec<u32>, u64)) -> Option<PacketFault> {
    let driver = Driver::held(1);
    let (mut queue, word) = (driver.aql(), driver.zeroed(4096, SHARED));
    let mut words = release(word.va, 1);
    change(&mut [0; 64], &mut words, word.va);
    let mut packet = queue.buffer(&words);
    change(&mut packet, &mut words, word.va);
    queue.push(&packet);
    queue.ring();
    assert_eq!(driver.run(), Step::Idle);
    fault(&driver)
}

#[test]
fn indirect_buffers_are_named_as_the_processor_wants_them() {
    assert_eq!(buffer_fault(|_, _, _| ()), None);
    assert!(is_field(buffer_fault(|packet, _, _| put(packet, 4, &[1])), "INDIRECT_BUFFER"));
    assert!(is_field(buffer_fault(|packet, _, _| packet[8] |= 1), "the buffer's address"));
    assert!(is_field(buffer_fault(|packet, _, _| packet[18] = 0), "the buffer's length"));
    assert!(is_field(buffer_fault(|packet, _, _| packet[20] = 11), "the words that follow"));
    assert!(is_field(buffer_fault(|packet, _, _| packet[30] = 1), "bytes 24 to 55"));
}

#[test]
fn packets_in_an_indirect_buffer_are_checked() {
    let unknown = |words: &mut Vec<u32>| words[0] = 0xc006_7700;
    assert!(matches!(buffer_fault(|_, words, _| unknown(words)), Some(PacketFault::Unknown { .. })));
    assert!(matches!(buffer_fault(|_, words, _| words[0] = 0xc005_4900), Some(PacketFault::Unknown { .. })));
    assert!(matches!(buffer_fault(|_, words, _| words.truncate(7)), Some(PacketFault::Truncated { .. })));
    assert!(is_field(buffer_fault(|_, words, _| words[1] = words[1] & !0xff | 0x2f), "event_type and event_index"));
    assert!(is_field(buffer_fault(|_, words, _| words[2] = 5 << 29), "data_sel"));
    assert!(is_field(buffer_fault(|_, words, va| words[3] = va as u32 + 4), "address"));
    assert!(is_field(
        buffer_fault(|_, words, va| *words = [wait(va, 0), vec![]].concat().with(1, 5)),
        "WAIT_REG_MEM64 word 1"
    ));
    assert!(is_field(buffer_fault(|_, words, va| *words = wait(va, 0).with(2, va as u32 + 4)), "poll_address"));
    assert!(is_field(buffer_fault(|_, words, _| *words = acquire().with(1, 8)), "ACQUIRE_MEM coher_cntl"));
    assert_eq!(buffer_fault(|_, words, _| *words = acquire()), None);
    assert_eq!(buffer_fault(|_, words, va| *words = wait(va, 0)), None);
}

/// A list with one word changed.
trait With {
    fn with(self, at: usize, word: u32) -> Self;
}

impl With for Vec<u32> {
    fn with(mut self, at: usize, word: u32) -> Self {
        self[at] = word;
        self
    }
}

fn sdma_fault(words: impl Fn(u64, u64) -> Vec<u32>) -> Option<PacketFault> {
    let driver = Driver::held(1);
    let (mut queue, x, y) = (driver.sdma(), driver.zeroed(8192, SHARED), driver.zeroed(8192, SHARED));
    words(x.va, y.va).into_iter().for_each(|word| queue.word(word));
    queue.ring();
    assert_eq!(driver.run(), Step::Idle);
    fault(&driver)
}

#[test]
fn copy_packets_are_checked() {
    assert_eq!(sdma_fault(|x, y| sdma_copy(x, y, 100)), None);
    assert!(matches!(sdma_fault(|_, _| vec![99]), Some(PacketFault::Unknown { .. })));
    assert!(matches!(sdma_fault(|_, _| vec![1 | 7 << 8]), Some(PacketFault::Unknown { .. })));
    assert!(is_field(sdma_fault(|x, y| sdma_copy(x, y, 100).with(1, 1 << 30)), "COPY count, bits 30 and 31"));
    assert!(is_field(sdma_fault(|x, y| sdma_copy(x, y, 100).with(0, 1 | 1 << 27)), "the first word"));
    assert!(is_field(sdma_fault(|x, y| sdma_copy(x, y, 100).with(2, 4)), "COPY parameters"));
    assert!(is_field(sdma_fault(|x, _| sdma_copy(x, x + 50, 100)), "COPY destination"));
}

#[test]
fn fill_packets_are_checked() {
    assert_eq!(sdma_fault(|x, _| sdma_fill(x, 9, 64)), None);
    assert!(is_field(sdma_fault(|x, _| sdma_fill(x + 2, 9, 64)), "FILL destination"));
    assert!(is_field(sdma_fault(|x, _| sdma_fill(x, 9, 64).with(4, 61)), "FILL count"));
    assert!(is_field(sdma_fault(|x, _| sdma_fill(x, 9, 64).with(4, 1 << 22)), "FILL count, bits 22 to 31"));
    assert!(is_field(sdma_fault(|x, _| sdma_fill(x, 9, 64).with(0, 11)), "FILL fillsize"));
}

#[test]
fn fences_polls_and_atomics_are_checked() {
    assert_eq!(sdma_fault(|x, _| sdma_fence(x, 1)), None);
    assert!(is_field(sdma_fault(|x, _| sdma_fence(x + 2, 1)), "FENCE address"));
    assert!(is_field(sdma_fault(|x, _| sdma_fence(x, 1).with(0, 5)), "FENCE's first word"));
    assert_eq!(sdma_fault(|x, _| sdma_poll(x, 0)), None);
    assert!(is_field(sdma_fault(|x, _| sdma_poll(x + 2, 0)), "POLL address"));
    assert!(is_field(sdma_fault(|x, _| sdma_poll(x, 0).with(5, 4)), "POLL retries"));
    assert!(is_field(sdma_fault(|x, _| sdma_poll(x, 0).with(0, 8 | 5 << 28)), "POLL's first word"));
    let add = |x: u64| vec![10 | 47 << 25, x as u32, (x >> 32) as u32, 1, 0, 0, 0, 0];
    assert_eq!(sdma_fault(|x, _| add(x)), None);
    assert!(is_field(sdma_fault(|x, _| add(x).with(0, 10 | 3 << 25)), "ATOMIC operation"));
    assert!(is_field(sdma_fault(|x, _| add(x + 4)), "address"));
}

#[test]
fn packets_of_a_copy_queue_neither_straddle_nor_end_early() {
    let run = |fill: bool| {
        let driver = Driver::held(1);
        let (mut queue, x, y) = (driver.sdma_of(1024), driver.zeroed(4096, SHARED), driver.zeroed(4096, SHARED));
        for _ in 0..255 {
            queue.word(0);
        }
        if fill {
            queue.push(&sdma_copy(x.va, y.va, 64));
        } else {
            queue.ring();
            assert_eq!(driver.run(), Step::Idle);
            sdma_copy(x.va, y.va, 64).into_iter().for_each(|word| queue.word(word));
        }
        queue.ring();
        assert_eq!(driver.run(), Step::Idle);
        fault(&driver)
    };
    assert!(matches!(run(false), Some(PacketFault::Straddles { .. })));
    let driver = Driver::held(1);
    let (mut queue, x) = (driver.sdma(), driver.zeroed(4096, SHARED));
    sdma_copy(x.va, x.va + 512, 64)[..4].iter().for_each(|&word| queue.word(word));
    queue.ring();
    assert_eq!(driver.run(), Step::Idle);
    assert!(matches!(fault(&driver), Some(PacketFault::Truncated { .. })));
}

#[test]
fn the_end_of_a_copy_ring_is_filled_with_nops() {
    let driver = Driver::held(1);
    let (mut queue, word) = (driver.sdma_of(1024), driver.zeroed(4096, SHARED));
    for value in 1..200 {
        // Five words of a cache control and four of a fence: 1024 is no multiple of them.
        queue.push(&sdma_release());
        queue.push(&sdma_fence(word.va, value));
        queue.ring();
        driver.finish();
        assert_eq!(word.half(0).load(Ordering::Acquire), value);
    }
}

#[test]
fn an_interrupt_needs_the_slot_of_its_event_written() {
    let run = |written: bool| {
        let driver = Driver::held(1);
        let page = driver.alloc(32768, SHARED);
        let event = super::events::event(&driver, 0, page.handle).unwrap();
        let mut queue = driver.sdma();
        if written {
            queue.push(&sdma_fence(page.va + u64::from(event.event_slot_index) * 8, event.event_id));
        }
        queue.push(&[6, event.event_id]);
        queue.ring();
        assert_eq!(driver.run(), Step::Idle);
        let mut wanted = [super::events::named(event.event_id)];
        (fault(&driver), super::events::wait_for(&driver, &mut wanted, false, 0))
    };
    assert!(matches!(run(false), (Some(PacketFault::EmptyInterrupt { .. }), Ok(1))));
    assert_eq!(run(true), (None, Ok(0)));
}
