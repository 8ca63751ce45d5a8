//! Work: queues, command buffers, encoders.

use std::{ffi::c_void, ptr::NonNull};

use block2::DynBlock;
use objc2::{
    extern_protocol,
    rc::Retained,
    runtime::{NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSError, NSRange, NSString, NSUInteger};

use super::{
    CFTimeInterval, MTLBarrierScope, MTLBuffer, MTLCommandBufferDescriptor, MTLCommandBufferErrorOption,
    MTLCommandBufferStatus, MTLComputePipelineState, MTLDevice, MTLDispatchType, MTLFence, MTLIndirectCommandBuffer,
    MTLResidencySet, MTLResource, MTLResourceUsage, MTLSize,
};

extern_protocol!(
    pub unsafe trait MTLCommandQueue: NSObjectProtocol + Send + Sync {
        #[unsafe(method(label))]
        fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(setLabel:))]
        fn setLabel(&self, label: Option<&NSString>);

        #[unsafe(method(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>>;

        #[unsafe(method(commandBuffer))]
        fn commandBuffer(&self) -> Option<Retained<ProtocolObject<dyn MTLCommandBuffer>>>;

        #[unsafe(method(commandBufferWithDescriptor:))]
        fn commandBufferWithDescriptor(
            &self,
            descriptor: &MTLCommandBufferDescriptor,
        ) -> Option<Retained<ProtocolObject<dyn MTLCommandBuffer>>>;

        #[unsafe(method(commandBufferWithUnretainedReferences))]
        fn commandBufferWithUnretainedReferences(&self) -> Option<Retained<ProtocolObject<dyn MTLCommandBuffer>>>;

        #[unsafe(method(addResidencySet:))]
        fn addResidencySet(&self, residency_set: &ProtocolObject<dyn MTLResidencySet>);

        #[unsafe(method(addResidencySets:count:))]
        unsafe fn addResidencySets_count(
            &self,
            residency_sets: NonNull<NonNull<ProtocolObject<dyn MTLResidencySet>>>,
            count: NSUInteger,
        );

        #[unsafe(method(removeResidencySet:))]
        fn removeResidencySet(&self, residency_set: &ProtocolObject<dyn MTLResidencySet>);

        #[unsafe(method(removeResidencySets:count:))]
        unsafe fn removeResidencySets_count(
            &self,
            residency_sets: NonNull<NonNull<ProtocolObject<dyn MTLResidencySet>>>,
            count: NSUInteger,
        );
    }
);

/// What a command buffer calls once it is scheduled, or has completed.
pub type MTLCommandBufferHandler = *mut DynBlock<dyn Fn(NonNull<ProtocolObject<dyn MTLCommandBuffer>>)>;

extern_protocol!(
    pub unsafe trait MTLCommandBuffer: NSObjectProtocol {
        #[unsafe(method(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>>;

        #[unsafe(method(commandQueue))]
        fn commandQueue(&self) -> Retained<ProtocolObject<dyn MTLCommandQueue>>;

        #[unsafe(method(retainedReferences))]
        fn retainedReferences(&self) -> bool;

        #[unsafe(method(errorOptions))]
        fn errorOptions(&self) -> MTLCommandBufferErrorOption;

        #[unsafe(method(label))]
        fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(setLabel:))]
        fn setLabel(&self, label: Option<&NSString>);

        #[unsafe(method(kernelStartTime))]
        fn kernelStartTime(&self) -> CFTimeInterval;

        #[unsafe(method(kernelEndTime))]
        fn kernelEndTime(&self) -> CFTimeInterval;

        #[unsafe(method(GPUStartTime))]
        fn GPUStartTime(&self) -> CFTimeInterval;

        #[unsafe(method(GPUEndTime))]
        fn GPUEndTime(&self) -> CFTimeInterval;

        #[unsafe(method(enqueue))]
        fn enqueue(&self);

        #[unsafe(method(commit))]
        fn commit(&self);

        #[unsafe(method(addScheduledHandler:))]
        unsafe fn addScheduledHandler(&self, block: MTLCommandBufferHandler);

        #[unsafe(method(waitUntilScheduled))]
        fn waitUntilScheduled(&self);

        #[unsafe(method(addCompletedHandler:))]
        unsafe fn addCompletedHandler(&self, block: MTLCommandBufferHandler);

        #[unsafe(method(waitUntilCompleted))]
        fn waitUntilCompleted(&self);

        #[unsafe(method(status))]
        fn status(&self) -> MTLCommandBufferStatus;

        #[unsafe(method(error))]
        fn error(&self) -> Option<Retained<NSError>>;

        #[unsafe(method(blitCommandEncoder))]
        fn blitCommandEncoder(&self) -> Option<Retained<ProtocolObject<dyn MTLBlitCommandEncoder>>>;

        #[unsafe(method(computeCommandEncoder))]
        fn computeCommandEncoder(&self) -> Option<Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>>;

        #[unsafe(method(computeCommandEncoderWithDispatchType:))]
        fn computeCommandEncoderWithDispatchType(
            &self,
            dispatch_type: MTLDispatchType,
        ) -> Option<Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>>;

        #[unsafe(method(pushDebugGroup:))]
        fn pushDebugGroup(&self, string: &NSString);

        #[unsafe(method(popDebugGroup))]
        fn popDebugGroup(&self);

        #[unsafe(method(useResidencySet:))]
        fn useResidencySet(&self, residency_set: &ProtocolObject<dyn MTLResidencySet>);

        #[unsafe(method(useResidencySets:count:))]
        unsafe fn useResidencySets_count(
            &self,
            residency_sets: NonNull<NonNull<ProtocolObject<dyn MTLResidencySet>>>,
            count: NSUInteger,
        );
    }
);

extern_protocol!(
    pub unsafe trait MTLCommandEncoder: NSObjectProtocol {
        #[unsafe(method(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>>;

        #[unsafe(method(label))]
        fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(setLabel:))]
        fn setLabel(&self, label: Option<&NSString>);

        #[unsafe(method(endEncoding))]
        fn endEncoding(&self);

        #[unsafe(method(insertDebugSignpost:))]
        fn insertDebugSignpost(&self, string: &NSString);

        #[unsafe(method(pushDebugGroup:))]
        fn pushDebugGroup(&self, string: &NSString);

        #[unsafe(method(popDebugGroup))]
        fn popDebugGroup(&self);
    }
);

extern_protocol!(
    pub unsafe trait MTLComputeCommandEncoder: MTLCommandEncoder {
        #[unsafe(method(dispatchType))]
        fn dispatchType(&self) -> MTLDispatchType;

        #[unsafe(method(setComputePipelineState:))]
        fn setComputePipelineState(&self, state: &ProtocolObject<dyn MTLComputePipelineState>);

        #[unsafe(method(setBytes:length:atIndex:))]
        unsafe fn setBytes_length_atIndex(&self, bytes: NonNull<c_void>, length: NSUInteger, index: NSUInteger);

        #[unsafe(method(setBuffer:offset:atIndex:))]
        unsafe fn setBuffer_offset_atIndex(
            &self,
            buffer: Option<&ProtocolObject<dyn MTLBuffer>>,
            offset: NSUInteger,
            index: NSUInteger,
        );

        #[unsafe(method(setBufferOffset:atIndex:))]
        unsafe fn setBufferOffset_atIndex(&self, offset: NSUInteger, index: NSUInteger);

        #[unsafe(method(setBuffers:offsets:withRange:))]
        unsafe fn setBuffers_offsets_withRange(
            &self,
            buffers: NonNull<*const ProtocolObject<dyn MTLBuffer>>,
            offsets: NonNull<NSUInteger>,
            range: NSRange,
        );

        #[unsafe(method(setThreadgroupMemoryLength:atIndex:))]
        unsafe fn setThreadgroupMemoryLength_atIndex(&self, length: NSUInteger, index: NSUInteger);

        #[unsafe(method(dispatchThreadgroups:threadsPerThreadgroup:))]
        fn dispatchThreadgroups_threadsPerThreadgroup(
            &self,
            threadgroups_per_grid: MTLSize,
            threads_per_threadgroup: MTLSize,
        );

        #[unsafe(method(dispatchThreadgroupsWithIndirectBuffer:indirectBufferOffset:threadsPerThreadgroup:))]
        unsafe fn dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup(
            &self,
            indirect_buffer: &ProtocolObject<dyn MTLBuffer>,
            indirect_buffer_offset: NSUInteger,
            threads_per_threadgroup: MTLSize,
        );

        #[unsafe(method(dispatchThreads:threadsPerThreadgroup:))]
        fn dispatchThreads_threadsPerThreadgroup(&self, threads_per_grid: MTLSize, threads_per_threadgroup: MTLSize);

        #[unsafe(method(updateFence:))]
        fn updateFence(&self, fence: &ProtocolObject<dyn MTLFence>);

        #[unsafe(method(waitForFence:))]
        fn waitForFence(&self, fence: &ProtocolObject<dyn MTLFence>);

        #[unsafe(method(useResource:usage:))]
        fn useResource_usage(&self, resource: &ProtocolObject<dyn MTLResource>, usage: MTLResourceUsage);

        #[unsafe(method(useResources:count:usage:))]
        unsafe fn useResources_count_usage(
            &self,
            resources: NonNull<NonNull<ProtocolObject<dyn MTLResource>>>,
            count: NSUInteger,
            usage: MTLResourceUsage,
        );

        #[unsafe(method(executeCommandsInBuffer:withRange:))]
        unsafe fn executeCommandsInBuffer_withRange(
            &self,
            indirect_command_buffer: &ProtocolObject<dyn MTLIndirectCommandBuffer>,
            execution_range: NSRange,
        );

        #[unsafe(method(memoryBarrierWithScope:))]
        fn memoryBarrierWithScope(&self, scope: MTLBarrierScope);

        #[unsafe(method(memoryBarrierWithResources:count:))]
        unsafe fn memoryBarrierWithResources_count(
            &self,
            resources: NonNull<NonNull<ProtocolObject<dyn MTLResource>>>,
            count: NSUInteger,
        );
    }
);

extern_protocol!(
    pub unsafe trait MTLBlitCommandEncoder: MTLCommandEncoder {
        #[unsafe(method(fillBuffer:range:value:))]
        fn fillBuffer_range_value(&self, buffer: &ProtocolObject<dyn MTLBuffer>, range: NSRange, value: u8);

        #[unsafe(method(copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:))]
        unsafe fn copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
            &self,
            source_buffer: &ProtocolObject<dyn MTLBuffer>,
            source_offset: NSUInteger,
            destination_buffer: &ProtocolObject<dyn MTLBuffer>,
            destination_offset: NSUInteger,
            size: NSUInteger,
        );

        #[unsafe(method(updateFence:))]
        fn updateFence(&self, fence: &ProtocolObject<dyn MTLFence>);

        #[unsafe(method(waitForFence:))]
        fn waitForFence(&self, fence: &ProtocolObject<dyn MTLFence>);
    }
);
