//! The example `best`, as a reader runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The example's program. Cargo builds the examples beside the tests, but not where one test's name is given with `--test`.
fn program() -> PathBuf {
    let profile = Path::new(env!("CARGO_BIN_EXE_rig")).parent().unwrap();
    let program = profile.join("examples").join("best").with_extension(std::env::consts::EXE_EXTENSION);
    if !program.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "rig-cli", "--example", "best", "--target-dir"])
            .arg(profile.parent().unwrap())
            .status();
        assert!(built.unwrap().success(), "build the example: cargo build -p rig-cli --example best");
    }
    program
}

#[test]
fn the_best_device_counts_and_is_named_with_the_reasons_of_those_before_it() {
    let output = Command::new(program()).output().unwrap();
    let (out, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), out.as_str()), (Some(0), "41 and 1 are 42\n"), "{error}");
    assert!(error.starts_with("on ") && error.lines().count() == 1, "{error}");
    assert_eq!(error.contains(", since CUDA cannot be opened: "), !error.starts_with("on CUDA ("), "{error}");
}
