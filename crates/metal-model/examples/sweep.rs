//! Loads, compiles and runs the functions of a Metal library, and says how many of them software Metal can.
//!
//! `sweep LIBRARY [--every N] [--from N] [--only TEXT] [--fast] [--run]`
//!
//! With `--run` each kernel runs one group, with buffers of zeros bound to all its arguments: so its numbers say nothing,
//! but that it runs to its end without leaving its buffers.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rig_metal_model::address::gpu_address;
use rig_metal_model::container::Library;
use rig_metal_model::kernel::{
    Bound, CompileError, CompileOptions, ConstantValue, Constants, Dispatch, Effort, Kernel, Residency, Violation,
    reflect,
};
use rig_metal_model::workers::Workers;

/// Bytes of each buffer that a kernel is run with.
const BUFFER: usize = 1 << 20;
/// How long a kernel may run.
const PATIENCE: Duration = Duration::from_secs(30);

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

/// Runs one group over zeros. What the kernel writes is read by the next: nobody looks at it.
fn run(kernel: Kernel) -> Result<(), String> {
    let (answer, answered) = mpsc::channel();
    // A thread of its own, which is left behind where the kernel does not end.
    std::thread::spawn(move || {
        let mut memory = vec![0_u64; 31 * BUFFER / 8];
        let start = gpu_address(memory.as_mut_ptr().expose_provenance() as u64);
        let mut slot = 0;
        let buffers = [(); 31].map(|()| {
            slot += 1;
            Some(Bound { address: start + (slot - 1) * BUFFER as u64, len: BUFFER as u64 })
        });
        let threads = match kernel.reflection().max_total_threads {
            Some(stated) if stated >= 32 => [32, stated / 32, 1],
            _ => [32, 1, 1],
        };
        let resident = Residency::default();
        let (groups, grid, threadgroup) = ([1; 3], None, &[1024; 31]);
        let dispatch = Dispatch { groups, threads, grid, buffers: &buffers, threadgroup, resident: &resident };
        let _ = answer.send(kernel.dispatch(&dispatch, &Workers::new(1)));
    });
    let kind = |violation: &Violation| {
        let text = format!("{violation:?}");
        text.split([' ', '{']).next().unwrap_or_default().to_owned()
    };
    match answered.recv_timeout(PATIENCE) {
        Ok(result) => result.map_err(|violation| kind(&violation)),
        Err(_) => Err(format!("no end in {PATIENCE:?}")),
    }
}

fn try_one(library: &Library, name: &str, arguments: &Arguments) -> Outcome {
    let start = Instant::now();
    let step = |step, why: CompileError| Some((step, why.to_string().replace(name, "NAME")));
    let compiled = match zeros(library, name) {
        Err(why) => Err(step("load", why)),
        Ok(constants) => {
            Kernel::compile(library, name, &constants, &arguments.options).map_err(|why| step("compile", why))
        }
    };
    let took = start.elapsed();
    let failed = match compiled {
        Err(failed) => failed,
        Ok(kernel) if arguments.run => run(kernel).err().map(|why| ("run", why)),
        Ok(_) => None,
    };
    Outcome { failed, took }
}

struct Arguments {
    library: String,
    every: usize,
    from: usize,
    only: Option<String>,
    run: bool,
    options: CompileOptions,
}

fn arguments() -> Option<Arguments> {
    let mut words = env::args().skip(1);
    let library = words.next()?;
    let (run, options) = (false, CompileOptions::default());
    let mut arguments = Arguments { library, every: 1, from: 0, only: None, run, options };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--every" => arguments.every = words.next()?.parse().ok().filter(|&every| every > 0)?,
            "--from" => arguments.from = words.next()?.parse().ok()?,
            "--only" => arguments.only = Some(words.next()?),
            "--run" => arguments.run = true,
            "--fast" => arguments.options.effort = Effort::Fast,
            _ => return None,
        }
    }
    Some(arguments)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("sweep LIBRARY [--every N] [--from N] [--only TEXT] [--fast] [--run]");
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
                    let outcome = try_one(&library, name, arguments);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((*name, outcome));
                }
            });
        }
    });
    print(&outcomes.into_inner().unwrap_or_else(PoisonError::into_inner), start.elapsed(), arguments.run);
    Ok(())
}

fn print(outcomes: &[(&str, Outcome)], elapsed: Duration, ran: bool) {
    let all = outcomes.len();
    let failed = |step| {
        outcomes.iter().filter(|(_, outcome)| outcome.failed.as_ref().is_some_and(|(at, _)| *at == step)).count()
    };
    let loaded = all - failed("load");
    let compiled = loaded - failed("compile");
    println!("tried {all}: {loaded} load, {compiled} compile, in {elapsed:.1?}");
    if ran {
        println!("{} run to their end", compiled - failed("run"));
    }
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
