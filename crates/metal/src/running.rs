//! What runs a device's work: its queue, its fence and its residency set.
//!
//! The device holds them until `stop`. The completion handler of each committed command buffer holds them too, until Metal
//! releases it, so they outlive the work, whose command buffers retain nothing by themselves.

use parking_lot::Mutex;

use crate::object::Held;
use crate::sys::{MTLAllocation, MTLCommandQueue, MTLFence, MTLResidencySet, guard};
use objc2::runtime::ProtocolObject;

/// A device's queue, fence and residency set.
pub(crate) struct Running {
    /// Safe for threads by itself.
    pub queue: Held<dyn MTLCommandQueue>,
    /// Orders what each command buffer does after what the one before it did: Metal does not track memory that kernels reach
    /// by address.
    pub fence: Held<dyn MTLFence>,
    /// Keeps regions resident for all work of the queue. Its lock makes its users take turns.
    residency: Mutex<Held<dyn MTLResidencySet>>,
}

impl Running {
    pub fn new(
        queue: Held<dyn MTLCommandQueue>,
        fence: Held<dyn MTLFence>,
        residency: Held<dyn MTLResidencySet>,
    ) -> Running {
        Running { queue, fence, residency: Mutex::new(residency) }
    }

    /// Keeps an allocation resident for the work of every submit that starts after this has returned.
    pub fn reside(&self, allocation: &ProtocolObject<dyn MTLAllocation>) -> Result<(), String> {
        let set = self.residency.lock();
        guard(|| {
            set.addAllocation(allocation);
            // Only a committed set counts.
            set.commit();
        })
    }

    /// Ends that.
    pub fn leave(&self, allocation: &ProtocolObject<dyn MTLAllocation>) -> Result<(), String> {
        let set = self.residency.lock();
        guard(|| {
            set.removeAllocation(allocation);
            set.commit();
        })
    }
}
