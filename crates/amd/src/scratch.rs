//! Scratch: the memory behind the private memory of functions.
//!
//! A queue has one scratch for all its launches, parted into pieces of one size, one for each wave that may run at a time. The
//! queue's page names it, and the packet processor reads that page for each launch. `entry` makes scratch that is large
//! enough for its function; the page gets to know of it on the compute queue itself, by a command before the first launch that
//! needs it. So launches before that run on with the scratch that they had.
//!
//! # Invariants
//!
//! 1. The newest scratch is enough for every function that `entry` was asked for: it only grows.
//! 2. The page names a scratch that is enough for a launch whenever the packet processor takes the launch.
//! 3. A scratch that the page has named is freed once the word shows the value in which the page was given another, and one
//!    that it never named once a larger one is made. At the device's end all go.

use rig_edge::Fault;

use crate::Amd;
use crate::gpu::Gpu;
use crate::hal::ScratchSize;
use crate::kfd::Result;
use crate::memory::{Kind, is_short};
use crate::queue::Own;

/// Words of the page that say which scratch the queue has, from `compute_tmpring_size` on.
pub(crate) const FIELDS: usize = 10;

/// Memory for all waves that may run at a time.
#[derive(Debug)]
pub(crate) struct Area {
    size: ScratchSize,
    fields: [u32; FIELDS],
    memory: Own,
}

impl Area {
    fn new(gpu: &Gpu, size: ScratchSize) -> Result<Area> {
        let memory = Own::new(gpu, Kind::Vram, size.bytes as usize)?;
        Ok(Area { size, fields: gpu.chip().scratch_fields(memory.address(), &size), memory })
    }
}

/// The scratch of a device's compute queue.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// What the page will name, once a launch needs it.
    next: Option<Area>,
    /// What the page names.
    named: Option<Area>,
    /// What it named, each with the value in which it was given another.
    before: Vec<(u64, Own)>,
}

impl Scratch {
    /// The size of a wave's piece of the newest scratch, in the chip's units; 0 where there is none.
    pub fn units(&self) -> u32 {
        self.next.as_ref().or(self.named.as_ref()).map_or(0, |area| area.size.units)
    }

    /// Takes a larger scratch; gives back the one that the page was never given.
    fn grow(&mut self, area: Area) -> Option<Own> {
        // So that `name` does not allocate.
        self.before.reserve(1);
        self.next.replace(area).map(|area| area.memory)
    }

    /// What the page is to hold from the value `value` on: the newest scratch.
    pub fn name(&mut self, value: u64) -> [u32; FIELDS] {
        if let Some(next) = self.next.take()
            && let Some(before) = self.named.replace(next)
        {
            self.before.push((value, before.memory));
        }
        // PANIC: a launch that needs scratch has an entry, which made it.
        self.named.as_ref().expect("scratch for a launch that needs it").fields
    }

    /// Takes out what no work uses once the word shows `word`.
    fn unused(&mut self, word: u64) -> Vec<Own> {
        let (gone, kept) = std::mem::take(&mut self.before).into_iter().partition(|(value, _)| *value <= word);
        // Its room stays: `name` allocates nothing.
        self.before = kept;
        self.before.reserve(1);
        Vec::into_iter(gone).map(|(_, own)| own).collect()
    }

    /// All of it, at the end.
    pub fn all(self) -> impl Iterator<Item = Own> {
        let areas = [self.next, self.named].into_iter().flatten().map(|area| area.memory);
        areas.chain(self.before.into_iter().map(|(_, own)| own))
    }
}

/// What came of a wish for scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grown {
    /// There is enough.
    Enough,
    /// There is no memory for so many bytes.
    NoMemory(u64),
}

impl Amd {
    /// Makes scratch whose pieces have `units`, if there is none yet.
    pub(crate) fn grow_scratch(&self, units: u32) -> std::result::Result<Grown, Fault> {
        let _one = self.growing.lock();
        let stopped = || Fault::new("the device is stopped");
        self.free_scratch();
        if self.hot.lock().as_ref().ok_or_else(stopped)?.scratch.units() >= units {
            return Ok(Grown::Enough);
        }
        let size = self.gpu.chip().scratch_size(self.gpu.node(), units);
        let area = match Area::new(&self.gpu, size) {
            Ok(area) => area,
            Err(failure) if is_short(&failure) => return Ok(Grown::NoMemory(size.bytes)),
            Err(failure) => return Err(self.gpu.fault(&failure)),
        };
        let spare = match self.hot.lock().as_mut() {
            Some(hot) => hot.scratch.grow(area),
            None => Some(area.memory),
        };
        self.give_back(spare);
        Ok(Grown::Enough)
    }

    /// Frees scratch that no work uses any more. Whether there was any.
    pub(crate) fn free_scratch(&self) -> bool {
        let unused = self.hot.lock().as_mut().map_or_else(Vec::new, |hot| hot.scratch.unused(self.word.load()));
        let any = !unused.is_empty();
        self.give_back(unused);
        any
    }

    fn give_back(&self, unused: impl IntoIterator<Item = Own>) {
        for own in unused {
            // SAFETY: the page names it no more and no launch in flight uses it, or it never did: invariant 3.
            #[expect(unsafe_code, reason = "gives memory back")]
            unsafe {
                own.free(&self.gpu);
            }
        }
    }
}
