//! Functions with private memory: on scratch that grows as functions are resolved, while work is in flight.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests fail by it")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use machine::bare::{self, Bare, Task, bytes, fill, slot};
use machine::launch;
use rig::{Device, Error, read, write};
use rig_amd_model::{Call, Machine};
use rig_edge::{Location, Memory};

const SCRATCH: &[u8] = include_bytes!("../../amd-model/fixtures/scratch.co");

fn device() -> (Machine, Device) {
    let machine = Machine::builder().seed(machine::seed()).build();
    let device = rig::open(rig_amd::on(&machine).gpu(0)).unwrap();
    (machine, device)
}

/// Sixteen values that differ.
fn values() -> [u32; 16] {
    std::array::from_fn(|i| (i as u32).wrapping_mul(2_654_435_761))
}

/// What `scratch` makes of them in the thread `i`.
fn scratch_of(x: &[u32; 16], i: u32) -> u32 {
    let mut array = x.map(|x| x.wrapping_add(i));
    let mut sum = 0_u32;
    for k in 0..16 {
        let at = (k + i as usize) % 16;
        sum = sum.wrapping_mul(31).wrapping_add(array[at]);
        array[(at * 7 + 3) % 16] = array[(at * 7 + 3) % 16].wrapping_add(sum);
    }
    sum.wrapping_add(array[i as usize % 16])
}

/// What `large` makes of them.
fn large_of(x: &[u32; 16], i: u32) -> u32 {
    let value = |k: u32| x[k as usize % 16] ^ k.wrapping_mul(i);
    (0..64).fold(i, |at, k| value(at % 256).wrapping_add(k))
}

/// What `recurses` makes of a number.
fn deeper(n: u32) -> u32 {
    if n < 2 { n } else { deeper(n - 1) + n + n % 4 }
}

/// Promise A10: arrays, spilled registers, calls and flat pointers, over many groups and waves, the last of them not full.
#[test]
fn functions_with_private_memory_give_what_plain_code_gives() {
    let (machine, device) = device();
    let image = device.load(SCRATCH).unwrap();
    let n = 1000_u32;
    let (x, y) = (device.buffer(4 * 1220).unwrap(), device.buffer(4 * n as usize).unwrap());
    x.write(|x: &mut [u32]| x.iter_mut().zip(0_u32..).for_each(|(x, i)| *x = i.wrapping_mul(2_654_435_761))).unwrap();
    let first = values();
    let spilled = |i: u32| {
        let mut v: Vec<u32> = (i..i + 220).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        (0..220).for_each(|k| v[k] ^= v[(k + 97) % 220] << 1);
        (0..220).fold(0, |sum: u32, k| sum.wrapping_mul(3).wrapping_add(v[k * 7 % 220]))
    };
    type Due<'a> = &'a dyn Fn(u32) -> u32;
    let cases: [(&str, Due<'_>); 3] =
        [("scratch", &|i| scratch_of(&first, i)), ("large", &|i| large_of(&first, i)), ("spills", &spilled)];
    for (name, due) in cases {
        let function = image.function(name).unwrap();
        let mut run = device.submission().launch(&function, [read(0), write(1)]).make().unwrap().take();
        run.part(0).groups([n.div_ceil(96), 1, 1]).threads([96, 1, 1]).set(16, n);
        launch(&mut run, &[&x, &y]).unwrap();
        y.read(|y: &[u32]| assert!(y.iter().zip(0..).all(|(&y, i)| y == due(i)), "{name}")).unwrap();
    }
    machine.assert_clean();
}

/// Promise A10: a stack that a compiler cannot tell the size of has 16 KiB for each thread, and a function that would need more
/// than a wave can have is refused by its name.
#[test]
fn open_stacks_have_a_stated_size_and_more_than_a_wave_can_have_is_refused_by_name() {
    let (machine, device) = device();
    let image = device.load(SCRATCH).unwrap();
    let recurses = image.function("recurses").unwrap();
    let n = 200_u32;
    let y = device.buffer(4 * n as usize).unwrap();
    let mut run = device.submission().launch(&recurses, [write(0)]).make().unwrap().take();
    // 150 calls deep, of some hundred bytes each.
    run.part(0).groups([n.div_ceil(64), 1, 1]).threads([64, 1, 1]).set(8, n).set(12, 150_u32);
    launch(&mut run, &[&y]).unwrap();
    y.read(|y: &[u32]| assert!(y.iter().zip(0..).all(|(&y, i)| y == deeper(i % 150)))).unwrap();
    match image.function("vast") {
        Err(Error::Invalid(why)) => assert!(why.contains("vast") && why.contains("private memory"), "{why}"),
        other => panic!("{:?}", other.map(|function| function.name().to_string())),
    }
    machine.assert_clean();
}

/// A launch of a function over `x` that writes a buffer of its own: its task and the buffer.
fn task(device: &mut Bare, name: &str, image: usize, x: Location) -> (Task, Location) {
    let entry = device.entry(image, name);
    let y = device.memory(Memory::Pinned, 4096);
    let mut task = Task::new(vec![bare::launch(&entry, &[0, 1])], vec![slot(x, 0, 64), slot(y, 0, 4096)]);
    task.set(0, 8, 96, &[0, 0, 700], 20);
    (task, y)
}

fn is(found: Location, due: impl Iterator<Item = u32>) -> bool {
    bytes(found, 2800) == due.flat_map(u32::to_le_bytes).collect::<Vec<_>>()
}

/// Promise A10: what was submitted before keeps its scratch, which goes back once its work is done; the larger serves both.
#[test]
fn scratch_grows_while_work_on_the_smaller_one_is_in_flight() {
    let x = values();
    for seed in 0..8 {
        let machine = Machine::builder().seed(machine::seed() + seed).build();
        let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
        let image = device.image(SCRATCH);
        let from = device.memory(Memory::Pinned, 64);
        fill(from, &x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
        let (mut small, y) = task(&mut device, "scratch", image, from);
        machine.hold();
        device.submit(&mut small);
        let (mut large, y_large) = task(&mut device, "large", image, from);
        let (mut again, y_again) = task(&mut device, "scratch", image, from);
        device.submit(&mut large);
        let last = device.submit(&mut again);
        let held = machine.counts().memories;
        // A third, which no launch needs yet: the first two are in use.
        device.entry(image, "recurses");
        assert_eq!(machine.counts().memories, held + 1);
        machine.release();
        device.wait(last);
        assert!(is(y, (0..700).map(|i| scratch_of(&x, i))), "seed {seed}: before");
        assert!(is(y_large, (0..700).map(|i| large_of(&x, i))), "seed {seed}: the larger");
        assert!(is(y_again, (0..700).map(|i| scratch_of(&x, i))), "seed {seed}: after");
        device.entry(image, "scratch");
        assert_eq!(machine.counts().memories, held, "the first is free");
        device.close();
        machine.assert_clean();
    }
}

/// Promise A10.
#[test]
fn scratch_that_no_launch_has_used_goes_when_a_larger_one_is_made_and_all_goes_with_the_device() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let system = rig_amd::on(&machine);
    let mut device = Bare::open(&system, 0, 0);
    let before = machine.counts();
    device.close();
    let closed = machine.counts();
    device = Bare::open(&system, 0, 0);
    assert_eq!(machine.counts(), before);
    let image = device.image(SCRATCH);
    let loaded = machine.counts().memories;
    for (name, due) in [("scratch", 1), ("scratch", 1), ("large", 1), ("scratch", 1), ("recurses", 1)] {
        device.entry(image, name);
        assert_eq!(machine.counts().memories, loaded + due, "{name}");
    }
    device.close();
    assert_eq!(machine.counts(), closed);
    machine.assert_clean();
}

/// Promises A10, C10: and what runs goes on.
#[test]
fn a_shortage_of_memory_for_scratch_is_an_error_and_loses_nothing() {
    let (machine, device) = device();
    let image = device.load(SCRATCH).unwrap();
    let scratch = image.function("scratch").unwrap();
    let (x, y) = (device.buffer(64).unwrap(), device.buffer(4 * 500).unwrap());
    x.copy_from_slice(&values()).unwrap();
    let mut run = device.submission().launch(&scratch, [read(0), write(1)]).make().unwrap().take();
    run.part(0).groups([6, 1, 1]).threads([96, 1, 1]).set(16, 500_u32);
    // Six megabytes for each of 192 waves: more than the GPU has.
    for _ in 0..2 {
        match image.function("huge") {
            Err(Error::OutOfMemory { bytes }) => assert!(bytes > 1 << 30, "{bytes}"),
            other => panic!("{:?}", other.map(|function| function.name().to_string())),
        }
        y.memset(0).unwrap();
        launch(&mut run, &[&x, &y]).unwrap();
        y.read(|y: &[u32]| assert!(y.iter().zip(0..).all(|(&y, i)| y == scratch_of(&values(), i)))).unwrap();
    }
    // The same by the kernel's answer, once.
    machine.fail(Call::AllocMemory, 0, 1, rig_amd_model::errno::ENOMEM);
    assert!(image.function("large").is_ok(), "a round of reclamation later there is memory");
    machine.assert_clean();
}

/// Promises A10, C28.
#[test]
fn functions_are_resolved_while_others_submit() {
    let (machine, device) = device();
    let image = device.load(SCRATCH).unwrap();
    let x = device.buffer(64).unwrap();
    x.copy_from_slice(&values()).unwrap();
    std::thread::scope(|scope| {
        for name in ["scratch", "large", "scratch", "calls"] {
            let (device, image, x) = (&device, &image, &x);
            scope.spawn(move || {
                let function = image.function(name).unwrap();
                let y = device.buffer(4 * 200).unwrap();
                let mut run = device.submission().launch(&function, [read(0), write(1)]).make().unwrap().take();
                run.part(0).groups([3, 1, 1]).threads([96, 1, 1]).set(16, 200_u32);
                for _ in 0..6 {
                    launch(&mut run, &[x, &y]).unwrap();
                }
                y.read(|y: &[u32]| match name {
                    "scratch" => assert!(y.iter().zip(0..).all(|(&y, i)| y == scratch_of(&values(), i))),
                    "large" => assert!(y.iter().zip(0..).all(|(&y, i)| y == large_of(&values(), i))),
                    _ => {}
                })
                .unwrap();
            });
        }
    });
    machine.assert_clean();
}
