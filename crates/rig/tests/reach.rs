//! How far a fault reaches. A process of its own: a fault that reaches all of a driver's devices reaches other tests' too.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails its test")]

use rig::{Error, Point, write};
use rig_conformance::model::{Call, Model, ModelDriver, Options, image};
use rig_edge::Reach;

/// The tests of this file lose all of a driver's devices: one at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

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
    let _alone = ALONE.lock().unwrap();
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

/// What is not the vendor's fault stays with its device: a fill's own error, a panic, work that hangs.
///
/// Promises C20, C23, E43, N06.
#[test]
fn what_is_one_devices_alone_loses_that_device_alone_whatever_the_facts_say() {
    let _alone = ALONE.lock().unwrap();
    let fill = |device: &rig::Device| {
        let y = device.buffer(64).unwrap();
        let fill = device.submission().fill::<ModelDriver>([write(0)], |_, _| Err("no such algorithm".into()));
        // SAFETY: the fill touches nothing.
        #[expect(unsafe_code, reason = "a launch")]
        unsafe { fill.make().unwrap().take().launch(&[&y]) }.unwrap_err().to_string()
    };
    let hang = |device: &rig::Device| pending(device).wait().unwrap_err().to_string();
    let panic = |device: &rig::Device| device.buffer(1 << 20).unwrap_err().to_string();
    type End<'a> = &'a dyn Fn(&rig::Device) -> String;
    let ends: [(End<'_>, &str); 3] =
        [(&fill, "no such algorithm"), (&hang, "its work hung"), (&panic, "its driver panicked")];
    for (end, why) in ends {
        let bound = std::time::Duration::from_millis(20);
        let model = Model::with("REACH-ALONE", Options::default().reach(Reach::Driver).hang(bound));
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        if why.contains("panicked") {
            model.device(0).panic_in(Call::Alloc);
        }
        let lost = end(&a);
        assert!(lost.contains(why), "{lost}");
        assert!(a.lost().is_some());
        assert_eq!(b.lost(), None, "{why}");
        let point = pending(&b);
        model.device(1).step().unwrap();
        point.wait().unwrap();
    }
}
