//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::members::Members;
use crate::{output, size};

/// Lists the devices of this machine, and runs functions of images on them.
#[derive(Debug, Parser)]
#[command(name = "rig", version, about, max_term_width = 100)]
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
    #[command(after_long_help = RUN_HELP)]
    Run(Run),
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
    pub image: PathBuf,
    /// The function of the image
    pub function: String,
    /// The device, by its name in `rig devices`
    #[arg(long, value_name = "NAME", default_value = "CORES")]
    pub device: String,
    /// The groups along each axis
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = size::parse_axes)]
    pub grid: [u32; 3],
    /// The threads of a group along each axis
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = size::parse_axes, default_value = "1")]
    pub group: [u32; 3],
    /// The bytes of memory that the threads of each group share, beside what the function declares
    #[arg(long, value_name = "BYTES", value_parser = size::parse_u32, default_value = "0")]
    pub group_memory: u32,
    /// The buffers and scalars.
    #[command(flatten)]
    pub members: Members,
    /// Write a buffer to a file once the function has run, as raw values or as .npy; without a slot, the last buffer
    /// that the function may write
    #[arg(long, value_name = "[SLOT:]FILE", value_parser = output::parse)]
    pub out: Vec<output::Output>,
    /// Print the first N values of every buffer that the function may write
    #[arg(long, value_name = "N", value_parser = size::parse)]
    pub print: Option<u64>,
    /// Run N times, each on what the one before left, and print the median and the spread of the times
    #[arg(long, value_name = "N", value_parser = repeats)]
    pub repeat: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn repeats(text: &str) -> Result<u32, String> {
    match size::parse_u32(text)? {
        0 => Err("0 runs are none: give 1 or more".into()),
        runs => Ok(runs),
    }
}

const RUN_HELP: &str = "\
The parameters are a C struct of the buffers (a pointer each) and the scalars, in the order of the command line; each \
stands on the next multiple of its size. The buffers are the slots 0, 1, 2 and on. Types are u8, i8, u16, i16, u32, i32, \
u64, i64, f32 and f64. Whole numbers may be written 4096, 1_000, 64Ki, 16Mi, 1Gi, and those of scalars also 0xff and -1.

Example: y = 2 x + y over 16 Mi floats, in groups of 4,096:

    cc -O2 -I crates/host/include -c crates/cli/kernels/saxpy.c -o saxpy.o
    rig run saxpy.o saxpy --grid 4096 --group 4096 --in f32:x.bin --inout f32:y.bin \\
        --scalar f32:2 --scalar u32:16Mi --out y.npy --print 4 --repeat 20

The function is machine code, and runs with this program's rights: run only images that you trust. One that touches \
memory which is not its own, as where a size or --group-memory is wrong, may end this program.

Exit codes: 0 done; 1 a file or an image cannot be used; 2 the command line asks for what cannot be; 3 the device was \
lost; 4 no memory.";

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
