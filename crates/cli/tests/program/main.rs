//! The program `rig` from outside: what it prints, writes and answers, with functions that real compilers made.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod best;
mod common;
mod completions;
mod devices;
mod doctor;
mod kernels;
mod man;
mod numpy;
mod progress;
mod run;
mod trace;
