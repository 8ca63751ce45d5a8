//! The device: what a GPU is, and what it makes; fences; how a program finds its device.

use std::{ffi::c_void, ptr::NonNull};

use block2::DynBlock;
use dispatch2::DispatchData;
use objc2::{
    extern_protocol,
    rc::Retained,
    runtime::{NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSArray, NSError, NSString, NSUInteger};

use super::{
    MTLBuffer, MTLCommandQueue, MTLCommandQueueDescriptor, MTLComputePipelineDescriptor, MTLComputePipelineReflection,
    MTLComputePipelineState, MTLFunction, MTLGPUFamily, MTLIndirectCommandBuffer, MTLIndirectCommandBufferDescriptor,
    MTLLibrary, MTLPipelineOption, MTLResidencySet, MTLResidencySetDescriptor, MTLResourceOptions, MTLSize,
};

/// What the asynchronous compile of a pipeline calls.
pub type MTLNewComputePipelineStateCompletionHandler =
    *mut DynBlock<dyn Fn(*mut ProtocolObject<dyn MTLComputePipelineState>, *mut NSError)>;

/// What the asynchronous compile of a pipeline calls, with what its arguments are.
pub type MTLNewComputePipelineStateWithReflectionCompletionHandler = *mut DynBlock<
    dyn Fn(*mut ProtocolObject<dyn MTLComputePipelineState>, *mut MTLComputePipelineReflection, *mut NSError),
>;

/// What a pipeline's arguments are, autoreleased.
pub type MTLAutoreleasedComputePipelineReflection = MTLComputePipelineReflection;

extern_protocol!(
    pub unsafe trait MTLDevice: NSObjectProtocol + Send + Sync {
        #[unsafe(method(name))]
        fn name(&self) -> Retained<NSString>;

        #[unsafe(method(registryID))]
        fn registryID(&self) -> u64;

        #[unsafe(method(maxThreadsPerThreadgroup))]
        fn maxThreadsPerThreadgroup(&self) -> MTLSize;

        #[unsafe(method(isLowPower))]
        fn isLowPower(&self) -> bool;

        #[unsafe(method(isHeadless))]
        fn isHeadless(&self) -> bool;

        #[unsafe(method(isRemovable))]
        fn isRemovable(&self) -> bool;

        #[unsafe(method(hasUnifiedMemory))]
        fn hasUnifiedMemory(&self) -> bool;

        #[unsafe(method(recommendedMaxWorkingSetSize))]
        fn recommendedMaxWorkingSetSize(&self) -> u64;

        #[unsafe(method(currentAllocatedSize))]
        fn currentAllocatedSize(&self) -> NSUInteger;

        #[unsafe(method(newCommandQueue))]
        fn newCommandQueue(&self) -> Option<Retained<ProtocolObject<dyn MTLCommandQueue>>>;

        #[unsafe(method(newCommandQueueWithMaxCommandBufferCount:))]
        fn newCommandQueueWithMaxCommandBufferCount(
            &self,
            max_command_buffer_count: NSUInteger,
        ) -> Option<Retained<ProtocolObject<dyn MTLCommandQueue>>>;

        #[unsafe(method(newCommandQueueWithDescriptor:))]
        fn newCommandQueueWithDescriptor(
            &self,
            descriptor: &MTLCommandQueueDescriptor,
        ) -> Option<Retained<ProtocolObject<dyn MTLCommandQueue>>>;

        #[unsafe(method(newBufferWithLength:options:))]
        fn newBufferWithLength_options(
            &self,
            length: NSUInteger,
            options: MTLResourceOptions,
        ) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>>;

        #[unsafe(method(newBufferWithBytes:length:options:))]
        unsafe fn newBufferWithBytes_length_options(
            &self,
            pointer: NonNull<c_void>,
            length: NSUInteger,
            options: MTLResourceOptions,
        ) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>>;

        #[unsafe(method(newBufferWithBytesNoCopy:length:options:deallocator:))]
        unsafe fn newBufferWithBytesNoCopy_length_options_deallocator(
            &self,
            pointer: NonNull<c_void>,
            length: NSUInteger,
            options: MTLResourceOptions,
            deallocator: Option<&DynBlock<dyn Fn(NonNull<c_void>, NSUInteger)>>,
        ) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>>;

        #[unsafe(method(newLibraryWithData:error:_))]
        fn newLibraryWithData_error(
            &self,
            data: &DispatchData,
        ) -> Result<Retained<ProtocolObject<dyn MTLLibrary>>, Retained<NSError>>;

        #[unsafe(method(newComputePipelineStateWithFunction:error:_))]
        fn newComputePipelineStateWithFunction_error(
            &self,
            compute_function: &ProtocolObject<dyn MTLFunction>,
        ) -> Result<Retained<ProtocolObject<dyn MTLComputePipelineState>>, Retained<NSError>>;

        #[unsafe(method(newComputePipelineStateWithFunction:options:reflection:error:_))]
        unsafe fn newComputePipelineStateWithFunction_options_reflection_error(
            &self,
            compute_function: &ProtocolObject<dyn MTLFunction>,
            options: MTLPipelineOption,
            reflection: Option<&mut Option<Retained<MTLAutoreleasedComputePipelineReflection>>>,
        ) -> Result<Retained<ProtocolObject<dyn MTLComputePipelineState>>, Retained<NSError>>;

        #[unsafe(method(newComputePipelineStateWithFunction:completionHandler:))]
        unsafe fn newComputePipelineStateWithFunction_completionHandler(
            &self,
            compute_function: &ProtocolObject<dyn MTLFunction>,
            completion_handler: MTLNewComputePipelineStateCompletionHandler,
        );

        #[unsafe(method(newComputePipelineStateWithFunction:options:completionHandler:))]
        unsafe fn newComputePipelineStateWithFunction_options_completionHandler(
            &self,
            compute_function: &ProtocolObject<dyn MTLFunction>,
            options: MTLPipelineOption,
            completion_handler: MTLNewComputePipelineStateWithReflectionCompletionHandler,
        );

        #[unsafe(method(newComputePipelineStateWithDescriptor:options:reflection:error:_))]
        fn newComputePipelineStateWithDescriptor_options_reflection_error(
            &self,
            descriptor: &MTLComputePipelineDescriptor,
            options: MTLPipelineOption,
            reflection: Option<&mut Option<Retained<MTLAutoreleasedComputePipelineReflection>>>,
        ) -> Result<Retained<ProtocolObject<dyn MTLComputePipelineState>>, Retained<NSError>>;

        #[unsafe(method(newComputePipelineStateWithDescriptor:options:completionHandler:))]
        unsafe fn newComputePipelineStateWithDescriptor_options_completionHandler(
            &self,
            descriptor: &MTLComputePipelineDescriptor,
            options: MTLPipelineOption,
            completion_handler: MTLNewComputePipelineStateWithReflectionCompletionHandler,
        );

        #[unsafe(method(newFence))]
        fn newFence(&self) -> Option<Retained<ProtocolObject<dyn MTLFence>>>;

        #[unsafe(method(supportsFamily:))]
        fn supportsFamily(&self, gpu_family: MTLGPUFamily) -> bool;

        #[unsafe(method(maxThreadgroupMemoryLength))]
        fn maxThreadgroupMemoryLength(&self) -> NSUInteger;

        #[unsafe(method(newIndirectCommandBufferWithDescriptor:maxCommandCount:options:))]
        unsafe fn newIndirectCommandBufferWithDescriptor_maxCommandCount_options(
            &self,
            descriptor: &MTLIndirectCommandBufferDescriptor,
            max_count: NSUInteger,
            options: MTLResourceOptions,
        ) -> Option<Retained<ProtocolObject<dyn MTLIndirectCommandBuffer>>>;

        #[unsafe(method(maxBufferLength))]
        fn maxBufferLength(&self) -> NSUInteger;

        #[unsafe(method(newResidencySetWithDescriptor:error:_))]
        fn newResidencySetWithDescriptor_error(
            &self,
            desc: &MTLResidencySetDescriptor,
        ) -> Result<Retained<ProtocolObject<dyn MTLResidencySet>>, Retained<NSError>>;
    }
);

extern_protocol!(
    pub unsafe trait MTLFence: NSObjectProtocol + Send + Sync {
        #[unsafe(method(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>>;

        #[unsafe(method(label))]
        fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(setLabel:))]
        fn setLabel(&self, label: Option<&NSString>);
    }
);

/// The GPU of the machine that this thread entered, else of the process's default machine.
pub extern "C-unwind" fn MTLCreateSystemDefaultDevice() -> Option<Retained<ProtocolObject<dyn MTLDevice>>> {
    crate::metal::default_device()
}

/// Every GPU of the machine: one, or none.
pub extern "C-unwind" fn MTLCopyAllDevices() -> Retained<NSArray<ProtocolObject<dyn MTLDevice>>> {
    let device = MTLCreateSystemDefaultDevice();
    let devices: &[_] = if let Some(device) = device.as_deref() { &[device] } else { &[] };
    NSArray::from_slice(devices)
}
