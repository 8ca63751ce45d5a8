//! The classes that a program makes itself, or is handed as plain facts: descriptors, constant values, reflection.
//!
//! They are bags of properties under Metal's own class names. A descriptor belongs to one thread at a time, as Metal's do;
//! what reflection answers never changes, and may be shared.

use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
    ptr::NonNull,
};

use objc2::{
    DefinedClass, define_class, msg_send,
    rc::{Allocated, Retained},
    runtime::{NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSArray, NSRange, NSString, NSUInteger};

use super::constants::ConstantValues;
use crate::protocol::{
    MTLBinding, MTLBindingAccess, MTLCommandBufferErrorOption, MTLDataType, MTLFunction, MTLIndirectCommandType,
};

/// What a command buffer descriptor says.
pub struct CommandBufferProperties {
    pub(crate) retained_references: Cell<bool>,
    error_options: Cell<MTLCommandBufferErrorOption>,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "MTLCommandBufferDescriptor"]
    /// How a command buffer is to be.
    #[ivars = CommandBufferProperties]
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLCommandBufferDescriptor;

    unsafe impl NSObjectProtocol for MTLCommandBufferDescriptor {}

    impl MTLCommandBufferDescriptor {
        #[unsafe(method_id(init))]
        fn made(this: Allocated<Self>) -> Retained<Self> {
            let this = this.set_ivars(CommandBufferProperties {
                retained_references: Cell::new(true),
                error_options: Cell::new(MTLCommandBufferErrorOption::None),
            });
            // SAFETY: NSObject's init takes nothing and answers the object.
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(retainedReferences))]
        fn get_retained_references(&self) -> bool {
            self.ivars().retained_references.get()
        }

        #[unsafe(method(setRetainedReferences:))]
        fn put_retained_references(&self, retained: bool) {
            self.ivars().retained_references.set(retained);
        }

        #[unsafe(method(errorOptions))]
        fn get_error_options(&self) -> MTLCommandBufferErrorOption {
            self.ivars().error_options.get()
        }

        #[unsafe(method(setErrorOptions:))]
        fn put_error_options(&self, options: MTLCommandBufferErrorOption) {
            self.ivars().error_options.set(options);
        }
    }
);

/// What a command queue descriptor says.
pub struct CommandQueueProperties {
    pub(crate) max_command_buffers: Cell<NSUInteger>,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "MTLCommandQueueDescriptor"]
    /// How a queue is to be.
    #[ivars = CommandQueueProperties]
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLCommandQueueDescriptor;

    unsafe impl NSObjectProtocol for MTLCommandQueueDescriptor {}

    impl MTLCommandQueueDescriptor {
        #[unsafe(method_id(init))]
        fn made(this: Allocated<Self>) -> Retained<Self> {
            let this = this.set_ivars(CommandQueueProperties { max_command_buffers: Cell::new(64) });
            // SAFETY: NSObject's init takes nothing and answers the object.
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(maxCommandBufferCount))]
        fn get_max(&self) -> NSUInteger {
            self.ivars().max_command_buffers.get()
        }

        #[unsafe(method(setMaxCommandBufferCount:))]
        fn put_max(&self, max: NSUInteger) {
            self.ivars().max_command_buffers.set(max);
        }
    }
);

/// What a residency set descriptor says.
pub struct ResidencySetProperties {
    pub(crate) label: RefCell<Option<Retained<NSString>>>,
    initial_capacity: Cell<NSUInteger>,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "MTLResidencySetDescriptor"]
    /// How a residency set is to be.
    #[ivars = ResidencySetProperties]
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLResidencySetDescriptor;

    unsafe impl NSObjectProtocol for MTLResidencySetDescriptor {}

    impl MTLResidencySetDescriptor {
        #[unsafe(method_id(init))]
        fn made(this: Allocated<Self>) -> Retained<Self> {
            let this =
                this.set_ivars(ResidencySetProperties { label: RefCell::new(None), initial_capacity: Cell::new(0) });
            // SAFETY: NSObject's init takes nothing and answers the object.
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method_id(label))]
        fn get_label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.borrow().clone()
        }

        #[unsafe(method(setLabel:))]
        fn put_label(&self, label: Option<&NSString>) {
            *self.ivars().label.borrow_mut() = label.map(retained);
        }

        #[unsafe(method(initialCapacity))]
        fn get_capacity(&self) -> NSUInteger {
            self.ivars().initial_capacity.get()
        }

        #[unsafe(method(setInitialCapacity:))]
        fn put_capacity(&self, capacity: NSUInteger) {
            self.ivars().initial_capacity.set(capacity);
        }
    }
);

/// Another reference to a string.
fn retained(string: &NSString) -> Retained<NSString> {
    objc2::Message::retain(string)
}

/// What a pipeline descriptor says.
#[derive(Default)]
pub struct PipelineProperties {
    pub(crate) label: RefCell<Option<Retained<NSString>>>,
    pub(crate) function: RefCell<Option<Retained<ProtocolObject<dyn MTLFunction>>>>,
    pub(crate) whole_simdgroups: Cell<bool>,
    pub(crate) max_threads: Cell<NSUInteger>,
    pub(crate) indirect: Cell<bool>,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "MTLComputePipelineDescriptor"]
    /// How a pipeline is to be.
    #[ivars = PipelineProperties]
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLComputePipelineDescriptor;

    unsafe impl NSObjectProtocol for MTLComputePipelineDescriptor {}

    impl MTLComputePipelineDescriptor {
        #[unsafe(method_id(init))]
        fn made(this: Allocated<Self>) -> Retained<Self> {
            let this = this.set_ivars(PipelineProperties::default());
            // SAFETY: NSObject's init takes nothing and answers the object.
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method_id(label))]
        fn get_label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.borrow().clone()
        }

        #[unsafe(method(setLabel:))]
        fn put_label(&self, label: Option<&NSString>) {
            *self.ivars().label.borrow_mut() = label.map(retained);
        }

        #[unsafe(method_id(computeFunction))]
        fn get_function(&self) -> Option<Retained<ProtocolObject<dyn MTLFunction>>> {
            self.ivars().function.borrow().clone()
        }

        #[unsafe(method(setComputeFunction:))]
        fn put_function(&self, function: Option<&ProtocolObject<dyn MTLFunction>>) {
            *self.ivars().function.borrow_mut() = function.map(objc2::Message::retain);
        }

        #[unsafe(method(threadGroupSizeIsMultipleOfThreadExecutionWidth))]
        fn get_whole(&self) -> bool {
            self.ivars().whole_simdgroups.get()
        }

        #[unsafe(method(setThreadGroupSizeIsMultipleOfThreadExecutionWidth:))]
        fn put_whole(&self, whole: bool) {
            self.ivars().whole_simdgroups.set(whole);
        }

        #[unsafe(method(maxTotalThreadsPerThreadgroup))]
        fn get_max(&self) -> NSUInteger {
            self.ivars().max_threads.get()
        }

        #[unsafe(method(setMaxTotalThreadsPerThreadgroup:))]
        fn put_max(&self, max: NSUInteger) {
            self.ivars().max_threads.set(max);
        }

        #[unsafe(method(supportIndirectCommandBuffers))]
        fn get_indirect(&self) -> bool {
            self.ivars().indirect.get()
        }

        #[unsafe(method(setSupportIndirectCommandBuffers:))]
        fn put_indirect(&self, indirect: bool) {
            self.ivars().indirect.set(indirect);
        }

        #[unsafe(method(reset))]
        fn start_anew(&self) {
            let all = self.ivars();
            *all.label.borrow_mut() = None;
            *all.function.borrow_mut() = None;
            all.whole_simdgroups.set(false);
            all.max_threads.set(0);
            all.indirect.set(false);
        }
    }
);

/// What an indirect command buffer descriptor says.
pub struct IndirectProperties {
    pub(crate) types: Cell<MTLIndirectCommandType>,
    pub(crate) inherit_pipeline: Cell<bool>,
    pub(crate) inherit_buffers: Cell<bool>,
    pub(crate) max_buffers: Cell<NSUInteger>,
    pub(crate) max_threadgroup_memory: Cell<NSUInteger>,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "MTLIndirectCommandBufferDescriptor"]
    /// How an indirect command buffer is to be.
    #[ivars = IndirectProperties]
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLIndirectCommandBufferDescriptor;

    unsafe impl NSObjectProtocol for MTLIndirectCommandBufferDescriptor {}

    impl MTLIndirectCommandBufferDescriptor {
        #[unsafe(method_id(init))]
        fn made(this: Allocated<Self>) -> Retained<Self> {
            let this = this.set_ivars(IndirectProperties {
                types: Cell::new(MTLIndirectCommandType::empty()),
                inherit_pipeline: Cell::new(true),
                inherit_buffers: Cell::new(true),
                max_buffers: Cell::new(0),
                max_threadgroup_memory: Cell::new(31),
            });
            // SAFETY: NSObject's init takes nothing and answers the object.
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(commandTypes))]
        fn get_types(&self) -> MTLIndirectCommandType {
            self.ivars().types.get()
        }

        #[unsafe(method(setCommandTypes:))]
        fn put_types(&self, types: MTLIndirectCommandType) {
            self.ivars().types.set(types);
        }

        #[unsafe(method(inheritPipelineState))]
        fn get_inherit_pipeline(&self) -> bool {
            self.ivars().inherit_pipeline.get()
        }

        #[unsafe(method(setInheritPipelineState:))]
        fn put_inherit_pipeline(&self, inherit: bool) {
            self.ivars().inherit_pipeline.set(inherit);
        }

        #[unsafe(method(inheritBuffers))]
        fn get_inherit_buffers(&self) -> bool {
            self.ivars().inherit_buffers.get()
        }

        #[unsafe(method(setInheritBuffers:))]
        fn put_inherit_buffers(&self, inherit: bool) {
            self.ivars().inherit_buffers.set(inherit);
        }

        #[unsafe(method(maxKernelBufferBindCount))]
        fn get_max_buffers(&self) -> NSUInteger {
            self.ivars().max_buffers.get()
        }

        #[unsafe(method(setMaxKernelBufferBindCount:))]
        fn put_max_buffers(&self, max: NSUInteger) {
            self.ivars().max_buffers.set(max);
        }

        #[unsafe(method(maxKernelThreadgroupMemoryBindCount))]
        fn get_max_threadgroup_memory(&self) -> NSUInteger {
            self.ivars().max_threadgroup_memory.get()
        }

        #[unsafe(method(setMaxKernelThreadgroupMemoryBindCount:))]
        fn put_max_threadgroup_memory(&self, max: NSUInteger) {
            self.ivars().max_threadgroup_memory.set(max);
        }
    }
);

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "MTLFunctionConstantValues"]
    /// Values of function constants.
    #[ivars = ConstantValues]
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLFunctionConstantValues;

    unsafe impl NSObjectProtocol for MTLFunctionConstantValues {}

    impl MTLFunctionConstantValues {
        #[unsafe(method_id(init))]
        fn made(this: Allocated<Self>) -> Retained<Self> {
            let this = this.set_ivars(ConstantValues::default());
            // SAFETY: NSObject's init takes nothing and answers the object.
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(setConstantValue:type:atIndex:))]
        fn put_at_index(&self, value: NonNull<c_void>, of: MTLDataType, index: NSUInteger) {
            // SAFETY: the caller of the message hands a value of the type.
            unsafe { self.ivars().put(value, of, NSRange { location: index, length: 1 }) }
        }

        #[unsafe(method(setConstantValues:type:withRange:))]
        fn put_range(&self, values: NonNull<c_void>, of: MTLDataType, range: NSRange) {
            // SAFETY: the caller of the message hands as many values of the type as the range is long.
            unsafe { self.ivars().put(values, of, range) }
        }

        #[unsafe(method(setConstantValue:type:withName:))]
        fn put_named(&self, value: NonNull<c_void>, of: MTLDataType, name: &NSString) {
            // SAFETY: the caller of the message hands a value of the type.
            unsafe { self.ivars().put_named(value, of, &name.to_string()) }
        }

        #[unsafe(method(reset))]
        fn start_anew(&self) {
            self.ivars().reset();
        }
    }
);

/// What a function constant is.
pub struct ConstantFacts {
    pub(crate) name: String,
    pub(crate) data_type: MTLDataType,
    pub(crate) index: NSUInteger,
    pub(crate) required: bool,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "MTLFunctionConstant"]
    /// A constant that a function wants to know.
    #[ivars = ConstantFacts]
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLFunctionConstant;

    unsafe impl NSObjectProtocol for MTLFunctionConstant {}

    impl MTLFunctionConstant {
        #[unsafe(method_id(name))]
        fn get_name(&self) -> Retained<NSString> {
            NSString::from_str(&self.ivars().name)
        }

        #[unsafe(method(type))]
        fn get_type(&self) -> MTLDataType {
            self.ivars().data_type
        }

        #[unsafe(method(index))]
        fn get_index(&self) -> NSUInteger {
            self.ivars().index
        }

        #[unsafe(method(required))]
        fn get_required(&self) -> bool {
            self.ivars().required
        }
    }
);

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "MTLComputePipelineReflection"]
    /// What the arguments of a pipeline are.
    #[ivars = Retained<NSArray<ProtocolObject<dyn MTLBinding>>>]
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLComputePipelineReflection;

    unsafe impl NSObjectProtocol for MTLComputePipelineReflection {}

    impl MTLComputePipelineReflection {
        #[unsafe(method_id(bindings))]
        fn get_bindings(&self) -> Retained<NSArray<ProtocolObject<dyn MTLBinding>>> {
            self.ivars().clone()
        }
    }
);

// SAFETY: the object never changes, its bindings may be shared, and an array of them is read alone.
unsafe impl Send for MTLComputePipelineReflection {}
// SAFETY: as above.
unsafe impl Sync for MTLComputePipelineReflection {}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "MTLType"]
    /// A type of an argument.
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLType;

    unsafe impl NSObjectProtocol for MTLType {}

    impl MTLType {
        #[unsafe(method(dataType))]
        fn get_data_type(&self) -> MTLDataType {
            MTLDataType::None
        }
    }
);

define_class!(
    // SAFETY: MTLType asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(MTLType, NSObject))]
    #[name = "MTLStructType"]
    /// That an argument is a struct. The model does not list its members.
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLStructType;

    unsafe impl NSObjectProtocol for MTLStructType {}

    impl MTLStructType {
        #[unsafe(method(dataType))]
        fn get_struct_data_type(&self) -> MTLDataType {
            MTLDataType::Struct
        }
    }
);

/// What a pointer argument points to.
pub struct PointerFacts {
    pub(crate) element: MTLDataType,
    pub(crate) access: MTLBindingAccess,
    pub(crate) alignment: NSUInteger,
    pub(crate) size: NSUInteger,
}

define_class!(
    // SAFETY: MTLType asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(MTLType, NSObject))]
    #[name = "MTLPointerType"]
    /// What an argument points to.
    #[ivars = PointerFacts]
    #[derive(PartialEq, Eq, Hash)]
    pub struct MTLPointerType;

    unsafe impl NSObjectProtocol for MTLPointerType {}

    impl MTLPointerType {
        #[unsafe(method(dataType))]
        fn get_pointer_data_type(&self) -> MTLDataType {
            MTLDataType::Pointer
        }

        #[unsafe(method(elementType))]
        fn get_element_type(&self) -> MTLDataType {
            self.ivars().element
        }

        #[unsafe(method(access))]
        fn get_access(&self) -> MTLBindingAccess {
            self.ivars().access
        }

        #[unsafe(method(alignment))]
        fn get_alignment(&self) -> NSUInteger {
            self.ivars().alignment
        }

        #[unsafe(method(dataSize))]
        fn get_size(&self) -> NSUInteger {
            self.ivars().size
        }
    }
);
