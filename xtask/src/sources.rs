//! The files of the repository: all but what `.gitignore` names, so that a task also sees a file before it is added, and
//! works in a folder that is no git checkout.

use std::fs;
use std::path::Path;

use crate::{Result, shell};

/// A text file.
pub struct Source {
    /// Its path from the root, with slashes.
    pub path: String,
    /// What it holds.
    pub text: String,
}

impl Source {
    /// The number of the line from which a Rust file is tests: 0 where all of it is, or where it stands beside the libraries.
    pub fn tests_from(&self) -> usize {
        let folders = ["/tests/", "/benches/", "/examples/", "/kernels/"];
        let ends = ["tests.rs", "_test.rs"];
        if folders.iter().any(|folder| self.path.contains(folder)) || ends.iter().any(|end| self.path.ends_with(end)) {
            return 0;
        }
        let lines = self.text.lines().zip(self.text.lines().skip(1));
        let tests =
            |(before, line): &(&str, &str)| *before == "#[cfg(test)]" && line.contains("mod ") && line.ends_with('{');
        (1..).zip(lines).find(|(_, pair)| tests(pair)).map_or(usize::MAX, |(number, _)| number)
    }
}

/// Every text file, by path.
pub fn all() -> Result<Vec<Source>> {
    let root = shell::root();
    let ignored = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let ignored: Vec<&str> = ignored.lines().filter_map(|line| line.strip_prefix('/')).collect();
    let mut sources = Vec::new();
    walk(root, "", &ignored, &mut sources)?;
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(sources)
}

/// The Rust files.
pub fn rust() -> Result<Vec<Source>> {
    Ok(all()?.into_iter().filter(|source| source.path.ends_with(".rs")).collect())
}

/// The text of one file, by its path from the root.
pub fn read(path: &str) -> Result<String> {
    fs::read_to_string(shell::root().join(path)).map_err(|error| format!("{path} cannot be read: {error}"))
}

fn walk(folder: &Path, from: &str, ignored: &[&str], into: &mut Vec<Source>) -> Result {
    let why = |error| format!("{} cannot be read: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(why)? {
        let entry = entry.map_err(why)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{from}{name}");
        if name == ".git" || ignored.iter().any(|pattern| matches(pattern, &path)) {
            continue;
        }
        if entry.path().is_dir() {
            walk(&entry.path(), &format!("{path}/"), ignored, into)?;
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            into.push(Source { path, text });
        }
    }
    Ok(())
}

/// Whether a line of `.gitignore`, less its leading slash, names a path. A star may end it, and stand nowhere else.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == pattern.trim_end_matches('/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_finds_this_file_and_no_build_output() {
        let sources = all().unwrap();
        assert!(sources.iter().any(|source| source.path == "xtask/src/sources.rs"));
        assert!(sources.iter().any(|source| source.path == ".cargo/config.toml"));
        assert!(!sources.iter().any(|source| source.path.starts_with("target")));
    }

    #[test]
    fn a_star_ends_a_pattern() {
        assert!(matches("target", "target") && !matches("target", "targets"));
        assert!(matches("target-*", "target-tsan") && !matches("target-*", "target"));
    }
}
