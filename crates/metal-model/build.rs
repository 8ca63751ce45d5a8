//! Links LLVM 19, and stands in for the libraries that objc2's GNUstep features ask the linker for.
//!
//! The model is the Objective-C runtime, the Foundation and the Dispatch that those features expect, so the libraries are
//! empty archives.

use std::{env, fs, path::PathBuf};

/// An archive with no members.
const EMPTY: &[u8] = b"!<arch>\n";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let (os, machine) = (env::var("CARGO_CFG_TARGET_OS"), env::var("CARGO_CFG_TARGET_ARCH"));
    if os.as_deref() != Ok("linux") || machine.as_deref() != Ok("x86_64") {
        return;
    }
    let folder = PathBuf::from(env::var("OUT_DIR").expect("cargo gives build scripts a folder"));
    for name in ["libobjc.a", "libgnustep-base.a", "libdispatch.a"] {
        fs::write(folder.join(name), EMPTY).expect("the folder of a build script is writable");
    }
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-search=native=/usr/lib/llvm-19/lib");
    println!("cargo:rustc-link-lib=dylib:+verbatim=libLLVM.so.19.1");
}
