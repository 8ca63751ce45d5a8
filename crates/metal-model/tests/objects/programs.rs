//! What programs do, and that it works.

use std::{
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use block2::RcBlock;
use objc2::{
    rc::{Retained, autoreleasepool},
    runtime::ProtocolObject,
};
use objc2_foundation::{NSError, NSString};
use rig_metal_model::{machine::Machine, protocol::*};

use crate::fixture::*;

#[test]
fn the_documents_program_adds() {
    run(|program| {
        let add = program.pipeline("add");
        let (x, y, arguments) = (program.buffer(4096), program.buffer(4096), program.buffer(16));
        for at in 0..1024 {
            put(&x, 4 * at, at as f32);
        }
        put(&arguments, 0, x.gpuAddress());
        put(&arguments, 8, y.gpuAddress());
        let _set = program.resident(&[&x, &y]);
        let commands = program.unretained();
        let encoder = commands.computeCommandEncoderWithDispatchType(MTLDispatchType::Serial).unwrap();
        encoder.setComputePipelineState(&add);
        // SAFETY: offset 0 is in the buffer.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&arguments), 0, 0) };
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(4), size(256));
        encoder.endEncoding();
        commands.commit();
        commands.waitUntilCompleted();
        assert_eq!(commands.status(), MTLCommandBufferStatus::Completed);
        assert!(commands.error().is_none());
        assert_eq!(get::<f32>(&y, 40), 11.0);
        assert!((0..1024).all(|at| get::<f32>(&y, 4 * at) == at as f32 + 1.0));
    });
}

#[test]
fn command_buffers_of_a_queue_complete_in_order_and_times_rise() {
    run(|program| {
        let (set, buffer) = (program.pipeline("set"), program.buffer(64));
        let told = told();
        let mut all = Vec::new();
        for number in 0..10 {
            let commands = program.queue.commandBuffer().unwrap();
            tell(&commands, number, told);
            let encoder = commands.computeCommandEncoder().unwrap();
            encode_set(&encoder, &set, &buffer, number as u32);
            encoder.dispatchThreads_threadsPerThreadgroup(size(10), size(4));
            encoder.endEncoding();
            commands.commit();
            all.push(commands);
        }
        all[9].waitUntilCompleted();
        assert!((0..10).all(|at| get::<u32>(&buffer, 4 * at) == 9));
        assert_eq!(get::<u32>(&buffer, 40), 0, "a grid of ten threads has ten");
        let expected: Vec<_> = (0..10).map(|number| (number, MTLCommandBufferStatus::Completed)).collect();
        assert_eq!(*told.lock().unwrap(), expected);
        for pair in all.windows(2) {
            assert!(pair[0].GPUStartTime() > 0.0 && pair[0].GPUStartTime() < pair[0].GPUEndTime());
            assert!(pair[0].GPUEndTime() <= pair[1].GPUEndTime());
            assert!(pair[0].kernelStartTime() <= pair[0].kernelEndTime());
        }
    });
}

#[test]
fn enqueued_command_buffers_run_in_the_order_of_their_places() {
    run(|program| {
        let (set, buffer) = (program.pipeline("set"), program.buffer(4));
        let record = |value| {
            let commands = program.queue.commandBuffer().unwrap();
            let encoder = commands.computeCommandEncoder().unwrap();
            encode_set(&encoder, &set, &buffer, value);
            encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
            encoder.endEncoding();
            commands
        };
        let (first, second) = (record(1), record(2));
        first.enqueue();
        second.enqueue();
        second.commit();
        assert_eq!(second.status(), MTLCommandBufferStatus::Committed, "it waits for the first");
        first.commit();
        second.waitUntilCompleted();
        assert_eq!(get::<u32>(&buffer, 0), 2);
    });
}

#[test]
fn an_enqueued_command_buffer_that_is_never_committed_holds_nothing_up() {
    run(|program| {
        autoreleasepool(|_| program.queue.commandBuffer().unwrap().enqueue());
        let later = program.queue.commandBuffer().unwrap();
        later.commit();
        later.waitUntilCompleted();
    });
}

#[test]
fn a_queue_blocks_who_wants_more_command_buffers_than_it_holds() {
    let machine = Machine::builder().build();
    let _here = machine.enter();
    let device = MTLCreateSystemDefaultDevice().unwrap();
    let queue = device.newCommandQueueWithMaxCommandBufferCount(2).unwrap();
    machine.hold();
    let commit = || autoreleasepool(|_| queue.commandBuffer().unwrap().commit());
    commit();
    commit();
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send.send(0).unwrap();
            autoreleasepool(|_| {
                let third = queue.commandBuffer().unwrap();
                send.send(machine.counts().completed).unwrap();
                third.commit();
            });
        });
        assert_eq!(receive.recv().unwrap(), 0);
        // The thread has begun. That it waits can only be seen by its not coming back, so it is given every chance to.
        (0..20_000).for_each(|_| std::thread::yield_now());
        assert_eq!(machine.counts().command_buffers, 2, "the third waits");
        machine.release_one();
        assert_eq!(receive.recv().unwrap(), 1, "one has completed when there is room");
        machine.release();
    });
    machine.settle();
}

#[test]
fn a_command_buffer_keeps_what_it_uses_until_it_has_completed() {
    run(|program| {
        let set = program.pipeline("set");
        program.machine.hold();
        let commands = autoreleasepool(|_| {
            let buffer = program.buffer(4096);
            program.commit_set(&set, &buffer, 1, 64)
        });
        assert_eq!(program.machine.counts().live.get("RigModelBuffer"), Some(&1));
        program.machine.release();
        commands.waitUntilCompleted();
        assert_eq!(commands.status(), MTLCommandBufferStatus::Completed);
        assert_eq!(program.machine.counts().live.get("RigModelBuffer"), None, "and no longer");
    });
}

#[test]
fn pipelines_are_compiled_several_at_once_and_tell_what_their_arguments_are() {
    run(|program| {
        program.machine.hold_compiles();
        let (send, receive) = mpsc::channel();
        for name in ["add", "set", "step", "large"] {
            let descriptor = MTLComputePipelineDescriptor::new();
            descriptor.setComputeFunction(Some(&program.function(name)));
            let send = send.clone();
            let handler = RcBlock::new(
                move |pipeline: *mut ProtocolObject<dyn MTLComputePipelineState>,
                      reflection: *mut MTLComputePipelineReflection,
                      error: *mut NSError| {
                    // SAFETY: Metal hands null or a living object.
                    let reflection = unsafe { reflection.as_ref() };
                    // SAFETY: as above.
                    let error = unsafe { error.as_ref() };
                    let arguments = reflection.map(|reflection| reflection.bindings().len());
                    let why = error.map(|error| error.localizedDescription().to_string());
                    send.send((name, !pipeline.is_null(), arguments, why)).unwrap();
                },
            );
            let options = MTLPipelineOption::BindingInfo;
            let handler = RcBlock::as_ptr(&handler);
            // SAFETY: the block is fit for any thread.
            unsafe {
                program.device.newComputePipelineStateWithDescriptor_options_completionHandler(
                    &descriptor,
                    options,
                    handler,
                );
            };
        }
        // Compiles that were made one after the other would wait here for ever.
        while program.machine.counts().compiling < 4 {
            std::thread::yield_now();
        }
        assert_eq!(program.machine.counts().compiled, 0, "they are held");
        program.machine.release_compiles();
        let mut answers: Vec<_> = (0..4).map(|_| receive.recv().unwrap()).collect();
        answers.sort();
        let told: Vec<_> = answers.iter().map(|(name, made, arguments, _)| (*name, *made, *arguments)).collect();
        let expected =
            [("add", true, Some(1)), ("large", false, None), ("set", true, Some(2)), ("step", true, Some(1))];
        assert_eq!(told, expected);
        let why = answers[1].3.clone().unwrap();
        assert!(why.contains("40960 bytes of threadgroup memory"), "{why}");
        assert_eq!(program.machine.counts().compiling_most, 4);
    });
}

#[test]
fn reflection_tells_index_size_and_kind_of_each_buffer() {
    run(|program| {
        let function = program.function("add");
        let mut reflection = None;
        let options = MTLPipelineOption::BindingInfo | MTLPipelineOption::BufferTypeInfo;
        let told = Some(&mut reflection);
        let make = |told| {
            // SAFETY: the place outlives the call.
            unsafe {
                program.device.newComputePipelineStateWithFunction_options_reflection_error(&function, options, told)
            }
        };
        let _pipeline = make(told).unwrap();
        let reflection: Retained<MTLComputePipelineReflection> = reflection.unwrap();
        let binding = reflection.bindings().objectAtIndex(0);
        assert_eq!((binding.r#type(), binding.index()), (MTLBindingType::Buffer, 0));
        assert_eq!(binding.access(), MTLBindingAccess::ReadOnly);
        assert!(binding.isUsed() && binding.isArgument());
        // SAFETY: a binding of this type is a buffer binding.
        let binding: Retained<ProtocolObject<dyn MTLBufferBinding>> = unsafe { Retained::cast_unchecked(binding) };
        assert_eq!((binding.bufferDataSize(), binding.bufferAlignment()), (16, 8));
        assert_eq!(binding.bufferDataType(), MTLDataType::Struct);
        assert!(binding.bufferStructType().is_some());
        let pointer = binding.bufferPointerType().unwrap();
        assert_eq!((pointer.dataSize(), pointer.elementType()), (16, MTLDataType::Struct));
    });
}

#[test]
fn host_pages_are_wrapped_where_they_lie_and_given_back() {
    let freed = Arc::new(AtomicUsize::new(0));
    let pages = Pages::new(8192);
    run(|program| {
        let set = program.pipeline("set");
        let seen = freed.clone();
        let deallocator = RcBlock::new(move |_: NonNull<std::ffi::c_void>, len: usize| {
            seen.fetch_add(len, Ordering::Relaxed);
        });
        let options = MTLResourceOptions::StorageModeShared;
        // SAFETY: the pages outlive the buffer.
        let buffer = unsafe {
            program.device.newBufferWithBytesNoCopy_length_options_deallocator(
                pages.0,
                8192,
                options,
                Some(&deallocator),
            )
        };
        let buffer = buffer.unwrap();
        assert_eq!(buffer.contents(), pages.0);
        program.commit_set(&set, &buffer, 77, 64).waitUntilCompleted();
        // SAFETY: the pages are this test's, and the work on them has ended.
        assert_eq!(unsafe { pages.0.cast::<u32>().read() }, 77);
        assert_eq!(freed.load(Ordering::Relaxed), 0);
    });
    assert_eq!(freed.load(Ordering::Relaxed), 8192);
}

#[test]
fn recorded_commands_run_many_times() {
    run(|program| {
        let step = program.indirect_pipeline("step");
        let sum = program.buffer(4);
        let arguments = [program.step_arguments(sum.gpuAddress(), 1), program.step_arguments(sum.gpuAddress(), 2)];
        let _set = program.resident(&[&sum, &arguments[0], &arguments[1]]);
        let descriptor = MTLIndirectCommandBufferDescriptor::new();
        descriptor.setCommandTypes(MTLIndirectCommandType::ConcurrentDispatch);
        descriptor.setInheritBuffers(false);
        descriptor.setInheritPipelineState(false);
        descriptor.setMaxKernelBufferBindCount(1);
        let options = MTLResourceOptions::empty();
        // SAFETY: two commands are within Metal's bounds.
        let recorded = unsafe {
            program.device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options(&descriptor, 2, options)
        };
        let recorded = recorded.unwrap();
        for (at, arguments) in arguments.iter().enumerate() {
            // SAFETY: the command is there.
            let command = unsafe { recorded.indirectComputeCommandAtIndex(at) };
            command.setComputePipelineState(&step);
            // SAFETY: offset 0 is in the buffer, and index 0 below the count.
            unsafe { command.setKernelBuffer_offset_atIndex(arguments, 0, 0) };
            command.concurrentDispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
        }
        for _ in 0..2 {
            let commands = program.queue.commandBuffer().unwrap();
            let encoder = commands.computeCommandEncoder().unwrap();
            // SAFETY: both commands are there.
            unsafe { encoder.executeCommandsInBuffer_withRange(&recorded, range(0, 2)) };
            encoder.endEncoding();
            commands.commit();
            commands.waitUntilCompleted();
            assert!(commands.error().is_none(), "{:?}", commands.error());
        }
        // ((0*3+1)*3+2)*3+1)*3+2
        assert_eq!(get::<u32>(&sum, 0), 50);
    });
}

#[test]
fn a_blit_encoder_fills_and_copies() {
    run(|program| {
        let (from, to) = (program.buffer(64), program.buffer(64));
        let commands = program.queue.commandBuffer().unwrap();
        let encoder = commands.blitCommandEncoder().unwrap();
        encoder.fillBuffer_range_value(&from, range(4, 8), 7);
        // SAFETY: both ranges are in the buffers.
        unsafe { encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(&from, 0, &to, 16, 16) };
        encoder.endEncoding();
        commands.commit();
        commands.waitUntilCompleted();
        assert_eq!(get::<[u8; 16]>(&to, 16), [0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0]);
    });
}

#[test]
fn threadgroup_memory_is_the_dispatchs() {
    run(|program| {
        let (group, buffer) = (program.pipeline("group"), program.buffer(128));
        let commands = program.queue.commandBuffer().unwrap();
        let encoder = commands.computeCommandEncoder().unwrap();
        encoder.setComputePipelineState(&group);
        // SAFETY: offset 0 is in the buffer.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&buffer), 0, 0) };
        // SAFETY: index 0 is one.
        unsafe { encoder.setThreadgroupMemoryLength_atIndex(128, 0) };
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(32));
        encoder.endEncoding();
        commands.commit();
        commands.waitUntilCompleted();
        assert!(commands.error().is_none(), "{:?}", commands.error());
        assert!((0..32).all(|at| get::<u32>(&buffer, 4 * at) == at as u32));
    });
}

#[test]
fn without_execution_command_buffers_complete_and_write_nothing() {
    run(|program| {
        let (set, buffer) = (program.pipeline("set"), program.buffer(64));
        program.machine.execution(false);
        let commands = program.commit_set(&set, &buffer, 1, 16);
        commands.waitUntilCompleted();
        assert_eq!(commands.status(), MTLCommandBufferStatus::Completed);
        assert_eq!(get::<u32>(&buffer, 0), 0);
    });
}

#[test]
fn a_machine_is_what_it_was_built_to_be() {
    let machine = Machine::builder()
        .name("Another")
        .families(&[MTLGPUFamily::Apple8, MTLGPUFamily::Metal3])
        .max_buffer_length(1 << 20)
        .max_threads_per_threadgroup([512, 256, 64])
        .max_threadgroup_memory_length(16 << 10)
        .recommended_max_working_set_size(1 << 21)
        .build();
    let _here = machine.enter();
    let device = MTLCreateSystemDefaultDevice().unwrap();
    assert_eq!(device.name().to_string(), "Another");
    assert!(device.supportsFamily(MTLGPUFamily::Apple7) && device.supportsFamily(MTLGPUFamily::Apple8));
    assert!(!device.supportsFamily(MTLGPUFamily::Apple9) && !device.supportsFamily(MTLGPUFamily::Mac2));
    assert_eq!(device.maxThreadsPerThreadgroup(), MTLSize { width: 512, height: 256, depth: 64 });
    assert_eq!((device.maxBufferLength(), device.maxThreadgroupMemoryLength()), (1 << 20, 16 << 10));
    assert_eq!(device.recommendedMaxWorkingSetSize(), 1 << 21);
    let options = MTLResourceOptions::StorageModeShared;
    assert!(device.newBufferWithLength_options((1 << 20) + 4, options).is_none());
    let none = Machine::builder().gpu(false).macos(14, 2, 1).build();
    let _there = none.enter();
    assert!(MTLCreateSystemDefaultDevice().is_none());
    assert_eq!(MTLCopyAllDevices().len(), 0);
    let version = objc2_foundation::NSProcessInfo::processInfo().operatingSystemVersion();
    assert_eq!((version.majorVersion, version.minorVersion, version.patchVersion), (14, 2, 1));
}

#[test]
fn a_library_names_its_functions_and_says_why_bytes_are_none() {
    run(|program| {
        let mut names: Vec<_> = program.library.functionNames().iter().map(|name| name.to_string()).collect();
        names.sort();
        assert_eq!(names, ["add", "group", "large", "set", "spin", "step"]);
        assert_eq!(program.function("add").functionType(), MTLFunctionType::Kernel);
        assert!(program.library.newFunctionWithName(&NSString::from_str("none")).is_none());
        let data =
            dispatch2::DispatchData::from_bytes(b"no library at all, but long enough to be read as a header of one");
        let why = program.device.newLibraryWithData_error(&data).unwrap_err();
        assert_eq!(why.domain().to_string(), "MTLLibraryErrorDomain");
        assert!(why.localizedDescription().to_string().contains("no library"), "{}", why.localizedDescription());
    });
}

/// Runs the test of this name again, alone in a process of its own, and answers what it says when it ends by a signal.
fn ended(name: &str) -> String {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("RIG_MODEL_CHILD", "1")
        .output()
        .unwrap();
    assert!(!child.status.success(), "the process ended as if nothing were wrong");
    String::from_utf8_lossy(&child.stderr).into_owned()
}

#[test]
fn a_panic_in_a_handler_ends_the_process_with_its_message() {
    if std::env::var_os("RIG_MODEL_CHILD").is_none() {
        let said = ended("programs::a_panic_in_a_handler_ends_the_process_with_its_message");
        assert!(said.contains("a completed handler panicked: no good"), "{said}");
        return;
    }
    run(|program| {
        let commands = program.queue.commandBuffer().unwrap();
        let handler = RcBlock::new(|_: NonNull<ProtocolObject<dyn MTLCommandBuffer>>| panic!("no good"));
        // SAFETY: the block is fit for any thread.
        unsafe { commands.addCompletedHandler(RcBlock::as_ptr(&handler)) };
        commands.commit();
        commands.waitUntilCompleted();
    });
}

#[test]
fn a_message_to_a_released_object_ends_the_process_and_names_its_class() {
    if std::env::var_os("RIG_MODEL_CHILD").is_none() {
        let said = ended("programs::a_message_to_a_released_object_ends_the_process_and_names_its_class");
        assert!(said.contains("RigModelBuffer"), "{said}");
        return;
    }
    run(|program| {
        let buffer = program.buffer(4);
        // SAFETY: it is not: the reference is given up, and the buffer used. That is what is tested.
        drop(unsafe { Retained::from_raw(Retained::as_ptr(&buffer).cast_mut()) });
        let _ = buffer.length();
        std::mem::forget(buffer);
    });
}
