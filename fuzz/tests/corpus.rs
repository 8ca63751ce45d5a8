//! Every input that fuzzing kept, and every one that once failed, through its target: no fuzzer is needed.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rig_fuzz::heap::Heap;
use rig_fuzz::{TARGETS, Target};

#[global_allocator]
static ALLOCATOR: Heap = Heap;

/// The bytes that all inputs together may have in the repository.
const ALL_BYTES_MAX: u64 = 300_000;

/// The inputs of a kind, by target.
fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind)
}

fn inputs(kind: &str, target: &Target) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(folder(kind).join(target.name)) else { return Vec::new() };
    let mut inputs: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    inputs
}

/// Runs every input of a kind; gives how many there are of each target.
fn run(kind: &str) -> Vec<(&'static str, usize)> {
    TARGETS
        .iter()
        .map(|target| {
            let inputs = inputs(kind, target);
            for input in &inputs {
                // The name of the one that fails is the last that is printed.
                println!("{}", input.display());
                target.check(&fs::read(input).unwrap());
            }
            (target.name, inputs.len())
        })
        .collect()
}

#[test]
fn every_input_that_was_kept_holds_every_property() {
    for (target, inputs) in run("corpus") {
        assert!(inputs > 0, "{target} has no inputs: cargo xtask fuzz --keep {target}");
    }
}

#[test]
fn every_input_that_once_failed_holds_every_property() {
    run("past");
}

/// Tables that lie over one another name more than the file holds: work and memory of the square of its length.
#[test]
fn tables_and_segments_that_overlap_are_refused() {
    let past = |input: &str| fs::read(folder("past").join(input)).unwrap();
    let host = rig_host::fuzz::linked(&past("host-elf/tables-that-overlap"), 0, 1 << 20);
    assert!(host.as_ref().is_err_and(|why| why.contains("overlap")), "{host:?}");
    for input in ["amd-object/tables-that-overlap", "amd-object/segments-that-overlap"] {
        let object = rig_amd::fuzz::object(&past(input), 0);
        assert!(object.as_ref().is_err_and(|why| why.contains("overlap")), "{input}: {object:?}");
    }
}

#[test]
fn every_folder_of_inputs_is_a_targets_and_all_are_small() {
    let names: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
    let mut bytes = 0;
    for kind in ["corpus", "past"] {
        for entry in fs::read_dir(folder(kind)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            assert!(names.contains(name.as_str()), "there is no target {name}");
            bytes +=
                fs::read_dir(entry.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>();
        }
    }
    assert!(bytes <= ALL_BYTES_MAX, "{bytes} bytes of inputs: at most {ALL_BYTES_MAX}");
}

#[test]
fn every_target_takes_no_bytes_and_bytes_of_no_meaning() {
    for target in &TARGETS {
        target.check(&[]);
        for byte in 0..=255 {
            target.check(&[byte]);
            target.check(&[byte; 97]);
        }
    }
}

#[test]
fn a_parser_that_holds_more_than_its_bound_is_found() {
    let held = std::panic::catch_unwind(|| assert!(rig_fuzz::heap::peak(|| drop(vec![0_u8; 1 << 20])) < 1 << 20));
    assert!(held.is_err(), "the heap is not counted");
}
