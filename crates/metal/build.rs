//! Says whether there is a Metal under the crate: Apple's on macOS, or software Metal with the feature `model` on Linux.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(rig_metal)");
    let is = |variable: &str, value: &str| std::env::var(variable).is_ok_and(|found| found == value);
    let model = std::env::var_os("CARGO_FEATURE_MODEL").is_some()
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64");
    if model || is("CARGO_CFG_TARGET_OS", "macos") {
        println!("cargo::rustc-cfg=rig_metal");
    }
}
