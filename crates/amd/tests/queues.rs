//! Which queue runs what, in which order, and what the GPU is told: by the driver's own interface and the machine's trace.
#![cfg(unix)]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use machine::SUITE;
use machine::bare::{Bare, Task, bytes, copy, fill, launch, memset, slot};
use rig_amd_model::{Machine, Step, Traced};
use rig_edge::{Driver, Memory, Opener, Room, Wait, Words};

/// The queues of the first device of a machine.
const COMPUTE: u32 = 0;
const COPIER: u32 = 1;

/// Whether an address is the low half of a word of the table.
fn is_word(va: u64) -> bool {
    let base = Words::get().base().addr() as u64;
    (base..base + Words::len_bytes() as u64).contains(&va)
}

fn queue_of(step: &Traced) -> Option<u32> {
    match step {
        Traced::Launched { queue, .. } | Traced::Moved { queue, .. } => Some(*queue),
        _ => None,
    }
}

/// The queues that ran work, in the order in which they began or ended it.
fn ran(machine: &Machine) -> Vec<u32> {
    machine.trace().iter().filter_map(queue_of).collect()
}

/// Promise A01.
#[test]
fn every_opener_makes_one_type_of_driver() {
    fn driver<O: Opener>(_: &O) -> std::any::TypeId
    where
        O::Driver: 'static,
    {
        std::any::TypeId::of::<O::Driver>()
    }
    let machine = Machine::builder().build();
    let software = rig_amd::on(&machine).gpu(0);
    assert_eq!(driver(&software), driver(&rig_amd::gpu(0)));
    assert_eq!(driver(&software), std::any::TypeId::of::<rig_amd::Amd>());
}

/// Promises A02, A03.
#[test]
fn launches_run_on_the_compute_queue_and_copies_and_memsets_on_the_copy_queue() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let image = device.image(SUITE);
    let iota = device.entry(image, "iota");
    let (a, b) = (device.memory(Memory::Device, 4096), device.memory(Memory::Pinned, 4096));
    let mut task =
        Task::new(vec![memset(0, 7), launch(&iota, &[0]), copy(0, 1)], vec![slot(a, 0, 4096), slot(b, 0, 4096)]);
    task.set(1, 16, 64, &[0, 1000 | 5 << 32], 16);
    machine.clear_trace();
    let value = device.run(&mut task);
    assert_eq!(ran(&machine), [COPIER, COMPUTE, COPIER]);
    let due: Vec<u8> = (5..1005_u32).flat_map(u32::to_le_bytes).chain([7; 96]).collect();
    assert!(bytes(b, 4096) == due);
    let trace = machine.trace();
    let stored = trace.iter().filter_map(|step| match step {
        Traced::Stored { queue, va, value } if is_word(*va) => Some((*queue, *value)),
        _ => None,
    });
    assert_eq!(stored.collect::<Vec<_>>(), [(COPIER, value)], "the last queue stores the word, once");
    device.close();
    machine.assert_clean();
}

/// Promise A02.
#[test]
fn a_large_copy_within_the_gpus_memory_is_a_kernel_and_every_other_copy_is_not() {
    const LARGE: usize = 1 << 20;
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let len = LARGE + 4096;
    let (a, b) = (device.memory(Memory::Device, len), device.memory(Memory::Device, len));
    let (host, back) = (device.memory(Memory::Pinned, len), device.memory(Memory::Pinned, len));
    let pattern: Vec<u8> = (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fill(host, &pattern);
    for (name, offsets, len, engine) in [
        ("large", (0, 0), LARGE, COMPUTE),
        ("large, with bytes after the last sixteen", (16, 32), LARGE + 13, COMPUTE),
        ("small", (0, 0), LARGE - 1, COPIER),
        ("large, on no sixteen bytes", (1, 0), LARGE, COPIER),
    ] {
        let (from, to) = offsets;
        let mut task = Task::new(
            vec![copy(0, 1), memset(2, 0x11), copy(3, 4), copy(5, 6)],
            vec![
                slot(host, 0, len),
                slot(a, from, len),
                slot(b, 0, LARGE + 64),
                slot(a, from, len),
                slot(b, to, len),
                slot(b, 0, LARGE + 64),
                slot(back, 0, LARGE + 64),
            ],
        );
        machine.clear_trace();
        device.run(&mut task);
        let ran = ran(&machine);
        assert_eq!(
            ran.iter().filter(|&&queue| queue == COMPUTE).count(),
            usize::from(engine == COMPUTE),
            "{name}: {ran:?}"
        );
        let seen = bytes(back, LARGE + 64);
        assert!(seen[to..to + len] == pattern[..len], "{name}: all bytes");
        assert!(seen[..to].iter().chain(&seen[to + len..]).all(|&byte| byte == 0x11), "{name}: and no others");
    }
    device.close();
    machine.assert_clean();
}

#[test]
fn memsets_of_every_place_and_length_set_their_bytes_and_no_others() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let memory = device.memory(Memory::Pinned, 64);
    for start in 0..6 {
        for len in 0..14 {
            fill(memory, &[0x55; 64]);
            device.run(&mut Task::new(vec![memset(0, 0xA7)], vec![slot(memory, start, len)]));
            let due: Vec<u8> = (0..64).map(|i| if (start..start + len).contains(&i) { 0xA7 } else { 0x55 }).collect();
            assert_eq!(bytes(memory, 64), due, "{len} bytes at {start}");
        }
    }
    device.close();
    machine.assert_clean();
}

/// Promise A04.
#[test]
fn full_rings_answer_later_and_what_they_can_never_hold_is_refused() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let image = device.image(SUITE);
    let iota = device.entry(image, "iota");
    let memory = device.memory(Memory::Mapped, 4096);
    let launches = |n: usize| {
        let mut task = Task::new((0..n).map(|_| launch(&iota, &[0])).collect(), vec![slot(memory, 0, 4096)]);
        (0..n).for_each(|part| task.set(part, 1, 64, &[0, 64 | 1 << 32], 16));
        task
    };
    let copies = |n: usize| {
        let slots = vec![slot(memory, 0, 64), slot(memory, 64, 64)];
        Task::new((0..n).map(|_| copy(0, 1)).collect(), slots)
    };
    for (n, mut many, mut few) in [(16_384, launches(16_384), launches(3000)), (20_000, copies(20_000), copies(2500))] {
        match device.try_submit(&mut many) {
            Err(Room::Refused(why)) => assert!(why.contains("submit it in parts"), "{why}"),
            other => panic!("{n} parts: {other:?}"),
        }
        machine.hold();
        let mut values = 0;
        let answer = loop {
            match device.try_submit(&mut few) {
                Ok(_) => values += 1,
                Err(answer) => break answer,
            }
        };
        assert_eq!(answer, Room::Later, "with {values} values in flight");
        assert!((2..8).contains(&values), "{values} of such values fill a ring");
        machine.release();
        device.submit(&mut few);
        device.wait(device.last());
    }
    device.close();
    machine.assert_clean();
}

/// Promise A04.
#[test]
fn what_room_decided_stands_whatever_is_loaded_before_the_submit() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let (a, b) = (device.memory(Memory::Device, 1 << 20), device.memory(Memory::Device, 1 << 20));
    let slots = vec![slot(a, 0, 1 << 20), slot(b, 0, 1 << 20), slot(a, 0, 64), slot(b, 0, 64)];
    let mut task = Task::new(vec![copy(0, 1), copy(2, 3), memset(2, 1)], slots);
    device.submit(&mut task);
    assert_eq!(task.scratch.iter().map(|scratch| scratch[0]).collect::<Vec<_>>(), [0, 1, 1]);
    device.wait(device.last());
    device.close();
    machine.assert_clean();
}

/// Promises A05, A13.
#[test]
fn each_part_and_each_value_starts_after_the_one_before_whichever_queue_ran_it() {
    for seed in 0..machine::seeds(8) {
        let machine = Machine::builder().seed(seed).build();
        machine.delay(seed % 3 * 20);
        let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
        let image = device.image(SUITE);
        let spin = device.entry(image, "spin");
        let iota = device.entry(image, "iota");
        let places: Vec<_> = (0..4).map(|_| device.memory(Memory::Device, 4096)).collect();
        let back = device.memory(Memory::Pinned, 4096);
        // A chain over both queues: each step reads what the one before wrote.
        let slots: Vec<_> = places.iter().map(|&at| slot(at, 0, 4096)).chain([slot(back, 0, 4096)]).collect();
        let mut first = Task::new(vec![launch(&iota, &[0])], slots.clone());
        first.set(0, 16, 64, &[0, 1024 | 3 << 32], 16);
        let mut step = Task::new(vec![copy(0, 1), launch(&spin, &[1]), launch(&spin, &[1]), copy(1, 0)], slots.clone());
        step.set(1, 16, 64, &[0, 1024 | 1 << 32], 16);
        step.set(2, 16, 64, &[0, 1024 | 2 << 32], 16);
        let mut alone = Task::new(vec![launch(&spin, &[0])], slots.clone());
        alone.set(0, 16, 64, &[0, 1024 | 1 << 32], 16);
        let mut last = Task::new(vec![copy(0, 4)], slots);
        device.submit(&mut first);
        for round in 0..12 {
            device.submit(&mut step);
            if round % 3 == 0 {
                device.submit(&mut alone);
            }
        }
        device.run(&mut last);
        let spun = |start: u32| (0..40).fold(start, |y, _| y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        let due: Vec<u8> = (3..1027).flat_map(|start| spun(start).to_le_bytes()).collect();
        assert!(bytes(back, 4096) == due, "seed {seed}");
        device.close();
        machine.assert_clean();
    }
}

/// Promises A05, A13: one after the other, each with the caches of its own shader made to read afresh.
#[test]
fn launches_of_one_value_read_what_the_launches_before_them_wrote() {
    const LAUNCHES: u32 = 24;
    for seed in 0..machine::seeds(4) {
        let machine = Machine::builder().seed(seed).build();
        let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
        let image = device.image(SUITE);
        let (iota, spin) = (device.entry(image, "iota"), device.entry(image, "spin"));
        let (y, back) = (device.memory(Memory::Device, 1024), device.memory(Memory::Pinned, 1024));
        let launches = std::iter::once(launch(&iota, &[0])).chain((0..LAUNCHES).map(|_| launch(&spin, &[0])));
        let parts = launches.chain([copy(0, 1)]).collect();
        let mut task = Task::new(parts, vec![slot(y, 0, 1024), slot(back, 0, 1024)]);
        task.set(0, 8, 32, &[0, 256 | 7 << 32], 16);
        (1..=LAUNCHES as usize).for_each(|part| task.set(part, 8, 32, &[0, 256 | 1 << 32], 16));
        device.run(&mut task);
        let spun = |start: u32| (0..LAUNCHES).fold(start, |y, _| y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        let due: Vec<u8> = (7..263).flat_map(|start| spun(start).to_le_bytes()).collect();
        assert!(bytes(back, 1024) == due, "seed {seed}");
        device.close();
        machine.assert_clean();
    }
}

/// Promise A08: also where the GPU's caches hold what was there before.
#[test]
fn launches_read_what_the_host_wrote_through_the_window_since_the_last_one() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let image = device.image(SUITE);
    let add = device.entry(image, "add");
    let (x, y) = (device.memory(Memory::Mapped, 1024), device.memory(Memory::Pinned, 1024));
    let mut task = Task::new(vec![launch(&add, &[0, 1])], vec![slot(x, 0, 1024), slot(y, 0, 1024)]);
    task.set(0, 8, 32, &[0, 0, 256], 20);
    let mut sum = 0.0;
    for round in 1..20_u8 {
        let ones: Vec<u8> = (0..256).flat_map(|_| f32::from(round).to_le_bytes()).collect();
        fill(x, &ones);
        device.run(&mut task);
        sum += f32::from(round);
        let due: Vec<u8> = (0..256).flat_map(|_| sum.to_le_bytes()).collect();
        assert!(bytes(y, 1024) == due, "round {round}");
    }
    device.close();
    machine.assert_clean();
}

/// Promise A06.
#[test]
fn another_devices_word_is_waited_for_on_the_compute_queue_also_by_copies() {
    let machine = Machine::builder().seed(machine::seed()).gpus(2).build();
    let system = rig_amd::on(&machine);
    let (mut one, mut two) = (Bare::open(&system, 0, 0), Bare::open(&system, 1, 0));
    let (a, b) = (two.memory(Memory::Pinned, 64), two.memory(Memory::Pinned, 64));
    fill(a, &[9; 64]);
    for round in 1..4 {
        let mut task = Task::new(vec![copy(0, 1)], vec![slot(a, 0, 64), slot(b, 0, 64)]);
        task.waits = vec![Wait { word: one.index, value: round }];
        machine.clear_trace();
        machine.hold();
        let value = two.submit(&mut task);
        assert!(matches!(machine.run(usize::MAX), Step::Stuck(_)), "the work waits");
        assert!(two.word().load() < value);
        machine.release();
        one.run(&mut Task::new(vec![], vec![]));
        two.wait(value);
        let word = one.word().address().addr() as u64;
        let waited = machine.trace().into_iter().find_map(|step| match step {
            Traced::Waited { queue, va } if va == word => Some(queue),
            _ => None,
        });
        // The second device's queues come after the first's two.
        assert_eq!(waited, Some(2 + COMPUTE));
    }
    assert_eq!(bytes(b, 64), [9; 64]);
    one.close();
    two.close();
    machine.assert_clean();
}

/// Promises A07, A09: a header before its packet's body, or a doorbell before its write position, is found in every run.
#[test]
fn headers_are_published_last_and_doorbells_are_rung_after_the_write_positions() {
    let machine = Machine::builder().seed(machine::seed()).trapping().build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let image = device.image(SUITE);
    let add = device.entry(image, "add");
    let (x, y) = (device.memory(Memory::Pinned, 400), device.memory(Memory::Pinned, 400));
    let ones: Vec<u8> = (0..100).flat_map(|_| 1_f32.to_le_bytes()).collect();
    fill(x, &ones);
    let mut task =
        Task::new(vec![launch(&add, &[0, 1]), copy(1, 2)], vec![slot(x, 0, 400), slot(y, 0, 400), slot(x, 0, 400)]);
    task.set(0, 2, 64, &[0, 0, 100], 20);
    for _ in 0..6 {
        device.run(&mut task);
    }
    // 1 + 0, 1 + 1, ...: each round doubles what was copied back.
    let due: Vec<u8> = (0..100).flat_map(|_| 32_f32.to_le_bytes()).collect();
    assert_eq!(bytes(y, 400), due);
    device.close();
    machine.assert_clean();
}

/// Promise A09.
#[test]
fn a_submit_rings_each_queue_that_it_uses_once() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let image = device.image(SUITE);
    let iota = device.entry(image, "iota");
    let memory = device.memory(Memory::Device, 4096);
    let mut both = Task::new(
        vec![memset(0, 1), launch(&iota, &[0]), launch(&iota, &[0]), memset(0, 2)],
        vec![slot(memory, 0, 4096)],
    );
    both.set(1, 1, 64, &[0, 64], 16);
    both.set(2, 1, 64, &[0, 64], 16);
    let mut one = Task::new(vec![memset(0, 1), memset(0, 2)], vec![slot(memory, 0, 4096)]);
    for (task, due) in [(&mut both, vec![COMPUTE, COPIER]), (&mut one, vec![COPIER])] {
        machine.clear_trace();
        device.run(task);
        let mut rung: Vec<u32> = machine.trace().iter().filter_map(rung).collect();
        rung.sort_unstable();
        assert_eq!(rung, due);
    }
    device.close();
    machine.assert_clean();
}

fn rung(step: &Traced) -> Option<u32> {
    if let Traced::Rung { queue, .. } = step { Some(*queue) } else { None }
}

/// Promise A08.
#[test]
fn the_hosts_writes_through_the_window_are_seen_by_the_work_after_them() {
    let machine = Machine::builder().seed(machine::seed()).gpus(2).build();
    let system = rig_amd::on(&machine);
    let (mut one, mut two) = (Bare::open(&system, 0, 0), Bare::open(&system, 1, 0));
    let mapped = one.driver.alloc(Memory::Mapped, 4096).unwrap().unwrap();
    let (at, back) = (one.driver.locate(&mapped), one.memory(Memory::Pinned, 4096));
    let back_there = two.memory(Memory::Pinned, 4096);
    assert!(two.driver.peer(&one.driver));
    #[expect(unsafe_code, reason = "calls a driver as rig does")]
    // SAFETY: the region is freed after its mapping.
    let rig_edge::Mapping::Mapped(there) = (unsafe { two.driver.map_peer(&one.driver, &mapped) }).unwrap() else {
        panic!("a peer's memory is mapped");
    };
    for round in 0..20_u8 {
        fill(at, &[round; 4096]);
        // The owner's work first, or the other GPU's, which flushes the owner's window too.
        let (device, to) = if round % 2 == 0 { (&mut one, back) } else { (&mut two, back_there) };
        device.run(&mut Task::new(vec![copy(0, 1)], vec![slot(at, 0, 4096), slot(to, 0, 4096)]));
        assert_eq!(bytes(to, 4096), [round; 4096]);
    }
    #[expect(unsafe_code, reason = "calls a driver as rig does")]
    // SAFETY: all work is done.
    unsafe { two.driver.free(there) }.unwrap();
    #[expect(unsafe_code, reason = "calls a driver as rig does")]
    // SAFETY: as above, and the mapping is gone.
    unsafe { one.driver.free(mapped) }.unwrap();
    one.close();
    two.close();
    machine.assert_clean();
}

/// Promises A03, E11: a value that changes the word's high half is stored at once, whichever queue its work ran on.
#[test]
fn the_word_rises_by_ones_across_its_low_half() {
    const CARRY: u64 = 1 << 32;
    let machine = Machine::builder().seed(machine::seed()).build();
    let system = rig_amd::on(&machine);
    for copies in [true, false] {
        let start = if copies { CARRY - 4 } else { 3 * CARRY - 4 };
        let mut device = Bare::open(&system, 0, start);
        let image = device.image(SUITE);
        let iota = device.entry(image, "iota");
        let memory = device.memory(Memory::Pinned, 4096);
        let mut task = if copies {
            Task::new(vec![memset(0, 3)], vec![slot(memory, 0, 4096)])
        } else {
            let mut task = Task::new(vec![launch(&iota, &[0])], vec![slot(memory, 0, 4096)]);
            task.set(0, 1, 64, &[0, 64], 16);
            task
        };
        machine.clear_trace();
        for _ in 0..6 {
            device.submit(&mut task);
        }
        device.wait(device.last());
        assert_eq!(device.last(), start + 7, "the upload of the code was the first");
        let word = device.word().address().addr() as u64;
        let stored = machine.trace().into_iter().filter_map(|step| match step {
            Traced::Stored { va, value, .. } if va == word => Some(value),
            _ => None,
        });
        assert_eq!(stored.collect::<Vec<_>>(), (start + 2..=start + 7).collect::<Vec<_>>(), "copies: {copies}");
        device.close();
    }
    machine.assert_clean();
}
