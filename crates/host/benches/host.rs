//! What the cores device costs: a tiny launch and its wait, many launches in one submission, bandwidth beside rayon's.
//!
//! Each figure is the median of rounds, with the least and the most. Rounds of what is compared alternate, since the speed
//! of a shared machine drifts.

#[expect(clippy::unwrap_used, reason = "the harness is a test's")]
#[path = "../tests/host/harness.rs"]
#[expect(dead_code, reason = "tests use more of it")]
mod harness;

use std::time::Instant;

use harness::{Device, Run, launch, open};
use rayon::prelude::*;
use rig_host::{Group, Kernels, Params};

fn main() {
    // `cargo bench -p rig-host -- bandwidth` runs that alone.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("tiny") {
        tiny("empty launch, submit to wait", 1);
        tiny("launch of 4 groups, submit to wait", 4);
    }
    if wanted("many") {
        many();
    }
    if wanted("barriers") {
        barriers();
    }
    if wanted("bandwidth") {
        bandwidth();
    }
}

/// Prints the median, least and most of figures.
fn report(name: &str, unit: &str, mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let median = figures[figures.len() / 2];
    println!(
        "{name:50} {median:10.3} {unit}  # {:.3} .. {:.3} n={}",
        figures[0],
        figures[figures.len() - 1],
        figures.len()
    );
    median
}

fn time(code: impl FnOnce()) -> f64 {
    let start = Instant::now();
    code();
    start.elapsed().as_secs_f64()
}

#[expect(clippy::unwrap_used, reason = "a bench stops at an error")]
fn wait(device: &Device, value: u64) {
    device.wait(value, true).unwrap();
}

#[expect(clippy::unwrap_used, reason = "a bench stops at an error")]
fn kernel(device: &Device, kernels: Kernels) -> rig_host::Entry {
    let image = device.image(&kernels.image()).unwrap();
    // The entry keeps the code.
    device.entry(&image, "kernel")
}

fn tiny(name: &str, groups: u32) {
    let mut device = open(rig_host::cores());
    let entry = kernel(&device, Kernels::new().group("kernel", 0, |_, _| {}));
    let mut run = Run::new(&device, vec![launch(&entry, &[])], vec![]);
    run.set(0, [groups, 1, 1], [1, 1, 1], &[]);
    let mut round = || {
        let value = device.submit(&mut run);
        wait(&device, value);
    };
    (0..1000).for_each(|_| round());
    report(name, "us", (0..100_000).map(|_| 1e6 * time(&mut round)).collect());
}

fn many() {
    const LAUNCHES: usize = 1000;
    let mut device = open(rig_host::cores());
    let memory = device.memory(4);
    let count = |params: &Params<'_>, _: &Group| {
        std::hint::black_box(params.address::<u32>(0));
    };
    let entry = kernel(&device, Kernels::new().group("kernel", 8, count));
    let parts = (0..LAUNCHES).map(|_| launch(&entry, &[0])).collect();
    let mut run = Run::new(&device, parts, vec![memory.slot()]);
    (0..LAUNCHES).for_each(|part| run.set(part, [1, 1, 1], [1, 1, 1], &[]));
    let mut round = || {
        let value = device.submit(&mut run);
        wait(&device, value);
    };
    (0..20).for_each(|_| round());
    report(
        "each of 1000 launches of one submission",
        "ns",
        (0..500).map(|_| 1e9 / 1000.0 * time(&mut round)).collect(),
    );
}

fn barriers() {
    let mut device = open(rig_host::cores());
    let meet = |_: &Params<'_>, at: &Group| (0..10).for_each(|_| at.barrier());
    let entry = kernel(&device, Kernels::new().thread("kernel", 0, 0, meet));
    let mut run = Run::new(&device, vec![launch(&entry, &[])], vec![]);
    run.set(0, [1, 1, 1], [256, 1, 1], &[]);
    let mut round = || {
        let value = device.submit(&mut run);
        wait(&device, value);
    };
    (0..20).for_each(|_| round());
    let each = 1e9 / (256.0 * 11.0);
    report("each barrier or end of 256 threads", "ns", (0..500).map(|_| each * time(&mut round)).collect());
}

#[expect(unsafe_code, reason = "a kernel makes slices of what its launch named")]
fn add(params: &Params<'_>, at: &Group) {
    let len = at.threads[0] as usize;
    let first = at.group[0] as usize * len;
    // SAFETY: slot 0 holds a float for each thread of the grid.
    let x = unsafe { params.slice::<f32>(0, first, len) };
    // SAFETY: as slot 0; this group alone touches its part.
    let y = unsafe { params.slice_mut::<f32>(8, first, len) };
    y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
}

fn bandwidth() {
    const N: usize = 16 << 20;
    let mut device = open(rig_host::cores());
    let entry = kernel(&device, Kernels::new().group("kernel", 16, add));
    let (x, y) = (device.memory(4 * N), device.memory(4 * N));
    x.values::<f32>().fill(1.0);
    y.values::<f32>().fill(1.0);
    let mut run = Run::new(&device, vec![launch(&entry, &[0, 1])], vec![x.slot(), y.slot()]);
    run.set(0, [(N / 256) as u32, 1, 1], [256, 1, 1], &[]);
    let (mut ours, mut rayons, mut vecs) = (Vec::new(), Vec::new(), Vec::new());
    let (vec_x, mut vec_y) = (vec![1.0_f32; N], vec![1.0_f32; N]);
    for _ in 0..40 {
        ours.push(time(|| {
            let value = device.submit(&mut run);
            wait(&device, value);
        }));
        let (x, y) = (x.values::<f32>(), y.values::<f32>());
        rayons.push(time(|| y.par_iter_mut().zip(&*x).for_each(|(y, x)| *y += x)));
        vecs.push(time(|| vec_y.par_iter_mut().zip(&vec_x).for_each(|(y, x)| *y += x)));
    }
    let rate = |times: Vec<f64>| times[2..].iter().map(|time| 12.0 * N as f64 / time / 1e9).collect();
    let ours = report("add of 16 Mi floats", "GB/s", rate(ours));
    let rayon = report("  rayon, the same memory", "GB/s", rate(rayons));
    let vec = report("  rayon, its own vectors", "GB/s", rate(vecs));
    println!("{:50} {:10.1} % of rayon, {:.1} % of rayon on vectors", "", 100.0 * ours / rayon, 100.0 * ours / vec);
}
