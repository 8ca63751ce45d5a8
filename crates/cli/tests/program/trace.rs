//! `rig trace`: of a function, and of programs, with the files read back.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{folder, rig, runs, rustc};

const SAXPY: &str = "saxpy --grid 3 --group 4 --iota f32:10 --iota f32:10 --scalar f32:2 --scalar u32:10";

/// A folder with saxpy, and its arguments.
fn saxpy(name: &str) -> (PathBuf, String) {
    let folder = folder(name);
    let object = rustc().kernel("saxpy", &["-C", "opt-level=2"], &folder);
    (folder, format!("{} {SAXPY}", object.display()))
}

/// The spans of a trace whose name is this.
fn spans(path: &Path, name: &str) -> Vec<Value> {
    let trace: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    events.iter().filter(|event| event["ph"] == "X" && event["name"] == name && event["tid"] == 0).cloned().collect()
}

/// Promise C22.
#[test]
fn a_function_prints_what_a_run_prints_and_its_trace_has_each_launch() {
    let (folder, function) = saxpy("trace_function");
    let run = rig(&folder, &format!("run {function} --print 10")).done();
    let answer = rig(&folder, &format!("trace --to a.json --to b.html {function} --print 10"));
    assert_eq!((answer.code, &answer.out), (Some(0), &run), "{}", answer.error);
    assert_eq!(spans(&folder.join("a.json"), "saxpy").len(), 1);
    for words in [
        "CORES: 1 values, busy for ",
        "saxpy",
        "80 bytes",
        "submit",
        "wrote a.json: ",
        "wrote b.html: open it in a browser",
    ] {
        assert!(answer.error.contains(words), "{words} is not in\n{}", answer.error);
    }
    let page = std::fs::read_to_string(folder.join("b.html")).unwrap();
    assert!(page.contains("saxpy") && page.trim_end().ends_with("</html>"));
    let answer = rig(&folder, &format!("trace {function} --repeat 7 --json --to 7.json"));
    let report: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(report["timing"]["runs"], 7, "what --json prints is JSON and nothing else");
    assert_eq!(spans(&folder.join("7.json"), "saxpy").len(), 7);
}

#[test]
fn without_a_name_a_trace_is_a_page() {
    let (folder, function) = saxpy("trace_page");
    assert_eq!(rig(&folder, &format!("trace {function}")).code, Some(0));
    assert!(std::fs::read_to_string(folder.join("trace.html")).unwrap().contains("saxpy"));
}

#[test]
fn a_function_that_fails_says_so_as_a_run_does_and_leaves_no_trace() {
    let (folder, function) = saxpy("trace_fails");
    rig(&folder, &format!("trace {}", function.replace("--grid 3", "--grid 0"))).failed(2, &["0"]);
    rig(&folder, "trace absent.o f --grid 1").failed(1, &["cannot read absent.o"]);
    assert!(!folder.join("trace.html").exists());
    let answer = rig(&folder, &format!("trace {function} --to absent/a.json"));
    assert!(answer.code == Some(1) && answer.error.contains("cannot write absent/a.json"), "{}", answer.error);
}

/// The program that is traced is this program: it uses rig like any other.
#[test]
fn a_program_is_traced_as_it_is_from_whatever_folder_it_goes_to() {
    let (folder, function) = saxpy("trace_program");
    std::fs::create_dir(folder.join("below")).unwrap();
    let this = env!("CARGO_BIN_EXE_rig");
    let line = format!("trace --to own.json --to own.html -- {this} run {function} --repeat 3 --json");
    let answer = rig(&folder, &line);
    assert_eq!(answer.code, Some(0), "{}", answer.error);
    let report: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(report["timing"]["runs"], 3, "standard output is the program's");
    assert_eq!(spans(&folder.join("own.json"), "saxpy").len(), 3);
    assert!(answer.error.contains("CORES: 3 values") && answer.error.contains("wrote own.html"), "{}", answer.error);
    if runs(Command::new("sh").args(["-c", "exit"])) {
        let script = format!("cd below && exec {this} run {function}");
        let output = Command::new(this)
            .args(["trace", "--to", "moved.json", "--", "sh", "-c", &script])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(spans(&folder.join("moved.json"), "saxpy").len(), 1);
        assert_eq!(std::fs::read_dir(folder.join("below")).unwrap().count(), 0);
    }
}

#[test]
fn a_program_keeps_its_exit_code() {
    let (folder, function) = saxpy("trace_code");
    let this = env!("CARGO_BIN_EXE_rig");
    // Lists the devices, so some are opened, and fails.
    let answer = rig(
        &folder,
        &format!("trace --to a.json -- {this} run {} --device MEMORY", function.replace("saxpy ", "axpy ")),
    );
    assert_eq!(answer.code, Some(2), "{}", answer.error);
    assert!(answer.error.contains("no function axpy") && folder.join("a.json").exists(), "{}", answer.error);
}

#[test]
fn a_program_without_a_trace_is_told_and_fails() {
    let folder = folder("trace_none");
    let this = env!("CARGO_BIN_EXE_rig");
    rig(&folder, "trace -- rig-no-such-program").failed(1, &["cannot start rig-no-such-program", "No such file"]);
    let answer = rig(&folder, &format!("trace -- {this} man run"));
    assert!(answer.code == Some(1) && answer.error.contains("it opened no device of rig"), "{}", answer.error);
    let answer = rig(&folder, &format!("trace -- {this} launch"));
    assert!(answer.code == Some(2) && answer.error.contains("ended without a trace"), "{}", answer.error);
    if cfg!(unix) {
        rig(&folder, &format!("trace --to a:b -- {this} man")).failed(2, &["a:b", "choose another name"]);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn a_signal_that_ends_a_program_is_told_as_shells_tell_it() {
    let folder = folder("trace_signal");
    let output = Command::new(env!("CARGO_BIN_EXE_rig"))
        .args(["trace", "--", "sh", "-c", "kill -9 $$"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(128 + 9), "{output:?}");
}
