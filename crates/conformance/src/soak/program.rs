//! A soak as a test program of its own, with `harness = false`: a soak counts what its whole process has.

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Options of the usual test programs that another word follows.
const WITH_VALUE: [&str; 6] = ["--minutes", "--skip", "--test-threads", "--format", "--color", "--logfile"];

/// What a test program is asked for.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    list: bool,
    minutes: Option<f64>,
    exact: bool,
    names: Vec<String>,
    skips: Vec<String>,
}

impl Asked {
    fn of(arguments: impl IntoIterator<Item = String>) -> Result<Asked, String> {
        let (mut asked, mut arguments) = (Asked::default(), arguments.into_iter());
        while let Some(argument) = arguments.next() {
            let (name, given) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
                _ => (argument, None),
            };
            let value = if WITH_VALUE.contains(&name.as_str()) { given.or_else(|| arguments.next()) } else { None };
            match (name.as_str(), value) {
                ("--list", _) => asked.list = true,
                ("--exact", _) => asked.exact = true,
                ("--minutes", value) => {
                    let minutes = value.and_then(|value| value.parse().ok()).filter(|&minutes| minutes > 0.0);
                    asked.minutes = Some(minutes.ok_or("--minutes wants a number of minutes, such as 0.5")?);
                }
                ("--skip", Some(skip)) => asked.skips.push(skip),
                (name, _) if !name.starts_with('-') => asked.names.push(name.to_owned()),
                _ => {}
            }
        }
        Ok(asked)
    }

    /// Whether the test of this name runs.
    fn runs(&self, test: &str) -> bool {
        let is = |name: &String| if self.exact { name == test } else { test.contains(name.as_str()) };
        (self.names.is_empty() || self.names.iter().any(is)) && !self.skips.iter().any(is)
    }
}

/// The `main` of a test program that is one soak: for `usual`, or for as long as `--minutes N` says. It is one test of the name
/// `test` to whoever lists, names, skips and counts tests. `soak` gives nothing where it says that it is skipped.
pub fn main(test: &str, usual: Duration, soak: impl FnOnce(Duration) -> Option<Result<(), String>>) -> ExitCode {
    let asked = match Asked::of(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            println!("{why}");
            return ExitCode::FAILURE;
        }
    };
    if asked.list {
        println!("{test}: test");
        return ExitCode::SUCCESS;
    }
    let began = Instant::now();
    let answer = if asked.runs(test) {
        soak(asked.minutes.map_or(usual, |minutes| Duration::from_secs_f64(minutes * 60.0)))
    } else {
        None
    };
    let (passed, failed) = match &answer {
        Some(Ok(())) => (1, 0),
        Some(Err(why)) => {
            println!("test {test} ... FAILED: {why}");
            (0, 1)
        }
        None => (0, 0),
    };
    println!(
        "\ntest result: {}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out; finished in {:.2}s",
        if failed == 0 { "ok" } else { "FAILED" },
        1 - passed - failed,
        began.elapsed().as_secs_f64()
    );
    ExitCode::from(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Asked {
        Asked::of(line.split_whitespace().map(str::to_owned)).unwrap()
    }

    #[test]
    fn names_skips_and_minutes_are_read_as_other_test_programs_have_them() {
        let all = asked("--test-threads=1 --nocapture --format pretty --minutes 2.5");
        assert_eq!((all.minutes, all.runs("soak")), (Some(2.5), true));
        assert!(asked("so").runs("soak") && !asked("other").runs("soak") && !asked("so --exact").runs("soak"));
        assert!(!asked("--skip soak").runs("soak") && asked("soak --exact --skip=so").runs("soak"));
        assert!(asked("--list").list);
        assert!(Asked::of(["--minutes".to_owned(), "none".to_owned()]).is_err());
    }
}
