//! What a submit costs the host: for each launch, copy and value, room and submit together, from the parts to the doorbell.
//!
//! On the software GPU, which is held meanwhile: the packets, arguments and doorbells are those of hardware, and memory is
//! plain memory. The floor over many rounds is what the code takes; the median is what this machine had of it.
#![cfg(unix)]

use std::hint::black_box;
use std::time::{Duration, Instant};

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/machine/mod.rs"]
mod machine;

use machine::SUITE;
use machine::bare::{Bare, Task, copy, launch, slot};
use rig_amd_model::Machine;
use rig_edge::Memory;

/// Rounds, and parts of a submission in each.
const ROUNDS: usize = 40;
const PARTS: usize = 2000;
/// The most that encoding one launch may cost.
const LAUNCH_MOST: Duration = Duration::from_nanos(200);

/// The floor and the median of what one of `parts` takes, over rounds of one submit each.
fn measure(machine: &Machine, device: &mut Bare, task: &mut Task, parts: usize) -> [Duration; 2] {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            machine.hold();
            let start = Instant::now();
            let value = black_box(device.submit(task));
            let time = start.elapsed();
            machine.release();
            device.wait(value);
            time / parts as u32
        })
        .collect();
    times.sort_unstable();
    [times[0], times[ROUNDS / 2]]
}

fn main() {
    // `cargo test --benches` runs this too, on code that is not optimised: nothing to learn there.
    if cfg!(debug_assertions) {
        return println!("nothing to measure without optimisation");
    }
    let machine = Machine::builder().caches(false).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let image = device.image(SUITE);
    let (add, iota) = (device.entry(image, "add"), device.entry(image, "iota"));
    let (x, y) = (device.memory(Memory::Device, 4096), device.memory(Memory::Device, 4096));
    let slots = vec![slot(x, 0, 64), slot(y, 0, 64)];
    let many = |part: &dyn Fn() -> _| (0..PARTS).map(|_| part()).collect::<Vec<_>>();
    let mut one = Task::new(many(&|| launch(&iota, &[0])), slots.clone());
    (0..PARTS).for_each(|part| one.set(part, 1, 32, &[0, 0], 16));
    let mut two = Task::new(many(&|| launch(&add, &[0, 1])), slots.clone());
    (0..PARTS).for_each(|part| two.set(part, 1, 32, &[0, 0, 0], 20));
    let mut copies = Task::new(many(&|| copy(0, 1)), slots);
    let mut nothing = Task::new(vec![], vec![]);
    println!("ns, room and submit together     floor   median");
    let mut floors = Vec::new();
    for (name, task, parts) in [
        ("a launch with one ref", &mut one, PARTS),
        ("a launch with two refs", &mut two, PARTS),
        ("a copy", &mut copies, PARTS),
        ("a value of nothing", &mut nothing, 1),
    ] {
        let [floor, median] = measure(&machine, &mut device, task, parts);
        println!("{name:30} {:>7} {:>8}", floor.as_nanos(), median.as_nanos());
        floors.push(floor);
    }
    device.close();
    assert!(floors[1] <= LAUNCH_MOST, "encoding one launch takes {:?}: {LAUNCH_MOST:?} is the bound", floors[1]);
}
