//! What holds before a commit, beside the tests.

use crate::shell::{cargo, run as step};
use crate::{Result, licences, metal_protocols, promises, tidy};

/// Runs every check, the quick ones first.
pub fn run() -> Result {
    tidy::run()?;
    promises::run(true, false)?;
    metal_protocols::run()?;
    step(cargo().args(["fmt", "--all", "--check"]))?;
    step(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    step(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    licences::run()
}
