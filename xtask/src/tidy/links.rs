//! Links in documents lead to files that are there.

use crate::shell;
use crate::sources::Source;
use crate::tidy::Finding;

/// Looks at every document.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let there = |path: &str| {
        let folder = format!("{path}/");
        // A picture is no text, and so no source.
        let is_picture = path.ends_with(".png") && shell::root().join(path).is_file();
        is_picture || sources.iter().any(|source| source.path == path || source.path.starts_with(&folder))
    };
    let documents = sources.iter().filter(|source| source.path.ends_with(".md"));
    documents.flat_map(|document| broken(document, &there)).collect()
}

/// The links of a document that lead nowhere.
fn broken(document: &Source, there: &impl Fn(&str) -> bool) -> Vec<Finding> {
    let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(document.text.lines()) {
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap_or("");
            if target.is_empty() || target.contains("://") || there(&joined(folder, target)) {
                continue;
            }
            findings.push(format!("{}:{number}: there is no {target}", document.path));
        }
    }
    findings
}

/// A path from the root, of a path from a folder.
fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nowhere_is_found_with_its_line() {
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let text = "[a](../README.md#top) [b](missing.md)\n[c](../crates/rig) [d](#here) [e](https://x.y)\n\
                    ![f](trace.png) ![g](missing.png)";
        let sources = [source("docs/a.md", text), source("README.md", ""), source("crates/rig/Cargo.toml", "")];
        assert_eq!(check(&sources), ["docs/a.md:1: there is no missing.md", "docs/a.md:3: there is no missing.png"]);
    }
}
