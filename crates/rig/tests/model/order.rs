//! Order, on a device that runs only when it is told to.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Bench, LEN, counted, invalid, launch, lost, values};
use rig::{Buffer, read, write};
use rig_conformance::model::{Blocked, Call, Model, Options, Pace, image};
use rig_edge::{Completion, WaitFacts};

/// Waits for both kinds of word.
const WAITS: WaitFacts = WaitFacts { stores: true, hosts: true, most: 2 };

/// Promises C13, C14, C25.
#[test]
fn a_submit_returns_before_its_work_runs_and_values_rise_by_one() {
    let mut a = Bench::new("A");
    let y = a.buffer();
    let first = a.iota(&y, 5).unwrap();
    let second = a.iota(&y, 6).unwrap();
    assert_eq!(first.value(), a.control.start() + 1);
    assert_eq!(second.value(), first.value() + 1);
    assert!(!first.reached().unwrap());
    a.control.step().unwrap();
    assert!(first.reached().unwrap() && !second.reached().unwrap());
    a.control.step().unwrap();
    assert!(second.reached().unwrap());
    assert_eq!(values(&y).unwrap(), counted(6));
    a.model.assert_clean();
}

/// Promises C14, C30.
#[test]
fn the_hosts_read_waits_for_the_last_write_and_its_write_for_every_use() {
    let mut a = Bench::with("A", Options::default().pace(Pace::Slept));
    let (x, y) = (a.buffer(), a.buffer());
    a.iota(&x, 1).unwrap();
    assert_eq!(values(&x).unwrap(), counted(1), "the read waited in the driver's sleep");
    let reads = a.add(&x, &y).unwrap();
    values(&x).unwrap();
    assert!(!reads.reached().unwrap(), "a read of what is only read waits for nothing");
    x.write(|_: &mut [u32]| assert!(reads.reached().unwrap(), "a write waits for the reads")).unwrap();
    a.model.assert_clean();
}

/// Promises C14, S02, S03.
#[test]
fn work_on_another_device_waits_on_the_queue_where_it_can() {
    let model = Model::with("AB", Options::default().waits(WAITS));
    let (mut a, mut b) = (Bench::of(&model), Bench::of(&model));
    let (x, y) = (a.buffer(), b.buffer());
    let produced = a.iota(&x, 3).unwrap();
    b.add.after(&[produced]);
    let zero = b.buffer();
    let followed = b.add(&zero, &y).unwrap();
    assert_eq!(b.control.waits_of(followed.value()), Some(1), "one queue wait");
    assert!(matches!(b.control.step(), Err(Blocked::Waits(_))), "it stands until the producer is done");
    a.control.step().unwrap();
    b.control.step().unwrap();
    assert!(followed.reached().unwrap());
    // A point that is reached, or that device order gives, is no wait.
    b.add.after(&[produced, followed]);
    let last = b.add(&zero, &y).unwrap();
    assert_eq!(b.control.waits_of(last.value()), Some(0));
    model.complete_all();
    model.assert_clean();
}

/// Promises C14, S03.
#[test]
fn where_no_queue_can_wait_the_host_waits_before_the_submit() {
    for waits in [WaitFacts::NONE, WaitFacts { stores: false, ..WAITS }, WaitFacts { most: 0, ..WAITS }] {
        let model = Model::with("AB", Options::default().waits(waits).pace(Pace::Slept));
        let (mut a, mut b) = (Bench::of(&model), Bench::of(&model));
        let (x, y, z) = (a.buffer(), b.buffer(), b.buffer());
        let produced = a.iota(&x, 3).unwrap();
        b.add.after(&[produced]);
        let followed = b.add(&y, &z).unwrap();
        assert!(produced.reached().unwrap(), "the host waited for it");
        assert_eq!(b.control.waits_of(followed.value()), Some(0));
        followed.wait().unwrap();
        model.assert_clean();
    }
}

/// Promise S03.
#[test]
fn at_most_the_stated_number_of_waits_is_placed() {
    let most = WaitFacts { most: 2, ..WAITS };
    let model = Model::with("MANY", Options::default().waits(most).pace(Pace::Slept).completion(Completion::Host));
    let mut producers: Vec<Bench> = (0..4).map(|_| Bench::of(&model)).collect();
    let mut b = Bench::of(&model);
    let points: Vec<_> = producers
        .iter_mut()
        .map(|p| {
            let x = p.buffer();
            p.iota(&x, 1).unwrap()
        })
        .collect();
    let (y, z) = (b.buffer(), b.buffer());
    b.add.after(&points);
    let point = b.add(&y, &z).unwrap();
    let placed = b.control.waits_of(point.value()).unwrap();
    let reached = points.iter().filter(|p| p.reached().unwrap()).count();
    assert_eq!((placed, reached), (2, 2), "two on the queue, two by the host");
    point.wait().unwrap();
    model.assert_clean();
}

/// Promises E10, S07, S10, C15.
#[test]
fn encoded_work_runs_once_a_wait_commits_it_and_reached_never_does() {
    let mut a = Bench::new("A");
    a.control.encode_only(true);
    let y = a.buffer();
    let point = a.iota(&y, 9).unwrap();
    assert!(a.control.step().is_err(), "nothing runs that is not committed");
    assert!(!point.reached().unwrap());
    assert_eq!(a.control.calls().commit, 0);
    a.control.auto(true);
    point.wait().unwrap();
    assert_eq!(a.control.calls().commit, 1);
    point.wait().unwrap();
    assert_eq!(a.control.calls().commit, 1, "a reached point commits nothing");
    a.model.assert_clean();
}

/// Promises S03, E10.
#[test]
fn a_producers_work_is_committed_before_it_is_waited_for() {
    let model = Model::with("AB", Options::default().waits(WAITS));
    let (mut a, mut b) = (Bench::of(&model), Bench::of(&model));
    a.control.encode_only(true);
    let (x, y, z) = (a.buffer(), b.buffer(), b.buffer());
    let produced = a.iota(&x, 3).unwrap();
    b.add.after(&[produced]);
    b.add(&y, &z).unwrap();
    assert_eq!(a.control.committed(), produced.value());
    model.complete_all();
    model.assert_clean();
}

/// Promises E08, E37, S04, S10.
#[test]
fn after_later_a_submit_commits_what_it_waits_for_and_goes_on_once_the_word_moved() {
    let mut a = Bench::with("A", Options::default().depth(1).pace(Pace::Slept));
    a.control.encode_only(true);
    let y = a.buffer();
    let first = a.iota(&y, 1).unwrap();
    let second = a.iota(&y, 2).unwrap();
    assert!(first.reached().unwrap(), "there was room for one: the second waited for the first");
    second.wait().unwrap();
    assert_eq!(values(&y).unwrap(), counted(2));
    a.model.assert_clean();
}

/// Promise S04.
#[test]
fn later_with_nothing_in_flight_is_the_drivers_fault() {
    let mut a = Bench::new("A");
    a.control.later_next(1);
    let y = a.buffer();
    assert!(lost(a.iota(&y, 1)).contains("Later with nothing in flight"));
    a.model.assert_clean();
}

/// Promises E08, E16, E28, E29.
#[test]
fn a_growth_runs_with_no_lock_and_short_ones_end_in_out_of_memory() {
    let mut a = Bench::new("A");
    a.control.auto(true);
    let y = a.buffer();
    a.control.grow_next(1);
    let (device, other) = (a.device.clone(), y.clone());
    // Inside grow no lock of rig's is held (E16): other calls go on.
    a.control.on(Call::Grow, move || {
        other.read(|_: &[u32]| ()).unwrap();
        device.buffer(4).unwrap();
    });
    a.iota(&y, 4).unwrap().wait().unwrap();
    assert_eq!(a.control.calls().grow, 1);
    a.control.grow_next(4);
    a.control.short_next(4);
    let before = a.control.submitted();
    assert!(matches!(a.iota(&y, 5), Err(rig::Error::OutOfMemory { .. })));
    assert_eq!(a.control.submitted(), before, "no value was taken (S12)");
    assert_eq!(values(&y).unwrap(), counted(4));
    a.control.grow_next(0);
    a.control.short_next(0);
    a.iota(&y, 6).unwrap().wait().unwrap();
    a.model.assert_clean();
}

/// Promises E08, S12.
#[test]
fn a_refused_room_is_invalid_with_the_drivers_reason_and_takes_no_value() {
    let mut a = Bench::new("A");
    let y = a.buffer();
    a.control.refuse_next("a group of 9999 threads");
    assert!(crate::support::invalid(a.iota(&y, 1)).contains("a group of 9999 threads"));
    assert_eq!(a.control.submitted(), a.control.start());
    a.iota(&y, 1).unwrap();
    a.control.step().unwrap();
    a.model.assert_clean();
}

/// Promises C14, C28, C30.
#[test]
fn a_submit_waits_for_a_closure_of_another_thread_and_not_the_other_way() {
    let mut a = Bench::new("A");
    a.control.auto(true);
    let (y, z) = (a.buffer(), a.buffer());
    let (inside, out) = (std::sync::Barrier::new(2), AtomicBool::new(false));
    let mut other = Bench::of(&a.model);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            y.write(|values: &mut [u32]| {
                inside.wait();
                // Another device's work and this device's other memory go on meanwhile.
                inside.wait();
                values.fill(1);
                out.store(true, Ordering::Release);
            })
            .unwrap();
        });
        inside.wait();
        let w = other.buffer();
        other.iota(&w, 1).unwrap();
        a.iota(&z, 1).unwrap();
        inside.wait();
        a.iota(&y, 7).unwrap();
        assert!(out.load(Ordering::Acquire), "the submit came after the closure");
    });
    assert_eq!(values(&y).unwrap(), counted(7));
}

/// Promise C30.
#[test]
fn two_threads_that_submit_what_the_other_holds_get_invalid_and_end() {
    let a = Bench::new("A");
    let (x, y) = (a.buffer(), a.buffer());
    let both = std::sync::Barrier::new(2);
    let hold_and_submit = |mine: &rig::Buffer, theirs: &rig::Buffer| {
        let mut memset = a.device.submission().memset(0, 1).make().unwrap().take();
        mine.write(|_: &mut [u8]| {
            both.wait();
            let answer = memset.submit(&[theirs]);
            both.wait();
            assert!(crate::support::invalid(answer).contains("inside a closure"));
        })
        .unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| hold_and_submit(&x, &y));
        hold_and_submit(&y, &x);
    });
    a.model.assert_clean();
}

/// Promise C15.
#[test]
fn a_second_of_waiting_costs_little_processor_time() {
    let mut a = Bench::new("A");
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    let used = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let before = thread_time();
            point.wait().unwrap();
            thread_time() - before
        });
        // This is a test of time: it is the one place that lets some pass.
        std::thread::park_timeout(std::time::Duration::from_secs(1));
        a.control.step().unwrap();
        waiter.join().unwrap()
    });
    assert!(used < 0.005, "{used} s of processor time");
}

/// The processor time of this thread in seconds, from the scheduler's own account.
fn thread_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns: f64 = text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
    ns * 1e-9
}

/// Promise E42.
#[test]
fn a_value_that_completes_only_after_a_later_one_is_seen() {
    let mut a = Bench::new("A");
    a.control.break_committed(true);
    let y = a.buffer();
    let first = a.iota(&y, 1).unwrap();
    assert!(a.control.step().is_err(), "the broken device keeps a committed value back");
    a.iota(&y, 2).unwrap();
    a.control.step().unwrap();
    assert!(first.reached().unwrap());
    drop(a.model.violations());
}

/// Promise S01.
#[test]
fn checks_come_before_any_driver_call_and_the_borrow_keeps_the_memory_while_the_submit_runs() {
    let mut a = Bench::new("A");
    let (x, y) = (a.buffer(), a.buffer());
    let calls = a.control.calls();
    crate::support::invalid(crate::support::launch(&mut a.add, &[&x]));
    assert_eq!(a.control.calls().room, calls.room, "a submit that fails its checks asks the driver nothing");
    std::thread::scope(|scope| {
        let inside = a.control.hold(Call::Submit);
        let (control, device) = (a.control.clone(), a.device.clone());
        let other = y.clone();
        let submitting = scope.spawn(|| a.add(&x, &y).unwrap());
        inside.wait_inside(1);
        drop(other);
        let neighbour = device.buffer(4 * crate::support::LEN).unwrap();
        assert_eq!(control.calls().free, calls.free);
        drop(neighbour);
        inside.release();
        submitting.join().unwrap();
    });
    a.control.complete_all();
    a.model.assert_clean();
}

/// Promises S05, E09, E17.
#[test]
fn the_value_is_chosen_after_room_and_goes_to_the_driver_with_nothing_between() {
    let mut a = Bench::new("A");
    let y = a.buffer();
    let first = a.iota(&y, 1).unwrap();
    let rooms = a.control.calls().room;
    a.control.refuse_next("once");
    crate::support::invalid(a.iota(&y, 2));
    let other = Bench::of(&a.model);
    drop(other);
    let second = a.iota(&y, 3).unwrap();
    assert_eq!(second.value(), first.value() + 1, "a refused room takes no value");
    assert_eq!(a.control.calls().room, rooms + 2);
    a.control.complete_all();
    // The model sees a submit without its room, for other work, or with a value out of order.
    a.model.assert_clean();
}

/// Promises E33, E12.
#[test]
fn a_sleep_goes_on_while_a_submit_is_inside_the_driver_and_then_tells_the_fault() {
    let mut a = Bench::new("A");
    let (x, y) = (a.buffer(), a.buffer());
    let point = a.iota(&x, 1).unwrap();
    std::thread::scope(|scope| {
        let control = a.control.clone();
        let inside = control.hold(Call::Submit);
        let submitting = scope.spawn(move || a.iota(&y, 2));
        inside.wait_inside(1);
        let waiting = scope.spawn(move || point.wait());
        control.wait_calls(Call::Sleep, 1);
        control.fault("burned meanwhile");
        assert_eq!(lost(waiting.join().unwrap()), "burned meanwhile");
        inside.release();
        assert_eq!(lost(submitting.join().unwrap()), "burned meanwhile");
    });
}

/// A submission of many slots locks its allocations by tries and joins what fills several slots, however often and in
/// whatever order.
///
/// Promises C12, C14, C30, S02.
#[test]
fn buffers_that_fill_many_slots_are_ordered_by_all_their_uses() {
    const LAUNCHES: u32 = 30;
    let a = Bench::new("MANY-SLOTS");
    let add = a.device.load(&image(&["add"])).unwrap().function("add").unwrap();
    let parts = (0..LAUNCHES)
        .fold(a.device.submission(), |builder, launch| builder.launch(&add, [read(2 * launch), write(2 * launch + 1)]));
    let mut run = parts.make().unwrap().take();
    for launch in 0..LAUNCHES as usize {
        run.part(launch).threads([LEN as u32, 1, 1]);
    }
    // Every buffer but the first and the last is read by one launch and written by the one before: x[i + 1] += x[i]. So each
    // fills two slots, of which some come to the read first and some to the write.
    let x: Vec<_> = (0..=LAUNCHES).map(|_| a.device.buffer(8192).unwrap()).collect();
    for x in &x {
        x.write(|x: &mut [f32]| x.fill(1.0)).unwrap();
    }
    let slots = |order: &dyn Fn(usize) -> usize| -> Vec<&Buffer> {
        (0..LAUNCHES as usize).flat_map(|launch| [&x[order(launch)], &x[order(launch) + 1]]).collect()
    };
    let forth = slots(&|launch| launch);
    let back = slots(&|launch| LAUNCHES as usize - 1 - launch);
    for slots in [&forth, &back] {
        launch(&mut run, slots).unwrap();
    }
    a.control.complete_all();
    let sums: Vec<f32> = x.iter().map(|x| x.read(|x: &[f32]| x[LEN - 1]).unwrap()).collect();
    // Forth each is one more than the one before; back each adds the one before as it was.
    let due = (0..=LAUNCHES).map(|i| if i == 0 { 1.0 } else { (2 * i + 1) as f32 });
    assert_eq!(sums, due.collect::<Vec<_>>());
    // A hold of any of them stands in the way, whichever of its uses came first.
    for slots in [&forth, &back] {
        for held in [0, 1, 15, LAUNCHES as usize] {
            let submitted = a.control.submitted();
            let answer = x[held].read(|_: &[f32]| launch(&mut run, slots)).unwrap();
            if held == 0 {
                // It is only read, as the closure does.
                answer.unwrap();
                a.control.complete_all();
            } else {
                assert!(invalid(answer).contains("inside a closure"));
                assert_eq!(a.control.submitted(), submitted);
            }
        }
    }
    // And each has its stamp: none comes back while the work runs.
    let live = a.device.allocated();
    launch(&mut run, &back).unwrap();
    drop(x);
    a.device.reclaim();
    assert_eq!(a.device.allocated(), live);
    a.control.complete_all();
    a.device.reclaim();
    assert_eq!(a.device.allocated(), live - (u64::from(LAUNCHES) + 1) * 8192);
    a.model.assert_clean();
}
