//! The bar of a long `rig run --repeat`, in a terminal that the program `script` of util-linux makes, and nowhere else.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{folder, rig, runs, rustc, say};
use serde_json::Value;

/// How long the runs are to take in sum: well over the second after which there is a bar.
const LONG: Duration = Duration::from_millis(1400);

const RUN: &str = "saxpy --grid 1 --group 8 --iota f32:8 --iota f32:8 --scalar f32:0 --scalar u32:8";

/// The line of a run of so many repeats.
fn line(folder: &Path, repeats: u64) -> String {
    format!("run {} {RUN} --repeat {repeats}", rustc().kernel("saxpy", &["-C", "opt-level=2"], folder).display())
}

/// About how many repeats take long, by what the program says of them and not by what it takes to start it.
fn repeats(folder: &Path) -> u64 {
    let mut repeats = 5_000;
    loop {
        let out = rig(folder, &format!("{} --json", line(folder, repeats))).done();
        let report: Value = serde_json::from_str(&out).unwrap();
        let each = report["timing"]["median_ns"].as_f64().unwrap() * 1e-9;
        let enough = (LONG.as_secs_f64() / each) as u64;
        // The first few are slow, so that few say little of many.
        if enough <= 4 * repeats {
            return enough;
        }
        repeats *= 4;
    }
}

/// What so many runs take in sum at least: half of them take the median or more.
fn least(median_ns: f64, runs: u64) -> Duration {
    Duration::from_secs_f64(median_ns * 1e-9 * (runs / 2) as f64)
}

/// The median that the program prints.
fn median_ns(shown: &str) -> f64 {
    let (_, rest) = shown.split_once(" runs: median ").unwrap_or_else(|| panic!("{shown}"));
    let (time, _) = rest.split_once(", ").unwrap();
    let (number, unit) = time.split_at(time.find(|c: char| c.is_alphabetic()).unwrap());
    let ns = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)].into_iter().find(|(name, _)| *name == unit);
    number.parse::<f64>().unwrap() * ns.unwrap_or_else(|| panic!("{time}")).1
}

/// What a terminal of the kind `term` shows of the program, its standard output and error mixed.
fn terminal(folder: &Path, term: &str, line: &str) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("\"$RIG\" {line}"), "/dev/null"]).current_dir(folder);
    script.env("RIG", env!("CARGO_BIN_EXE_rig")).env("TERM", term).stdin(Stdio::null());
    let output = script.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn a_terminal_shows_how_far_long_repeats_are_and_nothing_else_does() {
    // BSD's has other options, and no --version.
    if !runs(Command::new("script").arg("--version")) {
        return say("skipped the progress bar, since there is no script of util-linux here");
    }
    let folder = folder("progress");
    let mut repeats = repeats(&folder);
    let (shown, took) = loop {
        let began = Instant::now();
        let shown = terminal(&folder, "xterm", &line(&folder, repeats));
        let took = began.elapsed();
        if shown.contains(" runs, ") {
            break (shown, took);
        }
        // The machine was slower while the repeats were counted; runs of more than a second in sum have a bar.
        assert!(least(median_ns(&shown), repeats) <= Duration::from_secs(1), "no bar: {shown}");
        repeats *= 2;
    };
    let bar = format!(" of {repeats} runs, ");
    // Each drawing names the runs, and the last is cleared before the result.
    let (drawn, result) = shown.split_once("\u{1b}[2Ksaxpy on CORES: ").unwrap_or_else(|| panic!("{shown}"));
    let drawings = drawn.matches(&bar).count();
    assert!((1..=took.as_millis() as usize / 100).contains(&drawings), "{drawings} drawings in {took:?}: {shown}");
    assert!(!drawn.contains("\u{1b}[1A"), "it is wider than the terminal: {shown}");
    assert!(drawn.contains('█') && drawn.contains(" s of about "), "{shown}");
    assert!(result.contains(&format!("{repeats} runs: median ")) && !result.contains(&bar), "{shown}");

    let line = &line(&folder, repeats);
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(!terminal(&folder, "dumb", line).contains(&bar)));
        // The whole of what the terminal shows is JSON.
        scope.spawn(|| {
            let shown = terminal(&folder, "xterm", &format!("{line} --json"));
            let report: Value = serde_json::from_str(&shown).unwrap_or_else(|why| panic!("{why}: {shown}"));
            assert_eq!(report["timing"]["runs"], repeats);
        });
        // Standard error is a pipe, and stays empty.
        scope.spawn(|| rig(&folder, line).done());
    });
}
