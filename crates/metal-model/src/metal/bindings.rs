//! What the arguments of a pipeline are, as reflection tells it.

use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSArray, NSString, NSUInteger};

use super::{MTLComputePipelineReflection, MTLPointerType, MTLStructType, create, descriptors::PointerFacts};
use crate::{
    machine::Machine,
    metadata::{Access, Argument, ArgumentKind, Reflection},
    protocol::{MTLBinding, MTLBindingAccess, MTLBindingType, MTLBufferBinding, MTLDataType, MTLThreadgroupBinding},
};

/// What a binding's object holds.
pub(crate) struct Variables {
    machine: Machine,
    argument: Argument,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelBufferBinding"]
    #[ivars = Variables]
    pub(crate) struct BufferBinding;

    unsafe impl NSObjectProtocol for BufferBinding {}

    unsafe impl MTLBinding for BufferBinding {
        #[unsafe(method_id(name))]
        fn name(&self) -> Retained<NSString> {
            NSString::from_str(&self.ivars().argument.name)
        }

        #[unsafe(method(type))]
        fn binding_type(&self) -> MTLBindingType {
            MTLBindingType::Buffer
        }

        #[unsafe(method(access))]
        fn access(&self) -> MTLBindingAccess {
            access(&self.ivars().argument.kind)
        }

        #[unsafe(method(index))]
        fn index(&self) -> NSUInteger {
            index(&self.ivars().argument.kind)
        }

        #[unsafe(method(isUsed))]
        fn is_used(&self) -> bool {
            self.ivars().argument.used
        }

        #[unsafe(method(isArgument))]
        fn is_argument(&self) -> bool {
            true
        }
    }

    unsafe impl MTLBufferBinding for BufferBinding {
        #[unsafe(method(bufferAlignment))]
        fn alignment(&self) -> NSUInteger {
            pointee(&self.ivars().argument.kind).alignment
        }

        #[unsafe(method(bufferDataSize))]
        fn data_size(&self) -> NSUInteger {
            pointee(&self.ivars().argument.kind).size
        }

        #[unsafe(method(bufferDataType))]
        fn data_type(&self) -> MTLDataType {
            pointee(&self.ivars().argument.kind).element
        }

        #[unsafe(method_id(bufferStructType))]
        fn struct_type(&self) -> Option<Retained<MTLStructType>> {
            let structure = pointee(&self.ivars().argument.kind).element == MTLDataType::Struct;
            structure.then(|| create!(MTLStructType, self.ivars().machine, ()))
        }

        #[unsafe(method_id(bufferPointerType))]
        fn pointer_type(&self) -> Option<Retained<MTLPointerType>> {
            let facts = pointee(&self.ivars().argument.kind);
            Some(create!(MTLPointerType, self.ivars().machine, facts))
        }
    }
);

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelThreadgroupBinding"]
    #[ivars = Variables]
    pub(crate) struct ThreadgroupBinding;

    unsafe impl NSObjectProtocol for ThreadgroupBinding {}

    unsafe impl MTLBinding for ThreadgroupBinding {
        #[unsafe(method_id(name))]
        fn name(&self) -> Retained<NSString> {
            NSString::from_str(&self.ivars().argument.name)
        }

        #[unsafe(method(type))]
        fn binding_type(&self) -> MTLBindingType {
            MTLBindingType::ThreadgroupMemory
        }

        #[unsafe(method(access))]
        fn access(&self) -> MTLBindingAccess {
            access(&self.ivars().argument.kind)
        }

        #[unsafe(method(index))]
        fn index(&self) -> NSUInteger {
            index(&self.ivars().argument.kind)
        }

        #[unsafe(method(isUsed))]
        fn is_used(&self) -> bool {
            self.ivars().argument.used
        }

        #[unsafe(method(isArgument))]
        fn is_argument(&self) -> bool {
            true
        }
    }

    unsafe impl MTLThreadgroupBinding for ThreadgroupBinding {
        #[unsafe(method(threadgroupMemoryAlignment))]
        fn alignment(&self) -> NSUInteger {
            pointee(&self.ivars().argument.kind).alignment
        }

        #[unsafe(method(threadgroupMemoryDataSize))]
        fn data_size(&self) -> NSUInteger {
            pointee(&self.ivars().argument.kind).size
        }
    }
);

fn access(kind: &ArgumentKind) -> MTLBindingAccess {
    match kind {
        ArgumentKind::Buffer { access: Access::Read, .. } => MTLBindingAccess::ReadOnly,
        ArgumentKind::Buffer { access: Access::Write, .. } => MTLBindingAccess::WriteOnly,
        _ => MTLBindingAccess::ReadWrite,
    }
}

fn index(kind: &ArgumentKind) -> NSUInteger {
    match kind {
        ArgumentKind::Buffer { index, .. } | ArgumentKind::Threadgroup { index, .. } => *index as usize,
        _ => 0,
    }
}

fn pointee(kind: &ArgumentKind) -> PointerFacts {
    let (element, size, alignment) = match kind {
        ArgumentKind::Buffer { data_size, alignment, is_struct, type_name, .. } => {
            let element = if *is_struct { MTLDataType::Struct } else { data_type(type_name) };
            (element, *data_size, *alignment)
        }
        ArgumentKind::Threadgroup { data_size, alignment, .. } => (MTLDataType::None, *data_size, *alignment),
        _ => (MTLDataType::None, 0, 0),
    };
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    PointerFacts { element, access: access(kind), alignment: alignment as usize, size }
}

/// Metal's number of a type, by its name in Metal's language.
pub(crate) fn data_type(name: &str) -> MTLDataType {
    let scalars = [
        ("float", 3),
        ("half", 16),
        ("int", 29),
        ("uint", 33),
        ("short", 37),
        ("ushort", 41),
        ("char", 45),
        ("uchar", 49),
        ("bool", 53),
        ("long", 81),
        ("ulong", 85),
        ("bfloat", 121),
    ];
    let (scalar, lanes) = match name.as_bytes().last() {
        Some(lanes @ b'2'..=b'4') => (&name[..name.len() - 1], usize::from(lanes - b'1')),
        _ => (name, 0),
    };
    let found = scalars.iter().find(|(known, _)| *known == scalar);
    found.map_or(MTLDataType::None, |(_, number)| MTLDataType(number + lanes))
}

/// The object that tells of a pipeline's arguments.
pub(crate) fn reflection(machine: &Machine, reflection: &Reflection) -> Retained<MTLComputePipelineReflection> {
    let bindings = reflection.arguments.iter().filter_map(|argument| {
        let variables = Variables { machine: machine.clone(), argument: argument.clone() };
        match argument.kind {
            ArgumentKind::Buffer { .. } => {
                Some(ProtocolObject::<dyn MTLBinding>::from_retained(create!(BufferBinding, machine, variables)))
            }
            ArgumentKind::Threadgroup { .. } => {
                Some(ProtocolObject::from_retained(create!(ThreadgroupBinding, machine, variables)))
            }
            _ => None,
        }
    });
    let bindings: Vec<_> = bindings.collect();
    create!(MTLComputePipelineReflection, machine, NSArray::from_retained_slice(&bindings))
}
