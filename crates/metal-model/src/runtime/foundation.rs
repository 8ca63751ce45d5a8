//! The part of Foundation that Metal's interface uses: strings, errors, exceptions, collections, the process.
//!
//! Each class is an ordinary one, built by `define_class!` under its real name and exported under the symbol by which
//! objc2-foundation names it. Its methods are those of Apple's interface that objc2-foundation calls, and the few that
//! programs call besides.

mod error;
mod exception;
mod string;

pub use error::error;
pub use exception::exception;
