//! Which crate depends on which, and that each takes the workspace's lints.
//!
//! Arrows point down alone: rig and every driver stand on rig-edge, and a driver never on rig or on another driver, so
//! that a driver can be written by a stranger and rig never knows a vendor. Tests may look up: they are nobody's
//! dependency.

use crate::sources::Source;
use crate::tidy::Finding;

/// What each crate that is no driver may depend on within the workspace. The model of a vendor's hardware depends on
/// nothing of rig, and is a dependency of that vendor's driver alone.
const ARROWS: [(&str, &[&str]); 8] = [
    ("rig-edge", &[]),
    ("rig-gpu", &["rig-edge"]),
    ("rig-conformance", &["rig-gpu", "rig-edge"]),
    ("xtask", &[]),
    // What stands beside rig in a bench: a program, in a workspace of its own.
    ("rig-peers", &["rig-gpu", "rig-host"]),
    // What fuzzing tries reads what its parser reads: nothing of rig's core.
    ("rig-fuzz", &[DRIVERS, "rig-amd-model", "rig-metal-model"]),
    // Collectives between GPUs: fills of one vendor's driver, as a program makes them.
    ("rig-nccl", &["rig-gpu", "rig-edge", "rig-cuda"]),
    // The program opens devices of every driver, and tests none.
    ("rig-cli", &["rig-gpu", "rig-edge", DRIVERS]),
];
/// Stands for every driver in [`ARROWS`].
const DRIVERS: &str = "(drivers)";

/// Looks at every manifest.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let manifests: Vec<Manifest> = sources
        .iter()
        .filter(|source| source.path.ends_with("/Cargo.toml"))
        .map(|source| Manifest::parse(&source.path, &source.text))
        .collect();
    let mut findings = Vec::new();
    for manifest in &manifests {
        if !manifest.workspace_lints {
            findings.push(format!("{}:1: add [lints] workspace = true", manifest.path));
        }
        for (line, dependency) in &manifest.dependencies {
            let name = package(dependency);
            if manifests.iter().any(|other| other.name == name) && !may(&manifest.name, name) {
                findings.push(format!("{}:{line}: {} may not depend on {name}", manifest.path, manifest.name));
            }
        }
    }
    findings
}

/// Whether one crate of the workspace may depend on another.
fn may(name: &str, on: &str) -> bool {
    if let Some((_, allowed)) = ARROWS.iter().find(|(of, _)| *of == name) {
        return allowed.contains(&on) || (allowed.contains(&DRIVERS) && is_driver(on));
    }
    is_driver(name) && (on == "rig-edge" || on.strip_suffix("-model") == Some(name))
}

/// Whether a crate is a driver: neither listed nor a model.
fn is_driver(name: &str) -> bool {
    !name.ends_with("-model") && !ARROWS.iter().any(|(of, _)| *of == name)
}

/// The package behind a name in a manifest: the core's library is called as the program sees it.
fn package(dependency: &str) -> &str {
    if dependency == "rig" { "rig-gpu" } else { dependency }
}

/// What matters here of a Cargo.toml.
struct Manifest {
    path: String,
    name: String,
    workspace_lints: bool,
    /// Dependencies but those of tests, each with its line.
    dependencies: Vec<(usize, String)>,
}

impl Manifest {
    /// Reads it by lines: section heads, and `key = value` or `key.workspace = true` below them.
    fn parse(path: &str, text: &str) -> Manifest {
        let mut manifest =
            Manifest { path: path.to_owned(), name: String::new(), workspace_lints: false, dependencies: Vec::new() };
        let mut section = "";
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(head) = line.trim().strip_prefix('[') {
                section = head.trim_end_matches(']');
                // A section of one dependency: [dependencies.rig].
                if let Some((kind, name)) = section.rsplit_once('.')
                    && is_dependencies(kind)
                {
                    manifest.dependencies.push((number, name.to_owned()));
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
                continue;
            };
            match section {
                "package" if key == "name" => manifest.name = value.trim_matches('"').to_owned(),
                "lints" => manifest.workspace_lints |= key == "workspace" && value == "true",
                section if is_dependencies(section) && !key.starts_with('#') => {
                    let name = key.split('.').next().unwrap_or(key);
                    manifest.dependencies.push((number, name.to_owned()));
                }
                _ => {}
            }
        }
        manifest
    }
}

/// Whether a section lists what the crate itself needs.
fn is_dependencies(section: &str) -> bool {
    let kind = section.rsplit('.').next().unwrap_or(section);
    kind == "dependencies" || kind == "build-dependencies"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources;

    fn manifest(name: &str, dependencies: &str) -> Source {
        let text = format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{dependencies}");
        Source { path: format!("crates/{name}/Cargo.toml"), text }
    }

    /// Promise E01.
    #[test]
    fn a_driver_stands_on_the_driver_interface_alone() {
        let sources = sources::all().unwrap();
        assert_eq!(check(&sources), Vec::<String>::new());
        // The rule sees the crates that there are, and would find the arrow.
        let host = sources.iter().find(|source| source.path == "crates/host/Cargo.toml").unwrap();
        assert!(Manifest::parse(&host.path, &host.text).dependencies.iter().any(|(_, name)| name == "rig-edge"));
        let up = [manifest("rig-gpu", ""), manifest("rig-host", "[dependencies]\n# why\nrig.workspace = true\n")];
        assert_eq!(check(&up), ["crates/rig-host/Cargo.toml:7: rig-host may not depend on rig-gpu"]);
    }

    /// Promise E01.
    #[test]
    fn a_driver_depends_on_no_other_driver_and_on_its_own_model_alone() {
        assert!(may("rig-metal", "rig-edge") && may("rig-metal", "rig-metal-model"));
        assert!(!may("rig-metal", "rig-gpu") && !may("rig-metal", "rig-host") && !may("rig-metal", "rig-amd-model"));
        assert!(!may("rig-metal-model", "rig-edge") && !may("rig-gpu", "rig-host") && may("rig-cli", "rig-host"));
    }

    #[test]
    fn tests_may_look_up_and_sections_of_one_dependency_count() {
        let tests = "[dev-dependencies]\nrig.workspace = true\n[target.'cfg(unix)'.dev-dependencies.rig]\n";
        assert_eq!(check(&[manifest("rig-gpu", ""), manifest("rig-host", tests)]), Vec::<String>::new());
        let one = "[target.'cfg(unix)'.dependencies.rig]\npath = \"../rig\"\n";
        assert_eq!(check(&[manifest("rig-gpu", ""), manifest("rig-host", one)]).len(), 1);
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let source = Source { path: "crates/a/Cargo.toml".to_owned(), text: "[package]\nname = \"a\"\n".to_owned() };
        assert_eq!(check(&[source]), ["crates/a/Cargo.toml:1: add [lints] workspace = true"]);
    }
}
