//! Order: two devices pass memory back and forth, and the program names no event, fence, stream or barrier.
//!
//! rig knows what each launch reads and writes, since its refs say so, and starts work only after what it must follow. So
//! the program below never waits until it reads the result, and is right all the same.
//!
//! `cargo run --release --example order`
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use rig::{Device, Run, read, write};
use rig_host::{Group, Kernels, Params};

/// The values in each buffer.
const N: usize = 1 << 20;
/// The threads of a group.
const THREADS: usize = 4096;
/// How often the memory goes to the other device and comes back.
const ROUNDS: u64 = 50;

/// to = 3 from + 1, over integers that wrap: any launch left out, done twice or done too early changes the result.
fn next(params: &Params<'_>, at: &Group) {
    let first = at.group[0] as usize * at.threads[0] as usize;
    // SAFETY: the launch has a thread for each value of slot 0, which nothing writes.
    let from: &[u64] = unsafe { params.slice(0, first, THREADS) };
    // SAFETY: and one for each of slot 1, another buffer, of which no other group touches these.
    let to: &mut [u64] = unsafe { params.slice_mut(8, first, THREADS) };
    for (from, to) in from.iter().zip(to) {
        *to = from.wrapping_mul(3).wrapping_add(1);
    }
}

/// A run of `next` on a device.
fn run_on(device: &Device) -> rig::Result<Run> {
    let next = device.load(&Kernels::new().group("next", 16, next).image())?.function("next")?;
    let mut run = device.submission().launch(&next, [read(0), write(1)]).make()?.take();
    run.part(0).groups([(N / THREADS) as u32, 1, 1]).threads([THREADS as u32, 1, 1]);
    Ok(run)
}

fn main() -> rig::Result<()> {
    let (cores, memory) = (rig::open(rig_host::cores())?, rig::open(rig_host::memory())?);
    let (mut on_cores, mut on_memory) = (run_on(&cores)?, run_on(&memory)?);
    let (a, b) = (cores.buffer(8 * N)?, cores.buffer(8 * N)?);
    let (c, d) = (memory.buffer(8 * N)?, memory.buffer(8 * N)?);
    a.write(|a: &mut [u64]| a.iter_mut().zip(0..).for_each(|(a, i)| *a = i))?;

    let mut points = Vec::new();
    for _ in 0..ROUNDS {
        // SAFETY: `next` reads the N values of slot 0 and writes the N of slot 1, and nothing else.
        points.push(unsafe { on_cores.launch(&[&a, &b])? });
        b.copy_to(&c)?;
        // SAFETY: as above.
        points.push(unsafe { on_memory.launch(&[&c, &d])? });
        d.copy_to(&a)?;
    }
    println!("{ROUNDS} rounds over {cores} and {memory}: {} launches, and not one wait", points.len());

    let mut expected: u64 = 7;
    for _ in 0..2 * ROUNDS {
        expected = expected.wrapping_mul(3).wrapping_add(1);
    }
    let value = a.read(|a: &[u64]| a[7])?;
    println!("a[7] = {value}, as it should be: {}", value == expected);

    // The read waited for all that led to its bytes, and so for every launch.
    println!(
        "all reached: {}",
        points.iter().try_fold(true, |all, point| Ok::<_, rig::Error>(all && point.reached()?))?
    );
    Ok(())
}
