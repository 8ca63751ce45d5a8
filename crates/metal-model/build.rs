//! Links LLVM 19, and stands in for the libraries that objc2's GNUstep features ask the linker for.
//!
//! The model is the Objective-C runtime, the Foundation and the Dispatch that those features expect, so the libraries are
//! empty archives.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// An archive with no members.
const EMPTY: &[u8] = b"!<arch>\n";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src");
    // Compiled kernels that are kept on disk are those of this source.
    println!("cargo:rustc-env=RIG_MODEL_SOURCES={:016x}", sources(Path::new("src")));
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

/// A hash of the files below a folder.
fn sources(folder: &Path) -> u64 {
    let mut hash = DefaultHasher::new();
    let entries = fs::read_dir(folder).expect("the crate has its sources");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder of sources is read").path()).collect();
    paths.sort();
    for path in paths {
        path.hash(&mut hash);
        if path.is_dir() {
            sources(&path).hash(&mut hash);
        } else {
            fs::read(&path).expect("a source is read").hash(&mut hash);
        }
    }
    hash.finish()
}
