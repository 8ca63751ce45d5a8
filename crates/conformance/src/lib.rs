//! The conformance suite of rig, and devices to test against.

mod null;

pub use null::{NullDriver, NullOpener, NullRegion};
