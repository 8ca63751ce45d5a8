//! The core against what it is not made from: plain Rust for results, LLVM for text, the fixtures' compiler.

mod faults;
mod fixtures;
mod kernels;
mod kit;
mod more;
mod order;
mod programs;
mod scratch;
mod single;
mod text;
