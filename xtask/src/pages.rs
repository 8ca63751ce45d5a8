//! The commands of the README and the guide, run as a reader who pastes them: each must succeed, and print what the page
//! shows.
//!
//! A block of `console` is lines: `$ ` begins a command, a backslash continues it on the next line, and what follows is what
//! it prints, up to the next command. Three dots alone on a line stand for all that is left. Figures with a unit differ from
//! run to run and from machine to machine, so only that there is one is compared; of a line of a table only the first columns.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use crate::shell::{command, failed, found, root};
use crate::{Result, sources};

/// The pages whose commands are run.
const PAGES: [&str; 2] = ["README.md", "docs/guide.md"];

/// What a figure may be of.
const UNITS: [&str; 14] =
    ["ns", "us", "µs", "ms", "s", "B/s", "KB/s", "MB/s", "GB/s", "B", "KiB", "MiB", "GiB", "bytes"];

/// What the pages' commands need and this machine lacks.
pub fn missing() -> Option<String> {
    (!found("gcc")).then(|| "gcc, which compiles the README's kernel: install it (Debian: gcc libc6-dev)".to_owned())
}

/// Runs every command of the pages, but rig's own tasks, of which this is one.
pub fn run() -> Result {
    for page in PAGES {
        let text = sources::read(page)?;
        let steps = steps(&text);
        if steps.is_empty() {
            return Err(format!("{page} has no command"));
        }
        run_all(&steps).map_err(|why| format!("{page}: {why}"))?;
    }
    Ok(())
}

/// Runs commands in the root, and takes away the files that they name and that were not there before.
fn run_all(steps: &[Step]) -> Result {
    let words = || steps.iter().flat_map(|step| step.command.split([' ', '=']));
    let is_file = |word: &&str| root().join(word).is_file();
    let before: BTreeSet<&str> = words().filter(is_file).collect();
    let answer = steps.iter().filter(|step| !step.command.starts_with("cargo xtask")).try_for_each(Step::run);
    for left in words().filter(is_file).filter(|word| !before.contains(word)) {
        let _ = fs::remove_file(root().join(left));
    }
    answer
}

/// A command, and what it prints.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    prints: Vec<String>,
}

impl Step {
    /// Runs it in the root.
    fn run(&self) -> Result {
        println!("$ {}", self.command);
        let mut shell = command("sh");
        shell.args(["-c", &self.command]).stdin(Stdio::null());
        let output = shell.output().map_err(|error| format!("sh did not start: {error}"))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(failed(&shell, &format!("{}\n{printed}{error}", output.status)));
        }
        differs(&self.prints, &printed).map_or(Ok(()), |line| {
            Err(format!("`{}` does not print the line\n{line}\nIt prints\n{printed}", self.command))
        })
    }
}

/// The commands of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let blocks = page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest));
    for line in blocks.flat_map(str::lines) {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), prints: Vec::new() });
        } else if let Some(step) = steps.last_mut() {
            match step.command.strip_suffix('\\') {
                Some(begun) => step.command = format!("{begun}{}", line.trim()),
                None if line.is_empty() => {}
                None => step.prints.push(line.to_owned()),
            }
        }
    }
    steps
}

/// The first line of a page that is not what was printed in its place.
fn differs(shown: &[String], printed: &str) -> Option<String> {
    let mut printed = printed.lines().filter(|line| !line.is_empty());
    for line in shown {
        if line == "..." {
            return None;
        }
        if !printed.next().is_some_and(|printed| same(line, printed)) {
            return Some(line.clone());
        }
    }
    printed.next().map(|more| format!("{more}: the page shows no such line"))
}

/// Whether a line was printed, but for its figures.
fn same(shown: &str, printed: &str) -> bool {
    let (one, other) = (words(shown), words(printed));
    if shown.contains('│') { other.starts_with(&one) } else { one == other }
}

/// The words of a line, each figure with a unit as one sign. Lines that frame a table have none.
fn words(line: &str) -> Vec<String> {
    let frame = |c: char| ('\u{2500}'..='\u{257f}').contains(&c);
    let mut words: Vec<String> = Vec::new();
    for word in line.split(|c: char| c.is_whitespace() || frame(c)).filter(|word| !word.is_empty()) {
        let bare_word = bare(word);
        let (number, unit) =
            bare_word.split_at(bare_word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare_word.len()));
        if !number.is_empty() && UNITS.contains(&unit) {
            words.push("#".to_owned());
        } else if UNITS.contains(&bare_word) && words.last().is_some_and(|last| bare(last).parse::<f64>().is_ok()) {
            words.pop();
            words.push("#".to_owned());
        } else {
            words.push(word.to_owned());
        }
    }
    words
}

/// A word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(['(', ')', ',', ':', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_continuations_and_what_they_print() {
        let page = "```console\n$ one \\\n    --two\nprinted\n\n$ three\n```\n```rust\n$ no\n```\n";
        let step = |command: &str, prints: &[&str]| Step {
            command: command.to_owned(),
            prints: prints.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(steps(page), [step("one --two", &["printed"]), step("three", &[])]);
    }

    #[test]
    fn figures_may_differ_and_nothing_else_may() {
        assert!(same("median 8.77ms, all (3 µs) of 128 MiB", "median 950µs, all (3.5 ms) of 7 GiB"));
        assert!(!same("y[10] = 11 on CORES", "y[10] = 12 on CORES"));
        assert!(!same("8.77ms", "8.77"));
        assert!(same("│ device  CORES │", "│ device CORES  CUDA │"));
        assert!(!same("│ device  CORES │", "│ device CUDA │"));
    }

    #[test]
    fn a_line_that_is_missing_or_too_much_is_found_before_the_dots() {
        let shown = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<String>>();
        assert_eq!(differs(&shown(&["a", "b"]), "a\nb\n"), None);
        assert_eq!(differs(&shown(&["a", "b"]), "a\n"), Some("b".to_owned()));
        assert!(differs(&shown(&["a"]), "a\nb\n").is_some());
        assert_eq!(differs(&shown(&["a", "..."]), "a\nb\nc\n"), None);
    }

    #[test]
    fn a_command_that_fails_or_prints_something_else_is_named() {
        let step = |command: &str, line: &str| Step { command: command.to_owned(), prints: vec![line.to_owned()] };
        assert_eq!(step("echo right", "right").run(), Ok(()));
        assert!(step("echo wrong", "right").run().unwrap_err().contains("does not print the line\nright\n"));
        assert!(step("exit 3", "").run().unwrap_err().contains("exit status: 3"));
    }
}
