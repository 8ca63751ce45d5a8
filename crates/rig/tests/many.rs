//! Many threads, devices and buffers at once: bounded, and checked against a serial replay.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails its test")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rig::{Buffer, Device, Point, Run, read, write};

/// A small generator of test data (splitmix64): one seed replays a run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

const LEN: usize = 96;

/// `y = 3 y + x + c`, which tells every order of two apart. Parameters: x, y, c.
fn kernels() -> rig_host::Kernels {
    rig_host::Kernels::new().group("mix", 24, |params, at| {
        let first = at.group[0] as usize * at.threads[0] as usize;
        let len = (at.threads[0] as usize).min(LEN.saturating_sub(first));
        let c = params.get::<u32>(16);
        let (x, y) = (params.address::<u32>(0), params.address::<u32>(8));
        for i in first..first + len {
            let (x, y) = (x.wrapping_add(i), y.wrapping_add(i));
            // SAFETY: the tests give x and y of LEN values, and groups take disjoint ranges of them. x may be y.
            #[expect(unsafe_code, clippy::multiple_unsafe_ops_per_block, reason = "a kernel's two reads")]
            let (a, b) = unsafe { (x.read(), y.read()) };
            // SAFETY: as above; nothing else touches y's range.
            #[expect(unsafe_code, reason = "a kernel over raw memory")]
            unsafe {
                y.write(b.wrapping_mul(3).wrapping_add(a).wrapping_add(c));
            }
        }
    })
}

#[expect(unsafe_code, reason = "a launch")]
fn launch(run: &mut Run, buffers: &[&Buffer]) -> Point {
    // SAFETY: mix touches LEN values of both slots, writes the second, and nothing else.
    unsafe { run.launch(buffers) }.unwrap()
}

struct Mixer {
    run: Run,
}

impl Mixer {
    fn new(device: &Device) -> Mixer {
        let mix = device.load(&kernels().image()).unwrap().function("mix").unwrap();
        let mut run = device.submission().launch(&mix, [read(0), write(1)]).make().unwrap().take();
        run.part(0).groups([LEN.div_ceil(32) as u32, 1, 1]).threads([32, 1, 1]);
        Mixer { run }
    }

    fn mix(&mut self, x: &Buffer, y: &Buffer, c: u32) -> Point {
        self.run.part(0).set(16, c);
        launch(&mut self.run, &[x, y])
    }
}

#[derive(Clone, Copy)]
enum Work {
    Mix { x: usize, y: usize, c: u32 },
    Copy { from: usize, to: usize },
    Memset { to: usize, byte: u8 },
}

fn replay(buffers: &mut [Vec<u32>], work: Work) {
    match work {
        Work::Mix { x, y, c } => {
            let x = buffers[x].clone();
            for (y, x) in buffers[y].iter_mut().zip(x) {
                *y = y.wrapping_mul(3).wrapping_add(x).wrapping_add(c);
            }
        }
        Work::Copy { from, to } => buffers[to] = buffers[from].clone(),
        Work::Memset { to, byte } => buffers[to].fill(u32::from_ne_bytes([byte; 4])),
    }
}

/// Threads submit at random over shared buffers of one device; the values give the order for the replay.
fn one_device(device: &Device, seed: u64, threads: u64, each: usize) {
    let buffers: Vec<Buffer> = (0..5).map(|_| device.buffer(4 * LEN).unwrap()).collect();
    buffers.iter().for_each(|b| b.copy_from_slice(&[1_u32; LEN]).unwrap());
    let log: Mutex<Vec<(u64, Work)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (buffers, log) = (&buffers, &log);
            scope.spawn(move || {
                let mut random = Random(seed + thread);
                let mut mixer = Mixer::new(device);
                let mut copy = device.submission().copy(0, 1).make().unwrap().take();
                let mut memset = device.submission().memset(0, 0xA5).make().unwrap().take();
                let mut mine = Vec::new();
                for _ in 0..each {
                    let (a, b) = (random.below(buffers.len()), random.below(buffers.len()));
                    let (point, work) = match random.below(8) {
                        0 if a != b => {
                            (copy.submit(&[&buffers[a], &buffers[b]]).unwrap(), Work::Copy { from: a, to: b })
                        }
                        1 => (memset.submit(&[&buffers[a]]).unwrap(), Work::Memset { to: a, byte: 0xA5 }),
                        _ => {
                            let c = random.next() as u32;
                            (mixer.mix(&buffers[a], &buffers[b], c), Work::Mix { x: a, y: b, c })
                        }
                    };
                    mine.push((point.value(), work));
                    match random.below(16) {
                        0 => point.wait().unwrap(),
                        1 => buffers[a].read(|values: &[u32]| assert_eq!(values.len(), LEN)).unwrap(),
                        2 => drop(device.buffer(4 * random.below(3000)).unwrap()),
                        _ => {}
                    }
                }
                log.lock().unwrap().extend(mine);
            });
        }
    });
    let mut log = log.into_inner().unwrap();
    log.sort_by_key(|(value, _)| *value);
    assert!(log.windows(2).all(|pair| pair[0].0 < pair[1].0), "every submit has a value of its own");
    let mut expected = vec![vec![1_u32; LEN]; buffers.len()];
    log.into_iter().for_each(|(_, work)| replay(&mut expected, work));
    for (buffer, expected) in buffers.iter().zip(&expected) {
        buffer.read(|values: &[u32]| assert_eq!(values, &expected[..])).unwrap();
    }
}

/// Promises C03, C14, E09, E17, S08.
#[test]
fn threads_on_the_cores_device_match_a_serial_replay() {
    let device = rig::open(rig_host::cores()).unwrap();
    for seed in 0..6 {
        one_device(&device, seed * 100, 4, 300);
    }
}

/// Promises C03, S08.
#[test]
fn threads_on_the_memory_device_match_a_serial_replay() {
    let device = rig::open(rig_host::memory()).unwrap();
    for seed in 0..6 {
        one_device(&device, seed * 100, 4, 300);
    }
}

/// Promises C06, C14, S03, S08.
#[test]
fn threads_over_three_devices_lose_no_work_and_end() {
    let devices: Vec<Device> = [rig::open(rig_host::cores()), rig::open(rig_host::cores())]
        .into_iter()
        .chain([rig::open(rig_host::memory())])
        .collect::<Result<_, _>>()
        .unwrap();
    // Counters: each "add 1" is y = 3 y + x + c with x = -2 y, that is: read, add on the host under a hold, copy about.
    let homes: Vec<Buffer> = devices.iter().map(|device| device.buffer(4 * LEN).unwrap()).collect();
    let added = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (homes, devices, added) = (&homes, &devices, &added);
            scope.spawn(move || {
                let mut random = Random(thread);
                let scratch: Vec<Buffer> = devices.iter().map(|device| device.buffer(4 * LEN).unwrap()).collect();
                for _ in 0..200 {
                    let (a, b) = (random.below(3), random.below(3));
                    homes[a].write(|values: &mut [u32]| values.iter_mut().for_each(|v| *v += 1)).unwrap();
                    added.fetch_add(1, Ordering::Relaxed);
                    // A copy of all of one home is never torn, whatever else runs.
                    homes[b].copy_to(&scratch[a]).unwrap();
                    scratch[a].read(|v: &[u32]| assert!(v.iter().all(|x| *x == v[0]), "{v:?}")).unwrap();
                    scratch[a].copy_to(&scratch[b]).unwrap();
                }
            });
        }
    });
    let sum: u64 = homes.iter().map(|home| home.read(|v: &[u32]| u64::from(v[LEN - 1])).unwrap()).sum();
    assert_eq!(sum, added.load(Ordering::Relaxed));
}

/// Promise C15.
#[test]
fn many_threads_wait_for_one_device() {
    let device = rig::open(rig_host::cores()).unwrap();
    let (x, y) = (device.buffer(4 * LEN).unwrap(), device.buffer(4 * LEN).unwrap());
    let points: Vec<Point> = {
        let mut mixer = Mixer::new(&device);
        (0..200).map(|c| mixer.mix(&x, &y, c)).collect()
    };
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let points = &points;
            scope.spawn(move || {
                let mut random = Random(thread);
                for _ in 0..100 {
                    let point = points[random.below(points.len())];
                    point.wait().unwrap();
                    assert!(point.reached().unwrap());
                }
                Point::wait_all(points).unwrap();
            });
        }
    });
}
