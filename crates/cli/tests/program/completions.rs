//! `rig completions`: the shells that are here read their script, and complete with it.

use std::path::Path;
use std::process::Command;

use crate::common::{folder, rig, runs, say};

/// The script of a shell, in a folder of the test's own.
fn script(shell: &str, folder: &Path) -> String {
    let script = rig(folder, &format!("completions {shell}")).done();
    std::fs::write(folder.join("script"), &script).unwrap();
    script
}

/// Whether the shell is here; if not, that is said.
fn is_here(shell: &str) -> bool {
    let here = runs(Command::new(shell).args(["-c", "exit"]));
    if !here {
        say(&format!("skipped the completion of {shell}, since it is not here"));
    }
    here
}

/// What a shell prints for a line of its language, with nothing on standard error.
fn printed(shell: &str, options: &[&str], line: &str, folder: &Path) -> String {
    let output = Command::new(shell).args(options).args(["-c", line]).current_dir(folder).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{shell} says {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// What bash offers for the last of the words.
fn bash(words: &str, folder: &Path) -> Vec<String> {
    let line = format!(
        "source ./script; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         _rig rig \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    printed("bash", &["--norc", "--noprofile"], &line, folder).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_devices_and_pages() {
    if !is_here("bash") {
        return;
    }
    let folder = folder("bash");
    script("bash", &folder);
    assert!(runs(Command::new("bash").args(["-n", "script"]).current_dir(&folder)));
    assert_eq!(bash("rig comp", &folder), ["completions"]);
    assert_eq!(bash("rig run --gri", &folder), ["--grid"]);
    assert_eq!(bash("rig run a.o f --group", &folder), ["--group", "--group-memory"]);
    assert_eq!(bash("rig run a.o f --device CO", &folder), ["CORES"]);
    assert_eq!(bash("rig trace a.o f --device MEM", &folder), ["MEMORY"]);
    assert_eq!(bash("rig bench --qu", &folder), ["--quick"]);
    assert_eq!(bash("rig doctor me", &folder), ["metal"]);
    assert_eq!(bash("rig man dev", &folder), ["devices"]);
    assert_eq!(bash("rig completions f", &folder), ["fish"]);
}

#[test]
fn fish_completes_commands_options_and_devices() {
    if !is_here("fish") {
        return;
    }
    let folder = folder("fish");
    script("fish", &folder);
    let offers = |line: &str| {
        let offers = printed("fish", &["-N"], &format!("source ./script; complete -C '{line}'"), &folder);
        // A word, a tab and what it is.
        offers.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(offers("rig comp"), ["completions"]);
    assert_eq!(offers("rig run --gri"), ["--grid"]);
    assert_eq!(offers("rig run a.o f --device MEM"), ["MEMORY"]);
}

#[test]
fn zsh_reads_its_script_and_no_colon_of_a_name_ends_it() {
    let folder = folder("zsh");
    let script = script("zsh", &folder);
    assert!(script.starts_with("#compdef rig"), "{script}");
    // An unescaped colon would make FILE the completer.
    // Of rig run and of rig trace.
    assert_eq!(script.matches(r":TYPE\:FILE:{").count(), 4);
    assert_eq!(script.matches(r":[SLOT\:]FILE:{").count(), 2);
    assert!(!script.contains("TYPE:"), "{script}");
    if is_here("zsh") {
        assert!(runs(Command::new("zsh").args(["-f", "-n", "script"]).current_dir(&folder)));
    }
}

#[test]
fn every_shell_gets_the_options_of_a_run() {
    let folder = folder("shells");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = script(shell, &folder);
        for option in ["device", "grid", "group-memory", "inout", "repeat", "json"] {
            assert!(script.contains(option), "{shell} does not know {option}");
        }
    }
    let answer = rig(&folder, "completions tcsh");
    assert!(answer.code == Some(2) && answer.error.contains("possible values: bash, elvish"), "{}", answer.error);
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    if !is_here("bash") {
        return;
    }
    for command in ["completions zsh", "man run"] {
        // The reader is gone before the program starts.
        let line = format!("trap '' PIPE; exec 3> >(:); wait $!; \"$RIG\" {command} >&3; echo $?");
        let output = Command::new("bash").env("RIG", env!("CARGO_BIN_EXE_rig")).args(["-c", &line]).output().unwrap();
        assert_eq!(
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
            ("0\n".into(), "".into())
        );
    }
}
