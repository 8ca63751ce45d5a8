//! A steady submit makes no heap allocation.

#[expect(clippy::unwrap_used, reason = "the harness is a test")]
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "host/harness.rs"]
mod harness;

use harness::{Run, both, copy, launch, memset};
use rig_conformance::allocations::{self, Counting};
use rig_host::Kernels;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Promise S09.
#[test]
fn a_steady_submit_and_its_wait_allocate_nothing() {
    for mut device in both() {
        let kernels = Kernels::new().group("group", 8, |_, _| {}).thread("thread", 8, 64, |_, at| at.barrier());
        let image = device.image(&kernels.image()).unwrap();
        let (group, thread) = (device.entry(&image, "group"), device.entry(&image, "thread"));
        let (a, b) = (device.memory(1000), device.memory(1000));
        let parts = vec![launch(&group, &[0]), launch(&thread, &[1]), copy(0, 1), memset(0, 3)];
        let mut run = Run::new(&device, parts, vec![a.slot(), b.slot()]);
        run.set(0, [5, 1, 1], [64, 1, 1], &[]);
        run.set(1, [5, 1, 1], [64, 1, 1], &[]);
        let mut round = |values: u64| {
            let last = (0..values).map(|_| device.submit(&mut run)).last().unwrap();
            device.wait(last, true).unwrap();
        };
        // As deep as the queue will be, and long enough that this thread has run kernels of both kinds.
        (0..50).for_each(|_| round(20));
        // The thread's first stacks are made when it happens to run the first thread kernel itself, which the rounds before
        // saw to.
        assert_eq!(allocations::during(|| (0..100).for_each(|i| round(1 + i % 10))), 0);
    }
}
