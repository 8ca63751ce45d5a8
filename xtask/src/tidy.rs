//! What the compiler and clippy do not look at. A rule gets a file and answers with its findings; each finding says where
//! it is and what to do.

mod links;
mod manifests;
mod pages;
mod text;

use crate::{Result, sources};

/// A rule that was broken, and where: `path:line: what to do`.
type Finding = String;

/// Holds every file to every rule.
pub fn run() -> Result {
    let sources = sources::all()?;
    let mut findings: Vec<Finding> = sources.iter().flat_map(text::check).collect();
    findings.extend(links::check(&sources));
    findings.extend(manifests::check(&sources));
    findings.extend(pages::check(&sources));
    if findings.is_empty() {
        println!("tidy: {} files", sources.len());
        return Ok(());
    }
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    Err(format!("{} findings of tidy, each with what to do", findings.len()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_file_of_the_repository_is_tidy() {
        super::run().unwrap();
    }
}
