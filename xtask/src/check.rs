//! What holds before a commit, beside the tests.

use crate::shell::{cargo, run as step};
use crate::{Result, licences, metal_protocols, promises, tidy};

/// Runs every check, the quick ones first.
pub fn run() -> Result {
    tidy::run()?;
    promises::run(true, false)?;
    metal_protocols::run()?;
    step(cargo().args(["fmt", "--all", "--check"]))?;
    let models = ["--features", "rig-metal/model,rig-amd/model"];
    step(cargo().args(["clippy", "--workspace", "--all-targets"]).args(models).args(["--", "-D", "warnings"]))?;
    // As they are without their models, too.
    let drivers = ["--package", "rig-metal", "--package", "rig-amd"];
    step(cargo().args(["clippy", "--all-targets"]).args(drivers).args(["--", "-D", "warnings"]))?;
    step(cargo().args(["doc", "--workspace", "--no-deps"]).args(models).env("RUSTDOCFLAGS", "-D warnings"))?;
    licences::run()
}
