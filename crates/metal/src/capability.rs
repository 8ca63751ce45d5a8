//! The device's record for programs and compiled code that go beyond rig (`Device::capability` of rig gives it).

use std::ffi::c_void;
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
    gpu: Held<dyn MTLDevice>,
    alignment: usize,
    limits: Limits,
    shared: Arc<Shared>,
    /// What compiled code reads. It names the capability by its address, so it is boxed.
    record: Box<abi::Record>,
}

impl Capability {
    pub(crate) fn new(gpu: Held<dyn MTLDevice>, alignment: usize, limits: Limits, shared: Arc<Shared>) -> Capability {
        let record = abi::record(gpu.address(), alignment);
        Capability { gpu, alignment, limits, shared, record: Box::new(record) }
    }

    /// The GPU.
    pub fn device(&self) -> &ProtocolObject<dyn MTLDevice> {
        &self.gpu
    }

    /// The least alignment of the offset of a constant buffer, in bytes: 4 on GPUs of an Apple family, and 256 on others.
    pub fn alignment(&self) -> usize {
        self.alignment
    }

    /// Records launches, which fills run any number of times. Not inside a fill.
    ///
    /// # Errors
    ///
    /// The reason: a launch that can never run, no memory, a device that is stopped, or a call from a fill.
    pub fn icb(&self, launches: &[IndirectLaunch<'_>]) -> Result<Icb, String> {
        Icb::record(&self.gpu, &self.shared, &self.limits, self.alignment, launches)
    }

    /// The record for compiled code, a `struct rig_metal`. It lasts as long as the capability does.
    pub fn record(&self) -> *const c_void {
        self.record.give(self)
    }
}

impl std::fmt::Debug for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Capability of {:?}, aligned to {}", self.gpu, self.alignment)
    }
}
