//! Counts the instructions of a steady submit. Times differ from run to run and machine to machine; instructions of the
//! same build do not, so a slower hot path shows on the busiest machine.
//!
//! Callgrind runs the example `submit_loop` with two numbers of submits, and the difference of the counts is what the
//! submits between take: opening, the first submits' allocations and the loader's work cancel. The same with more launches
//! gives what each launch more takes.

use crate::Result;
use crate::shell::{cargo, command, found, output, run as step, target};

/// The most instructions of a submit of one launch with two refs: a fifth above the 774 that were counted when this was
/// set, which leaves a compiler its choices and lets no allocation in. Lower it with the code; raise it with a reason.
const SUBMIT_MAX: u64 = 930;

/// The most instructions of each launch more that names the same allocations, set alike: a fifth above 92.
const LAUNCH_MAX: u64 = 110;

/// How many submits the two runs differ in: enough that a stray thousand instructions is less than one a submit.
const SUBMITS: u64 = 10_000;

/// How many launches the larger submission has beside the first.
const LAUNCHES: u64 = 10;

/// Why it cannot run here, and what to do.
pub fn missing() -> Option<String> {
    (!found("valgrind")).then(|| "counting instructions needs valgrind: apt-get install valgrind".to_owned())
}

/// Counts, and holds the counts to their bounds.
pub fn run() -> Result {
    if let Some(why) = missing() {
        return Err(why);
    }
    step(cargo().args(["build", "--release", "--package", "rig-gpu", "--example", "submit_loop"]))?;
    let program = target().join("release/examples/submit_loop");
    let program = program.to_string_lossy();
    let submit = each(&program, 1)?;
    let launch = each(&program, 1 + LAUNCHES)?.saturating_sub(submit) / LAUNCHES;
    judge(submit, launch)
}

/// Prints the counts, and fails where one is above its bound.
fn judge(submit: u64, launch: u64) -> Result {
    println!("a submit of one launch: {submit} instructions (at most {SUBMIT_MAX})");
    println!("each launch more: {launch} instructions (at most {LAUNCH_MAX})");
    if submit > SUBMIT_MAX || launch > LAUNCH_MAX {
        return Err("a submit takes more instructions than its bounds in xtask/src/instructions.rs".to_owned());
    }
    Ok(())
}

/// The instructions of one submit of `launches` launches.
fn each(program: &str, launches: u64) -> Result<u64> {
    let few = collected(program, SUBMITS, launches)?;
    let many = collected(program, 2 * SUBMITS, launches)?;
    Ok(many.saturating_sub(few) / SUBMITS)
}

/// The instructions of a whole run.
fn collected(program: &str, submits: u64, launches: u64) -> Result<u64> {
    let mut valgrind = command("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", program]);
    // No round of the example's floor, which would be counted with the submits.
    let text = output(valgrind.args([submits.to_string(), launches.to_string(), "0".to_owned()]), true)?;
    parse(&text).ok_or_else(|| format!("callgrind printed no count: {text}"))
}

/// Finds `Collected : 12345` in what callgrind prints.
fn parse(text: &str) -> Option<u64> {
    let (_, after) = text.split_once("Collected :")?;
    after.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_what_callgrind_prints() {
        assert_eq!(parse("==7== Events    : Ir\n==7== Collected : 26218233\n==7== \n"), Some(26_218_233));
        assert_eq!(parse("valgrind: no such file"), None);
    }

    #[test]
    fn a_count_at_its_bound_passes_and_one_above_fails() {
        assert_eq!(judge(SUBMIT_MAX, LAUNCH_MAX), Ok(()));
        assert!(judge(SUBMIT_MAX + 1, LAUNCH_MAX).is_err() && judge(SUBMIT_MAX, LAUNCH_MAX + 1).is_err());
    }
}
