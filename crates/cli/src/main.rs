//! The program `rig`: lists, examines and measures the devices of the machine, and runs and traces functions of images on
//! them. It also writes what a shell and `man` want to know of it.
//!
//! One command is one process and one thread of ours. Results go to standard output, as text or (`--json`) as one JSON
//! value; what went wrong goes to standard error as one sentence, and the exit code says of which kind it is
//! ([`Error::exit_code`]).

mod arguments;
mod bench;
mod completions;
mod devices;
mod doctor;
mod element;
mod error;
mod help;
mod image;
mod man;
mod members;
mod npy;
mod open;
mod output;
mod progress;
mod run;
mod size;
mod timing;
mod trace;
mod values;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::{Program, Task};
use crate::error::Error;

fn main() -> ExitCode {
    let program = Program::parse();
    let mut out = std::io::stdout().lock();
    let done = match &program.command {
        Task::Devices(arguments) => devices::devices(arguments, &mut out).map(|()| 0),
        Task::Run(arguments) => run::run(arguments, &mut out).map(|()| 0),
        Task::Trace(arguments) => trace::trace(arguments, &mut out),
        Task::Bench(arguments) => bench::bench(arguments, &mut out).map(|()| 0),
        Task::Doctor(arguments) => doctor::doctor(arguments, &mut out),
        Task::Completions(arguments) => completions::completions(arguments, &mut out).map(|()| 0),
        Task::Man(arguments) => man::man(arguments, &mut out).map(|()| 0),
    };
    match done.and_then(|code| out.flush().map_err(Error::Print).map(|()| code)) {
        Ok(code) => ExitCode::from(code),
        // Whoever read our output has read enough.
        Err(Error::Print(why)) if why.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed too; the exit code still tells.
            let _ = writeln!(std::io::stderr(), "rig: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
