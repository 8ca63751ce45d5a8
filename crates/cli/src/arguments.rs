//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use crate::members::Members;
use crate::{help, output, size};

/// Lists, examines and measures the devices of this machine, and runs and traces functions of images on them.
#[derive(Debug, Parser)]
#[command(name = "rig", version, max_term_width = 100, after_long_help = help::text("rig"))]
pub struct Program {
    /// What to do.
    #[command(subcommand)]
    pub command: Task,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Lists every device that opens, with its facts, and why the others do not
    Devices(Devices),
    /// Runs a function of an image on a device
    #[command(after_long_help = help::text("run"))]
    Run(Run),
    /// Traces a function of an image, or any program that uses rig
    #[command(after_long_help = help::text("trace"))]
    Trace(Trace),
    /// Measures launches, waits, copies and cached memory on every device that opens
    #[command(after_long_help = help::text("bench"))]
    Bench(Bench),
    /// Says which drivers work here, and what keeps the others from it and mends that
    #[command(after_long_help = help::text("doctor"))]
    Doctor(Doctor),
    /// Prints a script that lets a shell complete rig's commands, options, devices and files
    #[command(after_long_help = help::text("completions"))]
    Completions(Completions),
    /// Prints a man page, or writes them all to a folder
    #[command(after_long_help = help::text("man"))]
    Man(Man),
}

/// `rig devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `rig run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The image: a binary for the device, such as an object that a compiler made for the host's cores
    #[arg(value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
    /// The function of the image
    #[arg(value_hint = ValueHint::Other)]
    pub function: String,
    /// The device, by its name in `rig devices`; without it, the first that opens of those that the image is for
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// The groups along each axis
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = size::parse_axes, value_hint = ValueHint::Other)]
    pub grid: [u32; 3],
    /// The threads of a group along each axis
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = size::parse_axes, default_value = "1", value_hint = ValueHint::Other)]
    pub group: [u32; 3],
    /// The bytes of memory that the threads of each group share, beside what the function declares
    #[arg(long, value_name = "BYTES", value_parser = size::parse_u32, default_value = "0", value_hint = ValueHint::Other)]
    pub group_memory: u32,
    /// The buffers and scalars.
    #[command(flatten)]
    pub members: Members,
    /// Write a buffer to a file once the function has run, as raw values or as .npy; without a slot, the last buffer
    /// that the function may write
    #[arg(long, value_name = "[SLOT:]FILE", value_parser = output::parse, value_hint = ValueHint::FilePath)]
    pub out: Vec<output::Output>,
    /// Print the first N values of every buffer that the function may write
    #[arg(long, value_name = "N", value_parser = size::parse, value_hint = ValueHint::Other)]
    pub print: Option<u64>,
    /// Run N times, each on what the one before left, and print the median and the spread of the times, each from the
    /// launch to the end of the wait for it
    #[arg(long, value_name = "N", value_parser = repeats, value_hint = ValueHint::Other)]
    pub repeat: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `rig trace`.
#[derive(Debug, Args)]
#[command(
    override_usage = "rig trace [--to <FILE>]... <IMAGE> <FUNCTION> --grid <X[,Y[,Z]]> [OPTIONS OF RIG RUN]\n       \
                            rig trace [--to <FILE>]... -- <PROGRAM> [ARGUMENT]..."
)]
pub struct Trace {
    /// Write the trace to a file: a page for any browser (.html), a text (.txt), or a Chrome trace for Perfetto (.json and any
    /// other); may be given several times
    #[arg(long, value_name = "FILE", default_value = "trace.html", value_hint = ValueHint::FilePath)]
    pub to: Vec<PathBuf>,
    /// What is traced.
    #[command(flatten)]
    pub what: Traced,
}

/// What `rig trace` traces.
#[derive(Debug)]
pub enum Traced {
    /// A function, as `rig run` would run it.
    Run(Box<Run>),
    /// A program and its arguments.
    Program(Vec<OsString>),
}

/// The program among the arguments of `rig trace`.
const PROGRAM: &str = "program";

impl FromArgMatches for Traced {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Traced, clap::Error> {
        match matches.get_many::<OsString>(PROGRAM) {
            Some(program) => Ok(Traced::Program(program.cloned().collect())),
            None => Ok(Traced::Run(Box::new(Run::from_arg_matches(matches)?))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Traced::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Traced {
    fn augment_args(command: Command) -> Command {
        // Those of a run, of which none has to be given beside a program.
        let run = Run::augment_args(command).mut_args(|argument| match argument.is_required_set() {
            true => argument.required(false).required_unless_present(PROGRAM),
            false => argument,
        });
        run.arg(
            Arg::new(PROGRAM)
                .value_name("PROGRAM")
                .help("A program that uses rig, and its arguments: its own devices are traced until it exits")
                .value_parser(ValueParser::os_string())
                .value_hint(ValueHint::CommandWithArguments)
                .num_args(1..)
                .last(true)
                .conflicts_with("image"),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Traced::augment_args(command)
    }
}

/// `rig bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// The devices, by their names in `rig devices`; without one, every device that opens
    pub device: Vec<String>,
    /// Take about two seconds a device in place of ten, and copy no more than 16 MiB at once
    #[arg(long)]
    pub quick: bool,
    /// Write a chart to an SVG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub chart: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `rig doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The drivers: host, cuda, amd, metal; without one, all
    pub driver: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `rig completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// `rig man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The command that the page is about; without one, rig itself
    pub command: Option<String>,
    /// Write the page of rig and that of every command to a folder, which is made if it is not there
    #[arg(long, value_name = "FOLDER", conflicts_with = "command", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

fn repeats(text: &str) -> Result<u32, String> {
    match size::parse_u32(text)? {
        0 => Err("0 runs are none: give 1 or more".into()),
        runs => Ok(runs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn a_trace_takes_the_arguments_of_a_run_or_a_program_and_never_both() {
        let trace = |line: &str| {
            let program = Program::try_parse_from(line.split(' '))?;
            let Task::Trace(trace) = program.command else { panic!("no trace") };
            Ok::<Trace, clap::Error>(trace)
        };
        let run = trace("rig trace a.o f --grid 2 --to x.json --zeros f32:4 --to y.html").unwrap();
        assert_eq!(run.to, [PathBuf::from("x.json"), "y.html".into()]);
        assert!(matches!(run.what, Traced::Run(run) if run.grid == [2, 1, 1] && run.members.buffers().count() == 1));
        let program = trace("rig trace -- cargo run --grid --to z").unwrap();
        assert_eq!(program.to, [PathBuf::from("trace.html")]);
        assert!(matches!(program.what, Traced::Program(line) if line == ["cargo", "run", "--grid", "--to", "z"]));
        for wrong in ["rig trace", "rig trace a.o", "rig trace a.o f", "rig trace a.o -- ls", "rig trace --"] {
            assert!(trace(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_sound_and_its_help_names_every_option() {
        Program::command().debug_assert();
        let help = Program::command().find_subcommand_mut("run").unwrap().render_long_help().to_string();
        for option in
            ["--device", "--grid", "--group-memory", "--in ", "--inout", "--zeros", "--iota", "--scalar", "--out"]
        {
            assert!(help.contains(option), "{option}");
        }
    }

    #[test]
    fn a_run_is_read_with_its_defaults() {
        let Task::Run(run) = Program::parse_from(["rig", "run", "a.o", "f", "--grid", "2,3"]).command else {
            panic!("no run");
        };
        assert_eq!((run.device, run.grid, run.group, run.group_memory), (None, [2, 3, 1], [1, 1, 1], 0));
        assert!(Program::try_parse_from(["rig", "run", "a.o", "f"]).is_err(), "a grid is required");
        assert!(Program::try_parse_from(["rig", "run", "a.o", "f", "--grid", "1", "--repeat", "0"]).is_err());
    }
}
