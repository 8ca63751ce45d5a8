//! The bodies against plain Rust: every family, over values that include NaN, infinities, zeros of both signs and
//! numbers too small to be normal.

mod harness;
mod lanes;
mod names;
mod numbers;
