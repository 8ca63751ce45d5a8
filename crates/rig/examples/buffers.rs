//! Memory: closures over a buffer's bytes, views, copies, and what becomes of a buffer that is dropped.
//!
//! `cargo run --release --example buffers`

use rig::{Buffer, Device, Error};

fn main() -> rig::Result<()> {
    let device = rig::open(rig_host::cores())?;

    // A buffer is bytes. A closure gets them as values of any plain type, once no work stands in its way.
    let squares = device.buffer(4 * 1000)?;
    squares.write(|values: &mut [u32]| values.iter_mut().zip(0..).for_each(|(value, i)| *value = i * i))?;
    let sum: u32 = squares.read(|values: &[u32]| values.iter().sum())?;
    println!("the squares below 1000 add up to {sum}");

    // A view is another handle to a part of the same memory: work through either is ordered with work through the other.
    let last = squares.view(4 * 990..4 * 1000)?;
    last.memset(0)?;
    println!("without the last ten: {}", total(&squares)?);

    // Copies work between any two buffers of the same length, on one device or on two.
    let memory = rig::open(rig_host::memory())?;
    let elsewhere = memory.buffer(squares.len())?;
    let copied = squares.copy_to(&elsewhere)?;
    println!("on {memory}: {}, copied by way of {:?}", total(&elsewhere)?, copied.path);

    // A mistake is an error that says what is wrong, and changes nothing.
    if let Err(Error::Invalid(why)) = squares.view(3996..4004) {
        println!("invalid: {why}");
    }
    if let Err(Error::Invalid(why)) = squares.view(0..6)?.read(|values: &[u32]| values.len()) {
        println!("invalid: {why}");
    }

    // Dropping never waits. The memory goes to the device's cache once no work uses it, and from there to new buffers.
    let large = device.buffer(64 << 20)?;
    large.memset(1)?;
    println!("all bytes set: {}", large.read(|bytes: &[u8]| bytes.iter().all(|&byte| byte == 1))?);
    show(&device);
    drop(large);
    show(&device);
    let again = device.buffer(64 << 20)?;
    show(&device);

    // What does not fit the budget is an error only after all that can come back has come back.
    device.set_budget(100 << 20);
    match device.buffer(64 << 20) {
        Err(Error::OutOfMemory { bytes }) => println!("no room for {} MiB more in a budget of 100", bytes >> 20),
        other => println!("unexpected: {other:?}"),
    }
    drop(again);
    device.buffer(96 << 20)?;
    println!("once the other is dropped, 96 MiB fit");
    Ok(())
}

fn total(values: &Buffer) -> rig::Result<u32> {
    values.read(|values: &[u32]| values.iter().sum())
}

fn show(device: &Device) {
    println!("in use {} MiB, cached {} MiB", device.allocated() >> 20, device.cached() >> 20);
}
