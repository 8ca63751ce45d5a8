//! Where unsafe code stands: a table in docs/soundness.md of what each crate has of it, and in which sections the page says why
//! it is sound. What is new is seen in review, since the table must be made anew for it.
//!
//! Counted are lines of code as rustfmt writes them. That each block has its proof beside it, clippy sees to
//! (`undocumented_unsafe_blocks`); that a block does one thing, too (`multiple_unsafe_ops_per_block`).

use std::collections::BTreeMap;
use std::fs;

use crate::sources::{self, Source};
use crate::{Result, shell};

/// The page.
const PAGE: &str = "docs/soundness.md";
/// What stands around the table in the page.
const MARKS: [&str; 2] = ["<!-- the table of cargo xtask unsafe -->\n", "<!-- its end -->\n"];

/// The sections of the page that say what each crate's unsafe code relies on.
const SECTIONS: [(&str, &str); 14] = [
    ("crates/amd", "S3, S4, S12"),
    ("crates/amd-model", "S13"),
    ("crates/cli", "S1, S3"),
    ("crates/conformance", "S20"),
    ("crates/cuda", "S3, S4, S11"),
    ("crates/edge", "S5, S19"),
    ("crates/host", "S3, S10, S17"),
    ("crates/metal", "S3, S4, S17"),
    ("crates/metal-model", "S14, S15, S16"),
    ("crates/nccl", "S18"),
    ("crates/nccl-model", "S18"),
    ("crates/rig", "S1 to S9"),
    ("fuzz", "S20"),
    ("peers", "S20"),
];

/// What a crate has of unsafe code outside of its tests, which are nobody's dependency.
#[derive(Default, Debug, PartialEq)]
struct Counts {
    files: usize,
    blocks: usize,
    impls: usize,
    functions: usize,
}

/// Writes the table; where `check`, fails if it is not current.
pub fn run(check: bool) -> Result {
    let sources = sources::all()?;
    let page = sources::read(PAGE)?;
    let table = table(&sources)?;
    let [start, end] = MARKS;
    let parts = page.split_once(start).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{PAGE} has no place for the table: {start}"))?;
    let written = format!("{before}{start}{table}{end}{after}");
    if written == page {
        return Ok(());
    }
    if check {
        return Err(format!(
            "{PAGE} does not say what unsafe code there is: cargo xtask unsafe, and say there why it is sound"
        ));
    }
    fs::write(shell::root().join(PAGE), written).map_err(|error| format!("{PAGE} cannot be written: {error}"))
}

fn table(sources: &[Source]) -> Result<String> {
    let mut crates: BTreeMap<&str, Counts> = BTreeMap::new();
    // This crate has none, and speaks of it.
    let rust = sources.iter().filter(|source| source.path.ends_with(".rs") && !source.path.starts_with("xtask/"));
    for source in rust {
        count(source, crates.entry(of(&source.path)).or_default());
    }
    let mut table = String::from("| Crate | Files | Blocks | Impls | Functions | Why it is sound |\n");
    table.push_str("|---|---|---|---|---|---|\n");
    let mut sum = Counts::default();
    for (name, counts) in crates.iter().filter(|(_, counts)| counts.files > 0) {
        let why = SECTIONS.iter().find(|(of, _)| of == name).map(|(_, why)| *why);
        let why = why.ok_or_else(|| {
            format!("{name} has unsafe code: say in {PAGE} why it is sound, and in xtask/src/unsafes.rs where")
        })?;
        let Counts { files, blocks, impls, functions } = counts;
        table.push_str(&format!("| `{name}` | {files} | {blocks} | {impls} | {functions} | {why} |\n"));
        sum.files += files;
        sum.blocks += blocks;
        sum.impls += impls;
        sum.functions += functions;
    }
    let Counts { files, blocks, impls, functions } = sum;
    table.push_str(&format!("| all | {files} | {blocks} | {impls} | {functions} | |\n"));
    Ok(table)
}

/// The folder of the crate that a file is of.
fn of(path: &str) -> &str {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    let end = path.match_indices('/').map(|(at, _)| at).nth(depth - 1).unwrap_or(path.len());
    &path[..end]
}

/// Adds what a file has.
fn count(source: &Source, counts: &mut Counts) {
    let mut has = false;
    for line in source.text.lines().take(source.tests_from()) {
        let code = line.split("//").next().unwrap_or(line);
        let blocks = code.matches("unsafe {").count();
        let impls = code.matches("unsafe impl").count();
        let functions = code.matches("unsafe fn ").count()
            + code.matches("unsafe extern \"").filter(|_| code.contains(" fn ")).count();
        // A type of a function is none.
        let functions = if code.contains("= unsafe ") || code.contains(": unsafe ") { 0 } else { functions };
        counts.blocks += blocks;
        counts.impls += impls;
        counts.functions += functions;
        has |= blocks + impls + functions > 0;
    }
    counts.files += usize::from(has);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(path: &str, text: &str) -> Counts {
        let mut counts = Counts::default();
        count(&Source { path: path.to_owned(), text: text.to_owned() }, &mut counts);
        counts
    }

    /// Code that the count itself must not take for this file's own.
    fn text() -> String {
        let word = ["un", "safe"].concat();
        format!(
            "{word} impl Send for A {{}}\n    {word} fn f() {{}}\n    {word} extern \"C\" fn g() {{\n        let a = {word} {{ b() }};\n\
             // {word} {{ c }}\ntype T = {word} extern \"C\" fn(u8);\n#[cfg(test)]\nmod tests {{\n    {word} {{ d() }}\n}}\n"
        )
    }

    #[test]
    fn blocks_impls_and_functions_are_counted_and_tests_are_not() {
        let due = Counts { files: 1, blocks: 1, impls: 1, functions: 2 };
        assert_eq!(counts("crates/a/src/lib.rs", &text()), due);
        assert_eq!(counts("crates/a/tests/b.rs", &text()), Counts::default());
        assert_eq!((of("crates/a/src/lib.rs"), of("fuzz/src/lib.rs")), ("crates/a", "fuzz"));
    }

    #[test]
    fn a_crate_that_nothing_is_said_of_is_named() {
        let source = Source { path: "crates/new/src/lib.rs".to_owned(), text: text() };
        assert!(table(&[source]).unwrap_err().starts_with("crates/new has unsafe code"));
    }

    #[test]
    fn the_page_says_what_unsafe_code_there_is() {
        run(true).unwrap();
    }
}
