//! Code objects as programs have them, loaded and run.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests fail by it")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use machine::bare::{self, Bare, Task, bytes, slot};
use machine::launch;
use rig::{Device, read, write};
use rig_amd_model::Machine;
use rig_edge::Memory;

const WORK: &[u8] = include_bytes!("../../amd-model/fixtures/work.co");
const HIDDEN: &[u8] = include_bytes!("../../amd-model/fixtures/hidden.co");

fn device() -> (Machine, Device) {
    let machine = Machine::builder().seed(machine::seed()).build();
    let device = rig::open(rig_amd::on(&machine).gpu(0)).unwrap();
    (machine, device)
}

/// Promise A10: group memory and barriers, by the sizes that the descriptor declares.
#[test]
fn a_function_with_group_memory_runs() {
    let (machine, device) = device();
    let reduce = device.load(WORK).unwrap().function("reduce").unwrap();
    let (x, y) = (device.buffer(4 * 1024).unwrap(), device.buffer(16).unwrap());
    x.copy_from_slice(&(0..1024_u32).collect::<Vec<_>>()).unwrap();
    let mut run = device.submission().launch(&reduce, [read(0), write(1)]).make().unwrap().take();
    run.part(0).groups([4, 1, 1]).threads([256, 1, 1]);
    launch(&mut run, &[&x, &y]).unwrap();
    let sum = |first: u32| (first..first + 256).sum::<u32>();
    y.read(|sums: &[u32]| assert_eq!(sums, [sum(0), sum(256), sum(512), sum(768)])).unwrap();
    machine.assert_clean();
}

/// Promise A10: the arguments that clang adds behind a function's own are filled in by the driver.
#[test]
fn hidden_arguments_say_how_the_launch_is() {
    let (machine, device) = device();
    let hidden = device.load(HIDDEN).unwrap().function("hidden").unwrap();
    assert_eq!(hidden.params(), Some(12), "a program gives its own alone");
    let y = device.buffer(4 * 1000).unwrap();
    let mut run = device.submission().launch(&hidden, [write(0)]).make().unwrap().take();
    for threads in [32, 96, 250] {
        y.memset(0xff).unwrap();
        run.part(0).groups([1000_u32.div_ceil(threads), 1, 1]).threads([threads, 1, 1]).set(8, 1000_u32);
        launch(&mut run, &[&y]).unwrap();
        y.read(|y: &[u32]| assert!(y.iter().zip(0..).all(|(&y, i)| y == i), "groups of {threads}")).unwrap();
    }
    machine.assert_clean();
}

/// The instruction caches hold what ran at an address: they read it afresh once other code is there.
#[test]
fn code_at_the_place_of_code_that_ran_is_what_runs() {
    // `v_add_nc_u32 v0, s1, v1` of `iota` becomes `v_sub_nc_u32`: start - i in place of start + i.
    let (add, subtract) = (0x4A00_0201_u32.to_le_bytes(), 0x4C00_0201_u32.to_le_bytes());
    let mut falls = machine::SUITE.to_vec();
    let places: Vec<usize> = (0..falls.len() - 4).step_by(4).filter(|&at| falls[at..at + 4] == add).collect();
    let [place] = places[..] else { panic!("the instruction is in the code at {places:?}") };
    falls[place..place + 4].copy_from_slice(&subtract);
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let (code, y) = (device.memory(Memory::Device, 1 << 16), device.memory(Memory::Pinned, 256));
    for round in 0..6 {
        let image = device.image_at(if round % 2 == 0 { machine::SUITE } else { &falls }, code);
        let iota = device.entry(image, "iota");
        let mut task = Task::new(vec![bare::launch(&iota, &[0])], vec![slot(y, 0, 256)]);
        task.set(0, 1, 64, &[0, 64 | 1000 << 32], 16);
        device.run(&mut task);
        let due = (0..64_u32).map(|i| if round % 2 == 0 { 1000 + i } else { 1000 - i });
        assert!(bytes(y, 256) == due.flat_map(u32::to_le_bytes).collect::<Vec<_>>(), "round {round}");
    }
    device.close();
    machine.assert_clean();
}

#[test]
fn an_image_that_takes_anothers_place_runs_its_own_code() {
    let (machine, device) = device();
    let y = device.buffer(4 * 64).unwrap();
    for round in 0..8_u32 {
        // Loaded one after the other, of one size of region, and dropped.
        let (binary, name) = if round % 2 == 0 { (machine::SUITE, "iota") } else { (HIDDEN, "hidden") };
        let image = device.load(binary).unwrap();
        let function = image.function(name).unwrap();
        let mut run = device.submission().launch(&function, [write(0)]).make().unwrap().take();
        run.part(0).groups([1; 3]).threads([64, 1, 1]).set(8, 64_u32);
        if round % 2 == 0 {
            run.part(0).set(12, 100 * round);
        }
        launch(&mut run, &[&y]).unwrap();
        let start = if round % 2 == 0 { 100 * round } else { 0 };
        y.read(|y: &[u32]| assert!(y.iter().zip(start..).all(|(&y, i)| y == i), "round {round}")).unwrap();
        drop((run, function, image));
        device.reclaim();
    }
    machine.assert_clean();
}
