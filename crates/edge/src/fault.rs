//! How a driver reports that its device is gone.

use crate::Reach;

/// The device faulted: none of its work can be trusted to complete.
///
/// Any counted call may answer a fault; rig then loses the device with this reason (E19). The reason is the vendor's or
/// the driver's own words, since only they can tell what happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Fault {
    /// Why, in one sentence.
    pub reason: String,
    /// How far it reaches; `None`: as far as the device's facts say.
    pub reach: Option<Reach>,
}

impl Fault {
    /// A fault with `reason`, which reaches as far as the device's facts say.
    pub fn new(reason: impl Into<String>) -> Fault {
        Fault { reason: reason.into(), reach: None }
    }

    /// A fault with `reason` of this device alone, whatever its facts say of others: such as a fill's own error.
    pub fn here(reason: impl Into<String>) -> Fault {
        Fault { reason: reason.into(), reach: Some(Reach::Device) }
    }
}

impl<S: Into<String>> From<S> for Fault {
    fn from(reason: S) -> Fault {
        Fault::new(reason)
    }
}
