//! What a program would use in rig's place on a machine with no GPU, measured beside it in one run.
//!
//! `cargo xtask bench --peers` runs it. It prints a table, and names each peer that is not installed with what would bring it.
//! `peer` says what is measured, `measure` how; a peer is a module.

mod machine;
mod measure;
mod opencl;
mod peer;
mod rayon_peer;
mod rig_peer;
mod table;
mod wgpu_peer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use measure::Effort;
use peer::{Peer, Result};

/// Measures rig beside wgpu on lavapipe, OpenCL on PoCL, and rayon.
#[derive(Parser)]
struct Arguments {
    /// Few and short rounds, and no wait for a quiet moment: shows that all runs, and no figure to keep.
    #[arg(long)]
    quick: bool,
    /// Rounds of each line.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// How many seconds to wait for a quiet moment before each line, at most.
    #[arg(long, default_value_t = 20)]
    wait: u64,
    /// Where to write the table with what was measured, if no peer is left out.
    #[arg(long)]
    section: Option<PathBuf>,
}

/// How long a round lasts, at least.
const ROUND: Duration = Duration::from_millis(30);
/// How long a quick one lasts.
const QUICK_ROUND: Duration = Duration::from_millis(3);

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("peers: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result {
    let effort = if arguments.quick {
        Effort { rounds: 3, round: QUICK_ROUND, wait: Duration::ZERO }
    } else {
        Effort { rounds: arguments.rounds.max(1), round: ROUND, wait: Duration::from_secs(arguments.wait) }
    };
    let mut peers: Vec<Box<dyn Peer>> = vec![Box::new(rig_peer::Rig::open()?)];
    let mut left_out = Vec::new();
    match wgpu_peer::Wgpu::open()? {
        Some(wgpu) => peers.push(Box::new(wgpu)),
        None => left_out.push("wgpu on lavapipe: install lavapipe (Debian: mesa-vulkan-drivers libvulkan1)"),
    }
    match opencl::Pocl::open()? {
        Some(pocl) => peers.push(Box::new(pocl)),
        None => left_out.push("OpenCL on PoCL: install PoCL (Debian: pocl-opencl-icd ocl-icd-libopencl1)"),
    }
    peers.push(Box::new(rayon_peer::Rayon::open()));
    left_out.iter().for_each(|what| eprintln!("left out, {what}"));
    let rows = measure::all(&mut peers, effort)?;
    let section = table::section(&peers, &rows, effort.rounds);
    println!("{section}");
    table::behind(&peers, &rows).iter().for_each(|line| println!("behind: {line}"));
    match &arguments.section {
        Some(path) if left_out.is_empty() => {
            std::fs::write(path, section).map_err(|error| format!("{} cannot be written: {error}", path.display()))
        }
        _ => Ok(()),
    }
}
