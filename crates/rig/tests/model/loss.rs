//! Losing devices: once, with one reason, and with everything that waited for them.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use rig::{Device, Point};
use rig_conformance::model::{Call, Model, Options, Pace};
use rig_edge::WaitFacts;

use crate::support::{Bench, counted, lost, values};

const WAITS: WaitFacts = WaitFacts { stores: true, hosts: true, most: 4 };

fn chain(name: &str) -> (Model, [Bench; 3]) {
    let model = Model::with(name, Options::default().waits(WAITS));
    let benches = [Bench::of(&model), Bench::of(&model), Bench::of(&model)];
    (model, benches)
}

/// Promises C20, C31, E19.
#[test]
fn a_fault_loses_the_device_once_with_the_first_reason() {
    let mut a = Bench::new("A");
    let y = a.buffer();
    let reached = a.iota(&y, 1).unwrap();
    a.control.step().unwrap();
    let pending = a.iota(&y, 2).unwrap();
    a.control.fault("the memory unit burned");
    assert_eq!(lost(pending.wait()), "the memory unit burned");
    a.control.fault("something else");
    assert_eq!(lost(a.iota(&y, 3)), "the memory unit burned");
    assert_eq!(lost(values(&y)), "the memory unit burned");
    assert_eq!(lost(a.device.buffer(4)), "the memory unit burned");
    assert_eq!(a.device.lost().as_deref(), Some("the memory unit burned"));
    reached.wait().unwrap();
    assert!(reached.reached().unwrap(), "reached before the loss stays reached");
    assert_eq!(lost(pending.reached()), "the memory unit burned");
    assert!(!a.control.is_stopped(), "stop does not run at the loss");
    a.model.assert_clean();
}

/// Promise C20.
#[test]
fn copies_and_memsets_of_nothing_are_lost_too() {
    let a = Bench::new("A");
    let (x, y) = (a.device.buffer(0).unwrap(), a.buffer());
    x.memset(1).unwrap();
    x.copy_to(&y.view(3..3).unwrap()).unwrap();
    a.device.close();
    lost(x.memset(1));
    lost(x.copy_to(&y.view(3..3).unwrap()));
    a.model.assert_clean();
}

/// Promises C20, E09.
#[test]
fn no_value_comes_after_one_whose_submit_failed() {
    for panics in (0..40).map(|round| round % 2 == 0) {
        let mut a = Bench::new("A");
        let (x, y) = (a.buffer(), a.buffer());
        let mut other = a.device.submission().memset(0, 1).make().unwrap().take();
        let held = a.control.hold(Call::Submit);
        if panics {
            a.control.panic_next_submit();
        } else {
            a.control.fail_next_submit("burned");
        }
        let control = a.control.clone();
        std::thread::scope(|scope| {
            let failing = scope.spawn(|| a.iota(&x, 1));
            held.wait_inside(1);
            // It waits for the turn that the failing one has.
            let waiting = scope.spawn(|| other.submit(&[&y]));
            held.release();
            lost(failing.join().unwrap());
            lost(waiting.join().unwrap());
        });
        assert_eq!(control.submitted(), control.start() + 1, "the value that failed is the last");
    }
}

/// Has a submit find no room behind work that waits for a device with a fault, which a wait has met before or nobody has. The submit
/// learns of the fault, waits until the device is closed, and is not lost with it.
fn submits_behind_a_fault(name: &str, options: Options, met: bool) {
    let model = Model::with(name, options.waits(WAITS).depth(1));
    let (mut a, mut b) = (Bench::of(&model), Bench::of(&model));
    let (x, y, z) = (a.buffer(), b.buffer(), b.buffer());
    let first = a.iota(&x, 1).unwrap();
    b.iota.after(&[first]);
    let second = b.iota(&y, 1).unwrap();
    a.control.fault("A burned");
    if met {
        lost(second.wait());
    }
    let (control, before) = (b.control.clone(), b.control.calls().sleep);
    std::thread::scope(|scope| {
        let submitter = scope.spawn(|| b.iota(&z, 5));
        control.wait_calls(Call::Sleep, before + 1);
        assert_eq!(a.device.lost().as_deref(), Some("A burned"));
        a.device.close();
        model.complete_all();
        let beside = submitter.join().unwrap().unwrap();
        model.complete_all();
        beside.wait().unwrap();
    });
    assert_eq!(values(&z).unwrap(), counted(5));
    assert_eq!(lost(second.wait()), "A burned");
    model.assert_clean();
}

/// Promises C32, S04.
#[test]
fn a_submit_that_finds_no_room_behind_failed_work_waits_and_is_not_lost_with_it() {
    submits_behind_a_fault("NO-ROOM-BEHIND", Options::default(), true);
}

/// Promises C20, E37.
#[test]
fn a_submit_meets_a_fault_that_holds_its_device_up_though_its_driver_blocks() {
    submits_behind_a_fault("BLOCKS-BEHIND", Options::default().may_block(), false);
}

/// Promises C20, C32, S11.
#[test]
fn a_submit_that_learns_of_a_loss_at_its_last_look_leaves_nothing_to_the_next_value() {
    let (model, [mut a, mut b, mut c]) = chain("LAST-LOOK");
    let (w, x, y, z) = (c.buffer(), a.buffer(), b.buffer(), b.buffer());
    let (first, other) = (a.iota(&x, 1).unwrap(), c.iota(&w, 1).unwrap());
    // After the submit's checks, and before the driver gets the value.
    let closed = a.device.clone();
    b.control.on(Call::Room, move || {
        let closed = closed.clone();
        std::thread::spawn(move || closed.close()).join().unwrap();
    });
    b.iota.after(&[first]);
    assert_eq!(lost(b.iota(&y, 1)), "it was closed");
    b.iota.after(&[]);
    let next = b.iota(&z, 5).unwrap();
    // Another loss looks at all that is noted, while the next value is on its way.
    c.control.fault("C burned");
    assert_eq!(lost(other.wait()), "C burned");
    assert!(!next.reached().unwrap(), "it follows nothing that was lost");
    model.complete_all();
    assert_eq!(values(&z).unwrap(), counted(5));
    next.wait().unwrap();
    model.assert_clean();
}

/// Promises C15, C32.
#[test]
fn a_wait_behind_work_that_a_loss_holds_up_sleeps_until_the_lost_device_is_stopped() {
    let (model, [mut a, mut b, _c]) = chain("BEHIND");
    let (x, y, z) = (a.buffer(), b.buffer(), b.buffer());
    let first = a.iota(&x, 1).unwrap();
    b.iota.after(&[first]);
    let second = b.iota(&y, 1).unwrap();
    let beside = b.iota(&z, 1).unwrap();
    a.control.fault("A burned");
    lost(second.wait());
    let before = b.control.calls().sleep;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| beside.wait());
        // In its own driver's sleep, and not looking again and again at what has failed.
        b.control.wait_calls(Call::Sleep, before + 1);
        a.device.close();
        model.complete_all();
        waiter.join().unwrap().unwrap();
    });
    lost(second.wait());
    model.assert_clean();
}

/// Promise C15.
#[test]
fn reached_alone_never_loses_a_device() {
    let mut a = Bench::new("A");
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    a.control.fault("unseen");
    assert!(!point.reached().unwrap());
    assert_eq!(a.device.lost(), None);
}

/// Promises C01, C20, E20.
#[test]
fn an_open_of_the_same_name_stops_the_lost_device_first_and_gives_the_reason() {
    let mut a = Bench::new("SAME");
    let y = a.buffer();
    let pending = a.iota(&y, 1).unwrap();
    a.control.fault("gone");
    lost(pending.wait());
    let again = Bench::of(&a.model);
    assert!(a.control.is_stopped());
    assert_eq!(a.control.stopped_with(), Some(Some("gone".into())));
    assert_eq!(again.device.lost(), None);
    assert_eq!(lost(pending.wait()), "gone", "its word has passed it, and it stays Lost");
    a.model.assert_clean();
}

/// Promise C32.
#[test]
fn a_chain_over_three_devices_ends_with_lost_at_once_and_stays_lost() {
    let (model, [mut a, mut b, mut c]) = chain("CHAIN");
    let (x, y, z) = (a.buffer(), b.buffer(), c.buffer());
    let (y2, z2) = (b.buffer(), c.buffer());
    let first = a.iota(&x, 1).unwrap();
    b.iota.after(&[first]);
    let second = b.iota(&y, 1).unwrap();
    c.iota.after(&[second]);
    let third = c.iota(&z, 1).unwrap();
    // Independent work of C, behind the third in device order, and work that reads what the second wrote.
    let beside = c.iota(&z2, 5).unwrap();
    let through = b.add(&y, &y2).unwrap();
    a.control.fault("A burned");
    assert_eq!(lost(third.wait()), "A burned", "C learns of it from A's own driver");
    assert_eq!(lost(second.wait()), "A burned");
    assert_eq!(lost(through.wait()), "A burned", "it read what the second wrote");
    assert_eq!((b.device.lost(), c.device.lost()), (None, None), "the other devices go on");
    // A is stopped: its word rises, the queue waits are satisfied, and B's and C's words pass.
    a.device.close();
    model.complete_all();
    for point in [first, second, third, through] {
        assert_eq!(lost(point.wait()), "A burned");
        assert_eq!(lost(point.reached()), "A burned");
    }
    beside.wait().unwrap();
    assert_eq!(values(&z2).unwrap(), counted(5));
    model.assert_clean();
}

/// Loses a device anew while its first loss is under way, and looks at once at what waited for it.
struct Again {
    device: Device,
    waits: Point,
    found: Mutex<Vec<rig::Result<bool>>>,
}

impl Wake for Again {
    fn wake(self: Arc<Again>) {
        self.device.lose("and again");
        self.found.lock().unwrap().push(self.waits.reached());
    }
}

/// Promises C20, C24, C32.
#[test]
fn a_loss_that_comes_second_returns_once_what_waited_for_the_first_is_lost() {
    let (model, [mut a, mut b, _]) = chain("AGAIN");
    let (x, y) = (a.buffer(), b.buffer());
    let first = a.iota(&x, 1).unwrap();
    b.iota.after(&[first]);
    let waits = b.iota(&y, 2).unwrap();
    let again = Arc::new(Again { device: a.device.clone(), waits, found: Mutex::default() });
    let mut future = pin!(first.into_future());
    assert!(future.as_mut().poll(&mut Context::from_waker(&Waker::from(again.clone()))).is_pending());
    a.device.lose("it is wrong");
    assert_eq!(lost(first.reached()), "it is wrong");
    // Whoever wakes it has done so, or does so now.
    while again.found.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(lost(again.found.lock().unwrap().pop().unwrap()), "it is wrong");
    a.device.close();
    model.assert_clean();
}

/// Promises C26, C32.
#[test]
fn memory_that_a_failed_value_wrote_is_refused_until_it_is_wholly_written_anew() {
    let (model, [mut a, mut b, _c]) = chain("FAILED");
    let (x, y, z) = (a.buffer(), b.buffer(), b.buffer());
    let first = a.iota(&x, 1).unwrap();
    b.iota.after(&[first]);
    b.iota(&y, 1).unwrap();
    a.control.fault("A burned");
    lost(first.wait());
    a.device.close();
    model.complete_all();
    assert_eq!(lost(values(&y)), "A burned");
    assert_eq!(lost(y.write(|_: &mut [u32]| ())), "A burned", "a closure may leave bytes as they were");
    assert_eq!(lost(b.add(&y, &z)), "A burned");
    assert_eq!(lost(b.add(&z, &y)), "A burned", "a launch may leave bytes as they were");
    let half = y.view(0..8).unwrap();
    assert_eq!(lost(half.copy_from_slice(&[1_u32; 2])), "A burned");
    y.copy_from_slice(&counted(7)).unwrap();
    assert_eq!(values(&y).unwrap(), counted(7));
    model.assert_clean();
}

/// Promise C32.
#[test]
fn a_whole_memset_or_copy_makes_failed_memory_good_again() {
    let (model, [mut a, mut b, _c]) = chain("WHOLE");
    let (x, y, z, w) = (a.buffer(), b.buffer(), b.buffer(), b.buffer());
    let first = a.iota(&x, 1).unwrap();
    for failed in [&y, &z] {
        b.iota.after(&[first]);
        b.iota(failed, 1).unwrap();
    }
    a.control.fault("A burned");
    lost(first.wait());
    w.copy_from_slice(&counted(3)).unwrap();
    let copied = w.copy_to(&y).unwrap().point.unwrap();
    z.memset(1).unwrap();
    a.device.close();
    model.complete_all();
    copied.wait().unwrap();
    assert_eq!(values(&y).unwrap(), counted(3));
    assert_eq!(values(&z).unwrap(), [0x0101_0101; 16]);
    model.assert_clean();
}

/// Promises E09, S06, S11.
#[test]
fn a_submit_that_fails_or_panics_loses_the_device_and_stamps_all_the_same() {
    for panics in [false, true] {
        let mut a = Bench::new("A");
        let y = a.buffer();
        let before = a.iota(&y, 1).unwrap();
        if panics {
            a.control.panic_next_submit();
        } else {
            a.control.fail_next_submit("no ring");
        }
        let why = lost(a.iota(&y, 2));
        assert!(if panics { why.contains("panicked") } else { why == "no ring" }, "{why}");
        assert_eq!(lost(before.wait()), why, "everything that was not reached is lost");
        assert_eq!(lost(values(&y)), why);
        drop(y);
        a.device.close();
        assert!(a.control.is_stopped());
        a.model.assert_clean();
    }
}

/// Promise E41.
#[test]
fn a_commit_that_fails_loses_the_device() {
    let mut a = Bench::new("A");
    a.control.encode_only(true);
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    a.control.fault_in(Call::Commit, "no command buffer");
    assert_eq!(lost(point.wait()), "no command buffer");
    a.model.assert_clean();
}

/// Promise E19.
#[test]
fn a_fault_or_a_panic_in_any_counted_call_loses_the_device() {
    for call in [Call::Alloc, Call::Image, Call::Entry, Call::Plan, Call::Sleep, Call::Grow, Call::Free] {
        for panics in [false, true] {
            let mut a = Bench::new("A");
            let y = a.buffer();
            let image = a.device.load(&rig_conformance::model::image(&["scale"])).unwrap();
            if panics {
                a.control.panic_in(call);
            } else {
                a.control.fault_in(call, "a fault in a call");
            }
            match call {
                Call::Alloc => drop(a.device.buffer(1 << 16).unwrap_err()),
                Call::Image => drop(a.device.load(&rig_conformance::model::image(&["add"])).unwrap_err()),
                Call::Entry => drop(image.function("scale").unwrap_err()),
                Call::Plan => drop(a.device.submission().memset(0, 1).make().unwrap_err()),
                Call::Sleep => drop(a.iota(&y, 1).unwrap().wait().unwrap_err()),
                Call::Grow => {
                    a.control.grow_next(1);
                    drop(a.iota(&y, 1).unwrap_err());
                }
                _ => {
                    drop(a.device.buffer(1 << 16).unwrap());
                    a.device.set_budget(0);
                }
            }
            let why = a.device.lost().unwrap_or_else(|| panic!("{call:?} lost nothing"));
            assert!(if panics { why.contains("panicked") } else { &*why == "a fault in a call" }, "{call:?}: {why}");
            let again = Bench::of(&a.model);
            again.buffer();
            a.model.assert_clean();
        }
    }
}

/// Promise C20.
#[test]
fn a_hang_past_the_bound_loses_the_device() {
    let mut a = Bench::with("A", Options::default().hang(Duration::from_millis(30)));
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    assert!(lost(point.wait()).contains("hung"));
    a.model.assert_clean();
}

/// Promise E39.
#[test]
fn with_no_hang_bound_slow_work_is_waited_for() {
    let mut a = Bench::new("A");
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| point.wait());
        // Each sleep of the driver's may return with the word unmoved: the waiter sleeps again.
        a.control.wait_calls(Call::Sleep, 4);
        a.control.step().unwrap();
        waiter.join().unwrap().unwrap();
    });
    a.model.assert_clean();
}

/// Promises C31, E21, E22.
#[test]
fn a_lost_devices_memory_comes_back_only_once_it_is_stopped_and_its_word_shows_the_end() {
    let mut a = Bench::with("A", Options::default().lingers());
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    a.control.fault("gone");
    lost(point.wait());
    drop(y);
    let regions = a.control.regions();
    assert!(regions > 0);
    let again = Bench::of(&a.model);
    assert!(a.control.is_stopped(), "the open of its name stopped it");
    again.buffer();
    assert_eq!(a.control.regions(), regions, "its work may still run, so its memory stays");
    a.control.end_work();
    let control = a.control.clone();
    drop(a);
    again.buffer();
    again.device.allocated();
    while control.regions() > 0 {
        // The reaper gives the rest back, with no call of the program's.
        std::thread::yield_now();
    }
    again.model.assert_clean();
}

/// Promises C20, C32.
#[test]
fn a_value_that_depends_on_another_device_can_be_lost_while_a_thread_waits_for_it() {
    let (model, [mut a, mut b, _c]) = chain("WAITING");
    let (x, y) = (a.buffer(), b.buffer());
    let first = a.iota(&x, 1).unwrap();
    b.iota.after(&[first]);
    let second = b.iota(&y, 1).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.wait());
        a.control.wait_calls(Call::Sleep, 1);
        a.control.fault("A burned");
        assert_eq!(lost(waiter.join().unwrap()), "A burned");
    });
    model.assert_clean();
}

/// Promise C03.
#[test]
fn every_type_is_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<rig::Device>();
    check::<rig::Buffer>();
    check::<rig::Image>();
    check::<rig::Function>();
    check::<rig::Submission>();
    check::<rig::Run>();
    check::<rig::Point>();
    check::<rig::Error>();
}

/// Promises C31, C32.
#[test]
fn a_write_that_only_waits_on_a_queue_keeps_the_memory_for_who_is_still_at_work() {
    // B reads x's copy on B while A's device is lost after B's use was ordered before A's: the memory must outlive B.
    let model = Model::with("KEPT", Options::default().waits(WAITS).pace(Pace::Stepped));
    let (mut a, mut b) = (Bench::of(&model), Bench::of(&model));
    let (x, y) = (a.buffer(), b.buffer());
    let first = b.iota(&y, 1).unwrap();
    a.iota.after(&[first]);
    let second = a.iota(&x, 1).unwrap();
    assert_eq!(a.control.waits_of(second.value()), Some(1));
    drop((x, y));
    a.device.close();
    b.control.step().unwrap();
    let z = b.buffer();
    b.iota(&z, 3).unwrap();
    model.complete_all();
    assert_eq!(values(&z).unwrap(), counted(3));
    model.assert_clean();
}
