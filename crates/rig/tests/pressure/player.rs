//! Plays a trace on one model device, and holds every step against the oracle.

use std::time::{Duration, Instant};

use rig::{Buffer, Device, Error};
use rig_conformance::model::{Model, ModelDevice, Options};

use crate::oracle::{Oracle, words};
use crate::trace::{BUDGET, Random, Sizes};

/// The alignment of the model's regions, and so the least place of a small buffer.
pub const GRANULE: usize = 256;

/// A live buffer, and the bytes that it must hold.
pub struct Held {
    pub buffer: Buffer,
    pub tag: u8,
}

impl Held {
    /// Writes the first and the last bytes.
    pub fn new(buffer: Buffer, tag: u8) -> Held {
        let ends = buffer.write(|bytes: &mut [u8]| {
            let end = bytes.len().min(8);
            bytes[..end].fill(tag);
            let start = bytes.len() - end;
            bytes[start..].fill(tag);
        });
        ends.unwrap();
        Held { buffer, tag }
    }

    #[track_caller]
    pub fn check(&self) {
        let (len, tag) = (self.buffer.len(), self.tag);
        let right = self.buffer.read(|bytes: &[u8]| {
            let end = bytes.len().min(8);
            bytes[..end].iter().chain(&bytes[bytes.len() - end..]).all(|byte| *byte == tag)
        });
        assert!(right.unwrap(), "a buffer of {len} bytes lost its bytes");
    }
}

/// What a trace came to.
#[derive(Default)]
pub struct Report {
    pub allocations: u64,
    pub refused: u64,
    pub time: Duration,
    /// Sums of bytes taken and asked, each time that at least 85% of the budget was asked for.
    taken: u64,
    asked: u64,
    pub worst: f64,
}

pub struct Player {
    pub model: Model,
    pub control: ModelDevice,
    pub device: Device,
    pub random: Random,
    pub oracle: Oracle,
    pub held: Vec<Held>,
    pub report: Report,
    /// What the device takes beside buffers.
    pub code: u64,
}

impl Player {
    pub fn new(name: &str, seed: u64, options: Options) -> Player {
        let options = options.budget(BUDGET).alignment(GRANULE);
        Player::of(&Model::with(&format!("{name}-{seed}"), options), seed)
    }

    /// Opens one more device of the model.
    pub fn of(model: &Model, seed: u64) -> Player {
        let device = rig::open(model.opener()).unwrap();
        let control = model.device(model.opened() - 1);
        Player {
            model: model.clone(),
            control,
            device,
            random: Random::new(seed),
            oracle: Oracle::new(BUDGET, GRANULE),
            held: Vec::new(),
            report: Report::default(),
            code: 0,
        }
    }

    /// One buffer more, unless the device has no room and the oracle agrees.
    pub fn allocate(&mut self, len: usize) -> Option<&mut Held> {
        let start = Instant::now();
        let made = self.device.buffer(len);
        self.report.time += start.elapsed();
        self.report.allocations += 1;
        match made {
            Ok(buffer) => {
                assert_eq!(buffer.len(), len);
                self.oracle.allocated(len);
                let tag = self.random.next() as u8;
                self.held.push(Held::new(buffer, tag));
                self.held.last_mut()
            }
            Err(Error::OutOfMemory { bytes }) => {
                assert_eq!(bytes, len as u64);
                self.agree(len);
                None
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Whether the oracle agrees that there is no room, and all bytes are right.
    #[track_caller]
    fn agree(&mut self, len: usize) {
        self.report.refused += 1;
        let (most, asked) = (self.oracle.most(), self.oracle.asked);
        assert!(!self.oracle.fits(len), "{len} bytes must fit beside {asked}, which take at most {most}");
        assert!(self.device.allocated() + words(len) > BUDGET, "rig's own count does not agree");
        if self.report.refused.is_power_of_two() {
            self.held.iter().for_each(Held::check);
        }
    }

    /// Drops any one, after a look at its bytes.
    pub fn drop_one(&mut self) {
        let index = self.random.below(self.held.len());
        let held = self.held.swap_remove(index);
        held.check();
        self.oracle.dropped(held.buffer.len());
    }

    /// What must hold after every step of a device with no work in flight.
    #[track_caller]
    pub fn check(&mut self) {
        let (live, cached) = (self.device.allocated() - self.code, self.device.cached());
        let (least, most) = (self.oracle.least, self.oracle.most());
        assert!((least..=most).contains(&live), "{live} bytes taken, not {least} to {most}");
        assert!(live + cached + self.code <= BUDGET, "{live} and {cached} pass the budget");
        assert_eq!(self.control.live_bytes(), live + cached + self.code, "what the driver holds");
        if self.oracle.asked >= BUDGET / 100 * 85 {
            self.report.taken += live;
            self.report.asked += self.oracle.asked;
            self.report.worst = self.report.worst.max(live as f64 / self.oracle.asked as f64);
        }
    }

    /// One step: an allocation that at most nine tenths of the budget leave room for, which others are dropped to make; or
    /// one of about what is left, which may not fit.
    pub fn step(&mut self, sizes: Sizes, n: u64) {
        if self.random.one_in(32) {
            let left = (BUDGET - self.oracle.asked) as usize;
            let len = left / 2 + self.random.below(left);
            if self.allocate(len).is_some() {
                self.check();
                let last = self.held.pop().unwrap();
                self.oracle.dropped(last.buffer.len());
            }
            return;
        }
        let len = sizes.pick(&mut self.random, n);
        while self.oracle.asked + len as u64 > BUDGET / 10 * 9 {
            self.drop_one();
        }
        self.allocate(len);
        // Programs also end phases, and begin anew with half of what they had.
        if self.random.one_in(1000) {
            (0..self.held.len() / 2).for_each(|_| self.drop_one());
        }
    }

    /// Drops the rest: all memory must come back, to the cache and from there to the driver.
    pub fn finish(mut self, what: &str) -> Report {
        self.held.iter().for_each(Held::check);
        self.held.clear();
        // What was dropped in flight comes back once its work is done, on whichever device.
        (0..self.model.opened()).for_each(|index| self.model.device(index).commit_now());
        self.model.complete_all();
        assert_eq!(self.device.allocated(), self.code);
        self.device.set_budget(0);
        assert_eq!(self.device.cached(), 0);
        assert_eq!(self.control.live_bytes(), self.code);
        let report = std::mem::take(&mut self.report);
        let (calls, n) = (self.control.calls(), report.allocations.max(1));
        let each = |count: u64| count as f64 / n as f64;
        println!(
            "{what}: {} allocations, of which {} out of memory; each {:.3} driver allocs, {:.3} sleeps, {} ns",
            report.allocations,
            report.refused,
            each(calls.alloc),
            each(calls.sleep),
            report.time.as_nanos() / u128::from(n),
        );
        if report.asked > 0 {
            let mean = report.taken as f64 / report.asked as f64;
            println!("{what}: at 90% of the budget {mean:.3} bytes taken for one asked, {:.3} at worst", report.worst);
        }
        self.model.assert_clean();
        report
    }
}
