//! Fills: launches, copies, memsets and packets of a program's own, in the device's order.
#![cfg(unix)]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use machine::bare::{Bare, Task, bytes, launch, memset, slot};
use machine::{SUITE, launch as submit};
use rig::{Error, write};
use rig_amd::{Amd, Encoder, Entry};
use rig_amd_model::{Machine, Traced};
use rig_edge::{Fill, Memory, Part, Room, Slot};

const N: usize = 300;

fn spun(y: u32, rounds: u32) -> u32 {
    (0..rounds).fold(y, |y, _| y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

/// The parameters of `spin` over all of a slot.
fn spin_of(at: &Slot, rounds: u32) -> Vec<u8> {
    let mut params = at.device.to_le_bytes().to_vec();
    params.extend((at.len as u32 / 4).to_le_bytes());
    params.extend(rounds.to_le_bytes());
    params
}

fn spin(encoder: &mut Encoder<'_>, entry: &Entry, at: &Slot, rounds: u32) -> Result<(), String> {
    #[expect(unsafe_code, reason = "the kernel works in the slot")]
    // SAFETY: `spin` works on the words of the slot, which the tests' fills say that they write.
    unsafe {
        encoder.launch(entry, [8, 1, 1], [64, 1, 1], 0, &spin_of(at, rounds))
    }
}

#[expect(unsafe_code, reason = "copies between slots")]
fn copy(encoder: &mut Encoder<'_>, from: &Slot, to: &Slot) -> Result<(), String> {
    // SAFETY: the slots have one length, and the tests' fills say what they do with them.
    unsafe { encoder.copy(from.device, to.device, from.len) }
}

#[expect(unsafe_code, reason = "sets a slot")]
fn set(encoder: &mut Encoder<'_>, at: &Slot, byte: u8) -> Result<(), String> {
    // SAFETY: the slot, which the tests' fills say that they write.
    unsafe { encoder.memset(at.device, byte, at.len) }
}

/// Promises A05, C11: what a fill places runs behind the parts before it and ahead of those after, on both queues.
#[test]
fn a_fill_places_launches_copies_and_memsets_in_its_parts_place() {
    for seed in 0..6 {
        let machine = Machine::builder().seed(machine::seed() + seed).build();
        let device = rig::open(rig_amd::on(&machine).gpu(0)).unwrap();
        let function = device.load(SUITE).unwrap().function("spin").unwrap();
        let entry = function.entry::<Amd>().expect("the driver's entry").clone();
        let fill = move |encoder: &mut Encoder<'_>, slots: &[Slot]| {
            spin(encoder, &entry, &slots[0], 3)?;
            copy(encoder, &slots[0], &slots[1])?;
            set(encoder, &slots[0], 9)?;
            spin(encoder, &entry, &slots[1], 2)?;
            spin(encoder, &entry, &slots[0], 1)
        };
        let chain = device.submission().memset(0, 5).fill::<Amd>([write(0), write(1)], fill);
        let chain = chain.launch(&function, [write(1)]).copy(1, 2).make().unwrap();
        let [a, b, c] = [0; 3].map(|_: i32| device.buffer(4 * N).unwrap());
        let mut run = chain.take();
        run.part(2).groups([5, 1, 1]).threads([64, 1, 1]).set(8, N as u32).set(12, 4_u32);
        for _ in 0..3 {
            submit(&mut run, &[&a, &b, &c]).unwrap();
            let due = spun(0x0505_0505, 3 + 2 + 4);
            b.read(|y: &[u32]| assert!(y.iter().all(|&y| y == due), "seed {seed}: {:x} of {due:x}", y[0])).unwrap();
            c.read(|y: &[u32]| assert!(y.iter().all(|&y| y == due), "seed {seed}")).unwrap();
            a.read(|y: &[u32]| assert!(y.iter().all(|&y| y == spun(0x0909_0909, 1)), "seed {seed}")).unwrap();
        }
        machine.assert_clean();
    }
}

/// Packets of the fill's own, on both queues, and how a large copy of a fill runs.
#[test]
fn packets_of_the_fills_own_run_in_order_on_both_queues() {
    const LARGE: usize = 1 << 20;
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let host = device.memory(Memory::Pinned, 4096);
    let (a, b) = (device.memory(Memory::Device, LARGE), device.memory(Memory::Device, LARGE));
    #[expect(unsafe_code, reason = "packets of the test's own")]
    let code = |encoder: &mut Encoder<'_>, slots: &[Slot]| {
        let halves = |at: u64| [at as u32, (at >> 32) as u32];
        let (at, [low, high]) = (slots[0].device, halves(slots[0].device));
        let [to, to_high] = halves(at + 64);
        assert_eq!(encoder.value(), 1);
        // WRITE_DATA of two words, to memory and confirmed; then a copy of them behind it; then a word more.
        // SAFETY: both packets write the slot, which is the test's, and end by themselves.
        unsafe { encoder.commands(&[0xC004_3700, 5 << 8 | 1 << 20, low, high, 0x1111_2222, 0x3333_4444]) }?;
        // SAFETY: as above.
        unsafe { encoder.copy_packet(&[1, 7, 0, low, high, to, to_high]) }?;
        // SAFETY: as above.
        unsafe { encoder.commands(&[0xC003_3700, 5 << 8 | 1 << 20, low, high, 0x5555_6666]) }?;
        // SAFETY: nothing is placed.
        let refused = [unsafe { encoder.commands(&[]) }, unsafe { encoder.commands(&[0; 17]) }];
        assert!(refused.iter().all(Result::is_err));
        // SAFETY: nothing is placed.
        assert!(unsafe { encoder.copy_packet(&[0; 65]) }.is_err());
        set(encoder, &slots[1], 0x7E)?;
        copy(encoder, &slots[1], &slots[2])
    };
    let fill = Part::Fill(Fill { code: Box::new(code) });
    let slots = vec![slot(host, 0, 128), slot(a, 0, LARGE), slot(b, 0, LARGE), slot(host, 1024, 64), slot(b, 999, 64)];
    let mut task = Task::new(vec![fill, machine::bare::copy(4, 3)], slots);
    machine.clear_trace();
    device.run(&mut task);
    let found = bytes(host, 1088);
    assert_eq!(found[..8], [0x66, 0x66, 0x55, 0x55, 0x44, 0x44, 0x33, 0x33]);
    assert_eq!(found[64..72], [0x22, 0x22, 0x11, 0x11, 0x44, 0x44, 0x33, 0x33]);
    assert_eq!(found[1024..], [0x7E; 64]);
    let launched = machine.trace().iter().filter(|step| matches!(step, Traced::Launched { .. })).count();
    assert_eq!(launched, 1, "a large copy within the GPU's memory is a kernel here too");
    device.close();
    machine.assert_clean();
}

/// A task of one fill that spins its slot once, `times` over, and counts its calls.
fn spinning(device: &mut Bare, times: usize) -> (Task, Arc<AtomicUsize>, rig_edge::Location) {
    let image = device.image(SUITE);
    let entry = device.entry(image, "spin");
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let at = device.memory(Memory::Pinned, 64);
    let code = move |encoder: &mut Encoder<'_>, slots: &[Slot]| {
        counted.fetch_add(1, Ordering::Relaxed);
        (0..times).try_for_each(|_| spin(encoder, &entry, &slots[0], 1))
    };
    let fill = Part::Fill(Fill { code: Box::new(code) });
    (Task::new(vec![fill], vec![slot(at, 0, 64)]), calls, at)
}

/// Promise A04: room keeps for each fill what it may place, answers Later while the rings do not hold that, and refuses what they
/// never can. A fill's code runs once in each submit, and in none that has no room.
#[test]
fn room_keeps_what_fills_may_place_and_their_code_runs_once_a_submit() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let (mut task, calls, at) = spinning(&mut device, 700);
    machine.hold();
    let mut values = 0;
    while let Ok(_value) = device.try_submit(&mut task) {
        values += 1;
    }
    assert!((15..40).contains(&values), "{values} fills of 700 packets in a ring of 16,384");
    assert_eq!(calls.load(Ordering::Relaxed), values);
    assert_eq!(device.try_submit(&mut task), Err(Room::Later));
    machine.release();
    device.submit(&mut task);
    device.wait(device.last());
    assert_eq!(calls.load(Ordering::Relaxed), values + 1);
    let due = spun(0, (700 * (values + 1)) as u32);
    assert!(bytes(at, 64) == due.to_le_bytes().repeat(16));
    let fills = |n: usize| {
        let code = || Box::new(|_: &mut Encoder<'_>, _: &[Slot]| Ok(()));
        Task::new((0..n).map(|_| Part::Fill(Fill { code: code() })).collect(), vec![])
    };
    device.run(&mut fills(15));
    match device.try_submit(&mut fills(20)) {
        Err(Room::Refused(why)) => assert!(why.contains("submit it in parts"), "{why}"),
        other => panic!("{other:?}"),
    }
    device.close();
    machine.assert_clean();
}

/// What goes beyond is an error, and so is a launch that cannot run; a fill that answers it goes on.
#[test]
fn a_fill_that_asks_for_too_much_is_told_and_may_go_on() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let image = device.image(SUITE);
    let entry = device.entry(image, "spin");
    let placed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&placed);
    #[expect(unsafe_code, reason = "launches that are refused")]
    let code = move |encoder: &mut Encoder<'_>, slots: &[Slot]| {
        let params = spin_of(&slots[0], 1);
        // SAFETY: both are refused.
        let wrong = [unsafe { encoder.launch(&entry, [1; 3], [2000, 1, 1], 0, &params) }, unsafe {
            encoder.launch(&entry, [1; 3], [64, 1, 1], 0, &params[..8])
        }];
        assert!(wrong.iter().all(Result::is_err), "{wrong:?}");
        let why = loop {
            match spin(encoder, &entry, &slots[0], 1) {
                Ok(()) => count.fetch_add(1, Ordering::Relaxed),
                Err(why) => break why,
            };
        };
        assert!(why.contains("part it in two"), "{why}");
        assert!(set(encoder, &slots[0], 0).is_err() || spin(encoder, &entry, &slots[0], 1).is_err());
        Ok(())
    };
    let at = device.memory(Memory::Pinned, 64);
    let mut task = Task::new(vec![Part::Fill(Fill { code: Box::new(code) })], vec![slot(at, 0, 64)]);
    for round in 1..4 {
        placed.store(0, Ordering::Relaxed);
        let before = u32::from_le_bytes(bytes(at, 4).try_into().unwrap());
        device.run(&mut task);
        let launches = placed.load(Ordering::Relaxed) as u32;
        assert!((1000..1024).contains(&launches), "{launches}");
        let found = u32::from_le_bytes(bytes(at, 4).try_into().unwrap());
        let back = [0, before].map(|from| spun(from, launches));
        assert!(back.contains(&found), "round {round}: {found:x}, {back:x?}");
    }
    device.close();
    machine.assert_clean();
}

/// Promises A04, S09: what a fill leaves behind is counted, whichever queue it ended on, for all that follows.
#[test]
fn work_behind_fills_is_counted_whichever_queue_they_end_on() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let image = device.image(SUITE);
    let entry = device.entry(image, "spin");
    let (a, b) = (device.memory(Memory::Device, 64), device.memory(Memory::Pinned, 64));
    let ends = [
        Box::new(|_: &mut Encoder<'_>, _: &[Slot]| Ok(())) as Box<rig_edge::FillFn<Amd>>,
        Box::new(|encoder: &mut Encoder<'_>, slots: &[Slot]| set(encoder, &slots[1], 3)),
        Box::new(move |encoder: &mut Encoder<'_>, slots: &[Slot]| spin(encoder, &entry, &slots[1], 1)),
    ];
    let entry = device.entry(image, "spin");
    let mut tasks: Vec<Task> = ends
        .into_iter()
        .map(|code| {
            let parts = vec![memset(0, 1), Part::Fill(Fill { code }), launch(&entry, &[0]), memset(1, 2)];
            let mut task = Task::new(parts, vec![slot(a, 0, 64), slot(b, 0, 64)]);
            task.set(2, 1, 64, &[0, 16 | 1 << 32], 16);
            task
        })
        .collect();
    for round in 0..60 {
        let at = round * 7 % 3;
        device.submit(&mut tasks[at]);
    }
    device.wait(device.last());
    device.close();
    machine.assert_clean();
}

/// Promise C23.
#[test]
fn a_fill_that_fails_or_panics_loses_the_device_with_its_reason_and_others_go_on() {
    for panics in [false, true] {
        let machine = Machine::builder().seed(machine::seed()).gpus(2).build();
        let system = rig_amd::on(&machine);
        let (device, other) = (rig::open(system.gpu(0)).unwrap(), rig::open(system.gpu(1)).unwrap());
        let y = device.buffer(64).unwrap();
        y.memset(7).unwrap();
        let code = move |encoder: &mut Encoder<'_>, slots: &[Slot]| {
            set(encoder, &slots[0], 1)?;
            assert!(!panics, "the fill panics");
            Err("no such algorithm".to_string())
        };
        let mut run = device.submission().memset(0, 2).fill::<Amd>([write(0)], code).make().unwrap().take();
        match submit(&mut run, &[&y]) {
            Err(Error::Lost { why, .. }) => {
                let due = if panics { "the fill panics" } else { "part 1: no such algorithm" };
                assert!(why.contains(due), "{why}");
            }
            other => panic!("{other:?}"),
        }
        let z = other.buffer(64).unwrap();
        z.memset(3).unwrap();
        z.read(|bytes: &[u8]| assert_eq!(bytes, [3; 64])).unwrap();
        // The GPU itself is well, and opens again.
        let again = rig::open(system.gpu(0)).unwrap();
        let z = again.buffer(64).unwrap();
        z.memset(4).unwrap();
        z.read(|bytes: &[u8]| assert_eq!(bytes, [4; 64])).unwrap();
        machine.assert_clean();
    }
}

/// Promise C22.
#[test]
fn a_fill_has_its_times_in_a_profile() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let device = rig::open(rig_amd::on(&machine).gpu(0)).unwrap();
    let function = device.load(SUITE).unwrap().function("spin").unwrap();
    let entry = function.entry::<Amd>().unwrap().clone();
    let y = device.buffer(256).unwrap();
    let code = move |encoder: &mut Encoder<'_>, slots: &[Slot]| {
        spin(encoder, &entry, &slots[0], 20)?;
        set(encoder, &slots[0], 1)
    };
    let mut run = device.submission().fill::<Amd>([write(0)], code).memset(0, 1).make().unwrap().take();
    let (_, profile) = rig::Profile::take(|| submit(&mut run, &[&y]).unwrap()).unwrap();
    // Other tests of this process submit meanwhile.
    let names = |parts: &[rig::PartRan]| parts.iter().map(|part| part.name.to_string()).collect::<Vec<_>>();
    let value = profile.values.iter().find(|value| names(&value.parts) == ["fill", "memset"]).unwrap();
    let [fill, memset] = &value.parts[..] else { panic!("{:?}", value.parts) };
    assert_eq!((fill.queue, memset.queue), (0, 1));
    let (fill, memset) = (fill.ran.unwrap(), memset.ran.unwrap());
    assert!(fill.end > fill.start && memset.start >= fill.end);
    machine.assert_clean();
}
