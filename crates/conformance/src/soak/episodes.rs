//! What a thread of the soak does, over and over.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rig::{Buffer, Device, Error, HostMemory, Point, Profile};

use super::mixer::{Due, LEN, Mixer};
use super::{Common, Kernels, Kind, Own};
use crate::rng::Rng;
use crate::suite::kit::{block_on, params_of, spun};

/// The budget of an episode of [`Kind::Short`].
pub(super) const SHORT_BUDGET: u64 = 4 << 20;

/// Why devices are lost.
const WHY: &str = "the soak's own loss";

/// TIMEOUT: how long a fault may take to show, and an object to be dropped, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a kind is drawn, of the sum of all.
fn weight(kind: Kind) -> usize {
    match kind {
        Kind::Words | Kind::Floats => 4,
        Kind::Losses | Kind::Closes | Kind::Faults => 2,
        _ => 1,
    }
}

/// One thread's load.
pub(super) struct Load<'c> {
    common: &'c Common,
    mixers: Vec<Mixer>,
    own: Box<dyn Own + 'c>,
    random: Rng,
}

impl<'c> Load<'c> {
    pub fn new(common: &'c Common, thread: u64, own: Box<dyn Own + 'c>) -> Load<'c> {
        let mixers = common.shared.iter().map(|(device, kernels)| Mixer::new(device, kernels).unwrap()).collect();
        Load { common, mixers, own, random: Rng::new(thread) }
    }

    /// One episode of each kind, beginning where no other thread does.
    pub fn first_round(&mut self, thread: u64) {
        let kinds = &self.common.kinds;
        let first = thread as usize * kinds.len() / super::THREADS as usize;
        for &kind in kinds[first..].iter().chain(&kinds[..first]) {
            self.episode(kind);
        }
    }

    pub fn any_episode(&mut self) {
        let kinds = &self.common.kinds;
        let mut drawn = self.random.below(kinds.iter().map(|&kind| weight(kind)).sum());
        let mut kinds = kinds.iter();
        // PANIC: what is drawn is below the sum.
        let kind = kinds.find(|&&kind| match drawn.checked_sub(weight(kind)) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        });
        self.episode(*kind.expect("a kind was drawn"));
    }

    /// One episode. See the [module](super)'s invariants.
    pub fn episode(&mut self, kind: Kind) {
        let _works = self.common.resting.read().unwrap_or_else(PoisonError::into_inner);
        match kind {
            Kind::Words => drop(self.words()),
            Kind::Floats => self.floats(),
            Kind::Futures => self.words().into_iter().for_each(|point| block_on(point).unwrap()),
            Kind::Profiles => self.profiled(),
            Kind::Borrows => self.borrowed(),
            Kind::Wraps => self.wrapped(),
            Kind::Images => self.loaded(),
            Kind::Keeps => self.kept(),
            Kind::Short => self.short(),
            Kind::Losses | Kind::Closes | Kind::Faults => self.ended(kind),
        }
        self.common.ended[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Work on integers over all shared devices. Gives the points of its work, which are reached.
    fn words(&mut self) -> Vec<Point> {
        let mut buffers = self.drawn(u32::MAX);
        // Something on each device, so that its profile has times of each.
        let start = self.random.next() as u32;
        let started =
            self.mixers.iter_mut().zip(&buffers).map(|(mixer, (buffer, _))| mixer.iota(buffer, start).unwrap());
        let mut points: Vec<Point> = started.collect();
        buffers.iter_mut().for_each(|(_, due)| *due = Due::iota(start));
        for _ in 0..4 + self.random.below(12) {
            let (a, b, c) =
                (self.random.below(buffers.len()), self.random.below(buffers.len()), self.random.next() as u32);
            match self.random.below(4) {
                0 => points.extend(self.copied(&mut buffers, a, b)),
                1 => {
                    buffers[a].0.memset(c as u8).unwrap();
                    buffers[a].1.fill(u32::from_ne_bytes([c as u8; 4]));
                }
                2 => {
                    points.push(self.mixers[a].iota(&buffers[a].0, c).unwrap());
                    buffers[a].1 = Due::iota(c);
                }
                _ => {
                    points.push(self.mixers[a].spin(&buffers[a].0, 1 + c % 3).unwrap());
                    buffers[a].1.spin(1 + c % 3);
                }
            }
        }
        if self.random.below(2) == 0 {
            points.iter().for_each(|point| point.wait().unwrap());
        }
        buffers.iter().for_each(|(buffer, due)| due.is_in(buffer));
        points
    }

    /// The same on floats. Each is a whole number below 2 to the 24th: below 2 to the 8th at first, and at most twice as much by each
    /// of 15 steps. So every device finds the same sums as the host.
    fn floats(&mut self) {
        let mut buffers = self.drawn(256);
        for (buffer, due) in &mut buffers {
            due.0.iter_mut().for_each(|word| *word = (*word as f32).to_bits());
            buffer.copy_from_slice(&due.0).unwrap();
        }
        for _ in 0..4 + self.random.below(12) {
            let (a, b) = (self.random.below(buffers.len()), self.random.below(buffers.len()));
            match self.random.below(4) {
                0 => drop(self.copied(&mut buffers, a, b)),
                1 => {
                    self.mixers[a].scale(&buffers[a].0, 2.0).unwrap();
                    buffers[a].1.scale(2.0);
                }
                // Memory that the device reaches where it is, or by a copy.
                _ if a != b => {
                    let there = self.mixers[b].buffer();
                    let x = buffers[a].0.borrow(&self.mixers[b].device).or_else(|_| {
                        let copy = there?;
                        buffers[a].0.copy_to(&copy).map(|_| copy)
                    });
                    self.mixers[b].add(&x.unwrap(), &buffers[b].0).unwrap();
                    let x = buffers[a].1.clone();
                    buffers[b].1.add(&x);
                }
                _ => {
                    buffers[a].0.memset(0).unwrap();
                    buffers[a].1.fill(0);
                }
            }
        }
        buffers.iter().for_each(|(buffer, due)| due.is_in(buffer));
    }

    /// A buffer of each shared device, with elements below a bound.
    fn drawn(&mut self, bound: u32) -> Vec<(Buffer, Due)> {
        let mut drawn = Vec::new();
        for mixer in &self.mixers {
            let due = Due((0..LEN).map(|_| self.random.next() as u32 % bound).collect());
            let buffer = mixer.buffer().unwrap();
            buffer.copy_from_slice(&due.0).unwrap();
            drawn.push((buffer, due));
        }
        drawn
    }

    fn copied(&self, buffers: &mut [(Buffer, Due)], from: usize, to: usize) -> Option<Point> {
        let copied = buffers[from].0.copy_to(&buffers[to].0).unwrap();
        buffers[to].1 = buffers[from].1.clone();
        self.common.copied(copied.path);
        copied.point
    }

    fn profiled(&mut self) {
        let (points, profile) = Profile::take(|| self.words()).unwrap();
        // Other threads' are in it too.
        let (values, submits) = (profile.values.len(), points.len());
        assert!(values >= submits, "{values} values of at least {submits} submits");
        let timed = profile.values.iter().filter(|value| value.ran.is_some());
        let shared = timed.filter(|value| self.mixers.iter().any(|mixer| *value.device == *mixer.device.name()));
        shared.for_each(|value| self.common.told_times(&value.device));
    }

    /// Two devices write the same memory by turns, and its handle goes while the second one works.
    fn borrowed(&mut self) {
        let (from, to) = self.common.pairs[self.random.below(self.common.pairs.len())];
        let x = self.mixers[from].buffer().unwrap();
        let borrow = x.borrow(&self.mixers[to].device).unwrap();
        let start = self.random.next() as u32;
        let mut due = Due::iota(start);
        self.mixers[from].iota(&x, start).unwrap();
        for _ in 0..1 + self.random.below(3) {
            self.mixers[to].spin(&borrow, 1).unwrap();
            self.mixers[from].spin(&x, 2).unwrap();
            due.spin(3);
        }
        self.mixers[to].spin(&borrow, 1).unwrap();
        due.spin(1);
        drop(x);
        due.is_in(&borrow);
    }

    /// The host's memory, worked in where it is.
    fn wrapped(&mut self) {
        let at = self.common.maps[self.random.below(self.common.maps.len())];
        let mixer = &mut self.mixers[at];
        let memory = HostMemory::from_slice(&[2_u32; LEN]).unwrap();
        let x = Buffer::from_host(&mixer.device, memory).unwrap();
        let y = mixer.buffer().unwrap();
        mixer.spin(&x, 5).unwrap();
        self.common.copied(x.copy_to(&y).unwrap().path);
        drop(x);
        Due(vec![spun(2, 5); LEN]).is_in(&y);
        mixer.device.reclaim();
    }

    /// An image is loaded, used and dropped, its handles before its work.
    fn loaded(&mut self) {
        let (device, kernels) = &self.common.shared[self.random.below(self.mixers.len())];
        let mut mixer = Mixer::new(device, kernels).unwrap();
        let y = mixer.buffer().unwrap();
        mixer.iota(&y, 7).unwrap();
        let z = mixer.buffer().unwrap();
        self.common.copied(y.copy_to(&z).unwrap().path);
        drop((mixer, y));
        Due::iota(7).is_in(&z);
    }

    /// A submission keeps an object until its work is done.
    fn kept(&mut self) {
        let (device, kernels) = &self.common.shared[self.random.below(self.mixers.len())];
        let drops: Arc<AtomicUsize> = Arc::default();
        let function = device.load(&kernels.image).and_then(|image| image.function("iota")).unwrap();
        let builder = device.submission().launch(&function, [rig::write(0)]).params(params_of(&function, 16));
        let mut run = builder.keep(Kept(Arc::clone(&drops))).make().unwrap().take();
        run.part(0).groups(kernels.groups).threads(kernels.threads).set(8, LEN as u32).set(12, 9_u32);
        let y = device.buffer(4 * LEN).unwrap();
        let point = crate::suite::kit::launch(&mut run, &[&y]).unwrap();
        assert_eq!(drops.load(Ordering::Relaxed), 0, "the run lives");
        drop(run);
        Due::iota(9).is_in(&y);
        point.wait().unwrap();
        let began = Instant::now();
        while drops.load(Ordering::Relaxed) == 0 {
            assert!(began.elapsed() < PATIENCE, "the object that a submission kept is not dropped after its work");
            device.reclaim();
            std::thread::yield_now();
        }
    }

    /// Buffers of all sizes, to the end of what the device may hold.
    fn short(&mut self) {
        let device = self.own.open().unwrap();
        device.set_budget(SHORT_BUDGET.min(device.budget()));
        let mut held = Vec::new();
        for _ in 0..20 {
            match device.buffer(1 << self.random.below(22)) {
                Ok(buffer) => {
                    buffer.memset(3).unwrap();
                    held.push(buffer);
                }
                Err(Error::OutOfMemory { .. }) => held.clear(),
                Err(other) => panic!("{other}"),
            }
        }
        let pieces = device.budget() >> 20;
        let end = (0..=pieces).map(|_| device.buffer(1 << 20).map(|buffer| held.push(buffer))).find(Result::is_err);
        assert!(matches!(end, Some(Err(Error::OutOfMemory { .. }))), "{end:?} past the budget");
        drop(held);
        device.buffer(1 << 20).unwrap().memset(1).unwrap();
        drop(device);
        self.own.closed();
    }

    /// A device of the thread's own works, ends with work under way, and is opened again.
    fn ended(&mut self, how: Kind) {
        let kernels: Kernels = self.own.kernels().clone();
        let device = self.own.open().unwrap();
        let mut mixer = Mixer::new(&device, &kernels).unwrap();
        let (x, y) = (mixer.buffer().unwrap(), mixer.buffer().unwrap());
        x.memset(0).unwrap();
        let mut points = vec![mixer.iota(&y, 1).unwrap(), mixer.add(&x, &y).unwrap()];
        // Work of a shared device that follows the lost one's, now and then.
        let shared = &self.mixers[self.random.below(self.mixers.len())];
        let follows = shared.buffer().unwrap();
        if self.random.below(2) == 0 {
            points.push(mixer.spin(&y, 1).unwrap());
            let copied = y.copy_to(&follows).unwrap();
            self.common.copied(copied.path);
            points.extend(copied.point);
        }
        points.extend((0..4).map(|_| mixer.spin(&y, kernels.spin_rounds.div_ceil(4)).unwrap()));
        match how {
            Kind::Closes => device.close(),
            Kind::Faults => self.fault(&mut mixer, &y),
            _ => device.lose(WHY),
        }
        let lost = |answer| matches!(answer, Ok(()) | Err(Error::Lost { .. }));
        assert!(points.iter().map(Point::wait).all(lost), "what is under way is done or Lost");
        assert!(matches!(device.buffer(4), Err(Error::Lost { .. })), "a device that has ended has no buffers");
        let mut handles: Vec<Box<dyn Any>> =
            vec![Box::new(mixer), Box::new(x), Box::new(y), Box::new(follows), Box::new(device)];
        while !handles.is_empty() {
            drop(handles.swap_remove(self.random.below(handles.len())));
        }
        // An open of the name stops a lost one.
        let again = self.own.open().unwrap();
        let mut mixer = Mixer::new(&again, &kernels).unwrap();
        let y = mixer.buffer().unwrap();
        mixer.iota(&y, 5).unwrap();
        Due::iota(5).is_in(&y);
        drop((again, mixer, y));
        self.own.closed();
    }

    /// Makes a device of the thread's own fault, and submits until that shows.
    fn fault(&mut self, mixer: &mut Mixer, y: &Buffer) {
        let device: Device = mixer.device.clone();
        self.own.fault(&device);
        let began = Instant::now();
        while device.lost().is_none() {
            let _ = mixer.spin(y, 1).and_then(|point| point.wait());
            assert!(began.elapsed() < PATIENCE, "the fault does not show");
        }
    }
}

/// Counts its drops.
struct Kept(Arc<AtomicUsize>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
