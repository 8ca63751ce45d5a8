//! Software Metal: Apple's Metal interface on Linux, with no GPU, for programs written with objc2.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod address;
mod checks;
pub mod container;
mod fiber;
mod jit;
pub mod kernel;
pub mod metadata;
mod prelude;
pub mod workers;

pub mod machine;
#[expect(unsafe_code, reason = "the classes answer messages whose types Metal's interface fixes")]
mod metal;
#[expect(
    clippy::missing_safety_doc,
    clippy::type_complexity,
    missing_docs,
    non_snake_case,
    non_upper_case_globals,
    unsafe_code,
    reason = "the names, and what is unsafe, are Metal's, and Apple documents them"
)]
pub mod protocol;
mod queue;

pub mod live;
#[expect(unsafe_code, reason = "it is the Objective-C runtime: C functions over raw pointers")]
pub mod runtime;

/// The examples of the README are compiled, and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
