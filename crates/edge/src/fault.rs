//! How a driver reports that its device is gone.

use crate::Reach;

/// The device faulted: none of its work can be trusted to complete.
///
/// Any counted call may answer a fault; rig then loses the device with this reason (E19). The reason is the vendor's or
/// the driver's own words, since only they can tell what happened.
///
/// ```
/// use rig_edge::Fault;
///
/// /// A call of the vendor's, whose failure loses the device.
/// fn called(status: i32) -> Result<(), Fault> {
///     if status != 0 {
///         return Err(Fault::new(format!("the ring's doorbell answers status {status}")));
///     }
///     Ok(())
/// }
/// assert_eq!(called(0), Ok(()));
/// // Every later call of the device has this reason.
/// assert_eq!(called(-5).map_err(|fault| fault.to_string()), Err("the ring's doorbell answers status -5".into()));
/// ```
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
    ///
    /// ```
    /// use rig_edge::Fault;
    ///
    /// assert_eq!(Fault::new("page fault at 0x1000").reach, None);
    /// // `?` makes one of any text.
    /// let fault: Fault = "page fault at 0x1000".into();
    /// assert_eq!(fault, Fault::new("page fault at 0x1000"));
    /// ```
    pub fn new(reason: impl Into<String>) -> Fault {
        Fault { reason: reason.into(), reach: None }
    }

    /// A fault with `reason` of this device alone, whatever its facts say of others: such as a fill's own error.
    ///
    /// ```
    /// use rig_edge::{Fault, Reach, Submitted};
    ///
    /// /// What `submit` answers after a fill's code: its error says nothing of the driver's other devices.
    /// fn filled(result: Result<(), String>) -> Submitted {
    ///     match result {
    ///         Ok(()) => Submitted::Committed,
    ///         Err(why) => Submitted::Failed(Fault::here(why)),
    ///     }
    /// }
    /// let Submitted::Failed(fault) = filled(Err("no such algorithm".into())) else { panic!("it failed") };
    /// assert_eq!(fault.reach, Some(Reach::Device));
    /// ```
    pub fn here(reason: impl Into<String>) -> Fault {
        Fault { reason: reason.into(), reach: Some(Reach::Device) }
    }
}

impl<S: Into<String>> From<S> for Fault {
    fn from(reason: S) -> Fault {
        Fault::new(reason)
    }
}
