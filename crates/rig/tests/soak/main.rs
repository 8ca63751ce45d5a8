//! The soak: mixed load of real threads on real devices for as long as it is told, with memory that stays flat and handles that
//! all come back.
//!
//! Each thread works on devices that all share (the host's cores, its memory, two model devices that are peers) and on model
//! devices of its own, which it opens, loses and closes. What a thread computes it also computes on the host, and compares.
//!
//! Looked at while it runs: the process's resident bytes, open files and threads, which after the warm-up stay below what they
//! were then and a margin ([`MARGIN_BYTES`], [`MARGIN_THREADS`]). At the end: every region, image and plan of every model is back,
//! and files and threads are as many as before the first device opened.
//!
//! `cargo xtask soak --minutes N` runs it. Without `--minutes` it runs for two seconds, which says nothing of growth.
#![expect(clippy::unwrap_used, reason = "a test program: what it cannot do is its failure")]

mod load;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rig_conformance::model::{Model, Options, Pace};
use rig_edge::WaitFacts;

/// By how much resident bytes may grow after the warm-up: heaps of threads that have not met their worst yet. A leak of one
/// smallest allocation an episode passes it within a minute.
const MARGIN_BYTES: u64 = 24 << 20;

/// By how much threads and files may be more than after the warm-up: those that serve futures and reap closed devices come and go.
const MARGIN_THREADS: u64 = 12;

/// The threads of the load.
const THREADS: u64 = 4;

/// How often the process is looked at. TIMEOUT: often enough to see the worst, and rare enough to cost nothing.
const LOOK: Duration = Duration::from_millis(200);

/// What the process takes.
#[derive(Clone, Copy, Debug, Default)]
struct Takes {
    bytes: u64,
    files: u64,
    threads: u64,
}

impl Takes {
    /// As the system tells it; zeros where it does not.
    fn now() -> Takes {
        let count = |path: &str| std::fs::read_dir(path).map_or(0, |entries| entries.count() as u64);
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
        let bytes = pages * rig_edge::page_bytes() as u64;
        Takes { bytes, files: count("/proc/self/fd"), threads: count("/proc/self/task") }
    }

    fn most(self, other: Takes) -> Takes {
        Takes {
            bytes: self.bytes.max(other.bytes),
            files: self.files.max(other.files),
            threads: self.threads.max(other.threads),
        }
    }
}

fn main() -> ExitCode {
    let all: Vec<String> = std::env::args().collect();
    if all.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let minutes =
        all.iter().position(|argument| argument == "--minutes").and_then(|at| all.get(at + 1)?.parse::<f64>().ok());
    let time = minutes.map_or(Duration::from_secs(2), |minutes| Duration::from_secs_f64(minutes * 60.0));
    match soak(time) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("soak: {why}");
            ExitCode::FAILURE
        }
    }
}

fn soak(time: Duration) -> Result<(), String> {
    let before = Takes::now();
    let model = model("SOAK");
    let (episodes, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (warm, most) = {
        let devices = load::Devices::open(&model);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (devices, episodes, over) = (&devices, &episodes, &over);
                scope.spawn(move || {
                    let mut load = load::Load::new(devices, thread);
                    while !over.load(Ordering::Relaxed) {
                        load.episode();
                        episodes.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let result = watch(time);
            over.store(true, Ordering::Relaxed);
            result
        })
    };
    let after = settle(before);
    println!(
        "soak: {} s, {} episodes; resident after the warm-up {} MiB, at most {} MiB; files {}, {}, {}; threads {}, {}, {}",
        time.as_secs(),
        episodes.load(Ordering::Relaxed),
        warm.bytes >> 20,
        most.bytes >> 20,
        before.files,
        most.files,
        after.files,
        before.threads,
        most.threads,
        after.threads
    );
    println!("(files and threads: before the first device opened, at most, after the last closed)");
    model.assert_empty();
    let told = [
        (most.bytes > warm.bytes + MARGIN_BYTES, "memory grew"),
        (most.files > warm.files + MARGIN_THREADS, "files grew"),
        (most.threads > warm.threads + MARGIN_THREADS, "threads grew"),
        (after.files > before.files, "files were left open"),
        (after.threads > before.threads, "threads were left"),
    ];
    match told.iter().find(|(wrong, _)| *wrong) {
        Some((_, why)) => Err(format!("{why}: warm {warm:?}, most {most:?}, before {before:?}, after {after:?}")),
        None => Ok(()),
    }
}

/// Looks at the process: the most of the warm-up, a fifth of the time, and the most of the rest.
fn watch(time: Duration) -> (Takes, Takes) {
    let began = Instant::now();
    let (mut warm, mut most) = (Takes::default(), Takes::default());
    while began.elapsed() < time {
        // TIMEOUT: see `LOOK`.
        std::thread::sleep(LOOK.min(time / 10));
        let now = Takes::now();
        if began.elapsed() < time / 5 {
            warm = warm.most(now);
        } else {
            most = most.most(now);
        }
    }
    (warm, most)
}

/// Waits until threads that end by themselves have: those that reap closed devices look every 20 ms.
fn settle(before: Takes) -> Takes {
    let began = Instant::now();
    loop {
        let now = Takes::now();
        // TIMEOUT: a busy machine may let a thread wait for seconds; what is left after ten is left for good.
        if now.threads <= before.threads && now.files <= before.files || began.elapsed() > Duration::from_secs(10) {
            return now;
        }
        // TIMEOUT: between two looks, at what ends by itself within tens of milliseconds.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A model whose devices are peers and wait for one another.
pub fn model(name: &str) -> Model {
    let waits = WaitFacts { stores: true, hosts: true, most: 4 };
    let options = Options::default().waits(waits).peers().maps_host().pace(Pace::Slept).depth(16).budget(4 << 20);
    let model = Model::with(name, options);
    load::add_kernel(&model);
    model
}
