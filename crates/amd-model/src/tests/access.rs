//! Accesses of a GPU outside what is mapped for it: the fourth group, and how the host learns of them.

use super::events::{event, named, wait_for};
use super::kit::*;
use crate::{Group, Step, Violation, Want, abi};
use std::sync::atomic::Ordering;

/// An event of each kind of exception, as a driver makes them.
fn exceptions(driver: &Driver) -> [abi::EventData; 2] {
    [abi::EVENT_MEMORY, abi::EVENT_HW_EXCEPTION].map(|kind| named(event(driver, kind, 0).unwrap().event_id))
}

fn access(driver: &Driver) -> (u64, Want, bool) {
    let found = driver.machine.assert_found(Group::Memory);
    let Violation::Access { va, want, mapped, gpu_id, .. } = found[0] else { panic!("{found:?}") };
    assert_eq!(gpu_id, driver.gpu_id);
    (va, want, mapped)
}

/// Runs a kernel of the faulting fixtures whose arguments are an address, an offset and a word.
fn run_at(driver: &Driver, kernel: &str, arguments: &[u64], flags: u32) -> Aql {
    let (image, mut queue) = (driver.faults(), driver.aql());
    let memory = driver.zeroed(4096, flags);
    arguments.iter().enumerate().for_each(|(i, &word)| memory.word(i as u64 * 8).store(word, Ordering::Relaxed));
    let kernel = image.kernel(kernel);
    let launch = Launch { header: DISPATCH, kernel, arguments: memory.va, groups: 1, threads: 1, group_bytes: 0 };
    queue.push(&launch.packet());
    queue.ring();
    queue
}

#[test]
fn a_store_past_the_memory_stops_the_queue_and_tells_the_address() {
    let driver = Driver::held(1);
    let mut exceptions = exceptions(&driver);
    let y = driver.zeroed(4096, SHARED);
    run_at(&driver, "store_at", &[y.va, 1 << 30, 7], SHARED);
    assert_eq!(driver.run(), Step::Idle, "the queue is stopped");
    assert_eq!(access(&driver), (y.va + (1 << 30), Want::Write, false));
    assert_eq!(wait_for(&driver, &mut exceptions, false, 0), Ok(abi::WAIT_COMPLETE));
    let told = exceptions[0];
    assert_eq!((told.va, told.gpu_id, told.data0, told.data1), (y.va + (1 << 30), driver.gpu_id, 1, 0));
    run_at(&driver, "store_at", &[y.va, 8, 7], SHARED);
    assert_eq!(driver.run(), Step::Idle);
    assert_eq!(y.half(8).load(Ordering::Acquire), 0, "the kernel runs nothing more of this process on the GPU");
    driver.machine.assert_clean();
}

#[test]
fn a_store_inside_the_memory_is_clean() {
    let driver = Driver::held(1);
    let y = driver.zeroed(4096, SHARED);
    run_at(&driver, "store_at", &[y.va, 4092, 7], SHARED);
    driver.finish();
    assert_eq!(y.half(4092).load(Ordering::Acquire), 7);
}

#[test]
fn a_store_to_memory_that_is_not_writable_is_told_as_that() {
    let driver = Driver::held(1);
    let mut exceptions = exceptions(&driver);
    let y = driver.alloc(4096, SHARED & !abi::FLAG_WRITABLE);
    run_at(&driver, "store_at", &[y.va, 0, 7], SHARED);
    driver.run();
    assert_eq!(access(&driver), (y.va, Want::Write, true));
    assert_eq!(wait_for(&driver, &mut exceptions, false, 0), Ok(abi::WAIT_COMPLETE));
    assert_eq!((exceptions[0].data0, exceptions[0].data1), (0, 1));
}

#[test]
fn a_load_of_memory_that_another_gpu_has_faults() {
    let driver = Driver::held(1);
    let (x, y) = (driver.unmapped(4096, SHARED), driver.zeroed(4096, SHARED));
    run_at(&driver, "load_at", &[x.va, y.va, 0], SHARED);
    driver.run();
    assert_eq!(access(&driver), (x.va, Want::Read, false));
}

#[test]
fn copies_reach_what_is_mapped_and_no_byte_more() {
    let copy = |bytes: u64, len: u64| {
        let driver = Driver::held(1);
        let (mut queue, x, y) = (driver.sdma(), driver.zeroed(len, SHARED), driver.zeroed(8192, SHARED));
        queue.push(&sdma_copy(x.va, y.va, bytes));
        queue.ring();
        driver.run();
        (driver, x)
    };
    let (driver, x) = copy(4097, 4096);
    assert_eq!(access(&driver), (x.va + 4096, Want::Read, false));
    copy(4096, 4096).0.machine.assert_clean();
}

#[test]
fn words_of_packets_are_mapped() {
    let driver = Driver::held(1);
    let (mut queue, word) = (driver.aql(), driver.unmapped(4096, SHARED));
    queue.push_buffer(&release(word.va, 1));
    queue.ring();
    driver.run();
    assert_eq!(access(&driver), (word.va, Want::Write, false));
}

#[test]
fn a_planned_fault_is_told_and_is_no_violation() {
    let driver = Driver::held(1);
    let mut exceptions = exceptions(&driver);
    driver.machine.fault_access(0);
    let y = driver.zeroed(4096, SHARED);
    run_at(&driver, "store_at", &[y.va, 0, 7], SHARED);
    assert_eq!(driver.run(), Step::Idle);
    driver.machine.assert_clean();
    assert_eq!(wait_for(&driver, &mut exceptions, false, 0), Ok(abi::WAIT_COMPLETE));
    assert_eq!(exceptions[0].data0, 1);
}

#[test]
fn a_reset_stops_queues_loses_memory_and_is_told() {
    let driver = Driver::held(1);
    let mut exceptions = exceptions(&driver);
    let (mut queue, own, word) = (driver.sdma(), driver.zeroed(4096, OWN), driver.zeroed(4096, SHARED));
    driver.machine.reset(0);
    queue.push(&sdma_fence(word.va, 1));
    queue.ring();
    assert_eq!(driver.run(), Step::Idle);
    assert_eq!(word.word(0).load(Ordering::Acquire), 0);
    assert_ne!(own.word(0).load(Ordering::Acquire), 0, "what was there is lost");
    assert_eq!(wait_for(&driver, &mut exceptions, false, 0), Ok(abi::WAIT_COMPLETE));
    assert_eq!((exceptions[1].data2, exceptions[1].data3), (1, driver.gpu_id));
    driver.call(abi::BOTH, 0x03, &mut abi::Id { id: queue.id, pad: 0 }).unwrap();
    let mut queue = driver.sdma();
    queue.push(&sdma_fence(word.va, 2));
    queue.ring();
    driver.finish();
    assert_eq!(word.word(0).load(Ordering::Acquire), 2, "a new queue runs");
}

#[test]
fn a_hang_stops_all_and_tells_nobody() {
    let driver = Driver::held(1);
    let (mut queue, word) = (driver.sdma(), driver.zeroed(4096, SHARED));
    driver.machine.hang(true);
    queue.push(&sdma_fence(word.va, 1));
    queue.ring();
    driver.run();
    assert_eq!(word.word(0).load(Ordering::Acquire), 0);
    driver.machine.hang(false);
    driver.finish();
    assert_eq!(word.word(0).load(Ordering::Acquire), 1);
}

#[test]
fn a_lost_interrupt_wakes_nobody_though_the_slot_is_written() {
    let driver = Driver::held(1);
    let page = driver.alloc(32768, SHARED);
    let event = event(&driver, abi::EVENT_SIGNAL, page.handle).unwrap();
    let (mut queue, slot) = (driver.aql(), u64::from(event.event_slot_index) * 8);
    let mut words = release(page.va + slot, u64::from(event.event_id));
    words[2] |= 2 << 24;
    words[7] = event.event_id;
    driver.machine.lose_interrupts(1);
    queue.push_buffer(&words);
    queue.ring();
    driver.finish();
    assert_eq!(page.word(slot).load(Ordering::Acquire), u64::from(event.event_id));
    assert_eq!(wait_for(&driver, &mut [named(event.event_id)], false, 0), Ok(abi::WAIT_TIMEOUT));
    queue.push_buffer(&words);
    queue.ring();
    driver.finish();
    assert_eq!(wait_for(&driver, &mut [named(event.event_id)], false, 0), Ok(abi::WAIT_COMPLETE));
    assert_eq!(page.word(slot).load(Ordering::Acquire), u64::MAX, "the kernel took it");
}

#[test]
fn two_gpus_have_their_own_mappings() {
    let driver = Driver::open(crate::Machine::builder().held().gpus(2));
    let (x, y) = (driver.zeroed(4096, SHARED), driver.zeroed(4096, SHARED));
    // What one GPU maps, the other does not reach.
    let second = driver.machine.open("/dev/dri/renderD129").unwrap();
    let gpu_id = driver.machine.gpu_id(1);
    driver.call(abi::IN, 0x15, &mut abi::AcquireVm { drm_fd: second as u32, gpu_id }).unwrap();
    let mut queue = driver.second(second, gpu_id).sdma();
    queue.push(&sdma_copy(x.va, y.va, 64));
    queue.ring();
    driver.run();
    let found = driver.machine.assert_found(Group::Memory);
    assert!(matches!(found[0], Violation::Access { gpu_id: named, va, .. } if named == gpu_id && va == x.va));
}

#[test]
fn a_gpu_that_another_runtime_has_is_busy() {
    let machine = crate::Machine::builder().build();
    let (kfd, render) = (machine.open("/dev/kfd").unwrap(), machine.open("/dev/dri/renderD128").unwrap());
    machine.bind_elsewhere(0);
    let mut value = abi::AcquireVm { drm_fd: render as u32, gpu_id: machine.gpu_id(0) };
    // SAFETY: `value` is the struct that the request names.
    let answer = unsafe { machine.ioctl(kfd, request::<abi::AcquireVm>(abi::IN, 0x15), (&raw mut value).cast()) };
    assert_eq!(answer, Err(crate::errno::EBUSY));
    machine.assert_clean();
}

#[test]
fn a_hold_stops_the_engines_and_a_release_lets_them_go_on() {
    let driver = Driver::open(crate::Machine::builder());
    let (mut queue, word) = (driver.sdma(), driver.zeroed(4096, SHARED));
    driver.machine.hold();
    queue.push(&sdma_fence(word.va, 1));
    queue.push(&sdma_fence(word.va, 2));
    queue.ring();
    assert_eq!(driver.machine.step(), Step::Moved, "it takes the first");
    assert_eq!(driver.machine.step(), Step::Moved, "it does it");
    assert_eq!(word.word(0).load(Ordering::Acquire), 1);
    driver.machine.release();
    while word.word(0).load(Ordering::Acquire) < 2 {
        std::thread::yield_now();
    }
    driver.machine.assert_clean();
}

#[test]
fn what_is_alive_is_counted() {
    let driver = Driver::held(1);
    let before = driver.machine.counts();
    let queue = driver.sdma();
    let counts = driver.machine.counts();
    assert_eq!((counts.queues, counts.memories, counts.mappings), (1, before.memories + 3, before.mappings + 3));
    driver.call(abi::BOTH, 0x03, &mut abi::Id { id: queue.id, pad: 0 }).unwrap();
    for mem in [queue.ring, queue.read_pointer, queue.write_pointer] {
        driver.unmap(mem).unwrap();
        driver.free(mem).unwrap();
    }
    let counts = driver.machine.counts();
    assert_eq!((counts.queues, counts.memories, counts.mappings), (0, before.memories, before.mappings));
}
