//! Collectives between processes and threads, on the stand-in library and the host's cores.
#![expect(clippy::unwrap_used, reason = "tests")]

mod processes;

use std::sync::Barrier;

use processes::{Cores, child_of, connect, devices, finish, launch, options, start};
use rig::{Buffer, Device};
use rig_nccl::{Operation, Rank, Reduce, Type, World};

/// The part that a child process runs.
#[test]
fn child() {
    match child_of().as_deref() {
        Some("every") => every_kind(),
        Some("one_thread") => one_thread(),
        Some("threads") => a_thread_a_rank(),
        Some("ring") => ring(),
        Some("refused") => refused(),
        Some(other) => panic!("there is no part {other}"),
        None => {}
    }
}

fn floats(device: &Device, values: &[f32]) -> Buffer {
    let buffer = device.buffer(4 * values.len()).unwrap();
    buffer.copy_from_slice(values).unwrap();
    buffer
}

fn read(buffer: &Buffer) -> Vec<f32> {
    buffer.read(|values: &[f32]| values.to_vec()).unwrap()
}

/// A rank's elements in these tests: two a rank, of which the first tells the rank and the second its square.
fn elements(rank: u32) -> [f32; 2] {
    [rank as f32 + 1.0, (rank * rank) as f32]
}

fn sum(ranks: u32) -> [f32; 2] {
    (0..ranks).map(elements).fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d])
}

/// How many devices the child has: process n has n + 1.
fn own_devices() -> Vec<Device> {
    devices(World::from_env().unwrap().process() as usize + 1)
}

/// Every kind of operation on one rank of each process, the others alongside.
fn every_kind() {
    let devices = own_devices();
    let communicator = connect(&devices, options());
    std::thread::scope(|scope| {
        for (index, device) in devices.iter().enumerate() {
            let rank = communicator.rank(index);
            scope.spawn(move || kinds_of(&rank, device));
        }
    });
    println!("{} of {}", communicator.rank(0).rank(), communicator.ranks());
}

fn kinds_of(rank: &Rank<Cores>, device: &Device) {
    let (ranks, of) = (rank.ranks(), Type::F32);
    let mine = floats(device, &elements(rank.rank()));
    let one = |operation: Operation, buffers: &[&Buffer]| {
        let submission = rank.add(device.submission(), [operation]).make().unwrap();
        launch(&mut submission.take(), buffers).unwrap();
    };
    let into = device.buffer(8).unwrap();
    let [first, second] = sum(ranks);
    let many = ranks as f32;
    for (by, due) in [
        (Reduce::Sum, [first, second]),
        (Reduce::Max, elements(ranks - 1)),
        (Reduce::Min, elements(0)),
        (Reduce::Average, [first / many, second / many]),
        (Reduce::Product, [(1..=ranks).map(|x| x as f32).product(), 0.0]),
    ] {
        one(Operation::AllReduce { from: 0, to: 1, of, by }, &[&mine, &into]);
        assert_eq!(read(&into), due, "{by:?}");
    }
    one(Operation::Broadcast { from: 0, to: 1, of, root: ranks - 1 }, &[&mine, &into]);
    assert_eq!(read(&into), elements(ranks - 1));
    let all = device.buffer(8 * ranks as usize).unwrap();
    one(Operation::AllGather { from: 0, to: 1, of }, &[&mine, &all]);
    assert_eq!(read(&all), (0..ranks).flat_map(elements).collect::<Vec<_>>());
    one(Operation::ReduceScatter { from: 0, to: 1, of, by: Reduce::Sum }, &[&all, &into]);
    assert_eq!(read(&into), elements(rank.rank()).map(|x| x * many));
    // Whole numbers, in place.
    let count = device.buffer(8).unwrap();
    count.copy_from_slice(&[u64::from(rank.rank()) << 40]).unwrap();
    one(Operation::AllReduce { from: 0, to: 0, of: Type::U64, by: Reduce::Sum }, &[&count]);
    let due = (0..u64::from(ranks)).sum::<u64>() << 40;
    count.read(|count: &[u64]| assert_eq!(count, [due])).unwrap();
    // Everyone sends to everyone, in one group.
    let others: Vec<u32> = (0..ranks).filter(|&other| other != rank.rank()).collect();
    let mut group = Vec::new();
    let came: Vec<Buffer> = others.iter().map(|_| device.buffer(8).unwrap()).collect();
    for (&other, slot) in others.iter().zip(1..) {
        group.push(Operation::Send { from: 0, of, rank: other });
        group.push(Operation::Receive { to: slot, of, rank: other });
    }
    let submission = rank.add(device.submission(), group).make().unwrap();
    let buffers: Vec<&Buffer> = std::iter::once(&mine).chain(&came).collect();
    launch(&mut submission.take(), &buffers).unwrap();
    for (&other, came) in others.iter().zip(&came) {
        assert_eq!(read(came), elements(other));
    }
}

#[test]
fn every_kind_of_operation_gives_every_rank_of_every_process_its_due() {
    let texts = finish(start("every", 3, |_, _| {}), &[]);
    for (text, due) in texts.iter().zip(["0 of 6", "1 of 6", "3 of 6"]) {
        assert!(text.contains(due), "{text}");
    }
}

/// One thread drives all ranks of its process, one submit after the other, and waits for nothing between.
fn one_thread() {
    let devices = devices(3);
    let communicator = connect(&devices, options());
    let buffers: Vec<Buffer> = devices.iter().map(|device| floats(device, &[1.0])).collect();
    let mut runs: Vec<_> = devices
        .iter()
        .enumerate()
        .map(|(index, device)| {
            let rank = communicator.rank(index);
            rank.all_reduce(device.submission(), 0, 0, Type::F32, Reduce::Sum).make().unwrap().take()
        })
        .collect();
    const STEPS: i32 = 8;
    for _ in 0..STEPS {
        for (run, buffer) in runs.iter_mut().zip(&buffers) {
            launch(run, &[buffer]).unwrap();
        }
    }
    let due = (communicator.ranks() as f32).powi(STEPS);
    buffers.iter().for_each(|buffer| assert_eq!(read(buffer), [due]));
    assert_eq!(communicator.failure(), None);
}

#[test]
fn one_thread_drives_several_ranks_of_several_processes_without_a_deadlock() {
    finish(start("one_thread", 2, |_, _| {}), &[]);
}

/// A thread for each rank, in whatever order they come.
fn a_thread_a_rank() {
    let devices = devices(4);
    let communicator = connect(&devices, options());
    let together = Barrier::new(devices.len());
    std::thread::scope(|scope| {
        for (index, device) in devices.iter().enumerate() {
            let (rank, together) = (communicator.rank(index), &together);
            scope.spawn(move || {
                let x = floats(device, &elements(rank.rank()));
                let submission = rank.all_reduce(device.submission(), 0, 0, Type::F32, Reduce::Max).make().unwrap();
                let mut run = submission.take();
                for _ in 0..20 {
                    together.wait();
                    launch(&mut run, &[&x]).unwrap();
                }
                assert_eq!(read(&x), elements(rank.ranks() - 1));
            });
        }
    });
}

#[test]
fn threads_drive_a_rank_each_without_a_deadlock() {
    finish(start("threads", 1, |_, _| {}), &[]);
    finish(start("threads", 2, |_, _| {}), &[]);
}

/// What goes round a ring comes back as it was: a submission of a receive, a send and work of rig's own between them.
fn ring() {
    let devices = devices(1);
    let communicator = connect(&devices, options());
    let (rank, device) = (communicator.rank(0), &devices[0]);
    let (before, after) = ((rank.rank() + rank.ranks() - 1) % rank.ranks(), (rank.rank() + 1) % rank.ranks());
    let (held, passed) = (floats(device, &[0.0; 4]), floats(device, &[0.0; 4]));
    let mut submission = device.submission();
    if rank.rank() == 0 {
        held.copy_from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        submission = rank.send(submission, 0, Type::F32, after);
        submission = rank.receive(submission, 1, Type::F32, before);
    } else {
        submission = rank.receive(submission, 0, Type::F32, before).copy(0, 1);
        submission = rank.send(submission, 1, Type::F32, after);
    }
    launch(&mut submission.make().unwrap().take(), &[&held, &passed]).unwrap();
    assert_eq!(read(&passed), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn operations_and_parts_of_rigs_own_are_ordered_by_the_memory_in_one_submission() {
    finish(start("ring", 4, |_, _| {}), &[]);
}

/// Lengths that do not fit are an error of the fill, with its words, and reach every rank.
fn refused() {
    let devices = devices(2);
    let communicator = connect(&devices, options());
    let (rank, device) = (communicator.rank(0), &devices[0]);
    let (one, two) = (device.buffer(4).unwrap(), device.buffer(8).unwrap());
    let submission = rank.all_reduce(device.submission(), 0, 1, Type::F32, Reduce::Sum).make().unwrap();
    let (other, x) = (communicator.rank(1), floats(&devices[1], &[1.0]));
    let fits = other.all_reduce(devices[1].submission(), 0, 0, Type::F32, Reduce::Sum).make().unwrap();
    // The other rank waits for an operation that never comes, and learns why.
    let waits = launch(&mut fits.take(), &[&x]).unwrap();
    let answers = [launch(&mut submission.take(), &[&one, &two]).and_then(|point| point.wait()), waits.wait()];
    for answer in answers {
        let why = answer.unwrap_err().to_string();
        assert!(why.contains("rank 0: all-reduce: both slots have the same length: 4 bytes to 8"), "{why}");
    }
}

#[test]
fn lengths_that_do_not_fit_are_an_error_that_reaches_every_rank() {
    finish(start("refused", 1, |_, _| {}), &[]);
}
