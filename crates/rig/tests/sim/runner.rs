//! Many seeds, each in a process of its own: what they did, and the first that failed, made smaller.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::plan::{Kind, Plan, Without};

/// How long one seed may take. TIMEOUT: the longest takes a few seconds, and a loaded machine is ten times as slow.
const SEED: Duration = Duration::from_secs(120);

/// How long a failure is made smaller for.
const SMALLER: Duration = Duration::from_secs(60);

/// Seeds of a run that names no time: what a plain `cargo test` plays.
const FEW: u64 = if cfg!(rig_shuttle) { 200 } else { 24 };

#[derive(Clone, Default)]
struct Arguments {
    seed: Option<u64>,
    minutes: Option<f64>,
    /// How many seeds at most, whatever the time.
    seeds: Option<u64>,
    /// Whether this process plays the one seed itself.
    one: bool,
    trace: bool,
    /// Another schedule than the seed's own, by number.
    schedule: u64,
    without: Without,
    jobs: usize,
}

fn arguments() -> Arguments {
    let mut arguments = Arguments { jobs: 2, ..Arguments::default() };
    let mut all = std::env::args().skip(1);
    let list = |text: Option<String>| -> Vec<usize> {
        text.unwrap_or_default().split(',').filter_map(|number| number.parse().ok()).collect()
    };
    while let Some(argument) = all.next() {
        let mut number = || all.next().and_then(|text| text.parse::<f64>().ok());
        match argument.as_str() {
            "--seed" => arguments.seed = all.next().and_then(|text| text.parse().ok()),
            "--minutes" => arguments.minutes = number(),
            "--seeds" => arguments.seeds = all.next().and_then(|text| text.parse().ok()),
            "--jobs" => arguments.jobs = number().unwrap_or(2.0) as usize,
            "--schedule" => arguments.schedule = number().unwrap_or(0.0) as u64,
            "--without-steps" => arguments.without.steps = list(all.next()),
            "--without-threads" => arguments.without.threads = list(all.next()),
            "--without-devices" => arguments.without.seats = number().unwrap_or(0.0) as usize,
            "--one" => arguments.one = true,
            "--trace" => arguments.trace = true,
            // What a test harness is told beside that.
            _ => {}
        }
    }
    arguments
}

pub fn main() -> ExitCode {
    let arguments = arguments();
    if arguments.one {
        let seed = arguments.seed.unwrap_or(0);
        let schedule = seed.wrapping_add(arguments.schedule << 48);
        crate::play(seed, schedule, &arguments.without, arguments.trace);
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    match (arguments.seed, arguments.minutes) {
        (Some(seed), None) => replay(seed, &arguments),
        (seed, _) => many(seed.unwrap_or(1), &arguments),
    }
}

/// Plays one seed with all that it does on the standard output.
fn replay(seed: u64, arguments: &Arguments) -> ExitCode {
    let ran = child(seed, arguments.schedule, &arguments.without, true);
    print!("{}", ran.output);
    if ran.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a seed's process came to.
struct Ran {
    passed: bool,
    output: String,
}

impl Ran {
    /// The promise that was broken.
    fn broken(&self) -> &str {
        let line = self.output.lines().find(|line| line.starts_with("BROKEN ")).unwrap_or("BROKEN: it died");
        line.split(':').next().unwrap_or(line)
    }
}

fn child(seed: u64, schedule: u64, without: &Without, trace: bool) -> Ran {
    let join = |numbers: &[usize]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--one", "--seed", &seed.to_string(), "--schedule", &schedule.to_string()])
        .args(["--without-steps", &join(&without.steps), "--without-threads", &join(&without.threads)])
        .args(["--without-devices", &without.seats.to_string()])
        .args(trace.then_some("--trace"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("this program starts again");
    let mut stdout = child.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is what there is.
        let _ = stdout.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the status of a child") {
            break Some(status);
        }
        if began.elapsed() > SEED {
            // It may have ended this moment.
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        // TIMEOUT: how late the end of a process is seen.
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut output = reader.join().unwrap_or_default();
    match status {
        Some(status) if status.success() => return Ran { passed: true, output },
        Some(status) if status.code() != Some(crate::log::BROKEN) => {
            output.push_str(&format!("BROKEN no crash: the process ended with {status}\n"));
        }
        Some(_) => {}
        None => output.push_str(&format!("BROKEN no wait without an end: {} s were not enough\n", SEED.as_secs())),
    }
    Ran { passed: false, output }
}

/// What all seeds did.
#[derive(Default)]
struct Sum {
    counts: BTreeMap<String, [u64; 5]>,
    seeds: u64,
    steps: u64,
}

impl Sum {
    fn add(&mut self, output: &str) {
        self.seeds += 1;
        for line in output.lines() {
            if let Some(steps) = line.strip_prefix("STEPS ") {
                self.steps += steps.parse::<u64>().unwrap_or(0);
            }
            let Some(rest) = line.strip_prefix("COUNT ") else { continue };
            let mut words = rest.splitn(6, ' ');
            let numbers: [u64; 5] = std::array::from_fn(|_| words.next().and_then(|w| w.parse().ok()).unwrap_or(0));
            let of = self.counts.entry(words.next().unwrap_or_default().to_owned()).or_default();
            of.iter_mut().zip(numbers).for_each(|(of, number)| *of += number);
        }
    }

    /// The table of operations; the kinds that were never drawn.
    fn print(&self) -> Vec<&'static str> {
        println!("{:32} {:>9} {:>9} {:>9} {:>9} {:>9}", "operation", "done", "Invalid", "no memory", "Lost", "refused");
        let mut missing = Vec::new();
        for (kind, ..) in Kind::ALL {
            let counts = self.counts.get(kind.name()).copied().unwrap_or_default();
            println!(
                "{:32} {:>9} {:>9} {:>9} {:>9} {:>9}",
                kind.name(),
                counts[0],
                counts[1],
                counts[2],
                counts[3],
                counts[4]
            );
            if counts.iter().sum::<u64>() == 0 {
                missing.push(kind.name());
            }
        }
        println!("{} seeds, {} steps", self.seeds, self.steps);
        missing
    }
}

fn many(first: u64, arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let limit = arguments.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let most = arguments.seeds.unwrap_or(if limit.is_none() { FEW } else { u64::MAX });
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let (sum, failure) = (Mutex::new(Sum::default()), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                while !failed.load(Ordering::SeqCst) && limit.is_none_or(|limit| began.elapsed() < limit) {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed - first >= most {
                        break;
                    }
                    let ran = child(seed, 0, &Without::default(), false);
                    if ran.passed {
                        sum.lock().expect("a sum").add(&ran.output);
                    } else if !failed.swap(true, Ordering::SeqCst) {
                        *failure.lock().expect("a failure") = Some((seed, ran, began.elapsed()));
                    }
                }
            });
        }
    });
    let (sum, failure) = (sum.into_inner().expect("a sum"), failure.into_inner().expect("a failure"));
    if let Some((seed, ran, after)) = failure {
        println!("{}", ran.output);
        println!("seed {seed} failed after {:.1} s and {} seeds that passed", after.as_secs_f64(), sum.seeds);
        let again = child(seed, 0, &Without::default(), false);
        println!("it replays {}", if again.output == ran.output { "exactly" } else { "otherwise" });
        smaller(seed, &ran);
        return ExitCode::FAILURE;
    }
    let missing = sum.print();
    println!("sim: {:.1} s, seeds {first} to {}", began.elapsed().as_secs_f64(), first + sum.seeds - 1);
    // A few seeds need not draw all.
    if limit.is_some_and(|limit| limit >= Duration::from_secs(30)) && !missing.is_empty() {
        println!("sim: never drawn: {}", missing.join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Leaves threads, steps and devices out for as long as the same promise is broken.
fn smaller(seed: u64, ran: &Ran) {
    let began = Instant::now();
    let (mut without, mut schedule, mut least) = (Without::default(), 0, None);
    let fails = |without: &Without| {
        (0..3).find_map(|schedule| {
            let other = child(seed, schedule, without, false);
            (!other.passed && other.broken() == ran.broken()).then_some((schedule, other))
        })
    };
    let mut attempt = |candidate: Without, without: &mut Without| {
        if began.elapsed() > SMALLER {
            return false;
        }
        let Some((with, other)) = fails(&candidate) else { return false };
        (*without, schedule, least) = (candidate, with, Some(other));
        true
    };
    let plan = Plan::new(seed, &Without::default());
    for thread in 0..plan.threads.len() {
        let mut candidate = without.clone();
        candidate.threads.push(thread);
        attempt(candidate, &mut without);
    }
    for seats in (1..plan.seats.len()).rev() {
        if attempt(Without { seats, ..without.clone() }, &mut without) {
            break;
        }
    }
    let steps = |without: &Without| -> Vec<usize> {
        Plan::new(seed, without).threads.iter().flatten().map(|step| step.number).collect()
    };
    let mut size = steps(&without).len().div_ceil(2);
    while size > 0 {
        for chunk in steps(&without).chunks(size) {
            let mut candidate = without.clone();
            candidate.steps.extend(chunk);
            attempt(candidate, &mut without);
        }
        size /= 2;
    }
    if let Some(least) = least {
        println!("--- smaller: {} steps ---\n{}", steps(&without).len(), least.output);
    }
    let join = |numbers: &[usize]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    println!(
        "replay: cargo xtask sim --seed {seed} --schedule {schedule} --without-threads '{}' --without-devices {} \
         --without-steps '{}'",
        join(&without.threads),
        without.seats,
        join(&without.steps)
    );
}
