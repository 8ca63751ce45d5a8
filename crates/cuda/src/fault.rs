//! CUDA's failures as faults.
//!
//! # Invariants
//!
//! 1. The first sticky failure of the process is remembered for as long as the process lives. Every fault after it has its
//!    reason, whatever CUDA answers then, and no device opens any more.

use std::sync::OnceLock;

use rig_edge::Fault;

use crate::sys::abi::Code;
use crate::sys::{Api, Failure};

/// Why CUDA has failed in this process, if it has.
#[derive(Debug)]
pub(crate) struct First(OnceLock<String>);

/// The process's.
static FIRST: First = First(OnceLock::new());

impl First {
    fn note(&self, code: Code, describe: impl Fn() -> String) -> String {
        if code.is_sticky() {
            return self.0.get_or_init(describe).clone();
        }
        self.0.get().cloned().unwrap_or_else(describe)
    }

    fn refusal(&self) -> Option<String> {
        let why = self.0.get()?;
        Some(format!("CUDA has failed in this process: {why}; no GPU opens here any more, and a new process recovers"))
    }
}

/// Why the failure loses the device.
#[cold]
pub(crate) fn reason(api: &Api, failure: Failure) -> String {
    FIRST.note(failure.code, || api.describe(failure))
}

/// The failure as a fault.
#[cold]
pub(crate) fn fault(api: &Api, failure: Failure) -> Fault {
    told(reason(api, failure))
}

/// A reason as a fault: of every device of the process once CUDA has failed in it, and of one device alone before (a fill's
/// own error, a call that CUDA refuses).
#[cold]
pub(crate) fn told(why: String) -> Fault {
    if has_failed() { Fault::new(why) } else { Fault::here(why) }
}

/// What a failure loses of a call that can do without: everything where it is sticky, and else only what the call was to do.
#[cold]
pub(crate) fn sticky(api: &Api, failure: Failure) -> Result<(), Fault> {
    if failure.code.is_sticky() || has_failed() { Err(fault(api, failure)) } else { Ok(()) }
}

/// Whether CUDA has failed in this process.
pub(crate) fn has_failed() -> bool {
    FIRST.0.get().is_some()
}

/// Why no device opens any more, where none does.
pub(crate) fn refusal() -> Option<String> {
    FIRST.refusal()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise N06.
    #[test]
    fn the_first_sticky_failure_is_every_later_reason_and_refuses_opens() {
        let first = First(OnceLock::new());
        assert_eq!(first.note(Code::INVALID_VALUE, || "a wrong value".into()), "a wrong value");
        assert_eq!(first.refusal(), None, "a failure that is not sticky refuses nothing");
        assert_eq!(first.note(Code(700), || "an illegal address".into()), "an illegal address");
        assert_eq!(first.note(Code(719), || "a trap".into()), "an illegal address");
        assert_eq!(first.note(Code::INVALID_VALUE, || "a wrong value".into()), "an illegal address");
        let refusal = first.refusal().unwrap();
        assert!(refusal.contains("an illegal address") && refusal.contains("a new process recovers"), "{refusal}");
    }
}
