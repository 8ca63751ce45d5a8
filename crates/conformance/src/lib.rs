//! The conformance suite of rig, and devices to test against.
//!
//! * [`model`]: a driver that a test decides everything of, and that checks its caller.
//! * [`suite`]: what any driver must do, run from its own tests by [`conformance!`].
//! * [`soak`]: mixed load on any driver's devices, with memory that stays flat and handles that all come back.
//! * [`allocations`]: an allocator that counts, for tests that a submit allocates nothing.
//! * [`c`]: headers and C code in tests, with the compilers that the machine has.
//! * [`NullOpener`]: a driver that does nothing, to measure rig with and to begin a new driver from.

pub mod allocations;
pub mod c;
pub mod model;
mod null;
mod primitive;
mod rng;
#[cfg(not(rig_shuttle))]
#[expect(clippy::unwrap_used, reason = "an episode is a test: what it cannot do is its failure")]
pub mod soak;
#[cfg(not(rig_shuttle))]
#[expect(clippy::unwrap_used, reason = "a case is a test: what it cannot do is its failure")]
pub mod suite;

pub use null::{NullDriver, NullOpener, NullRegion};
