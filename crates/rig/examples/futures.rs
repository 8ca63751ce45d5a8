//! Futures: a point is awaited like anything else, on any executor, with no thread for each wait.
//!
//! One thread here serves a thousand tasks, each of which submits, awaits its own point, and submits again. rig wakes them
//! from one thread a device, which lives only while somebody waits.
//!
//! `cargo run --release --example futures`
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::executor::block_on;
use futures::future::{join_all, try_join_all};
use rig::{Device, Result, Submission, write};
use rig_host::{Group, Kernels, Params};

const TASKS: usize = 1000;
const ROUNDS: usize = 5;
/// Whether the slow kernel may go on: it takes as long as the host says.
static MAY_GO_ON: AtomicBool = AtomicBool::new(false);

/// Counts slot 0 up by one.
fn count(params: &Params<'_>, _: &Group) {
    // SAFETY: the launch has one group, and the number of slot 0 is its own.
    let x = unsafe { params.slice_mut::<u32>(0, 0, 1) };
    x[0] += 1;
}

/// Counts as well, once it may.
fn slow(params: &Params<'_>, _: &Group) {
    // SAFETY: as above.
    let x = unsafe { params.slice_mut::<u32>(0, 0, 1) };
    while !MAY_GO_ON.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    x[0] += 1;
}

/// What one task does: submit, await, look, again.
async fn task(device: &Device, count: &Submission) -> Result<u32> {
    let x = device.from_slice(&[0_u32])?;
    let mut run = count.take();
    for _ in 0..ROUNDS {
        // SAFETY: `count` reads and writes the number of slot 0, and nothing else.
        let point = unsafe { run.launch(&[&x])? };
        point.await?;
    }
    x.read(|x| x[0])
}

async fn tour(device: &Device) -> Result<()> {
    let image = device.load(&Kernels::new().group("count", 8, count).group("slow", 8, slow).image())?;
    let counting = device.submission().launch(&image.function("count")?, [write(0)]).make()?;
    let counts = try_join_all((0..TASKS).map(|_| task(device, &counting))).await?;
    println!("{TASKS} tasks of {ROUNDS} rounds on one thread: {} in all", counts.iter().sum::<u32>());

    // A wait that loses a race is cancelled by its drop, and leaves nothing behind; the work goes on.
    let x = device.from_slice(&[0_u32])?;
    let mut run = device.submission().launch(&image.function("slow")?, [write(0)]).make()?.take();
    // SAFETY: `slow` reads and writes the number of slot 0, and nothing else.
    let point = unsafe { run.launch(&[&x])? };
    let mut turns = 0_u32;
    loop {
        let mut reached = point.into_future().fuse();
        let mut other = pin!(async {}.fuse());
        futures::select_biased! {
            answer = reached => break answer?,
            () = other => {
                turns += 1;
                MAY_GO_ON.store(true, Ordering::Release);
            }
        }
    }
    println!("other work got its turn while the device was busy: {}", turns > 0);
    println!("and then the point was reached: x[0] = {}", x.read(|x| x[0])?);

    // Points of a device that is lost or closed answer Lost, to whoever awaits them.
    MAY_GO_ON.store(false, Ordering::Release);
    // SAFETY: as above.
    let points = (0..3).map(|_| unsafe { run.launch(&[&x]) }).collect::<Result<Vec<_>>>()?;
    device.close();
    let answers = join_all(points.into_iter().map(IntoFuture::into_future)).await;
    println!("after a close: {}", answers[2].as_ref().map_or_else(ToString::to_string, |()| "reached".into()));
    Ok(())
}

fn main() -> Result<()> {
    let device = rig::open(rig_host::cores())?;
    block_on(tour(&device))
}
