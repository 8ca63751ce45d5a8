//! The atomics of this crate, so that shuttle can stand in for them.

#[cfg(not(rig_shuttle))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(rig_shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
