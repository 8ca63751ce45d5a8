//! What stands behind work that waits, on a queue, for a lost device which nobody closes: whoever waits for it is told so, and
//! goes on once the device is closed.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;

use futures::executor::block_on;
use rig::{Error, Point};
use rig_conformance::model::{Model, Options};
use rig_edge::WaitFacts;

use crate::support::{Bench, counted, lost, values};

const WAITS: WaitFacts = WaitFacts { stores: true, hosts: true, most: 4 };

/// The sentence of a Refused, which names the lost device, its reason and the way on.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: rig::Result<T>, of: &Bench) -> String {
    match result {
        Err(Error::Refused(why)) => {
            let name = of.device.name();
            for words in [name, "A burned", &format!("close {name}, or open it again")] {
                assert!(why.contains(words), "{words:?} is not in {why:?}");
            }
            why
        }
        other => panic!("not Refused: {other:?}"),
    }
}

/// B's work that waits for A's, which then faults. The first point of each.
fn behind(a: &mut Bench, b: &mut Bench) -> [Point; 2] {
    let (x, y) = (a.buffer(), b.buffer());
    let first = a.iota(&x, 1).unwrap();
    b.iota.after(&[first]);
    let second = b.iota(&y, 1).unwrap();
    b.iota.after(&[]);
    a.control.fault("A burned");
    [first, second]
}

/// Promises C15, C20, C28, C32.
#[test]
fn waits_behind_the_work_of_a_lost_device_that_nobody_closes_end_and_say_what_to_close() {
    let model = Model::with("STANDS", Options::default().waits(WAITS));
    let (mut a, mut b) = (Bench::of(&model), Bench::of(&model));
    let z = b.buffer();
    let [first, second] = behind(&mut a, &mut b);
    let beside = b.iota(&z, 5).unwrap();
    // One thread, which closes nothing: each of these was to wait for ever.
    std::thread::scope(|scope| {
        let awaits = scope.spawn(|| block_on(async { beside.await }));
        let reads = scope.spawn(|| values(&z));
        refused(beside.wait(), &a);
        refused(awaits.join().unwrap(), &a);
        refused(reads.join().unwrap(), &a);
    });
    let mut ran = false;
    refused(z.read(|_: &[u32]| ran = true), &a);
    assert!(!ran, "the closure of a read that is refused does not run");
    refused(block_on(async { beside.await }), &a);
    assert!(!beside.reached().unwrap(), "it is neither reached nor lost");
    assert_eq!((lost(first.wait()), lost(second.wait())), ("A burned".into(), "A burned".into()));
    assert_eq!(b.device.lost(), None);
    a.device.close();
    model.complete_all();
    beside.wait().unwrap();
    block_on(async { beside.await }).unwrap();
    assert_eq!(values(&z).unwrap(), counted(5));
    model.assert_clean();
}

fn submit_without_room(name: &str, options: Options) {
    let model = Model::with(name, options.waits(WAITS).depth(1));
    let (mut a, mut b) = (Bench::of(&model), Bench::of(&model));
    let z = b.buffer();
    let [_, second] = behind(&mut a, &mut b);
    let before = b.control.submitted();
    let why = refused(b.iota(&z, 5), &a);
    assert!(why.contains(b.device.name()), "{why}");
    assert_eq!(b.control.submitted(), before, "what is refused takes no value");
    assert!(z.clone().consume().is_err());
    lost(second.wait());
    a.device.close();
    model.complete_all();
    let point = b.iota(&z, 5).unwrap();
    assert_eq!(point.value(), second.value() + 1);
    model.complete_all();
    assert_eq!(values(&z).unwrap(), counted(5));
    model.assert_clean();
}

/// Promises C20, E37, S12.
#[test]
fn a_submit_without_room_behind_such_work_is_refused_and_says_what_to_close() {
    submit_without_room("NO-ROOM", Options::default());
}

/// Promises C20, E37, S12.
#[test]
fn a_submit_without_room_behind_such_work_of_a_driver_that_blocks_is_refused_too() {
    submit_without_room("BLOCKS", Options::default().may_block());
}

/// Promises C15, C32.
#[test]
fn an_await_behind_a_failed_value_is_not_polled_again_and_again() {
    let model = Model::with("POLLS", Options::default().waits(WAITS));
    let (mut a, mut b) = (Bench::of(&model), Bench::of(&model));
    let z = b.buffer();
    let [_, second] = behind(&mut a, &mut b);
    let beside = b.iota(&z, 5).unwrap();
    lost(second.wait());
    let (mut polls, mut future) = (0, beside.into_future());
    let counted = poll_fn(|context| {
        polls += 1;
        Pin::new(&mut future).poll(context)
    });
    refused(block_on(counted), &a);
    assert!(polls <= 3, "{polls} polls");
    a.device.close();
    model.complete_all();
    beside.wait().unwrap();
    model.assert_clean();
}

/// Promises C20, C32.
#[test]
fn a_wait_behind_a_chain_names_the_lost_device_at_its_end() {
    let model = Model::with("LONG", Options::default().waits(WAITS));
    let (mut a, mut b, mut c) = (Bench::of(&model), Bench::of(&model), Bench::of(&model));
    let (y, z) = (b.buffer(), c.buffer());
    behind(&mut a, &mut b);
    // Right, but behind B's work that waits for A.
    let beside = b.iota(&y, 5).unwrap();
    c.iota.after(&[beside]);
    let last = c.iota(&z, 7).unwrap();
    refused(last.wait(), &a);
    refused(block_on(async { last.await }), &a);
    a.device.close();
    model.complete_all();
    last.wait().unwrap();
    assert_eq!(values(&z).unwrap(), counted(7));
    model.assert_clean();
}

/// Promises C20, C31, E20.
#[test]
fn work_that_a_lost_device_still_ends_is_waited_for() {
    let model = Model::with("STILL", Options::default().waits(WAITS));
    let (mut a, mut b) = (Bench::of(&model), Bench::of(&model));
    let (x, y, z) = (a.buffer(), b.buffer(), b.buffer());
    let first = a.iota(&x, 1).unwrap();
    b.iota.after(&[first]);
    let second = b.iota(&y, 1).unwrap();
    b.iota.after(&[]);
    let beside = b.iota(&z, 5).unwrap();
    a.device.lose("A burned");
    refused(beside.wait(), &a);
    // What was committed runs all the same.
    a.control.step().unwrap();
    model.complete_all();
    beside.wait().unwrap();
    assert_eq!(lost(second.wait()), "A burned");
    assert_eq!(values(&z).unwrap(), counted(5));
    a.device.close();
    assert_eq!(a.control.stopped_with(), Some(None), "its driver had no fault");
    model.assert_clean();
}
