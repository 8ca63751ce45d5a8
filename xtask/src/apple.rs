//! The workspace as Apple's compiler target sees it: types and lints, with no Mac.
//!
//! rustup's targets are not everywhere to be had, and Debian's rustc comes with the source of its standard library, which
//! `-Zbuild-std` checks for any target. Nothing is linked, so Apple's SDK is not needed; the one C file on the way, that of
//! objc2's exceptions, clang compiles for that target by itself.

use crate::Result;
use crate::sanitize::{CARGO, debian, has_std_source};
use crate::shell::{found, run as step, target_of};

/// The Macs of today. What differs on x86-64 is in Apple's libraries, not in their interface.
const TARGET: &str = "aarch64-apple-darwin";

/// The packages that the check needs.
const PACKAGES: &str = "rustc-web cargo-web rust-web-src rust-web-clippy clang-19 llvm-19";

/// Why the check cannot run here, and what to do.
pub fn missing() -> Option<String> {
    let here =
        has_std_source() && found(CARGO) && found("/usr/bin/cargo-clippy") && found("clang-19") && found("llvm-ar-19");
    (!here).then(|| format!("the check for Apple's target needs Debian's packages: apt-get install {PACKAGES}"))
}

/// Checks and lints the workspace for Apple's target.
pub fn run() -> Result {
    if let Some(why) = missing() {
        return Err(why);
    }
    // clippy checks all that `check` does. Tests need their development dependencies, which fewer systems build: rig-metal's
    // are checked, since a Mac runs them.
    let clippy = |arguments: &[&str]| {
        let mut clippy = debian();
        clippy
            .arg("clippy")
            .args(arguments)
            .args(["-Zbuild-std=std,panic_abort", "--target", TARGET, "--target-dir"])
            .arg(target_of("apple"))
            .envs([("CC_aarch64_apple_darwin", "clang-19"), ("AR_aarch64_apple_darwin", "llvm-ar-19")])
            // clippy's driver must be that compiler's own.
            .env("PATH", format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default()))
            .args(["--", "-D", "warnings"]);
        step(&mut clippy)
    };
    clippy(&["--workspace"])?;
    clippy(&["--package", "rig-metal", "--all-targets"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_what_installs_it() {
        if let Some(why) = missing() {
            assert!(why.contains("apt-get install") && why.contains("rust-web-clippy"), "{why}");
        }
    }
}
