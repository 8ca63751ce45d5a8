//! What a steady submit costs in allocations.

use rig::{read, write};
use rig_conformance::NullOpener;
use rig_conformance::allocations::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Promise S09.
#[test]
fn a_steady_submit_makes_no_heap_allocation() {
    let device = rig::open(NullOpener::new("NULL-STEADY")).unwrap();
    let add = device.load(b"").unwrap().function("add").unwrap();
    let (x, y) = (device.buffer(4096).unwrap(), device.buffer(4096).unwrap());
    let submission = device
        .submission()
        .launch(&add, [read(0), write(1)])
        .launch(&add, [read(1), write(0)])
        .copy(0, 1)
        .make()
        .unwrap();
    let mut run = submission.take();
    let mut go = || {
        // SAFETY: the null driver runs nothing.
        #[expect(unsafe_code, reason = "a launch")]
        let point = unsafe { run.launch(&[&x, &y]) }.unwrap();
        point.wait().unwrap();
    };
    go();
    assert_eq!(allocations::during(|| (0..1000).for_each(|_| go())), 0);
    assert!(allocations::during(|| drop(Box::new(1))) > 0, "the counter counts");
}
