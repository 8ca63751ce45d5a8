//! What Metal's validation layer stops at, and what the model finds beyond it.

use std::ptr::NonNull;

use objc2::{
    rc::autoreleasepool,
    runtime::{NSObjectProtocol, ProtocolObject},
};
use rig_metal_model::{machine::Machine, protocol::*};

use crate::fixture::*;

/// Runs a wrong use of an open encoder of a command buffer that is then dropped.
fn encoding(test: impl FnOnce(&Program, &Encoder)) -> String {
    violation(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        let encoder = commands.computeCommandEncoder().unwrap();
        test(program, &encoder);
        encoder.endEncoding();
    })
}

#[test]
fn a_violation_panics_unless_it_is_recorded() {
    let machine = Machine::builder().build();
    let _here = machine.enter();
    let device = MTLCreateSystemDefaultDevice().unwrap();
    let zero = || drop(device.newBufferWithLength_options(0, MTLResourceOptions::StorageModeShared));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(zero)).unwrap_err();
    let said = panic.downcast_ref::<String>().unwrap();
    assert!(said.contains("newBufferWithLength") && said.contains("at least one byte"), "{said}");
    assert_eq!(machine.violations().len(), 1);
}

#[test]
fn a_second_commit_is_found() {
    let said = violation(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        commands.commit();
        commands.commit();
    });
    assert!(said.contains("commit") && said.contains("already"), "{said}");
}

#[test]
fn a_commit_with_an_open_encoder_is_found() {
    let said = violation(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        let encoder = commands.computeCommandEncoder().unwrap();
        commands.commit();
        encoder.endEncoding();
    });
    assert!(said.contains("an encoder of the command buffer is open"), "{said}");
}

#[test]
fn a_second_encoder_while_one_is_open_is_found() {
    let said = violation(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        let encoder = commands.computeCommandEncoder().unwrap();
        assert!(commands.blitCommandEncoder().is_none());
        encoder.endEncoding();
    });
    assert!(said.contains("another encoder"), "{said}");
}

#[test]
fn an_encoder_released_while_open_is_found() {
    let said = violation(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        autoreleasepool(|_| drop(commands.computeCommandEncoder()));
    });
    assert!(said.contains("without endEncoding"), "{said}");
}

#[test]
fn a_message_to_an_encoder_that_has_ended_is_found() {
    let said = violation(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        let encoder = commands.computeCommandEncoder().unwrap();
        encoder.endEncoding();
        encoder.setComputePipelineState(&program.pipeline("set"));
    });
    assert!(said.contains("has ended"), "{said}");
}

#[test]
fn an_encoder_or_a_handler_after_commit_is_found() {
    let said = violation(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        commands.commit();
        assert!(commands.computeCommandEncoder().is_none());
    });
    assert!(said.contains("committed already"), "{said}");
    let said = violation(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        commands.commit();
        tell(&commands, 0, told());
    });
    assert!(said.contains("addCompletedHandler") && said.contains("committed already"), "{said}");
}

#[test]
fn a_wait_that_would_never_return_is_found() {
    let said = violation(|program| program.queue.commandBuffer().unwrap().waitUntilCompleted());
    assert!(said.contains("never return"), "{said}");
}

#[test]
fn a_handler_that_waits_for_its_own_command_buffer_is_found() {
    let said = violation(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        let handler = block2::RcBlock::new(|commands: NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
            // SAFETY: Metal hands a living command buffer.
            unsafe { commands.as_ref() }.waitUntilCompleted();
        });
        // SAFETY: the block is fit for any thread.
        unsafe { commands.addCompletedHandler(block2::RcBlock::as_ptr(&handler)) };
        commands.commit();
        commands.waitUntilCompleted();
    });
    assert!(said.contains("waits for its handlers"), "{said}");
}

#[test]
fn a_buffer_index_past_30_is_found() {
    let said = encoding(|program, encoder| {
        // SAFETY: the index is what is tested.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&program.buffer(4)), 0, 31) }
    });
    assert!(said.contains("buffer index 31 is past 30"), "{said}");
}

#[test]
fn an_offset_past_the_buffer_is_found() {
    let said = encoding(|program, encoder| {
        // SAFETY: the offset is what is tested.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&program.buffer(4)), 4, 0) }
    });
    assert!(said.contains("offset 4 is past the buffer's 4 bytes"), "{said}");
    let said = encoding(|program, encoder| {
        // SAFETY: offset 0 is in the buffer.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&program.buffer(8)), 0, 0) };
        // SAFETY: the offset is what is tested.
        unsafe { encoder.setBufferOffset_atIndex(8, 0) };
    });
    assert!(said.contains("offset 8"), "{said}");
}

#[test]
fn more_than_4096_bytes_of_set_bytes_are_found() {
    let bytes = [0_u8; 4097];
    let said = encoding(|_, encoder| {
        // SAFETY: there are so many bytes.
        unsafe { encoder.setBytes_length_atIndex(NonNull::from(&bytes).cast(), 4097, 0) }
    });
    assert!(said.contains("4097 bytes are more than 4096"), "{said}");
}

#[test]
fn threadgroup_memory_off_16_or_over_the_limit_is_found() {
    // SAFETY: the length is what is tested.
    let said = encoding(|_, encoder| unsafe { encoder.setThreadgroupMemoryLength_atIndex(20, 0) });
    assert!(said.contains("no multiple of 16"), "{said}");
    // SAFETY: the length is what is tested.
    let said = encoding(|_, encoder| unsafe { encoder.setThreadgroupMemoryLength_atIndex(32784, 0) });
    assert!(said.contains("more than the GPU's 32768"), "{said}");
}

#[test]
fn a_dispatch_without_a_pipeline_a_buffer_or_threadgroup_memory_is_found() {
    let dispatch = |encoder: &Encoder| encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
    let said = encoding(|_, encoder| dispatch(encoder));
    assert!(said.contains("no pipeline is set"), "{said}");
    let said = encoding(|program, encoder| {
        encoder.setComputePipelineState(&program.pipeline("set"));
        dispatch(encoder);
    });
    assert!(said.contains("no buffer is bound at index 0 for p"), "{said}");
    let said = encoding(|program, encoder| {
        encoder.setComputePipelineState(&program.pipeline("group"));
        // SAFETY: offset 0 is in the buffer.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&program.buffer(4)), 0, 0) };
        dispatch(encoder);
    });
    assert!(said.contains("no threadgroup memory is set at index 0"), "{said}");
}

#[test]
fn a_binding_shorter_than_its_struct_or_off_its_alignment_is_found() {
    let add = |offset: usize, len: usize| {
        encoding(|program, encoder| {
            encoder.setComputePipelineState(&program.pipeline("add"));
            // SAFETY: the offset is in the buffer.
            unsafe { encoder.setBuffer_offset_atIndex(Some(&program.buffer(len)), offset, 0) };
            encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
        })
    };
    let said = add(0, 12);
    assert!(said.contains("12 bytes are bound at index 0, and a has 16"), "{said}");
    let said = add(4, 64);
    assert!(said.contains("no multiple of 8"), "{said}");
}

#[test]
fn the_offset_of_constants_is_a_multiple_of_256_on_a_mac_family() {
    let machine = on(Machine::builder().families(&[MTLGPUFamily::Mac2]).record(), |program| {
        let commands = program.queue.commandBuffer().unwrap();
        let encoder = commands.computeCommandEncoder().unwrap();
        encoder.setComputePipelineState(&program.pipeline("add"));
        // SAFETY: the offset is in the buffer.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&program.buffer(512)), 64, 0) };
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
        encoder.endEncoding();
    });
    assert!(machine.violations()[0].why.contains("no multiple of 256"));
}

#[test]
fn a_zero_size_or_a_threadgroup_over_a_limit_is_found() {
    let dispatch = |groups: MTLSize, threads: MTLSize| {
        encoding(|program, encoder| {
            encode_set(encoder, &program.pipeline("set"), &program.buffer(4096), 1);
            encoder.dispatchThreadgroups_threadsPerThreadgroup(groups, threads);
        })
    };
    let said = dispatch(MTLSize { width: 1, height: 0, depth: 1 }, size(1));
    assert!(said.contains("an axis of the grid has size 0"), "{said}");
    let said = dispatch(size(1), size(0));
    assert!(said.contains("an axis of the threadgroup has size 0"), "{said}");
    let said = dispatch(size(1), size(1025));
    assert!(said.contains("axis 0 of the threadgroup has 1025 threads"), "{said}");
    let said = dispatch(size(1), MTLSize { width: 64, height: 17, depth: 1 });
    assert!(said.contains("1088 threads of a threadgroup are more than set's 1024"), "{said}");
}

#[test]
fn the_limit_that_a_pipelines_descriptor_sets_is_one() {
    let said = encoding(|program, encoder| {
        let descriptor = MTLComputePipelineDescriptor::new();
        descriptor.setComputeFunction(Some(&program.function("set")));
        descriptor.setMaxTotalThreadsPerThreadgroup(64);
        let none = MTLPipelineOption::None;
        let pipeline = program
            .device
            .newComputePipelineStateWithDescriptor_options_reflection_error(&descriptor, none, None)
            .unwrap();
        assert_eq!(pipeline.maxTotalThreadsPerThreadgroup(), 64);
        encode_set(encoder, &pipeline, &program.buffer(4096), 1);
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(65));
    });
    assert!(said.contains("65 threads of a threadgroup are more than set's 64"), "{said}");
}

#[test]
fn what_is_of_another_device_is_found() {
    let said = encoding(|program, encoder| {
        let other = Machine::builder().build();
        let _there = other.enter();
        let buffer =
            MTLCreateSystemDefaultDevice().unwrap().newBufferWithLength_options(4, MTLResourceOptions::empty());
        assert_eq!(program.machine.violations(), []);
        // SAFETY: offset 0 is in the buffer.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&buffer.unwrap()), 0, 0) };
    });
    assert!(said.contains("not of this device"), "{said}");
    let said = encoding(|_, encoder| {
        on(Machine::builder(), |other| encoder.setComputePipelineState(&other.pipeline("set")));
    });
    assert!(said.contains("the pipeline is not of this device"), "{said}");
}

#[test]
fn a_recorded_command_whose_pipeline_is_not_made_for_it_is_found() {
    let said = violation(|program| {
        let descriptor = MTLIndirectCommandBufferDescriptor::new();
        descriptor.setCommandTypes(MTLIndirectCommandType::ConcurrentDispatch);
        descriptor.setInheritPipelineState(false);
        let options = MTLResourceOptions::empty();
        // SAFETY: one command is within Metal's bounds.
        let recorded = unsafe {
            program.device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options(&descriptor, 1, options)
        };
        // SAFETY: the command is there.
        let command = unsafe { recorded.unwrap().indirectComputeCommandAtIndex(0) };
        command.setComputePipelineState(&program.pipeline("set"));
    });
    assert!(said.contains("does not support indirect command buffers"), "{said}");
}

#[test]
fn host_memory_that_is_no_whole_pages_is_found() {
    let pages = Pages::new(8192);
    for (offset, len) in [(16, 4096), (0, 100)] {
        let said = violation(|program| {
            // SAFETY: the bytes are the test's.
            let at = unsafe { pages.0.byte_add(offset) };
            let options = MTLResourceOptions::StorageModeShared;
            // SAFETY: as above.
            let buffer =
                unsafe { program.device.newBufferWithBytesNoCopy_length_options_deallocator(at, len, options, None) };
            assert!(buffer.is_none());
        });
        assert!(said.contains("not whole pages"), "{said}");
    }
}

#[test]
fn an_unretained_buffer_that_goes_too_early_is_found() {
    let said = violation(|program| {
        let set = program.pipeline("set");
        program.machine.hold();
        let commands = program.unretained();
        let encoder = commands.computeCommandEncoder().unwrap();
        autoreleasepool(|_| encode_set(&encoder, &set, &program.buffer(64), 1));
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
        encoder.endEncoding();
        commands.commit();
        program.machine.release();
        commands.waitUntilCompleted();
        assert_eq!(commands.error().unwrap().code(), MTLCommandBufferError::InvalidResource.0 as isize);
    });
    assert!(said.contains("the buffer of 64 bytes") && said.contains("released before"), "{said}");
}

#[test]
fn an_unretained_pipeline_that_goes_too_early_is_found() {
    let said = violation(|program| {
        let buffer = program.buffer(64);
        program.machine.hold();
        let commands = program.unretained();
        let encoder = commands.computeCommandEncoder().unwrap();
        autoreleasepool(|_| encode_set(&encoder, &program.pipeline("set"), &buffer, 1));
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
        encoder.endEncoding();
        commands.commit();
        program.machine.release();
        commands.waitUntilCompleted();
    });
    assert!(said.contains("the pipeline of set") && said.contains("released before"), "{said}");
}

#[test]
fn more_than_32_residency_sets_are_found() {
    let said = violation(|program| {
        let sets: Vec<_> = (0..33).map(|_| program.set()).collect();
        sets.iter().for_each(|set| program.queue.addResidencySet(set));
    });
    assert!(said.contains("32 residency sets at most"), "{said}");
    let said = violation(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        (0..33).for_each(|_| commands.useResidencySet(&program.set()));
    });
    assert!(said.contains("32 residency sets at most"), "{said}");
}

#[test]
fn residency_sets_need_macos_15() {
    let machine = on(Machine::builder().macos(14, 6, 0).record(), |program| drop(program.set()));
    assert!(machine.violations()[0].why.contains("from version 15 on"));
}

#[test]
fn a_fence_of_another_queue_is_found() {
    let said = violation(|program| {
        let fence = program.device.newFence().unwrap();
        let other = program.device.newCommandQueue().unwrap();
        program.machine.hold();
        for (queue, update) in [(&program.queue, true), (&other, false)] {
            let commands = queue.commandBuffer().unwrap();
            let encoder = commands.computeCommandEncoder().unwrap();
            if update {
                encoder.updateFence(&fence);
            } else {
                encoder.waitForFence(&fence);
            }
            encoder.endEncoding();
            commands.commit();
        }
        program.machine.release();
    });
    assert!(said.contains("a fence orders the work of one queue"), "{said}");
}

#[test]
fn objects_say_of_what_class_they_are() {
    run(|program| {
        assert!(program.queue.isKindOfClass(objc2::class!(NSObject)));
        assert!(
            ProtocolObject::<dyn MTLCommandQueue>::from_ref(&*program.queue)
                .respondsToSelector(objc2::sel!(commandBuffer))
        );
    });
}
