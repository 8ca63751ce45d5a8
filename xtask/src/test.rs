//! The tests, with their counts added up: cargo closes each binary with a line of its own, dozens in all.

use std::process::Command;

use crate::shell::{cargo, failed, watch};
use crate::{Result, llvm};

/// Runs the tests and the documentation's examples, and prints how many passed.
pub fn run(arguments: &[String]) -> Result {
    let chosen = arguments.iter().any(|argument| argument == "-p" || argument == "--package");
    let mut command = cargo();
    command.arg("test");
    let without = if chosen { None } else { whole(&mut command) };
    // One failed binary does not hide the next.
    counted(command.arg("--no-fail-fast").args(arguments))?;
    if !chosen {
        // Without their models the drivers open nothing where their hardware is not, and say why.
        counted(cargo().args(["test", "--package", "rig-metal", "--package", "rig-amd"]))?;
    }
    without.into_iter().for_each(|why| println!("left out software Metal and the driver on it: {why}"));
    Ok(())
}

/// Asks for the whole workspace, but what cannot run here; says why that is.
fn whole(command: &mut Command) -> Option<String> {
    command.args(["--workspace", "--features", "rig-gpu/tracing"]);
    if cfg!(target_os = "linux") {
        command.args(["--features", "rig-amd/model"]);
    }
    let missing = llvm::missing();
    match missing {
        None => command.args(["--features", "rig-metal/model"]),
        Some(_) => command.args(["--exclude", "rig-metal-model", "--exclude", "rig-fuzz"]),
    };
    missing
}

/// Runs a cargo test, hands on what it prints, and closes with the sum.
pub fn counted(command: &mut Command) -> Result {
    let mut sum = Counts::default();
    let status = watch(command, |line| sum.add(line))?;
    println!("\n{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.ignored);
    match (status.success(), sum.passed) {
        (false, _) => Err(failed(command, &status.to_string())),
        (true, 0) => Err(failed(command, "it ran no test")),
        (true, _) => Ok(()),
    }
}

/// How many tests did what.
#[derive(Default, Debug, PartialEq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// Adds a line `test result: ok. 3 passed; 0 failed; 1 ignored; ...`; other lines add nothing.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|line| line.split_once(". ")) else {
            return;
        };
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else { continue };
            let number = number.parse::<u64>().unwrap_or(0);
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_over_closing_lines() {
        let mut sum = Counts::default();
        sum.add("running 4 tests");
        sum.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s");
        sum.add("test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s");
        assert_eq!(sum, Counts { passed: 10, failed: 2, ignored: 1 });
    }

    #[test]
    fn a_run_of_no_test_is_a_failure() {
        let why = counted(crate::shell::command("echo").arg("test result: ok. 0 passed; 0 failed")).unwrap_err();
        assert!(why.ends_with("it ran no test"), "{why}");
    }
}
