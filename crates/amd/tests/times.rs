//! When work ran, by the GPU's clock on the host's: stamps around each part, on its own queue.
#![cfg(unix)]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use std::sync::Arc;
use std::time::Duration;

use machine::bare::{Bare, Task, copy, launch, memset, slot};
use machine::{SUITE, launch as submit};
use rig::{Profile, write};
use rig_amd_model::{Call, Machine, Traced};
use rig_edge::{Driver, Memory, Times, times};

/// The queues as the facts list them, and as the machine numbers those of its first device.
const COMPUTE: u32 = 0;
const COPIER: u32 = 1;

/// A device with a task of five parts: on the copy queue, twice on the compute queue, and twice on the copy queue.
fn mixed(machine: &Machine) -> (Bare, Task) {
    let mut device = Bare::open(&rig_amd::on(machine), 0, 0);
    let image = device.image(SUITE);
    let spin = device.entry(image, "spin");
    let (a, b) = (device.memory(Memory::Device, 1 << 18), device.memory(Memory::Device, 1 << 18));
    let slots = vec![slot(a, 0, 1 << 18), slot(b, 0, 1 << 18), slot(a, 0, 1000)];
    let parts = vec![memset(0, 7), launch(&spin, &[0]), launch(&spin, &[0]), copy(0, 1), memset(2, 1)];
    let mut task = Task::new(parts, slots);
    task.set(1, 4, 64, &[0, 256 | 40 << 32], 16);
    task.set(2, 4, 64, &[0, 256 | 40 << 32], 16);
    (device, task)
}

/// Runs the task and gives its times, with the host's readings around it.
fn timed(device: &mut Bare, task: &mut Task) -> (Arc<Times>, [u64; 2]) {
    let told = Arc::new(Times::new(task.parts.len()));
    let before = times::now();
    task.times = Some(Arc::clone(&told));
    device.run(task);
    let after = times::now();
    told.settle();
    (told, [before, after])
}

/// Promises C22, E38: each part ran on its queue, after the part before it, while the submit was under way; whatever the rate of
/// the GPU's clock.
#[test]
fn parts_have_their_times_on_their_queues_one_after_the_other_on_the_hosts_clock() {
    for rate in [100_000_000, 27_000_000, 1_000_000_000] {
        let machine = Machine::builder().seed(machine::seed()).clock_hz(rate).build();
        let (mut device, mut task) = mixed(&machine);
        for _ in 0..3 {
            let (told, [before, after]) = timed(&mut device, &mut task);
            let parts: Vec<_> = (0..5).map(|part| told.part(part).expect("a part's times")).collect();
            let queues: Vec<u32> = parts.iter().map(|part| part.queue).collect();
            assert_eq!(queues, [COPIER, COMPUTE, COMPUTE, COPIER, COPIER]);
            let error = told.error_ns();
            assert!(error > 0 && error < 50_000_000, "{error}");
            for pair in parts.windows(2) {
                assert!(pair[0].span.start <= pair[0].span.end && pair[0].span.end <= pair[1].span.start, "{parts:?}");
            }
            let whole = told.value().unwrap();
            assert_eq!((whole.start, whole.end), (parts[0].span.start, parts[4].span.end));
            assert!(whole.start + error >= before && whole.end <= after + error, "{before} {whole:?} {after} {error}");
            assert!(parts[1].span.end > parts[1].span.start, "{parts:?}");
        }
        device.close();
        machine.assert_clean();
    }
}

/// Promise C22: a stamp stands behind the work before it: what is copied has landed.
#[test]
fn stamps_stand_behind_the_bytes_that_parts_move() {
    for seed in 0..6 {
        let machine = Machine::builder().seed(machine::seed() + seed).build();
        let (mut device, mut task) = mixed(&machine);
        timed(&mut device, &mut task);
        machine.clear_trace();
        timed(&mut device, &mut task);
        let steps: Vec<char> = machine
            .trace()
            .iter()
            .filter_map(|step| match step {
                Traced::Stamped { .. } => Some('|'),
                Traced::Moved { .. } => Some('m'),
                Traced::Ended { .. } => Some('k'),
                _ => None,
            })
            .collect();
        let line: String = steps.into_iter().collect();
        // Neighbours on one queue share a stamp.
        assert_eq!(line, "|m||k|k||m|m|", "seed {seed}");
        device.close();
        machine.assert_clean();
    }
}

/// Promise C22.
#[test]
fn a_value_of_nothing_has_its_time_too() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let (told, [before, after]) = timed(&mut device, &mut Task::new(vec![], vec![]));
    let whole = told.value().expect("its time");
    assert!(whole.start + told.error_ns() >= before && whole.end <= after + told.error_ns());
    device.close();
    machine.assert_clean();
}

/// Nothing is made, asked or placed for times that nobody takes.
#[test]
fn work_that_nobody_times_has_no_stamps_and_reads_no_clock() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let (mut device, mut task) = mixed(&machine);
    let memories = machine.counts().memories;
    device.run(&mut task);
    assert_eq!((machine.calls(Call::GetClockCounters), machine.counts().memories), (0, memories));
    assert!(!machine.trace().iter().any(|step| matches!(step, Traced::Stamped { .. })));
    timed(&mut device, &mut task);
    assert_eq!(machine.counts().memories, memories + 1);
    device.close();
    machine.assert_clean();
}

/// Times are read when their ring is full too: a profile may be as long as it likes.
#[test]
fn more_values_than_the_ring_of_stamps_holds_are_timed() {
    let machine = Machine::builder().seed(machine::seed()).caches(false).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let memory = device.memory(Memory::Device, 64);
    let n = 700;
    let mut task = Task::new((0..n).map(|_| memset(0, 1)).collect(), vec![slot(memory, 0, 64)]);
    let mut all = Vec::new();
    // 1,400 stamps at most in each value, and 131,072 in the ring.
    for _ in 0..120 {
        let told = Arc::new(Times::new(n));
        task.times = Some(Arc::clone(&told));
        device.submit(&mut task);
        all.push(told);
    }
    device.wait(device.last());
    let mut end = 0;
    for told in &all {
        told.settle();
        let whole = told.value().expect("its time");
        assert!(whole.start >= end, "values run one after the other");
        end = whole.end;
    }
    device.close();
    machine.assert_clean();
}

/// A submission that fits the rings fits them under a profile: then it is timed as a whole.
#[test]
fn a_submission_too_long_for_stamps_of_its_parts_is_timed_as_a_whole() {
    let machine = Machine::builder().seed(machine::seed()).caches(false).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let image = device.image(SUITE);
    let iota = device.entry(image, "iota");
    let memory = device.memory(Memory::Device, 256);
    let n = 10_000;
    let mut task = Task::new((0..n).map(|_| launch(&iota, &[0])).collect(), vec![slot(memory, 0, 256)]);
    (0..n).for_each(|part| task.set(part, 1, 1, &[0, 1], 16));
    let (told, _) = timed(&mut device, &mut task);
    assert!(told.value().is_some() && told.part(0).is_none());
    device.close();
    machine.assert_clean();
}

/// What a lost device was to tell stays unknown, and nothing is touched after its end.
#[test]
fn times_of_work_that_never_ran_stay_unknown() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let (mut device, mut task) = mixed(&machine);
    timed(&mut device, &mut task);
    machine.hold();
    let (ran, never) = (Arc::new(Times::new(5)), Arc::new(Times::new(5)));
    task.times = Some(Arc::clone(&ran));
    let value = device.submit(&mut task);
    machine.release();
    device.wait(value);
    machine.hold();
    task.times = Some(Arc::clone(&never));
    device.submit(&mut task);
    device.driver.stop(None).unwrap();
    for told in [&ran, &never] {
        told.settle();
    }
    assert!(ran.value().is_some(), "read when the device ended, at the latest");
    assert_eq!((never.value(), never.part(0)), (None, None));
    drop(device);
    machine.release();
    machine.assert_clean();
}

/// Promise C22: as a program takes a profile.
#[test]
fn a_profile_shows_what_ran_on_which_queue_and_when() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let device = rig::open(rig_amd::on(&machine).gpu(0)).unwrap();
    let spin = device.load(SUITE).unwrap().function("spin").unwrap();
    let (y, z) = (device.buffer(4096).unwrap(), device.buffer(4096).unwrap());
    let step = device.submission().memset(0, 3).launch(&spin, [write(0)]).copy(0, 1).make().unwrap();
    let mut run = step.take();
    run.part(1).groups([16, 1, 1]).threads([64, 1, 1]).set(8, 1024_u32).set(12, 20_u32);
    let (_, profile) = Profile::take(|| (0..3).for_each(|_| _ = submit(&mut run, &[&y, &z]).unwrap())).unwrap();
    let values: Vec<_> = profile.of(device.name()).collect();
    assert_eq!(values.len(), 3);
    for value in values {
        let ran = value.ran.expect("when it ran");
        assert!(value.error > Duration::ZERO && ran.start >= value.submit.start);
        let parts: Vec<_> = value.parts.iter().map(|part| (&*part.name, part.queue, part.ran.is_some())).collect();
        assert_eq!(parts, [("memset", COPIER, true), ("spin", COMPUTE, true), ("copy", COPIER, true)]);
    }
    let mut trace = Vec::new();
    profile.write_chrome_trace(&mut trace).unwrap();
    let trace = String::from_utf8(trace).unwrap();
    assert!(trace.contains("queue 0") && trace.contains("queue 1"), "rows of both queues");
    machine.assert_clean();
}
