//! Fills: code of a driver's own inside a submit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rig::{Device, Submission, write};
use rig_conformance::model::{Call, Model, ModelDriver};

use crate::support::{Bench, invalid, launch, lost};

fn fill(device: &Device, code: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> rig::Result<Submission> {
    device
        .submission()
        .fill::<ModelDriver>([write(0)], move |encoder, slots| {
            encoder.memset(&slots[0], 5)?;
            code()
        })
        .make()
}

/// Promise C11.
#[test]
fn a_fill_encodes_commands_in_the_place_of_its_part() {
    let a = Bench::new("A");
    a.control.auto(true);
    let y = a.device.buffer(8).unwrap();
    let mut run = fill(&a.device, || Ok(())).unwrap().take();
    assert!(invalid(run.submit(&[&y])).contains("launch()"), "a fill is code over raw memory");
    launch(&mut run, &[&y]).unwrap().wait().unwrap();
    y.read(|bytes: &[u8]| assert_eq!(bytes, [5; 8])).unwrap();
    a.model.assert_clean();
}

/// Promise C23.
#[test]
fn a_fill_that_fails_or_panics_loses_the_device_with_every_value_not_yet_committed() {
    for panics in [false, true] {
        let mut a = Bench::new("A");
        a.control.encode_only(true);
        let (x, y) = (a.buffer(), a.buffer());
        let before = a.iota(&x, 1).unwrap();
        let code = move || if panics { panic!("in the fill") } else { Err("in the fill".to_string()) };
        let mut run = fill(&a.device, code).unwrap().take();
        assert!(lost(launch(&mut run, &[&y])).contains("in the fill"));
        assert!(lost(before.wait()).contains("in the fill"));
        y.device().close();
        a.model.assert_clean();
    }
}

/// Promise C24.
#[test]
fn inside_a_fill_every_call_that_could_wait_is_invalid_and_changes_nothing() {
    let mut a = Bench::new("A");
    a.control.auto(true);
    let (x, y) = (a.buffer(), a.buffer());
    let point = a.iota(&x, 1).unwrap();
    let image = a.device.load(&rig_conformance::model::image(&["add"])).unwrap();
    let other = Model::new("OTHER");
    let answers: Arc<Mutex<Vec<String>>> = Arc::default();
    let (device, told) = (a.device.clone(), answers.clone());
    let memset = Mutex::new(device.submission().memset(0, 1).make().unwrap().take());
    let dropped = Mutex::new(Some(device.buffer(64).unwrap()));
    let x2 = x.clone();
    let code = move || {
        let say = |answer: String| told.lock().unwrap().push(answer);
        say(invalid(device.buffer(4)));
        say(invalid(x2.read(|_: &[u8]| ())));
        say(invalid(x2.write(|_: &mut [u8]| ())));
        say(invalid(memset.lock().unwrap().submit(&[&x2])));
        say(invalid(image.function("add")));
        say(invalid(device.load(b"")));
        say(invalid(device.submission().memset(0, 1).make()));
        say(invalid(rig::open(other.opener())));
        point.wait().unwrap();
        drop(dropped.lock().unwrap().take());
        Ok(())
    };
    let mut run = fill(&a.device, code).unwrap().take();
    launch(&mut run, &[&y]).unwrap().wait().unwrap();
    assert_eq!(answers.lock().unwrap().len(), 8);
    a.iota(&x, 2).unwrap().wait().unwrap();
    a.model.assert_clean();
}

/// Promise C24.
#[test]
fn a_wait_for_an_unreached_point_inside_a_fill_is_invalid() {
    let mut a = Bench::new("A");
    let (x, y) = (a.buffer(), a.buffer());
    let pending = a.iota(&x, 1).unwrap();
    let answer: Arc<Mutex<Option<String>>> = Arc::default();
    let told = answer.clone();
    let code = move || {
        *told.lock().unwrap() = Some(invalid(pending.wait()));
        Ok(())
    };
    let mut run = fill(&a.device, code).unwrap().take();
    launch(&mut run, &[&y]).unwrap();
    assert!(answer.lock().unwrap().take().unwrap().contains("cannot wait"));
    a.model.complete_all();
    a.model.assert_clean();
}

/// Promise C24.
#[test]
fn the_last_drop_of_a_device_inside_a_fill_is_put_off() {
    let a = Bench::new("A");
    a.control.auto(true);
    let b = Bench::new("B");
    let control = b.control.clone();
    let last = Mutex::new(Some(b));
    let y = a.device.buffer(8).unwrap();
    // Another thread's sweep may stop it at any time; this one must not.
    let stopped_inside = Arc::new(AtomicBool::new(false));
    let inside = stopped_inside.clone();
    control.on(Call::Stop, move || inside.store(rig_edge::callback::inside(), Ordering::SeqCst));
    let code = move || {
        drop(last.lock().unwrap().take());
        Ok(())
    };
    let mut run = fill(&a.device, code).unwrap().take();
    launch(&mut run, &[&y]).unwrap().wait().unwrap();
    while !control.is_stopped() || control.regions() > 0 {
        std::thread::yield_now();
    }
    assert!(!stopped_inside.load(Ordering::SeqCst), "no stop runs inside a fill");
    a.model.assert_clean();
}

/// A fill says its driver by type.
#[test]
fn a_fill_of_another_drivers_type_is_refused() {
    let device = rig::open(rig_conformance::NullOpener::new("NULL-FILL")).unwrap();
    let answer = fill(&device, || Ok(()));
    assert!(matches!(answer, Err(rig::Error::Refused(why)) if why.contains("another driver")));
    assert!(device.capability::<rig_conformance::model::ModelDriver>().is_none());
}

/// Promises C24, C32.
#[test]
fn a_device_closed_inside_a_fill_fails_what_waits_for_it() {
    let waits = rig_edge::WaitFacts { stores: true, hosts: true, most: 4 };
    let model = Model::with("CLOSED-IN-FILL", rig_conformance::model::Options::default().waits(waits));
    let (mut a, mut b) = (Bench::of(&model), Bench::of(&model));
    let (x, y) = (a.buffer(), b.buffer());
    let first = a.iota(&x, 1).unwrap();
    b.iota.after(&[first]);
    let second = b.iota(&y, 1).unwrap();
    let closed = a.device.clone();
    let code = move || {
        closed.close();
        Ok(())
    };
    let mut run = fill(&a.device, code).unwrap().take();
    assert_eq!(lost(launch(&mut run, &[&x])), "it was closed");
    assert_eq!(lost(second.wait()), "it was closed");
    assert!(a.control.is_stopped(), "the submit was the last to leave, and ran stop");
}

/// Promise C11.
#[test]
fn a_fill_learns_where_in_their_region_its_slots_lie() {
    let a = Bench::new("A");
    let (x, y) = (a.device.buffer(8).unwrap(), a.device.buffer(8).unwrap());
    let view = y.view(4..8).unwrap();
    let seen: Arc<Mutex<Vec<(usize, u64)>>> = Arc::default();
    let told = seen.clone();
    let submission = a.device.submission().fill::<ModelDriver>([write(0), write(1)], move |_, slots| {
        told.lock().unwrap().extend(slots.iter().map(|slot| (slot.host.addr(), slot.handle_offset)));
        Ok(())
    });
    launch(&mut submission.make().unwrap().take(), &[&x, &view]).unwrap();
    a.control.complete_all();
    let seen = seen.lock().unwrap();
    assert_eq!(
        seen[1].0 as i64 - seen[0].0 as i64,
        seen[1].1 as i64 - seen[0].1 as i64,
        "small buffers share a region"
    );
    a.model.assert_clean();
}
