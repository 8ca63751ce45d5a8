//! Launches: parameters in the arena, threadgroup memory, grids, and what room refuses.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::Ordering;

use rig::{Error, write};
use rig_edge::{Driver, Grown, Room, Submitted};
use rig_metal_model::machine::{Machine, What};

use kit::direct::{Direct, Step};
use kit::machine::{Mac, until};
use kit::{Kernels, alone, grid, launch, library, lost, words};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

const MIB: usize = 1 << 20;

/// Promises M40, M41.
#[test]
fn each_ref_becomes_the_buffers_address_plus_the_stored_offset() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let (x, y) = (kernels.device.buffer(4 * 100).unwrap(), kernels.device.buffer(4 * 100).unwrap());
    x.write(|x: &mut [f32]| x.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32)).unwrap();
    y.write(|y: &mut [f32]| y.fill(0.5)).unwrap();
    let mut run = kernels.add.take();
    grid(&mut run, 0, 10).set(0, 4u64 * 50).set(8, 4u64 * 20).set(16, 10u32);
    launch(&mut run, &[&x, &y]).unwrap();
    let y = y.read(|y: &[f32]| y.to_vec()).unwrap();
    for (i, &y) in y.iter().enumerate() {
        let due = if (20..30).contains(&i) { 0.5 + (50 + i - 20) as f32 } else { 0.5 };
        assert_eq!(y, due, "{i}");
    }
}

/// Promise M40.
#[test]
fn threadgroup_memory_is_the_launchs_rounded_up_to_sixteen_bytes() {
    let mac = Mac::new();
    let device = mac.open();
    let turn = device.load(&library("test")).unwrap().function("turn").unwrap();
    let y = device.buffer(4 * 30).unwrap();
    y.write(|y: &mut [u32]| y.iter_mut().enumerate().for_each(|(i, y)| *y = i as u32)).unwrap();
    let mut run = alone(&device, &turn, [write(0)]).take();
    // 40 bytes, which Metal takes as 48: a length that is no multiple of 16 is a violation.
    run.part(0).groups([3, 1, 1]).threads([10, 1, 1]).group_bytes(40);
    launch(&mut run, &[&y]).unwrap();
    let due: Vec<u32> = (0..30).map(|i| i / 10 * 10 + 9 - i % 10).collect();
    assert_eq!(words(&y), due);
}

/// Promise M48.
#[test]
fn parameters_lie_on_256_bytes_for_the_kernel_also_in_device_memory() {
    let mac = Mac::new();
    let device = mac.open();
    let image = device.load(&library("test")).unwrap();
    let place = image.function("place").unwrap();
    let y = device.buffer(8 * 4).unwrap();
    let mut builder = device.submission();
    for len in [8, 300, 8, 1000, 256, 257, 4096] {
        builder = builder.launch(&place, [write(0)]).params(len);
    }
    let submission = builder.make().unwrap();
    let mut run = submission.take();
    for part in 0..7 {
        run.part(part).groups([1; 3]).threads([4, 1, 1]);
    }
    launch(&mut run, &[&y]).unwrap();
    let at = y.read(|y: &[u64]| y[0]).unwrap();
    assert!(at != 0 && at.is_multiple_of(256), "{at:#x}");
}

/// Promise M48.
#[test]
fn parameters_that_are_no_struct_are_read_whole() {
    let mac = Mac::new();
    let device = mac.open();
    let image = device.load(&library("test")).unwrap();
    let step = |len: usize| {
        let built = device.submission().launch(&image.function("words").unwrap(), [write(0)]).params(len);
        built.make().unwrap()
    };
    let y = device.buffer(4 * 8).unwrap();
    for len in [16, 300, 4096, 65536, 3 << 20] {
        let last = (len / 4 - 1) as u32;
        let mut run = step(len).take();
        run.part(0).groups([1; 3]).threads([8, 1, 1]).set(8, last).set(4 * last as usize, 1000 + last);
        launch(&mut run, &[&y]).unwrap();
        assert_eq!(words(&y)[5], 1005 + last, "{len}");
    }
}

/// Promise M47.
#[test]
fn there_is_no_arena_before_the_first_launch_with_parameters() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    let nothing = direct.load("test");
    let entry = direct.entry(&nothing, "nothing");
    let before = mac.machine.counts().allocated;
    let mut step = Step::empty();
    step.launch(entry, 0);
    direct.submit(&mut step);
    direct.submit(&mut Step::empty());
    assert_eq!(mac.machine.counts().allocated, before);
    let mut step = direct.iota(1);
    assert_eq!(direct.room(&mut step), Room::Grow);
    assert_eq!(mac.machine.counts().allocated, before, "room makes nothing");
    assert_eq!(direct.driver.grow().unwrap(), Grown::Grown);
    assert_eq!(mac.machine.counts().allocated, before + MIB as u64, "a mebibyte at least");
    assert_eq!(direct.room(&mut step), Room::Ok, "the next submission takes it");
    direct.hand_over(&mut step);
    direct.driver.commit(direct.last).unwrap();
    direct.wait(3);
    direct.unload(nothing);
    direct.close();
}

/// Promises M42, M43, M44.
#[test]
fn a_mebibyte_holds_4096_launches_and_the_next_waits_for_the_first_to_complete() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    direct.submit(&mut direct.iota(0));
    direct.driver.commit(direct.last).unwrap();
    direct.wait(1);
    mac.machine.hold();
    let mut step = direct.iota(7);
    for launch in 0..4096 {
        assert_eq!(direct.room(&mut step), Room::Ok, "launch {launch}");
        direct.hand_over(&mut step);
    }
    assert_eq!(direct.room(&mut step), Room::Later);
    assert_eq!(direct.room(&mut step), Room::Later, "and changes nothing");
    // Of what is in flight the first completes: its bytes come back before the word shows it.
    mac.machine.release_one();
    direct.wait(2);
    assert_eq!(direct.room(&mut step), Room::Ok);
    direct.hand_over(&mut step);
    direct.driver.commit(direct.last).unwrap();
    mac.machine.release();
    direct.wait(direct.last - direct.start);
    assert_eq!(mac.machine.counts().allocated as usize & !(MIB - 1), MIB, "it did not grow");
    direct.close();
}

/// Promises M43, M44.
#[test]
fn what_exceeds_the_empty_arena_grows_it_to_twice_that_and_old_command_buffers_keep_the_old_one() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    let test = direct.load("test");
    let entry = direct.entry(&test, "words");
    let large = |bytes: usize, seed: u32| {
        let mut step = Step::empty();
        step.launch(entry.clone(), bytes as u32);
        let last = (bytes / 4 - 1) as u32;
        step.params[1] = u64::from(last);
        *step.params.last_mut().unwrap() = u64::from(seed) << 32;
        step
    };
    mac.machine.hold();
    let sizes = [MIB / 2, MIB, MIB + 4, 3 * MIB, 5 * MIB, MIB / 4];
    let capacities = [1, 1, 4, 4, 16, 16].map(|mebibytes| mebibytes * MIB as u64);
    let own = mac.machine.counts().allocated;
    for (i, (&bytes, capacity)) in sizes.iter().zip(capacities).enumerate() {
        let mut step = large(bytes, 1000 + i as u32);
        match direct.room(&mut step) {
            Room::Ok => {}
            Room::Later => {
                // Half is in use: what is in flight completes first.
                mac.machine.release();
                direct.driver.commit(direct.last).unwrap();
                direct.wait(direct.last - direct.start);
                mac.machine.hold();
                assert_eq!(direct.room(&mut step), Room::Ok);
            }
            Room::Grow => {
                assert_eq!(direct.driver.grow().unwrap(), Grown::Grown);
                assert_eq!(direct.room(&mut step), Room::Ok, "room never answers Grow for these parts again");
            }
            Room::Refused(why) => panic!("{why}"),
        }
        direct.hand_over(&mut step);
        assert!(mac.machine.counts().allocated >= own + capacity, "{i}");
    }
    direct.driver.commit(direct.last).unwrap();
    mac.machine.release();
    direct.wait(direct.last - direct.start);
    assert_eq!(direct.words()[5], 1005 + 5, "the last one");
    assert_eq!(mac.machine.counts().allocated, own + 16 * MIB as u64, "old arenas go, and the largest stays");
    direct.unload(test);
    direct.close();
}

/// Promises M42, M44.
#[test]
fn an_arena_that_wraps_and_grows_under_work_in_flight_never_mixes_parameters_up() {
    let mac = Mac::of(Machine::builder().seed(3).delays(std::time::Duration::from_micros(300)));
    let kernels = Kernels::new(mac.open());
    let iota = kernels.device.load(&library("suite")).unwrap().function("iota").unwrap();
    let buffers: Vec<_> = (0..32).map(|_| kernels.device.buffer(4 * 16).unwrap()).collect();
    let mut starts = vec![0; buffers.len()];
    let mut number = 1u32;
    // Submissions of 1 to 6,000 launches, each into a buffer of its own, with others between.
    for launches in [1usize, 700, 32, 2000, 5, 6000, 64, 3000, 4000, 1] {
        let mut builder = kernels.device.submission();
        for launch in 0..launches {
            builder = builder.launch(&iota, [write((launch % 32) as u32)]);
        }
        let mut run = builder.make().unwrap().take();
        for launch in 0..launches {
            grid(&mut run, launch, 16).set(8, 16u32).set(12, number);
            starts[launch % 32] = number;
            number += 1;
        }
        let used = launches.min(32);
        let refs: Vec<_> = buffers[..used].iter().collect();
        launch(&mut run, &refs).unwrap();
    }
    for (buffer, start) in buffers.iter().zip(starts) {
        assert_eq!(words(buffer)[7], start + 7);
    }
}

/// Promise M44.
#[test]
fn the_arena_counts_in_no_budget() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(400).unwrap();
    let before = kernels.device.allocated();
    kernels.iota(&y, 1).unwrap().wait().unwrap();
    assert_eq!(kernels.device.allocated(), before);
}

/// Promise M45.
#[test]
fn a_growth_without_memory_is_short_and_the_program_runs_out_of_memory_after_the_rounds() {
    let mac = Mac::new();
    let direct = Direct::new();
    let mut step = direct.iota(1);
    assert_eq!(direct.room(&mut step), Room::Grow);
    mac.machine.faults().refuse(What::Buffer, 1);
    assert_eq!(direct.driver.grow().unwrap(), Grown::Short(MIB as u64));
    assert_eq!(direct.room(&mut step), Room::Grow, "asked for anew");
    direct.close();

    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(400).unwrap();
    mac.machine.faults().refuse(What::Buffer, 1..);
    match kernels.iota(&y, 1) {
        Err(Error::OutOfMemory { bytes }) => assert_eq!(bytes, MIB as u64),
        other => panic!("{other:?}"),
    }
    mac.machine.faults().clear();
    kernels.iota(&y, 1).unwrap();
    assert_eq!(words(&y)[9], 10, "nothing is lost");
}

/// Promise M45.
#[test]
fn a_misplaced_arena_is_a_fault_that_makes_nothing() {
    let mac = Mac::new();
    let direct = Direct::new();
    let mut step = direct.iota(1);
    assert_eq!(direct.room(&mut step), Room::Grow);
    let before = mac.machine.counts();
    mac.machine.faults().misalign_buffers(true);
    let fault = direct.driver.grow().unwrap_err();
    assert!(fault.reason.contains("256"), "{fault}");
    assert_eq!(mac.machine.counts().allocated, before.allocated);
    assert_eq!(direct.room(&mut step), Room::Grow);
    direct.close();

    let kernels = Kernels::new({
        mac.machine.faults().misalign_buffers(false);
        mac.open()
    });
    let y = kernels.device.buffer(400).unwrap();
    mac.machine.faults().misalign_buffers(true);
    assert!(lost(kernels.iota(&y, 1)).contains("256"));
}

/// Promise M45.
#[test]
fn an_exception_in_a_growth_is_a_fault() {
    let mac = Mac::new();
    let direct = Direct::new();
    assert_eq!(direct.room(&mut direct.iota(1)), Room::Grow);
    mac.machine.faults().throw(What::Buffer, 1);
    assert!(direct.driver.grow().unwrap_err().reason.contains("exception"));
    direct.close();
}

/// Promise M46.
#[test]
fn room_refuses_what_can_never_run_and_takes_what_just_fits() {
    let _mac = Mac::of(Machine::builder().max_threads_per_threadgroup([1024, 1024, 512]));
    let direct = Direct::new();
    let test = direct.load("test");
    let ask = |name: &str, groups, threads, group_bytes| {
        let mut step = Step::empty();
        let params = if name == "nothing" { 0 } else { 8 };
        let block = step.launch(direct.entry(&test, name), params);
        (block.groups, block.threads, block.group_bytes) = (groups, threads, group_bytes);
        match direct.room(&mut step) {
            Room::Refused(why) => Err(why),
            Room::Ok | Room::Grow => Ok(()),
            Room::Later => panic!("nothing is in flight"),
        }
    };
    let none = |name, groups, threads, bytes| ask(name, groups, threads, bytes).unwrap_err();
    for axis in 0..3 {
        let (mut groups, mut threads) = ([1; 3], [1; 3]);
        groups[axis] = 0;
        threads[axis] = 0;
        let named = ["x", "y", "z"][axis];
        let why = none("nothing", groups, [1; 3], 0);
        assert!(why.contains("groups") && why.contains(named) && why.contains("part 0"), "{why}");
        assert!(none("nothing", [1; 3], threads, 0).contains(named));
        let mut threads = [1; 3];
        threads[axis] = 513;
        assert!(none("nothing", [1; 3], threads, 0).contains("513"), "the least axis bounds each");
        threads[axis] = 512;
        ask("nothing", [1; 3], threads, 0).unwrap();
    }
    assert!(none("nothing", [1; 3], [32, 32, 1], 0).contains("1024"), "and their product");
    ask("nothing", [1; 3], [32, 16, 1], 0).unwrap();
    assert!(none("nothing", [1; 3], [u32::MAX; 3], 0).contains("4294967295"));
    assert!(none("limited", [1; 3], [97, 1, 1], 0).contains("96"), "the pipeline's maximum");
    ask("limited", [1; 3], [96, 1, 1], 0).unwrap();
    ask("turn", [1; 3], [1; 3], 32 << 10).unwrap();
    assert!(none("turn", [1; 3], [1; 3], (32 << 10) + 1).contains("32768"));
    ask("holds", [1; 3], [1; 3], 12 << 10).unwrap();
    assert!(none("holds", [1; 3], [1; 3], (12 << 10) + 1).contains("20480"), "less what the function declares");
    ask("holds", [1; 3], [1; 3], (12 << 10) - 15).unwrap();
    assert!(none("turn", [1; 3], [1; 3], u32::MAX).contains("4294967295"));
    direct.close();
}

/// Promise M46.
#[test]
fn parameters_that_exceed_the_longest_buffer_together_are_refused() {
    let _mac = Mac::of(Machine::builder().max_buffer_length(MIB));
    let mut direct = Direct::new();
    let test = direct.load("test");
    let entry = direct.entry(&test, "words");
    let of = |sizes: &[u32]| {
        let mut step = Step::empty();
        for &bytes in sizes {
            step.launch(entry.clone(), bytes);
        }
        step
    };
    match direct.room(&mut of(&[MIB as u32 / 2, MIB as u32 / 2 + 1])) {
        Room::Refused(why) => assert!(why.contains("1048576"), "{why}"),
        other => panic!("{other:?}"),
    }
    // As much as a buffer holds: the arena is no longer than that.
    let mut whole = of(&[MIB as u32 / 2, MIB as u32 / 2]);
    assert_eq!(direct.room(&mut whole), Room::Grow);
    assert_eq!(direct.driver.grow().unwrap(), Grown::Grown);
    assert_eq!(direct.room(&mut whole), Room::Ok);
    assert!(matches!(direct.submit(&mut direct.iota(1)), Submitted::Committed));
    direct.wait(1);
    direct.unload(test);
    direct.close();
}

/// Promise M38.
#[test]
fn room_answers_later_and_grow_for_parameters_alone() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    let test = direct.load("test");
    let entry = direct.entry(&test, "nothing");
    let mut step = Step::empty();
    step.launch(entry, 0);
    // More values than an arena would hold, and more command buffers than rig ever has in flight for them.
    for _ in 0..5000 {
        assert_eq!(direct.room(&mut step), Room::Ok);
        direct.hand_over(&mut step);
    }
    direct.driver.commit(direct.last).unwrap();
    mac.machine.release();
    direct.wait(5000);
    direct.unload(test);
    direct.close();
}

/// Promises M43, E37.
#[test]
fn a_program_that_fills_the_arena_waits_for_the_gpu_and_goes_on() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(4 * 16).unwrap();
    let iota = kernels.device.load(&library("suite")).unwrap().function("iota").unwrap();
    let mut builder = kernels.device.submission();
    for _ in 0..2000 {
        builder = builder.launch(&iota, [write(0)]);
    }
    let mut run = builder.make().unwrap().take();
    for part in 0..2000 {
        grid(&mut run, part, 16).set(8, 16u32).set(12, part as u32);
    }
    mac.machine.hold();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5 {
                launch(&mut run, &[&y]).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        // Two of them fit, and the third waits.
        until("two submits", || mac.machine.counts().committed >= 2);
        assert!(!done.load(Ordering::SeqCst));
        mac.machine.release();
    });
    assert_eq!(words(&y)[3], 2002);
}
