//! How fast an all-reduce is: of 1 GiB, and of what a layer's gradients take, over all GPUs there are.
//!
//! `cargo run --release -p rig-nccl --example all_reduce`, on one machine or under a launcher as the example train. The figure
//! that compares over any number of ranks is the bus bandwidth, as NCCL's own tests count it: of n ranks each sends and receives
//! 2 (n - 1) / n of the bytes, so it is that times the bytes over the time.
#![expect(unsafe_code, reason = "launches fills")]

use std::error::Error;
use std::time::{Duration, Instant};

use rig::{Buffer, Device, Run};
use rig_nccl::{Options, Rank, Reduce, Type, World};

/// Bytes of each size, and how many are timed one after the other.
const SIZES: [(usize, u32); 4] = [(1 << 30, 10), (64 << 20, 50), (1 << 20, 200), (4096, 500)];
/// How often each is timed: the median counts.
const TIMES: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: first thing in main, with no other thread.
    unsafe { rig_nccl::prepare() };
    if rig_cuda::count() == 0 {
        println!("skipped: no CUDA device: NCCL works on NVIDIA's GPUs");
        return Ok(());
    }
    let world = World::from_env()?;
    let gpus = world.share(rig_cuda::count())?;
    let devices = gpus.map(|gpu| rig::open(rig_cuda::gpu(gpu))).collect::<rig::Result<Vec<Device>>>()?;
    let communicator = match rig_nccl::connect(&world, &devices, Options::default()) {
        Ok(communicator) => communicator,
        Err(rig_nccl::Error::Library(why)) => {
            println!("skipped: {why}");
            return Ok(());
        }
        Err(why) => return Err(why.into()),
    };
    let ranks: Vec<Rank> = (0..devices.len()).map(|index| communicator.rank(index)).collect();
    for (bytes, many) in SIZES {
        let buffers = devices.iter().map(|device| device.buffer(bytes)).collect::<rig::Result<Vec<Buffer>>>()?;
        for (buffer, rank) in buffers.iter().zip(&ranks) {
            buffer.copy_from_slice(&vec![rank.rank() as f32 + 1.0; bytes / 4])?;
        }
        let mut runs = Vec::new();
        for (rank, device) in ranks.iter().zip(&devices) {
            // The greatest, so that the numbers stay as they are.
            runs.push(rank.all_reduce(device.submission(), 0, 0, Type::F32, Reduce::Max).make()?.take());
        }
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..=TIMES {
            times.push(time(&mut runs, &buffers, many)? / many);
        }
        // The first is for warmth.
        times.remove(0);
        times.sort();
        let median = times[TIMES / 2];
        let due = communicator.ranks() as f32;
        for buffer in &buffers {
            let whole = buffer.read(|x: &[f32]| x.iter().all(|&x| x == due))?;
            assert!(whole, "every element is the greatest of all ranks'");
        }
        let (n, seconds) = (f64::from(communicator.ranks()), median.as_secs_f64());
        let bus = 2.0 * (n - 1.0) / n * bytes as f64 / seconds / 1e9;
        if world.process() == 0 {
            println!(
                "rig: all-reduce of {} KiB over {n} ranks: {:.1} us (least {:.1}, most {:.1}), bus bandwidth {bus:.1} GB/s",
                bytes >> 10,
                1e6 * seconds,
                1e6 * times[0].as_secs_f64(),
                1e6 * times[TIMES - 1].as_secs_f64()
            );
        }
    }
    Ok(())
}

/// How long some all-reduces take, one after the other, from the first submit to the end of the last.
fn time(runs: &mut [Run], buffers: &[Buffer], many: u32) -> rig::Result<Duration> {
    let start = Instant::now();
    let mut last = Vec::new();
    for _ in 0..many {
        last.clear();
        for (run, buffer) in runs.iter_mut().zip(buffers) {
            // SAFETY: the fill has NCCL reduce slot 0 in place, and touches nothing else.
            last.push(unsafe { run.launch(&[buffer]) }?);
        }
    }
    rig::Point::wait_all(&last)?;
    Ok(start.elapsed())
}
