//! What a thread of the soak does, over and over.

use std::future::IntoFuture;

use rig::{Buffer, Device, Error, HostMemory, Point, Profile, Run, read, write};
use rig_conformance::model::{Model, image};

/// The values of a buffer here.
const LEN: usize = 1 << 10;

/// A small generator of test data (splitmix64).
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

/// The model's kernel `mix`: `y = 3 y + x + c`.
pub fn add_kernel(model: &Model) {
    model.kernel("mix", |args| {
        let c: u32 = args.scalar(16).ok_or("no constant")?;
        let x: Vec<u32> = args.read(0, LEN)?;
        let mut y: Vec<u32> = args.read(1, LEN)?;
        y.iter_mut().zip(&x).for_each(|(y, x)| *y = y.wrapping_mul(3).wrapping_add(*x).wrapping_add(c));
        args.write(1, &y)
    });
}

/// The same for the host's cores.
fn kernels() -> rig_host::Kernels {
    rig_host::Kernels::new().group("mix", 24, |params, at| {
        let (first, len) = (at.group[0] as usize * at.threads[0] as usize, at.threads[0] as usize);
        let c = params.get::<u32>(16);
        // SAFETY: launches have a thread for each of LEN values of both slots, which are two buffers.
        #[expect(unsafe_code, reason = "a kernel over raw memory")]
        let x: &[u32] = unsafe { params.slice(0, first, len) };
        // SAFETY: as above, and groups take disjoint ranges.
        #[expect(unsafe_code, reason = "a kernel over raw memory")]
        let y: &mut [u32] = unsafe { params.slice_mut(8, first, len) };
        y.iter_mut().zip(x).for_each(|(y, x)| *y = y.wrapping_mul(3).wrapping_add(*x).wrapping_add(c));
    })
}

/// A device and a run of `mix` on it.
struct Mixer {
    device: Device,
    run: Run,
}

impl Mixer {
    fn new(device: Device, image: &[u8]) -> rig::Result<Mixer> {
        let mix = device.load(image)?.function("mix")?;
        let mut run = device.submission().launch(&mix, [read(0), write(1)]).params(24).make()?.take();
        run.part(0).groups([LEN as u32 / 256, 1, 1]).threads([256, 1, 1]);
        Ok(Mixer { device, run })
    }

    #[expect(unsafe_code, reason = "a launch")]
    fn mix(&mut self, x: &Buffer, y: &Buffer, c: u32) -> rig::Result<Point> {
        self.run.part(0).set(16, c);
        // SAFETY: mix touches LEN values of both slots, writes the second, and nothing else.
        unsafe { self.run.launch(&[x, y]) }
    }
}

/// The devices that all threads share, and how images for each are made.
pub struct Devices {
    all: Vec<(Device, Vec<u8>)>,
}

impl Devices {
    pub fn open(model: &Model) -> Devices {
        let (host, of_model) = (kernels().image(), image(&["mix params=24"]));
        let (cores, memory) = (rig::open(rig_host::cores()).unwrap(), rig::open(rig_host::memory()).unwrap());
        let models = [(); 2].map(|()| (rig::open(model.opener()).unwrap(), of_model.clone()));
        let all = [(cores, host.clone()), (memory, host)].into_iter().chain(models).collect();
        Devices { all }
    }
}

/// One thread's load.
pub struct Load {
    mixers: Vec<Mixer>,
    own: Model,
    random: Random,
}

impl Load {
    pub fn new(devices: &Devices, thread: u64) -> Load {
        let mixer = |(device, image): &(Device, Vec<u8>)| Mixer::new(device.clone(), image).unwrap();
        let own = super::model(&format!("SOAK-{thread}"));
        Load { mixers: devices.all.iter().map(mixer).collect(), own, random: Random(thread) }
    }

    pub fn episode(&mut self) {
        match self.random.below(16) {
            0 => self.lose(),
            1 => self.profiled(),
            2 => self.wrapped(),
            3 => self.short(),
            _ => {
                self.chain();
            }
        }
    }

    /// Work over several devices, with copies and borrows between, against the same on the host. How many submits it made.
    fn chain(&mut self) -> usize {
        let count = self.mixers.len();
        let mut buffers = Vec::new();
        for mixer in &self.mixers {
            let buffer = mixer.device.buffer(4 * LEN).unwrap();
            let values: Vec<u32> = (0..LEN).map(|_| self.random.next() as u32).collect();
            buffer.copy_from_slice(&values).unwrap();
            buffers.push((buffer, values));
        }
        let mut points = Vec::new();
        for _ in 0..4 + self.random.below(12) {
            let (a, b) = (self.random.below(count), self.random.below(count));
            let c = self.random.next() as u32;
            match self.random.below(5) {
                0 => {
                    points.extend(buffers[a].0.copy_to(&buffers[b].0).unwrap().point);
                    buffers[b].1 = buffers[a].1.clone();
                }
                1 => {
                    buffers[a].0.memset(c as u8).unwrap();
                    buffers[a].1.fill(u32::from_ne_bytes([c as u8; 4]));
                }
                // Memory that the device reaches where it is, or by a copy.
                2 if a != b => {
                    let there = &self.mixers[b].device;
                    let x = buffers[a].0.borrow(there).or_else(|_| {
                        let copy = there.buffer(4 * LEN)?;
                        buffers[a].0.copy_to(&copy).map(|_| copy)
                    });
                    points.push(self.mixers[b].mix(&x.unwrap(), &buffers[b].0, c).unwrap());
                    let x = buffers[a].1.clone();
                    mix(&x, &mut buffers[b].1, c);
                }
                _ => {
                    let x = self.mixers[b].device.buffer(4 * LEN).unwrap();
                    x.memset(1).unwrap();
                    points.push(self.mixers[b].mix(&x, &buffers[b].0, c).unwrap());
                    mix(&[0x0101_0101; LEN], &mut buffers[b].1, c);
                }
            }
        }
        if self.random.below(3) == 0 {
            points.iter().for_each(|point| futures::executor::block_on(point.into_future()).unwrap());
        }
        for (buffer, values) in &buffers {
            buffer.read(|found: &[u32]| assert_eq!(found, values)).unwrap();
        }
        points.len()
    }

    /// A device of the thread's own is opened, works, and is lost or closed with work under way.
    fn lose(&mut self) {
        let image = image(&["mix params=24"]);
        let device = rig::open(self.own.opener()).unwrap();
        let control = self.own.device(self.own.opened() - 1);
        let mut mixer = Mixer::new(device.clone(), &image).unwrap();
        let (x, y) = (device.buffer(4 * LEN).unwrap(), device.buffer(4 * LEN).unwrap());
        x.memset(1).unwrap();
        let points: Vec<Point> = (0..4).map(|c| mixer.mix(&x, &y, c).unwrap()).collect();
        match self.random.below(3) {
            0 => {
                control.fault("the soak's");
                let lost =
                    points.iter().map(Point::wait).all(|answer| matches!(answer, Ok(()) | Err(Error::Lost { .. })));
                assert!(lost, "a fault is Lost");
            }
            1 => device.close(),
            _ => points[3].wait().unwrap(),
        }
        // An open of the name stops the lost one.
        drop((mixer, x, y, device));
        drop(rig::open(self.own.opener()).unwrap());
        if self.own.opened() > 200 {
            // The model remembers each of its devices.
            self.own.assert_clean();
            let name = format!("SOAK-{}", self.random.next());
            self.own = super::model(&name);
        }
    }

    fn profiled(&mut self) {
        let (submits, profile) = Profile::take(|| self.chain()).unwrap();
        // Other threads' are in it too.
        assert!(profile.values.len() >= submits, "{} values of at least {submits} submits", profile.values.len());
    }

    /// The caller's memory, worked in where it is.
    fn wrapped(&mut self) {
        let at = self.random.below(self.mixers.len());
        let memory = HostMemory::from_slice(&[2_u32; LEN]).unwrap();
        let Ok(x) = Buffer::from_host(&self.mixers[at].device, memory) else { return };
        let y = self.mixers[at].device.buffer(4 * LEN).unwrap();
        y.memset(0).unwrap();
        self.mixers[at].mix(&x, &y, 5).unwrap();
        drop(x);
        y.read(|y: &[u32]| assert!(y.iter().all(|y| *y == 7))).unwrap();
        self.mixers[at].device.reclaim();
    }

    /// Buffers of all sizes, beyond what the device has.
    fn short(&mut self) {
        let device = rig::open(self.own.opener()).unwrap();
        let mut held = Vec::new();
        for _ in 0..40 {
            let len = 1 << self.random.below(22);
            match device.buffer(len) {
                Ok(buffer) => {
                    buffer.memset(3).unwrap();
                    held.push(buffer);
                }
                Err(Error::OutOfMemory { .. }) => held.clear(),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

fn mix(x: &[u32], y: &mut [u32], c: u32) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = y.wrapping_mul(3).wrapping_add(*x).wrapping_add(c));
}
