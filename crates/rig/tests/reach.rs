//! How far a fault reaches. A process of its own: a fault that reaches all of a driver's devices reaches other tests' too.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails its test")]

use rig::{Error, Point, write};
use rig_conformance::model::{Model, Options, image};
use rig_edge::Reach;

fn pending(device: &rig::Device) -> Point {
    let iota = device.load(&image(&["iota"])).unwrap().function("iota").unwrap();
    let y = device.buffer(64).unwrap();
    let mut run = device.submission().launch(&iota, [write(0)]).params(16).make().unwrap().take();
    // SAFETY: iota writes no element: its parameters are zero.
    #[expect(unsafe_code, reason = "a launch")]
    unsafe { run.launch(&[&y]) }.unwrap()
}

/// Promises C20, E43.
#[test]
fn a_fault_reaches_as_far_as_the_facts_say() {
    for reach in [Reach::Device, Reach::Driver] {
        let model = Model::with("REACH", Options::default().reach(reach));
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let (first, second) = (pending(&a), pending(&b));
        model.device(0).fault("an illegal address");
        assert!(matches!(first.wait(), Err(Error::Lost { why, .. }) if &*why == "an illegal address"));
        if reach == Reach::Device {
            assert_eq!(b.lost(), None);
            model.device(1).step().unwrap();
            second.wait().unwrap();
        } else {
            assert!(matches!(second.wait(), Err(Error::Lost { why, .. }) if &*why == "an illegal address"));
            // The model faulted one device alone; the other's reason is rig's, by the facts.
            model.device(1).fault("an illegal address");
        }
        drop((a, b));
        model.assert_clean();
    }
}
