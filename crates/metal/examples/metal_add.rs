//! The first program: adds x to y on the Mac's GPU, and prints `y[10] = 11`.
//!
//! On a Mac it needs add.metallib, compiled of tests/kernels/add.metal, in the folder that the variable RIG_METAL_KERNELS names,
//! or else in this one: `xcrun -sdk macosx metal -o add.metallib tests/kernels/add.metal`. On x86-64 Linux it runs on software
//! Metal: `cargo run -p rig-metal --features model --example metal_add`.

use rig::{read, write};

/// The kernel's library.
#[cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
fn library() -> Vec<u8> {
    let add = include_str!("../tests/kernels/add/add.ll");
    rig_metal_model::container::pack(&[("add", add)]).expect("the kernel is right")
}

/// The kernel's library.
#[cfg(not(all(feature = "model", target_os = "linux", target_arch = "x86_64")))]
fn library() -> Vec<u8> {
    let folder = std::env::var("RIG_METAL_KERNELS").unwrap_or_else(|_| ".".into());
    let path = std::path::Path::new(&folder).join("add.metallib");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs the program; gives `y[10]`.
pub fn run() -> rig::Result<f32> {
    let device = rig::open(rig_metal::gpu(0))?;
    let n = 1024;
    let add = device.load(&library())?.function("add")?;
    let (x, y) = (device.buffer(4 * n)?, device.buffer(4 * n)?);
    x.write(|x: &mut [f32]| x.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32))?;
    y.write(|y: &mut [f32]| y.fill(1.0))?;
    let step = device.submission().launch(&add, [read(0), write(1)]).make()?;
    let mut run = step.take();
    run.part(0).groups([n as u32 / 256, 1, 1]).threads([256, 1, 1]);
    // SAFETY: add reads n floats of slot 0, reads and writes n of slot 1, and nothing else.
    #[expect(unsafe_code, reason = "a kernel is machine code")]
    unsafe {
        run.launch(&[&x, &y])?
    };
    y.read(|y: &[f32]| y[10])
}

fn main() -> rig::Result<()> {
    println!("y[10] = {}", run()?);
    Ok(())
}
