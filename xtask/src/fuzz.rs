//! Fuzzing of every parser of foreign bytes: the package rig-fuzz, built so that libFuzzer sees which code an input reaches.
//!
//! No nightly compiler is needed: the pass of LLVM that counts coverage is reached by flags of the stable one, and libFuzzer is a
//! part of clang's runtime. rig-fuzz is built for an explicit target, so that build scripts and macros are not instrumented.
//!
//! What a run finds new is kept in the target folder and goes on from there the next time. `--keep` merges it into the corpus of
//! the repository, as small as it can be; an input that fails is copied to `fuzz/past`, where the tests run it from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{cargo, command, failed, found, output, root, run as step, target_of};
use crate::{Result, llvm};

/// The clang whose runtime has libFuzzer.
const CLANG: &str = "clang-19";
/// The package that holds it.
const PACKAGES: &str = "clang-19 libclang-rt-19-dev g++ libllvm19";
/// The only system that the targets are built for.
const TUPLE: &str = "x86_64-unknown-linux-gnu";

/// Seconds that a run of everything in `ci` may fuzz.
const CI_SECONDS: u64 = 33;
/// Seconds of each target where nothing is said.
const SECONDS: u64 = 60;

// TIMEOUT: seconds that one input may take. The longest takes milliseconds; a parser that hangs does so for ever, and a machine
// with much else to do must not look like one.
const INPUT_SECONDS: u32 = 30;

/// The bytes of one target's inputs in the repository. Object files take kilobytes each.
const KEPT_BYTES_MAX: u64 = 64 << 10;

/// Flags that have LLVM count edges and note compared values (SanitizerCoverage, as clang's -fsanitize=fuzzer asks for), and that
/// find what wraps.
const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];

/// The library that holds libFuzzer without a main function.
fn library() -> Option<PathBuf> {
    let folder = output(command(CLANG).arg("--print-resource-dir"), false).ok()?;
    let name = "libclang_rt.fuzzer_no_main";
    let places = ["lib/linux/", "lib/x86_64-pc-linux-gnu/", "lib/x86_64-unknown-linux-gnu/"];
    let files = places.iter().flat_map(|place| [format!("{place}{name}-x86_64.a"), format!("{place}{name}.a")]);
    files.map(|file| Path::new(folder.trim()).join(file)).find(|file| file.exists())
}

/// Why nothing can be fuzzed here, and what to do.
pub fn missing() -> Option<String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("fuzzing needs x86-64 Linux".into());
    }
    if !found(CLANG) || library().is_none() || !found("c++") {
        return Some(format!("fuzzing needs Debian's packages: apt-get install {PACKAGES}"));
    }
    llvm::missing()
}

/// A target as the program lists it: its name, and the bytes of the longest input to try.
struct Target {
    name: String,
    longest: String,
}

/// Fuzzes each of these targets for so many seconds, all where none is named; `keep` merges what was found into the repository.
pub fn run(seconds: Option<u64>, keep: bool, names: &[String]) -> Result {
    if let Some(why) = missing() {
        return Err(why);
    }
    let program = build()?;
    let targets = targets(&program)?;
    if let Some(name) = names.iter().find(|name| !targets.iter().any(|target| target.name == **name)) {
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        return Err(format!("there is no target {name}; the targets are {}", names.join(", ")));
    }
    let chosen = targets.iter().filter(|target| names.is_empty() || names.contains(&target.name));
    for target in chosen {
        fuzz(&program, target, seconds.unwrap_or(SECONDS))?;
        if keep {
            merge(&program, target)?;
        }
    }
    Ok(())
}

/// What `ci` does: every target for its share of the time.
pub fn ci() -> Result {
    if let Some(why) = missing() {
        return Err(why);
    }
    let program = build()?;
    let targets = targets(&program)?;
    let seconds = CI_SECONDS.div_ceil(targets.len().max(1) as u64);
    targets.iter().try_for_each(|target| fuzz(&program, target, seconds))
}

/// Builds the program; gives its path.
fn build() -> Result<PathBuf> {
    let library = library().ok_or("clang's runtime has no libFuzzer")?;
    let target = target_of("fuzz");
    let flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    let link = [format!("-Clink-arg={}", library.display()), "-Clink-arg=-lstdc++".to_owned()];
    let mut build = cargo();
    build
        .args(["build", "--release", "--package", "rig-fuzz", "--features", "libfuzzer", "--bin", "rig-fuzz"])
        .args(["--target", TUPLE, "--target-dir"])
        .arg(&target)
        // As release has it, less what makes it build long.
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("RUSTFLAGS", [flags, link.to_vec()].concat().join(" "));
    step(&mut build)?;
    Ok(target.join(TUPLE).join("release/rig-fuzz"))
}

fn targets(program: &Path) -> Result<Vec<Target>> {
    let mut list = command(&program.to_string_lossy());
    // Without a target the program lists them, and fails.
    let listed = list.output().map_err(|error| format!("{} did not start: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let target = |line: &str| {
        let (name, longest) = line.split_once(' ')?;
        Some(Target { name: name.to_owned(), longest: longest.to_owned() })
    };
    let targets: Vec<Target> = text.lines().filter_map(target).collect();
    if targets.is_empty() { Err(failed(&list, "it lists no target")) } else { Ok(targets) }
}

/// A folder of a target's inputs, made if it is not there.
fn folder(parent: PathBuf, target: &Target) -> Result<PathBuf> {
    let folder = parent.join(&target.name);
    fs::create_dir_all(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    Ok(folder)
}

/// What runs have found and nobody has kept yet.
fn found_in(target: &Target) -> Result<PathBuf> {
    folder(target_of("fuzz").join("found"), target)
}

/// libFuzzer on one target.
fn libfuzzer(program: &Path, target: &Target) -> Command {
    let mut fuzz = command(&program.to_string_lossy());
    fuzz.arg(&target.name).arg(format!("-timeout={INPUT_SECONDS}")).args(["-rss_limit_mb=2048", "-verbosity=0"]);
    fuzz
}

fn fuzz(program: &Path, target: &Target, seconds: u64) -> Result {
    let kept = folder(root().join("fuzz/corpus"), target)?;
    let past = root().join("fuzz/past").join(&target.name);
    let failing = folder(target_of("fuzz").join("failing"), target)?;
    let mut fuzz = libfuzzer(program, target);
    fuzz.arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={}", target.longest))
        .args(["-print_final_stats=1", "-use_value_profile=1", "-reload=0"])
        .arg(format!("-artifact_prefix={}/", failing.display()))
        .arg(found_in(target)?)
        .arg(kept);
    if past.exists() {
        fuzz.arg(past);
    }
    step(&mut fuzz).map_err(|why| {
        let folder = failing.display();
        let name = &target.name;
        format!("{why}; the input lies in {folder}: mend the parser, and move the input to fuzz/past/{name}")
    })
}

/// Makes the corpus of the repository anew: few and small inputs that reach all edges that it and what was found reach.
///
/// libFuzzer's own merge keeps an input for each range of counts of each edge: thousands, megabytes in all. Of what it writes
/// about each input here the edges alone are taken.
fn merge(program: &Path, target: &Target) -> Result {
    let kept = folder(root().join("fuzz/corpus"), target)?;
    let control = target_of("fuzz").join("merge.txt");
    let unread = |folder: &Path, error| format!("{} cannot be read: {error}", folder.display());
    let mut inputs = Vec::new();
    for folder in [kept.clone(), found_in(target)?] {
        for entry in fs::read_dir(&folder).map_err(|error| unread(&folder, error))? {
            inputs.push(entry.map_err(|error| unread(&folder, error))?.path());
        }
    }
    // The first lines of the file: how many inputs, how many of them are known already, and their paths.
    let paths: String = inputs.iter().map(|path| format!("{}\n", path.display())).collect();
    fs::write(&control, format!("{}\n0\n{paths}", inputs.len()))
        .map_err(|error| format!("{} cannot be written: {error}", control.display()))?;
    // What libFuzzer's merge has a process of its own do: run each, and write of each what it reaches.
    let told = format!("-merge_control_file={}", control.display());
    step(libfuzzer(program, target).arg("-merge_inner=1").arg(told))?;
    let text =
        fs::read_to_string(&control).map_err(|error| format!("{} cannot be read: {error}", control.display()))?;
    let chosen = cover(&reached(&text));
    let copy = || -> std::io::Result<()> {
        let inputs = chosen.iter().map(|path| Ok((path, fs::read(path)?))).collect::<std::io::Result<Vec<_>>>()?;
        fs::remove_dir_all(&kept)?;
        fs::create_dir(&kept)?;
        for (path, bytes) in inputs {
            fs::write(kept.join(path.file_name().unwrap_or_default()), bytes)?;
        }
        Ok(())
    };
    copy().map_err(|error| format!("{} cannot be written: {error}", kept.display()))
}

/// An input, its bytes, and the edges that it reaches.
type Reached = (PathBuf, u64, BTreeSet<u64>);

/// What libFuzzer's control file of a merge says of each input: after two numbers the files, one a line; then `STARTED number size`
/// and `FT number feature...`. A feature is eight times an edge and the range of its count.
fn reached(control: &str) -> Vec<Reached> {
    let mut lines = control.lines();
    let count = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    let files: Vec<&str> = lines.by_ref().skip(1).take(count).collect();
    let mut sizes = BTreeMap::new();
    let mut all = Vec::new();
    for line in lines {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut numbers = rest.split(' ').filter_map(|number| number.parse::<u64>().ok());
        let Some(file) = numbers.next() else { continue };
        match what {
            "STARTED" => drop(sizes.insert(file, numbers.next().unwrap_or(0))),
            "FT" => {
                let path = usize::try_from(file).ok().and_then(|file| files.get(file));
                let size = sizes.get(&file).copied().unwrap_or(0);
                all.extend(path.map(|path| (path.into(), size, numbers.map(|feature| feature / 8).collect())));
            }
            _ => {}
        }
    }
    all
}

/// Inputs that together reach what all reach, or as much of it as [`KEPT_BYTES_MAX`] allows: at each step the one that adds the
/// most edges for its bytes.
fn cover(all: &[Reached]) -> Vec<PathBuf> {
    let mut left: BTreeSet<u64> = all.iter().flat_map(|(.., edges)| edges.iter().copied()).collect();
    let mut chosen = Vec::new();
    let mut bytes = 0;
    while !left.is_empty() {
        let worth = |(_, size, edges): &&Reached| edges.intersection(&left).count() as u64 * 1_000_000 / (size + 64);
        let best = all.iter().max_by_key(worth).filter(|(_, size, _)| bytes + size <= KEPT_BYTES_MAX);
        let Some((path, size, edges)) = best else { break };
        bytes += size;
        left.retain(|edge| !edges.contains(edge));
        chosen.push(path.clone());
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_installs_it() {
        if let Some(why) = missing() {
            assert!(why.contains("apt-get install") || why.contains("x86-64 Linux"), "{why}");
        }
    }

    #[test]
    fn few_small_inputs_that_reach_every_edge_are_kept() {
        let control = "4\n1\na\nb\nc\nd\nSTARTED 0 100\nFT 0 8 16 24\nCOV 0 1 2 3\nSTARTED 1 5\nFT 1 8 17\n\
                       STARTED 2 5\nFT 2 25 40\nSTARTED 3 9\nFT 3 40\n";
        let all = reached(control);
        assert_eq!(all[1], ("b".into(), 5, [1, 2].into()));
        assert_eq!(cover(&all), [PathBuf::from("c"), "b".into()]);
    }
}
