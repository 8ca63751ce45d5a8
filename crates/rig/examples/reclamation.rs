//! Reclamation: memory comes back without a free, whatever still uses it, and a shortage is an ordinary error.
//!
//! `cargo run --release --example reclamation`
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use std::sync::{Arc, Barrier};

use rig::{Device, Run, read, write};
use rig_host::Kernels;

const MIB: usize = 1 << 20;
const BUDGET: u64 = 16 << 20;
/// The bytes of the buffer that is dropped while work uses it.
const LEN: usize = 8 * MIB;

/// A run of a kernel that adds up the bytes of slot 0 into slot 1, once the host has met it at the gate.
fn sum_on(device: &Device, gate: &Arc<Barrier>) -> rig::Result<Run> {
    let gate = Arc::clone(gate);
    let kernels = Kernels::new().group("sum", 16, move |params, _| {
        gate.wait();
        // SAFETY: slot 0 holds so many bytes, and nothing writes them.
        let bytes: &[u8] = unsafe { params.slice(0, 0, LEN) };
        // SAFETY: slot 1 holds a number, and the launch has one group.
        let sum: &mut [u64] = unsafe { params.slice_mut(8, 0, 1) };
        sum[0] = bytes.iter().map(|&byte| u64::from(byte)).sum();
    });
    let sum = device.load(&kernels.image())?.function("sum")?;
    Ok(device.submission().launch(&sum, [read(0), write(1)]).make()?.take())
}

fn show(when: &str, device: &Device) {
    println!("{when}: {} MiB in use, {} MiB cached", device.allocated() >> 20, device.cached() >> 20);
}

fn main() -> rig::Result<()> {
    let device = rig::open(rig_host::cores())?;
    device.set_budget(BUDGET);

    // A drop never waits. Work that uses the memory keeps it.
    let gate = Arc::new(Barrier::new(2));
    let mut run = sum_on(&device, &gate)?;
    let (bytes, sum) = (device.buffer(LEN)?, device.buffer(8)?);
    bytes.memset(3)?;
    // SAFETY: `sum` reads the bytes of slot 0 and writes the number of slot 1, and nothing else.
    let point = unsafe { run.launch(&[&bytes, &sum])? };
    drop(bytes);
    show("dropped before the work began", &device);
    gate.wait();
    point.wait()?;
    println!("the work had its bytes all the same: {}", sum.read(|sum: &[u64]| sum[0] == 3 * LEN as u64)?);

    // Once the work is done the memory is in the device's cache, from where the next buffer of about its size takes it.
    show("after the work", &device);
    let again = device.buffer(LEN)?;
    show("a buffer of the same size", &device);

    // What does not fit is an error like any other: nothing has changed, and the work that is under way goes on.
    again.memset(7)?;
    match device.buffer(12 * MIB) {
        Err(error) => println!("with {} MiB of 16 in use, 12 more are refused: {error}", LEN / MIB),
        Ok(_) => println!("unexpected: 20 MiB fit into 16"),
    }
    println!("the other buffer is as it was: {}", again.read(|bytes: &[u8]| bytes.iter().all(|&byte| byte == 7))?);
    // The cache is no obstacle: it goes back to the driver where a larger buffer needs its room.
    drop(again);
    let large = device.buffer(12 * MIB)?;
    show("12 MiB once the other is dropped", &device);
    drop(large);

    // A hundred times the budget. Each buffer is dropped right after its submit, so an allocation that finds no room waits
    // for the work of earlier ones.
    let mut run = device.submission().memset(0, 1).make()?.take();
    let (mut buffers, mut total, mut most) = (0_usize, 0, 0);
    let last = loop {
        let buffer = device.buffer((1 + buffers % 4) * MIB)?;
        let point = run.submit(&[&buffer])?;
        buffers += 1;
        total += buffer.len() as u64;
        // In this order: what goes from use to the cache between the two is not counted twice.
        most = most.max(device.cached() + device.allocated());
        if total >= 100 * BUDGET {
            break point;
        }
    };
    println!("{buffers} buffers, {} MiB in all, never above the budget: {}", total / MIB as u64, most <= BUDGET);

    // A lower budget gives the cache back to the driver at once.
    last.wait()?;
    device.set_budget(BUDGET / 16);
    show("under a budget of 1 MiB", &device);
    Ok(())
}
