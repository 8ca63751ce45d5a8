//! That nothing is left of the whole process's objects: those that no machine counts, blocks and data too.

use std::{collections::BTreeSet, process::Command, sync::mpsc};

use block2::RcBlock;
use objc2::{
    rc::{Retained, autoreleasepool},
    runtime::ProtocolObject,
};
use objc2_foundation::{NSError, NSString};
use rig_metal_model::{
    live::{self, Snapshot},
    machine::Machine,
    protocol::*,
};

use crate::fixture::*;

/// Says that this process is the one where a test runs alone.
const ALONE: &str = "RIG_MODEL_ALONE";

/// Whether this process is for this test alone. Where it is not, one is started that is, and must succeed.
fn alone(name: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    false
}

/// Uses every class of the model, and what of Foundation it answers with. Answers which classes lived meanwhile.
fn everything() -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let machine = on(Machine::builder(), |program| {
        let (sum, buffer) = (program.buffer(4), program.buffer(256));
        let arguments = program.step_arguments(sum.gpuAddress(), 1);
        let _set = program.resident(&[&sum, &arguments]);
        let (step, recordable) = (program.pipeline("step"), program.indirect_pipeline("step"));
        let fence = program.device.newFence().unwrap();
        compile_later(program);
        let recorded = record(program, &recordable, &arguments);
        let commands = program.queue.commandBuffer().unwrap();
        tell(&commands, 0, told());
        let encoder = commands.computeCommandEncoder().unwrap();
        encoder.waitForFence(&fence);
        encode_step(&encoder, &step, &arguments);
        // SAFETY: the command is there.
        unsafe { encoder.executeCommandsInBuffer_withRange(&recorded, range(0, 1)) };
        encoder.updateFence(&fence);
        encoder.endEncoding();
        let blit = commands.blitCommandEncoder().unwrap();
        blit.fillBuffer_range_value(&buffer, range(0, 256), 1);
        blit.endEncoding();
        commands.commit();
        commands.waitUntilCompleted();
        assert!(commands.error().is_none(), "{:?}", commands.error());
        refusals(program);
        seen.extend(live::objects().into_keys());
    });
    drop(machine);
    seen
}

/// A pipeline that comes by a block.
fn compile_later(program: &Program) {
    let (send, receive) = mpsc::channel();
    let block = RcBlock::new(move |pipeline: *mut ProtocolObject<dyn MTLComputePipelineState>, error: *mut NSError| {
        send.send((pipeline.is_null(), error.is_null())).unwrap();
    });
    let function = program.function("set");
    // SAFETY: the block is fit for any thread.
    unsafe {
        program.device.newComputePipelineStateWithFunction_completionHandler(&function, RcBlock::as_ptr(&block));
    }
    assert_eq!(receive.recv().unwrap(), (false, true));
}

/// One recorded command.
fn record(
    program: &Program,
    step: &Pipeline,
    arguments: &Buffer,
) -> Retained<ProtocolObject<dyn MTLIndirectCommandBuffer>> {
    let descriptor = MTLIndirectCommandBufferDescriptor::new();
    descriptor.setCommandTypes(MTLIndirectCommandType::ConcurrentDispatch);
    descriptor.setInheritBuffers(false);
    descriptor.setInheritPipelineState(false);
    descriptor.setMaxKernelBufferBindCount(1);
    let options = MTLResourceOptions::empty();
    // SAFETY: one command is within Metal's bounds.
    let recorded = unsafe {
        program.device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options(&descriptor, 1, options)
    };
    let recorded = recorded.unwrap();
    // SAFETY: the command is there.
    let command = unsafe { recorded.indirectComputeCommandAtIndex(0) };
    command.setComputePipelineState(step);
    // SAFETY: offset 0 is in the buffer, and index 0 below the count.
    unsafe { command.setKernelBuffer_offset_atIndex(arguments, 0, 0) };
    command.concurrentDispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
    recorded
}

/// What Metal says no to: errors and nils.
fn refusals(program: &Program) {
    let data = dispatch2::DispatchData::from_bytes(b"no library at all, but long enough to be read as a header of one");
    let why = program.device.newLibraryWithData_error(&data).unwrap_err();
    assert!(!why.localizedDescription().to_string().is_empty() && why.userInfo().count() == 0);
    assert!(program.library.newFunctionWithName(&NSString::from_str("none")).is_none());
    assert!(program.library.functionNames().iter().count() > 0);
}

#[test]
fn nothing_is_left_of_a_program_that_uses_every_class() {
    if !alone("left::nothing_is_left_of_a_program_that_uses_every_class") {
        return;
    }
    // What is made once and kept, if anything is, is made here.
    everything();
    let before = Snapshot::take();
    let seen = everything();
    assert_eq!(before.since(), Default::default(), "nothing has come to stay");
    assert_eq!(live::objects(), Default::default(), "not even what was made once");
    assert_eq!((live::blocks(), live::data(), live::unpooled()), (0, 0, 0));
    let used = ["BlitEncoder", "Buffer", "CommandBuffer", "CommandQueue", "ComputeEncoder", "Device", "Fence"];
    let recorded = ["IndirectCommandBuffer", "IndirectComputeCommand", "Library", "Pipeline", "ResidencySet"];
    for class in used.iter().chain(&recorded) {
        assert!(seen.contains(&format!("RigModel{class}")), "{class} of {seen:?}");
    }
}

#[test]
fn a_thousand_command_buffers_leave_as_much_as_one() {
    if !alone("left::a_thousand_command_buffers_leave_as_much_as_one") {
        return;
    }
    run(|program| {
        let (set, buffer) = (program.pipeline("set"), program.buffer(4));
        let once = || {
            autoreleasepool(|_| {
                program.commit_set(&set, &buffer, 1, 1).waitUntilCompleted();
            });
            program.machine.settle();
        };
        once();
        let before = Snapshot::take();
        (0..1000).for_each(|_| once());
        assert_eq!(before.since(), Default::default());
    });
}
