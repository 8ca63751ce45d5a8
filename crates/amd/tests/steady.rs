//! A submit makes no heap allocation.
#![cfg(unix)]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use machine::bare::{Bare, Task, copy, launch, memset, slot};
use rig_amd_model::Machine;
use rig_edge::{Memory, Room};

/// The system's allocator; counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes every call on to the system's allocator, unchanged.
#[expect(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(address, layout, size) }
    }
}

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
    let mut nothing = Task::new(vec![], vec![]);
    let before = ALLOCATIONS.get();
    for _ in 0..5 {
        device.try_submit(&mut task).unwrap();
        device.try_submit(&mut nothing).unwrap();
    }
    machine.hold();
    let mut laters = 0;
    for _ in 0..5000 {
        match device.try_submit(&mut nothing) {
            Ok(_) => {}
            Err(Room::Later) => laters += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(laters > 0, "so many values are not in flight at once");
    machine.release();
    device.wait(device.last());
    device.close();
    machine.assert_clean();
}
