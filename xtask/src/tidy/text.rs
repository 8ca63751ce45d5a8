//! Rules over lines: how long a file is, how it opens, which tags a comment may carry, what may not be written at all.

use crate::sources::Source;
use crate::tidy::Finding;

/// The longest Rust file: what a reader holds in mind.
const LINES_MAX: usize = 800;

/// The tags that a comment may open with. `TODO` needs a code in brackets, a heading of docs/todo.md.
const TAGS: [&str; 5] = ["SAFETY", "PANIC", "INVARIANT", "TIMEOUT", "ORDERING"];

/// What may not stand in a Rust file, and what to write in its place. Each is put together from two halves, or this file
/// would hold it.
const BANNED: [([&str; 2], &str); 8] = [
    (["dbg", "!("], "take it out"),
    (["todo", "!("], "return an error, or write a TODO with a code"),
    (["unimplemented", "!("], "return an error, or write a TODO with a code"),
    (["FIX", "ME"], "mend it, or write a TODO with a code"),
    (["XX", "X"], "mend it, or write a TODO with a code"),
    (["static", " mut "], "use an atomic or a lock"),
    (["#![al", "low("], "expect it, on one item, with a reason"),
    (["cfg_attr(test, al", "low("], "expect it, on one item, with a reason"),
];

/// What may not stand in any file: it means something on one machine alone.
const LOCAL: [([&str; 2], &str); 9] = [
    (["/wo", "rk/"], "name no folder of one machine"),
    (["/ro", "ot/"], "name no folder of one machine"),
    (["/ho", "me/"], "name no folder of one machine"),
    (["/Us", "ers/"], "name no folder of one machine"),
    (["crates", ".io"], "name no registry's host"),
    (["pypi", ".org"], "name no registry's host"),
    (["npmjs", ".org"], "name no registry's host"),
    (["npmjs", ".com"], "name no registry's host"),
    (["debian", ".org"], "name no registry's host"),
];

/// A sleep. It lasts a named constant, whose comment says why so long, or has a TIMEOUT above that says so: one that only
/// orders threads fails on a busy machine.
const SLEEP: [&str; 2] = ["thread::", "sleep("];

/// What a library does not write: what goes to standard output or error is the program's to say.
const PRINTS: [[&str; 2]; 4] = [["print", "!("], ["println", "!("], ["eprint", "!("], ["eprintln", "!("]];
/// The crates whose sources may: programs, the suite that is tests, and the models, which say what is wrong and end the process.
const PRINTERS: [&str; 4] = ["crates/cli/", "crates/conformance/", "crates/metal-model/", "crates/nccl-model/"];

/// Holds one file to the rules of its kind.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if source.path == "Cargo.lock" || source.path.ends_with("/Cargo.lock") {
        return findings;
    }
    let is_rust = source.path.ends_with(".rs");
    if is_rust {
        whole(source, &mut findings);
    }
    let may_print = prints_from(source);
    let mut before = "";
    for (number, line) in (1..).zip(source.text.lines()) {
        let mut find = |what: String| findings.push(format!("{}:{number}: {what}", source.path));
        banned(&LOCAL, line).for_each(&mut find);
        if is_rust {
            banned(&BANNED, line).for_each(&mut find);
            tag(line).into_iter().for_each(&mut find);
            if number < may_print && PRINTS.iter().any(|halves| prints(line, &halves.concat())) {
                find("a library prints nothing: answer an error, or a value that the program shows".to_owned());
            }
            if is_sleep(line) && !before.contains("TIMEOUT:") {
                find(
                    "say in a TIMEOUT: above why it sleeps so long; to order threads, step the model device".to_owned(),
                );
            }
        }
        before = line;
    }
    findings
}

/// The rules over a whole file.
fn whole(source: &Source, findings: &mut Vec<Finding>) {
    if !source.text.starts_with("//!") {
        findings.push(format!("{}:1: open with //! and what the file is for", source.path));
    }
    let lines = source.text.lines().count();
    if lines > LINES_MAX {
        findings.push(format!("{}:{LINES_MAX}: split it: {lines} lines are more than {LINES_MAX}", source.path));
    }
}

/// What a line holds of a table.
fn banned<'a>(table: &'a [([&str; 2], &str)], line: &'a str) -> impl Iterator<Item = String> + 'a {
    table.iter().filter_map(move |(halves, instead)| {
        let what = halves.concat();
        line.contains(&what).then(|| format!("{}: {instead}", what.trim()))
    })
}

/// The first line of a file that may print: the first one of a program's or of tests.
fn prints_from(source: &Source) -> usize {
    let of_library = source.path.starts_with("crates/") && source.path.contains("/src/");
    let may = PRINTERS.iter().any(|printer| source.path.starts_with(printer));
    if of_library && !may { source.tests_from() } else { 0 }
}

/// Whether a line calls this macro.
fn prints(line: &str, call: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line);
    code.match_indices(call)
        .any(|(at, _)| !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
}

/// Whether a line sleeps for a time that has no name.
fn is_sleep(line: &str) -> bool {
    let code = if line.trim_start().starts_with("//") { "" } else { line };
    let named = |rest: &str| rest.starts_with(|c: char| c.is_ascii_uppercase()) && !rest.starts_with("Duration");
    code.split_once(&SLEEP.concat()).is_some_and(|(_, rest)| !named(rest))
}

/// What is wrong with the tag that a comment opens with: `// WORD: ...` or `// WORD[code]: ...`.
fn tag(line: &str) -> Option<String> {
    let comment = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim_start();
    let end = comment.find(|c: char| !c.is_ascii_uppercase())?;
    let (word, rest) = comment.split_at(end);
    let bare = rest.starts_with(':');
    if word == "TODO" {
        let code = rest.strip_prefix('[').and_then(|rest| rest.split_once("]:")).map_or("", |(code, _)| code);
        return code.is_empty().then(|| "write TODO[code]: with a heading of docs/todo.md".to_owned());
    }
    // Shorter words are abbreviations at the start of a sentence or of a list.
    (bare && word.len() > 3 && !TAGS.contains(&word))
        .then(|| format!("{word}: is no tag; the tags are {}", TAGS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<Finding> {
        super::check(&Source { path: path.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn a_tidy_file_passes() {
        let text = "//! A file.\n// SAFETY: because.\n// Words: a list.\n// TODO[ring]: later.\n// GPU: a vendor's.\n";
        assert_eq!(check("crates/a/src/lib.rs", text), Vec::<String>::new());
    }

    #[test]
    fn a_file_opens_with_what_it_is_for_and_ends_in_time() {
        assert_eq!(check("a.rs", "fn main() {}\n"), ["a.rs:1: open with //! and what the file is for"]);
        let long = format!("//! A file.\n{}", "\n".repeat(LINES_MAX));
        assert_eq!(check("a.rs", &long), ["a.rs:800: split it: 801 lines are more than 800"]);
    }

    #[test]
    fn tags_are_few() {
        let found = check("a.rs", "//!\n    // NOTE: a.\n// TODO: b.\n// TODO[]: c.\n");
        assert_eq!(found.len(), 3);
        assert!(found[0].starts_with("a.rs:2: NOTE: is no tag"), "{found:?}");
        assert!(found[1].starts_with("a.rs:3: write TODO[code]:"), "{found:?}");
    }

    #[test]
    fn every_banned_word_is_found_and_says_what_to_write() {
        for (halves, instead) in BANNED {
            let text = format!("//!\n  {}\n", halves.concat());
            let found = check("a.rs", &text);
            assert!(found.len() == 1 && found[0].starts_with("a.rs:2: ") && found[0].ends_with(instead), "{found:?}");
            assert!(check("a.md", &text).is_empty());
        }
        for (halves, _) in LOCAL {
            assert_eq!(check("a.toml", &format!("x = \"{}\"", halves.concat())).len(), 1, "{halves:?}");
        }
    }

    #[test]
    fn a_library_prints_nothing_but_in_its_tests() {
        let call = PRINTS[1].concat();
        let text = format!("//!\n{call});\n// {call});\n#[cfg(test)]\nmod tests {{\n    {call});\n}}\n");
        assert_eq!(check("crates/rig/src/a.rs", &text).len(), 1);
        for path in ["crates/rig/tests/a.rs", "crates/cli/src/a.rs", "crates/rig/src/tests.rs", "xtask/src/a.rs"] {
            assert!(check(path, &text).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_sleep_says_why() {
        let sleep = SLEEP.concat();
        assert_eq!(check("crates/a/b.rs", &format!("//!\n    std::{sleep}x);\n")).len(), 1);
        assert_eq!(check("crates/a/b.rs", &format!("//!\n    std::{sleep}Duration::ZERO);\n")).len(), 1);
        assert!(check("crates/a/b.rs", &format!("//!\n // TIMEOUT: as long as a tick.\n    {sleep}x);\n")).is_empty());
        assert!(check("crates/a/b.rs", &format!("//!\n    {sleep}POLL_PERIOD);\n    // {sleep}x)\n")).is_empty());
    }
}
