//! The tests of the core and of the host's devices under a sanitizer.
//!
//! The sanitizers are not part of stable Rust, and without an instrumented standard library ThreadSanitizer reports
//! races that are none. Debian packages a rustc with its standard library's source, whose unstable options
//! `RUSTC_BOOTSTRAP` opens, and a clang of the same LLVM, whose runtime is linked.

use std::path::Path;
use std::process::Command;

use clap::ValueEnum;

use crate::Result;
use crate::shell::{command, found, output, target_of};
use crate::test::counted;

/// Debian's compiler, wherever another is first on the path.
pub const RUSTC: &str = "/usr/bin/rustc";
/// The cargo of the same release.
pub const CARGO: &str = "/usr/bin/cargo";
/// The clang whose runtime is linked.
const CLANG: &str = "clang-19";
/// The packages that hold them.
const PACKAGES: &str = "rustc-web cargo-web rust-web-src clang-19 libclang-rt-19-dev";

/// The core's tests: those of rig and of its driver interface, with the model device and the cores device.
///
/// Left out are the examples' tests, which build with the program's own cargo, and the two that count what the heap holds,
/// which a sanitizer's heap does not tell; and two by name: one bounds processor time, of which a sanitizer takes its own,
/// and one forgets handles on purpose, which the search for leaks finds.
const CORE: [&str; 19] = [
    "--no-fail-fast",
    "--package",
    "rig-gpu",
    "--package",
    "rig-edge",
    "--lib",
    "--test",
    "invalid",
    "--test",
    "many",
    "--test",
    "model",
    "--test",
    "reach",
    "--",
    "--skip",
    "a_second_of_waiting_costs_little_processor_time",
    "--skip",
    "handles_drop_in_any_order_and_may_be_forgotten",
];

/// The tests of the host's devices, but one: a sanitizer catches the hardware's faults before the process dies of them.
const HOST: [&str; 7] = [
    "--no-fail-fast",
    "--package",
    "rig-host",
    "--tests",
    "--",
    "--skip",
    "a_hardware_fault_of_a_kernel_ends_the_process",
];

/// What ThreadSanitizer runs of them: the driver and its pool. It keeps a stack of calls for each thread, which coroutines and
/// code that it did not compile leave wrong.
const HOST_THREADS: [&str; 7] = ["--package", "rig-host", "--test", "host", "--", "driver", "pool"];

/// A sanitizer.
#[derive(Clone, Copy, ValueEnum)]
pub enum Sanitizer {
    /// Finds data races.
    Thread,
    /// Finds uses of memory that is not there.
    Address,
}

/// Why no sanitizer can run here, and what to do.
pub fn missing() -> Option<String> {
    let here = has_std_source() && found(CARGO) && found(CLANG);
    (!here).then(|| format!("the sanitizers need Debian's packages: apt-get install {PACKAGES}"))
}

/// Whether Debian's compiler is here with the source of its standard library.
pub fn has_std_source() -> bool {
    output(command(RUSTC).args(["--print", "sysroot"]), false)
        .is_ok_and(|sysroot| Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/std").exists())
}

/// Debian's cargo with its unstable options opened.
pub fn debian() -> Command {
    let mut cargo = command(CARGO);
    cargo
        .envs([("RUSTC_BOOTSTRAP", "1"), ("RUSTC", RUSTC)])
        // The cargo that runs this task names its own libraries and toolchain in these.
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    cargo
}

/// Runs tests under a sanitizer.
pub fn run(sanitizer: Sanitizer, arguments: &[String]) -> Result {
    if let Some(why) = missing() {
        return Err(why);
    }
    let name = match sanitizer {
        Sanitizer::Thread => "thread",
        Sanitizer::Address => "address",
    };
    let flags = format!("-Zsanitizer={name} -Zexternal-clangrt -Clinker={CLANG} -Clink-arg=-fsanitize={name}");
    let test = || with_debian(&target_of(name), &flags);
    if !arguments.is_empty() {
        return counted(test().args(arguments));
    }
    counted(test().args(CORE))?;
    counted(test().args(match sanitizer {
        Sanitizer::Thread => HOST_THREADS,
        Sanitizer::Address => HOST,
    }))
}

/// A cargo test of Debian's, which builds the standard library too.
fn with_debian(target: &Path, flags: &str) -> Command {
    let mut cargo = debian();
    cargo
        .args(["test", "-Zbuild-std", "--target", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)])
        .arg("--target-dir")
        .arg(target)
        .env("RUSTFLAGS", flags);
    cargo
}
