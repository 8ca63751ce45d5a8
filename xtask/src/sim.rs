//! The simulation of the core: programs of several threads drawn from seeds. docs/proof.md says what it looks at.

use crate::Result;
use crate::shell::{cargo, run as step, target_of};

/// Minutes of it in `ci`.
const CI_MINUTES: f64 = 1.0;

/// How many seeds of the simulation `ci` runs at most, whatever the machine: a change fails by what it breaks, and not by how far
/// a faster machine looks.
const CI_SEEDS: u64 = 4000;

/// What a run of the simulation is asked for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Simulation {
    /// The first seed; without `--minutes`, the one to replay, with all that it does.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs seed after seed until the time is up.
    #[arg(long)]
    minutes: Option<f64>,
    /// Seeds at most, also where time is left.
    #[arg(long)]
    seeds: Option<u64>,
    /// Processes at one time.
    #[arg(long)]
    jobs: Option<usize>,
    /// Another schedule than the seed's own, as a failure names it.
    #[arg(long)]
    schedule: Option<u64>,
    /// Steps to leave out, as a failure names them.
    #[arg(long, value_name = "NUMBERS")]
    without_steps: Option<String>,
    /// Threads to leave out.
    #[arg(long, value_name = "NUMBERS")]
    without_threads: Option<String>,
    /// How many devices to leave out.
    #[arg(long, value_name = "COUNT")]
    without_devices: Option<usize>,
}

/// Runs the simulation.
pub fn run(asked: &Simulation) -> Result {
    let mut command = cargo();
    command
        .args(["test", "--release", "--package", "rig-gpu", "--test", "sim", "--target-dir"])
        .arg(target_of("shuttle"))
        .arg("--")
        .env("RUSTFLAGS", "--cfg rig_shuttle");
    let options = [
        ("--seed", asked.seed.map(|seed| seed.to_string())),
        ("--minutes", asked.minutes.map(|minutes| minutes.to_string())),
        ("--seeds", asked.seeds.map(|seeds| seeds.to_string())),
        ("--jobs", asked.jobs.map(|jobs| jobs.to_string())),
        ("--schedule", asked.schedule.map(|schedule| schedule.to_string())),
        ("--without-steps", asked.without_steps.clone()),
        ("--without-threads", asked.without_threads.clone()),
        ("--without-devices", asked.without_devices.map(|devices| devices.to_string())),
    ];
    for (name, value) in options {
        if let Some(value) = value {
            command.arg(name).arg(value);
        }
    }
    step(&mut command)
}

/// The share of it that continuous integration runs.
pub fn ci() -> Result {
    run(&Simulation { seed: Some(1), minutes: Some(CI_MINUTES), seeds: Some(CI_SEEDS), ..Simulation::default() })
}
