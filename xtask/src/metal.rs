//! The Metal driver's tests on a Mac's GPU.
//!
//! Everywhere else those tests run on software Metal, as part of `test`. A Mac runs the same suite on Metal itself, with the
//! kernels that Apple's compiler makes of the `.metal` sources beside the tests.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::shell::{cargo, command, output, root, run as step, target};
use crate::test::counted;

/// Where the kernels' sources lie.
const KERNELS: &str = "crates/metal/tests/kernels";

/// Compiles the kernels and runs the tests.
pub fn run(arguments: &[String]) -> Result {
    if !cfg!(target_os = "macos") {
        return Err("this runs on a Mac; elsewhere `cargo xtask test` runs the driver on software Metal".to_owned());
    }
    if output(command("xcrun").args(["--find", "metal"]), false).is_err() {
        return Err(
            "Apple's Metal compiler is not here: install Xcode, then run xcodebuild -downloadComponent MetalToolchain"
                .to_owned(),
        );
    }
    let folder = target().join("metal-kernels");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    for source in sources()? {
        compile(&source, &folder)?;
    }
    let mut test = cargo();
    test.args(["test", "--package", "rig-metal", "--no-fail-fast"]).args(arguments).env("RIG_METAL_KERNELS", &folder);
    counted(&mut test)?;
    step(
        cargo()
            .args(["run", "--release", "--package", "rig-metal", "--example", "metal_add"])
            .env("RIG_METAL_KERNELS", &folder),
    )
}

/// Every `.metal` file of the tests.
fn sources() -> Result<Vec<PathBuf>> {
    let folder = root().join(KERNELS);
    let entries =
        std::fs::read_dir(&folder).map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let sources: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "metal")).collect();
    if sources.is_empty() { Err(format!("{} holds no .metal file", folder.display())) } else { Ok(sources) }
}

/// Compiles one source into a library of its name.
fn compile(source: &Path, folder: &Path) -> Result {
    // PANIC: `sources` answers files with an extension, which have a name before it.
    let name = source.file_stem().expect("a source has a name");
    let library = folder.join(name).with_extension("metallib");
    step(command("xcrun").args(["-sdk", "macosx", "metal", "-std=metal3.2", "-O2", "-o"]).arg(library).arg(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn elsewhere_it_says_what_runs_the_driver_there() {
        assert!(run(&[]).unwrap_err().contains("cargo xtask test"));
    }
}
