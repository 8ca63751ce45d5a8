//! What a program's messages cost on software Metal with execution turned off: a launch recorded into an open command
//! buffer, and a whole command buffer. What a driver adds of its own is measured above these.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(unsafe_code, reason = "Metal's interface marks messages unsafe that Metal cannot check")]

use dispatch2::DispatchData;
use divan::Bencher;
use objc2::{
    rc::{Retained, autoreleasepool},
    runtime::ProtocolObject,
};
use objc2_foundation::NSString;
use rig_metal_model::{container::pack, machine::Machine, protocol::*};

fn main() {
    divan::main();
}

/// Launches of one command buffer, so that what it records does not grow for ever.
const LAUNCHES: usize = 256;

struct Program {
    machine: Machine,
    queue: Retained<ProtocolObject<dyn MTLCommandQueue>>,
    pipeline: Retained<ProtocolObject<dyn MTLComputePipelineState>>,
    arguments: Retained<ProtocolObject<dyn MTLBuffer>>,
}

fn program() -> Program {
    let machine = Machine::builder().build();
    machine.execution(false);
    let _here = machine.enter();
    let device = MTLCreateSystemDefaultDevice().expect("the machine has a GPU");
    let library = pack(&[("add", include_str!("../fixtures/add.ll"))]).expect("the fixture is well formed");
    let library = device.newLibraryWithData_error(&DispatchData::from_bytes(&library)).expect("a library");
    let function = library.newFunctionWithName(&NSString::from_str("add")).expect("the function");
    let pipeline = device.newComputePipelineStateWithFunction_error(&function).expect("a pipeline");
    let queue = device.newCommandQueue().expect("a queue");
    let arguments = device.newBufferWithLength_options(1 << 20, MTLResourceOptions::StorageModeShared).expect("memory");
    Program { machine, queue, pipeline, arguments }
}

fn launch(program: &Program, encoder: &ProtocolObject<dyn MTLComputeCommandEncoder>, at: usize) {
    encoder.setComputePipelineState(&program.pipeline);
    // SAFETY: the offset lies in the buffer.
    unsafe { encoder.setBuffer_offset_atIndex(Some(&program.arguments), 256 * at, 0) };
    let size = |width| MTLSize { width, height: 1, depth: 1 };
    encoder.dispatchThreadgroups_threadsPerThreadgroup(size(4), size(256));
}

/// A command buffer of so many launches, in which references are not kept.
fn command_buffer(program: &Program, launches: usize) {
    autoreleasepool(|_| {
        let commands = program.queue.commandBufferWithUnretainedReferences().expect("a command buffer");
        let encoder = commands.computeCommandEncoder().expect("an encoder");
        for at in 0..launches {
            launch(program, &encoder, at);
        }
        encoder.endEncoding();
        commands.commit();
        commands.waitUntilCompleted();
    });
}

/// The three messages of a launch: pipeline, parameters, dispatch.
#[divan::bench]
fn launches_of_one_command_buffer(bencher: Bencher) {
    let program = program();
    bencher.counter(divan::counter::ItemsCount::new(LAUNCHES)).bench_local(|| command_buffer(&program, LAUNCHES));
    program.machine.settle();
}

/// A command buffer with an encoder and one launch, committed and waited for.
#[divan::bench]
fn whole_command_buffer(bencher: Bencher) {
    let program = program();
    bencher.bench_local(|| command_buffer(&program, 1));
    program.machine.settle();
}
