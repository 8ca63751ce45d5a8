//! Which GPUs' windows the host may have written through, and so must flush before work reads there.
//!
//! A window's flush is its own GPU's, also where another GPU's work reads the memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::memory::Region;
use crate::raw::Raw;

/// The windows of regions that are live on a device or mapped by it.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// How many regions there are, of all windows.
    live: AtomicUsize,
    /// For each GPU, its register and how many regions of its window there are.
    of: Mutex<Vec<(u32, Raw, usize)>>,
}

impl Windows {
    /// Counts a region.
    pub fn add(&self, region: &Region) {
        let Some((gpu, register)) = region.window() else { return };
        let mut of = self.of.lock();
        match of.iter_mut().find(|(known, ..)| *known == gpu) {
            Some((.., count)) => *count += 1,
            None => of.push((gpu, register, 1)),
        }
        // ORDERING: Release: pairs with the Acquire of `flush`.
        self.live.fetch_add(1, Ordering::Release);
    }

    /// Counts a region no more.
    pub fn remove(&self, region: &Region) {
        let Some((gpu, _)) = region.window() else { return };
        let mut of = self.of.lock();
        if let Some((.., count)) = of.iter_mut().find(|(known, ..)| *known == gpu) {
            *count -= 1;
            self.live.fetch_sub(1, Ordering::Release);
        }
    }

    /// Flushes what the host wrote through each window that has a region. The caller has drained the processor's writes.
    #[inline]
    pub fn flush(&self) {
        // ORDERING: Acquire: pairs with the Release of `add`, before which the host wrote nothing there.
        if self.live.load(Ordering::Acquire) > 0 {
            self.of.lock().iter().filter(|(.., count)| *count > 0).for_each(|(_, register, _)| register.publish(0, 1));
        }
    }
}
