//! What is asked to go wrong, and what kernels do wrong.

use std::{
    sync::{Mutex, mpsc},
    time::Duration,
};

use objc2::runtime::ProtocolObject;
use objc2_foundation::NSString;
use rig_metal_model::{
    machine::{Failure, Handlers, Machine, What},
    protocol::*,
    runtime,
};

use crate::fixture::*;

#[test]
fn each_kind_of_object_is_refused_when_asked() {
    run(|program| {
        let faults = program.machine.faults();
        let device = &program.device;
        let options = MTLResourceOptions::StorageModeShared;
        faults.refuse(What::Buffer, 2);
        assert!(device.newBufferWithLength_options(4, options).is_some());
        assert!(device.newBufferWithLength_options(4, options).is_none());
        assert!(device.newBufferWithLength_options(4, options).is_some());
        faults.refuse(What::Queue, 1);
        assert!(device.newCommandQueue().is_none() && device.newCommandQueue().is_some());
        faults.refuse(What::Fence, 1..=2);
        assert!(device.newFence().is_none() && device.newFence().is_none() && device.newFence().is_some());
        faults.refuse(What::ResidencySet, 1);
        let why = device.newResidencySetWithDescriptor_error(&MTLResidencySetDescriptor::new()).unwrap_err();
        assert!(why.localizedDescription().to_string().contains("refused"));
        faults.refuse(What::CommandBuffer, 1..);
        assert!(
            program.queue.commandBuffer().is_none() && program.queue.commandBufferWithUnretainedReferences().is_none()
        );
        faults.clear();
        let commands = program.queue.commandBuffer().unwrap();
        faults.refuse(What::Encoder, 1);
        assert!(commands.computeCommandEncoder().is_none());
        faults.refuse(What::Pipeline, 1);
        assert!(device.newComputePipelineStateWithFunction_error(&program.function("set")).is_err());
        assert!(device.newComputePipelineStateWithFunction_error(&program.function("set")).is_ok());
        faults.refuse(What::Function, 1);
        assert!(program.library.newFunctionWithName(&NSString::from_str("set")).is_none());
        faults.refuse(What::IndirectCommandBuffer, 1);
        let descriptor = MTLIndirectCommandBufferDescriptor::new();
        descriptor.setCommandTypes(MTLIndirectCommandType::ConcurrentDispatch);
        // SAFETY: one command is within Metal's bounds.
        let refused =
            unsafe { device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options(&descriptor, 1, options) };
        assert!(refused.is_none());
    });
}

#[test]
fn the_nth_command_buffer_fails_with_metals_code_and_writes_nothing() {
    for (failure, code) in [
        (Failure::Timeout, MTLCommandBufferError::Timeout),
        (Failure::PageFault, MTLCommandBufferError::PageFault),
        (Failure::OutOfMemory, MTLCommandBufferError::OutOfMemory),
        (Failure::InvalidResource, MTLCommandBufferError::InvalidResource),
        (Failure::Internal, MTLCommandBufferError::Internal),
    ] {
        run(|program| {
            let (set, buffer) = (program.pipeline("set"), program.buffer(4));
            program.machine.faults().fail_command_buffer(2, failure);
            let all: Vec<_> = (1..=3).map(|value| program.commit_set(&set, &buffer, value, 1)).collect();
            all[1].waitUntilCompleted();
            assert_eq!(all[1].status(), MTLCommandBufferStatus::Error);
            let why = all[1].error().unwrap();
            assert_eq!(
                (why.domain().to_string().as_str(), why.code()),
                ("MTLCommandBufferErrorDomain", code.0 as isize)
            );
            assert_eq!(why.localizedDescription().to_string(), failure.description());
            all[2].waitUntilCompleted();
            assert_eq!(all[2].status(), MTLCommandBufferStatus::Completed, "the next one runs");
            assert_eq!(get::<u32>(&buffer, 0), 3);
        });
    }
}

#[test]
fn a_kernel_that_never_ends_times_out_and_what_is_behind_it_runs() {
    on(Machine::builder().patience(Duration::from_millis(50)), |program| {
        let (spin, set, buffer) = (program.pipeline("spin"), program.pipeline("set"), program.buffer(4));
        let commands = program.queue.commandBuffer().unwrap();
        let encoder = commands.computeCommandEncoder().unwrap();
        encoder.setComputePipelineState(&spin);
        // SAFETY: offset 0 is in the buffer.
        unsafe { encoder.setBuffer_offset_atIndex(Some(&buffer), 0, 0) };
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
        encoder.endEncoding();
        commands.commit();
        let mut next = program.commit_set(&set, &buffer, 7, 1);
        commands.waitUntilCompleted();
        assert_eq!(commands.error().unwrap().code(), MTLCommandBufferError::Timeout.0 as isize);
        next.waitUntilCompleted();
        // A machine that is busy enough takes longer than patience for this one too.
        while next.status() != MTLCommandBufferStatus::Completed {
            assert_eq!(next.error().unwrap().code(), MTLCommandBufferError::Timeout.0 as isize);
            next = program.commit_set(&set, &buffer, 7, 1);
            next.waitUntilCompleted();
        }
        assert_eq!(get::<u32>(&buffer, 0), 7);
    });
}

#[test]
fn exceptions_are_thrown_from_the_chosen_message() {
    run(|program| {
        program.machine.faults().throw(What::Dispatch, 1).throw(What::Buffer, 2);
        let (set, buffer) = (program.pipeline("set"), program.buffer(4));
        let commands = program.queue.commandBuffer().unwrap();
        let encoder = commands.computeCommandEncoder().unwrap();
        encode_set(&encoder, &set, &buffer, 1);
        let dispatch = || encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
        let thrown = runtime::catch(std::panic::AssertUnwindSafe(dispatch)).unwrap_err().unwrap();
        assert!(format!("{thrown}").contains("Dispatch"), "{thrown}");
        dispatch();
        encoder.endEncoding();
        commands.commit();
        commands.waitUntilCompleted();
        assert_eq!(get::<u32>(&buffer, 0), 1);
        let make = || program.device.newBufferWithLength_options(4, MTLResourceOptions::empty());
        assert!(runtime::catch(std::panic::AssertUnwindSafe(make)).is_err());
    });
}

#[test]
fn misplaced_buffers_are_off_256_and_work() {
    run(|program| {
        program.machine.faults().misalign_buffers(true);
        let (small, large) = (program.buffer(64), program.buffer(100_000));
        program.machine.faults().misalign_buffers(false);
        assert_ne!(small.gpuAddress() % 256, 0);
        assert_ne!(large.contents().as_ptr() as usize % 256, 0);
        program.commit_set(&program.pipeline("set"), &large, 3, 64).waitUntilCompleted();
        assert_eq!(get::<u32>(&large, 0), 3);
        assert_eq!(program.buffer(64).gpuAddress() % 256, 0);
    });
}

#[test]
fn a_machine_runs_out_of_memory_and_has_it_again() {
    on(Machine::builder().memory(1 << 20), |program| {
        let options = MTLResourceOptions::StorageModeShared;
        let most = program.buffer(1 << 20);
        assert!(program.device.newBufferWithLength_options(4, options).is_none());
        drop(most);
        assert!(program.device.newBufferWithLength_options(1 << 20, options).is_some());
    });
}

#[test]
fn a_pointer_reaches_only_what_is_resident() {
    let run_step = |prepare: &dyn Fn(&Program, &Buffer, &CommandBuffer) -> Option<Set>, use_it: bool| {
        let answer = Mutex::new(None);
        run(|program| {
            let (step, sum) = (program.pipeline("step"), program.buffer(4));
            let arguments = program.step_arguments(sum.gpuAddress(), 1);
            let commands = program.queue.commandBuffer().unwrap();
            let _set = prepare(program, &sum, &commands);
            let encoder = commands.computeCommandEncoder().unwrap();
            if use_it {
                encoder.useResource_usage(
                    ProtocolObject::from_ref(&*sum),
                    MTLResourceUsage::Read | MTLResourceUsage::Write,
                );
            }
            encode_step(&encoder, &step, &arguments);
            encoder.endEncoding();
            commands.commit();
            commands.waitUntilCompleted();
            let address = format!("{:#x}", sum.gpuAddress());
            let why = commands.error().map(|why| (why.code(), why.localizedDescription().to_string()));
            if let Some((code, why)) = &why {
                assert_eq!(*code, MTLCommandBufferError::PageFault.0 as isize);
                assert!(why.contains("step") && why.contains(&address), "{why}");
            }
            *answer.lock().unwrap() = Some(why.is_none() && get::<u32>(&sum, 0) == 1);
        });
        answer.into_inner().unwrap().unwrap()
    };
    assert!(!run_step(&|_, _, _| None, false), "nothing makes it resident");
    assert!(run_step(&|_, _, _| None, true), "useResource does");
    assert!(run_step(&|program, sum, _| Some(program.resident(&[sum])), false), "a set of the queue does");
    let staged = |program: &Program, sum: &Buffer, _: &CommandBuffer| {
        let set = program.resident(&[]);
        set.addAllocation(ProtocolObject::from_ref(&**sum));
        Some(set)
    };
    assert!(!run_step(&staged, false), "a set whose addition is not committed does not");
    let of_buffer = |program: &Program, sum: &Buffer, commands: &CommandBuffer| {
        let set = program.set();
        set.addAllocation(ProtocolObject::from_ref(&**sum));
        set.commit();
        commands.useResidencySet(&set);
        Some(set)
    };
    assert!(run_step(&of_buffer, false), "a set of the command buffer does");
    let removed = |program: &Program, sum: &Buffer, _: &CommandBuffer| {
        let set = program.resident(&[sum]);
        program.queue.removeResidencySet(&set);
        Some(set)
    };
    assert!(!run_step(&removed, false), "a set that the queue has no more does not");
}

/// Commits one step while the machine holds it, changes the set, and answers whether the step then reached its number.
fn reached_after(change: impl FnOnce(&Set, &Buffer)) -> bool {
    let mut reached = false;
    run(|program| {
        let (step, sum) = (program.pipeline("step"), program.buffer(4));
        let arguments = program.step_arguments(sum.gpuAddress(), 1);
        let set = program.resident(&[]);
        set.addAllocation(ProtocolObject::from_ref(&*sum));
        let commands = program.queue.commandBuffer().unwrap();
        let encoder = commands.computeCommandEncoder().unwrap();
        encode_step(&encoder, &step, &arguments);
        encoder.endEncoding();
        program.machine.hold();
        change(&set, &sum);
        commands.commit();
        set.commit();
        program.machine.release();
        commands.waitUntilCompleted();
        reached = commands.error().is_none();
    });
    reached
}

#[test]
fn what_is_resident_is_settled_by_the_commit_and_may_not_leave_before_the_work_is_done() {
    assert!(reached_after(|set, _| set.commit()), "the addition was committed before the work");
    assert!(!reached_after(|_, _| ()), "the addition was committed after the work");
    let removed = |set: &Set, sum: &Buffer| {
        set.commit();
        set.removeAllocation(ProtocolObject::from_ref(&**sum));
    };
    assert!(!reached_after(removed), "the removal was committed before the work was done");
}

#[test]
fn a_write_past_an_allocation_ends_the_command_buffer_and_names_the_kernel_and_the_address() {
    run(|program| {
        let (set, buffer) = (program.pipeline("set"), program.buffer(8));
        let commands = program.commit_set(&set, &buffer, 5, 3);
        commands.waitUntilCompleted();
        let why = commands.error().unwrap();
        assert_eq!(why.code(), MTLCommandBufferError::PageFault.0 as isize);
        let said = why.localizedDescription().to_string();
        assert!(said.contains("set") && said.contains(&format!("{:#x}", buffer.gpuAddress() + 8)), "{said}");
    });
}

#[test]
fn held_command_buffers_run_one_at_a_time() {
    run(|program| {
        let (set, buffer) = (program.pipeline("set"), program.buffer(4));
        program.machine.hold();
        let first = program.commit_set(&set, &buffer, 1, 1);
        let second = program.commit_set(&set, &buffer, 2, 1);
        assert_eq!(get::<u32>(&buffer, 0), 0);
        program.machine.release_one();
        first.waitUntilCompleted();
        assert_eq!((get::<u32>(&buffer, 0), second.status()), (1, MTLCommandBufferStatus::Committed));
        program.machine.release();
        second.waitUntilCompleted();
        assert_eq!(get::<u32>(&buffer, 0), 2);
        program.machine.hold_completions();
        let third = program.commit_set(&set, &buffer, 3, 1);
        third.waitUntilScheduled();
        assert!(third.status() < MTLCommandBufferStatus::Completed);
        program.machine.release_one();
        third.waitUntilCompleted();
    });
}

#[test]
fn held_handlers_run_when_and_in_the_order_that_the_test_says() {
    run(|program| {
        program.machine.handlers(Handlers::Hold);
        let told = told();
        for number in 0..3 {
            let commands = program.queue.commandBuffer().unwrap();
            tell(&commands, number, told);
            commands.commit();
            while commands.status() != MTLCommandBufferStatus::Completed {
                std::thread::yield_now();
            }
        }
        while program.machine.held_handlers() < 3 {
            std::thread::yield_now();
        }
        assert!(told.lock().unwrap().is_empty());
        program.machine.release_handler(2);
        program.machine.release_handler(0);
        program.machine.release_handlers();
        let order: Vec<_> = told.lock().unwrap().iter().map(|(number, _)| *number).collect();
        assert_eq!(order, [2, 0, 1]);
    });
}

#[test]
fn handlers_on_other_threads_run_in_an_order_of_chance_and_late_ones_in_order() {
    let orders = |handlers: Handlers, seed: u64| {
        let told = told();
        on(Machine::builder().seed(seed), |program| {
            program.machine.handlers(handlers);
            program.machine.hold();
            for number in 0..12 {
                let commands = program.queue.commandBuffer().unwrap();
                tell(&commands, number, told);
                commands.commit();
            }
            program.machine.release();
            program.machine.settle();
            assert_eq!(program.machine.counts().handlers, 12);
        });
        told.lock().unwrap().iter().map(|(number, _)| *number).collect::<Vec<_>>()
    };
    let in_order: Vec<_> = (0..12).collect();
    assert_eq!(orders(Handlers::Late, 1), in_order);
    // One of the first few, but threads of a machine that does much else may take turns as if there were an order.
    let shuffled = (0..2000).map(|seed| orders(Handlers::OtherThreads(4), seed)).any(|order| order != in_order);
    assert!(shuffled, "in some machine the order is another");
}

#[test]
fn delays_come_from_the_seed_and_change_no_answer() {
    on(Machine::builder().seed(3).delays(Duration::from_micros(300)), |program| {
        let (set, buffer) = (program.pipeline("set"), program.buffer(4));
        let last = (1..=10).map(|value| program.commit_set(&set, &buffer, value, 1)).next_back().unwrap();
        last.waitUntilCompleted();
        assert_eq!(get::<u32>(&buffer, 0), 10);
    });
}

#[test]
fn two_queues_run_at_once() {
    run(|program| {
        let other = program.device.newCommandQueue().unwrap();
        let (send, receive) = mpsc::channel();
        let block = block2::RcBlock::new(move |_: std::ptr::NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
            send.send(()).unwrap();
        });
        // The first queue's handler waits for the second queue's work: one queue does not hold up another.
        let (go, gone) = mpsc::channel::<()>();
        let gone = Mutex::new(gone);
        let waits = block2::RcBlock::new(move |_: std::ptr::NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
            gone.lock().unwrap().recv().unwrap();
        });
        let (first, second) = (program.queue.commandBuffer().unwrap(), other.commandBuffer().unwrap());
        // SAFETY: the blocks are fit for any thread.
        unsafe { first.addCompletedHandler(block2::RcBlock::as_ptr(&waits)) };
        // SAFETY: as above.
        unsafe { second.addCompletedHandler(block2::RcBlock::as_ptr(&block)) };
        first.commit();
        second.commit();
        receive.recv().unwrap();
        go.send(()).unwrap();
        first.waitUntilCompleted();
    });
}
