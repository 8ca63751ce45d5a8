//! What orders work, and what does not.

use objc2::rc::autoreleasepool;
use rig_metal_model::{
    machine::{Handlers, Machine},
    protocol::*,
};

use crate::fixture::*;

/// Runs four steps in command buffers of their own, each the number's digit; what remains tells the order.
fn steps(seed: u64, fenced: bool) -> u32 {
    let mut answer = 0;
    on(Machine::builder().seed(seed), |program| {
        let (step, sum) = (program.pipeline("step"), program.buffer(4));
        let arguments: Vec<_> = (0..4).map(|value| program.step_arguments(sum.gpuAddress(), value)).collect();
        let _set = program.resident(&[&sum]);
        let fence = program.device.newFence().unwrap();
        // The first command buffer keeps the GPU until all are committed.
        program.machine.hold();
        let mut last = None;
        for arguments in &arguments {
            let commands = program.queue.commandBuffer().unwrap();
            let encoder = commands.computeCommandEncoder().unwrap();
            if fenced {
                encoder.waitForFence(&fence);
            }
            encode_step(&encoder, &step, arguments);
            if fenced {
                encoder.updateFence(&fence);
            }
            encoder.endEncoding();
            commands.commit();
            last = Some(commands);
        }
        program.machine.release();
        last.unwrap().waitUntilCompleted();
        answer = get(&sum, 0);
    });
    answer
}

/// 0*3+0, then *3+1, *3+2, *3+3.
const IN_ORDER: u32 = 18;

#[test]
fn a_fence_orders_command_buffers_that_reach_memory_through_pointers() {
    for seed in 0..15 {
        assert_eq!(steps(seed, true), IN_ORDER, "seed {seed}");
    }
}

#[test]
fn without_a_fence_they_run_in_an_order_of_chance() {
    let answers: Vec<_> = (0..15).map(|seed| steps(seed, false)).collect();
    assert!(answers.iter().any(|answer| *answer != IN_ORDER), "{answers:?}");
}

#[test]
fn tracked_buffers_order_what_binds_them_and_untracked_ones_do_not() {
    let last = |options: MTLResourceOptions, seed: u64| {
        let mut answer = 0;
        on(Machine::builder().seed(seed), |program| {
            let set = program.pipeline("set");
            let buffer = program.device.newBufferWithLength_options(4, options).unwrap();
            program.machine.hold();
            let all: Vec<_> = (1..=4).map(|value| program.commit_set(&set, &buffer, value, 1)).collect();
            program.machine.release();
            all[3].waitUntilCompleted();
            answer = get::<u32>(&buffer, 0);
        });
        answer
    };
    assert!((0..15).all(|seed| last(MTLResourceOptions::StorageModeShared, seed) == 4));
    assert!((0..15).any(|seed| last(MTLResourceOptions::HazardTrackingModeUntracked, seed) != 4));
}

#[test]
fn command_buffers_complete_in_order_whatever_ran_first() {
    for seed in 0..10 {
        on(Machine::builder().seed(seed), |program| {
            let told = told();
            let set = program.pipeline("set");
            let buffers: Vec<_> = (0..8).map(|_| program.buffer(4)).collect();
            program.machine.hold();
            for (number, buffer) in buffers.iter().enumerate() {
                let commands = program.queue.commandBuffer().unwrap();
                tell(&commands, number, told);
                let encoder = commands.computeCommandEncoder().unwrap();
                encode_set(&encoder, &set, buffer, 1);
                encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1));
                encoder.endEncoding();
                commands.commit();
            }
            program.machine.release();
            program.machine.settle();
            let order: Vec<_> = told.lock().unwrap().iter().map(|(number, _)| *number).collect();
            assert_eq!(order, (0..8).collect::<Vec<_>>());
        });
    }
}

#[test]
fn many_threads_commit_to_one_queue_under_chance_and_all_of_it_runs_once() {
    for seed in 0..3 {
        let builder = Machine::builder().seed(seed).delays(std::time::Duration::from_micros(20));
        let machine = on(builder, |program| {
            program.machine.handlers(Handlers::OtherThreads(3));
            let set = program.pipeline("set");
            let (queue, device) = (&program.queue, &program.device);
            std::thread::scope(|scope| {
                for thread in 0..6_u32 {
                    let set = &set;
                    scope.spawn(move || {
                        for round in 0..25 {
                            autoreleasepool(|_| {
                                let buffer = device
                                    .newBufferWithLength_options(64, MTLResourceOptions::StorageModeShared)
                                    .unwrap();
                                let commands = queue.commandBuffer().unwrap();
                                tell(&commands, 0, told());
                                let encoder = commands.computeCommandEncoder().unwrap();
                                encode_set(&encoder, set, &buffer, 1000 * thread + round);
                                encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(16));
                                encoder.endEncoding();
                                commands.commit();
                                commands.waitUntilCompleted();
                                assert!((0..16).all(|at| get::<u32>(&buffer, 4 * at) == 1000 * thread + round));
                            });
                        }
                    });
                }
            });
        });
        let counts = machine.counts();
        assert_eq!((counts.committed, counts.completed, counts.handlers, counts.dispatches), (150, 150, 150, 150));
    }
}
