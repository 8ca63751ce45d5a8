//! Failure: panics of closures, and a device that is lost. How it is lost is the fixtures' to say.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rig::{Device, Error};

use super::Fixtures;
use super::kit::{Kit, all_are, bytes, lost, not_here, pattern, words};

/// How long a fault may take to show. TIMEOUT: a fault of a GPU is told in milliseconds; this is for loaded machines.
const FAULT: Duration = Duration::from_secs(30);

/// Loses the device, and gives the reason; `None` where the fixtures cannot.
fn lose<F: Fixtures>(kit: &Kit<'_, F>) -> Option<String> {
    if !kit.f.lose(&kit.device) {
        not_here("its fixtures cannot make it fault");
        return None;
    }
    let start = Instant::now();
    // A fault is met by whoever calls the driver next: a wait is.
    while kit.device.lost().is_none() {
        let y = kit.device.buffer(4);
        let _ = y.and_then(|y| kit.iota(&y, 0)).and_then(|point| point.wait());
        assert!(start.elapsed() < FAULT, "the fault does not show");
    }
    kit.device.lost().map(|why| why.to_string())
}

/// Promises C23, C30.
pub fn a_panic_in_a_closure_leaves_the_buffer_whole<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let y = kit.floats(&[1.0; 64]);
    let panicked = catch_unwind(AssertUnwindSafe(|| y.write(|_: &mut [f32]| panic!("a panic of the case's own"))));
    assert!(panicked.is_err());
    let panicked = catch_unwind(AssertUnwindSafe(|| y.read(|_: &[f32]| panic!("a panic of the case's own"))));
    assert!(panicked.is_err());
    kit.add(&y, &y).unwrap();
    all_are(&y, 2.0);
    assert!(kit.device.lost().is_none());
}

/// Promises C20, C26, C31.
pub fn a_lost_device_says_why_and_keeps_what_was_reached<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let y = kit.floats(&[1.0; 64]);
    let reached = kit.add(&y, &y).unwrap();
    reached.wait().unwrap();
    let Some(why) = lose(&kit) else { return };
    assert!(!why.is_empty());
    assert!(reached.reached().unwrap(), "a point that was reached stays reached");
    reached.wait().unwrap();
    assert_eq!(lost(kit.add(&y, &y)), why);
    assert_eq!(lost(kit.device.buffer(4)), why);
    assert_eq!(lost(kit.device.load(&f.image())), why);
    assert_eq!(lost(kit.device.submission().make()), why);
    assert_eq!(lost(y.write(|_: &mut [f32]| panic!("no closure runs on a lost device"))), why);
    assert_eq!(kit.device.lost().as_deref(), Some(&*why), "the first reason stays");
    kit.device.close();
    assert_eq!(lost(kit.device.buffer(4)), why);
}

/// Promises C20, C32.
pub fn what_follows_a_lost_device_is_lost_and_others_go_on<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let reach = kit.device.facts().reach;
    let other = Kit::second(f);
    let y = other.words(&[0; 64]);
    let point = kit.busy();
    let Some(why) = lose(&kit) else { return };
    if reach == rig_edge::Reach::Driver {
        assert_eq!(lost(other.iota(&y, 1)), why);
        return;
    }
    if let Ok(false) | Err(_) = point.reached() {
        let mut run = other.run(&other.iota, 64, 8);
        run.after(&[point]);
        assert_eq!(lost(super::kit::launch(&mut run, &[&y])), why);
    }
    other.iota(&y, 5).unwrap();
    assert_eq!(words(&y)[63], 68);
}

/// Promises C16, C31.
pub fn memory_of_a_lost_device_drops_at_any_time<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let buffers: Vec<_> = (0..20).map(|i| kit.device.buffer(1 << i).unwrap()).collect();
    for buffer in buffers.iter().filter(|buffer| buffer.len() >= 4) {
        kit.iota(buffer, 1).unwrap();
    }
    let (early, late) = buffers.split_at(10);
    let (early, late) = (early.to_vec(), late.to_vec());
    drop(buffers);
    if lose(&kit).is_none() {
        return;
    }
    drop(early);
    let device: Device = kit.device.clone();
    drop(kit);
    device.close();
    drop(late);
    drop(device);
}

/// Promises C01, C20.
pub fn a_lost_device_can_be_opened_again_at_once<F: Fixtures>(f: &F) {
    let opener = f.opener();
    let kit = Kit::of(f, rig::open(opener).unwrap());
    let kept = kit.device.buffer(1000).unwrap();
    if lose(&kit).is_none() {
        return;
    }
    if kit.device.facts().reach == rig_edge::Reach::Driver {
        match rig::open(f.opener()) {
            Err(Error::Refused(why)) => assert!(!why.is_empty()),
            other => panic!("a driver whose faults reach the process refuses to open, and answered {other:?}"),
        }
        return;
    }
    let again = Kit::new(f);
    let expected = pattern(1000, 7);
    let buffer = again.device.buffer(1000).unwrap();
    buffer.copy_from_slice(&expected).unwrap();
    assert_eq!(bytes(&buffer), expected);
    lost(kept.read(|_: &[u8]| ()));
}
