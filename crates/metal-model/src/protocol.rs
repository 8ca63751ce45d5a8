//! Metal's interface, as a program written with objc2 sees it: the protocols, classes, structs, enumerations and option sets
//! that compute needs, under the names, selectors and signatures of the crate objc2-metal.
//!
//! A program switches with one line: `use objc2_metal as sys` on Apple's systems, `use rig_metal_model::protocol as sys` on
//! Linux. What stands here is written from Apple's interface, and `cargo xtask metal-protocols` compares every declaration
//! with the source of objc2-metal, so that neither drifts from the other. Apple documents what each item does; the
//! documentation of this crate says where the model does less, or asks for more.
//!
//! Absent: textures, samplers, rendering, heaps, ray tracing, Metal 4. A message of those finds no method.
//!
//! Threads: as objc2-metal states it. Devices, queues, libraries, functions, pipelines, fences and events may be shared; the
//! rest belongs to one thread at a time.

use objc2::{Encode, Encoding, RefEncode};

/// Declares one of Metal's enumerations: a number with names for some of its values.
macro_rules! enumeration {
    ($(#[$attribute:meta])* $name:ident($number:ty) { $($case:ident = $value:expr;)* }) => {
        $(#[$attribute])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $number);
        impl $name {
            $(pub const $case: Self = Self($value);)*
        }
        // SAFETY: the struct is transparent over the number.
        unsafe impl Encode for $name {
            const ENCODING: Encoding = <$number>::ENCODING;
        }
        // SAFETY: as above.
        unsafe impl RefEncode for $name {
            const ENCODING_REF: Encoding = Encoding::Pointer(&Self::ENCODING);
        }
    };
}

/// Declares one of Metal's option sets: a set of bits.
macro_rules! options {
    ($(#[$attribute:meta])* $name:ident { $($option:ident = $value:expr;)* }) => {
        $(#[$attribute])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub NSUInteger);
        bitflags::bitflags! {
            impl $name: NSUInteger {
                $(const $option = $value;)*
            }
        }
        // SAFETY: the struct is transparent over the number.
        unsafe impl Encode for $name {
            const ENCODING: Encoding = NSUInteger::ENCODING;
        }
        // SAFETY: as above.
        unsafe impl RefEncode for $name {
            const ENCODING_REF: Encoding = Encoding::Pointer(&Self::ENCODING);
        }
    };
}

/// Declares one of Metal's structs of plain numbers, with the name that Objective-C's encoding gives it.
macro_rules! structure {
    ($(#[$attribute:meta])* $name:ident $encoded:literal { $($field:ident: $of:ty,)* }) => {
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $(pub $field: $of,)*
        }
        // SAFETY: the struct is laid out as C's, with these fields.
        unsafe impl Encode for $name {
            const ENCODING: Encoding = Encoding::Struct($encoded, &[$(<$of>::ENCODING,)*]);
        }
        // SAFETY: as above.
        unsafe impl RefEncode for $name {
            const ENCODING_REF: Encoding = Encoding::Pointer(&Self::ENCODING);
        }
    };
}

mod classes;
mod command;
mod device;
mod indirect;
mod pipeline;
mod resource;
mod types;

pub use self::{command::*, device::*, indirect::*, pipeline::*, resource::*, types::*};
pub use crate::metal::{
    MTLCommandBufferDescriptor, MTLCommandQueueDescriptor, MTLComputePipelineDescriptor, MTLComputePipelineReflection,
    MTLFunctionConstant, MTLFunctionConstantValues, MTLIndirectCommandBufferDescriptor, MTLPointerType,
    MTLResidencySetDescriptor, MTLStructType, MTLType,
};
