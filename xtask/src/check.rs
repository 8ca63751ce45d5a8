//! What holds before a commit, beside the tests.

use crate::shell::{cargo, run as step};
use crate::{Result, headers, licences, lock, metal_protocols, promises, tidy, unsafes};

/// Runs every check, the quick ones first.
pub fn run() -> Result {
    tidy::run()?;
    promises::run(true, false)?;
    metal_protocols::run()?;
    headers::run(true)?;
    lock::run()?;
    unsafes::run(true)?;
    step(cargo().args(["fmt", "--all", "--check"]))?;
    let models = ["--features", "rig-gpu/tracing,rig-metal/model,rig-amd/model,rig-fuzz/libfuzzer"];
    step(cargo().args(["clippy", "--workspace", "--all-targets"]).args(models).args(["--", "-D", "warnings"]))?;
    // As they are without their features, too.
    let alone = ["--package", "rig-gpu", "--package", "rig-metal", "--package", "rig-amd"];
    step(cargo().args(["clippy", "--all-targets"]).args(alone).args(["--", "-D", "warnings"]))?;
    step(cargo().args(["doc", "--workspace", "--no-deps"]).args(models).env("RUSTDOCFLAGS", "-D warnings"))?;
    licences::run()
}
