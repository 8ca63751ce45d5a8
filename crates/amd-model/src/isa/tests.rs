//! The core against what it is not made from: plain Rust for results, LLVM for text, the fixtures' compiler.

#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod faults;
mod fixtures;
mod kernels;
mod kit;
mod text;
