//! What stands behind the work of a lost device that nobody has closed.
//!
//! Work that waits on a queue for a lost device's word runs once that device is stopped and its word rises, and stop is the
//! program's: it closes the device, or opens it again (C20). Until then whatever stands behind such work on its own, healthy
//! device stands too, though it has not failed. A wait for that would be one without an end where the thread that waits is the one
//! that was to close the device. So it ends, [`PATIENCE`] after the loss, with an error that names the device to close; the
//! point stays what it is, and a wait after the close goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Core;
use crate::primitive::now;
use crate::timeline::{Stamp, timelines};
use crate::{Error, Result};

/// How long after a loss waits that stand behind it go on. TIMEOUT: another thread of the program has so long to notice the loss and
/// to close the device or open it again, on a machine with much to do too, and what that device still runs has so long to end; a
/// program whose only thread waits here is told before anyone takes it for hung.
const PATIENCE: Duration = Duration::from_secs(5);

/// A device whose next value stands behind a lost one's work.
pub(crate) struct HeldUp {
    device: Arc<str>,
    lost: Arc<str>,
    why: Arc<str>,
    since: Instant,
}

impl HeldUp {
    /// How long a wait behind it goes on yet.
    ///
    /// # Errors
    ///
    /// Refused, with the device to close, where it does not.
    pub(crate) fn left(&self) -> Result<Duration> {
        let passed = now().saturating_duration_since(self.since);
        let left = PATIENCE.checked_sub(passed).filter(|left| !left.is_zero());
        left.ok_or_else(|| {
            let HeldUp { device, lost, why, .. } = self;
            Error::Refused(format!(
                "{device} stands behind work that waits for {lost}, which is lost ({why}): close {lost}, or open it again, and \
                 then ask again"
            ))
        })
    }
}

impl Core {
    /// Whether the device's next value, which waits for `on`, so waits for a lost device, directly or behind others' next values.
    pub(crate) fn held_up(&self, mut on: Stamp) -> Option<HeldUp> {
        loop {
            let core = timelines().device(on.slot)?;
            if let Some(reason) = &*core.reason.lock() {
                // Under the lock, with which a close writes its reason and closes.
                if core.gate.is_closing() {
                    return None;
                }
                let (lost, why, since) = (Arc::clone(&core.name), Arc::clone(&reason.lost.why), reason.since);
                return Some(HeldUp { device: Arc::clone(&self.name), lost, why, since });
            }
            let next = core.shown() + 1;
            if next > on.value {
                return None;
            }
            // A producer was submitted before what waits for it, and a device's next value before its later ones: the chain ends.
            on = core.waits_for(next)?;
        }
    }

    /// What a wait for the device's next value ends with, if it ends though the value has neither failed nor run.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.held_up(self.waits_for(self.shown() + 1)?)?.left().err()
    }
}
