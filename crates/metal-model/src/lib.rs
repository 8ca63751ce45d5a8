//! Software Metal: Apple's Metal interface on Linux, with no GPU, for programs written with objc2.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod address;
pub mod container;
mod fiber;
mod jit;
pub mod kernel;
pub mod metadata;
pub mod workers;
