//! `rig run` on input that is right and input that is not.

use std::path::{Path, PathBuf};

use crate::common::{compilers, folder, read, rig, runs, rustc, say, write};
use serde_json::Value;

const OPTIMISED: &[&str] = &["-C", "opt-level=2"];

/// Compiles a kernel of the repository.
fn kernel(name: &str, folder: &Path) -> PathBuf {
    rustc().kernel(name, OPTIMISED, folder)
}

/// A folder with saxpy, and the line that runs it over 10 values.
fn saxpy(name: &str) -> (PathBuf, String) {
    let folder = folder(name);
    let object = kernel("saxpy", &folder);
    (folder, format!("run {} saxpy --grid 3 --group 4", object.display()))
}

const GOOD: &str = "--iota f32:10 --iota f32:10 --scalar f32:2 --scalar u32:10";

#[test]
fn values_are_printed_of_every_buffer_that_may_be_written() {
    let (folder, run) = saxpy("print");
    let out = rig(&folder, &format!("{run} {GOOD} --print 4")).done();
    assert!(out.starts_with("saxpy on CORES: 3 x 1 x 1 groups of 4 x 1 x 1 threads\n"), "{out}");
    assert!(out.contains("slot 0 (10 of f32): 0 1 2 3\n") && out.contains("slot 1 (10 of f32): 0 3 6 9\n"), "{out}");
    write(&folder.join("x"), &[1.0; 10]);
    let out =
        rig(&folder, &format!("{run} --in f32:x --zeros f32:10 --scalar f32:2 --scalar u32:10 --print 99")).done();
    assert!(!out.contains("slot 0") && out.contains("slot 1 (10 of f32): 2 2 2 2 2 2 2 2 2 2\n"), "{out}");
}

#[test]
fn json_says_all_that_the_text_says() {
    let (folder, run) = saxpy("json");
    let line = format!("{run} {GOOD} --print 3 --repeat 5 --out 0:x --out y.npy --json --device cores");
    let report: Value = serde_json::from_str(&rig(&folder, &line).done()).unwrap();
    assert_eq!((&report["device"], &report["function"]), (&"CORES".into(), &"saxpy".into()));
    assert_eq!(report["groups"], serde_json::json!([3, 1, 1]));
    assert_eq!(report["params_bytes"], 24);
    // Each of the five runs went on from what the one before left.
    assert_eq!(report["buffers"][1]["values"], serde_json::json!([0.0, 11.0, 22.0]));
    assert_eq!(report["files"][1], serde_json::json!({"slot": 1, "file": "y.npy", "count": 10, "type": "f32"}));
    let timing = &report["timing"];
    assert_eq!((&timing["runs"], &timing["buffer_bytes"]), (&5.into(), &80.into()));
    let ns = |name: &str| timing[name].as_u64().unwrap_or_else(|| panic!("{name}: {timing}"));
    let order = ["least_ns", "quarter_ns", "median_ns", "three_quarters_ns", "most_ns"].map(ns);
    assert!(order[0] > 0 && order.is_sorted(), "{timing}");
    assert!((order[0]..=order[4]).contains(&ns("first_ns")), "{timing}");
    assert_eq!(ns("spread_ns"), order[3] - order[1]);
    let rate = timing["bytes_per_second"].as_f64().unwrap();
    assert!((rate * order[2] as f64 / 80e9 - 1.0).abs() < 1e-9, "{timing}");
    assert_eq!(read(&folder.join("x")), (0..10).map(|i| i as f32).collect::<Vec<_>>());
    let bytes = std::fs::read(folder.join("y.npy")).unwrap();
    assert_eq!((bytes.len(), &bytes[..6]), (128 + 40, &b"\x93NUMPY"[..]));
}

#[test]
fn repeated_runs_print_their_median_and_spread() {
    let (folder, run) = saxpy("repeat");
    let out = rig(&folder, &format!("{run} {GOOD} --repeat 7")).done();
    for words in
        ["7 runs: median ", ", half of them ", "(spread ", ", all ", ", the first ", "80 bytes of buffers, each"]
    {
        assert!(out.contains(words), "{words} is not in\n{out}");
    }
    assert!(rig(&folder, &format!("{run} {GOOD} --repeat 1")).done().contains("\n1 run: "));
    assert!(!rig(&folder, &format!("{run} {GOOD}")).done().contains("run: "), "who asks for no times gets none");
}

#[test]
fn what_the_help_says_of_times_names_every_member_of_json() {
    let (folder, run) = saxpy("times");
    let report: Value = serde_json::from_str(&rig(&folder, &format!("{run} {GOOD} --repeat 3 --json")).done()).unwrap();
    let help = rig(&folder, "run --help").done();
    for name in report["timing"].as_object().unwrap().keys() {
        assert!(help.contains(name), "{name}");
    }
}

#[test]
fn the_file_that_was_read_may_be_the_one_that_is_written() {
    let (folder, run) = saxpy("in_place");
    write(&folder.join("y"), &[1.0; 10]);
    rig(&folder, &format!("{run} --iota f32:10 --inout f32:y --scalar f32:1 --scalar u32:10 --out y")).done();
    assert_eq!(read(&folder.join("y")), (1..11).map(|i| i as f32).collect::<Vec<_>>());
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_reason() {
    let (folder, run) = saxpy("files");
    let scalars = "--zeros f32:10 --scalar f32:1 --scalar u32:10";
    rig(&folder, &format!("{run} --in f32:absent {scalars}")).failed(1, &["cannot read absent", "No such file"]);
    rig(&folder, &format!("{run} --in f32:. {scalars}")).failed(1, &["cannot read .", "no regular file"]);
    std::fs::write(folder.join("odd"), [0; 41]).unwrap();
    rig(&folder, &format!("{run} --in f32:odd {scalars}")).failed(1, &["odd has 41 bytes", "f32 values of 4 bytes"]);
    std::fs::write(folder.join("text.npy"), "x").unwrap();
    rig(&folder, &format!("{run} --in f32:text.npy {scalars}")).failed(1, &["text.npy", ".npy"]);
    rig(&folder, &format!("{run} {GOOD} --out absent/y")).failed(1, &["cannot write absent/y"]);
    rig(&folder, "run absent.o saxpy --grid 1").failed(1, &["cannot read absent.o"]);
}

#[test]
fn a_npy_file_shorter_than_its_header_says_is_refused_before_memory_is_asked_for() {
    let (folder, run) = saxpy("short_npy");
    let dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }\n";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&u16::try_from(dictionary.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(dictionary.as_bytes());
    std::fs::write(folder.join("short.npy"), bytes).unwrap();
    rig(&folder, &format!("{run} --in f32:short.npy")).failed(1, &["short.npy", "it ends before them"]);
}

#[test]
fn a_function_that_is_not_there_is_answered_with_those_that_are() {
    let (folder, run) = saxpy("unknown");
    rig(&folder, &format!("{} {GOOD}", run.replace(" saxpy ", " axpy "))).failed(2, &["no function axpy", "has saxpy"]);
}

#[test]
fn a_grid_or_a_group_with_a_zero_axis_is_refused() {
    let (folder, run) = saxpy("zero");
    let run = run.replace("--grid 3 --group 4", "");
    rig(&folder, &format!("{run} {GOOD} --grid 0 --group 4")).failed(2, &["0"]);
    rig(&folder, &format!("{run} {GOOD} --grid 1,0,1 --group 4")).failed(2, &["0"]);
    rig(&folder, &format!("{run} {GOOD} --grid 3 --group 4,0")).failed(2, &["0"]);
}

#[test]
fn parameters_that_do_not_fit_the_function_are_refused() {
    let (folder, run) = saxpy("params");
    rig(&folder, &format!("{run} --iota f32:10")).failed(2, &["8 bytes of parameters", "has 24"]);
    rig(&folder, &format!("{run} {GOOD} --scalar f64:1")).failed(2, &["32 bytes of parameters", "has 24"]);
}

#[test]
fn a_slot_for_out_must_be_there() {
    let (folder, run) = saxpy("slots");
    rig(&folder, &format!("{run} {GOOD} --out 2:z")).failed(2, &["--out 2:z", "2 buffers"]);
    rig(&folder, &format!("{run} --scalar u32:1 --out z")).failed(2, &["--out z", "--inout"]);
    assert!(!folder.join("z").exists());
}

#[test]
fn a_device_that_is_not_there_is_answered_with_those_that_are() {
    let (folder, run) = saxpy("device");
    rig(&folder, &format!("{run} {GOOD} --device WARP:0")).failed(2, &["no device WARP:0", "CORES, MEMORY"]);
}

#[test]
fn without_a_device_the_image_picks_one_and_says_why() {
    let (folder, run) = saxpy("picked");
    let arch = if cfg!(target_arch = "x86_64") { "x86-64" } else { "aarch64" };
    let answer = rig(&folder, &format!("{run} {GOOD}"));
    let picked = format!(".o is an object for {arch}: on CORES ({})\n", std::env::consts::ARCH);
    assert!(answer.error.starts_with("rig: saxpy-") && answer.error.ends_with(&picked), "{}", answer.error);
    let answer = rig(&folder, &format!("{run} {GOOD} --json"));
    let report: Value = serde_json::from_str(&answer.out).unwrap();
    assert!(picked.contains(report["picked"].as_str().unwrap().split_once('.').unwrap().1), "{}", report["picked"]);
    assert_eq!(answer.error, "", "JSON says it by itself");
    let answer = rig(&folder, &format!("{run} {GOOD} --device MEMORY"));
    assert_eq!((answer.code, answer.error.as_str()), (Some(0), ""), "who names a device is told nothing");
}

#[test]
fn an_image_whose_driver_opens_nothing_is_answered_with_the_reason_and_where_to_look() {
    let folder = folder("no_driver");
    let devices: Value = serde_json::from_str(&rig(&folder, "devices --json").done()).unwrap();
    let opens = |driver: &str| devices["devices"].as_array().unwrap().iter().any(|device| device["driver"] == driver);
    let ptx: &[u8] = b"// by a compiler\n.version 8.0\n.target sm_80\n";
    for (file, bytes, driver, kind) in [("a.ptx", ptx, "cuda", "PTX"), ("a.metallib", b"MTLB", "metal", "a metallib")] {
        std::fs::write(folder.join(file), bytes).unwrap();
        if !opens(driver) {
            let says = [file, kind, "no device of that opens", &format!("`rig doctor {driver}`")];
            rig(&folder, &format!("run {file} f --grid 1")).failed(1, &says);
        }
    }
}

#[test]
fn more_memory_than_there_is_has_an_exit_code_of_its_own() {
    let (folder, run) = saxpy("memory");
    rig(&folder, &format!("{run} --zeros f32:64Ti")).failed(4, &["no memory for"]);
    rig(&folder, &format!("{run} --zeros f64:1048576Ti")).failed(2, &["larger than this machine can address"]);
}

/// Promise H03.
#[test]
fn an_object_cut_anywhere_is_refused_and_ends_nothing() {
    let folder = folder("truncated");
    let whole = std::fs::read(kernel("softmax", &folder)).unwrap();
    let cut = folder.join("cut.o");
    let mut refused = 0;
    for end in (0..64).chain((64..whole.len()).step_by(61)) {
        std::fs::write(&cut, &whole[..end]).unwrap();
        let answer =
            rig(&folder, "run cut.o softmax --grid 1 --zeros f32:4 --zeros f32:4 --scalar u32:1 --scalar u32:4");
        // A cut in what the loader does not read, such as the names of sections, may be let pass.
        assert!(answer.code.is_some(), "cut at {end} of {}, the program was ended by a signal", whole.len());
        if answer.code != Some(0) {
            let errors = answer.other_errors();
            assert!(errors.starts_with("rig: ") && errors.lines().count() == 1, "{end}: {}", answer.error);
            refused += 1;
        }
    }
    assert!(refused > 64, "only {refused} cuts were refused");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    rig(&folder, "run cut.o softmax --grid 1").failed(1, &[]);
}

/// Promise H03.
#[test]
fn an_object_of_another_architecture_is_refused_by_name() {
    let folder = folder("foreign");
    let mut bytes = std::fs::read(kernel("saxpy", &folder)).unwrap();
    // The ELF header's e_machine stands at byte 18; 243 is RISC-V.
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    std::fs::write(folder.join("foreign.o"), bytes).unwrap();
    rig(&folder, "run foreign.o saxpy --grid 1").failed(1, &["for riscv", "x86-64 and aarch64"]);
    let (other, target, here) = if cfg!(target_arch = "x86_64") {
        ("aarch64", "--target=aarch64-none-elf", "x86-64")
    } else {
        ("x86-64", "--target=x86_64-none-elf", "aarch64")
    };
    for compiler in compilers().iter().filter(|compiler| compiler.program.starts_with("clang")) {
        let object = compiler.kernel("saxpy", &[target], &folder);
        rig(&folder, &format!("run {} saxpy --grid 1", object.display())).failed(1, &[&format!("for {other}"), here]);
    }
}

/// Promise H03.
#[test]
fn what_is_no_object_and_what_imports_more_than_the_host_gives_is_refused() {
    let folder = folder("imports");
    std::fs::write(folder.join("text.o"), "int main() {}").unwrap();
    std::fs::write(folder.join("empty.o"), "").unwrap();
    for file in ["text.o", "empty.o"] {
        rig(&folder, &format!("run {file} main --grid 1")).failed(1, &[file, "no image that rig knows", "--device"]);
        rig(&folder, &format!("run {file} main --grid 1 --device CORES")).failed(1, &[]);
    }
    let source = folder.join("greet.rs");
    let code = "#![no_std]\nunsafe extern \"C\" { fn puts(text: *const u8); }\n#[unsafe(no_mangle)]\n\
                pub unsafe extern \"C\" fn greet(_: *const u8, _: *const u8) { unsafe { puts(c\"hello\".as_ptr().cast()) } }\n";
    std::fs::write(&source, code).unwrap();
    let object = rustc().compile(&source, OPTIMISED, &folder);
    rig(&folder, &format!("run {} greet --grid 1", object.display())).failed(1, &["puts"]);
}

#[test]
fn the_command_line_itself_is_checked_before_anything_opens() {
    let folder = folder("usage");
    for (line, says) in [
        ("run a.o f", "--grid"),
        ("run a.o f --grid 1,2,3,4", "more than three axes"),
        ("run a.o f --grid 1 --zeros f16:3", "the types are"),
        ("run a.o f --grid 1 --scalar u8:256", "from 0 to 255"),
        ("run a.o f --grid 1 --repeat 0", "1 or more"),
        ("launch", "unrecognized subcommand"),
        ("", "Usage"),
    ] {
        let answer = rig(&folder, line);
        assert_eq!(answer.code, Some(2), "{line}");
        assert!(answer.error.contains(says), "{line}: {}", answer.error);
    }
}

#[test]
fn the_help_s_example_works_as_written() {
    if !runs(std::process::Command::new("cc").arg("--version")) {
        return say("skipped the help's example, since there is no cc here");
    }
    let help = rig(Path::new("."), "run --help").done();
    assert!(help.contains("cc -O2 -I crates/host/include -c crates/cli/kernels/saxpy.c -o saxpy.o"), "{help}");
    let folder = folder("help");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let object = folder.join("saxpy.o");
    let made = std::process::Command::new("cc")
        .current_dir(&root)
        .args("-O2 -I crates/host/include -c crates/cli/kernels/saxpy.c -o".split(' '))
        .arg(&object)
        .status();
    assert!(made.unwrap().success());
    write(&folder.join("x.bin"), &[1.0; 4096]);
    write(&folder.join("y.bin"), &[3.0; 4096]);
    let out = rig(
        &folder,
        "run saxpy.o saxpy --grid 4096 --group 4096 --in f32:x.bin --inout f32:y.bin --scalar f32:2 --scalar u32:4096 \
         --out y.npy --print 4 --repeat 20",
    )
    .done();
    assert!(out.contains("slot 1 (4096 of f32): 43 43 43 43\n"), "{out}");
}
