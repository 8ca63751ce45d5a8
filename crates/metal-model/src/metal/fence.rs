//! Fences.

use std::sync::Arc;

use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::NSString;
use parking_lot::Mutex;

use super::{again, create, device::Device};
use crate::{
    protocol::{MTLDevice, MTLFence},
    queue::pass::FenceState,
};

/// What a fence's object holds.
pub(crate) struct Variables {
    state: Arc<FenceState>,
    device: Retained<Device>,
    label: Mutex<Option<String>>,
}

impl Drop for Variables {
    fn drop(&mut self) {
        self.state.life.end();
    }
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelFence"]
    #[ivars = Variables]
    pub(crate) struct Fence;

    unsafe impl NSObjectProtocol for Fence {}

    unsafe impl MTLFence for Fence {
        #[unsafe(method_id(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
            ProtocolObject::from_retained(self.ivars().device.clone())
        }

        #[unsafe(method_id(label))]
        fn label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.lock().as_deref().map(NSString::from_str)
        }

        #[unsafe(method(setLabel:))]
        fn set_label(&self, label: Option<&NSString>) {
            *self.ivars().label.lock() = label.map(ToString::to_string);
        }
    }
);

impl Fence {
    pub(crate) fn state(&self) -> &Arc<FenceState> {
        &self.ivars().state
    }

    pub(crate) fn device_object(&self) -> &Device {
        &self.ivars().device
    }
}

/// The object of a new fence.
pub(crate) fn new(device: &Device) -> Retained<ProtocolObject<dyn MTLFence>> {
    let state = Arc::new(FenceState::default());
    let variables = Variables { state, device: again(device), label: Mutex::new(None) };
    ProtocolObject::from_retained(create!(Fence, device.machine(), variables))
}
