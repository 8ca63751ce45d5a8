//! What the cases work with: an open device with the suite's kernels, ready to launch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rig::{Buffer, Device, Error, Function, Image, Point, Result, Run, Submission, read, write};

use super::Fixtures;

/// A device with the suite's kernels.
pub(crate) struct Kit<'f, F: Fixtures> {
    pub(crate) f: &'f F,
    pub(crate) image: Image,
    pub(crate) add: Submission,
    pub(crate) scale: Submission,
    pub(crate) iota: Submission,
    pub(crate) spin: Submission,
    pub(crate) device: Device,
}

/// The function's parameters in bytes: what it states, or else `least`.
pub(crate) fn params_of(function: &Function, least: usize) -> usize {
    function.params().unwrap_or(least)
}

impl<'f, F: Fixtures> Kit<'f, F> {
    pub(crate) fn new(f: &'f F) -> Kit<'f, F> {
        Kit::of(f, rig::open(f.opener()).unwrap())
    }

    pub(crate) fn second(f: &'f F) -> Kit<'f, F> {
        Kit::of(f, rig::open(f.second()).unwrap())
    }

    pub(crate) fn of(f: &'f F, device: Device) -> Kit<'f, F> {
        let image = device.load(&f.image()).unwrap();
        let one = |name: &str| {
            let function = image.function(name).unwrap();
            let params = params_of(&function, 16);
            device.submission().launch(&function, [write(0)]).params(params).make().unwrap()
        };
        let add = image.function("add").unwrap();
        let params = params_of(&add, 24);
        let add = device.submission().launch(&add, [read(0), write(1)]).params(params).make().unwrap();
        Kit { f, add, scale: one("scale"), iota: one("iota"), spin: one("spin"), image, device }
    }

    /// A run of a submission of one launch over `n` elements, with the number of elements at `at`.
    pub(crate) fn run(&self, of: &Submission, n: usize, at: usize) -> Run {
        let mut run = of.take();
        self.set(&mut run, 0, n, at);
        run
    }

    /// Sets the grid and the number of elements of one part.
    pub(crate) fn set(&self, run: &mut Run, part: usize, n: usize, at: usize) {
        let (groups, threads) = self.f.grid(n as u32);
        run.part(part).groups(groups).threads(threads).set(at, n as u32);
    }

    pub(crate) fn add(&self, x: &Buffer, y: &Buffer) -> Result<Point> {
        let mut run = self.run(&self.add, y.len() / 4, 16);
        launch(&mut run, &[x, y])
    }

    pub(crate) fn scale(&self, y: &Buffer, a: f32) -> Result<Point> {
        let mut run = self.run(&self.scale, y.len() / 4, 8);
        run.part(0).set(12, a);
        launch(&mut run, &[y])
    }

    pub(crate) fn iota(&self, y: &Buffer, start: u32) -> Result<Point> {
        let mut run = self.run(&self.iota, y.len() / 4, 8);
        run.part(0).set(12, start);
        launch(&mut run, &[y])
    }

    pub(crate) fn spin(&self, y: &Buffer, rounds: u32) -> Result<Point> {
        let mut run = self.run(&self.spin, y.len() / 4, 8);
        run.part(0).set(12, rounds);
        launch(&mut run, &[y])
    }

    /// Keeps the device busy for some time with memory of its own; gives the point of that work.
    pub(crate) fn busy(&self) -> Point {
        let y = self.device.buffer(4 * 1000).unwrap();
        self.spin(&y, self.f.spin_rounds()).unwrap()
    }

    pub(crate) fn floats(&self, values: &[f32]) -> Buffer {
        let buffer = self.device.buffer(size_of_val(values)).unwrap();
        buffer.copy_from_slice(values).unwrap();
        buffer
    }

    pub(crate) fn words(&self, values: &[u32]) -> Buffer {
        let buffer = self.device.buffer(size_of_val(values)).unwrap();
        buffer.copy_from_slice(values).unwrap();
        buffer
    }
}

/// Launches a run of the suite's kernels.
pub(crate) fn launch(run: &mut Run, buffers: &[&Buffer]) -> Result<Point> {
    // SAFETY: the suite's kernels touch the elements below the `n` that the kit sets, which their buffers hold, read and
    // write as their refs say, and nothing else.
    #[expect(unsafe_code, reason = "the suite launches kernels whose contract its fixtures keep")]
    unsafe {
        run.launch(buffers)
    }
}

/// What `spin` makes of a number.
pub(crate) fn spun(mut y: u32, rounds: u32) -> u32 {
    for _ in 0..rounds {
        y = y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    y
}

/// The bytes of a buffer.
pub(crate) fn bytes(buffer: &Buffer) -> Vec<u8> {
    buffer.read(|bytes: &[u8]| bytes.to_vec()).unwrap()
}

/// The floats of a buffer.
pub(crate) fn floats(buffer: &Buffer) -> Vec<f32> {
    buffer.read(|floats: &[f32]| floats.to_vec()).unwrap()
}

/// Sees that every float of a buffer is `value`.
#[track_caller]
pub(crate) fn all_are(buffer: &Buffer, value: f32) {
    let floats = floats(buffer);
    if let Some(at) = floats.iter().position(|&float| float != value) {
        panic!("{value} was due everywhere, and element {at} of {} is {}", floats.len(), floats[at]);
    }
}

/// The words of a buffer.
pub(crate) fn words(buffer: &Buffer) -> Vec<u32> {
    buffer.read(|words: &[u32]| words.to_vec()).unwrap()
}

/// `n` bytes that differ from one another and from those of other seeds.
pub(crate) fn pattern(n: usize, seed: u32) -> Vec<u8> {
    (0..n as u32).map(|i| (spun(i ^ seed.wrapping_mul(0x9E37_79B9), 2) >> 24) as u8).collect()
}

/// Sees that the answer is Invalid with a sentence.
#[track_caller]
pub(crate) fn invalid<T>(answer: Result<T>) {
    match answer {
        Err(Error::Invalid(why)) => assert!(why.len() > 10, "Invalid says only {why:?}"),
        Err(other) => panic!("Invalid was due, not {other:?}"),
        Ok(_) => panic!("Invalid was due, not an answer"),
    }
}

/// Sees that the answer is Lost, and gives the reason.
#[track_caller]
pub(crate) fn lost<T>(answer: Result<T>) -> String {
    match answer {
        Err(Error::Lost { why, .. }) => why.to_string(),
        Err(other) => panic!("Lost was due, not {other:?}"),
        Ok(_) => panic!("Lost was due, not an answer"),
    }
}

/// TIMEOUT: how long a future may take, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a future on this thread, which sleeps until it is woken.
pub(crate) fn block_on<T>(future: impl IntoFuture<Output = T>) -> T {
    struct Unpark(Thread, AtomicBool);
    impl Wake for Unpark {
        fn wake(self: Arc<Unpark>) {
            self.1.store(true, Ordering::SeqCst);
            self.0.unpark();
        }
    }
    let unpark = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future.into_future());
    let start = Instant::now();
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut context) {
            return answer;
        }
        // Polled again only once it was woken: a wake that never comes is seen.
        while !unpark.1.swap(false, Ordering::SeqCst) {
            let left = PATIENCE.checked_sub(start.elapsed()).expect("the future was not woken");
            thread::park_timeout(left);
        }
    }
}

/// Says that a case does nothing on this device, and why.
pub(crate) fn not_here(why: &str) {
    println!("nothing to do on this device: {why}");
}
