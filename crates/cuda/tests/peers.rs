//! Two GPUs: memory of one in the work of the other.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod gpu;

use std::time::{Duration, Instant};

use gpu::{busy, launch, run};
use rig::{CopyPath, Device, write};

/// Devices on the first two GPUs. None, and said so, where there are fewer.
fn pair() -> Option<(Device, Device)> {
    if rig_cuda::count() < 2 {
        println!("skipped: {} CUDA devices, not two", rig_cuda::count());
        return None;
    }
    Some((rig::open(rig_cuda::gpu(0)).unwrap(), rig::open(rig_cuda::gpu(1)).unwrap()))
}

/// Promises N05, C09.
#[test]
fn a_gpu_works_in_the_memory_of_another() {
    let Some((one, two)) = pair() else { return };
    let y = one.buffer(4 * 1024).unwrap();
    y.memset(0).unwrap();
    let borrowed = match y.borrow(&two) {
        Ok(borrowed) => borrowed,
        Err(why) => return println!("skipped: these GPUs are no peers: {why}"),
    };
    let image = two.load(gpu::SUITE).unwrap();
    let mut iota = run(&image, "iota", [write(0)]);
    iota.part(0).groups([4, 1, 1]).threads([256, 1, 1]).set(8, 1024_u32);
    for start in [3_u32, 900] {
        iota.part(0).set(12, start);
        launch(&mut iota, &[&borrowed]).unwrap();
        y.read(|y: &[u32]| assert!(y.iter().zip(start..).all(|(&y, i)| y == i))).unwrap();
    }
}

/// Promises N02, N05, S03.
#[test]
fn work_follows_the_memory_from_gpu_to_gpu_with_no_wait_of_the_host() {
    let Some((one, two)) = pair() else { return };
    let y = one.buffer(4).unwrap();
    y.memset(0).unwrap();
    let Ok(borrowed) = y.borrow(&two) else { return println!("skipped: these GPUs are no peers") };
    let mut a = busy(&one.load(gpu::TEST).unwrap(), Duration::from_millis(5));
    let mut b = busy(&two.load(gpu::TEST).unwrap(), Duration::from_millis(5));
    let start = Instant::now();
    for _ in 0..20 {
        launch(&mut a, &[&y]).unwrap();
        launch(&mut b, &[&borrowed]).unwrap();
    }
    let submitted = start.elapsed();
    y.read(|y: &[u32]| assert_eq!(y[0], 40)).unwrap();
    println!("submitted in {submitted:?}, done in {:?}", start.elapsed());
    assert!(submitted < Duration::from_millis(100) && start.elapsed() > Duration::from_millis(190));
}

/// Promises N05, C06.
#[test]
fn bytes_go_from_gpu_to_gpu_by_the_link_between_them() {
    let Some((one, two)) = pair() else { return };
    let len = 1 << 28;
    let (from, to) = (one.buffer(len).unwrap(), two.buffer(len).unwrap());
    from.memset(7).unwrap();
    to.memset(0).unwrap();
    for round in 0..3 {
        let start = Instant::now();
        let copied = from.copy_to(&to).unwrap();
        copied.point.iter().for_each(|point| point.wait().unwrap());
        let rate = len as f64 / start.elapsed().as_secs_f64() / 1e9;
        println!("round {round}: {:?}, {rate:.0} GB/s", copied.path);
        if is_peer(&from, &two) {
            assert_eq!(copied.path, CopyPath::Peer);
        }
    }
    to.view(len - 4096..len).unwrap().read(|y: &[u8]| assert!(y.iter().all(|&byte| byte == 7))).unwrap();
}

/// Promises N05, C09.
#[test]
fn a_graph_copies_from_its_own_memory_and_from_a_peers_in_turn() {
    let Some((one, two)) = pair() else { return };
    let theirs = one.buffer(4096).unwrap();
    theirs.memset(5).unwrap();
    let Ok(theirs) = theirs.borrow(&two) else { return println!("skipped: these GPUs are no peers") };
    let (own, to, y) = (two.buffer(4096).unwrap(), two.buffer(4096).unwrap(), two.buffer(256).unwrap());
    own.memset(6).unwrap();
    let iota = two.load(gpu::SUITE).unwrap().function("iota").unwrap();
    let submission = two.submission().copy(0, 1).launch(&iota, [write(2)]).params(16).make().unwrap();
    let mut run = submission.take();
    run.part(1).groups([1; 3]).threads([64, 1, 1]).set(8, 64_u32);
    for (from, set) in [(&own, 6), (&theirs, 5), (&own, 6), (&theirs, 5)] {
        to.memset(0).unwrap();
        launch(&mut run, &[from, &to, &y]).unwrap();
        to.read(|to: &[u8]| assert!(to.iter().all(|&byte| byte == set))).unwrap();
    }
}

fn is_peer(buffer: &rig::Buffer, device: &Device) -> bool {
    buffer.borrow(device).is_ok()
}
