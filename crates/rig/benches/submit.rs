//! What rig itself costs: submits, points and memory on the null driver.

use std::sync::atomic::{AtomicU64, Ordering};

use divan::{Bencher, black_box};
use rig::{Buffer, Device, Run, read, write};
use rig_conformance::NullOpener;

fn main() {
    divan::main();
}

fn device() -> Device {
    rig::open(NullOpener::new("NULL")).expect("the null device opens")
}

fn run_of(device: &Device, launches: usize) -> (Run, Buffer, Buffer) {
    let add = device.load(b"").and_then(|image| image.function("add")).expect("null functions exist");
    let mut builder = device.submission();
    for _ in 0..launches {
        builder = builder.launch(&add, [read(0), write(1)]);
    }
    let run = builder.make().expect("the parts fit").take();
    (run, device.buffer(4096).expect("memory"), device.buffer(4096).expect("memory"))
}

/// One submit of launches with two refs each.
#[divan::bench(args = [1, 2, 11, 101], sample_size = 500, sample_count = 200)]
fn launches(bencher: Bencher, launches: usize) {
    let device = device();
    let (mut run, x, y) = run_of(&device, launches);
    bencher.bench_local(|| {
        // SAFETY: the null driver runs nothing.
        #[expect(unsafe_code, reason = "a launch")]
        let point = unsafe { run.launch(&[black_box(&x), black_box(&y)]) };
        point.expect("the null device takes everything")
    });
}

/// A point that is already reached.
#[divan::bench(sample_size = 500, sample_count = 200)]
fn reached(bencher: Bencher) {
    let device = device();
    let (mut run, x, y) = run_of(&device, 1);
    // SAFETY: the null driver runs nothing.
    #[expect(unsafe_code, reason = "a launch")]
    let point = unsafe { run.launch(&[&x, &y]) }.expect("the null device takes everything");
    bencher.bench_local(|| black_box(&point).reached().is_ok_and(|reached| reached));
}

/// The floor of a submit over two buffers: six uncontended atomic exchanges on two lines.
#[divan::bench(sample_size = 500, sample_count = 200)]
fn floor_of_six_exchanges(bencher: Bencher) {
    let lines = [AtomicU64::new(0), AtomicU64::new(0)];
    bencher.bench_local(|| {
        for exchange in 0..6 {
            black_box(lines[exchange % 2].swap(1, Ordering::AcqRel));
        }
    });
}

/// Allocates 1 MiB from the cache and drops it.
#[divan::bench(sample_size = 500, sample_count = 200)]
fn allocate_and_drop(bencher: Bencher) {
    let device = device();
    drop(device.buffer(1 << 20));
    bencher.bench_local(|| drop(black_box(device.buffer(1 << 20))));
}

/// One submit of launches with two buffers each, all distinct, and others on every run: as a program's steps have them.
#[divan::bench(args = [1, 16, 100], sample_size = 100, sample_count = 200)]
fn distinct(bencher: Bencher, launches: u32) {
    let device = device();
    let add = device.load(b"").and_then(|image| image.function("add")).expect("null functions exist");
    let parts = (0..launches)
        .fold(device.submission(), |builder, launch| builder.launch(&add, [read(2 * launch), write(2 * launch + 1)]));
    let mut run = parts.make().expect("the parts fit").take();
    // Two sets, whose allocations lie in no order of addresses.
    let mut all: Vec<Buffer> = (0..4 * launches).map(|_| device.buffer(4096).expect("memory")).collect();
    let stride = 7919 % all.len().max(2);
    let mut at = 0;
    for index in 0..all.len() {
        at = (at + stride) % all.len();
        all.swap(index, at);
    }
    let sets: [Vec<&Buffer>; 2] = [all.iter().step_by(2).collect(), all.iter().skip(1).step_by(2).collect()];
    let mut turn = 0;
    bencher.bench_local(|| {
        turn ^= 1;
        // SAFETY: the null driver runs nothing.
        #[expect(unsafe_code, reason = "a launch")]
        let point = unsafe { run.launch(black_box(&sets[turn])) };
        point.expect("the null device takes everything")
    });
}
