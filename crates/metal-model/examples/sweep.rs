//! Loads and compiles the functions of a Metal library, and says how many of them software Metal can.
//!
//! `sweep LIBRARY [--every N] [--fast] [--from N] [--only TEXT]`

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rig_metal_model::container::Library;
use rig_metal_model::kernel::{CompileError, CompileOptions, ConstantValue, Constants, Effort, Kernel, reflect};

/// What became of one function.
struct Outcome {
    /// Nothing where it compiled; else the reason, without the function's name.
    failed: Option<(&'static str, String)>,
    took: Duration,
}

/// Values for all constants that a function requires: zeros of their types.
fn zeros(library: &Library, name: &str) -> Result<Constants, CompileError> {
    let mut constants = Constants::default();
    for constant in reflect(library, name)?.constants {
        let value = match constant.type_name.as_str() {
            "bool" => ConstantValue::Bool(false),
            "char" => ConstantValue::I8(0),
            "uchar" => ConstantValue::U8(0),
            "short" => ConstantValue::I16(0),
            "ushort" => ConstantValue::U16(0),
            "int" => ConstantValue::I32(0),
            "uint" => ConstantValue::U32(0),
            "long" => ConstantValue::I64(0),
            "ulong" => ConstantValue::U64(0),
            "half" => ConstantValue::F16(0),
            "bfloat" => ConstantValue::BF16(0),
            _ => ConstantValue::F32(0.0),
        };
        constants.by_index.insert(constant.index, value);
    }
    Ok(constants)
}

fn try_one(library: &Library, name: &str, options: &CompileOptions) -> Outcome {
    let start = Instant::now();
    let step = |step, why: CompileError| Some((step, why.to_string().replace(name, "NAME")));
    let failed = match zeros(library, name) {
        Err(why) => step("load", why),
        Ok(constants) => Kernel::compile(library, name, &constants, options).err().and_then(|why| step("compile", why)),
    };
    Outcome { failed, took: start.elapsed() }
}

struct Arguments {
    library: String,
    every: usize,
    from: usize,
    only: Option<String>,
    options: CompileOptions,
}

fn arguments() -> Option<Arguments> {
    let mut words = env::args().skip(1);
    let library = words.next()?;
    let mut arguments = Arguments { library, every: 1, from: 0, only: None, options: CompileOptions::default() };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--every" => arguments.every = words.next()?.parse().ok().filter(|&every| every > 0)?,
            "--from" => arguments.from = words.next()?.parse().ok()?,
            "--only" => arguments.only = Some(words.next()?),
            "--fast" => arguments.options.effort = Effort::Fast,
            _ => return None,
        }
    }
    Some(arguments)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("sweep LIBRARY [--every N] [--from N] [--only TEXT] [--fast]");
        return ExitCode::FAILURE;
    };
    match sweep(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn sweep(arguments: &Arguments) -> Result<(), String> {
    let bytes = fs::read(&arguments.library).map_err(|why| format!("{}: {why}", arguments.library))?;
    let start = Instant::now();
    let library = Library::open(Arc::new(bytes)).map_err(|why| why.to_string())?;
    println!("opened: {} functions in {:.1?}", library.names().count(), start.elapsed());
    let wanted = |name: &&str| arguments.only.as_ref().is_none_or(|only| name.contains(only));
    let names: Vec<&str> = library.names().skip(arguments.from).step_by(arguments.every).filter(wanted).collect();
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = try_one(&library, name, &arguments.options);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((*name, outcome));
                }
            });
        }
    });
    print(&outcomes.into_inner().unwrap_or_else(PoisonError::into_inner), start.elapsed());
    Ok(())
}

fn print(outcomes: &[(&str, Outcome)], elapsed: Duration) {
    let all = outcomes.len();
    let failed = |step| {
        outcomes.iter().filter(|(_, outcome)| outcome.failed.as_ref().is_some_and(|(at, _)| *at == step)).count()
    };
    let loaded = all - failed("load");
    println!("tried {all}: {loaded} load, {} compile, in {elapsed:.1?}", loaded - failed("compile"));
    let mut times: Vec<_> = outcomes.iter().map(|(_, outcome)| outcome.took).collect();
    times.sort_unstable();
    if let Some(worst) = times.last() {
        let at = |part: usize| times[all * part / 100];
        println!(
            "a function: median {:.1?}, 90th percentile {:.1?}, 99th {:.1?}, worst {worst:.1?}",
            at(50),
            at(90),
            at(99)
        );
    }
    let mut reasons = BTreeMap::<&str, (usize, &str)>::new();
    for (name, outcome) in outcomes {
        if let Some((_, why)) = &outcome.failed {
            let entry = reasons.entry(why).or_insert((0, name));
            entry.0 += 1;
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for (why, (count, example)) in reasons {
        println!("{count:6}  {why}, such as {example}");
    }
}
