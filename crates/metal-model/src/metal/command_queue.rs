//! Command queues.

use std::sync::Arc;

use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{AnyObject, NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSString, NSUInteger};
use parking_lot::Mutex;

use super::{
    MTLCommandBufferDescriptor, again, command_buffer, concrete, create,
    device::Device,
    residency::{ResidencySet, SetState, objects},
};
use crate::{
    machine::{Machine, What},
    protocol::{MTLCommandBuffer, MTLCommandQueue, MTLDevice},
    queue::{Queue, SETS},
};

/// What a queue's object holds.
pub(crate) struct Variables {
    queue: Arc<Queue>,
    device: Retained<Device>,
    label: Mutex<Option<String>>,
}

impl Drop for Variables {
    fn drop(&mut self) {
        self.queue.close();
    }
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelCommandQueue"]
    #[ivars = Variables]
    pub(crate) struct CommandQueue;

    unsafe impl NSObjectProtocol for CommandQueue {}

    unsafe impl MTLCommandQueue for CommandQueue {
        #[unsafe(method_id(label))]
        fn label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.lock().as_deref().map(NSString::from_str)
        }

        #[unsafe(method(setLabel:))]
        fn set_label(&self, label: Option<&NSString>) {
            *self.ivars().label.lock() = label.map(ToString::to_string);
        }

        #[unsafe(method_id(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
            ProtocolObject::from_retained(self.ivars().device.clone())
        }

        #[unsafe(method_id(commandBuffer))]
        fn command_buffer(&self) -> Option<Retained<ProtocolObject<dyn MTLCommandBuffer>>> {
            command_buffer::new(self, true)
        }

        #[unsafe(method_id(commandBufferWithDescriptor:))]
        fn described_command_buffer(
            &self,
            descriptor: &MTLCommandBufferDescriptor,
        ) -> Option<Retained<ProtocolObject<dyn MTLCommandBuffer>>> {
            command_buffer::new(self, descriptor.ivars().retained_references.get())
        }

        #[unsafe(method_id(commandBufferWithUnretainedReferences))]
        fn unretained_command_buffer(&self) -> Option<Retained<ProtocolObject<dyn MTLCommandBuffer>>> {
            command_buffer::new(self, false)
        }

        #[unsafe(method(addResidencySet:))]
        fn add_set(&self, set: &AnyObject) {
            self.add("-[MTLCommandQueue addResidencySet:]", set);
        }

        #[unsafe(method(addResidencySets:count:))]
        fn add_sets(&self, sets: *const *const AnyObject, count: NSUInteger) {
            // SAFETY: the message hands as many objects as it counts.
            for set in unsafe { objects(sets, count) } {
                self.add("-[MTLCommandQueue addResidencySets:count:]", set);
            }
        }

        #[unsafe(method(removeResidencySet:))]
        fn remove_set(&self, set: &AnyObject) {
            self.remove(set);
        }

        #[unsafe(method(removeResidencySets:count:))]
        fn remove_sets(&self, sets: *const *const AnyObject, count: NSUInteger) {
            // SAFETY: the message hands as many objects as it counts.
            for set in unsafe { objects(sets, count) } {
                self.remove(set);
            }
        }
    }
);

impl CommandQueue {
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.ivars().queue
    }

    pub(crate) fn device_object(&self) -> &Retained<Device> {
        &self.ivars().device
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.ivars().queue.machine
    }

    fn add(&self, call: &'static str, set: &AnyObject) {
        let added = set_of(self.machine(), call, set).is_none_or(|set| self.queue().add_set(&set));
        if !added {
            self.machine().violate(call, format!("a queue has {SETS} residency sets at most"));
        }
    }

    fn remove(&self, set: &AnyObject) {
        if let Some(set) = set_of(self.machine(), "-[MTLCommandQueue removeResidencySet:]", set) {
            self.queue().remove_set(&set);
        }
    }
}

/// The state of a residency set of this machine.
pub(crate) fn set_of(machine: &Machine, call: &'static str, set: &AnyObject) -> Option<Arc<SetState>> {
    let set = concrete::<ResidencySet>(set).map(ResidencySet::state).filter(|set| set.machine().same(machine));
    if set.is_none() {
        machine.violate(call, "the residency set is not of this device");
    }
    set.cloned()
}

/// The object of a new queue.
pub(crate) fn new(device: &Device, max: usize) -> Option<Retained<ProtocolObject<dyn MTLCommandQueue>>> {
    let machine = device.machine();
    if !machine.permits(What::Queue) {
        return None;
    }
    if max == 0 {
        machine.violate(
            "-[MTLDevice newCommandQueueWithMaxCommandBufferCount:]",
            "a queue holds at least one command buffer",
        );
        return None;
    }
    let variables = Variables { queue: Queue::new(machine, max), device: again(device), label: Mutex::new(None) };
    Some(ProtocolObject::from_retained(create!(CommandQueue, machine, variables)))
}
