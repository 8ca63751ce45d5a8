//! The bodies against plain Rust: every family, over values that include NaN, infinities, zeros of both signs and numbers too
//! small to be normal.

#![expect(clippy::unwrap_used, reason = "tests")]

mod harness;
mod lanes;
mod names;
mod numbers;
