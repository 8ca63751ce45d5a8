//! What goes wrong: faults of the GPU, calls that the kernel refuses, and that nothing is left behind.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests fail by it")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use machine::bare::{Bare, Task};
use machine::{FAULTS, launch};
use rig::{Device, Error, write};
use rig_amd_model::{Call, Group, Machine};

/// The reason of a loss.
#[track_caller]
fn lost<T>(answer: rig::Result<T>) -> String {
    match answer {
        Err(Error::Lost { why, .. }) => why.to_string(),
        Err(other) => panic!("Lost was due, not {other:?}"),
        Ok(_) => panic!("Lost was due, not an answer"),
    }
}

/// Writes `offset` bytes past a new buffer; gives its device address plus the offset, and the reason of the loss.
fn stray(device: &Device, offset: u64) -> String {
    let image = device.load(FAULTS).unwrap();
    let store = image.function("store_at").unwrap();
    let submission = device.submission().launch(&store, [write(0)]).make().unwrap();
    let y = device.buffer(1 << 16).unwrap();
    let mut run = submission.take();
    run.part(0).groups([1; 3]).threads([1; 3]).set(8, offset).set(16, 1_u32);
    lost(launch(&mut run, &[&y]).and_then(|point| point.wait()))
}

/// Promises A12, C20.
#[test]
fn a_memory_fault_loses_the_device_with_the_faulting_address() {
    let machine = Machine::builder().seed(machine::seed()).gpus(2).build();
    let system = rig_amd::on(&machine);
    let (device, other) = (rig::open(system.gpu(0)).unwrap(), rig::open(system.gpu(1)).unwrap());
    let beside = rig::open(system.gpu(0)).unwrap();
    let why = stray(&device, 1 << 42);
    let found = machine.take_violations();
    let va = match &found[..] {
        [rig_amd_model::Violation::Access { va, .. }] => *va,
        found => panic!("{found:x?}"),
    };
    assert!(why.contains(&format!("{va:#x}")), "{why} does not name {va:#x}");
    assert!(why.contains("nothing is mapped"), "{why}");
    assert_eq!(device.lost().as_deref(), Some(&*why));
    // Another device on the same GPU is lost too, and one on another GPU goes on.
    let y = beside.buffer(64);
    assert_eq!(lost(y.and_then(|y| y.memset(1).and_then(|()| y.read(|_: &[u8]| ())))), why);
    let y = other.buffer(64).unwrap();
    y.memset(3).unwrap();
    y.read(|bytes: &[u8]| assert_eq!(bytes, [3; 64])).unwrap();
    machine.assert_clean();
}

/// Promise A12: the kernel runs nothing more of the process on that GPU, so an open is refused and says what to do.
#[test]
fn a_gpu_that_faulted_opens_no_more_in_the_process_and_says_why() {
    let machine = Machine::builder().seed(machine::seed()).gpus(2).build();
    let system = rig_amd::on(&machine);
    let why = stray(&rig::open(system.gpu(0)).unwrap(), 1 << 42);
    match rig::open(system.gpu(0)) {
        Err(Error::Refused(refusal)) => {
            assert!(refusal.contains(&why) && refusal.contains("a new process recovers"), "{refusal}");
        }
        other => panic!("{other:?}"),
    }
    rig::open(system.gpu(1)).unwrap();
    assert!(machine.take_violations().iter().all(|found| found.group() == Group::Memory));
}

/// Promise A12.
#[test]
fn a_reset_loses_the_device_with_its_cause() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let device = rig::open(rig_amd::on(&machine).gpu(0)).unwrap();
    let y = device.buffer(64).unwrap();
    y.memset(1).unwrap();
    machine.hold();
    let submission = device.submission().memset(0, 5).make().unwrap();
    let point = submission.take().submit(&[&y]).unwrap();
    machine.reset(0);
    machine.release();
    let why = lost(point.wait());
    assert!(why.contains("reset after it hung") && why.contains("lost"), "{why}");
    machine.assert_clean();
}

/// Promise E39: with a bound, a hang is a loss; what hangs is the machine's to say.
#[test]
fn a_hang_is_found_by_the_bound() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let bound = std::time::Duration::from_millis(300);
    let device = rig::open(rig_amd::on(&machine).gpu(0).hang(Some(bound))).unwrap();
    let y = device.buffer(64).unwrap();
    machine.hang(true);
    let submission = device.submission().memset(0, 5).make().unwrap();
    let point = submission.take().submit(&[&y]).unwrap();
    lost(point.wait());
    machine.hang(false);
}

/// Promises E22, E27.
#[test]
fn everything_comes_back_when_devices_close_and_their_system_goes() {
    let machine = Machine::builder().seed(machine::seed()).gpus(2).build();
    let system = rig_amd::on(&machine);
    Bare::open(&system, 0, 0).close();
    Bare::open(&system, 1, 0).close();
    let before = machine.counts();
    for _ in 0..3 {
        let (mut one, two) = (Bare::open(&system, 0, 0), Bare::open(&system, 1, 0));
        one.run(&mut Task::new(vec![], vec![]));
        one.close();
        two.close();
        assert_eq!(machine.counts(), before);
    }
    assert_eq!((before.queues, before.events), (0, 0));
    drop(system);
    let after = machine.counts();
    assert_eq!((after.files, after.memories), (0, 1), "the page of events alone is the kernel's: {after:?}");
    machine.assert_clean();
}

/// Each call of an opening fails in turn: the open is refused with a reason, and leaves nothing.
#[test]
fn an_opening_that_fails_anywhere_gives_back_what_it_made() {
    const NOMEM: i32 = 12;
    for call in [
        Call::AcquireVm,
        Call::AllocMemory,
        Call::MapMemory,
        Call::CreateQueue,
        Call::CreateEvent,
        Call::Mmap,
        Call::Open,
        Call::GetVersion,
    ] {
        let machine = Machine::builder().seed(machine::seed()).build();
        let opened = rig_amd::on(&machine);
        Bare::open(&opened, 0, 0).close();
        let settled = machine.counts();
        for after in 0.. {
            let calls = machine.calls(call);
            machine.fail(call, after, 1, NOMEM);
            match rig::open(opened.gpu(0)) {
                Err(Error::Refused(why)) => assert!(why.len() > 20, "{why}"),
                Err(other) => panic!("{call:?} {after}: {other:?}"),
                Ok(device) => {
                    // So few calls of the kind are there in an opening, or it does without this one.
                    device.close();
                    drop(device);
                    if machine.calls(call) - calls <= after {
                        break;
                    }
                }
            }
            assert_eq!(machine.counts(), settled, "{call:?} after {after}");
            assert!(after < 100);
        }
        machine.assert_clean();
    }
}

#[test]
fn a_first_opening_that_fails_leaves_no_queue_and_says_what_failed() {
    const NOMEM: i32 = 12;
    for (call, after, says) in [
        (Call::Open, 0, "/dev/kfd"),
        (Call::GetVersion, 0, "GetVersion"),
        (Call::AcquireVm, 0, "address space"),
        // The first memory is the page of registers, which an opening can do without.
        (Call::AllocMemory, 1, "words"),
        (Call::CreateQueue, 0, "queues"),
        (Call::CreateEvent, 0, "event"),
    ] {
        let machine = Machine::builder().seed(machine::seed()).build();
        let system = rig_amd::on(&machine);
        machine.fail(call, after, 1, NOMEM);
        match rig::open(system.gpu(0)) {
            Err(Error::Refused(why)) => assert!(why.contains(says) && why.contains("no memory"), "{call:?}: {why}"),
            other => panic!("{call:?}: {other:?}"),
        }
        assert_eq!((machine.counts().queues, machine.counts().events), (0, 0));
        // The next one goes well.
        rig::open(system.gpu(0)).unwrap();
        machine.assert_clean();
    }
}

#[test]
fn machines_that_do_not_fit_are_refused_with_what_to_do() {
    let refusal = |machine: &Machine, index| match rig::open(rig_amd::on(machine).gpu(index)) {
        Err(Error::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    let none = Machine::builder().gpus(0).build();
    assert_eq!(rig_amd::on(&none).count(), 0);
    assert!(refusal(&none, 0).contains("/dev/kfd"), "{}", refusal(&none, 0));
    let one = Machine::builder().build();
    assert!(refusal(&one, 3).contains("has 1 AMD GPUs, and 3"), "{}", refusal(&one, 3));
    let other = Machine::builder().gfx_target_version(90_402).build();
    assert!(refusal(&other, 0).contains("gfx942"), "{}", refusal(&other, 0));
    let old = Machine::builder().kfd_version(1, 1).build();
    assert!(refusal(&old, 0).contains("version 1.1"), "{}", refusal(&old, 0));
    let taken = Machine::builder().build();
    taken.bind_elsewhere(0);
    assert!(refusal(&taken, 0).contains("one user in a process"), "{}", refusal(&taken, 0));
    let areas = Machine::builder().areas_in_topology(false).kfd_version(1, 11).build();
    rig::open(rig_amd::on(&areas).gpu(0)).unwrap();
    areas.assert_clean();
}

/// Promise E04.
#[test]
fn memory_that_is_short_is_none_and_no_fault() {
    let machine = Machine::builder().vram(256 << 20).build();
    let device = rig::open(rig_amd::on(&machine).gpu(0)).unwrap();
    device.set_budget(u64::MAX);
    match device.buffer(1 << 30) {
        Err(Error::OutOfMemory { .. }) => {}
        other => panic!("{other:?}"),
    }
    device.buffer(1 << 20).unwrap().memset(1).unwrap();
    machine.assert_clean();
}
