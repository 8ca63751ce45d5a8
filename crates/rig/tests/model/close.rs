//! Closing devices and dropping handles.

use rig_conformance::model::{Call, Model, Options};

use crate::support::{Bench, lost, values};

/// Promises C02, E13.
#[test]
fn close_and_the_last_drop_wait_for_no_work_and_uncommitted_work_never_runs() {
    for by_drop in [false, true] {
        let mut a = Bench::with("A", Options::default().lingers());
        a.control.encode_only(true);
        let y = a.buffer();
        let committed = a.iota(&y, 1).unwrap();
        a.control.commit_now();
        let uncommitted = a.iota(&y, 2).unwrap();
        let (control, model) = (a.control.clone(), a.model.clone());
        if by_drop {
            drop(y);
            drop(a);
        } else {
            a.device.close();
            drop((y, a));
        }
        assert!(control.is_stopped(), "no call was inside, so stop ran at once");
        assert_eq!(control.stopped_with(), Some(None), "a close is no fault");
        lost(uncommitted.wait());
        lost(committed.wait());
        assert!(control.regions() > 0, "committed work may still run");
        control.end_work();
        while control.regions() + control.images() + control.plans() > 0 {
            std::thread::yield_now();
        }
        model.assert_empty();
    }
}

/// Promises C02, E27, E32.
#[test]
fn every_region_is_freed_and_every_image_unloaded_once_at_the_end() {
    let mut a = Bench::new("A");
    a.control.auto(true);
    let buffers: Vec<_> = (0..40).map(|i| a.device.buffer(1 << (i % 18)).unwrap()).collect();
    let y = a.buffer();
    a.iota(&y, 1).unwrap();
    assert_eq!(values(&y).unwrap()[3], 4);
    let (control, model) = (a.control.clone(), a.model.clone());
    drop((y, a));
    assert!(!control.is_stopped(), "buffers keep the device");
    drop(buffers);
    while control.regions() + control.images() + control.plans() > 0 {
        std::thread::yield_now();
    }
    let calls = control.calls();
    assert_eq!(calls.alloc, calls.free);
    assert_eq!(calls.image, calls.unload);
    assert_eq!(calls.stop, 1);
    model.assert_empty();
}

/// Promises E03, E20.
#[test]
fn stop_runs_once_and_only_when_the_last_counted_call_has_left() {
    let mut a = Bench::new("A");
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    let device = a.device.clone();
    std::thread::scope(|scope| {
        let inside = a.control.hold(Call::Sleep);
        let waiter = scope.spawn(|| point.wait());
        inside.wait_inside(1);
        device.close();
        assert!(!a.control.is_stopped(), "a thread is in the driver's sleep");
        lost(a.device.buffer(4));
        inside.release();
        lost(waiter.join().unwrap());
    });
    assert!(a.control.is_stopped(), "the last to leave ran stop");
    assert_eq!(a.control.calls().stop, 1);
    a.model.assert_clean();
}

/// Promises E13, E22.
#[test]
fn a_stop_that_fails_or_panics_still_lets_memory_back_once_the_word_shows_the_end() {
    for panics in [false, true] {
        let a = Bench::new("A");
        let y = a.buffer();
        if panics {
            a.control.panic_in(Call::Stop);
        } else {
            a.control.fault_in(Call::Stop, "stop failed");
        }
        let (control, model) = (a.control.clone(), a.model.clone());
        drop((y, a));
        assert_eq!(control.calls().stop, 1);
        drop(Model::new("OTHER"));
        while control.regions() > 0 {
            std::thread::yield_now();
        }
        model.assert_clean();
    }
}

/// Promise C02.
#[test]
fn a_buffer_that_outlives_its_closed_device_is_given_back_when_it_drops() {
    let a = Bench::new("A");
    let y = a.buffer();
    let big = a.device.buffer(1 << 20).unwrap();
    a.device.close();
    let (control, model) = (a.control.clone(), a.model.clone());
    drop(a);
    lost(y.read(|_: &[u8]| ()));
    drop(y);
    drop(big);
    while control.regions() > 0 {
        std::thread::yield_now();
    }
    model.assert_empty();
}

/// Promises E11, E23, E27.
#[test]
fn a_word_of_the_drivers_own_is_read_through_it_and_freed_once() {
    let mut a = Bench::with("OWN", Options::default().own_word(100));
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    assert_eq!(point.value(), 101, "values start after what the word held");
    assert!(!point.reached().unwrap());
    a.control.step().unwrap();
    assert!(point.reached().unwrap());
    point.wait().unwrap();
    let (control, model) = (a.control.clone(), a.model.clone());
    drop((y, a));
    while control.calls().free_word == 0 {
        std::thread::yield_now();
    }
    // Another device whose word starts lower than what this one left in its slot.
    let mut b = Bench::with("OWN-LOW", Options::default().own_word(3));
    let z = b.buffer();
    let low = b.iota(&z, 1).unwrap();
    assert_eq!(low.value(), 4);
    assert!(!low.reached().unwrap());
    b.control.step().unwrap();
    low.wait().unwrap();
    assert!(point.reached().unwrap(), "a point outlives its device");
    assert_eq!(control.calls().free_word, 1);
    model.assert_clean();
    b.model.assert_clean();
}

/// Promise C01.
#[test]
fn an_open_that_the_driver_refuses_gives_its_reason() {
    let model = Model::new("REFUSED");
    model.refuse_open("no GPU 3");
    match rig::open(model.opener()) {
        Err(rig::Error::Refused(why)) => assert_eq!(why, "REFUSED cannot be opened: no GPU 3"),
        other => panic!("{other:?}"),
    }
    rig::open(model.opener()).unwrap();
}
