//! The program in the README is one that the tests build and run: it stands word for word in an example.

use crate::sources::Source;
use crate::tidy::Finding;

/// Looks at each block of Rust in the README.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(readme) = sources.iter().find(|source| source.path == "README.md") else {
        return vec!["README.md:1: write it".to_owned()];
    };
    let examples: Vec<&Source> =
        sources.iter().filter(|source| source.path.starts_with("crates/rig/examples/")).collect();
    let blocks = readme.text.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest));
    blocks
        .filter(|block| !examples.iter().any(|example| example.text.contains(block)))
        .map(|block| {
            let first = block.lines().next().unwrap_or("");
            format!("README.md: no example of crates/rig/examples holds the block that begins with `{first}`")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_no_example_holds_is_found() {
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let readme = source("README.md", "# rig\n```rust\nfn main() {}\n```\n```rust\nlet gone = 1;\n```\n");
        let found = check(&[readme, source("crates/rig/examples/add.rs", "//! add\nfn main() {}\n")]);
        assert_eq!(
            found,
            ["README.md: no example of crates/rig/examples holds the block that begins with `let gone = 1;`"]
        );
    }
}
