//! Submits of several threads to one device: what four reach together beside what one reaches.
//!
//! Not a divan bench, since it compares whole runs: one and four threads in turn, several times, by the ratio.

use std::time::{Duration, Instant};

use rig::{Buffer, Device, Run, read, write};
use rig_conformance::NullOpener;

/// How long each run lasts.
const RUN: Duration = Duration::from_millis(200);
/// Pairs of runs.
const PAIRS: usize = 9;

fn main() {
    let device = rig::open(NullOpener::new("NULL")).expect("the null device opens");
    let mut ratios: Vec<f64> = Vec::new();
    let (mut ones, mut fours) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let one = throughput(&device, 1);
        let four = throughput(&device, 4);
        ratios.push(four / one);
        ones.push(one);
        fours.push(four);
    }
    println!(
        "submits a microsecond: one thread {:.2}, four threads {:.2}; ratio {:.2} (least {:.2}, most {:.2})",
        median(&mut ones),
        median(&mut fours),
        median(&mut ratios),
        ratios[0],
        ratios[PAIRS - 1]
    );
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Submits a microsecond of `threads` threads together, each with buffers of its own.
fn throughput(device: &Device, threads: usize) -> f64 {
    let start = Instant::now();
    let done: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| submits(device))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no submit fails")).sum()
    });
    done as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn submits(device: &Device) -> u64 {
    let (mut run, x, y) = run_of(device);
    let end = Instant::now() + RUN;
    let mut done = 0;
    while Instant::now() < end {
        for _ in 0..1000 {
            // SAFETY: the null driver runs nothing.
            #[expect(unsafe_code, reason = "a launch")]
            let point = unsafe { run.launch(&[&x, &y]) };
            point.expect("the null device takes everything");
        }
        done += 1000;
    }
    done
}

fn run_of(device: &Device) -> (Run, Buffer, Buffer) {
    let add = device.load(b"").and_then(|image| image.function("add")).expect("null functions exist");
    let run = device.submission().launch(&add, [read(0), write(1)]).make().expect("the parts fit").take();
    (run, device.buffer(4096).expect("memory"), device.buffer(4096).expect("memory"))
}
