//! A stream that has no room: rig waits, and CUDA never, with rig's locks held, for another device's work.
#![expect(clippy::unwrap_used, reason = "a test")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod gpu;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use gpu::{device, launch, run};
use rig::{Device, Error, Point, Run, write};

/// A device of the host's cores whose work stands until the test lets it go, or for [`STANDS`].
struct Standing {
    cores: Device,
    stands: Point,
    go: mpsc::Sender<()>,
}

/// TIMEOUT: beyond what any submit behind it may take; ends a run in which one waits inside CUDA.
const STANDS: Duration = Duration::from_secs(40);

impl Standing {
    fn new() -> Standing {
        let cores = rig::open(rig_host::cores()).unwrap();
        let (go, wait) = mpsc::channel();
        let wait = Arc::new(Mutex::new(wait));
        let kernels = rig_host::Kernels::new().group("stand", 0, move |_, _| {
            let _ = wait.lock().unwrap().recv_timeout(STANDS);
        });
        let stand = cores.load(&kernels.image()).unwrap().function("stand").unwrap();
        let stands = launch(&mut cores.submission().launch(&stand, []).make().unwrap().take(), &[]).unwrap();
        Standing { cores, stands, go }
    }
}

/// Submits behind work that stands, the device of which is then lost: until no room is left, and rig says whose work it waits for. All
/// runs once that goes on.
fn fills_up(device: &Device, kind: &str, mut submit: impl FnMut() -> rig::Result<Point>) {
    let standing = Standing::new();
    // Memory of its own: what follows a lost device leaves memory that nothing but a whole write may use.
    let own = device.buffer(64).unwrap();
    let mut first = device.submission().memset(0, 7).make().unwrap().take();
    let first = first.after(&[standing.stands]).submit(&[&own]).unwrap();
    let mut points = Vec::new();
    standing.cores.lose("the program said so");
    let start = Instant::now();
    let why = loop {
        match submit() {
            Ok(point) => points.push(point),
            Err(Error::Refused(why)) => break why,
            Err(other) => panic!("{kind}: {other}"),
        }
        assert!(points.len() < 5_000, "{kind}: a stream has not so much room");
    };
    println!("{kind}: {} values, then after {:?}: {why}", points.len(), start.elapsed());
    assert!(why.contains("close CORES"), "{kind}: {why}");
    assert!(start.elapsed() < STANDS / 2, "{kind}: a call waited inside CUDA");
    standing.cores.close();
    standing.go.send(()).unwrap();
    assert!(first.wait().is_err(), "it followed what is lost; the others only stood behind it");
    Point::wait_all(&points).unwrap();
    submit().unwrap().wait().unwrap();
}

/// Promises C20, E37.
#[test]
fn a_stream_that_fills_up_behind_a_lost_devices_work_is_told_and_not_waited_for_inside_cuda() {
    let Some(device) = device() else { return };
    let image = device.load(gpu::SUITE).unwrap();
    let y = device.buffer(4096).unwrap();
    let x = device.buffer(4096).unwrap();
    y.memset(0).unwrap();
    x.memset(1).unwrap();
    let mut iota = run(&image, "iota", [write(0)]);
    iota.part(0).groups([4, 1, 1]).threads([256, 1, 1]).set(8, 1024_u32);
    launch(&mut iota, &[&y]).unwrap().wait().unwrap();
    fills_up(&device, "graphs of a launch", || launch(&mut iota, &[&y]));

    // Short, so they go one by one.
    let moves = |copies: usize| {
        let one = device.submission().copy(0, 1);
        (1..copies).fold(one, |all, _| all.copy(0, 1)).make().unwrap().take()
    };
    let mut copies: Run = moves(20);
    fills_up(&device, "twenty copies one by one", || copies.submit(&[&x, &y]));
    let mut copies = moves(500);
    fills_up(&device, "a graph of five hundred copies", || copies.submit(&[&x, &y]));
    y.read(|y: &[u32]| assert!(y.iter().all(|&word| word == 0x0101_0101))).unwrap();
}

/// Promises E37, S03.
#[test]
fn values_that_each_wait_for_another_device_leave_room_before_cuda_has_none() {
    let Some(device) = device() else { return };
    let image = device.load(gpu::SUITE).unwrap();
    let y = device.buffer(4096).unwrap();
    let mut iota = run(&image, "iota", [write(0)]);
    iota.part(0).groups([4, 1, 1]).threads([256, 1, 1]).set(8, 1024_u32).set(12, 3_u32);
    launch(&mut iota, &[&y]).unwrap().wait().unwrap();
    let standing = Standing::new();
    let submitted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (y, stands, submitted, iota) = (&y, standing.stands, &submitted, &mut iota);
        let submitter = scope.spawn(move || {
            for _ in 0..VALUES {
                launch(iota.after(&[stands]), &[y]).unwrap();
                submitted.fetch_add(1, Ordering::SeqCst);
            }
        });
        // Until it stands; and then other calls of the device, and other devices of the GPU, go on.
        let (mut seen, mut since) = (0, Instant::now());
        while since.elapsed() < STILL {
            let now = submitted.load(Ordering::SeqCst);
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            std::thread::yield_now();
        }
        println!("{seen} values wait on the stream");
        assert!(seen > 100 && seen < VALUES, "{seen} values");
        let start = Instant::now();
        drop(device.buffer(1 << 30).unwrap());
        let beside = rig::open(rig_cuda::gpu(0)).unwrap().from_slice(&[7_u32; 64]).unwrap();
        assert_eq!(beside.read(|words: &[u32]| words[63]).unwrap(), 7);
        assert!(start.elapsed() < STANDS / 4, "a call waits inside CUDA, and others behind it: {:?}", start.elapsed());
        standing.go.send(()).unwrap();
        submitter.join().unwrap();
    });
    y.read(|y: &[u32]| assert_eq!(y[1023], 1026)).unwrap();
}

/// More than a stream has room for, each of which takes three entries.
const VALUES: usize = 1_000;

/// TIMEOUT: how long nothing may be submitted before the submitter counts as waiting: a submit takes microseconds.
const STILL: Duration = Duration::from_secs(1);
