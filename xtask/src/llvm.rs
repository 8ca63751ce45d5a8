//! LLVM 19's library, which software Metal compiles kernels with: whether it is here, and how it comes.

use std::path::Path;

use crate::shell::{command, found, output, run as step};

/// The package of Debian that holds the library, and nothing else.
const PACKAGE: &str = "libllvm19";
/// Where distributions put it.
const PLACES: [&str; 3] = [
    "/usr/lib/llvm-19/lib/libLLVM.so.19.1",
    "/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1",
    "/usr/lib64/llvm19/lib/libLLVM.so.19.1",
];

/// Why software Metal cannot run here, and what to do; `None` once the library is here. Installs it where that is this user's
/// to do.
pub fn missing() -> Option<String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("software Metal runs on Linux on x86-64".to_owned());
    }
    if !is_here() && is_root() && found("apt-get") {
        // Lists of packages may be old or absent: an install that still fails says so by what is not there.
        let _ = step(command("apt-get").args(["update", "-qq"]));
        let install = ["install", "-y", "-qq", "--no-install-recommends", PACKAGE];
        let _ = step(command("apt-get").args(install).env("DEBIAN_FRONTEND", "noninteractive"));
    }
    (!is_here()).then(|| format!("software Metal needs LLVM 19's library: apt-get install {PACKAGE}"))
}

/// Whether the library lies where a linker looks.
fn is_here() -> bool {
    PLACES.iter().any(|place| Path::new(place).exists())
}

/// Whether packages may be installed without asking.
fn is_root() -> bool {
    output(command("id").arg("-u"), false).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_here_is_named_with_what_installs_it() {
        match missing() {
            None => assert!(is_here()),
            Some(why) => assert!(why.starts_with("software Metal "), "{why}"),
        }
    }
}
