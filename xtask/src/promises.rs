//! docs/promises.md: what rig promises, and beside each promise the tests that show it.
//!
//! A line `- C14 text` is a promise. A test names the promises that it shows in a comment above it: `/// Promise C14.` or
//! `/// Promises C14, S02.` The lines indented below a promise are this task's, and written anew each time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::sources::{self, Source};
use crate::{Result, shell};

/// Where the promises are.
const FILE: &str = "docs/promises.md";
/// How far below the comment the test may start: attributes and more comment stand between.
const LINES_MAX: usize = 12;

/// The tests of each promise: by name of the promise, the file and the test.
type Shown = BTreeMap<String, BTreeSet<(String, String)>>;

/// Writes the file, or with `check` fails where it is not current. With `missing`, lists what no test shows.
pub fn run(check: bool, missing: bool) -> Result {
    let path = shell::root().join(FILE);
    let before = fs::read_to_string(&path).map_err(|error| format!("{FILE} cannot be read: {error}"))?;
    let shown = shown(&sources::rust()?);
    let promises: Vec<&str> = before.lines().filter_map(promise).collect();
    if let Some(unknown) = shown.keys().find(|name| !promises.contains(&name.as_str())) {
        let (file, test) = shown[unknown].first().cloned().unwrap_or_default();
        return Err(format!("{test} in {file} shows {unknown}, which is no promise of {FILE}"));
    }
    let after = render(&before, &shown);
    if check && before != after {
        return Err(format!("{FILE} is not current: cargo xtask promises"));
    }
    if before != after {
        fs::write(&path, after).map_err(|error| format!("{FILE} cannot be written: {error}"))?;
    }
    for section in promises.chunk_by(|one, other| one[..1] == other[..1]) {
        let without: Vec<&str> = section.iter().copied().filter(|name| !shown.contains_key(*name)).collect();
        println!(
            "promises {}: {} of {} shown by tests",
            &section[0][..1],
            section.len() - without.len(),
            section.len()
        );
        if missing && !without.is_empty() {
            println!("  not shown: {}", without.join(", "));
        }
    }
    Ok(())
}

/// The file with the tests of each promise below it.
fn render(text: &str, shown: &Shown) -> String {
    let mut out = String::new();
    let mut below_promise = false;
    for line in text.lines() {
        if below_promise && line.starts_with("  ") {
            continue;
        }
        out.push_str(line);
        out.push('\n');
        below_promise = promise(line).is_some();
        if let Some(name) = promise(line) {
            out.push_str(&tests(shown.get(name)));
        }
    }
    out
}

/// The lines below a promise: one for each file.
fn tests(shown: Option<&BTreeSet<(String, String)>>) -> String {
    let Some(shown) = shown else { return "  - not shown by a test yet\n".to_owned() };
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (file, test) in shown {
        files.entry(file).or_default().push(format!("`{test}`"));
    }
    files.into_iter().map(|(file, tests)| format!("  - {file}: {}\n", tests.join(", "))).collect()
}

/// The name of the promise that a line states.
fn promise(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("- ")?.split_once(' ')?;
    is_name(name).then_some(name)
}

/// Whether this is a letter and two digits.
fn is_name(text: &str) -> bool {
    matches!(text.as_bytes(), [b'A'..=b'Z', b'0'..=b'9', b'0'..=b'9'])
}

/// Which tests show what, over all files.
fn shown(sources: &[Source]) -> Shown {
    let mut shown = Shown::new();
    for source in sources {
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let names = named(line);
            if names.is_empty() {
                continue;
            }
            let below = &lines[at..lines.len().min(at + LINES_MAX)];
            if let Some(test) = below.iter().find_map(|line| function(line)) {
                let test = (source.path.clone(), test.to_owned());
                for name in names {
                    shown.entry(name.to_owned()).or_default().insert(test.clone());
                }
            }
        }
    }
    shown
}

/// The promises that a comment names: it starts with the word.
fn named(line: &str) -> Vec<&str> {
    let Some(comment) = line.trim_start().strip_prefix("//") else { return Vec::new() };
    let comment = comment.trim_start_matches(['/', '!']).trim_start();
    let Some(names) = comment.strip_prefix("Promises ").or_else(|| comment.strip_prefix("Promise ")) else {
        return Vec::new();
    };
    names
        .split([',', ' ', '.'])
        .filter(|word| !word.is_empty() && *word != "and")
        .take_while(|word| is_name(word))
        .collect()
}

/// The function that a line begins.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = if line.starts_with("//") { None } else { line.split_once("fn ").map(|(_, rest)| rest) }?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { path: "crates/x/tests/y.rs".to_owned(), text: text.to_owned() }
    }

    /// Code in which `?` stands for two slashes, so that no scan of this file takes a sample for a comment of a test.
    fn sample(text: &str) -> String {
        text.replace('?', "//")
    }

    #[test]
    fn a_comment_above_a_test_names_its_promises() {
        let word = "Promises";
        assert_eq!(named(&format!("    /// {word} C14, S02 and E09.")), ["C14", "S02", "E09"]);
        assert_eq!(named(&sample("?! Promise C14. And more of C15.")), ["C14"]);
        assert!(named(&sample("?/ It shows Promise C14.")).is_empty());
        assert!(named("/// Promised C14.").is_empty());
    }

    #[test]
    fn the_test_is_the_next_function() {
        let shown = shown(&[source(&sample(
            "? Promise C14.\n/// fn no\n#[test]\n    unsafe fn it_orders() {}\nfn other() {}\n",
        ))]);
        let tests: Vec<_> = shown["C14"].iter().map(|(_, test)| test.as_str()).collect();
        assert_eq!(tests, ["it_orders"]);
    }

    #[test]
    fn a_comment_with_no_function_below_shows_nothing() {
        let far = sample(&format!("? Promise C14.\n{}fn late() {{}}\n", "\n".repeat(LINES_MAX)));
        assert!(shown(&[source(&far)]).is_empty());
    }

    #[test]
    fn rendering_twice_changes_nothing_more() {
        let shown = shown(&[source(&sample("?/ Promise C02.\nfn b() {}\n?/ Promise C02.\nfn a() {}\n"))]);
        let text = "# Head\n\n- C01 one\n- C02 two\n  - stale: `gone`\n\nMore.\n  kept\n";
        let once = render(text, &shown);
        assert_eq!(
            once,
            "# Head\n\n- C01 one\n  - not shown by a test yet\n- C02 two\n  - crates/x/tests/y.rs: `a`, `b`\n\nMore.\n  \
             kept\n"
        );
        assert_eq!(render(&once, &shown), once);
    }
}
