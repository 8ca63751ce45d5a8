//! How a host device ends.
//!
//! A device that closes runs what was committed to its end, as hardware would; one that is lost starts nothing more. Either
//! way `stop` waits for nothing: if no work runs it writes the last value itself, and else the last runner does, once its
//! kernel has returned (E21). Workers end by themselves after that.
//!
//! # Invariants
//!
//! 1. After the last value is written by a stopped device, nothing writes its word: submits are over, and no job is left.

use rig_edge::Fault;

use crate::{Host, Runner};

impl Host {
    pub(crate) fn end(&self, fault: Option<&str>) -> Result<(), Fault> {
        match &self.runner {
            Runner::Caller(caller) => caller.stop(),
            Runner::Pool(pool) => pool.stop(fault),
        }
        Ok(())
    }
}
