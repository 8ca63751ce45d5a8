//! Code objects as programs have them, loaded and run.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests fail by it")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use machine::launch;
use rig::{Device, Error, read, write};
use rig_amd_model::Machine;

const WORK: &[u8] = include_bytes!("../../amd-model/fixtures/work.co");
const HIDDEN: &[u8] = include_bytes!("../../amd-model/fixtures/hidden.co");
const SCRATCH: &[u8] = include_bytes!("../../amd-model/fixtures/scratch.co");

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

/// Promise A10.
#[test]
fn a_function_that_keeps_a_stack_is_invalid_and_says_so() {
    let (machine, device) = device();
    let image = device.load(SCRATCH).unwrap();
    match image.function("scratch") {
        Err(Error::Invalid(why)) => assert!(why.contains("private memory"), "{why}"),
        other => panic!("{:?}", other.map(|function| function.name().to_string())),
    }
    machine.assert_clean();
}

/// Code goes where other code was: the instruction caches must read it afresh.
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
