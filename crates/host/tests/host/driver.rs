//! The host's devices through the driver interface alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::harness::{Run, both, copy, fill, launch, memset, open};
use rig_edge::{Driver, EntryAnswer, Fault, Room, Sleep, Submitted};
use rig_host::{GROUP_BYTES_MAX, Kernels, THREADS_MAX};

#[expect(unsafe_code, reason = "kernels make slices of what their launch named")]
fn add() -> Vec<u8> {
    let add = |params: &rig_host::Params<'_>, at: &rig_host::Group| {
        let threads = at.threads[0] as usize;
        let first = at.group[0] as usize * threads;
        let n = params.get::<u64>(16) as usize;
        let len = threads.min(n - first);
        // SAFETY: slot 0 holds n floats, of which this group reads its own.
        let x = unsafe { params.slice::<f32>(0, first, len) };
        // SAFETY: slot 1 holds n floats, of which this group alone touches its own.
        let y = unsafe { params.slice_mut::<f32>(8, first, len) };
        y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
    };
    Kernels::new().group("add", 24, add).image()
}

/// Promises H01, H02, H03.
#[test]
fn a_launch_runs_every_group_once_whatever_the_sizes() {
    for mut device in both() {
        let image = device.image(&add()).unwrap();
        let entry = device.entry(&image, "add");
        for n in [1, 255, 256, 257, 100_003] {
            let (x, y) = (device.memory(4 * n), device.memory(4 * n));
            x.values::<f32>().iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
            y.values::<f32>().fill(1.0);
            let mut run = Run::new(&device, vec![launch(&entry, &[0, 1])], vec![x.slot(), y.slot()]);
            run.set(0, [n.div_ceil(256) as u32, 1, 1], [256, 1, 1], &[n as u64]);
            device.run(&mut run).unwrap();
            assert!(y.values::<f32>().iter().enumerate().all(|(i, &y)| y == 1.0 + i as f32), "{n} floats");
        }
    }
}

/// Promise E18.
#[test]
fn values_and_parts_run_one_after_the_other() {
    for mut device in both() {
        let image = device.image(&add()).unwrap();
        let entry = device.entry(&image, "add");
        let n = 300_000;
        let (x, y, z) = (device.memory(4 * n), device.memory(4 * n), device.memory(4 * n));
        let parts = vec![memset(0, 0), memset(1, 0), launch(&entry, &[2, 0]), launch(&entry, &[0, 1]), copy(1, 0)];
        let mut run = Run::new(&device, parts, vec![x.slot(), y.slot(), z.slot()]);
        z.values::<f32>().fill(3.0);
        for part in [2, 3] {
            run.set(part, [n.div_ceil(256) as u32, 1, 1], [256, 1, 1], &[n as u64]);
        }
        let mut last = 0;
        for _ in 0..20 {
            last = device.submit(&mut run);
        }
        device.wait(last, true).unwrap();
        assert!(x.values::<f32>().iter().chain(y.values::<f32>().iter()).all(|&v| v == 3.0));
    }
}

/// Promise E10.
#[test]
fn committed_work_runs_though_nobody_waits_or_helps() {
    let mut device = open(rig_host::cores());
    let ran = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ran);
    let image = Kernels::new().group("count", 0, move |_, _| _ = count.fetch_add(1, Ordering::Relaxed)).image();
    let image = device.image(&image).unwrap();
    let entry = device.entry(&image, "count");
    let mut run = Run::new(&device, vec![launch(&entry, &[])], vec![]);
    for round in 1..=30 {
        // TIMEOUT: past the end of the watch in some rounds, and inside it in others.
        std::thread::sleep(Duration::from_millis(round % 3 * 8));
        let value = device.submit(&mut run);
        while device.word.load() < value {
            std::thread::yield_now();
        }
    }
    assert_eq!(ran.load(Ordering::Relaxed), 30);
    for _ in 0..30 {
        let value = device.submit(&mut run);
        device.wait(value, false).unwrap();
    }
    assert_eq!(ran.load(Ordering::Relaxed), 60);
}

/// Promises H04, E12, E20, E21.
#[test]
fn a_panic_of_a_kernel_is_a_fault_with_its_message_and_stop_ends_the_word() {
    for mut device in both() {
        let image = Kernels::new().group("fails", 0, |_, at| panic!("no group {}", at.group[0] + 7)).image();
        let image = device.image(&image).unwrap();
        let entry = device.entry(&image, "fails");
        let mut run = Run::new(&device, vec![launch(&entry, &[])], vec![]);
        run.set(0, [1, 1, 1], [1, 1, 1], &[]);
        let before = device.word.load();
        let why = device.run(&mut run).unwrap_err();
        assert_eq!(why, "the kernel fails panicked: no group 7");
        let sleep = Sleep { seen: before, until: before + 1, still: Duration::from_secs(9), help: true };
        assert_eq!(device.driver.sleep(sleep).unwrap_err().reason, why);
        assert_eq!(device.driver.sleep(sleep).unwrap_err().reason, why);
        assert!(matches!(device.try_submit(&mut run), Submitted::Failed(fault) if fault.reason == why));
        assert_eq!(device.word.load(), before);
        device.driver.stop(Some(&why)).unwrap();
        assert_eq!(device.word.load(), before + 2);
    }
}

/// Promises E13, E21.
#[test]
fn stop_waits_for_no_kernel_and_the_last_runner_ends_the_word() {
    let mut device = open(rig_host::cores());
    let (started, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (started_in, go_in) = (Arc::clone(&started), Arc::clone(&go));
    let image = Kernels::new().group("waits", 0, move |_, _| {
        started_in.store(true, Ordering::Release);
        while !go_in.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    });
    let image = device.image(&image.image()).unwrap();
    let entry = device.entry(&image, "waits");
    let mut run = Run::new(&device, vec![launch(&entry, &[])], vec![]);
    let first = device.submit(&mut run);
    let last = device.submit(&mut run);
    while !started.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    device.driver.stop(Some("lost")).unwrap();
    assert!(device.word.load() < first);
    go.store(true, Ordering::Release);
    while device.word.load() < last {
        std::thread::yield_now();
    }
}

/// Promise E20.
#[test]
fn a_device_that_closes_runs_what_was_committed() {
    let mut device = open(rig_host::cores());
    let ran = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ran);
    let image = Kernels::new().group("count", 0, move |_, _| _ = count.fetch_add(1, Ordering::Relaxed)).image();
    let image = device.image(&image).unwrap();
    let entry = device.entry(&image, "count");
    let mut run = Run::new(&device, vec![launch(&entry, &[])], vec![]);
    let last = (0..100).map(|_| device.submit(&mut run)).last().unwrap();
    device.driver.stop(None).unwrap();
    while device.word.load() < last {
        std::thread::yield_now();
    }
    assert_eq!(ran.load(Ordering::Relaxed), 100);
}

/// Promise E08.
#[test]
fn what_the_host_can_never_run_is_refused_with_the_numbers() {
    for device in both() {
        let image = Kernels::new().thread("f", 0, 16, |_, _| {}).image();
        let image = device.image(&image).unwrap();
        let entry = device.entry(&image, "f");
        let mut run = Run::new(&device, vec![launch(&entry, &[])], vec![]);
        let mut refused = |groups, threads, group_bytes, words: &[&str]| {
            run.set(0, groups, threads, &[]);
            run.blocks[0].group_bytes = group_bytes;
            let Room::Refused(why) = device.room(&mut run) else { panic!("{groups:?} {threads:?} fit") };
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
        };
        refused([3, 0, 1], [1, 1, 1], 0, &["[3, 0, 1] groups", "positive"]);
        refused([1, 1, 1], [1, 1, 0], 0, &["[1, 1, 0] threads", "positive"]);
        refused([1, 1, 1], [THREADS_MAX, 2, 1], 0, &["[1024, 2, 1] threads", "1024"]);
        refused([1, 1, 1], [u32::MAX; 3], 0, &["at most 1024"]);
        refused([u32::MAX; 3], [1, 1, 1], 0, &["[4294967295, 4294967295, 4294967295] groups"]);
        refused([1, 1, 1], [1, 1, 1], GROUP_BYTES_MAX, &["1048576 bytes", "own 16"]);
        run.set(0, [1, 1, 1], [THREADS_MAX, 1, 1], &[]);
        run.blocks[0].group_bytes = GROUP_BYTES_MAX - 16;
        assert_eq!(device.room(&mut run), Room::Ok);
    }
}

/// Promise E37.
#[test]
fn a_full_queue_answers_later_until_work_completes() {
    let mut device = open(rig_host::cores());
    let go = Arc::new(AtomicBool::new(false));
    let go_in = Arc::clone(&go);
    let image = Kernels::new().group("waits", 0, move |_, _| {
        while !go_in.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    });
    let image = device.image(&image.image()).unwrap();
    let entry = device.entry(&image, "waits");
    let mut run = Run::new(&device, vec![launch(&entry, &[])], vec![]);
    let first = device.submit(&mut run);
    while device.room(&mut run) == Room::Ok {
        device.submit(&mut run);
    }
    assert_eq!(device.room(&mut run), Room::Later);
    go.store(true, Ordering::Release);
    device.wait(first, true).unwrap();
    assert_eq!(device.room(&mut run), Room::Ok);
    device.wait(device.last, true).unwrap();
}

/// Promise C23.
#[test]
fn a_fills_tasks_run_in_its_place_and_its_failure_is_the_submits() {
    for mut device in both() {
        let memory = device.memory(8);
        let code = |encoder: &mut rig_host::Encoder<'_>, slots: &[rig_edge::Slot]| {
            let slot = slots[0];
            encoder.task(move || {
                let slot = slot;
                // The memset before it has run, and the copy after it has not.
                #[expect(unsafe_code, reason = "a task touches the memory of its fill")]
                // SAFETY: the slot holds 8 bytes, which the fill's ref writes.
                let bytes = unsafe { std::slice::from_raw_parts_mut(slot.host, 8) };
                assert_eq!(bytes, [5; 8]);
                bytes.fill(6);
                Ok(())
            });
            Ok(())
        };
        let copied = device.memory(8);
        let parts = vec![memset(0, 5), fill(Box::new(code)), copy(0, 1)];
        let mut run = Run::new(&device, parts, vec![memory.slot(), copied.slot()]);
        for _ in 0..3 {
            device.run(&mut run).unwrap();
            assert_eq!(copied.values::<u8>(), [6; 8]);
        }
        let mut bad = Run::new(&device, vec![fill(Box::new(|_, _| Err("no such command".into())))], vec![]);
        assert_eq!(device.try_submit(&mut bad), Submitted::Failed(Fault::here("no such command")));
        assert_eq!(device.wait(device.last, true).unwrap_err(), "no such command");
    }
}

/// Promises C24, C23.
#[test]
fn kernels_and_tasks_run_inside_a_callback_and_their_panics_are_faults() {
    for mut device in both() {
        let inside = Arc::new(AtomicBool::new(false));
        let inside_in = Arc::clone(&inside);
        let image = Kernels::new()
            .group("f", 0, move |_, _| inside_in.store(rig_edge::callback::inside(), Ordering::Relaxed))
            .image();
        let image = device.image(&image).unwrap();
        let mut run = Run::new(&device, vec![launch(&device.entry(&image, "f"), &[])], vec![]);
        device.run(&mut run).unwrap();
        assert!(inside.load(Ordering::Relaxed));
        assert!(!rig_edge::callback::inside());
        let code = |encoder: &mut rig_host::Encoder<'_>, _: &[rig_edge::Slot]| {
            encoder.task(|| panic!("{}", rig_edge::callback::inside()));
            Ok(())
        };
        let mut bad = Run::new(&device, vec![fill(Box::new(code))], vec![]);
        assert_eq!(device.run(&mut bad).unwrap_err(), "a task of a fill panicked: true");
    }
}

/// Promises C10, E06, H03.
#[test]
fn an_image_lists_its_functions_and_is_good_only_where_it_was_registered() {
    let device = open(rig_host::memory());
    let bytes = Kernels::new().group("b", 8, |_, _| {}).group("a", 4, |_, _| {}).thread("b", 12, 0, |_, _| {}).image();
    let image = device.image(&bytes).unwrap();
    let EntryAnswer::Absent { names } = device.driver.entry(&image, "c").unwrap() else { panic!("there is a c") };
    assert_eq!(names, ["a", "b"]);
    let EntryAnswer::Entry(_, facts) = device.driver.entry(&image, "b").unwrap() else { panic!("there is no b") };
    assert_eq!((facts.params, facts.threads), (Some(12), Some(THREADS_MAX)));

    let refused = |bytes: &[u8], words: &str| {
        let why = device.image(bytes).unwrap_err();
        assert!(why.contains(words), "{why}");
    };
    refused(&bytes[..31], "is 32 bytes, and this is 31");
    let mut other = bytes.clone();
    other[16] ^= 1;
    refused(&other, "another process");
    let mut unknown = bytes.clone();
    unknown[31] = 1;
    refused(&unknown, "registered kernels 72057594037927");
    refused(&bytes[1..], "neither");
    refused(&[], "neither");
}
