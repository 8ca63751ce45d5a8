//! rig beside what a program would use in its place: runs the package `peers/`, and puts its table into docs/performance.md.
//!
//! The package is a workspace of its own, so what it stands beside is compiled for this task alone. It is no step of `check` or
//! `ci`: it needs packages of the system's, and minutes to build.

use std::fs;

use crate::shell::{cargo, root, run as step, target_of};
use crate::{Result, sources};

/// The document that has the table.
const DOCUMENT: &str = "docs/performance.md";
/// What stands around the table.
const MARKERS: [&str; 2] = ["<!-- peers: begin -->\n", "<!-- peers: end -->\n"];

/// Measures, prints the table and, unless the run is a quick one or lacks a peer, writes it.
pub fn run(quick: bool) -> Result {
    let target = target_of("peers");
    let section = target.join("section.md");
    let mut command = cargo();
    command.args(["run", "--release", "--manifest-path", "peers/Cargo.toml", "--target-dir"]).arg(&target).arg("--");
    if quick {
        return step(command.arg("--quick"));
    }
    // One of an earlier run would be taken for this one's.
    let _ = fs::remove_file(&section);
    step(command.arg("--section").arg(&section))?;
    let Ok(section) = fs::read_to_string(&section) else {
        println!("A peer is missing, so {DOCUMENT} stays as it is");
        return Ok(());
    };
    let text = between(&sources::read(DOCUMENT)?, &section)?;
    fs::write(root().join(DOCUMENT), text).map_err(|error| format!("{DOCUMENT} cannot be written: {error}"))?;
    println!("{DOCUMENT} has the table");
    Ok(())
}

/// The document with `section` between its markers.
fn between(document: &str, section: &str) -> Result<String> {
    let missing = || format!("{DOCUMENT} has no {} and {} after it", MARKERS[0].trim(), MARKERS[1].trim());
    let (before, rest) = document.split_once(MARKERS[0]).ok_or_else(missing)?;
    let (_, after) = rest.split_once(MARKERS[1]).ok_or_else(missing)?;
    Ok([before, MARKERS[0], section, MARKERS[1], after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_place_of_the_last_one_and_nothing_else() {
        let [begin, end] = MARKERS;
        let document = format!("above\n{begin}old\n{end}below\n");
        assert_eq!(between(&document, "new\n").unwrap(), format!("above\n{begin}new\n{end}below\n"));
        assert!(between("above\n", "new\n").unwrap_err().contains("peers: begin"));
    }

    #[test]
    fn the_document_has_a_place_for_the_table() {
        let document = sources::read(DOCUMENT).unwrap();
        assert!(between(&document, "").is_ok());
    }
}
