//! Buffers.

use std::{ffi::c_void, mem::ManuallyDrop, ptr::NonNull, sync::Arc};

use block2::RcBlock;
use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSRange, NSString, NSUInteger};
use parking_lot::Mutex;

use super::{Life, ResourceState, again, create, device::Device};
use crate::{
    address::gpu_address,
    machine::{Machine, Memory},
    protocol::{
        MTLAllocation, MTLBuffer, MTLCPUCacheMode, MTLDevice, MTLGPUAddress, MTLHazardTrackingMode, MTLPurgeableState,
        MTLResource, MTLResourceOptions, MTLResourceStorageModeShift, MTLStorageMode,
    },
};

/// What gives a program's own pages back.
pub(crate) struct Deallocator(pub(crate) RcBlock<dyn Fn(NonNull<c_void>, NSUInteger)>);

// SAFETY: a program hands Metal a block that is fit for any thread; it is called once, and released.
unsafe impl Send for Deallocator {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl Sync for Deallocator {}

/// A buffer, without its object.
pub(crate) struct BufferState {
    pub(crate) machine: Machine,
    life: Life,
    /// Taken by `drop` alone.
    memory: ManuallyDrop<Memory>,
    pub(crate) options: MTLResourceOptions,
    deallocator: Option<Deallocator>,
}

impl BufferState {
    pub(crate) fn host(&self) -> usize {
        self.memory.address
    }

    pub(crate) fn gpu(&self) -> u64 {
        gpu_address(self.memory.address as u64)
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len
    }

    /// Whether Metal orders its uses.
    pub(crate) fn tracked(&self) -> bool {
        !self.options.contains(MTLResourceOptions::HazardTrackingModeUntracked)
    }

    pub(crate) fn storage(&self) -> MTLStorageMode {
        MTLStorageMode((self.options.bits() >> MTLResourceStorageModeShift) & 0xf)
    }
}

impl ResourceState for BufferState {
    fn life(&self) -> &Life {
        &self.life
    }

    fn range(&self) -> Option<(u64, u64)> {
        Some((self.gpu(), self.len() as u64))
    }

    fn allocated(&self) -> u64 {
        self.len() as u64
    }

    fn describe(&self) -> String {
        format!("the buffer of {} bytes at {:#x}", self.len(), self.gpu())
    }
}

impl Drop for BufferState {
    fn drop(&mut self) {
        // SAFETY: nothing else takes the memory, and nothing uses it after.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        let (address, len) = (memory.address, memory.len);
        self.machine.0.heap.lock().free(memory);
        if let (Some(deallocator), Some(pages)) = (self.deallocator.take(), NonNull::new(address as *mut c_void)) {
            objc2::rc::autoreleasepool(|_| deallocator.0.call((pages, len)));
        }
    }
}

/// What a buffer's object holds.
pub(crate) struct Variables {
    pub(crate) state: Arc<BufferState>,
    device: Retained<Device>,
    label: Mutex<Option<String>>,
}

impl Drop for Variables {
    fn drop(&mut self) {
        self.state.life.end();
    }
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelBuffer"]
    #[ivars = Variables]
    pub(crate) struct Buffer;

    unsafe impl NSObjectProtocol for Buffer {}

    unsafe impl MTLAllocation for Buffer {
        #[unsafe(method(allocatedSize))]
        fn allocated_size(&self) -> NSUInteger {
            self.ivars().state.len()
        }
    }

    unsafe impl MTLResource for Buffer {
        #[unsafe(method_id(label))]
        fn label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.lock().as_deref().map(NSString::from_str)
        }

        #[unsafe(method(setLabel:))]
        fn set_label(&self, label: Option<&NSString>) {
            *self.ivars().label.lock() = label.map(ToString::to_string);
        }

        #[unsafe(method_id(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
            ProtocolObject::from_retained(self.ivars().device.clone())
        }

        #[unsafe(method(cpuCacheMode))]
        fn cache_mode(&self) -> MTLCPUCacheMode {
            MTLCPUCacheMode(self.ivars().state.options.bits() & 0xf)
        }

        #[unsafe(method(storageMode))]
        fn storage_mode(&self) -> MTLStorageMode {
            self.ivars().state.storage()
        }

        #[unsafe(method(hazardTrackingMode))]
        fn tracking_mode(&self) -> MTLHazardTrackingMode {
            if self.ivars().state.tracked() { MTLHazardTrackingMode::Tracked } else { MTLHazardTrackingMode::Untracked }
        }

        #[unsafe(method(resourceOptions))]
        fn options(&self) -> MTLResourceOptions {
            self.ivars().state.options
        }

        #[unsafe(method(setPurgeableState:))]
        fn set_purgeable(&self, _state: MTLPurgeableState) -> MTLPurgeableState {
            MTLPurgeableState::NonVolatile
        }

        #[unsafe(method(heapOffset))]
        fn heap_offset(&self) -> NSUInteger {
            0
        }

        #[unsafe(method(isAliasable))]
        fn is_aliasable(&self) -> bool {
            false
        }
    }

    unsafe impl MTLBuffer for Buffer {
        #[unsafe(method(length))]
        fn length(&self) -> NSUInteger {
            self.ivars().state.len()
        }

        #[unsafe(method(contents))]
        fn contents(&self) -> *mut c_void {
            let state = &self.ivars().state;
            if state.storage() == MTLStorageMode::Private {
                state.machine.violate("-[MTLBuffer contents]", "a buffer of private storage has none for the host");
            }
            state.host() as *mut c_void
        }

        #[unsafe(method(didModifyRange:))]
        fn did_modify(&self, range: NSRange) {
            let state = &self.ivars().state;
            if state.storage() != MTLStorageMode::Managed {
                state
                    .machine
                    .violate("-[MTLBuffer didModifyRange:]", "only managed buffers are told what was modified");
            }
            if range.location.checked_add(range.length).is_none_or(|end| end > state.len()) {
                state.machine.violate("-[MTLBuffer didModifyRange:]", "the range ends past the buffer");
            }
        }

        #[unsafe(method(addDebugMarker:range:))]
        fn add_marker(&self, _marker: &NSString, _range: NSRange) {}

        #[unsafe(method(removeAllDebugMarkers))]
        fn remove_markers(&self) {}

        #[unsafe(method(gpuAddress))]
        fn gpu_address(&self) -> MTLGPUAddress {
            self.ivars().state.gpu()
        }
    }
);

impl Buffer {
    pub(crate) fn state(&self) -> &Arc<BufferState> {
        &self.ivars().state
    }
}

/// The object of a buffer over this memory.
pub(crate) fn over(
    device: &Device,
    memory: Memory,
    options: MTLResourceOptions,
    deallocator: Option<Deallocator>,
) -> Retained<ProtocolObject<dyn MTLBuffer>> {
    let machine = device.machine();
    let memory = ManuallyDrop::new(memory);
    let state = Arc::new(BufferState { machine: machine.clone(), life: Life::default(), memory, options, deallocator });
    let variables = Variables { state, device: again(device), label: Mutex::new(None) };
    ProtocolObject::from_retained(create!(Buffer, machine, variables))
}
