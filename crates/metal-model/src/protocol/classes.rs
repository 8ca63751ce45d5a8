//! What a program sends to the classes that are no protocols: descriptors, constant values, reflection.

use std::{ffi::c_void, ptr::NonNull};

use objc2::{
    extern_methods,
    rc::{Allocated, DefaultRetained, Retained},
    runtime::ProtocolObject,
};
use objc2_foundation::{NSArray, NSRange, NSString, NSUInteger};

use super::{
    MTLBinding, MTLBindingAccess, MTLCommandBufferDescriptor, MTLCommandBufferErrorOption, MTLCommandQueueDescriptor,
    MTLComputePipelineDescriptor, MTLComputePipelineReflection, MTLDataType, MTLFunction, MTLFunctionConstant,
    MTLFunctionConstantValues, MTLIndirectCommandBufferDescriptor, MTLIndirectCommandType, MTLPointerType,
    MTLResidencySetDescriptor, MTLType,
};

/// Classes that a program makes with `new`.
macro_rules! made_by_programs {
    ($($class:ident)*) => {$(
        impl $class {
            extern_methods!(
                #[unsafe(method(init))]
                pub fn init(this: Allocated<Self>) -> Retained<Self>;

                #[unsafe(method(new))]
                pub fn new() -> Retained<Self>;
            );
        }

        impl DefaultRetained for $class {
            fn default_retained() -> Retained<Self> {
                Self::new()
            }
        }
    )*};
}

made_by_programs!(
    MTLCommandBufferDescriptor
    MTLCommandQueueDescriptor
    MTLComputePipelineDescriptor
    MTLFunctionConstantValues
    MTLIndirectCommandBufferDescriptor
    MTLResidencySetDescriptor
);

impl MTLCommandBufferDescriptor {
    extern_methods!(
        #[unsafe(method(retainedReferences))]
        pub fn retainedReferences(&self) -> bool;

        #[unsafe(method(setRetainedReferences:))]
        pub fn setRetainedReferences(&self, retained_references: bool);

        #[unsafe(method(errorOptions))]
        pub fn errorOptions(&self) -> MTLCommandBufferErrorOption;

        #[unsafe(method(setErrorOptions:))]
        pub fn setErrorOptions(&self, error_options: MTLCommandBufferErrorOption);
    );
}

impl MTLCommandQueueDescriptor {
    extern_methods!(
        #[unsafe(method(maxCommandBufferCount))]
        pub fn maxCommandBufferCount(&self) -> NSUInteger;

        #[unsafe(method(setMaxCommandBufferCount:))]
        pub unsafe fn setMaxCommandBufferCount(&self, max_command_buffer_count: NSUInteger);
    );
}

impl MTLResidencySetDescriptor {
    extern_methods!(
        #[unsafe(method(label))]
        pub fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(setLabel:))]
        pub fn setLabel(&self, label: Option<&NSString>);

        #[unsafe(method(initialCapacity))]
        pub fn initialCapacity(&self) -> NSUInteger;

        #[unsafe(method(setInitialCapacity:))]
        pub unsafe fn setInitialCapacity(&self, initial_capacity: NSUInteger);
    );
}

impl MTLComputePipelineDescriptor {
    extern_methods!(
        #[unsafe(method(label))]
        pub fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(setLabel:))]
        pub fn setLabel(&self, label: Option<&NSString>);

        #[unsafe(method(computeFunction))]
        pub fn computeFunction(&self) -> Option<Retained<ProtocolObject<dyn MTLFunction>>>;

        #[unsafe(method(setComputeFunction:))]
        pub fn setComputeFunction(&self, compute_function: Option<&ProtocolObject<dyn MTLFunction>>);

        #[unsafe(method(threadGroupSizeIsMultipleOfThreadExecutionWidth))]
        pub fn threadGroupSizeIsMultipleOfThreadExecutionWidth(&self) -> bool;

        #[unsafe(method(setThreadGroupSizeIsMultipleOfThreadExecutionWidth:))]
        pub unsafe fn setThreadGroupSizeIsMultipleOfThreadExecutionWidth(
            &self,
            thread_group_size_is_multiple_of_thread_execution_width: bool,
        );

        #[unsafe(method(maxTotalThreadsPerThreadgroup))]
        pub fn maxTotalThreadsPerThreadgroup(&self) -> NSUInteger;

        #[unsafe(method(setMaxTotalThreadsPerThreadgroup:))]
        pub fn setMaxTotalThreadsPerThreadgroup(&self, max_total_threads_per_threadgroup: NSUInteger);

        #[unsafe(method(supportIndirectCommandBuffers))]
        pub fn supportIndirectCommandBuffers(&self) -> bool;

        #[unsafe(method(setSupportIndirectCommandBuffers:))]
        pub fn setSupportIndirectCommandBuffers(&self, support_indirect_command_buffers: bool);

        #[unsafe(method(reset))]
        pub fn reset(&self);
    );
}

impl MTLIndirectCommandBufferDescriptor {
    extern_methods!(
        #[unsafe(method(commandTypes))]
        pub fn commandTypes(&self) -> MTLIndirectCommandType;

        #[unsafe(method(setCommandTypes:))]
        pub fn setCommandTypes(&self, command_types: MTLIndirectCommandType);

        #[unsafe(method(inheritPipelineState))]
        pub fn inheritPipelineState(&self) -> bool;

        #[unsafe(method(setInheritPipelineState:))]
        pub fn setInheritPipelineState(&self, inherit_pipeline_state: bool);

        #[unsafe(method(inheritBuffers))]
        pub fn inheritBuffers(&self) -> bool;

        #[unsafe(method(setInheritBuffers:))]
        pub fn setInheritBuffers(&self, inherit_buffers: bool);

        #[unsafe(method(maxKernelBufferBindCount))]
        pub fn maxKernelBufferBindCount(&self) -> NSUInteger;

        #[unsafe(method(setMaxKernelBufferBindCount:))]
        pub fn setMaxKernelBufferBindCount(&self, max_kernel_buffer_bind_count: NSUInteger);

        #[unsafe(method(maxKernelThreadgroupMemoryBindCount))]
        pub fn maxKernelThreadgroupMemoryBindCount(&self) -> NSUInteger;

        #[unsafe(method(setMaxKernelThreadgroupMemoryBindCount:))]
        pub unsafe fn setMaxKernelThreadgroupMemoryBindCount(
            &self,
            max_kernel_threadgroup_memory_bind_count: NSUInteger,
        );
    );
}

impl MTLFunctionConstantValues {
    extern_methods!(
        #[unsafe(method(setConstantValue:type:atIndex:))]
        pub unsafe fn setConstantValue_type_atIndex(
            &self,
            value: NonNull<c_void>,
            r#type: MTLDataType,
            index: NSUInteger,
        );

        #[unsafe(method(setConstantValues:type:withRange:))]
        pub unsafe fn setConstantValues_type_withRange(
            &self,
            values: NonNull<c_void>,
            r#type: MTLDataType,
            range: NSRange,
        );

        #[unsafe(method(setConstantValue:type:withName:))]
        pub unsafe fn setConstantValue_type_withName(
            &self,
            value: NonNull<c_void>,
            r#type: MTLDataType,
            name: &NSString,
        );

        #[unsafe(method(reset))]
        pub fn reset(&self);
    );
}

impl MTLFunctionConstant {
    extern_methods!(
        #[unsafe(method(name))]
        pub fn name(&self) -> Retained<NSString>;

        #[unsafe(method(type))]
        pub fn r#type(&self) -> MTLDataType;

        #[unsafe(method(index))]
        pub fn index(&self) -> NSUInteger;

        #[unsafe(method(required))]
        pub fn required(&self) -> bool;
    );
}

impl MTLComputePipelineReflection {
    extern_methods!(
        #[unsafe(method(bindings))]
        pub fn bindings(&self) -> Retained<NSArray<ProtocolObject<dyn MTLBinding>>>;
    );
}

impl MTLType {
    extern_methods!(
        #[unsafe(method(dataType))]
        pub fn dataType(&self) -> MTLDataType;
    );
}

impl MTLPointerType {
    extern_methods!(
        #[unsafe(method(elementType))]
        pub fn elementType(&self) -> MTLDataType;

        #[unsafe(method(access))]
        pub fn access(&self) -> MTLBindingAccess;

        #[unsafe(method(alignment))]
        pub fn alignment(&self) -> NSUInteger;

        #[unsafe(method(dataSize))]
        pub fn dataSize(&self) -> NSUInteger;
    );
}
