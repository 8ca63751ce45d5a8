//! The Rust of the README and the guide is of programs that the tests build and run: it stands word for word in an example.

use crate::sources::Source;
use crate::tidy::Finding;

/// The pages, which must be there.
const PAGES: [&str; 2] = ["README.md", "docs/guide.md"];

/// Looks at each block of Rust in the pages.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let is_example = |path: &str| path.starts_with("crates/") && path.contains("/examples/");
    let examples: Vec<Vec<&str>> =
        sources.iter().filter(|source| is_example(&source.path)).map(|source| lines(&source.text)).collect();
    let of_page = |page: &str| match sources.iter().find(|source| source.path == page) {
        Some(source) => unheld(page, &source.text, &examples),
        None => vec![format!("{page}:1: write it")],
    };
    PAGES.iter().flat_map(|page| of_page(page)).collect()
}

/// The blocks of a page that stand in no example.
fn unheld(page: &str, text: &str, examples: &[Vec<&str>]) -> Vec<Finding> {
    let blocks = text.split("```rust\n").skip(1).map(|rest| lines(rest.split("```").next().unwrap_or(rest)));
    let held = |block: &[&str]| examples.iter().any(|example| example.windows(block.len()).any(|part| part == block));
    let finding = |block: Vec<&str>| {
        let first = block.first().copied().unwrap_or("");
        format!("{page}: no example holds the block that begins with `{first}`")
    };
    blocks.filter(|block| block.is_empty() || !held(block)).map(finding).collect()
}

/// The lines, wherever they begin: a page shows a function's body at the margin.
fn lines(text: &str) -> Vec<&str> {
    text.trim().lines().map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_no_example_holds_is_found() {
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let readme = source("README.md", "# rig\n```rust\nfn main() {}\n```\n```rust\nlet gone = 1;\n```\n");
        let guide = source("docs/guide.md", "```rust\nlet here = 1;\nlet there = 2;\n```\n");
        let one = source("crates/rig/examples/add.rs", "//! add\nfn main() {}\n");
        let other = source("crates/rig/examples/guide.rs", "fn f() {\n    let here = 1;\n    let there = 2;\n}\n");
        assert_eq!(
            check(&[readme, guide, one, other]),
            ["README.md: no example holds the block that begins with `let gone = 1;`"]
        );
        assert_eq!(check(&[]), ["README.md:1: write it", "docs/guide.md:1: write it"]);
    }
}
