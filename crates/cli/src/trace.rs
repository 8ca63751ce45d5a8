//! `rig trace`: `rig run` under a profile, or any program that uses rig under its own.
//!
//! A function runs in this process, by the code of `rig run`. A program is started with the variable `RIG_TRACE` and writes its
//! profile itself, when it exits: the library does, so nothing here looks into it. Standard output is what the traced thing
//! prints; the summary and the files' names go to standard error.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use rig::Profile;

use crate::arguments::{Run, Trace, Traced};
use crate::error::{Error, Result};
use crate::run::Ready;

/// The variable by which a process is asked for a profile; rig's documentation says how.
const VARIABLE: &str = "RIG_TRACE";

/// Traces; gives the exit code.
pub fn trace(arguments: &Trace, out: &mut impl Write) -> Result<u8> {
    match &arguments.what {
        Traced::Run(run) => function(run, &arguments.to, out),
        Traced::Program(program) => self::program(program, &arguments.to),
    }
}

/// Traces `rig run`.
fn function(run: &Run, to: &[PathBuf], out: &mut impl Write) -> Result<u8> {
    // Opening and loading are before it: a vendor's library takes its time to load, once.
    let ready = Ready::new(run)?;
    let (ran, profile) = Profile::take(|| ready.go(out))?;
    ran?;
    out.flush()?;
    for path in to {
        profile.write_file(path).map_err(|why| Error::File { what: "write", path: path.clone(), why })?;
    }
    tell(&profile.to_string(), to);
    Ok(0)
}

/// Traces a program; gives its exit code.
fn program(line: &[OsString], to: &[PathBuf]) -> Result<u8> {
    // PANIC: the command line takes no empty program.
    let (program, arguments) = line.split_first().expect("a program");
    let name = program.to_string_lossy().into_owned();
    let summary = std::env::temp_dir().join(format!("rig-trace-{}.txt", std::process::id()));
    let files = files(to, &summary)?;
    let ran = Command::new(program).args(arguments).env(VARIABLE, files).status();
    let text = std::fs::read_to_string(&summary);
    // It may not be there.
    let _ = std::fs::remove_file(&summary);
    let code = code(ran.map_err(|why| Error::Program { program: name.clone(), why })?);
    match text {
        Ok(text) => {
            tell(&text, to);
            Ok(code)
        }
        Err(_) => {
            let none = Error::NoTrace { program: name };
            // A program that failed has said why; its code is the one to give on.
            if code == 0 {
                return Err(none);
            }
            let _ = writeln!(std::io::stderr(), "rig: {none}");
            Ok(code)
        }
    }
}

/// The files that the program is asked for, which it finds from whatever folder it goes to.
fn files(to: &[PathBuf], summary: &Path) -> Result<OsString> {
    let whole = to.iter().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    let files: Vec<PathBuf> = whole.chain([summary.to_owned()]).collect();
    std::env::join_paths(&files).map_err(|_| {
        let parts = |path: &&PathBuf| std::env::join_paths([OsStr::new(path)]).is_err();
        Error::TraceName { path: files.iter().find(parts).unwrap_or(&files[0]).clone() }
    })
}

/// The exit code of a program; 128 and its number where a signal ended it, as shells have it.
fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    let code = status.code().or(signal.map(|signal: i32| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// Says what the profile shows, and where it is. A closed standard error loses it, and no more.
fn tell(summary: &str, to: &[PathBuf]) {
    let mut error = std::io::stderr();
    let _ = write!(error, "{summary}");
    for path in to {
        let _ = writeln!(error, "wrote {}{}", path.display(), how(path));
    }
}

/// What opens such a file.
fn how(path: &Path) -> &'static str {
    match path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).as_deref() {
        Some("html" | "htm") => ": open it in a browser",
        Some("txt") => "",
        _ => ": open it in https://ui.perfetto.dev or chrome://tracing",
    }
}
