//! Memory comes back: dropped buffers, the cache, the rounds.

use rig::Error;
use rig_conformance::model::{Call, Options, Pace};

use crate::support::{Bench, counted, values};

/// Promise C16.
#[test]
fn a_buffer_dropped_in_flight_keeps_its_memory_until_its_uses_completed() {
    let mut a = Bench::new("A");
    let (x, big) = (a.buffer(), a.device.buffer(1 << 20).unwrap());
    let y = big.view(0..64).unwrap();
    a.iota(&y, 1).unwrap();
    drop((big, y));
    let live = a.device.allocated();
    assert!(live >= 1 << 20, "its work still runs");
    let other = a.device.buffer(1 << 20).unwrap();
    other.copy_from_slice(&vec![9_u8; 1 << 20]).unwrap();
    a.control.complete_all();
    other.read(|bytes: &[u8]| assert!(bytes.iter().all(|b| *b == 9), "the work wrote its own memory")).unwrap();
    assert_eq!(a.device.allocated(), live, "the other took its place");
    assert_eq!(a.device.cached(), 1 << 20);
    drop(x);
    a.model.assert_clean();
}

/// Promise C17.
#[test]
fn cached_memory_is_used_again_with_no_driver_call() {
    let a = Bench::new("A");
    drop(a.device.buffer(1 << 20).unwrap());
    let calls = a.control.calls().alloc;
    for _ in 0..100 {
        let again = a.device.buffer((1 << 20) - 7).unwrap();
        assert_eq!(again.len(), (1 << 20) - 7);
    }
    assert_eq!(a.control.calls().alloc, calls);
}

/// Promises C17, S07.
#[test]
fn an_allocation_that_does_not_fit_waits_for_what_was_dropped_and_still_runs() {
    let mut a = Bench::with("A", Options::default().capacity(3 << 20).pace(Pace::Slept));
    a.control.encode_only(true);
    let big = a.device.buffer(2 << 20).unwrap();
    a.iota(&big.view(0..64).unwrap(), 1).unwrap();
    drop(big);
    let again = a.device.buffer(2 << 20).unwrap();
    assert_eq!(values(&again.view(0..64).unwrap()).unwrap(), counted(1), "the very same memory, after its work");
    a.model.assert_clean();
}

/// Promises C17, C18, E29.
#[test]
fn the_cache_goes_back_to_the_driver_before_out_of_memory() {
    let a = Bench::with("A", Options::default().capacity(4 << 20));
    let used = a.control.live_bytes();
    let keep = a.buffer();
    keep.copy_from_slice(&counted(2)).unwrap();
    for _ in 0..3 {
        let parts: Vec<_> = (0..3).map(|i| a.device.buffer((1 << 20) - i * 70_000).unwrap()).collect();
        drop(parts);
        let whole = a.device.buffer(3 << 20).unwrap();
        drop(whole);
    }
    match a.device.buffer(5 << 20) {
        Err(Error::OutOfMemory { bytes }) => assert_eq!(bytes, 5 << 20),
        other => panic!("{other:?}"),
    }
    assert_eq!(values(&keep).unwrap(), counted(2), "what was there is right");
    drop(keep);
    a.device.set_budget(0);
    assert_eq!(a.control.live_bytes(), used, "and all of it went back");
    a.model.assert_clean();
}

/// Promises C17, E04.
#[test]
fn an_allocation_makes_at_most_four_tries_of_positive_multiples_of_four() {
    let a = Bench::new("A");
    let before = a.control.calls().alloc;
    a.control.alloc_fail_next(u32::MAX);
    assert!(matches!(a.device.buffer((1 << 20) + 1), Err(Error::OutOfMemory { .. })));
    assert!(a.control.calls().alloc - before <= 4);
    a.control.alloc_fail_next(3);
    a.device.buffer((1 << 20) + 1).unwrap();
    // The model checks every length; odd ones were asked for here.
    for len in [1, 2, 3, 5, 4097, 70_001] {
        a.device.buffer(len).unwrap();
    }
    a.model.assert_clean();
}

/// Promises C18, E02.
#[test]
fn the_budget_begins_at_the_facts_and_counts_buffers_code_and_cache() {
    let a = Bench::with("A", Options::default().budget(2 << 20));
    assert_eq!(a.device.budget(), 2 << 20);
    let one = a.device.buffer(1 << 20).unwrap();
    assert_eq!(a.device.allocated(), 1 << 20);
    drop(one);
    assert_eq!((a.device.allocated(), a.device.cached()), (0, 1 << 20));
    let _both = (a.device.buffer(1 << 20).unwrap(), a.device.buffer((1 << 20) - 4096).unwrap());
    assert!(matches!(a.device.buffer(1 << 16), Err(Error::OutOfMemory { .. })));
    a.device.set_budget(4 << 20);
    a.device.buffer(1 << 16).unwrap();
}

/// Promise C33.
#[test]
fn neighbours_in_a_shared_region_lie_apart_by_alignment_and_cache_line() {
    for (alignment, cache, apart) in [(64, Some(64), 64), (256, Some(64), 256), (64, Some(128), 128), (4, None, 64)] {
        let a = Bench::with("A", Options::default().alignment(alignment).cache_bytes(cache));
        let buffers: Vec<_> = (0..100).map(|_| a.device.buffer(5).unwrap()).collect();
        let mut places: Vec<usize> =
            buffers.iter().map(|b| b.read(|bytes: &[u8]| bytes.as_ptr().addr()).unwrap()).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= apart), "{alignment} {cache:?}");
        assert!(places.iter().all(|place| place % apart == 0));
        buffers[50].read(|bytes: &[u8]| assert_eq!(bytes, [0; 5], "fresh memory is zero")).unwrap();
    }
}

/// Promise C17.
#[test]
fn threads_that_make_a_shared_region_at_one_time_share_one_and_leave_the_rest_to_whoever_needs_it() {
    let a = Bench::new("A");
    let (before, region) = (a.device.allocated(), 64 << 10);
    let held = a.control.hold(Call::Alloc);
    let buffers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| a.device.buffer(64).unwrap())).collect();
        held.wait_inside(3);
        held.release();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!((a.device.allocated() - before, a.device.cached()), (region, 2 * region));
    // Of another size, in what was too many.
    let calls = a.control.calls().alloc;
    let other = a.device.buffer(1 << 10).unwrap();
    assert_eq!((a.device.allocated() - before, a.device.cached()), (2 * region, region));
    assert_eq!(a.control.calls().alloc, calls);
    for (at, buffer) in buffers.iter().enumerate() {
        buffer.write(|bytes: &mut [u8]| bytes.fill(at as u8)).unwrap();
    }
    for (at, buffer) in buffers.iter().enumerate() {
        buffer.read(|bytes: &[u8]| assert!(bytes.iter().all(|byte| usize::from(*byte) == at))).unwrap();
    }
    drop((buffers, other));
    assert_eq!((a.device.allocated() - before, a.device.cached()), (0, 3 * region));
    a.device.set_budget(0);
    assert_eq!(a.device.cached(), 0);
    a.model.assert_clean();
}

/// Promises C05, C06.
#[test]
fn memory_that_the_host_cannot_address_is_read_and_written_through_staging() {
    let a = Bench::with("A", Options::default().no_host_addresses().pace(Pace::Slept));
    let b = Bench::with("B", Options::default().no_host_addresses().pace(Pace::Slept));
    let y = a.device.buffer(4096).unwrap();
    y.write(|bytes: &mut [u8]| bytes[..2048].fill(3)).unwrap();
    y.view(1024..4096).unwrap().write(|bytes: &mut [u8]| bytes[0] = 9).unwrap();
    let expected: Vec<u8> = (0..4096)
        .map(|i| {
            if i == 1024 {
                9
            } else if i < 2048 {
                3
            } else {
                0
            }
        })
        .collect();
    y.read(|bytes: &[u8]| assert_eq!(bytes, expected)).unwrap();
    let z = b.device.buffer(4096).unwrap();
    assert_eq!(y.copy_to(&z).unwrap().path, rig::CopyPath::Staging);
    z.read(|bytes: &[u8]| assert_eq!(bytes, expected)).unwrap();
    let host = Bench::with("H", Options::default().pace(Pace::Slept));
    let w = host.device.buffer(4096).unwrap();
    assert_eq!(z.copy_to(&w).unwrap().path, rig::CopyPath::Staging);
    w.read(|bytes: &[u8]| assert_eq!(bytes, expected)).unwrap();
    w.view(0..64).unwrap().memset(1).unwrap();
    assert_eq!(w.copy_to(&y).unwrap().path, rig::CopyPath::Staging);
    assert_eq!(y.view(0..4095).unwrap().copy_to(&y.view(1..4096).unwrap()).unwrap().path, rig::CopyPath::Staging);
    let mut after = [0_u8; 4096];
    y.copy_to_slice(&mut after).unwrap();
    assert_eq!(after[..66], [[1_u8; 65].as_slice(), &[3]].concat());
    for model in [&a.model, &b.model, &host.model] {
        model.assert_clean();
    }
}

/// Promise C06.
#[test]
fn overlapping_ranges_of_one_allocation_copy_as_if_through_a_third_place() {
    let a = Bench::with("A", Options::default().pace(Pace::Slept));
    let y = a.device.buffer(64).unwrap();
    y.write(|bytes: &mut [u8]| (0..64).for_each(|i| bytes[i] = i as u8)).unwrap();
    let copied = y.view(0..60).unwrap().copy_to(&y.view(4..64).unwrap()).unwrap();
    assert_eq!(copied.path, rig::CopyPath::Host);
    y.read(|bytes: &[u8]| assert!((4..64).all(|i| usize::from(bytes[i]) == i - 4))).unwrap();
}
