//! How a driver reports that its device is gone.

/// The device faulted: none of its work can be trusted to complete.
///
/// Any counted call may answer a fault; rig then loses the device with this reason (E19). The reason is the vendor's or
/// the driver's own words, since only they can tell what happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Fault {
    /// Why, in one sentence.
    pub reason: String,
}

impl Fault {
    /// A fault with `reason`.
    pub fn new(reason: impl Into<String>) -> Fault {
        Fault { reason: reason.into() }
    }
}
