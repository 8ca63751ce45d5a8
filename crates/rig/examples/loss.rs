//! Loss: a device faults, and the program sees one clear state: no hang, no panic, and nothing of the others lost.
//!
//! The fault here is a panic in a kernel. A GPU that reports a fault, falls off the bus or hangs ends in the same state.
//!
//! `cargo run --release --example loss`
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use rig::{Buffer, Device, Point, Submission, write};
use rig_host::{Group, Kernels, Params};

/// Counts x down to its square root, and panics over what has none.
fn root(params: &Params<'_>, _: &Group) {
    // SAFETY: the launch has one group, and the float of slot 0 is its own.
    let x = unsafe { params.slice_mut::<f32>(0, 0, 1) };
    assert!(x[0] >= 0.0, "{} has no square root", x[0]);
    x[0] = x[0].sqrt();
}

fn root_on(device: &Device) -> rig::Result<Submission> {
    let root = device.load(&Kernels::new().group("root", 8, root).image())?.function("root")?;
    device.submission().launch(&root, [write(0)]).make()
}

fn launch(root: &Submission, x: &Buffer) -> rig::Result<Point> {
    // SAFETY: `root` reads and writes one float of slot 0, and nothing else; one group of one thread is what a run starts
    // with.
    unsafe { root.take().launch(&[x]) }
}

fn float(device: &Device, value: f32) -> rig::Result<Buffer> {
    let buffer = device.buffer(4)?;
    buffer.copy_from_slice(&[value])?;
    Ok(buffer)
}

fn main() -> rig::Result<()> {
    // The panic's own message goes to standard error, as that of any panic; here it would only repeat what rig says.
    std::panic::set_hook(Box::new(|_| {}));
    let (cores, memory) = (rig::open(rig_host::cores())?, rig::open(rig_host::memory())?);
    let on_cores = root_on(&cores)?;
    let (good, bad) = (float(&cores, 9.0)?, float(&cores, -1.0)?);

    let first = launch(&on_cores, &good)?;
    first.wait()?;
    let second = launch(&on_cores, &bad)?;
    println!("the wait answers: {}", answer(second.wait()));
    println!("and so does every call: {}", answer(cores.buffer(4)));
    println!("also a read of what the work wrote: {}", answer(bad.read(|x: &[f32]| x[0])));
    println!("the first reason is kept: {}", cores.lost().as_deref().unwrap_or("none"));
    println!("what was reached stays reached: {}", first.reached()?);

    // Other devices go on.
    let four = float(&memory, 16.0)?;
    launch(&root_on(&memory)?, &four)?;
    println!("{memory} goes on: the root of 16 is {}", four.read(|x: &[f32]| x[0])?);

    // The same hardware opens again at once. The lost device's handles may still be there.
    let again = rig::open(rig_host::cores())?;
    let three = float(&again, 9.0)?;
    launch(&root_on(&again)?, &three)?;
    println!("{again} is open again: the root of 9 is {}", three.read(|x: &[f32]| x[0])?);
    Ok(())
}

fn answer<T>(result: rig::Result<T>) -> String {
    result.map_or_else(|error| error.to_string(), |_| "done".into())
}
