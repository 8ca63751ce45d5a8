//! The classes behind the protocols.
//!
//! An object of a program is a small Objective-C object whose instance variables hold what it is; what several objects or
//! threads share is a state behind an `Arc`. Messages check what Metal's validation layer checks, and more (see
//! [`crate::machine`]), and hand work to [`crate::queue`].
//!
//! # Invariants
//!
//! 1. A state knows whether its object lives ([`Life`]). What a command buffer does not retain is found out, when its object
//!    has gone, by the state, which the command buffer does share: nothing of the model dangles.
//! 2. Every object but the bags of properties that a program makes itself bears its machine's tag.
//!
//! Threads: states are behind locks. That encoders and the like belong to one thread at a time is the program's part.

mod bindings;
mod blit;
mod buffer;
mod command_buffer;
mod command_queue;
mod compute;
mod constants;
mod descriptors;
mod device;
mod errors;
mod fence;
mod indirect;
mod library;
mod pipeline;
mod residency;

use std::sync::atomic::{AtomicBool, Ordering};

use objc2::{ClassType, rc::Retained, runtime::AnyObject};

pub use self::descriptors::{
    MTLCommandBufferDescriptor, MTLCommandQueueDescriptor, MTLComputePipelineDescriptor, MTLComputePipelineReflection,
    MTLFunctionConstant, MTLFunctionConstantValues, MTLIndirectCommandBufferDescriptor, MTLPointerType,
    MTLResidencySetDescriptor, MTLStructType, MTLType,
};
pub(crate) use self::{
    buffer::BufferState,
    command_buffer::CommandBuffer,
    device::default_device,
    indirect::IndirectState,
    pipeline::PipelineFacts,
    residency::{Reach, SetState},
};

/// Makes an object of a class of the model's, with its machine's tag.
macro_rules! create {
    ($class:ty, $machine:expr, $variables:expr) => {{
        let this = <$class as objc2::AllocAnyThread>::alloc().set_ivars($variables);
        // SAFETY: the classes derive from NSObject, whose init takes nothing and answers the object.
        let object: objc2::rc::Retained<$class> = unsafe { objc2::msg_send![super(this), init] };
        $machine.0.tag.mark(object.as_ref());
        object
    }};
}
use create;

/// Whether the object of a state lives.
#[derive(Debug)]
pub(crate) struct Life(AtomicBool);

impl Default for Life {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Life {
    pub(crate) fn lasts(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Release: pairs with the Acquire in `lasts`.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The state of something that a residency set or an encoder can make resident.
pub(crate) trait ResourceState: Send + Sync {
    fn life(&self) -> &Life;

    /// The GPU addresses that it holds, if a pointer may reach it: the first, and how many.
    fn range(&self) -> Option<(u64, u64)>;

    fn allocated(&self) -> u64;

    /// What it is, for people.
    fn describe(&self) -> String;
}

/// An argument's object, if it is of a class of the model's.
pub(crate) fn concrete<T: ClassType>(object: &AnyObject) -> Option<&T> {
    // SAFETY: the object is of the class itself, as was just compared, and the borrow stays as long.
    std::ptr::eq(object.class(), T::class()).then(|| unsafe { &*std::ptr::from_ref(object).cast::<T>() })
}

/// Another reference to an object.
pub(crate) fn again<T: objc2::Message>(object: &T) -> Retained<T> {
    objc2::Message::retain(object)
}
