//! What users of other runtimes reported, where it takes a model whose every call a test decides. The rest are cases of the
//! conformance suite (its group `reports`); `docs/proof.md` lists all of them.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails its test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rig::{Buffer, Device, Error, HostMemory, HostPages, Point, Run, read, write};
use rig_conformance::model::{Call, Model, ModelDriver, Options, Pace, image};
use rig_conformance::suite::process::{in_child, of_test};
use rig_edge::WaitFacts;

/// TIMEOUT: how long a test waits for what takes milliseconds, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

const LEN: usize = 64;

/// Something with a destructor: counts those that live.
struct Token(Arc<AtomicUsize>);

impl Token {
    fn new(live: &Arc<AtomicUsize>) -> Token {
        live.fetch_add(1, Ordering::SeqCst);
        Token(Arc::clone(live))
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Host memory with a destructor.
struct Owner(HostMemory, #[expect(dead_code, reason = "its drop is what counts")] Token);

// SAFETY: as HostMemory, whose pages these are.
#[expect(unsafe_code, reason = "an owner of a test")]
unsafe impl HostPages for Owner {
    fn pages(&mut self) -> NonNull<[u8]> {
        self.0.pages()
    }
}

#[expect(unsafe_code, reason = "a launch")]
fn launch(run: &mut Run, buffers: &[&Buffer]) -> rig::Result<Point> {
    // SAFETY: the model's kernels check every access against the slots, and fault instead of touching more.
    unsafe { run.launch(buffers) }
}

/// A run of `iota` over `LEN` words.
fn iota(device: &Device) -> rig::Result<Run> {
    let iota = device.load(&image(&["iota"]))?.function("iota")?;
    let mut run = device.submission().launch(&iota, [write(0)]).params(16).make()?.take();
    run.part(0).set(8, LEN as u32);
    Ok(run)
}

/// A program that makes every kind of call of its two devices, and gives up at the first error, as programs do.
fn program(a: &Device, b: &Device, live: &Arc<AtomicUsize>) -> rig::Result<()> {
    let loaded = a.load(&image(&["add params=24", "scale memory=4096"]))?;
    loaded.prepare(&["add"]);
    let add = loaded.function("add")?;
    loaded.function("scale")?;
    let (x, y) = (a.buffer(4 * LEN)?, a.buffer(4 * LEN)?);
    x.write(|x: &mut [f32]| x.fill(1.0))?;
    let kept = Token::new(live);
    let code = Token::new(live);
    let step = a.submission().launch(&add, [read(0), write(1)]).copy(1, 2).keep(kept).memset(1, 0).fill::<ModelDriver>(
        [write(1)],
        move |encoder, slots| {
            assert!(code.0.load(Ordering::SeqCst) > 0, "the code lives while it runs");
            encoder.memset(&slots[1], 5)
        },
    );
    let step = step.make()?;
    let out = a.buffer(4 * LEN)?;
    let mut run = step.take();
    run.part(0).threads([16, 1, 1]).set(16, 16_u32);
    launch(&mut run, &[&x, &y, &out])?.wait()?;
    let owner = Owner(HostMemory::zeroed(4 * LEN).unwrap(), Token::new(live));
    let wrapped = Buffer::from_host(a, owner).map_err(|not| not.error)?;
    let mut count = iota(a)?;
    let first = launch(&mut count, &[&wrapped])?;
    // The other device works in this one's memory, and after its work.
    let borrow = wrapped.borrow(b)?;
    let mut there = iota(b)?;
    there.after(&[first]);
    let second = launch(&mut there, &[&borrow])?;
    let far = b.buffer(4 * LEN)?;
    out.copy_to(&far)?;
    far.copy_to(&y)?;
    count.after(&[second]);
    let third = launch(&mut count, &[&y])?;
    drop((wrapped, borrow, step, run));
    Point::wait_all(&[second, third])?;
    y.read(|y: &[u32]| assert_eq!(y[LEN - 1], LEN as u32 - 1, "garbage passed as done"))?;
    drop(a.buffer(1 << 20)?);
    a.reclaim();
    a.set_budget(0);
    a.set_budget(u64::MAX);
    drop((x, y, out));
    a.buffer(4)?.memset(1)
}

/// Panics that the model was told to make are not told again: there are hundreds.
fn keep_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let what = panic.to_string();
            if !what.contains("the model was told to panic") && !what.contains("faulted, in Room") {
                before(panic);
            }
        }));
    });
}

/// Runs the program with a fault of one of its devices at a call; says whether there was such a call.
fn faults_at(call: u64, panics: bool, of: usize) -> bool {
    let waits = WaitFacts { stores: true, hosts: true, most: 4 };
    let options = Options::default().pace(Pace::Slept).waits(waits).maps_host().peers();
    let model = Model::with(&format!("EVERY-{call}-{panics}-{of}"), options);
    let live = Arc::new(AtomicUsize::new(0));
    let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
    model.device(0).encode_only(true);
    model.device(0).grow_next(1);
    model.device(of).fault_after(call, panics);
    let ended = catch_unwind(AssertUnwindSafe(|| program(&a, &b, &live)));
    match ended.unwrap_or_else(|_| panic!("a panic crossed rig at call {call} of device {of}")) {
        Ok(()) => {}
        Err(Error::Lost { why, .. }) => {
            assert!(why.contains(if panics { "panicked" } else { "faulted, in" }), "call {call}: {why}");
            let of = if of == 0 { &a } else { &b };
            assert_eq!(of.lost(), Some(why), "the reason is that of the device that faulted");
        }
        Err(other) => panic!("call {call} of device {of}: {other:?}"),
    }
    drop((a, b));
    // What the work might still use is given back by the reaper, without a call of the program's.
    let start = Instant::now();
    let left = || (0..2).map(|at| model.device(at)).map(|at| at.regions() + at.images() + at.plans()).sum::<usize>();
    while live.load(Ordering::SeqCst) + left() > 0 {
        let tokens = live.load(Ordering::SeqCst);
        assert!(start.elapsed() < PATIENCE, "call {call} of device {of}: {tokens} tokens and {} objects left", left());
        std::thread::yield_now();
    }
    model.assert_clean();
    !model.device(of).is_to_fault()
}

/// A loss at every single call of a driver in turn.
///
/// Promises C20, C21, C23, E19, S11.
#[test]
fn a_loss_at_any_call_of_a_driver_is_no_panic_and_runs_every_destructor() {
    keep_quiet();
    for (of, panics) in [(0, false), (0, true), (1, false), (1, true)] {
        let calls = (0..).take_while(|&call| faults_at(call, panics, of)).count();
        println!("device {of} made {calls} calls{}", if panics { ", each panicked once" } else { "" });
        assert!(calls > [50, 10][of], "only {calls} calls: the program ended before it began");
    }
}

/// Counts what does not depend on the machine's load in place of a percentile: a waiter that never moves would hold up for
/// ever whoever waits for it, and a submit asks the driver as often with a waiter as without.
///
/// Promises C03, C15.
#[test]
fn a_thread_that_stands_in_the_drivers_sleep_holds_up_no_submit_of_eight_others() {
    const EACH: u64 = 200;
    let model = Model::new("WAITER");
    let device = rig::open(model.opener()).unwrap();
    let control = model.device(0);
    let point = launch(&mut iota(&device).unwrap(), &[&device.buffer(4 * LEN).unwrap()]).unwrap();
    let mut asked = Vec::new();
    for waits in [false, true] {
        let before = control.calls();
        let (done, finished) = mpsc::channel();
        std::thread::scope(|scope| {
            let inside = waits.then(|| control.hold(Call::Sleep));
            let waiter = inside.as_ref().map(|inside| {
                let waiter = scope.spawn(move || point.wait());
                inside.wait_inside(1);
                waiter
            });
            for _ in 0..8 {
                let (device, done) = (&device, done.clone());
                scope.spawn(move || {
                    let (mut run, y) = (iota(device).unwrap(), device.buffer(4 * LEN).unwrap());
                    for _ in 0..EACH {
                        launch(&mut run, &[&y]).unwrap();
                    }
                    done.send(()).unwrap();
                });
            }
            let all_came = (0..8).all(|_| finished.recv_timeout(PATIENCE).is_ok());
            let stood = waiter.as_ref().is_none_or(|waiter| !waiter.is_finished());
            // Whatever came of it, the threads end.
            control.auto(waits);
            drop(inside);
            waiter.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
            assert!(all_came, "a submit waits for the thread that waits");
            assert!(stood);
        });
        let after = control.calls();
        asked.push([after.room - before.room, after.submit - before.submit]);
    }
    assert_eq!(asked[0], asked[1], "rooms and submits without a waiter and with one");
    assert_eq!(asked[0], [8 * EACH; 2]);
    drop(device);
    model.assert_clean();
}

/// Promises C13, C15, S04.
#[test]
fn a_hundred_thousand_values_in_flight_at_once_cost_no_kernel_objects() {
    const COUNT: usize = 100_000;
    let objects = || {
        let entries = |folder: &str| std::fs::read_dir(folder).map(|entries| entries.count()).ok();
        Some([entries("/proc/self/fd")?, entries("/proc/self/task")?])
    };
    let body = || {
        let model = Model::new("FLIGHT");
        let device = rig::open(model.opener()).unwrap();
        let mut nothing = device.submission().make().unwrap().take();
        let mut context = Context::from_waker(Waker::noop());
        let first = nothing.submit(&[]).unwrap();
        // The one thread that serves all futures of a device.
        let mut served = Box::pin(first.into_future());
        assert!(served.as_mut().poll(&mut context).is_pending());
        let Some(before) = objects() else { return println!("no system file counts the objects") };
        let points: Vec<Point> = (0..COUNT).map(|_| nothing.submit(&[]).unwrap()).collect();
        let mut futures: Vec<_> = points.iter().map(|point| Box::pin(point.into_future())).collect();
        assert!(futures.iter_mut().all(|future| future.as_mut().poll(&mut context).is_pending()));
        assert_eq!(model.device(0).unfinished(), COUNT + 1);
        assert_eq!(objects().unwrap(), before, "descriptors and threads");
        assert_eq!(model.device(0).complete_all(), COUNT + 1);
        Point::wait_all(&points).unwrap();
        let answers = futures.iter_mut().map(|future| future.as_mut().poll(&mut context));
        answers.for_each(|answer| assert!(matches!(answer, Poll::Ready(Ok(())))));
    };
    of_test("a_hundred_thousand_values_in_flight_at_once_cost_no_kernel_objects", || in_child(body));
}
