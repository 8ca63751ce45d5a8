//! Submits one launch with two refs on the null driver, again and again: for profilers and for counting instructions.
//!
//! `cargo run --release --example submit_loop -- 1000000 1`: how many submits, and of how many launches. A third
//! argument says how many rounds of the floor to run beside them (as many as submits without it); 0 runs none, so that
//! a count of instructions counts submits alone.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use rig::{read, write};
use rig_conformance::NullOpener;

fn main() -> rig::Result<()> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let submits: u64 = arguments.next().unwrap_or(1_000_000);
    let launches: u64 = arguments.next().unwrap_or(1);
    let rounds: u64 = arguments.next().unwrap_or(submits);
    let device = rig::open(NullOpener::new("NULL"))?;
    let add = device.load(b"")?.function("add")?;
    let (x, y) = (device.buffer(4096)?, device.buffer(4096)?);
    let mut builder = device.submission();
    for _ in 0..launches {
        builder = builder.launch(&add, [read(0), write(1)]);
    }
    let mut run = builder.make()?.take();
    let start = std::time::Instant::now();
    for _ in 0..submits {
        // SAFETY: the null driver runs nothing.
        #[expect(unsafe_code, reason = "a launch")]
        unsafe {
            run.launch(&[&x, &y])?;
        }
    }
    let each = start.elapsed().as_nanos() as f64 / submits as f64;
    println!("{submits} submits of {launches} launches on {device}: {each:.1} ns each");
    if rounds > 0 {
        let floor = floor(rounds);
        println!("six uncontended atomic exchanges, which a submit cannot do without: {floor:.1} ns");
    }
    Ok(())
}

/// The time of six atomic exchanges on two lines, as the locks and the turn of a submit are.
fn floor(rounds: u64) -> f64 {
    let lines = [AtomicU64::new(0), AtomicU64::new(0)];
    let start = std::time::Instant::now();
    for round in 0..rounds {
        for exchange in 0..6 {
            black_box(lines[exchange % 2].swap(round, Ordering::AcqRel));
        }
    }
    start.elapsed().as_nanos() as f64 / rounds as f64
}
