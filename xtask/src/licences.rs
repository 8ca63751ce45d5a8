//! The licences of what rig is built from: each dependency may be used under one that asks for no more than a notice.

use crate::Result;
use crate::shell::{cargo, command, output};

/// The licences that rig's dependencies may have.
pub const ALLOWED: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unlicense",
    "Unicode-3.0",
    "Zlib",
];

/// Tools that xtask runs, under a licence that asks more of who changes them: rig holds nothing of theirs, and changes nothing
/// in them.
const TOOLS: [(&str, &str); 1] = [("cbindgen", "MPL-2.0")];

/// Looks at every dependency on this system.
pub fn run() -> Result {
    let host = output(command("rustc").args(["--print", "host-tuple"]), false)?;
    let metadata =
        output(cargo().args(["metadata", "--format-version", "1", "--filter-platform", host.trim()]), false)?;
    let packages = packages(&metadata);
    if packages.is_empty() {
        return Err("cargo metadata lists no package".to_owned());
    }
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !allowed(package.1) && !TOOLS.contains(package))
        .map(|(name, licence)| format!("{name} has the licence {licence:?}"))
        .collect();
    if refused.is_empty() {
        println!("licences: {} packages, none refused", packages.len());
        return Ok(());
    }
    Err(format!("{}; xtask/src/licences.rs lists those that are allowed", refused.join("; ")))
}

/// Names and licences in what `cargo metadata` prints. A package's object starts with its name, and its licence follows
/// before any other string that could hold the key, so that no parser of JSON is needed.
fn packages(metadata: &str) -> Vec<(&str, &str)> {
    let until_quote = |text: &'_ str| text.find('"').unwrap_or(text.len());
    let starts = metadata.split("{\"name\":\"").skip(1);
    let packages = starts.filter(|text| text[until_quote(text)..].starts_with("\",\"version\":\""));
    packages
        .map(|text| {
            let licence = text.split_once("\"license\":").map_or("", |(_, rest)| rest);
            let licence = licence.strip_prefix('"').map_or("", |licence| &licence[..until_quote(licence)]);
            (&text[..until_quote(text)], licence)
        })
        .collect()
}

/// Whether an expression of the SPDX kind leaves a choice that is allowed. Only whole choices are in brackets.
fn allowed(expression: &str) -> bool {
    expression.split(" AND ").all(|choice| {
        choice
            .split(" OR ")
            .flat_map(|choice| choice.split('/'))
            .any(|licence| ALLOWED.contains(&licence.trim_matches(['(', ')', ' '])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_allowed_choice_is_enough_and_each_joint_one_is_needed() {
        assert!(allowed("GPL-2.0 OR MIT") && allowed("Unlicense/MIT"));
        assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!allowed("MIT AND GPL-2.0") && !allowed("GPL-2.0") && !allowed(""));
    }

    #[test]
    fn packages_are_found_with_their_licences() {
        let metadata = r#"{"packages":[{"name":"a","version":"1.0.0","id":"i","license":"MIT","targets":
            [{"name":"a"}]},{"name":"b","version":"2.0.0","id":"j","license":null,"description":null}]}"#;
        assert_eq!(packages(metadata), [("a", "MIT"), ("b", "")]);
    }
}
