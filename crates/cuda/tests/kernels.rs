//! The committed PTX is what clang makes of the sources beside it.

use std::path::Path;
use std::process::Command;

/// How clang makes the PTX.
const CLANG: &str = "clang-19";
const FLAGS: [&str; 9] = [
    "--target=nvptx64-nvidia-cuda",
    "-march=sm_90",
    "-Xclang",
    "-target-feature",
    "-Xclang",
    "+ptx80",
    "-O2",
    "-S",
    "-fno-ident",
];

/// The text without what names the compiler's build.
fn code(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with("//")).collect()
}

#[test]
fn the_committed_ptx_is_what_the_compiler_makes_of_the_sources() {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    for name in ["suite", "test"] {
        let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.ptx", std::process::id()));
        let mut command = Command::new(CLANG);
        command.args(FLAGS).arg(kernels.join(format!("{name}.c"))).arg("-o").arg(&made);
        match command.status() {
            Err(why) => return println!("skipped: no {CLANG} here: {why}"),
            Ok(status) => assert!(status.success(), "{CLANG} refuses {name}.c"),
        }
        let fresh = std::fs::read_to_string(&made).unwrap();
        std::fs::remove_file(&made).unwrap();
        let committed = std::fs::read_to_string(kernels.join(format!("{name}.ptx"))).unwrap();
        assert_eq!(code(&fresh), code(&committed), "make {name}.ptx anew: {CLANG} {} {name}.c", FLAGS.join(" "));
    }
}
