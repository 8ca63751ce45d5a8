//! The first program: y = x + y on the cores of this machine, with a kernel that is a Rust function, so that it needs no
//! compiler, no GPU and no driver.
//!
//! `cargo run --release --example add`
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use rig::{read, write};
use rig_host::{Group, Kernels, Params};

/// A group takes as many floats as it has threads.
fn add(params: &Params<'_>, at: &Group) {
    let threads = at.threads[0] as usize;
    let first = at.group[0] as usize * threads;
    // SAFETY: the launch has a thread for each float of slot 0, which nothing writes.
    let x: &[f32] = unsafe { params.slice(0, first, threads) };
    // SAFETY: and one for each of slot 1, of which no other group touches these.
    let y: &mut [f32] = unsafe { params.slice_mut(8, first, threads) };
    for (x, y) in x.iter().zip(y) {
        *y += x;
    }
}

fn main() -> rig::Result<()> {
    let device = rig::open(rig_host::cores())?;
    // An image of the function: 16 bytes of parameters, two addresses.
    let image = Kernels::new().group("add", 16, add).image();
    let add = device.load(&image)?.function("add")?;

    let n = 1024;
    let (x, y) = (device.buffer(4 * n)?, device.buffer(4 * n)?);
    x.write(|x: &mut [f32]| x.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32))?;
    y.write(|y: &mut [f32]| y.fill(1.0))?;

    // Made once, and run any number of times, each time with the buffers of your choice.
    let step = device.submission().launch(&add, [read(0), write(1)]).make()?;
    let mut run = step.take();
    run.part(0).groups([n as u32 / 256, 1, 1]).threads([256, 1, 1]);
    // SAFETY: add reads n floats of slot 0, reads and writes n of slot 1, and nothing else.
    unsafe { run.launch(&[&x, &y])? };

    // The read waits for the launch, because the launch writes y.
    y.read(|y: &[f32]| println!("y[10] = {} on {device}", y[10]))
}
