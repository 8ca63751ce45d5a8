//! A submit makes no heap allocation.
#![cfg(unix)]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use machine::bare::{Bare, Task, copy, launch, memset, slot};
use rig_amd_model::Machine;
use rig_conformance::allocations::{self, Counting};
use rig_edge::{Memory, Room};

const SCRATCH: &[u8] = include_bytes!("../../amd-model/fixtures/scratch.co");

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Promise S09: also the first submit, and those that find no room.
#[test]
fn room_and_submit_allocate_nothing() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let mut device = Bare::open(&rig_amd::on(&machine), 0, 0);
    let image = device.image(machine::SUITE);
    let spin = device.entry(image, "spin");
    let (a, b, c) = (
        device.memory(Memory::Device, 1 << 20),
        device.memory(Memory::Device, 1 << 20),
        device.memory(Memory::Mapped, 64),
    );
    let slots = vec![slot(a, 0, 1 << 20), slot(b, 0, 1 << 20), slot(c, 0, 64), slot(a, 1, 61)];
    let mut task = Task::new(vec![launch(&spin, &[2]), copy(0, 1), memset(3, 5), launch(&spin, &[2])], slots);
    task.set(0, 1, 64, &[0, 16 | 1 << 32], 16);
    task.set(3, 1, 64, &[0, 16 | 1 << 32], 16);
    // The first launches give the queue its scratch, and then a larger one.
    let private = device.image(SCRATCH);
    let grown = ["scratch", "large"].map(|name| {
        let mut task = Task::new(vec![launch(&device.entry(private, name), &[0, 1])], task.slots.clone());
        task.set(0, 1, 32, &[0, 0, 32], 20);
        task
    });
    let mut nothing = Task::new(vec![], vec![]);
    let mut laters = 0;
    let [mut small, mut large] = grown;
    let allocated = allocations::during(|| {
        device.try_submit(&mut small).unwrap();
        device.try_submit(&mut large).unwrap();
        for _ in 0..5 {
            device.try_submit(&mut task).unwrap();
            device.try_submit(&mut nothing).unwrap();
        }
        machine.hold();
        for _ in 0..5000 {
            match device.try_submit(&mut nothing) {
                Ok(_) => {}
                Err(Room::Later) => laters += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(allocated, 0);
    assert!(laters > 0, "so many values are not in flight at once");
    machine.release();
    device.wait(device.last());
    device.close();
    machine.assert_clean();
}
