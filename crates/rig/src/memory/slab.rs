//! Regions that small buffers share.

use rig_edge::Location;

/// The bytes of a region that small buffers share: 1,024 of the smallest, in 16 pages of 4 KiB.
pub(crate) const SLAB_BYTES: usize = 64 * 1024;

/// The largest buffer that shares a region: a sixteenth of it, so that a slab's tail wastes little.
pub(crate) const SMALL_MAX: usize = SLAB_BYTES / 16;

/// The granules of a shared region.
pub(super) struct Slab {
    pub(super) class: usize,
    granule: usize,
    /// Granules that were used and are free again.
    again: Vec<u16>,
    /// The first granule that was never used.
    fresh: u16,
    used: u16,
    /// Where the first granule starts: the region may start off the granules' own alignment, and no two granules may share
    /// a cache line.
    skip: usize,
    /// The region's place among those of its class with a free granule, while it stands there.
    pub(super) at: usize,
}

impl Slab {
    pub(super) fn new(class: usize, granule: usize, location: &Location) -> Slab {
        let mut slab = Slab { class, granule, again: Vec::new(), fresh: 0, used: 0, skip: 0, at: 0 };
        slab.begin(class, granule, location);
        slab
    }

    /// Makes a slab of which nothing is used one of another class.
    pub(super) fn begin(&mut self, class: usize, granule: usize, location: &Location) {
        let start = if location.host.is_null() { location.device as usize } else { location.host.addr() };
        self.again.clear();
        (self.class, self.granule, self.fresh, self.used) = (class, granule, 0, 0);
        self.skip = start.next_multiple_of(granule) - start;
    }

    fn count(&self) -> u16 {
        ((SLAB_BYTES - self.skip) / self.granule) as u16
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == self.count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Takes a granule of a slab that is not full, and gives its offset in the region.
    pub(super) fn take(&mut self) -> usize {
        self.used += 1;
        let index = self.again.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        });
        self.skip + usize::from(index) * self.granule
    }

    /// Gives back the granule at an offset that `take` gave.
    pub(super) fn give(&mut self, offset: usize) {
        self.again.push(((offset - self.skip) / self.granule) as u16);
        self.used -= 1;
    }
}
