//! A whole program of Metal: it adds two arrays on the GPU, through pointers in a struct.
//!
//! Everything below `use` is what the program would be on a Mac, where its first line reads `use objc2_metal as metal`, and
//! its library comes from Apple's compiler. `cargo run -p rig-metal-model --example compute` runs it on Linux.

#![expect(unsafe_code, reason = "Metal's interface marks messages unsafe that Metal cannot check")]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    objc2::rc::autoreleasepool(|_| program::run());
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod program {
    use std::{ptr, slice};

    use dispatch2::DispatchData;
    use objc2::{rc::Retained, runtime::ProtocolObject};
    use objc2_foundation::NSString;
    use rig_metal_model::protocol as metal;

    use metal::{
        MTLBuffer, MTLCommandBuffer, MTLCommandEncoder, MTLCommandQueue, MTLComputeCommandEncoder, MTLDevice,
        MTLLibrary, MTLResidencySet, MTLResource, MTLResourceOptions, MTLSize,
    };

    const N: usize = 1024;

    type Buffer = Retained<ProtocolObject<dyn MTLBuffer>>;

    /// The floats of a shared buffer.
    fn floats(buffer: &mut Buffer) -> &mut [f32] {
        // SAFETY: the buffer holds N floats, nothing else borrows them, and the program lets the GPU use them before or after.
        unsafe { slice::from_raw_parts_mut(buffer.contents().cast().as_ptr(), N) }
    }

    pub(super) fn run() {
        let device = metal::MTLCreateSystemDefaultDevice().expect("a GPU that supports Metal");
        let queue = device.newCommandQueue().expect("a queue");
        let library = device.newLibraryWithData_error(&DispatchData::from_bytes(&metallib())).expect("a library");
        let function = library.newFunctionWithName(&NSString::from_str("add")).expect("the function add");
        let pipeline = device.newComputePipelineStateWithFunction_error(&function).expect("a pipeline");

        let buffer =
            |bytes| device.newBufferWithLength_options(bytes, MTLResourceOptions::StorageModeShared).expect("memory");
        let (mut x, mut y, arguments) = (buffer(4 * N), buffer(4 * N), buffer(16));
        for (at, float) in floats(&mut x).iter_mut().enumerate() {
            *float = at as f32;
        }
        let pointers = [x.gpuAddress(), y.gpuAddress()];
        // SAFETY: the buffer holds two addresses, and the GPU does not use it yet.
        unsafe { ptr::copy_nonoverlapping(pointers.as_ptr(), arguments.contents().cast().as_ptr(), 2) };

        // The kernel reaches x and y through pointers, so a residency set must hold them.
        let set = device.newResidencySetWithDescriptor_error(&metal::MTLResidencySetDescriptor::new()).expect("a set");
        set.addAllocation(ProtocolObject::from_ref(&*x));
        set.addAllocation(ProtocolObject::from_ref(&*y));
        set.commit();
        queue.addResidencySet(&set);

        let commands = queue.commandBuffer().expect("a command buffer");
        let encoder = commands.computeCommandEncoder().expect("an encoder");
        encoder.setComputePipelineState(&pipeline);
        // SAFETY: the kernel reads two addresses at the buffer's start.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&arguments), 0, 0) };
        let size = |width| MTLSize { width, height: 1, depth: 1 };
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(N / 256), size(256));
        encoder.endEncoding();
        commands.commit();
        commands.waitUntilCompleted();
        if let Some(error) = commands.error() {
            panic!("{}", error.localizedDescription());
        }
        println!("on {}: y[10] = {}", x.device().name(), floats(&mut y)[10]);
    }

    /// On a Mac: `std::fs::read("add.metallib")`. Here a library is made from the text that Apple's compiler lowers to.
    fn metallib() -> Vec<u8> {
        rig_metal_model::container::pack(&[("add", include_str!("../fixtures/add.ll"))])
            .expect("the fixture is well formed")
    }
}
