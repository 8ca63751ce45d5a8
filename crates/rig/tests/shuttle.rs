//! The protocol under shuttle's scheduler: the real core on the model device, thousands of schedules each.
//!
//! Built with `--cfg rig_shuttle` (`cargo xtask model`): every lock, atomic and thread of rig and of the model is then
//! shuttle's. A schedule that deadlocks, panics or breaks a promise fails the test, and its seed replays it.
#![cfg(rig_shuttle)]

use std::future::{Future, IntoFuture};
use std::task::{Context, Waker};

use rig::{Buffer, Device, Point, Run, write};
use rig_conformance::model::{Model, ModelDevice, Options, Pace, image};
use rig_edge::WaitFacts;
use shuttle::Config;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;

/// Schedules of each test; RIG_SCHEDULES says otherwise.
fn schedules() -> usize {
    std::env::var("RIG_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(2000)
}

fn config() -> Config {
    let mut config = Config::new();
    // The default of 32 KiB is less than the standard library's formatting takes on top of rig.
    config.stack_size = 1 << 20;
    config
}

fn check(f: impl Fn() + Send + Sync + 'static) {
    let f = std::sync::Arc::new(f);
    let random = f.clone();
    shuttle::Runner::new(RandomScheduler::new(schedules()), config()).run(move || random());
    // Schedules with few, well-placed preemptions find other faults than random ones.
    shuttle::Runner::new(PctScheduler::new(3, schedules()), config()).run(move || f());
}

const WAITS: WaitFacts = WaitFacts { stores: true, hosts: true, most: 4 };

fn model(name: &str) -> Model {
    Model::with(name, Options::default().waits(WAITS).pace(Pace::Slept))
}

/// A model of peers that copy nothing: they believe that bytes move, which keeps schedules short.
fn peers(name: &str) -> Model {
    let kinds = rig_edge::Kinds { copy: false, ..rig_edge::Kinds::ALL };
    let options = Options::default().waits(WAITS).pace(Pace::Slept).peers();
    Model::with(name, options.queues(&[("MODEL:0", kinds)]))
}

/// Waits until nothing of rig's holds a device of the model: then the threads that served its futures have ended. Shuttle ends
/// a schedule with its main thread, and would cut them off in the middle of an atomic of its own.
fn end_of(model: &Model) {
    let other = self::model("SHUTTLE-SWEEP");
    while (0..model.opened()).any(|index| !model.device(index).is_dropped()) {
        // A close sweeps up what stopped devices hold: there is no reaper here.
        drop(rig::open(other.opener()).unwrap());
        thread::yield_now();
    }
    for _ in 0..10 {
        thread::yield_now();
    }
}

struct Adder {
    run: Run,
}

/// `y = start + i` over one element.
impl Adder {
    fn new(device: &Device) -> Adder {
        let iota = device.load(&image(&["iota"])).unwrap().function("iota").unwrap();
        let mut run = device.submission().launch(&iota, [write(0)]).params(16).make().unwrap().take();
        run.part(0).set(8, 1_u32);
        Adder { run }
    }

    fn go(&mut self, y: &Buffer, start: u32) -> rig::Result<Point> {
        self.run.part(0).set(12, start);
        // SAFETY: the model's kernels check every access.
        #[expect(unsafe_code, reason = "a launch")]
        unsafe {
            self.run.launch(&[y])
        }
    }
}

/// Promises S08, C14, C30.
#[test]
fn submits_on_two_devices_and_a_closure_end_in_every_schedule() {
    check(|| {
        let model = model("SHUTTLE-TWO");
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let (x, y) = (a.buffer(4).unwrap(), b.buffer(4).unwrap());
        let mut threads = Vec::new();
        for (device, mine) in [(&a, &x), (&b, &y)] {
            let (mut adder, x, y, mine) = (Adder::new(device), x.clone(), y.clone(), mine.clone());
            threads.push(thread::spawn(move || {
                let point = adder.go(&mine, 7).unwrap();
                // Either way round: the host's copy takes both holds at once.
                x.copy_to(&y).unwrap();
                y.copy_to(&x).unwrap();
                point.wait().unwrap();
            }));
        }
        let closed = x.clone();
        threads.push(thread::spawn(move || {
            closed.write(|v: &mut [u32]| v[0] = v[0].max(7)).unwrap();
            closed.read(|v: &[u32]| assert!(v[0] == 7 || v[0] == 0)).unwrap();
        }));
        threads.into_iter().for_each(|t| t.join().unwrap());
        x.read(|v: &[u32]| assert!(v[0] == 7 || v[0] == 0)).unwrap();
        model.assert_clean();
    });
}

/// Promises S08, E09, E17.
#[test]
fn submits_of_two_threads_on_one_device_take_values_in_order() {
    check(|| {
        let model = model("SHUTTLE-ONE");
        let a = rig::open(model.opener()).unwrap();
        let (x, y) = (a.buffer(4).unwrap(), a.buffer(4).unwrap());
        let threads: Vec<_> = (0..2)
            .map(|start| {
                let (mut adder, x, y) = (Adder::new(&a), x.clone(), y.clone());
                thread::spawn(move || {
                    adder.go(&x, start).unwrap();
                    let last = adder.go(&y, start).unwrap();
                    last.wait().unwrap();
                    last.value()
                })
            })
            .collect();
        let last = threads.into_iter().map(|t| t.join().unwrap()).max().unwrap();
        assert_eq!(last, model.device(0).start() + 4);
        model.assert_clean();
    });
}

/// Promises C20, C32, E03, S11.
#[test]
fn a_loss_beside_submits_and_waits_is_lost_for_everyone_and_hangs_nobody() {
    check(|| {
        let model = model("SHUTTLE-LOSS");
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let (x, y) = (a.buffer(4).unwrap(), b.buffer(4).unwrap());
        let (mut on_a, mut on_b) = (Adder::new(&a), Adder::new(&b));
        let control = model.device(0);
        let submitter = thread::spawn(move || {
            let first = on_a.go(&x, 1);
            if let Ok(first) = first {
                on_b.run.after(&[first]);
                if let Ok(second) = on_b.go(&y, 1) {
                    let waited = second.wait();
                    let first = first.wait();
                    // What depends on a lost point is Lost, unless it was reached before.
                    assert!(waited.is_err() || first.is_ok(), "{first:?} {waited:?}");
                    assert_eq!(second.reached().is_ok(), waited.is_ok(), "an answer stays");
                }
            }
        });
        let faulter = thread::spawn(move || control.fault("burned"));
        submitter.join().unwrap();
        faulter.join().unwrap();
        drop((a, b));
        let _ = model.violations();
    });
}

/// Promises C02, E03, E20.
#[test]
fn a_close_beside_a_submit_and_a_wait_stops_once_with_nobody_inside() {
    check(|| {
        let model = model("SHUTTLE-CLOSE");
        let a = rig::open(model.opener()).unwrap();
        let x = a.buffer(4).unwrap();
        let mut adder = Adder::new(&a);
        let closer = {
            let a = a.clone();
            thread::spawn(move || a.close())
        };
        let submitter = thread::spawn(move || {
            if let Ok(point) = adder.go(&x, 1) {
                let _ = point.wait();
            }
            drop(x);
        });
        closer.join().unwrap();
        submitter.join().unwrap();
        let control = model.device(0);
        assert!(control.is_stopped());
        assert_eq!(control.calls().stop, 1);
        drop(a);
        model.assert_clean();
    });
}

/// Promises C16, C31.
#[test]
fn drops_of_many_threads_all_come_back() {
    check(|| {
        let model = model("SHUTTLE-DROPS");
        let a = rig::open(model.opener()).unwrap();
        let x = a.buffer(4096 * 8).unwrap();
        let whole = a.allocated();
        let threads: Vec<_> = (0..2)
            .map(|i| {
                let (mut adder, a, view) = (Adder::new(&a), a.clone(), x.view(i * 8..i * 8 + 8).unwrap());
                thread::spawn(move || {
                    let mine = a.buffer(4096 * 8).unwrap();
                    adder.go(&mine, 1).unwrap();
                    drop(mine);
                    adder.go(&view, 1).unwrap();
                    drop(a.buffer(4096 * 16).unwrap());
                })
            })
            .collect();
        drop(x);
        threads.into_iter().for_each(|t| t.join().unwrap());
        let last = a.buffer(4).unwrap();
        let mut adder = Adder::new(&a);
        adder.go(&last, 1).unwrap().wait().unwrap();
        drop(last);
        assert_eq!(a.allocated(), 0, "{whole}");
        model.assert_clean();
    });
}

/// Promise S13.
#[test]
fn a_submit_that_keeps_beginning_anew_gets_its_turn() {
    check(|| {
        let model = Model::with("SHUTTLE-STARVE", Options::default().pace(Pace::Slept).depth(1));
        let a = rig::open(model.opener()).unwrap();
        let (x, y) = (a.buffer(4).unwrap(), a.buffer(4).unwrap());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (mut adder, x, y) = (Adder::new(&a), x.clone(), y.clone());
                thread::spawn(move || {
                    for start in 0..3 {
                        adder.go(if start % 2 == 0 { &x } else { &y }, start).unwrap();
                    }
                })
            })
            .collect();
        x.write(|v: &mut [u32]| v[0] += 1).unwrap();
        threads.into_iter().for_each(|t| t.join().unwrap());
        model.assert_clean();
    });
}

/// Promise C30.
#[test]
fn nothing_touches_the_bytes_while_a_closure_runs() {
    check(|| {
        let model = Model::with("SHUTTLE-HOLD", Options::default().pace(Pace::AtOnce));
        let a = rig::open(model.opener()).unwrap();
        let x = a.buffer(4).unwrap();
        let (mut adder, mine) = (Adder::new(&a), x.clone());
        let submitter = thread::spawn(move || adder.go(&mine, 7).unwrap());
        let copied = x.clone();
        let copier = thread::spawn(move || copied.copy_from_slice(&[9_u32]).unwrap());
        x.write(|v: &mut [u32]| {
            std::hint::black_box(&mut *v)[0] = 1;
            // Long enough for another thread to go through a whole submit.
            (0..100).for_each(|_| thread::yield_now());
            assert_eq!(std::hint::black_box(&mut *v)[0], 1, "something wrote inside the closure");
        })
        .unwrap();
        x.read(|v: &[u32]| {
            let before = std::hint::black_box(v)[0];
            // Long enough for another thread to go through a whole submit.
            (0..100).for_each(|_| thread::yield_now());
            assert_eq!(std::hint::black_box(v)[0], before, "something wrote under the reader");
        })
        .unwrap();
        submitter.join().unwrap();
        copier.join().unwrap();
        model.assert_clean();
    });
}

/// Promises C32, S11.
#[test]
fn a_submit_that_follows_a_device_while_it_is_lost_is_lost_too() {
    check(|| {
        let model = model("SHUTTLE-FOLLOW");
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let (x, y) = (a.buffer(4).unwrap(), b.buffer(4).unwrap());
        let (mut on_a, mut on_b) = (Adder::new(&a), Adder::new(&b));
        let first: Point = on_a.go(&x, 1).unwrap();
        model.device(0).fault("burned");
        // One thread learns of the fault and loses A, while another submits to B what follows A.
        let waiter = thread::spawn(move || first.wait().unwrap_err());
        let submitter = thread::spawn(move || {
            on_b.run.after(&[first]);
            if let Ok(second) = on_b.go(&y, 1) {
                second.wait().unwrap_err();
                second.reached().unwrap_err();
            }
        });
        waiter.join().unwrap();
        submitter.join().unwrap();
        drop((a, b));
        model.assert_clean();
    });
}

/// Promises C20, C32, S11.
#[test]
fn a_submit_that_is_refused_beside_a_loss_leaves_no_failure_to_the_next_value() {
    check(|| {
        let model = model("SHUTTLE-NEXT");
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let (x, y, z) = (a.buffer(4).unwrap(), b.buffer(4).unwrap(), b.buffer(4).unwrap());
        let (mut on_a, mut on_b) = (Adder::new(&a), Adder::new(&b));
        let first = on_a.go(&x, 1).unwrap();
        let closer = {
            let a = a.clone();
            thread::spawn(move || a.close())
        };
        on_b.run.after(&[first]);
        let _ = on_b.go(&y, 1);
        closer.join().unwrap();
        on_b.run.after(&[]);
        // It follows nothing of A's, whatever became of the value before.
        on_b.go(&z, 2).unwrap().wait().unwrap();
        z.read(|z: &[u32]| assert_eq!(z[0], 2)).unwrap();
        drop((a, b));
        model.assert_clean();
    });
}

/// Promise C32.
#[test]
fn work_over_what_a_submit_beside_it_writes_fails_with_that() {
    check(|| {
        let model = model("SHUTTLE-BESIDE");
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let (x, y) = (a.buffer(4).unwrap(), b.buffer(4).unwrap());
        let (mut on_a, mut on_b, mut other) = (Adder::new(&a), Adder::new(&b), Adder::new(&b));
        let first = on_a.go(&x, 1).unwrap();
        on_b.run.after(&[first]);
        let mine = y.clone();
        let beside = thread::spawn(move || other.go(&mine, 2).unwrap());
        let second = on_b.go(&y, 1).unwrap();
        let third = beside.join().unwrap();
        model.device(0).fault("burned");
        first.wait().unwrap_err();
        second.reached().unwrap_err();
        if third.value() > second.value() {
            third.reached().unwrap_err();
        }
        drop((a, b));
        model.assert_clean();
    });
}

/// Promises C20, C32.
#[test]
fn work_over_what_a_device_wrote_beside_its_close_is_lost_with_it() {
    check(|| {
        let model = peers("SHUTTLE-WROTE");
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let y = b.buffer(4).unwrap();
        let (mut on_a, mut on_b) = (Adder::new(&a), Adder::new(&b));
        let first = on_a.go(&y.borrow(&a).unwrap(), 1).unwrap();
        // Its stop raises the word past what never ran.
        let closer = thread::spawn(move || a.close());
        let second = on_b.go(&y, 2);
        closer.join().unwrap();
        first.reached().unwrap_err();
        if let Ok(second) = second {
            second.reached().unwrap_err();
        }
        drop((y, b));
        model.assert_clean();
    });
}

/// Promises S08, C14.
#[test]
fn submits_that_name_the_same_buffers_in_other_orders_never_deadlock() {
    check(|| {
        let model = model("SHUTTLE-ORDERS");
        let a = rig::open(model.opener()).unwrap();
        let (x, y) = (a.buffer(4).unwrap(), a.buffer(4).unwrap());
        let threads: Vec<_> = [(x.clone(), y.clone()), (y, x)]
            .into_iter()
            .map(|(from, to)| {
                let mut run = a.submission().copy(0, 1).make().unwrap().take();
                thread::spawn(move || run.submit(&[&from, &to]).unwrap().wait().unwrap())
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        model.assert_clean();
    });
}

/// Promises C15, S07.
#[test]
fn awaited_points_wake_their_tasks_in_every_schedule_and_cancelled_ones_leave_no_thread_behind() {
    check(|| {
        let model = model("SHUTTLE-AWAIT");
        let a = rig::open(model.opener()).unwrap();
        let (x, mut adder) = (a.buffer(4).unwrap(), Adder::new(&a));
        model.device(0).encode_only(true);
        let points: Vec<_> = (0..2).map(|start| adder.go(&x, start).unwrap()).collect();
        let tasks: Vec<_> = points
            .iter()
            .map(|&point| thread::spawn(move || shuttle::future::block_on(async move { point.await }).unwrap()))
            .collect();
        let last = points[1];
        let cancelled = thread::spawn(move || {
            let mut future = last.into_future();
            let _ = std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
        });
        let waiter = thread::spawn(move || last.wait().unwrap());
        tasks.into_iter().for_each(|task| task.join().unwrap());
        cancelled.join().unwrap();
        waiter.join().unwrap();
        drop((a, x, adder));
        end_of(&model);
        model.assert_clean();
    });
}

/// Promises C15, C20, C32.
#[test]
fn a_loss_beside_awaits_wakes_every_one_of_them() {
    check(|| {
        let model = model("SHUTTLE-AWAIT-LOSS");
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let (x, y) = (a.buffer(4).unwrap(), b.buffer(4).unwrap());
        let (mut on_a, mut on_b) = (Adder::new(&a), Adder::new(&b));
        let first = on_a.go(&x, 1).unwrap();
        on_b.run.after(&[first]);
        let second = on_b.go(&y, 1).unwrap();
        let control = model.device(0);
        let faulter = thread::spawn(move || control.fault("burned"));
        let tasks: Vec<_> = [first, second]
            .into_iter()
            .map(|point| thread::spawn(move || shuttle::future::block_on(async move { point.await })))
            .collect();
        let answers: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
        faulter.join().unwrap();
        assert!(answers[1].is_err() || answers[0].is_ok(), "{answers:?}");
        drop((a, b, x, y, on_a, on_b));
        end_of(&model);
        model.assert_clean();
    });
}

/// Ends the work of a device that was closed, once it is stopped: a call that is still inside may have to do that.
fn end_stopped(control: &ModelDevice) {
    while !control.is_stopped() {
        thread::yield_now();
    }
    control.end_work();
}

/// A device that is lost, one whose next value waits for it, and the point and the run of work that stands behind that.
struct Behind {
    model: Model,
    lost: Device,
    beside: Point,
    on_b: Adder,
    y: Buffer,
    _keeps: (Device, Adder, Buffer),
}

impl Behind {
    fn new(name: &str) -> Behind {
        let model = Model::with(name, Options::default().waits(WAITS).depth(2).lingers());
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let (x, y) = (a.buffer(4).unwrap(), b.buffer(4).unwrap());
        let (mut on_a, mut on_b) = (Adder::new(&a), Adder::new(&b));
        let first = on_a.go(&x, 1).unwrap();
        on_b.run.after(&[first]);
        on_b.go(&b.buffer(4).unwrap(), 1).unwrap();
        on_b.run.after(&[]);
        let beside = on_b.go(&y, 5).unwrap();
        Behind { model, lost: a, beside, on_b, y, _keeps: (b, on_a, x) }
    }

    /// What a wait, an await and a submit without room come to while `meanwhile` goes on, time passing all along.
    fn asked(&mut self, meanwhile: impl FnOnce() + Send + 'static) -> [rig::Result<()>; 3] {
        let Behind { beside, on_b, y, .. } = self;
        let (beside, over) = (*beside, std::sync::Arc::new(shuttle::sync::atomic::AtomicBool::new(false)));
        let ticker = {
            let over = over.clone();
            thread::spawn(move || {
                while !over.load(shuttle::sync::atomic::Ordering::SeqCst) {
                    // TIMEOUT: shuttle's time: more than half of what waits behind a loss have.
                    rig_edge::clock::let_pass(std::time::Duration::from_secs(3));
                    thread::yield_now();
                }
            })
        };
        let waiter = thread::spawn(move || beside.wait());
        let awaiter = thread::spawn(move || shuttle::future::block_on(async move { beside.await }));
        let meanwhile = thread::spawn(meanwhile);
        let submitted = on_b.go(y, 7).map(drop);
        let answers = [waiter.join().unwrap(), awaiter.join().unwrap(), submitted];
        meanwhile.join().unwrap();
        over.store(true, shuttle::sync::atomic::Ordering::SeqCst);
        ticker.join().unwrap();
        answers
    }

    /// Once the lost device is stopped all goes on.
    fn end(mut self) {
        self.lost.close();
        end_stopped(&self.model.device(0));
        self.model.device(1).pace(Pace::Slept);
        self.beside.wait().unwrap();
        self.on_b.go(&self.y, 9).unwrap().wait().unwrap();
        self.y.read(|y: &[u32]| assert_eq!(y[0], 9)).unwrap();
        let model = self.model.clone();
        drop(self);
        end_of(&model);
        model.assert_clean();
    }
}

/// Promises C15, C20, E37.
#[test]
fn whoever_stands_behind_a_lost_device_that_nobody_closes_is_told_in_every_schedule() {
    check(|| {
        let mut behind = Behind::new("SHUTTLE-OPEN");
        let control = behind.model.device(0);
        for answer in behind.asked(move || control.fault("burned")) {
            assert!(matches!(&answer, Err(rig::Error::Refused(why)) if why.contains("burned")), "{answer:?}");
        }
        behind.end();
    });
}

/// Promises C15, C20, E37.
#[test]
fn whoever_stands_behind_a_closed_devices_work_waits_for_it_however_long_it_takes() {
    check(|| {
        let mut behind = Behind::new("SHUTTLE-CLOSED");
        let (control, next) = (behind.model.device(0), behind.model.device(1));
        let lost = behind.lost.clone();
        let close = move || {
            lost.close();
            // TIMEOUT: shuttle's time: much more than what waits behind a loss have.
            rig_edge::clock::let_pass(std::time::Duration::from_secs(60));
            (0..20).for_each(|_| thread::yield_now());
            end_stopped(&control);
            next.pace(Pace::Slept);
        };
        for answer in behind.asked(close) {
            answer.unwrap();
        }
        behind.end();
    });
}

/// Promises C09, E22, E25, E27.
#[test]
fn borrows_beside_a_close_and_a_reclaim_free_each_mapping_once_and_before_its_region() {
    check(|| {
        let model = peers("SHUTTLE-BORROW");
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let x = a.buffer(1 << 16).unwrap();
        let mut threads = Vec::new();
        for byte in 0..2 {
            let (x, b) = (x.clone(), b.clone());
            threads.push(thread::spawn(move || {
                if let Ok(borrow) = x.borrow(&b) {
                    drop(x);
                    let _ = borrow.memset(byte);
                }
            }));
        }
        let closer = b.clone();
        threads.push(thread::spawn(move || closer.close()));
        drop(x);
        a.reclaim();
        a.set_budget(0);
        threads.into_iter().for_each(|t| t.join().unwrap());
        drop(b);
        a.reclaim();
        a.set_budget(0);
        drop(a);
        model.assert_clean();
    });
}

/// Promises C09, E25, E27.
#[test]
fn a_device_that_ends_beside_a_region_that_goes_frees_the_mapping_before_the_region() {
    check(|| {
        let model = peers("SHUTTLE-MAPPED");
        let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
        let x = a.buffer(1 << 16).unwrap();
        drop(x.borrow(&b).unwrap());
        drop(x);
        a.reclaim();
        let closer = thread::spawn(move || b.close());
        a.set_budget(0);
        closer.join().unwrap();
        a.set_budget(0);
        assert_eq!((model.device(0).regions(), model.device(1).regions()), (0, 0));
        model.assert_clean();
    });
}
