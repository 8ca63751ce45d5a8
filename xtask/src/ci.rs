//! Everything that continuous integration runs, in the order in which a mistake shows soonest. A step that lacks a tool is
//! left out, and named at the end.

use std::time::{Duration, Instant};

use crate::sanitize::Sanitizer;
use crate::{Result, apple, check, fuzz, instructions, model, pages, sanitize, sim, soak, test};

/// How long the whole may take on two cores: half an hour, past which people stop waiting for an answer, less what `.ci/run`
/// takes to install tools before it.
const WHOLE: Duration = Duration::from_mins(29);

/// What a step may still take where it is begun, from an empty target folder.
const STEP: Duration = Duration::from_mins(3);

/// A step: its name, what it lacks here, and what it does.
struct Step {
    name: &'static str,
    missing: Option<String>,
    run: fn() -> Result,
}

/// Runs the steps but those in `skip`, to the first that fails.
pub fn run(skip: &[String]) -> Result {
    let steps = steps();
    if let Some(name) = skip.iter().find(|name| !steps.iter().any(|step| step.name == name.as_str())) {
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        return Err(format!("there is no step {name}; the steps are {}", names.join(", ")));
    }
    let began = Instant::now();
    let mut left_out = Vec::new();
    for step in steps.iter().filter(|step| !skip.iter().any(|name| name == step.name)) {
        if let Some(why) = &step.missing {
            left_out.push(format!("left out {}: {why}", step.name));
        } else if began.elapsed() + STEP > WHOLE {
            left_out.push(format!("left out {}: no time is left of {} minutes", step.name, WHOLE.as_secs() / 60));
        } else {
            println!("\n=== {} ===", step.name);
            let began = Instant::now();
            (step.run)().map_err(|why| format!("{}: {why}", step.name))?;
            println!("=== {}: passed in {} s ===", step.name, began.elapsed().as_secs());
        }
    }
    left_out.iter().for_each(|line| println!("{line}"));
    println!("ci: passed in {} s", began.elapsed().as_secs());
    Ok(())
}

/// Every step.
fn steps() -> [Step; 11] {
    let step = |name, missing, run| Step { name, missing, run };
    [
        step("check", None, check::run),
        step("test", None, || test::run(&[])),
        step("pages", pages::missing(), pages::run),
        step("apple", apple::missing(), apple::run),
        step("model", None, || model::run(&[])),
        step("sim", None, sim::ci),
        step("soak", None, soak::ci),
        step("instructions", instructions::missing(), instructions::run),
        step("address", sanitize::missing(), || sanitize::ci(Sanitizer::Address)),
        step("thread", sanitize::missing(), || sanitize::ci(Sanitizer::Thread)),
        // Last, since the tests run all that it ever found.
        step("fuzz", fuzz::missing(), fuzz::ci),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_not_there_cannot_be_skipped() {
        let why = run(&["tset".to_owned()]).unwrap_err();
        assert!(why.starts_with("there is no step tset; the steps are check, test,"), "{why}");
    }
}
