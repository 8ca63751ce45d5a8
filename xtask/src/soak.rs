//! The soak: a mixed load of real threads that must leave nothing behind. docs/proof.md says what it looks at.

use clap::ValueEnum;

use crate::shell::{cargo, run as step};
use crate::{Result, llvm};

/// Minutes of it in `ci`.
const CI_MINUTES: f64 = 1.0;

/// What the load runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// The host's cores, its memory, and model devices.
    Core,
    /// AMD's driver on the software GPU.
    Amd,
    /// Metal's driver on software Metal.
    Metal,
    /// CUDA's driver on this machine's GPUs.
    Cuda,
}

impl On {
    /// The package whose test `soak` it is, with the features that the test needs.
    fn package(self) -> &'static [&'static str] {
        match self {
            On::Core => &["rig-gpu"],
            On::Amd => &["rig-amd", "--features", "model"],
            On::Metal => &["rig-metal", "--features", "model"],
            On::Cuda => &["rig-cuda"],
        }
    }
}

/// Runs the soak for so many minutes.
pub fn run(on: On, minutes: f64) -> Result {
    if let Some(why) = llvm::missing().filter(|_| on == On::Metal) {
        return Err(why);
    }
    let mut command = cargo();
    command.args(["test", "--release", "--package"]).args(on.package());
    step(command.args(["--test", "soak", "--", "--minutes", &minutes.to_string()]))
}

/// The share of it that continuous integration runs.
pub fn ci() -> Result {
    run(On::Core, CI_MINUTES)
}
