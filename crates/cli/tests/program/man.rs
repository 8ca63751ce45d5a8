//! `rig man`: pages that man reads, which say what `--help` says.

use std::path::Path;
use std::process::Command;

use crate::common::{folder, rig, runs, say};

/// Every page: its name, and the command whose help it holds.
const PAGES: [(&str, &str); 8] = [
    ("rig", ""),
    ("rig-devices", "devices"),
    ("rig-run", "run"),
    ("rig-trace", "trace"),
    ("rig-bench", "bench"),
    ("rig-doctor", "doctor"),
    ("rig-completions", "completions"),
    ("rig-man", "man"),
];

/// The options and arguments that a help names.
fn options(help: &str) -> Vec<&str> {
    let words = help.split([' ', '\n', ',', '(', ')']);
    words.filter(|word| word.starts_with("--") && word.len() > 2).collect()
}

#[test]
fn a_folder_gets_the_page_of_every_command() {
    let folder = folder("man_dir");
    let out = rig(&folder, "man --dir new/man1").done();
    for (page, command) in PAGES {
        let path = format!("new/man1/{page}.1");
        assert!(out.contains(&format!("wrote {path}\n")), "{out}");
        let text = std::fs::read_to_string(folder.join(&path)).unwrap();
        assert_eq!(text, rig(&folder, &format!("man {command}")).done());
        assert_eq!(text.matches("\n.TH ").count(), 1, "{text}");
        // Its name, its section, no date, and the program: an empty date would shift what follows.
        let version = env!("CARGO_PKG_VERSION");
        assert!(text.contains(&format!("\n.TH {page} 1 \" \" \"rig {version}\"")), "{text}");
        assert_eq!(text.matches(".ie ").count(), 1, "it opens once:\n{text}");
    }
    assert_eq!(out.lines().count(), PAGES.len(), "{out}");
    assert_eq!(std::fs::read_dir(folder.join("new/man1")).unwrap().count(), PAGES.len());
    let listed = rig(&folder, "--help").done();
    let commands = listed.split("Commands:\n").nth(1).unwrap().lines().take_while(|line| !line.is_empty());
    assert_eq!(commands.count(), PAGES.len(), "each command but rig, and help, which has no page:\n{listed}");
}

#[test]
fn a_page_names_what_the_help_names() {
    let folder = Path::new(".");
    for (page, command) in PAGES {
        let help = rig(folder, &format!("{command} --help")).done();
        // roff writes a hyphen that is no minus with a backslash.
        let text = rig(folder, &format!("man {command}")).done().replace("\\-", "-");
        let options = options(&help);
        assert!(options.contains(&"--help"), "{help}");
        for option in options {
            assert!(text.contains(option), "{page} does not name {option}");
        }
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            assert!(text.contains(&format!("\n.SH {section}\n")), "{page} has no {section}");
        }
    }
    let run = rig(folder, "man run").done();
    for section in ["PARAMETERS", "TIMES", "EXAMPLE", "TRUST", "\"EXIT CODES\"", "\"SEE ALSO\""] {
        assert!(run.contains(&format!("\n.SH {section}\n")), "{section}");
    }
}

#[test]
fn groff_warns_of_nothing() {
    if !runs(Command::new("groff").arg("--version")) {
        return say("skipped what groff says of the pages, since it is not here");
    }
    let folder = folder("groff");
    rig(&folder, "man --dir .").done();
    for (page, command) in PAGES {
        let output =
            Command::new("groff").args(["-man", "-Tutf8", "-ww", &format!("{page}.1")]).current_dir(&folder).output();
        let output = output.unwrap();
        assert_eq!((output.status.success(), String::from_utf8_lossy(&output.stderr)), (true, "".into()), "{page}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(concat!("rig ", env!("CARGO_PKG_VERSION"))), "{text}");
        assert!(command.is_empty() || text.contains(command), "{text}");
    }
}

#[test]
fn man_shows_the_example_as_it_is_written() {
    let folder = folder("man");
    std::fs::write(folder.join("page.1"), rig(&folder, "man run").done()).unwrap();
    let mut man = Command::new("man");
    man.args(["-l", "page.1"])
        .current_dir(&folder)
        .env("MANWIDTH", "60")
        .env("MANPAGER", "cat")
        .env("LC_ALL", "C.UTF-8");
    // Some have no -l, and some containers leave man out and put a script in its place.
    let Some(output) = man.output().ok().filter(|output| output.status.success() && output.stdout.len() > 1000) else {
        return say("skipped what man shows, since there is none here that shows a file");
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let help = rig(&folder, "run --help").done();
    let example: Vec<&str> = help.lines().filter(|line| line.starts_with("    ") && line.ends_with('\\')).collect();
    assert!(example.len() >= 2, "{help}");
    for line in example {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_command_that_is_not_there_is_answered_with_those_that_are() {
    rig(Path::new("."), "man launch")
        .failed(2, &["no command launch", "devices, run, trace, bench, doctor, completions, man"]);
    let folder = folder("man_file");
    std::fs::write(folder.join("file"), "").unwrap();
    rig(&folder, "man --dir file").failed(1, &["cannot write file"]);
}
