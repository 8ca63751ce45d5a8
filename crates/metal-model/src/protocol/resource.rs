//! Memory: allocations, resources, buffers, residency sets.

use std::{ffi::c_void, ptr::NonNull};

use objc2::{
    extern_protocol,
    rc::Retained,
    runtime::{NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSArray, NSRange, NSString, NSUInteger};

use super::{
    MTLCPUCacheMode, MTLDevice, MTLGPUAddress, MTLHazardTrackingMode, MTLPurgeableState, MTLResourceOptions,
    MTLStorageMode,
};

extern_protocol!(
    pub unsafe trait MTLAllocation: NSObjectProtocol {
        #[unsafe(method(allocatedSize))]
        fn allocatedSize(&self) -> NSUInteger;
    }
);

extern_protocol!(
    pub unsafe trait MTLResource: MTLAllocation {
        #[unsafe(method(label))]
        fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(setLabel:))]
        fn setLabel(&self, label: Option<&NSString>);

        #[unsafe(method(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>>;

        #[unsafe(method(cpuCacheMode))]
        fn cpuCacheMode(&self) -> MTLCPUCacheMode;

        #[unsafe(method(storageMode))]
        fn storageMode(&self) -> MTLStorageMode;

        #[unsafe(method(hazardTrackingMode))]
        fn hazardTrackingMode(&self) -> MTLHazardTrackingMode;

        #[unsafe(method(resourceOptions))]
        fn resourceOptions(&self) -> MTLResourceOptions;

        #[unsafe(method(setPurgeableState:))]
        fn setPurgeableState(&self, state: MTLPurgeableState) -> MTLPurgeableState;

        #[unsafe(method(heapOffset))]
        fn heapOffset(&self) -> NSUInteger;

        #[unsafe(method(allocatedSize))]
        fn allocatedSize(&self) -> NSUInteger;

        #[unsafe(method(isAliasable))]
        fn isAliasable(&self) -> bool;
    }
);

extern_protocol!(
    pub unsafe trait MTLBuffer: MTLResource {
        #[unsafe(method(length))]
        fn length(&self) -> NSUInteger;

        #[unsafe(method(contents))]
        fn contents(&self) -> NonNull<c_void>;

        #[unsafe(method(didModifyRange:))]
        fn didModifyRange(&self, range: NSRange);

        #[unsafe(method(addDebugMarker:range:))]
        fn addDebugMarker_range(&self, marker: &NSString, range: NSRange);

        #[unsafe(method(removeAllDebugMarkers))]
        fn removeAllDebugMarkers(&self);

        #[unsafe(method(gpuAddress))]
        fn gpuAddress(&self) -> MTLGPUAddress;
    }
);

extern_protocol!(
    pub unsafe trait MTLResidencySet: NSObjectProtocol {
        #[unsafe(method(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>>;

        #[unsafe(method(label))]
        fn label(&self) -> Option<Retained<NSString>>;

        #[unsafe(method(allocatedSize))]
        fn allocatedSize(&self) -> u64;

        #[unsafe(method(requestResidency))]
        fn requestResidency(&self);

        #[unsafe(method(endResidency))]
        fn endResidency(&self);

        #[unsafe(method(addAllocation:))]
        fn addAllocation(&self, allocation: &ProtocolObject<dyn MTLAllocation>);

        #[unsafe(method(addAllocations:count:))]
        unsafe fn addAllocations_count(
            &self,
            allocations: NonNull<NonNull<ProtocolObject<dyn MTLAllocation>>>,
            count: NSUInteger,
        );

        #[unsafe(method(removeAllocation:))]
        fn removeAllocation(&self, allocation: &ProtocolObject<dyn MTLAllocation>);

        #[unsafe(method(removeAllocations:count:))]
        unsafe fn removeAllocations_count(
            &self,
            allocations: NonNull<NonNull<ProtocolObject<dyn MTLAllocation>>>,
            count: NSUInteger,
        );

        #[unsafe(method(removeAllAllocations))]
        fn removeAllAllocations(&self);

        #[unsafe(method(containsAllocation:))]
        fn containsAllocation(&self, an_allocation: &ProtocolObject<dyn MTLAllocation>) -> bool;

        #[unsafe(method(allAllocations))]
        fn allAllocations(&self) -> Retained<NSArray<ProtocolObject<dyn MTLAllocation>>>;

        #[unsafe(method(allocationCount))]
        fn allocationCount(&self) -> NSUInteger;

        #[unsafe(method(commit))]
        fn commit(&self);
    }
);
