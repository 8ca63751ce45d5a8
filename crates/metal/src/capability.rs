//! The device's record for programs and compiled code that go beyond rig (`Device::capability` of rig gives it).

use std::sync::Arc;

use objc2::runtime::ProtocolObject;

use crate::abi;
use crate::icb::{Icb, IndirectLaunch};
use crate::limits::Limits;
use crate::object::Held;
use crate::state::Shared;
use crate::sys::MTLDevice;

/// A device's Metal objects, and what fills need before they run.
///
/// `include/rig_metal.h` declares it for C and Objective-C, as [`record`](Capability::record) gives it.
pub struct Capability {
    made: Arc<Made>,
    /// What compiled code reads. It is given by its address, so it is boxed.
    record: Box<abi::Record>,
}

/// What a capability and its record for compiled code have in common.
pub(crate) struct Made {
    pub(crate) gpu: Held<dyn MTLDevice>,
    pub(crate) alignment: usize,
    limits: Limits,
    shared: Arc<Shared>,
}

impl Made {
    /// Records launches.
    pub(crate) fn icb(&self, launches: &[IndirectLaunch<'_>]) -> Result<Icb, String> {
        Icb::record(&self.gpu, &self.shared, &self.limits, self.alignment, launches)
    }
}

impl Capability {
    pub(crate) fn new(gpu: Held<dyn MTLDevice>, alignment: usize, limits: Limits, shared: Arc<Shared>) -> Capability {
        let made = Arc::new(Made { gpu, alignment, limits, shared });
        let record = Box::new(abi::record(&made));
        Capability { made, record }
    }

    /// The GPU.
    pub fn device(&self) -> &ProtocolObject<dyn MTLDevice> {
        &self.made.gpu
    }

    /// The least alignment of the offset of a constant buffer, in bytes: 4 on GPUs of an Apple family, and 256 on others.
    pub fn alignment(&self) -> usize {
        self.made.alignment
    }

    /// Records launches, which fills run any number of times. Not inside a fill.
    ///
    /// # Errors
    ///
    /// The reason: a launch that can never run, no memory, a device that is stopped, or a call from a fill.
    pub fn icb(&self, launches: &[IndirectLaunch<'_>]) -> Result<Icb, String> {
        self.made.icb(launches)
    }

    /// The record for compiled code, a `struct rig_metal`. It lasts as long as the capability does.
    pub fn record(&self) -> *const abi::Record {
        &raw const *self.record
    }
}

impl std::fmt::Debug for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Capability of {:?}, aligned to {}", self.made.gpu, self.made.alignment)
    }
}
