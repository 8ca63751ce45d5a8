//! The committed code objects are what clang 19 makes of their sources, where it is there.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What every fixture is compiled with.
const FLAGS: &[&str] = &[
    "-x",
    "c",
    "-std=c23",
    "-target",
    "amdgcn-amd-amdhsa",
    "-mcpu=gfx1100",
    "-nogpulib",
    "-ffreestanding",
    "-O2",
    "-fvisibility=hidden",
    "-fno-ident",
    "-Wall",
    "-Werror",
];

/// Without two instructions a word, hints for the scheduler, and atomics of a whole wave.
const PLAIN: &[&str] = &[
    "-mllvm",
    "-amdgpu-enable-vopd=0",
    "-mllvm",
    "-amdgpu-enable-delay-alu=0",
    "-mllvm",
    "-amdgpu-atomic-optimizer-strategy=None",
];

/// Object, source, and flags of its own.
const FIXTURES: &[(&str, &str, &[&str])] = &[
    ("suite.co", "suite.c", &[]),
    ("work.co", "work.c", &[]),
    ("more.co", "more.c", &[]),
    ("work_plain.co", "work.c", PLAIN),
    ("faults.co", "faults.c", &[]),
    ("scratch.co", "scratch.c", &["-mllvm", "-disable-promote-alloca-to-lds"]),
    ("hidden.co", "hidden.c", &[]),
    ("wave64.co", "wave64.c", &["-mwavefrontsize64"]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// A tool of LLVM 19.1.7, the version that the fixtures and the tables come from, or none.
pub(super) fn tool(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| {
        let version = Command::new(name).arg("--version").output().ok()?;
        String::from_utf8_lossy(&version.stdout).contains("19.1.7").then(|| (*name).to_owned())
    })
}

#[test]
fn clang_reproduces_every_fixture_byte_for_byte() {
    let Some(clang) = tool(&["clang-19", "clang"]) else {
        println!("skipped: no clang 19.1.7");
        return;
    };
    if tool(&["ld.lld-19", "ld.lld"]).is_none() {
        println!("skipped: no lld 19.1.7");
        return;
    }
    for (object, source, flags) in FIXTURES {
        let out = std::env::temp_dir().join(format!("rig-{}-{object}", std::process::id()));
        let mut command = Command::new(&clang);
        command.current_dir(folder()).args(FLAGS).args(*flags).arg(source).arg("-o").arg(&out);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let made = std::fs::read(&out).unwrap();
        std::fs::remove_file(&out).unwrap();
        assert!(made == std::fs::read(folder().join(object)).unwrap(), "{object} is not what {command:?} makes");
    }
}

#[test]
fn every_object_of_the_folder_is_one_of_the_list() {
    let mut found: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".co"))
        .collect();
    found.sort();
    let mut listed: Vec<&str> = FIXTURES.iter().map(|(object, ..)| *object).collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
}
