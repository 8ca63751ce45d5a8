//! The device: what the machine's GPU is, and what it makes.

use std::{ffi::c_void, ptr::NonNull};

use block2::{DynBlock, RcBlock};
use dispatch2::DispatchData;
use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{AnyObject, NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSError, NSString, NSUInteger};

use super::{
    MTLCommandQueueDescriptor, MTLComputePipelineDescriptor, MTLComputePipelineReflection,
    MTLIndirectCommandBufferDescriptor, MTLResidencySetDescriptor, again,
    buffer::{self, Deallocator},
    command_queue, concrete, create, errors, fence, indirect,
    library::{self, Function},
    pipeline::{self, Made, Plan},
    residency,
};
use crate::{
    machine::{Machine, PAGE, What},
    protocol::{
        MTLBuffer, MTLCommandQueue, MTLComputePipelineState, MTLDevice, MTLFence, MTLFunction, MTLGPUFamily,
        MTLIndirectCommandBuffer, MTLLibrary, MTLPipelineOption, MTLResidencySet, MTLResourceOptions,
        MTLResourceStorageModeShift, MTLSize, MTLStorageMode,
    },
    queue::{guarded, spawn},
};

/// How many command buffers a queue holds where the program does not say.
const COMMAND_BUFFERS: usize = 64;

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelDevice"]
    #[ivars = Machine]
    pub(crate) struct Device;

    unsafe impl NSObjectProtocol for Device {}

    unsafe impl MTLDevice for Device {
        #[unsafe(method_id(name))]
        fn name(&self) -> Retained<NSString> {
            NSString::from_str(&self.machine().0.config.name)
        }

        #[unsafe(method(registryID))]
        fn registry_id(&self) -> u64 {
            0x1_0000_0001
        }

        #[unsafe(method(maxThreadsPerThreadgroup))]
        fn max_threads(&self) -> MTLSize {
            let [width, height, depth] = self.machine().0.config.max_threads;
            MTLSize { width, height, depth }
        }

        #[unsafe(method(isLowPower))]
        fn is_low_power(&self) -> bool {
            false
        }

        #[unsafe(method(isHeadless))]
        fn is_headless(&self) -> bool {
            false
        }

        #[unsafe(method(isRemovable))]
        fn is_removable(&self) -> bool {
            false
        }

        #[unsafe(method(hasUnifiedMemory))]
        fn has_unified_memory(&self) -> bool {
            true
        }

        #[unsafe(method(recommendedMaxWorkingSetSize))]
        fn working_set(&self) -> u64 {
            self.machine().0.config.working_set
        }

        #[unsafe(method(currentAllocatedSize))]
        fn allocated(&self) -> NSUInteger {
            usize::try_from(self.machine().0.heap.lock().allocated()).unwrap_or(usize::MAX)
        }

        #[unsafe(method(supportsFamily:))]
        fn supports(&self, family: MTLGPUFamily) -> bool {
            let apple = MTLGPUFamily::Apple1..=MTLGPUFamily::Apple10;
            let families = &self.machine().0.config.families;
            families
                .iter()
                .any(|held| *held == family || (apple.contains(held) && apple.contains(&family) && family <= *held))
        }

        #[unsafe(method(maxThreadgroupMemoryLength))]
        fn threadgroup_memory(&self) -> NSUInteger {
            self.machine().0.config.threadgroup_memory
        }

        #[unsafe(method(maxBufferLength))]
        fn max_buffer_length(&self) -> NSUInteger {
            self.machine().0.config.max_buffer_length
        }

        #[unsafe(method_id(newCommandQueue))]
        fn new_queue(&self) -> Option<Retained<ProtocolObject<dyn MTLCommandQueue>>> {
            command_queue::new(self, COMMAND_BUFFERS)
        }

        #[unsafe(method_id(newCommandQueueWithMaxCommandBufferCount:))]
        fn new_queue_of(&self, max: NSUInteger) -> Option<Retained<ProtocolObject<dyn MTLCommandQueue>>> {
            command_queue::new(self, max)
        }

        #[unsafe(method_id(newCommandQueueWithDescriptor:))]
        fn new_described_queue(
            &self,
            descriptor: &MTLCommandQueueDescriptor,
        ) -> Option<Retained<ProtocolObject<dyn MTLCommandQueue>>> {
            command_queue::new(self, descriptor.ivars().max_command_buffers.get())
        }

        #[unsafe(method_id(newBufferWithLength:options:))]
        fn new_buffer(
            &self,
            len: NSUInteger,
            options: MTLResourceOptions,
        ) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>> {
            self.buffer("-[MTLDevice newBufferWithLength:options:]", len, options, None)
        }

        #[unsafe(method_id(newBufferWithBytes:length:options:))]
        fn new_filled_buffer(
            &self,
            bytes: *mut c_void,
            len: NSUInteger,
            options: MTLResourceOptions,
        ) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>> {
            self.buffer("-[MTLDevice newBufferWithBytes:length:options:]", len, options, Some(bytes))
        }

        #[unsafe(method_id(newBufferWithBytesNoCopy:length:options:deallocator:))]
        fn new_host_buffer(
            &self,
            bytes: *mut c_void,
            len: NSUInteger,
            options: MTLResourceOptions,
            deallocator: Option<&DynBlock<dyn Fn(NonNull<c_void>, NSUInteger)>>,
        ) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>> {
            self.host_buffer(bytes as usize, len, options, deallocator.map(|block| Deallocator(block.copy())))
        }

        #[unsafe(method_id(newLibraryWithData:error:))]
        fn new_library(
            &self,
            data: &DispatchData,
            error: *mut *mut NSError,
        ) -> Option<Retained<ProtocolObject<dyn MTLLibrary>>> {
            // SAFETY: the message's place for an error.
            library::open(self, data).map_err(|why| unsafe { errors::put(error, why) }).ok()
        }

        #[unsafe(method_id(newComputePipelineStateWithFunction:error:))]
        fn new_pipeline(
            &self,
            function: &AnyObject,
            error: *mut *mut NSError,
        ) -> Option<Retained<ProtocolObject<dyn MTLComputePipelineState>>> {
            let call = "-[MTLDevice newComputePipelineStateWithFunction:error:]";
            self.plan_of(call, function, MTLPipelineOption::None)
                .and_then(|plan| self.pipeline(&plan, std::ptr::null_mut(), error))
        }

        #[unsafe(method_id(newComputePipelineStateWithFunction:options:reflection:error:))]
        fn new_reflected_pipeline(
            &self,
            function: &AnyObject,
            options: MTLPipelineOption,
            reflection: *mut *mut MTLComputePipelineReflection,
            error: *mut *mut NSError,
        ) -> Option<Retained<ProtocolObject<dyn MTLComputePipelineState>>> {
            let call = "-[MTLDevice newComputePipelineStateWithFunction:options:reflection:error:]";
            self.plan_of(call, function, options).and_then(|plan| self.pipeline(&plan, reflection, error))
        }

        #[unsafe(method(newComputePipelineStateWithFunction:completionHandler:))]
        fn start_pipeline(
            &self,
            function: &AnyObject,
            handler: *mut DynBlock<dyn Fn(*mut ProtocolObject<dyn MTLComputePipelineState>, *mut NSError)>,
        ) {
            let call = "-[MTLDevice newComputePipelineStateWithFunction:completionHandler:]";
            // SAFETY: the message hands a block.
            let handler = unsafe { RcBlock::copy(handler) };
            if let (Some(plan), Some(handler)) = (self.plan_of(call, function, MTLPipelineOption::None), handler) {
                start(plan, move |pipeline, _, error| handler.call((pipeline, error)));
            }
        }

        #[unsafe(method(newComputePipelineStateWithFunction:options:completionHandler:))]
        fn start_reflected_pipeline(
            &self,
            function: &AnyObject,
            options: MTLPipelineOption,
            handler: *mut ReflectedHandler,
        ) {
            let call = "-[MTLDevice newComputePipelineStateWithFunction:options:completionHandler:]";
            // SAFETY: the message hands a block.
            let handler = unsafe { RcBlock::copy(handler) };
            if let (Some(plan), Some(handler)) = (self.plan_of(call, function, options), handler) {
                start(plan, move |pipeline, reflection, error| handler.call((pipeline, reflection, error)));
            }
        }

        #[unsafe(method_id(newComputePipelineStateWithDescriptor:options:reflection:error:))]
        fn new_described_pipeline(
            &self,
            descriptor: &MTLComputePipelineDescriptor,
            options: MTLPipelineOption,
            reflection: *mut *mut MTLComputePipelineReflection,
            error: *mut *mut NSError,
        ) -> Option<Retained<ProtocolObject<dyn MTLComputePipelineState>>> {
            let call = "-[MTLDevice newComputePipelineStateWithDescriptor:options:reflection:error:]";
            self.described_plan(call, descriptor, options).and_then(|plan| self.pipeline(&plan, reflection, error))
        }

        #[unsafe(method(newComputePipelineStateWithDescriptor:options:completionHandler:))]
        fn start_described_pipeline(
            &self,
            descriptor: &MTLComputePipelineDescriptor,
            options: MTLPipelineOption,
            handler: *mut ReflectedHandler,
        ) {
            let call = "-[MTLDevice newComputePipelineStateWithDescriptor:options:completionHandler:]";
            // SAFETY: the message hands a block.
            let handler = unsafe { RcBlock::copy(handler) };
            if let (Some(plan), Some(handler)) = (self.described_plan(call, descriptor, options), handler) {
                start(plan, move |pipeline, reflection, error| handler.call((pipeline, reflection, error)));
            }
        }

        #[unsafe(method_id(newFence))]
        fn new_fence(&self) -> Option<Retained<ProtocolObject<dyn MTLFence>>> {
            self.machine().permits(What::Fence).then(|| fence::new(self))
        }

        #[unsafe(method_id(newIndirectCommandBufferWithDescriptor:maxCommandCount:options:))]
        fn new_indirect(
            &self,
            descriptor: &MTLIndirectCommandBufferDescriptor,
            count: NSUInteger,
            _options: MTLResourceOptions,
        ) -> Option<Retained<ProtocolObject<dyn MTLIndirectCommandBuffer>>> {
            indirect::new(self, descriptor, count)
        }

        #[unsafe(method_id(newResidencySetWithDescriptor:error:))]
        fn new_residency_set(
            &self,
            descriptor: &MTLResidencySetDescriptor,
            error: *mut *mut NSError,
        ) -> Option<Retained<ProtocolObject<dyn MTLResidencySet>>> {
            self.residency_set(descriptor, error)
        }
    }
);

/// What an asynchronous compile calls.
type ReflectedHandler =
    DynBlock<dyn Fn(*mut ProtocolObject<dyn MTLComputePipelineState>, *mut MTLComputePipelineReflection, *mut NSError)>;

impl Device {
    pub(crate) fn machine(&self) -> &Machine {
        self.ivars()
    }

    /// Whether a new buffer may have this length and these options; a wrong one is a violation.
    fn buffer_fits(&self, call: &'static str, len: usize, options: MTLResourceOptions) -> bool {
        let machine = self.machine();
        if len == 0 {
            machine.violate(call, "a buffer has at least one byte");
            return false;
        }
        let storage = MTLStorageMode((options.bits() >> MTLResourceStorageModeShift) & 0xf);
        if storage == MTLStorageMode::Memoryless {
            machine.violate(call, "a buffer cannot be memoryless");
            return false;
        }
        len <= machine.0.config.max_buffer_length
    }

    fn buffer(
        &self,
        call: &'static str,
        len: usize,
        options: MTLResourceOptions,
        bytes: Option<*mut c_void>,
    ) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>> {
        let machine = self.machine();
        let permitted = machine.permits(What::Buffer);
        if !self.buffer_fits(call, len, options) || !permitted {
            return None;
        }
        let misplaced = machine.0.faults.lock().misaligned;
        let memory = machine.0.heap.lock().allocate(len, misplaced, machine.0.config.memory)?;
        if let Some(bytes) = bytes {
            // SAFETY: the message hands as many bytes as it says, and the memory is new.
            unsafe { std::ptr::copy_nonoverlapping(bytes.cast::<u8>(), memory.address as *mut u8, len) };
        }
        Some(buffer::over(self, memory, options, None))
    }

    fn host_buffer(
        &self,
        address: usize,
        len: usize,
        options: MTLResourceOptions,
        deallocator: Option<Deallocator>,
    ) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>> {
        let call = "-[MTLDevice newBufferWithBytesNoCopy:length:options:deallocator:]";
        let machine = self.machine();
        let permitted = machine.permits(What::HostBuffer);
        if !address.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
            machine.violate(call, format!("{len} bytes at {address:#x} are not whole pages of {PAGE} bytes"));
            return None;
        }
        if !self.buffer_fits(call, len, options) || !permitted {
            return None;
        }
        let memory = machine.0.heap.lock().wrap(address, len, machine.0.config.memory)?;
        Some(buffer::over(self, memory, options, deallocator))
    }

    fn plan_of(&self, call: &'static str, function: &AnyObject, options: MTLPipelineOption) -> Option<Plan> {
        let function = concrete::<Function>(function).filter(|function| self.owns(function.device_object()));
        let Some(function) = function else {
            self.machine().violate(call, "the function is not of this device");
            return None;
        };
        let (function, device) = (function.facts().clone(), again(self));
        Some(Plan { function, device, label: None, max_threads: 0, indirect: false, whole_simdgroups: false, options })
    }

    fn described_plan(
        &self,
        call: &'static str,
        descriptor: &MTLComputePipelineDescriptor,
        options: MTLPipelineOption,
    ) -> Option<Plan> {
        let properties = descriptor.ivars();
        let function: Option<Retained<ProtocolObject<dyn MTLFunction>>> = properties.function.borrow().clone();
        let Some(function) = function else {
            self.machine().violate(call, "the descriptor has no function");
            return None;
        };
        let plan = self.plan_of(call, (*function).as_ref(), options)?;
        Some(Plan {
            label: properties.label.borrow().as_deref().map(ToString::to_string),
            max_threads: properties.max_threads.get(),
            indirect: properties.indirect.get(),
            whole_simdgroups: properties.whole_simdgroups.get(),
            ..plan
        })
    }

    fn residency_set(
        &self,
        descriptor: &MTLResidencySetDescriptor,
        error: *mut *mut NSError,
    ) -> Option<Retained<ProtocolObject<dyn MTLResidencySet>>> {
        let machine = self.machine();
        if machine.macos().0 < 15 {
            let why = "macOS has residency sets from version 15 on";
            machine.violate("-[MTLDevice newResidencySetWithDescriptor:error:]", why);
        }
        if !machine.permits(What::ResidencySet) {
            // SAFETY: the message's place for an error.
            unsafe { errors::put(error, errors::device(1, "the residency set is refused")) };
            return None;
        }
        let label = descriptor.ivars().label.borrow().as_deref().map(ToString::to_string);
        Some(residency::new(self, label))
    }

    /// Compiles, and puts what the arguments are, or the error, where the message wants them.
    fn pipeline(
        &self,
        plan: &Plan,
        reflection: *mut *mut MTLComputePipelineReflection,
        error: *mut *mut NSError,
    ) -> Option<Retained<ProtocolObject<dyn MTLComputePipelineState>>> {
        match pipeline::compile(plan) {
            Ok((pipeline, made)) => {
                if let Some(made) = made.filter(|_| !reflection.is_null()) {
                    // SAFETY: the message's place for the reflection, which is not null.
                    unsafe { *reflection = Retained::autorelease_ptr(made) };
                }
                Some(ProtocolObject::from_retained(pipeline))
            }
            Err(why) => {
                // SAFETY: the message's place for an error.
                unsafe { errors::put(error, why) };
                None
            }
        }
    }

    /// Whether something of that device is of this one's GPU.
    pub(crate) fn owns(&self, other: &Self) -> bool {
        self.machine().same(other.machine())
    }
}

/// Compiles on a thread of its own, and tells.
fn start(
    plan: Plan,
    tell: impl Fn(*mut ProtocolObject<dyn MTLComputePipelineState>, *mut MTLComputePipelineReflection, *mut NSError)
    + 'static,
) {
    let machine = plan.device.machine().clone();
    machine.0.gate.begin();
    let telling = Telling(plan, Box::new(tell));
    spawn("metal compiler", move || {
        guarded("a pipeline's completion handler", move || telling.run());
        machine.0.gate.end();
    });
}

/// What is told of a compile.
type Tell = dyn Fn(*mut ProtocolObject<dyn MTLComputePipelineState>, *mut MTLComputePipelineReflection, *mut NSError);

/// A compile and whom it tells.
struct Telling(Plan, Box<Tell>);

// SAFETY: Metal calls the handler on a thread of its own, and a program hands it a block that is fit for it. The rest of the
// plan may be shared.
unsafe impl Send for Telling {}

impl Telling {
    fn run(self) {
        let Self(plan, tell) = self;
        match pipeline::compile(&plan) {
            Ok((pipeline, reflection)) => {
                let made: Made = (pipeline, reflection);
                let pipeline = ProtocolObject::<dyn MTLComputePipelineState>::from_ref(&*made.0);
                let reflection =
                    made.1.as_deref().map_or(std::ptr::null_mut(), |told| std::ptr::from_ref(told).cast_mut());
                tell(std::ptr::from_ref(pipeline).cast_mut(), reflection, std::ptr::null_mut());
            }
            Err(why) => tell(std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::from_ref(&*why).cast_mut()),
        }
    }
}

/// The GPU of the machine that this thread entered, else of the process's.
pub(crate) fn default_device() -> Option<Retained<ProtocolObject<dyn MTLDevice>>> {
    let machine = Machine::current();
    machine.0.config.gpu.then(|| ProtocolObject::from_retained(create!(Device, machine, machine.clone())))
}
