//! What the tests' programs share: a machine, its device, a queue, the tests' library.

use std::{
    ffi::c_void,
    ptr::NonNull,
    sync::{Mutex, OnceLock},
};

use block2::RcBlock;
use dispatch2::DispatchData;
use objc2::{
    rc::{Retained, autoreleasepool},
    runtime::ProtocolObject,
};
use objc2_foundation::{NSRange, NSString};
use rig_metal_model::{
    machine::{Builder, Entered, Machine},
    protocol::*,
};

pub type Device = Retained<ProtocolObject<dyn MTLDevice>>;
pub type Queue = Retained<ProtocolObject<dyn MTLCommandQueue>>;
pub type CommandBuffer = Retained<ProtocolObject<dyn MTLCommandBuffer>>;
pub type Encoder = Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>;
pub type Buffer = Retained<ProtocolObject<dyn MTLBuffer>>;
pub type Pipeline = Retained<ProtocolObject<dyn MTLComputePipelineState>>;
pub type Set = Retained<ProtocolObject<dyn MTLResidencySet>>;

/// A program's objects.
pub struct Program {
    pub device: Device,
    pub queue: Queue,
    pub library: Retained<ProtocolObject<dyn MTLLibrary>>,
    pub machine: Machine,
    _here: Entered,
}

/// Runs a test's program on a machine like this, and then finds every object gone.
pub fn on(builder: Builder, test: impl FnOnce(&Program)) -> Machine {
    let machine = builder.fast_compiles().workers(1).build();
    autoreleasepool(|_| {
        let program = Program::new(&machine);
        test(&program);
        machine.release();
        machine.settle();
    });
    machine.settle();
    assert_eq!(machine.counts().live, Default::default(), "every object is gone");
    assert_eq!(machine.counts().allocated, 0, "all memory is given back");
    assert_eq!(machine.counts().resident, 0, "no residency set is left");
    machine
}

/// Runs a test's program on the usual machine.
pub fn run(test: impl FnOnce(&Program)) -> Machine {
    on(Machine::builder(), test)
}

impl Program {
    fn new(machine: &Machine) -> Self {
        let here = machine.enter();
        let device = MTLCreateSystemDefaultDevice().unwrap();
        let queue = device.newCommandQueueWithMaxCommandBufferCount(16).unwrap();
        static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
        let data = DispatchData::from_bytes(BYTES.get_or_init(crate::kernels::library));
        let library = device.newLibraryWithData_error(&data).unwrap();
        Self { device, queue, library, machine: machine.clone(), _here: here }
    }

    pub fn function(&self, name: &str) -> Retained<ProtocolObject<dyn MTLFunction>> {
        self.library.newFunctionWithName(&NSString::from_str(name)).unwrap()
    }

    pub fn pipeline(&self, name: &str) -> Pipeline {
        self.device.newComputePipelineStateWithFunction_error(&self.function(name)).unwrap()
    }

    /// A pipeline that indirect command buffers may run.
    pub fn indirect_pipeline(&self, name: &str) -> Pipeline {
        let descriptor = MTLComputePipelineDescriptor::new();
        descriptor.setComputeFunction(Some(&self.function(name)));
        descriptor.setSupportIndirectCommandBuffers(true);
        let none = MTLPipelineOption::None;
        self.device.newComputePipelineStateWithDescriptor_options_reflection_error(&descriptor, none, None).unwrap()
    }

    pub fn buffer(&self, len: usize) -> Buffer {
        self.device.newBufferWithLength_options(len, MTLResourceOptions::StorageModeShared).unwrap()
    }

    pub fn set(&self) -> Set {
        self.device.newResidencySetWithDescriptor_error(&MTLResidencySetDescriptor::new()).unwrap()
    }

    /// A set of these buffers, committed and added to the queue.
    pub fn resident(&self, buffers: &[&Buffer]) -> Set {
        let set = self.set();
        for buffer in buffers {
            set.addAllocation(ProtocolObject::from_ref(&***buffer));
        }
        set.commit();
        self.queue.addResidencySet(&set);
        set
    }

    pub fn unretained(&self) -> CommandBuffer {
        self.queue.commandBufferWithUnretainedReferences().unwrap()
    }

    /// A buffer of `step`'s arguments.
    pub fn step_arguments(&self, at: u64, value: u32) -> Buffer {
        let arguments = self.buffer(16);
        put(&arguments, 0, at);
        put(&arguments, 8, value);
        arguments
    }

    /// Commits one dispatch of `set`: the first `threads` words of the buffer become `value`.
    pub fn commit_set(&self, pipeline: &Pipeline, buffer: &Buffer, value: u32, threads: usize) -> CommandBuffer {
        let commands = self.queue.commandBuffer().unwrap();
        let encoder = commands.computeCommandEncoder().unwrap();
        encode_set(&encoder, pipeline, buffer, value);
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(threads));
        encoder.endEncoding();
        commands.commit();
        commands
    }
}

pub fn encode_set(encoder: &Encoder, pipeline: &Pipeline, buffer: &Buffer, value: u32) {
    encoder.setComputePipelineState(pipeline);
    // SAFETY: offset 0 is in the buffer.
    unsafe { encoder.setBuffer_offset_atIndex(Some(buffer), 0, 0) };
    // SAFETY: there are four bytes.
    unsafe { encoder.setBytes_length_atIndex(NonNull::from(&value).cast(), 4, 1) };
}

/// Records `step` with these arguments, and a dispatch of one thread.
pub fn encode_step(encoder: &Encoder, pipeline: &Pipeline, arguments: &Buffer) {
    encoder.setComputePipelineState(pipeline);
    // SAFETY: offset 0 is in the buffer.
    unsafe { encoder.setBuffer_offset_atIndex(Some(arguments), 0, 0) };
    encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
}

pub fn size(width: usize) -> MTLSize {
    MTLSize { width, height: 1, depth: 1 }
}

pub fn range(location: usize, length: usize) -> NSRange {
    NSRange { location, length }
}

/// A value's place in a buffer.
fn place<T>(buffer: &Buffer, at: usize) -> *mut T {
    assert!(at + size_of::<T>() <= buffer.length());
    buffer.contents().as_ptr().wrapping_byte_add(at).cast()
}

pub fn put<T>(buffer: &Buffer, at: usize, value: T) {
    // SAFETY: the value lies within the buffer, whose work has ended.
    unsafe { place::<T>(buffer, at).write_unaligned(value) };
}

pub fn get<T>(buffer: &Buffer, at: usize) -> T {
    // SAFETY: the value lies within the buffer, whose work has ended.
    unsafe { place::<T>(buffer, at).read_unaligned() }
}

/// Where handlers write down what they were told.
pub type Told = &'static Mutex<Vec<(usize, MTLCommandBufferStatus)>>;

pub fn told() -> Told {
    Box::leak(Box::default())
}

/// Adds a handler that writes down its number and what the status was.
pub fn tell(commands: &CommandBuffer, number: usize, told: Told) {
    let block = RcBlock::new(move |commands: NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
        // SAFETY: Metal hands a living command buffer.
        let status = unsafe { commands.as_ref() }.status();
        told.lock().unwrap().push((number, status));
    });
    // SAFETY: the block is fit for any thread.
    unsafe { commands.addCompletedHandler(RcBlock::as_ptr(&block)) };
}

/// Runs a program that Metal's validation stops at, and what it says.
pub fn violation(test: impl FnOnce(&Program)) -> String {
    let machine = on(Machine::builder().record(), test);
    let violations = machine.violations();
    assert_eq!(violations.len(), 1, "one violation is found: {violations:?}");
    violations[0].to_string()
}

/// Pages of the program's own.
pub struct Pages(pub NonNull<c_void>, usize);

impl Pages {
    pub fn new(bytes: usize) -> Self {
        let layout = std::alloc::Layout::from_size_align(bytes, 4096).unwrap();
        // SAFETY: the layout is not empty.
        let pages = unsafe { std::alloc::alloc_zeroed(layout) };
        Self(NonNull::new(pages.cast()).unwrap(), bytes)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let layout = std::alloc::Layout::from_size_align(self.1, 4096).unwrap();
        // SAFETY: `new` allocated them with this layout.
        unsafe { std::alloc::dealloc(self.0.as_ptr().cast(), layout) };
    }
}
