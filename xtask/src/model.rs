//! The core's protocol under shuttle: the locks, atomics and threads of rig and rig-edge are those of shuttle, which runs
//! the tests over and over with other schedules.

use crate::Result;
use crate::shell::{cargo, target_of};
use crate::test::counted;

/// Runs the tests that are made for it.
pub fn run(arguments: &[String]) -> Result {
    counted(
        cargo()
            .args(["test", "--release", "--package", "rig-gpu", "--test", "shuttle", "--target-dir"])
            .arg(target_of("shuttle"))
            .arg("--")
            .args(arguments)
            .env("RUSTFLAGS", "--cfg rig_shuttle"),
    )
}
