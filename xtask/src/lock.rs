//! What Cargo.lock says, held to deny.toml: every package is the workspace's own or of the one registry, none is there in two
//! versions but those that the file lists, and the licences that it allows are those that `licences` knows.
//!
//! The tool that deny.toml is for need not be here: the little of both files that matters is read by lines.

use std::collections::BTreeMap;

use crate::{Result, licences, sources};

/// The list of what is skipped, and that of licences, in deny.toml.
const LISTS: [&str; 2] = ["skip = [", "allow = ["];

/// Looks at both files.
pub fn run() -> Result {
    let findings = check(&sources::read("Cargo.lock")?, &sources::read("deny.toml")?);
    if findings.is_empty() { Ok(()) } else { Err(findings.join("; ")) }
}

fn check(lock: &str, deny: &str) -> Vec<String> {
    let packages = packages(lock);
    let mut findings = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for &(name, version, source) in &packages {
        versions.entry(name).or_default().push(version);
        if source.is_some_and(|source| !source.starts_with("registry+") || !source.contains("/rust-lang/")) {
            findings
                .push(format!("{name} comes from {}: packages are of the one registry", source.unwrap_or_default()));
        }
    }
    let [skip, allow] = LISTS.map(|list| entries(deny, list));
    let skip: Vec<(&str, &str)> = skip.iter().filter_map(|line| Some((quoted(line, 0)?, quoted(line, 1)?))).collect();
    let is = |version: &str, start: &str| version.strip_prefix(start).is_some_and(|rest| rest.starts_with('.'));
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let skipped = |version: &&&str| skip.iter().any(|(of, start)| of == name && is(version, start));
        if versions.iter().filter(|version| !skipped(version)).count() > 1 {
            findings.push(format!(
                "{name} is there as {}: keep one, or list the old one in deny.toml",
                versions.join(" and ")
            ));
        }
    }
    for (name, start) in &skip {
        if !versions.get(name).is_some_and(|all| all.len() > 1 && all.iter().any(|version| is(version, start))) {
            findings.push(format!("deny.toml skips {name} {start}, which is not there beside another: take it out"));
        }
    }
    let allowed: Vec<&str> = allow.iter().filter_map(|line| quoted(line, 0)).collect();
    if allowed != licences::ALLOWED {
        findings.push("deny.toml and xtask/src/licences.rs allow different licences".to_owned());
    }
    findings
}

/// The packages of a lock file: name, version, source.
fn packages(lock: &str) -> Vec<(&str, &str, Option<&str>)> {
    let package = |package| {
        let of = |key: &str| Some(str::split_once(package, &format!("\n{key} = \""))?.1.split_once('"')?.0);
        Some((of("name")?, of("version")?, of("source")))
    };
    lock.split("[[package]]").skip(1).filter_map(package).collect()
}

/// The lines of a list, less comments.
fn entries<'a>(text: &'a str, list: &str) -> Vec<&'a str> {
    let rest = text.split_once(&format!("\n{list}\n")).map_or("", |(_, rest)| rest);
    let lines = rest.lines().take_while(|line| *line != "]");
    lines.filter(|line| !line.trim_start().starts_with('#')).collect()
}

/// The text between the quotes of a line's pair of this number.
fn quoted(line: &str, pair: usize) -> Option<&str> {
    line.split('"').nth(2 * pair + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(packages: &[(&str, &str, &str)]) -> String {
        let package = |(name, version, source): &(&str, &str, &str)| {
            let source = if source.is_empty() { String::new() } else { format!("source = \"{source}\"\n") };
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}\n")
        };
        packages.iter().map(package).collect()
    }

    fn deny(skip: &str) -> String {
        let allow: String = licences::ALLOWED.iter().map(|licence| format!("    \"{licence}\",\n")).collect();
        format!("[licenses]\nallow = [\n{allow}]\n[bans]\nskip = [\n{skip}]\n")
    }

    #[test]
    fn the_lock_file_is_what_deny_toml_says() {
        run().unwrap();
    }

    #[test]
    fn a_second_version_is_found_unless_it_is_listed_and_a_list_does_not_outlive_it() {
        let two = lock(&[("a", "1.2.0", ""), ("a", "0.9.1", "")]);
        assert!(check(&two, &deny(""))[0].starts_with("a is there as 1.2.0 and 0.9.1"));
        let listed = deny("    # why\n    { name = \"a\", version = \"0.9\" },\n");
        assert_eq!(check(&two, &listed), Vec::<String>::new());
        assert!(check(&lock(&[("a", "1.2.0", "")]), &listed)[0].starts_with("deny.toml skips a 0.9"));
    }

    #[test]
    fn a_package_from_elsewhere_and_other_licences_are_found() {
        let git = lock(&[("a", "1.0.0", "git+https://example.org/a#1")]);
        assert!(check(&git, &deny(""))[0].starts_with("a comes from git+"));
        assert!(check("", &deny("").replace("\"ISC\"", "\"GPL-2.0\""))[0].contains("different licences"));
    }
}
