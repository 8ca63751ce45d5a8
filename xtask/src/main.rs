//! rig's own tasks: `cargo xtask TASK`. Continuous integration runs `ci` and nothing else, so anyone can.
//!
//! A task is a module. It prints each command before it runs it, so that one can be run again by hand. What a task needs
//! and does not find is named, with how to install it; `ci` goes on without it, and says what it left out.

mod apple;
mod bench;
mod check;
mod ci;
mod device;
mod fuzz;
mod headers;
mod instructions;
mod licences;
mod llvm;
mod lock;
mod metal;
mod metal_protocols;
mod model;
mod pages;
mod peers;
mod promises;
mod sanitize;
mod shell;
mod sim;
mod soak;
mod sources;
mod test;
mod tidy;
mod unsafes;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What every task answers: nothing, or one sentence that says what to do.
type Result<T = ()> = std::result::Result<T, String>;

/// rig's own tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, lints, documentation, tidiness, licences, and whether docs/promises.md is current.
    Check,
    /// Every test and documentation example of the workspace.
    Test {
        /// What to hand to cargo test: `-p rig-host`, or the name of a test.
        arguments: Vec<String>,
    },
    /// The benches, and their medians in one table.
    Bench {
        /// Benches to run: a part of their names. All where there is none.
        names: Vec<String>,
        /// In their place, rig beside wgpu on lavapipe, OpenCL on PoCL, and rayon: a table, which docs/performance.md gets.
        #[arg(long, conflicts_with = "names")]
        peers: bool,
        /// With few and short rounds, to see that all runs: writes nothing.
        #[arg(long, requires = "peers")]
        quick: bool,
    },
    /// The core under randomised scheduling (shuttle).
    #[command(alias = "loom", alias = "shuttle")]
    Model {
        /// What to hand to the tests: the name of one.
        arguments: Vec<String>,
    },
    /// The tests of every crate under a sanitizer, with the standard library instrumented too.
    Sanitize {
        /// Which sanitizer.
        #[arg(value_enum, default_value = "thread")]
        sanitizer: sanitize::Sanitizer,
        /// What to hand to cargo test in their place.
        arguments: Vec<String>,
    },
    /// The workspace checked and linted for Apple's target, with no Mac.
    Apple,
    /// On a Mac: compiles the kernels of the Metal driver's tests with Apple's compiler, and runs all of its tests on the GPU.
    Metal {
        /// What to hand to cargo test: the name of a test.
        arguments: Vec<String>,
    },
    /// Builds what a machine with a GPU runs, and puts it in a folder with one script that runs it there.
    Device,
    /// Every parser of foreign bytes under libFuzzer.
    Fuzz {
        /// Seconds for each target; 60 where nothing is said.
        #[arg(long)]
        seconds: Option<u64>,
        /// Merges what is found into the corpus of the repository.
        #[arg(long)]
        keep: bool,
        /// Targets: all where there is none.
        targets: Vec<String>,
    },
    /// How many instructions a submit takes, against its bounds (callgrind).
    Instructions,
    /// Writes beside each promise in docs/promises.md the tests that show it.
    Promises {
        /// Writes nothing, and fails where the file is not current.
        #[arg(long)]
        check: bool,
        /// Lists the promises that no test shows.
        #[arg(long)]
        missing: bool,
    },
    /// Writes the headers for C of their definitions in Rust.
    Headers {
        /// Writes nothing, and fails where one is not current.
        #[arg(long)]
        check: bool,
    },
    /// The commands of the README and the guide, as a reader runs them.
    Pages,
    /// Whether software Metal's protocols are objc2-metal's.
    MetalProtocols,
    /// Writes in docs/soundness.md how much unsafe code each crate has.
    Unsafe {
        /// Writes nothing, and fails where the page is not current.
        #[arg(long)]
        check: bool,
    },
    /// The simulation: programs of several threads on model devices, each from a seed, checked over all that happened.
    Sim(sim::Simulation),
    /// A mixed load of real threads, with memory that stays flat and handles that all come back.
    Soak {
        /// For how long.
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// On which devices.
        #[arg(long, value_enum, default_value = "core")]
        on: soak::On,
    },
    /// What the compiler does not look at: sizes, tags, banned calls, links, and which crate depends on which.
    Tidy,
    /// Everything that continuous integration runs.
    Ci {
        /// Steps to leave out, by name.
        #[arg(long)]
        skip: Vec<String>,
    },
}

fn main() -> ExitCode {
    let answer = match Arguments::parse().task {
        Task::Check => check::run(),
        Task::Test { arguments } => test::run(&arguments),
        Task::Bench { peers: true, quick, .. } => peers::run(quick),
        Task::Bench { names, .. } => bench::run(&names),
        Task::Model { arguments } => model::run(&arguments),
        Task::Sanitize { sanitizer, arguments } => sanitize::run(sanitizer, &arguments),
        Task::Apple => apple::run(),
        Task::Metal { arguments } => metal::run(&arguments),
        Task::Device => device::device(),
        Task::Fuzz { seconds, keep, targets } => fuzz::run(seconds, keep, &targets),
        Task::Instructions => instructions::run(),
        Task::Promises { check, missing } => promises::run(check, missing),
        Task::Headers { check } => headers::run(check),
        Task::Pages => pages::run(),
        Task::MetalProtocols => metal_protocols::run(),
        Task::Sim(asked) => sim::run(&asked),
        Task::Soak { minutes, on } => soak::run(on, minutes),
        Task::Tidy => tidy::run(),
        Task::Unsafe { check } => unsafes::run(check),
        Task::Ci { skip } => ci::run(&skip),
    };
    match answer {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
