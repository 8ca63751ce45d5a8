//! The cores device's pool under many threads, and what waiting costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rig_edge::{Driver, Room, Sleep, Submitted};
use rig_host::{Group, Kernels, Params};

use crate::harness::{Run, launch, open};

/// Promises E18, E33, C25.
#[test]
fn values_stay_in_order_while_many_threads_wait_and_help() {
    const VALUES: u64 = 1500;
    const CELLS: usize = 64;
    let mut device = open(rig_host::cores());
    let wrong = Arc::new(AtomicU32::new(0));
    let wrong_in = Arc::clone(&wrong);
    // Each group adds one to a cell of its own, without atomics: a group that overlaps another of its cell, or that does
    // not see what the value before wrote, is seen.
    #[expect(unsafe_code, reason = "a kernel works on what its launch named")]
    let kernel = move |params: &Params<'_>, at: &Group| {
        // SAFETY: slot 0 holds a cell a group, and the groups of a value touch one each.
        let cell = unsafe { params.slice_mut::<u64>(0, at.group[0] as usize, 1) };
        let before = std::hint::black_box(cell[0]);
        if before != params.get::<u64>(8) {
            wrong_in.fetch_add(1, Ordering::Relaxed);
        }
        cell[0] = before + 1;
    };
    let image = device.image(&Kernels::new().group("kernel", 16, kernel).image()).unwrap();
    let entry = device.entry(&image, "kernel");
    let memory = device.memory(8 * CELLS);
    let parts = vec![launch(&entry, &[0]), launch(&entry, &[0]), launch(&entry, &[0])];
    let mut run = Run::new(&device, parts, vec![memory.slot()]);
    for part in 0..3 {
        run.set(part, [CELLS as u32, 1, 1], [1, 1, 1], &[part as u64]);
    }
    let start = device.word.load();
    let submitted = AtomicU64::new(start);
    std::thread::scope(|scope| {
        let (device, submitted) = (&device, &submitted);
        for waiter in 0..3_u64 {
            scope.spawn(move || {
                let mut until = start;
                while until < start + VALUES {
                    until = submitted.load(Ordering::Acquire).max(until);
                    assert_eq!(device.wait(until, waiter != 1), Ok(()));
                    until += waiter + 1;
                    while submitted.load(Ordering::Acquire) < until.min(start + VALUES) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        for value in 1..=VALUES {
            while device.room(&mut run) == Room::Later {
                assert_eq!(device.wait(start + value - 1000, true), Ok(()));
            }
            assert_eq!(device.submit_as(start + value, &mut run), Submitted::Committed);
            submitted.store(start + value, Ordering::Release);
            (0..3).for_each(|part| run.params[2 * part + 1] += 3);
        }
    });
    device.last = start + VALUES;
    assert_eq!(device.word.load(), start + VALUES);
    assert_eq!(wrong.load(Ordering::Relaxed), 0);
    assert!(memory.values::<u64>().iter().all(|&cell| cell == 3 * VALUES));
}

/// Promise E10.
#[test]
fn work_behind_a_helpers_long_kernel_runs_though_nobody_watches_any_more() {
    let mut device = open(rig_host::cores());
    // TIMEOUT: longer than the watch lasts without new work.
    let long = |_: &Params<'_>, _: &Group| std::thread::sleep(Duration::from_millis(40));
    let image = device.image(&Kernels::new().group("short", 0, |_, _| {}).image()).unwrap();
    let mut short = Run::new(&device, vec![launch(&device.entry(&image, "short"), &[])], vec![]);
    for _ in 0..5 {
        // A long kernel that is new to the device wakes nobody, so that this thread is the one to run it.
        let image = device.image(&Kernels::new().group("long", 0, long).image()).unwrap();
        let mut long = Run::new(&device, vec![launch(&device.entry(&image, "long"), &[])], vec![]);
        assert_eq!(device.run(&mut short), Ok(()));
        let until = device.submit(&mut long);
        let last = device.submit(&mut short);
        assert_eq!(device.wait(until, true), Ok(()));
        let start = Instant::now();
        while device.word.load() < last {
            // TIMEOUT: far above any delay of a busy machine.
            assert!(start.elapsed() < Duration::from_secs(20), "the work behind it never ran");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_helper_runs_nothing_beyond_the_value_that_it_waits_for() {
    let mut device = open(rig_host::cores());
    let (go, late) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (go_in, late_in) = (Arc::clone(&go), Arc::clone(&late));
    let held = move |_: &Params<'_>, _: &Group| {
        let start = Instant::now();
        while !go_in.load(Ordering::Acquire) {
            // TIMEOUT: far above any delay of a busy machine; a helper that came here could never set `go`.
            if start.elapsed() > Duration::from_secs(20) {
                late_in.store(true, Ordering::Release);
                return;
            }
            std::thread::yield_now();
        }
    };
    let image = device.image(&Kernels::new().group("held", 0, held).group("short", 0, |_, _| {}).image()).unwrap();
    let mut short = Run::new(&device, vec![launch(&device.entry(&image, "short"), &[])], vec![]);
    let mut held = Run::new(&device, vec![launch(&device.entry(&image, "held"), &[])], vec![]);
    // The watch is on, so that no worker takes either before this thread does.
    assert_eq!(device.run(&mut short), Ok(()));
    let until = device.submit(&mut short);
    let last = device.submit(&mut held);
    assert_eq!(device.wait(until, true), Ok(()));
    go.store(true, Ordering::Release);
    assert_eq!(device.wait(last, true), Ok(()));
    assert!(!late.load(Ordering::Acquire));
}

/// Promise E12.
#[test]
fn sleep_returns_when_its_time_is_over_and_at_once_where_the_word_has_moved() {
    let mut device = open(rig_host::cores());
    let go = Arc::new(AtomicBool::new(false));
    let go_in = Arc::clone(&go);
    let kernel = move |_: &Params<'_>, _: &Group| {
        while !go_in.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    let image = device.image(&Kernels::new().group("kernel", 0, kernel).image()).unwrap();
    let entry = device.entry(&image, "kernel");
    let mut run = Run::new(&device, vec![launch(&entry, &[])], vec![]);
    let seen = device.word.load();
    let until = device.submit(&mut run);
    let sleep = |seen, still| device.driver.sleep(Sleep { seen, until, still, help: false });
    // Nothing but its time can end the first, and nothing but the word the second.
    assert_eq!(sleep(seen, Duration::from_millis(5)), Ok(()));
    assert_eq!(sleep(seen + 7, Duration::from_secs(3600)), Ok(()));
    assert_eq!(device.word.load(), seen);
    go.store(true, Ordering::Release);
    assert_eq!(device.wait(until, false), Ok(()));
}

/// Promise C15.
#[test]
#[cfg(target_os = "linux")]
fn a_second_of_waiting_costs_the_waiter_next_to_nothing() {
    let mut device = open(rig_host::cores());
    let started = Arc::new(AtomicBool::new(false));
    let started_in = Arc::clone(&started);
    let kernel = move |_: &Params<'_>, _: &Group| {
        started_in.store(true, Ordering::Release);
        // TIMEOUT: what the wait must outlast.
        std::thread::sleep(Duration::from_secs(1));
    };
    let image = device.image(&Kernels::new().group("kernel", 0, kernel).image()).unwrap();
    let entry = device.entry(&image, "kernel");
    let mut run = Run::new(&device, vec![launch(&entry, &[])], vec![]);
    let until = device.submit(&mut run);
    while !started.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let before = processor_time();
    assert_eq!(device.wait(until, true), Ok(()));
    let cost = processor_time() - before;
    assert!(cost < Duration::from_millis(5), "{cost:?}");
}

/// The processor time of this thread.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "asks the C library")]
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the struct that it is handed.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(answer, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
