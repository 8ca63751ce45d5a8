//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use crate::members::Members;
use crate::{help, output, size};

/// Lists the devices of this machine, and runs functions of images on them.
#[derive(Debug, Parser)]
#[command(name = "rig", version, max_term_width = 100, after_long_help = help::text("rig"))]
pub struct Program {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists every device that opens, with its facts, and why the others do not
    Devices(Devices),
    /// Runs a function of an image on a device
    #[command(after_long_help = help::text("run"))]
    Run(Run),
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
    /// The device, by its name in `rig devices`
    #[arg(long, value_name = "NAME", default_value = "CORES")]
    pub device: String,
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
        let Command::Run(run) = Program::parse_from(["rig", "run", "a.o", "f", "--grid", "2,3"]).command else {
            panic!("no run");
        };
        assert_eq!((run.device.as_str(), run.grid, run.group, run.group_memory), ("CORES", [2, 3, 1], [1, 1, 1], 0));
        assert!(Program::try_parse_from(["rig", "run", "a.o", "f"]).is_err(), "a grid is required");
        assert!(Program::try_parse_from(["rig", "run", "a.o", "f", "--grid", "1", "--repeat", "0"]).is_err());
    }
}
