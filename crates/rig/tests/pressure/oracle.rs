//! The oracle: what a device must have room for, known from the requests and drops alone.
//!
//! It restates what the documentation of `Device::budget` promises, and shares no code with rig:
//!
//! 1. A buffer of more than 4 KiB takes at least its bytes, in whole words, and at most a sixteenth more.
//! 2. Smaller ones share regions of 64 KiB by size: the next power of two from the device's alignment and cache line. All of
//!    one size take at most as many regions as the most of them that lived at one time fill, since last none lived.
//! 3. An allocation succeeds if its bytes and the most that the others take fit the budget.

/// The largest buffer that shares a region.
pub const SMALL: usize = 4096;

/// The bytes of a shared region.
pub const SHARED: u64 = 65_536;

#[derive(Clone, Copy, Default)]
struct Class {
    live: u64,
    peak: u64,
}

pub struct Oracle {
    pub budget: u64,
    /// The least size of a small buffer's place.
    granule: usize,
    /// The bytes of live buffers as asked.
    pub asked: u64,
    /// The least that they can take.
    pub least: u64,
    /// The most that the large ones take.
    large: u64,
    /// By the logarithm of the size.
    classes: [Class; 13],
}

pub fn words(len: usize) -> u64 {
    len.next_multiple_of(4) as u64
}

impl Oracle {
    pub fn new(budget: u64, granule: usize) -> Oracle {
        Oracle { budget, granule, asked: 0, least: 0, large: 0, classes: [Class::default(); 13] }
    }

    fn class(&mut self, len: usize) -> &mut Class {
        &mut self.classes[len.next_power_of_two().max(self.granule).ilog2() as usize]
    }

    pub fn allocated(&mut self, len: usize) {
        self.asked += len as u64;
        self.least += words(len);
        if len > SMALL {
            self.large += words(len) + words(len) / 16;
        } else if len > 0 {
            let class = self.class(len);
            class.live += 1;
            class.peak = class.peak.max(class.live);
        }
    }

    pub fn dropped(&mut self, len: usize) {
        self.asked -= len as u64;
        self.least -= words(len);
        if len > SMALL {
            self.large -= words(len) + words(len) / 16;
        } else if len > 0 {
            let class = self.class(len);
            class.live -= 1;
            if class.live == 0 {
                class.peak = 0;
            }
        }
    }

    /// The most that the live buffers take.
    pub fn most(&self) -> u64 {
        let classes = self.classes.iter().enumerate().map(|(log, class)| {
            // One place less in each region, since a region may start off a place's alignment.
            let places = (SHARED >> log).saturating_sub(1).max(1);
            class.peak.div_ceil(places) * SHARED
        });
        self.large + classes.sum::<u64>()
    }

    /// Whether a buffer must be had now.
    pub fn fits(&self, len: usize) -> bool {
        self.most() + words(len) <= self.budget
    }
}
