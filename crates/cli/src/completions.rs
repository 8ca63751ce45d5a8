//! `rig completions`: what a shell needs to complete a command line of this program.
//!
//! The script is made from the command line that clap parses, so it knows every command and option. Two arguments take
//! any text there, so that a wrong one gets this program's own answer, and learn here what they may be.

use std::io::Write;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::arguments::{Completions, Program};
use crate::error::Result;
use crate::open::{DRIVERS, candidates};

/// Prints the script.
pub fn completions(arguments: &Completions, out: &mut impl Write) -> Result<()> {
    let command = with_values(Program::command());
    out.write_all(&match arguments.shell {
        Shell::Zsh => zsh(command),
        shell => script(shell, command),
    })?;
    Ok(())
}

/// Whole before it is printed: the generator panics where writing fails, as it may where the reader has gone.
fn script(shell: Shell, mut command: Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "rig", &mut script);
    script
}

/// The script of zsh, where a colon parts a value's name from what completes it. The generator escapes none in names, so
/// `TYPE:FILE` is escaped here; and what completes a file there begins behind the colon of the value, as other shells do.
fn zsh(command: Command) -> Vec<u8> {
    let command = ["run", "trace"]
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, |named| named.mut_args(with_escaped_name)));
    let script = String::from_utf8_lossy(&script(Shell::Zsh, command)).into_owned();
    script.replace("FILE:_files'", r#"FILE:{compset -P "*[\:]"; _files}'"#).into_bytes()
}

/// The command line with the values that a device and a page may have.
fn with_values(command: Command) -> Command {
    let devices: Vec<String> = candidates().into_iter().map(|candidate| candidate.device.name().to_owned()).collect();
    let pages: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let drivers = DRIVERS.map(|(name, _)| name);
    let of = [
        ("run", "device", devices.clone()),
        ("trace", "device", devices.clone()),
        ("bench", "device", devices),
        ("doctor", "driver", drivers.map(str::to_owned).to_vec()),
        ("man", "command", pages),
    ];
    of.into_iter().fold(command, |command, (name, argument, values)| {
        command.mut_subcommand(name, |named| {
            named.mut_arg(argument, |argument| argument.value_parser(PossibleValuesParser::new(values)))
        })
    })
}

fn with_escaped_name(argument: Arg) -> Arg {
    let name = argument.get_value_names().and_then(|names| names.first()).map(|name| name.replace(':', "\\:"));
    match name {
        Some(name) => argument.value_name(name),
        None => argument,
    }
}
