//! What keeps Metal from opening, and what software Metal needs.

use super::system::System;
use super::{Diagnosis, State};

/// The library that software Metal links.
const LLVM: &str = "libLLVM.so.19.1";
/// Where distributions put it.
const FOLDERS: [&str; 4] = ["/usr/lib/llvm-19/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// What this program is built for.
pub struct Here {
    /// For macOS.
    pub apple: bool,
    /// For Linux on x86-64, where software Metal runs.
    pub linux: bool,
}

impl Here {
    /// This program.
    pub fn this() -> Here {
        Here { apple: cfg!(target_os = "macos"), linux: cfg!(all(target_os = "linux", target_arch = "x86_64")) }
    }
}

/// Why no GPU of Metal's opens.
pub fn diagnose(here: &Here, system: &dyn System) -> Diagnosis {
    if here.apple {
        return Diagnosis::broken(
            "this Mac's GPU does not open, for the reason below",
            "macOS 15 or later has what rig needs (System Settings, General, Software Update); a virtual machine or a session \
             without a login may have no GPU",
        );
    }
    let absent = Diagnosis::new(State::Absent, "this is no Mac");
    if !here.linux {
        return absent;
    }
    let there = FOLDERS.iter().any(|folder| system.is_there(&format!("{folder}/{LLVM}")));
    let library = match there {
        true => format!("the library that it links ({LLVM}) is here"),
        false => format!("first install the library that it links ({LLVM}: on Debian and Ubuntu libllvm19)"),
    };
    absent.mend(format!(
        "cargo install --path crates/cli --features metal-model, which runs metallibs on software Metal; {library}"
    ))
}
