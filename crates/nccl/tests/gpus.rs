//! The real thing: NCCL on this machine's GPUs, as many as there are. Where there is no GPU or no NCCL, tests say so.
#![expect(clippy::unwrap_used, reason = "tests")]

#[expect(dead_code, reason = "the lane of the host's cores is for the others")]
mod processes;

use std::process::Command;
use std::time::{Duration, Instant};

use processes::{Processes, child_of, finish, launch, start};
use rig::{Buffer, Device, Error};
use rig_nccl::{Communicator, Operation, Options, Rank, Reduce, Type, World};

/// TIMEOUT: long enough for a busy machine, and far below what a test takes for a hang.
const SILENCE: Duration = Duration::from_secs(4);
const STALL: Duration = Duration::from_secs(5);
/// TIMEOUT: what is seen at once is seen by then; a process that ends gives its GPU back before its connections close.
const SOON: Duration = Duration::from_millis(3500);
/// TIMEOUT: how often a test looks.
const LOOK: Duration = Duration::from_millis(2);

/// How many elements: more than NCCL moves in one piece, and no multiple of anything.
const MANY: usize = 1_000_003;

fn options() -> Options {
    Options::default().silence(SILENCE).stall(STALL)
}

/// The part that a child process runs.
#[test]
fn child() {
    match child_of().as_deref() {
        Some("in_one") => in_one_process(),
        Some("each") => one_process_a_gpu(),
        Some("fails") => fails(),
        Some("stands") => stands(),
        Some(other) => panic!("there is no part {other}"),
        None => {}
    }
}

/// Starts the processes of a test on real NCCL; none, and said so, where there are no such GPUs.
fn on_gpus(test: &str, least: usize, alone: bool, more: impl Fn(usize, &mut Command)) -> Option<Processes> {
    let count = rig_cuda::count();
    if count < least {
        println!("skipped: {count} CUDA devices, not {least}");
        return None;
    }
    let processes = if alone { 1 } else { count };
    Some(start(test, processes, |process, command| {
        command.env_remove("RIG_NCCL");
        if let Some(file) = std::env::var_os("RIG_NCCL") {
            command.env("RIG_NCCL", file);
        }
        more(process, command);
    }))
}

/// Whether the children had NCCL; said where not.
fn had_nccl(texts: &[String]) -> bool {
    let without = texts.iter().find_map(|text| text.lines().find(|line| line.contains("skipped: ")));
    without.into_iter().for_each(|line| println!("{line}"));
    without.is_none()
}

fn open(gpus: impl Iterator<Item = usize>) -> Vec<Device> {
    gpus.map(|gpu| rig::open(rig_cuda::gpu(gpu)).unwrap()).collect()
}

/// A communicator over some GPUs; none where there is no NCCL.
fn connect(devices: &[Device]) -> Option<Communicator> {
    let start = Instant::now();
    match rig_nccl::connect(&World::from_env().unwrap(), devices, options()) {
        Ok(communicator) => {
            println!("connected {} ranks in {:?}", communicator.ranks(), start.elapsed());
            Some(communicator)
        }
        Err(rig_nccl::Error::Library(why)) => {
            println!("skipped: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn values(rank: u32) -> Vec<f32> {
    (0..MANY).map(|i| (i % 1000) as f32 + rank as f32).collect()
}

/// Every kind of operation, on all ranks of a process by one thread: what is not of another rank's making is looked at last.
fn every_kind(ranks: &[Rank], devices: &[Device]) {
    let (all, of) = (ranks[0].ranks(), Type::F32);
    let bytes = 4 * MANY;
    let buffers = |len: usize| -> Vec<Buffer> { devices.iter().map(|device| device.buffer(len).unwrap()).collect() };
    let (mine, sum, cast, came) = (buffers(bytes), buffers(bytes), buffers(bytes), buffers(bytes));
    let (gathered, piece) = (buffers(bytes * all as usize), buffers(bytes));
    for (rank, mine) in ranks.iter().zip(&mine) {
        mine.copy_from_slice(&values(rank.rank())).unwrap();
    }
    let mut points = Vec::new();
    let mut group = |operations: &dyn Fn(u32) -> Vec<Operation>, buffers: &dyn Fn(usize) -> Vec<Buffer>| {
        for (index, (rank, device)) in ranks.iter().zip(devices).enumerate() {
            let submission = rank.add(device.submission(), operations(rank.rank())).make().unwrap();
            let buffers = buffers(index);
            let buffers: Vec<&Buffer> = buffers.iter().collect();
            points.push(launch(&mut submission.take(), &buffers).unwrap());
        }
    };
    let (from, to) = (0, 1);
    group(&|_| vec![Operation::AllReduce { from, to, of, by: Reduce::Sum }], &|i| {
        vec![mine[i].clone(), sum[i].clone()]
    });
    group(&|_| vec![Operation::Broadcast { from, to, of, root: all - 1 }], &|i| vec![mine[i].clone(), cast[i].clone()]);
    group(&|_| vec![Operation::AllGather { from, to, of }], &|i| vec![mine[i].clone(), gathered[i].clone()]);
    let by = Reduce::Max;
    group(&|_| vec![Operation::ReduceScatter { from, to, of, by }], &|i| vec![gathered[i].clone(), piece[i].clone()]);
    // Round a ring, in one group.
    let ring = |rank: u32| {
        let (next, last) = ((rank + 1) % all, (rank + all - 1) % all);
        vec![Operation::Send { from, of, rank: next }, Operation::Receive { to, of, rank: last }]
    };
    group(&ring, &|i| vec![mine[i].clone(), came[i].clone()]);
    rig::Point::wait_all(&points).unwrap();
    let added: f32 = (0..all).map(|rank| rank as f32).sum();
    for (index, rank) in ranks.iter().map(Rank::rank).enumerate() {
        let read = |buffer: &Buffer| buffer.read(<[f32]>::to_vec).unwrap();
        let total: Vec<f32> = (0..MANY).map(|i| (i % 1000) as f32 * all as f32 + added).collect();
        assert_eq!(read(&sum[index]), total, "the sum");
        assert_eq!(read(&cast[index]), values(all - 1), "the last rank's");
        assert_eq!(read(&gathered[index]), (0..all).flat_map(values).collect::<Vec<_>>(), "all");
        assert_eq!(read(&piece[index]), values(rank), "this rank's piece");
        assert_eq!(read(&came[index]), values((rank + all - 1) % all), "the last one's");
    }
}

/// One thread, and then a thread a rank, drive all GPUs of a process; then a new communicator does on the same devices.
fn in_one_process() {
    let devices = open(0..rig_cuda::count());
    for _ in 0..2 {
        let Some(communicator) = connect(&devices) else { return };
        let ranks: Vec<Rank> = (0..devices.len()).map(|index| communicator.rank(index)).collect();
        every_kind(&ranks, &devices);
        std::thread::scope(|scope| {
            for (rank, device) in ranks.iter().zip(&devices) {
                scope.spawn(move || many(rank, device));
            }
        });
        assert_eq!(communicator.failure(), None);
        let start = Instant::now();
        communicator.close();
        println!("closed after {:?}", start.elapsed());
    }
}

/// A thousand all-reduces with copies of rig's own between them.
fn many(rank: &Rank, device: &Device) {
    let (x, y) = (device.buffer(4096).unwrap(), device.buffer(4096).unwrap());
    x.copy_from_slice(&[1_u32; 1024]).unwrap();
    let submission = rank.all_reduce(device.submission(), 0, 1, Type::U32, Reduce::Max).copy(1, 0).make().unwrap();
    let mut run = submission.take();
    for _ in 0..1000 {
        launch(&mut run, &[&x, &y]).unwrap();
    }
    x.read(|x: &[u32]| assert!(x.iter().all(|&x| x == 1))).unwrap();
}

#[test]
fn one_process_drives_all_gpus_by_one_thread_and_by_a_thread_a_rank() {
    let Some(processes) = on_gpus("in_one", 1, true, |_, _| {}) else { return };
    let texts = finish(processes, &[]);
    if had_nccl(&texts) {
        println!("{}", texts[0]);
    }
}

fn one_process_a_gpu() {
    let world = World::from_env().unwrap();
    let devices = open(std::iter::once(world.process() as usize));
    let Some(communicator) = connect(&devices) else { return };
    every_kind(&[communicator.rank(0)], &devices);
}

#[test]
fn a_process_a_gpu_gives_every_rank_its_due() {
    let Some(processes) = on_gpus("each", 2, false, |_, _| {}) else { return };
    had_nccl(&finish(processes, &[]));
}

/// Launches many times, as long as there is a device to launch on.
fn queue(run: &mut rig::Run, x: &Buffer, many: usize) -> Vec<rig::Point> {
    (0..many).map_while(|_| launch(run, &[x]).ok()).collect()
}

/// Process 1 fails in the way that the variable says, with operations of the others in flight.
fn fails() {
    let how = std::env::var("RIG_NCCL_HOW").unwrap();
    let world = World::from_env().unwrap();
    let gpu = world.process() as usize;
    let devices = open(std::iter::once(gpu));
    let Some(communicator) = connect(&devices) else { return };
    let (rank, device) = (communicator.rank(0), &devices[0]);
    let x = device.buffer(64 << 20).unwrap();
    x.copy_from_slice(&vec![1.0_f32; 16 << 20]).unwrap();
    let mut run = rank.all_reduce(device.submission(), 0, 0, Type::F32, Reduce::Max).make().unwrap().take();
    for _ in 0..3 {
        launch(&mut run, &[&x]).unwrap().wait().unwrap();
    }
    if world.process() == 1 {
        match &*how {
            "dies" => {
                // In the middle of what it has queued.
                queue(&mut run, &x, 20);
                std::process::abort();
            }
            "faults" => {
                queue(&mut run, &x, 20);
                device.lose("the program said so");
            }
            _ => {}
        }
        while communicator.failure().is_none() {
            std::thread::sleep(LOOK);
        }
        return;
    }
    let start = Instant::now();
    // More than the other has, and more than CUDA's own queue takes: the last ones cannot end well.
    let points = queue(&mut run, &x, 1500);
    let why = points.iter().find_map(|point| point.wait().err()).unwrap();
    println!("lost after {} ms: {why}", start.elapsed().as_millis());
    let Error::Lost { why, .. } = why else { panic!("Lost was due, not {why}") };
    assert_eq!(communicator.failure(), Some(why));
    assert!(matches!(x.read(|_: &[f32]| ()), Err(Error::Lost { .. })), "nobody reads what was cut off");
    drop(communicator);
    println!("closed after {} ms", start.elapsed().as_millis());
    // The GPU is free again, and serves a communicator of what is left.
    drop((x, run));
    let again = open(std::iter::once(gpu));
    let communicator = rig_nccl::connect(&World::alone(), &again, options()).unwrap();
    every_kind(&[communicator.rank(0)], &again);
    println!("again after {} ms", start.elapsed().as_millis());
}

#[test]
fn a_process_that_dies_or_hangs_or_loses_its_gpu_is_lost_on_the_other_gpus_in_time_and_they_serve_again() {
    for (how, says, bound) in [
        ("dies", "process 1 (", SOON),
        ("faults", "the device of rank 1 was lost: the program said so", SOON),
        ("hangs", "rank 1 was given", STALL + SOON),
    ] {
        let set = |_: usize, command: &mut Command| {
            command.env("RIG_NCCL_HOW", how);
        };
        let Some(processes) = on_gpus("fails", 2, false, set) else { return };
        let texts = finish(processes, &[1]);
        if !had_nccl(&texts) {
            return;
        }
        let (_, rest) = texts[0].split_once("lost after ").unwrap();
        let (time, why) = rest.split_once(" ms: ").unwrap();
        println!("{how}: lost after {rest}");
        assert!(why.contains(says), "{why}");
        assert!(Duration::from_millis(time.parse().unwrap()) < bound, "{time} ms");
    }
}

/// One rank of a process is given an operation that its other rank is not, on real streams: both are ended, and serve again.
fn stands() {
    let devices = open(0..2);
    let Some(communicator) = connect(&devices) else { return };
    let (rank, device) = (communicator.rank(0), &devices[0]);
    let (x, y) = (device.buffer(1 << 20).unwrap(), devices[1].buffer(1 << 20).unwrap());
    x.copy_from_slice(&vec![1.0_f32; 1 << 18]).unwrap();
    y.memset(0).unwrap();
    let mut run = rank.all_reduce(device.submission(), 0, 0, Type::F32, Reduce::Sum).make().unwrap().take();
    let start = Instant::now();
    let point = launch(&mut run, &[&x]).unwrap();
    let why = point.wait().unwrap_err().to_string();
    println!("lost after {} ms: {why}", start.elapsed().as_millis());
    assert!(why.contains("rank 1 was given"), "{why}");
    assert!(y.read(|_: &[f32]| ()).is_err(), "the other device is lost with it");
    drop(communicator);
    println!("closed after {} ms", start.elapsed().as_millis());
    drop((x, y, run));
    let again = open(0..2);
    let communicator = connect(&again).unwrap();
    let ranks = [communicator.rank(0), communicator.rank(1)];
    every_kind(&ranks, &again);
}

#[test]
fn a_rank_that_stands_for_another_of_its_process_is_ended_with_it_and_both_serve_again() {
    let Some(processes) = on_gpus("stands", 2, true, |_, _| {}) else { return };
    let texts = finish(processes, &[]);
    if had_nccl(&texts) {
        println!("{}", texts[0]);
    }
}
