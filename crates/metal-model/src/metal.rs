//! The classes behind the protocols.
//!
//! An object of a program is a small Objective-C object whose instance variables hold what it is; what several objects or
//! threads share is behind an `Arc`. Messages check what Metal's validation layer checks, and more (see `machine`), and hand
//! work to `queue`.

mod constants;
mod descriptors;

use objc2::{rc::Retained, runtime::ProtocolObject};

pub use self::descriptors::{
    MTLCommandBufferDescriptor, MTLCommandQueueDescriptor, MTLComputePipelineDescriptor, MTLComputePipelineReflection,
    MTLFunctionConstant, MTLFunctionConstantValues, MTLIndirectCommandBufferDescriptor, MTLPointerType,
    MTLResidencySetDescriptor, MTLStructType, MTLType,
};
use crate::protocol::MTLDevice;

/// The GPU of the machine that this thread entered, else of the process's.
pub(crate) fn default_device() -> Option<Retained<ProtocolObject<dyn MTLDevice>>> {
    None
}
