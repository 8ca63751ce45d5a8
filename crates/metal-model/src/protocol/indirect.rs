//! Indirect command buffers: launches recorded once, and run by many command buffers.

use objc2::{
    extern_protocol,
    rc::Retained,
    runtime::{NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSRange, NSUInteger};

use super::{MTLBuffer, MTLComputePipelineState, MTLResource, MTLSize};

extern_protocol!(
    pub unsafe trait MTLIndirectCommandBuffer: MTLResource {
        #[unsafe(method(size))]
        fn size(&self) -> NSUInteger;

        #[unsafe(method(resetWithRange:))]
        unsafe fn resetWithRange(&self, range: NSRange);

        #[unsafe(method(indirectComputeCommandAtIndex:))]
        unsafe fn indirectComputeCommandAtIndex(
            &self,
            command_index: NSUInteger,
        ) -> Retained<ProtocolObject<dyn MTLIndirectComputeCommand>>;
    }
);

extern_protocol!(
    pub unsafe trait MTLIndirectComputeCommand: NSObjectProtocol {
        #[unsafe(method(setComputePipelineState:))]
        fn setComputePipelineState(&self, pipeline_state: &ProtocolObject<dyn MTLComputePipelineState>);

        #[unsafe(method(setKernelBuffer:offset:atIndex:))]
        unsafe fn setKernelBuffer_offset_atIndex(
            &self,
            buffer: &ProtocolObject<dyn MTLBuffer>,
            offset: NSUInteger,
            index: NSUInteger,
        );

        #[unsafe(method(concurrentDispatchThreadgroups:threadsPerThreadgroup:))]
        fn concurrentDispatchThreadgroups_threadsPerThreadgroup(
            &self,
            threadgroups_per_grid: MTLSize,
            threads_per_threadgroup: MTLSize,
        );

        #[unsafe(method(concurrentDispatchThreads:threadsPerThreadgroup:))]
        fn concurrentDispatchThreads_threadsPerThreadgroup(
            &self,
            threads_per_grid: MTLSize,
            threads_per_threadgroup: MTLSize,
        );

        #[unsafe(method(setBarrier))]
        fn setBarrier(&self);

        #[unsafe(method(clearBarrier))]
        fn clearBarrier(&self);

        #[unsafe(method(reset))]
        fn reset(&self);

        #[unsafe(method(setThreadgroupMemoryLength:atIndex:))]
        unsafe fn setThreadgroupMemoryLength_atIndex(&self, length: NSUInteger, index: NSUInteger);
    }
);
