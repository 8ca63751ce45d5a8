//! Commands: how every task runs one.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::Result;

/// The root of the repository.
pub fn root() -> &'static Path {
    // PANIC: this crate lies in a folder of the root.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the root")
}

/// A command that starts in the root.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// The cargo that runs this task.
pub fn cargo() -> Command {
    command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}

/// Says what runs, and runs it.
pub fn run(command: &mut Command) -> Result {
    println!("$ {}", line(command));
    let status = command.status().map_err(|error| not_started(command, &error))?;
    if status.success() { Ok(()) } else { Err(failed(command, &status.to_string())) }
}

/// Runs a command, and shows each line of its standard output to `look` once it is printed.
pub fn watch(command: &mut Command, mut look: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| not_started(command, &error))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
            println!("{line}");
            look(&line);
        }
    }
    child.wait().map_err(|error| not_started(command, &error))
}

/// What a command prints on standard output and, where `both`, on standard error.
pub fn output(command: &mut Command, both: bool) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| not_started(command, &error))?;
    let error = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(failed(command, &format!("{}\n{error}", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(if both { format!("{text}{error}") } else { text.into_owned() })
}

/// Why a command did not start.
fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("{} did not start: {error}", line(command))
}

/// That a command failed.
pub fn failed(command: &Command, how: &str) -> String {
    format!("{} failed: {how}", line(command))
}

/// Whether a program is here, and runs.
pub fn found(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The usual target folder.
pub fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from))
}

/// A target folder beside the usual one, for builds with other flags: in one folder they would push one another out.
pub fn target_of(name: &str) -> PathBuf {
    let mut folder = target().into_os_string();
    folder.push("-");
    folder.push(name);
    folder.into()
}

/// A command as a reader types it.
fn line(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        value.map(|value| format!("{}='{}'", name.to_string_lossy(), value.to_string_lossy()))
    });
    let program = Path::new(command.get_program());
    let program = program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    variables.chain([program]).chain(arguments).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_named_with_its_status() {
        let why = run(command("false").arg("once")).unwrap_err();
        assert!(why.starts_with("false once failed: "), "{why}");
        let why = output(&mut command("no-such-program"), false).unwrap_err();
        assert!(why.starts_with("no-such-program did not start: "), "{why}");
    }

    #[test]
    fn a_line_shows_the_variables_that_a_command_sets() {
        assert_eq!(line(command("a").env("B", "c d").arg("e")), "B='c d' a e");
    }
}
