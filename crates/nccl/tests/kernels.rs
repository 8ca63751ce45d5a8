//! The committed PTX is what clang makes of the source beside it.

use std::path::Path;
use std::process::Command;

/// How clang makes the PTX.
const CLANG: &str = "clang-19";
const FLAGS: [&str; 5] = ["--target=nvptx64-nvidia-cuda", "-march=sm_70", "-O2", "-S", "-fno-ident"];

/// The text without what names the compiler's build.
fn code(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with("//")).collect()
}

#[test]
fn the_examples_ptx_is_what_the_compiler_makes_of_its_source() {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("train-{}.ptx", std::process::id()));
    let mut command = Command::new(CLANG);
    match command.args(FLAGS).arg(kernels.join("train.c")).arg("-o").arg(&made).status() {
        Err(why) => return println!("skipped: no {CLANG} here: {why}"),
        Ok(status) => assert!(status.success(), "{CLANG} refuses train.c"),
    }
    let fresh = std::fs::read_to_string(&made).unwrap();
    std::fs::remove_file(&made).unwrap();
    let committed = std::fs::read_to_string(kernels.join("train.ptx")).unwrap();
    assert_eq!(code(&fresh), code(&committed), "make train.ptx anew: {CLANG} {} train.c", FLAGS.join(" "));
}
