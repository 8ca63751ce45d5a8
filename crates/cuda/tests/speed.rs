//! What a submission costs the host beside the same launches by hand, in one process.

#[expect(dead_code, reason = "each test binary uses some of it")]
mod gpu;
#[expect(dead_code, reason = "the bench uses more of it")]
#[path = "../benches/raw/mod.rs"]
mod raw;

use std::time::{Duration, Instant};

use gpu::{device, launch};
use rig::{Buffer, read, write};

const LAUNCHES: usize = 16;
const POOL: usize = 128;

/// The median time of some rounds.
fn median(mut round: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..51).map(|_| round()).collect();
    times.sort();
    times[times.len() / 2]
}

/// Promise N04.
#[test]
fn sixteen_launches_with_new_buffers_cost_at_most_half_of_sixteen_by_hand() {
    let Some(device) = device() else { return };
    let program = raw::Program::new(gpu::SUITE);
    let memory: Vec<u64> = (0..POOL).map(|_| program.memory(4096)).collect();
    let pool: Vec<Buffer> = (0..POOL).map(|_| device.buffer(4096).unwrap()).collect();
    let add = device.load(gpu::SUITE).unwrap().function("add").unwrap();
    let builder = (0..LAUNCHES as u32)
        .fold(device.submission(), |builder, i| builder.launch(&add, [read(2 * i), write(2 * i + 1)]).params(20));
    let mut run = builder.make().unwrap().take();
    for i in 0..LAUNCHES {
        run.part(i).groups([4, 1, 1]).threads([256, 1, 1]).set(16, 1024_u32);
    }
    let mut from = 0;
    let mut buffers = Vec::with_capacity(2 * LAUNCHES);
    let mut rig = || {
        from += 2 * LAUNCHES + 1;
        buffers.clear();
        buffers.extend((0..2 * LAUNCHES).map(|i| &pool[(from + i) % POOL]));
        let start = Instant::now();
        let point = launch(&mut run, &buffers).unwrap();
        let took = start.elapsed();
        point.wait().unwrap();
        took
    };
    for _ in 0..20 {
        rig();
    }
    let rig = median(rig);
    let by_hand = median(|| {
        from += 2 * LAUNCHES + 1;
        let start = Instant::now();
        for i in 0..LAUNCHES {
            let at = |i: usize| memory[(from + i) % POOL];
            program.add(program.stream, at(2 * i), at(2 * i + 1));
        }
        let took = start.elapsed();
        program.synchronize(program.stream);
        took
    });
    println!("{LAUNCHES} launches: rig {rig:?}, by hand {by_hand:?}");
    assert!(rig <= by_hand / 2);
}
