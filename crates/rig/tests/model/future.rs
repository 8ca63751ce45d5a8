//! Points as futures.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::executor::{ThreadPool, block_on};
use futures::future::{join_all, poll_immediate};
use futures::task::SpawnExt;
use rig::write;
use rig_conformance::model::{Call, Model, Options, Pace};
use rig_edge::WaitFacts;

use crate::support::{Bench, counted, invalid, launch, lost, values};

const WAITS: WaitFacts = WaitFacts { stores: true, hosts: true, most: 4 };

/// Counts its wakes.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Wakes>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wakes {
    fn wait(&self, wakes: u32) {
        while self.0.load(Ordering::SeqCst) < wakes {
            std::thread::yield_now();
        }
    }
}

/// Promise C15.
#[test]
fn a_point_is_awaited_by_any_executor() {
    let mut a = Bench::new("AWAITED");
    let y = a.buffer();
    let points: Vec<_> = (0..20).map(|i| a.iota(&y, i).unwrap()).collect();
    let pool = ThreadPool::builder().pool_size(2).create().unwrap();
    let spawned = pool.spawn_with_handle(points[9].into_future()).unwrap();
    let all = pool.spawn_with_handle(join_all(points.iter().map(|point| point.into_future()))).unwrap();
    for _ in 0..10 {
        a.control.step().unwrap();
    }
    block_on(spawned).unwrap();
    assert!(points[9].reached().unwrap() && !points[10].reached().unwrap());
    a.control.complete_all();
    assert!(block_on(all).into_iter().all(|answer| answer.is_ok()));
    block_on(async { points[19].await }).unwrap();
    assert_eq!(values(&y).unwrap(), counted(19));
    a.model.assert_clean();
}

/// Promises C15, E10.
#[test]
fn a_poll_commits_nothing_and_the_work_is_committed_all_the_same() {
    let mut a = Bench::with("UNCOMMITTED", Options::default().pace(Pace::Slept));
    a.control.encode_only(true);
    let y = a.buffer();
    let point = a.iota(&y, 4).unwrap();
    let held = a.control.hold(Call::Commit);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut future = pin!(point.into_future());
    // The commit blocks in the driver; the poll does not.
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    held.wait_inside(1);
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    held.release();
    wakes.wait(1);
    assert!(matches!(future.poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(()))));
    assert_eq!(values(&y).unwrap(), counted(4));
    a.model.assert_clean();
}

/// Promise C15.
#[test]
fn a_reached_point_is_ready_at_once_and_asks_nobody() {
    let mut a = Bench::with("READY", Options::default().pace(Pace::AtOnce));
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    let calls = a.control.calls();
    assert!(matches!(block_on(poll_immediate(point.into_future())), Some(Ok(()))));
    assert_eq!(a.control.calls(), calls);
}

/// Promises C15, C20.
#[test]
fn a_loss_wakes_who_awaits_its_points_with_the_reason() {
    let mut a = Bench::new("LOST-AWAITED");
    let y = a.buffer();
    let reached = a.iota(&y, 1).unwrap();
    let point = a.iota(&y, 2).unwrap();
    a.control.complete(reached.value()).unwrap();
    let (control, answer) = (a.control.clone(), std::thread::spawn(move || block_on(point.into_future())));
    control.wait_calls(Call::Sleep, 1);
    control.fault("a bit flipped");
    assert_eq!(lost(answer.join().unwrap()), "a bit flipped", "nobody else asked the driver");
    block_on(reached.into_future()).unwrap();
    assert_eq!(lost(block_on(point.into_future())), "a bit flipped");
    a.model.assert_clean();
}

/// Promises C15, C32.
#[test]
fn a_point_that_waits_on_queues_for_others_is_lost_with_the_first_of_them() {
    let model = Model::with("AWAITED-CHAIN", Options::default().waits(WAITS));
    let (mut a, mut b, mut c) = (Bench::of(&model), Bench::of(&model), Bench::of(&model));
    let points = [a.buffer(), b.buffer(), c.buffer()];
    let first = a.iota(&points[0], 1).unwrap();
    b.iota.after(&[first]);
    let second = b.iota(&points[1], 2).unwrap();
    c.iota.after(&[second]);
    let third = c.iota(&points[2], 3).unwrap();
    let answer = std::thread::spawn(move || block_on(third.into_future()));
    a.control.wait_calls(Call::Sleep, 1);
    a.control.fault("the first of three");
    assert_eq!(lost(answer.join().unwrap()), "the first of three");
    for bench in [&b, &c] {
        assert_eq!(bench.device.lost(), None);
    }
    model.assert_clean();
}

/// Promise C15.
#[test]
fn a_close_ends_every_await() {
    let mut a = Bench::new("CLOSED-AWAITED");
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    let (device, answer) = (a.device.clone(), std::thread::spawn(move || block_on(point.into_future())));
    a.control.wait_calls(Call::Sleep, 1);
    device.close();
    assert_eq!(lost(answer.join().unwrap()), "it was closed");
    a.model.assert_clean();
}

/// Promises C15, C24.
#[test]
fn wakers_run_outside_all_locks_and_their_panics_are_their_own() {
    struct Calls(rig::Device, Wakes);
    impl Wake for Calls {
        fn wake(self: Arc<Calls>) {
            let x = self.0.buffer(64).unwrap();
            x.write(|bytes: &mut [u8]| bytes.fill(1)).unwrap();
            self.0.reclaim();
            self.1.0.fetch_add(1, Ordering::SeqCst);
            panic!("a waker's own trouble");
        }
    }
    let mut a = Bench::new("WAKERS");
    let y = a.buffer();
    let (first, second) = (a.iota(&y, 1).unwrap(), a.iota(&y, 2).unwrap());
    let calls = Arc::new(Calls(a.device.clone(), Wakes::default()));
    let waker = Waker::from(calls.clone());
    let mut futures = [Box::pin(first.into_future()), Box::pin(second.into_future())];
    for future in &mut futures {
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    a.control.complete(first.value()).unwrap();
    calls.1.wait(1);
    a.control.complete(second.value()).unwrap();
    calls.1.wait(2);
    block_on(second.into_future()).unwrap();
    drop((futures, waker, calls));
    a.model.assert_clean();
}

/// Promise C24.
#[test]
fn a_point_awaited_inside_a_fill_is_invalid() {
    let mut a = Bench::new("IN-FILL");
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    let answers = Arc::new(std::sync::Mutex::new(Vec::new()));
    let out = answers.clone();
    let submission = a
        .device
        .submission()
        .fill::<rig_conformance::model::ModelDriver>([write(0)], move |_, _| {
            let mut future = pin!(point.into_future());
            if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                out.lock().map_err(|_| "poison")?.push(answer);
            }
            Ok(())
        })
        .make()
        .unwrap();
    launch(&mut submission.take(), &[&y]).unwrap();
    let answer = answers.lock().unwrap().pop().unwrap();
    assert!(invalid(answer).contains("wait after the submit"));
    a.control.complete_all();
    a.model.assert_clean();
}

/// A device that hangs is lost by whoever awaits it, too.
///
/// Promises C15, C20.
#[test]
fn a_hang_past_the_bound_ends_an_await() {
    let mut a = Bench::with("HUNG-AWAITED", Options::default().hang(std::time::Duration::from_millis(20)));
    let y = a.buffer();
    let point = a.iota(&y, 1).unwrap();
    assert!(lost(block_on(point.into_future())).contains("its work hung"));
}

/// A device whose queue waits for a slow one does not hang itself.
///
/// Promises C15, C20, E39.
#[test]
fn an_await_of_work_that_waits_for_a_slow_device_loses_neither() {
    let slow = Model::with("SLOW-BEFORE", Options::default().waits(WAITS));
    let options = Options::default().waits(WAITS).pace(Pace::AtOnce);
    let bounded = Model::with("BOUND-BEHIND", options.hang(std::time::Duration::from_millis(20)));
    let (mut a, mut b) = (Bench::of(&slow), Bench::of(&bounded));
    let (x, y) = (a.buffer(), b.buffer());
    let first = a.iota(&x, 1).unwrap();
    b.iota.after(&[first]);
    let second = b.iota(&y, 5).unwrap();
    let before = b.control.calls().sleep;
    let waiter = std::thread::spawn(move || block_on(second.into_future()));
    // Each sleep ends at the bound at the latest: several are several bounds.
    b.control.wait_calls(Call::Sleep, before + 6);
    assert_eq!(b.device.lost(), None);
    a.control.complete_all();
    waiter.join().unwrap().unwrap();
    assert_eq!(values(&y).unwrap(), counted(5));
    bounded.assert_clean();
}

/// A loss that another call finds is told at once, also while the thread that serves futures sits in the driver.
///
/// Promises C15, C20.
#[test]
fn a_loss_or_a_close_wakes_futures_at_once_whoever_finds_it() {
    let close = |bench: &Bench| bench.device.close();
    let lose = |bench: &Bench| {
        bench.control.fault_in(Call::Alloc, "no more");
        lost(bench.device.buffer(1 << 20));
    };
    for end in [&close as &dyn Fn(&Bench), &lose] {
        let mut a = Bench::new("AT-ONCE-LOST");
        let y = a.buffer();
        let point = a.iota(&y, 1).unwrap();
        let held = a.control.hold(Call::Sleep);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut future = pin!(point.into_future());
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        held.wait_inside(1);
        end(&a);
        wakes.wait(1);
        assert!(matches!(future.poll(&mut Context::from_waker(&waker)), Poll::Ready(Err(_))));
        held.release();
        a.model.assert_clean();
    }
}
