//! Threads of a group: barriers, group memory, panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rig_host::{GROUP_BYTES_MAX, Group, Kernels, Params, THREADS_MAX};

use crate::harness::{Device, Run, both, launch, open};

/// A run of one launch of the only kernel, with no refs.
fn run_of(device: &Device, kernels: Kernels, groups: [u32; 3], threads: [u32; 3]) -> Run {
    let image = device.image(&kernels.image()).expect("the image loads");
    let entry = device.entry(&image, "kernel");
    let mut run = Run::new(device, vec![launch(&entry, &[])], vec![]);
    run.set(0, groups, threads, &[]);
    run
}

#[expect(unsafe_code, reason = "kernels share group memory")]
fn shared<'a>(at: &Group) -> &'a [AtomicU32] {
    // SAFETY: group memory is that many bytes, aligned, and lives until the group is done.
    unsafe { std::slice::from_raw_parts(at.group_memory.cast(), at.group_bytes as usize / 4) }
}

/// Promise H02.
#[test]
fn no_thread_passes_a_barrier_before_all_have_come_to_it() {
    for mut device in both() {
        let wrong = Arc::new(AtomicU32::new(0));
        let wrong_in = Arc::clone(&wrong);
        let kernel = move |_: &Params<'_>, at: &Group| {
            let (shared, threads) = (shared(at), at.thread_count() as u32);
            if at.thread == [0; 3] {
                shared[0].store(0, Ordering::Relaxed);
            }
            at.barrier();
            for round in 1..=5 {
                shared[0].fetch_add(1, Ordering::Relaxed);
                at.barrier();
                if shared[0].load(Ordering::Relaxed) != round * threads {
                    wrong_in.fetch_add(1, Ordering::Relaxed);
                }
                at.barrier();
            }
        };
        let mut run = run_of(&device, Kernels::new().thread("kernel", 0, 4, kernel), [40, 2, 1], [7, 3, 2]);
        for _ in 0..5 {
            device.run(&mut run).unwrap();
        }
        assert_eq!(wrong.load(Ordering::Relaxed), 0);
    }
}

/// Promise H02.
#[test]
fn every_thread_of_every_group_runs_once_with_its_place() {
    for mut device in both() {
        let (groups, threads) = ([3, 2, 4], [5, 1, 2]);
        let seen: Arc<[AtomicU32]> = (0..3 * 2 * 4 * 5 * 2).map(|_| AtomicU32::new(0)).collect();
        let seen_in = Arc::clone(&seen);
        let flat = |place: [u32; 3], extent: [u32; 3]| place[0] + extent[0] * (place[1] + extent[1] * place[2]);
        let kernel = move |_: &Params<'_>, at: &Group| {
            assert_eq!((at.groups, at.threads), (groups, threads));
            let index = flat(at.group, at.groups) * 10 + flat(at.thread, at.threads);
            seen_in[index as usize].fetch_add(1, Ordering::Relaxed);
        };
        let mut run = run_of(&device, Kernels::new().thread("kernel", 0, 0, kernel), groups, threads);
        device.run(&mut run).unwrap();
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}

/// Promise H02.
#[test]
fn the_largest_groups_run() {
    let mut device = open(rig_host::cores());
    let ends = Arc::new(AtomicU32::new(0));
    let ends_in = Arc::clone(&ends);
    let kernel = move |_: &Params<'_>, at: &Group| {
        let shared = shared(at);
        assert_eq!(at.group_memory.addr() % 64, 0);
        shared[shared.len() - 1].store(9, Ordering::Relaxed);
        at.barrier();
        assert_eq!(shared[shared.len() - 1].load(Ordering::Relaxed), 9);
        ends_in.fetch_add(1, Ordering::Relaxed);
    };
    let kernels = Kernels::new().thread("kernel", 0, GROUP_BYTES_MAX, kernel);
    let mut run = run_of(&device, kernels, [4, 1, 1], [THREADS_MAX, 1, 1]);
    device.run(&mut run).unwrap();
    assert_eq!(ends.load(Ordering::Relaxed), 4 * THREADS_MAX);
}

/// Promise H02.
#[test]
fn groups_run_at_the_same_time_on_the_cores() {
    let mut device = open(rig_host::cores().threads(2.try_into().unwrap()));
    let inside = Arc::new(AtomicU32::new(0));
    let inside_in = Arc::clone(&inside);
    // Each group waits for the other to be there: on one core they would wait for ever.
    let kernel = move |_: &Params<'_>, _: &Group| {
        inside_in.fetch_add(1, Ordering::AcqRel);
        while inside_in.load(Ordering::Acquire) < 2 {
            std::thread::yield_now();
        }
    };
    let mut run = run_of(&device, Kernels::new().group("kernel", 0, kernel), [2, 1, 1], [1, 1, 1]);
    device.run(&mut run).unwrap();
    assert_eq!(inside.load(Ordering::Relaxed), 2);
}

/// Counts its drops.
struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Promise H04.
#[test]
fn a_panic_of_one_thread_ends_its_suspended_neighbours_and_drops_what_they_hold() {
    for mut device in both() {
        let drops = Arc::new(AtomicU32::new(0));
        let drops_in = Arc::clone(&drops);
        let kernel = move |_: &Params<'_>, at: &Group| {
            let _counted = Counted(Arc::clone(&drops_in));
            at.barrier();
            assert!(at.thread[0] != 5, "thread {} fails", at.thread[0]);
            at.barrier();
            unreachable!("no thread passes the second barrier");
        };
        let mut run = run_of(&device, Kernels::new().thread("kernel", 0, 0, kernel), [1, 1, 1], [8, 1, 1]);
        let why = device.run(&mut run).unwrap_err();
        assert_eq!(why, "the kernel kernel panicked: thread 5 fails");
        assert_eq!(drops.load(Ordering::Relaxed), 8);
        // The thread that ran it runs kernels on, of another device.
        let mut other = open(rig_host::memory());
        let meets = |_: &Params<'_>, at: &Group| at.barrier();
        let mut run = run_of(&other, Kernels::new().thread("kernel", 0, 0, meets), [3, 1, 1], [8, 1, 1]);
        other.run(&mut run).unwrap();
    }
}

/// Meets its group when it is dropped.
struct Meets(Group);

impl Drop for Meets {
    fn drop(&mut self) {
        self.0.barrier();
    }
}

/// Promise H04.
#[test]
fn a_barrier_in_a_destructor_lets_nobody_go_on_once_the_kernel_has_panicked() {
    for mut device in both() {
        let went_on = Arc::new(AtomicU32::new(0));
        let went_on_in = Arc::clone(&went_on);
        let kernel = move |_: &Params<'_>, at: &Group| {
            let _meets = Meets(at.clone());
            at.barrier();
            assert!(at.thread[0] != 1, "thread 1 fails");
            // Only the thread before the one that fails comes here.
            went_on_in.fetch_add(1, Ordering::Relaxed);
        };
        let mut run = run_of(&device, Kernels::new().thread("kernel", 0, 0, kernel), [1, 1, 1], [3, 1, 1]);
        assert_eq!(device.run(&mut run).unwrap_err(), "the kernel kernel panicked: thread 1 fails");
        assert_eq!(went_on.load(Ordering::Relaxed), 1);
    }
}

/// Promise H02.
#[test]
fn a_thread_that_unwinds_may_run_groups_that_meet() {
    struct Runs(Device, Run);
    impl Drop for Runs {
        fn drop(&mut self) {
            assert_eq!(self.0.run(&mut self.1), Ok(()));
        }
    }
    let least = Arc::new(AtomicU32::new(u32::MAX));
    let least_in = Arc::clone(&least);
    let device = open(rig_host::memory());
    let kernel = move |_: &Params<'_>, at: &Group| {
        let shared = shared(at);
        if at.thread == [0; 3] {
            shared[0].store(0, Ordering::Relaxed);
        }
        at.barrier();
        shared[0].fetch_add(1, Ordering::Relaxed);
        at.barrier();
        least_in.fetch_min(shared[0].load(Ordering::Relaxed), Ordering::Relaxed);
    };
    let run = run_of(&device, Kernels::new().thread("kernel", 0, 4, kernel), [1, 1, 1], [5, 1, 1]);
    let runs = Runs(device, run);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _runs = runs;
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
    assert_eq!(least.load(Ordering::Relaxed), 5);
}

/// Promise H02.
#[test]
fn a_barrier_of_a_group_kernel_returns_at_once() {
    let mut device = open(rig_host::cores());
    let kernel = |_: &Params<'_>, at: &Group| at.barrier();
    let mut run = run_of(&device, Kernels::new().group("kernel", 0, kernel), [3, 1, 1], [8, 1, 1]);
    device.run(&mut run).unwrap();
}
