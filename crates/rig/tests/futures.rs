//! What awaiting costs: threads and memory. A process of its own, since both are the process's.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::task::{Context, Waker};

use futures::executor::block_on;
use futures::future::{Fuse, FutureExt};
use rig::{Buffer, Device, Point, PointFuture, write};
use rig_conformance::model::{Model, Options, image};

/// Counts the bytes that the heap holds.
struct Weighing;

static HELD: AtomicIsize = AtomicIsize::new(0);

// SAFETY: passes everything on to the system's allocator, and counts.
#[expect(unsafe_code, reason = "a counting allocator")]
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Weighing = Weighing;

/// The tests of this file count what the process has: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A device with one launch that nobody completes yet.
fn pending(name: &str) -> (Model, Device, Buffer, Point) {
    let model = Model::with(name, Options::default());
    let device = rig::open(model.opener()).unwrap();
    let iota = device.load(&image(&["iota"])).unwrap().function("iota").unwrap();
    let mut run = device.submission().launch(&iota, [write(0)]).params(16).make().unwrap().take();
    run.part(0).set(8, 4_u32);
    let y = device.buffer(16).unwrap();
    // SAFETY: the model's kernels check every access.
    #[expect(unsafe_code, reason = "a launch")]
    let point = unsafe { run.launch(&[&y]) }.unwrap();
    (model, device, y, point)
}

/// How many threads serve futures in this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("comm")).ok();
    tasks.filter_map(name).filter(|name| name.trim() == "rig-futures").count()
}

/// Promise C15.
#[test]
fn a_wait_cancelled_a_million_times_in_a_select_leaves_nothing_behind() {
    let _alone = ALONE.lock().unwrap();
    let (model, _device, _y, point) = pending("SELECT");
    let round = || {
        block_on(async {
            let mut reached: Fuse<PointFuture> = point.into_future().fuse();
            let mut other = std::pin::pin!(async {}.fuse());
            futures::select_biased! {
                _ = reached => panic!("nothing ran"),
                () = other => {}
            }
        });
    };
    (0..1000).for_each(|_| round());
    let before = HELD.load(Ordering::Relaxed);
    (0..1_000_000).for_each(|_| round());
    let more = HELD.load(Ordering::Relaxed) - before;
    assert!(more < 4096, "{more} bytes more");
    #[cfg(target_os = "linux")]
    assert!(threads() <= 1, "{} threads", threads());
    model.device(0).complete_all();
    block_on(point.into_future()).unwrap();
    model.assert_clean();
}

/// Promise C15.
#[cfg(target_os = "linux")]
#[test]
fn one_thread_a_device_serves_any_number_of_futures_and_goes_when_none_is_left() {
    let _alone = ALONE.lock().unwrap();
    let devices: Vec<_> = (0..3).map(|i| pending(&format!("SERVED-{i}"))).collect();
    let mut futures: Vec<Pin<Box<PointFuture>>> = Vec::new();
    for (.., point) in devices.iter().cycle().take(300) {
        let mut future = Box::pin(point.into_future());
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        futures.push(future);
    }
    // A thread gives itself its name when it starts to run.
    while threads() < 3 {
        std::thread::yield_now();
    }
    assert_eq!(threads(), 3);
    futures.truncate(100);
    assert_eq!(threads(), 3, "each device is still awaited");
    drop(futures);
    while threads() > 0 {
        std::thread::yield_now();
    }
    for (model, ..) in &devices {
        model.device(0).complete_all();
        model.assert_clean();
    }
}
