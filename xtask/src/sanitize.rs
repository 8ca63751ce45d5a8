//! The tests under a sanitizer: those of every crate that share memory between threads or touch it by address.
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

/// Tests of some packages.
struct Suite {
    /// What cargo test is told: packages, features, and which of their programs.
    tests: &'static str,
    /// What those programs are told: names of tests, and names to skip.
    names: &'static str,
}

/// The core and the driver interface, with the model device and the cores device.
///
/// Left out are the examples' tests, which build with the program's own cargo, and those that count what the heap holds, which a
/// sanitizer's heap does not tell; and two by name: one bounds processor time, of which a sanitizer takes its own, and one forgets
/// handles on purpose, which the search for leaks finds.
const CORE: Suite = Suite {
    tests: "-p rig-gpu -p rig-edge --lib --test invalid --test many --test model --test reach",
    names: "--skip a_second_of_waiting_costs_little_processor_time --skip handles_drop_in_any_order_and_may_be_forgotten",
};

/// The host's devices, but one test: a sanitizer catches the hardware's faults before the process dies of them.
const HOST: Suite =
    Suite { tests: "-p rig-host --tests", names: "--skip a_hardware_fault_of_a_kernel_ends_the_process" };

/// Continuous integration's share of them: the suite with kernels in Rust, and not in machine code again.
const HOST_SHARE: Suite = Suite {
    tests: "-p rig-host --tests",
    names: "--skip a_hardware_fault_of_a_kernel_ends_the_process --skip cores_device_machine_code",
};

/// What ThreadSanitizer runs of them: the driver and its pool. It keeps a stack of calls for each thread, which coroutines and
/// code that it did not compile leave wrong.
const HOST_THREADS: Suite = Suite { tests: "-p rig-host --test host", names: "driver pool" };

/// The model device and the suite's own tests, but the soak's: see [`AMD`].
const MODEL: Suite = Suite { tests: "-p rig-conformance --tests", names: "--skip soak" };

/// The AMD driver on the software GPU, and that GPU. Left out is the soak, which looks at resident memory: a sanitizer keeps what is
/// freed for a while.
const AMD: Suite = Suite { tests: "-p rig-amd --features rig-amd/model --tests", names: "--skip soak_of" };
const AMD_MODEL: Suite = Suite { tests: "-p rig-amd-model --tests", names: "" };

/// What ThreadSanitizer runs of the driver: what several threads do at once, and what a fault meets them with. It slows the software
/// GPU down, which runs every instruction of every kernel; and millions of live buffers take more of its memory than of its time.
const AMD_THREADS: Suite = Suite {
    tests: "-p rig-amd --features rig-amd/model --test waits --test queues --test faults --test scratch --test conformance",
    names: "threads reclamation reports stop failure every_sleeping functions_are_resolved --skip millions_of_tiny_buffers",
};

/// The CUDA driver without a GPU, and collectives by the stand-in for NCCL, in processes of their own too.
const NVIDIA: Suite = Suite { tests: "-p rig-cuda -p rig-nccl -p rig-nccl-model --tests", names: "" };

/// The Metal driver on software Metal, whose kernels are machine code that no sanitizer sees. Left out are the kernels whose threads
/// meet at barriers, which are fibers on stacks of their own, and software Metal itself.
const METAL: Suite = Suite {
    tests: "-p rig-metal --features rig-metal/model --test threads --test failure --test stop --test work",
    names: "",
};

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

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Sanitizer::Thread => "thread",
            Sanitizer::Address => "address",
        }
    }

    /// What it runs.
    fn suites(self) -> &'static [Suite] {
        match self {
            Sanitizer::Thread => &[CORE, HOST_THREADS, MODEL, AMD_THREADS, NVIDIA, METAL],
            Sanitizer::Address => &[CORE, HOST, MODEL, AMD, AMD_MODEL, NVIDIA, METAL],
        }
    }

    /// Continuous integration's share: the core, and the host's devices.
    fn share(self) -> &'static [Suite] {
        match self {
            Sanitizer::Thread => &[CORE, HOST_THREADS],
            Sanitizer::Address => &[CORE, HOST_SHARE],
        }
    }
}

/// Runs every suite under a sanitizer, or in their place what cargo test is told to.
pub fn run(sanitizer: Sanitizer, arguments: &[String]) -> Result {
    if let Some(why) = missing() {
        return Err(why);
    }
    if !arguments.is_empty() {
        return counted(cargo_test(sanitizer).args(arguments));
    }
    sanitizer.suites().iter().try_for_each(|suite| run_suite(sanitizer, suite))
}

/// Runs continuous integration's share under a sanitizer.
pub fn ci(sanitizer: Sanitizer) -> Result {
    if let Some(why) = missing() {
        return Err(why);
    }
    sanitizer.share().iter().try_for_each(|suite| run_suite(sanitizer, suite))
}

fn run_suite(sanitizer: Sanitizer, suite: &Suite) -> Result {
    counted(
        cargo_test(sanitizer)
            .arg("--no-fail-fast")
            .args(suite.tests.split(' '))
            .arg("--")
            .args(suite.names.split_whitespace()),
    )
}

/// A cargo test of Debian's, which builds the standard library too, all of it for the sanitizer.
fn cargo_test(sanitizer: Sanitizer) -> Command {
    let name = sanitizer.name();
    let mut cargo = debian();
    cargo
        .args(["test", "-Zbuild-std", "--target", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)])
        .arg("--target-dir")
        .arg(target_of(name))
        .env(
            "RUSTFLAGS",
            // rustix calls the system by the C library: a sanitizer sees memory that is mapped and unmapped there alone.
            format!(
                "-Zsanitizer={name} -Zexternal-clangrt -Clinker={CLANG} -Clink-arg=-fsanitize={name} --cfg=rustix_use_libc"
            ),
        );
    cargo
}
