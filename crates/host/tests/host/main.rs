//! Tests of the host's devices.

mod driver;
mod groups;
#[expect(clippy::unwrap_used, reason = "the harness is a test")]
mod harness;
mod objects;
mod pool;
