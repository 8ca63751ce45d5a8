//! The soak on model devices that leave something behind, where it must fail. One test, since a soak counts what its process has.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rig::Device;
use rig_conformance::model::{Model, Options, Pace, image};
use rig_conformance::soak::{Count, Kernels, LEN, Own, Soak};

/// TIMEOUT: how long each soak takes, so that some hundred devices are opened after the warm-up.
const TIME: Duration = Duration::from_millis(500);

/// Opens devices of a model, and leaves something behind each time.
struct Leaves<'l> {
    kernels: &'l Kernels,
    model: &'l Model,
    leave: &'l (dyn Fn() + Sync),
}

impl Own for Leaves<'_> {
    fn open(&mut self) -> rig::Result<Device> {
        rig::open(self.model.opener())
    }

    fn kernels(&self) -> &Kernels {
        self.kernels
    }

    fn closed(&mut self) {
        (self.leave)();
    }
}

/// A soak whose threads leave something behind.
fn soak(time: Duration, counted: &AtomicU64, leave: impl Fn() + Sync) -> Result<(), String> {
    let kernels = Kernels {
        image: image(&["add params=24", "scale params=16", "iota", "spin"]),
        groups: [LEN as u32 / 64, 1, 1],
        threads: [64, 1, 1],
        spin_rounds: 3,
    };
    let model = Model::with("SOAK", Options::default().pace(Pace::Slept).depth(16).budget(4 << 20));
    Soak::new("what leaves something", |_| Leaves { kernels: &kernels, model: &model, leave: &leave })
        .shared(&kernels, || rig::open(model.opener()))
        .counts(|| vec![Count::exact("objects", counted.load(Ordering::Relaxed))])
        // TIMEOUT: a failure is known at once here: what is left behind stays.
        .settles(Duration::from_millis(300))
        .run(time)
}

#[test]
fn what_leaves_a_count_a_file_a_thread_or_memory_behind_fails_and_is_named() {
    let counted = AtomicU64::new(0);
    soak(TIME, &counted, || ()).unwrap();
    let why = soak(TIME, &counted, || _ = counted.fetch_add(1, Ordering::Relaxed)).unwrap_err();
    assert!(why.contains("more at a later rest than at the first: objects: "), "{why}");
    assert!(why.contains("more after the last device than before the first: objects: "), "{why}");

    // A device that does not open ends the soak at once. TIMEOUT: it would run for hours.
    let opened = AtomicU64::new(0);
    let fails = || assert!(opened.fetch_add(1, Ordering::Relaxed) < 30, "the thirty-first device leaves the test");
    let hours = Duration::from_hours(2);
    assert!(catch_unwind(AssertUnwindSafe(|| soak(hours, &counted, fails))).is_err());
    if !cfg!(target_os = "linux") {
        return;
    }

    let kept = Mutex::new(Vec::new());
    let leave = || kept.lock().unwrap().extend((0..8).map(|_| File::open("/dev/null").unwrap()));
    let why = soak(TIME, &counted, leave).unwrap_err();
    assert!(why.contains("files grew: ") && why.contains("files were left open: "), "{why}");
    kept.lock().unwrap().clear();

    let end = Mutex::new(());
    let standing = end.lock().unwrap();
    thread::scope(|scope| {
        let leave = || (0..4).for_each(|_| _ = scope.spawn(|| drop(end.lock())));
        let why = soak(TIME, &counted, leave).unwrap_err();
        assert!(why.contains("threads grew: ") && why.contains("threads were left: "), "{why}");
        drop(standing);
    });

    let kept = Mutex::new(Vec::new());
    let why = soak(TIME, &counted, || kept.lock().unwrap().push(vec![1_u8; 16 << 20])).unwrap_err();
    assert!(why.contains("memory grew: "), "{why}");
}
