//! Which parts of a submission wait for which others.
//!
//! Pure. Parts that share no slot which one of them writes may run at once (N05), provided that no two slots of the run
//! share memory. Where two do, the parts run in a line.
//!
//! # Lanes
//!
//! Each part that waits for nothing costs the host a microsecond in every submit, and each that waits for another costs the
//! GPU one beyond what it runs. So at most [`LANES`] parts are left without an order among them. A hundred small launches
//! took the host and the GPU of an H200 25 and 162 us in a line, 25 and 65 in four lanes, 27 and 51 in eight, and 96 and 101
//! with no order at all.
//!
//! # Invariants
//!
//! 1. A part comes after each earlier part that writes what it reads or writes, and after each that reads what it writes: by
//!    an edge, or by a path of edges.
//! 2. Every edge leads from an earlier part to a later one.

use rig_edge::{Access, Part};

use crate::Cuda;

/// How many parts may run at once.
const LANES: usize = 4;

/// Above this many parts, edges that a path of others stands for stay: finding them takes a bit for each pair.
const REDUCED_MOST: usize = 4096;

/// The order of some parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edges {
    /// For each part, the earlier ones that it waits for, rising.
    before: Vec<Vec<usize>>,
}

/// Who used a slot, up to some part.
#[derive(Clone, Default)]
struct Used {
    /// The last that wrote it.
    written: Option<usize>,
    /// Who read it since.
    read: Vec<usize>,
}

impl Edges {
    /// Parts one after the other.
    pub fn line(parts: usize) -> Edges {
        Edges { before: (0..parts).map(|part| part.checked_sub(1).into_iter().collect()).collect() }
    }

    /// Parts that wait for what their slots ask for, in lanes. Fills are no part of graphs.
    pub fn of_slots(parts: &[Part<Cuda>]) -> Edges {
        let uses = parts.iter().map(|part| match part {
            Part::Launch(launch) => launch.refs.iter().map(|of| (of.slot, of.access)).collect(),
            Part::Copy(copy) => vec![(copy.from, Access::Read), (copy.to, Access::Write)],
            Part::Memset(memset) => vec![(memset.slot, Access::Write)],
            Part::Fill(_) => Vec::new(),
        });
        let mut edges = Edges::of_uses(uses);
        edges.narrow(LANES);
        if parts.len() <= REDUCED_MOST {
            edges.reduce();
        }
        edges
    }

    fn of_uses(parts: impl IntoIterator<Item = Vec<(u32, Access)>>) -> Edges {
        let mut slots: Vec<Used> = Vec::new();
        let mut edges = Edges { before: Vec::new() };
        for (index, mut uses) in parts.into_iter().enumerate() {
            // Each slot once: what is read and written counts as written.
            uses.sort_unstable_by_key(|&(slot, access)| (slot, access == Access::Read));
            uses.dedup_by_key(|&mut (slot, _)| slot);
            let mut before = Vec::new();
            for (slot, access) in uses {
                let slot = slot as usize;
                if slots.len() <= slot {
                    slots.resize(slot + 1, Used::default());
                }
                slots[slot].meet(index, access, &mut before);
            }
            before.sort_unstable();
            before.dedup();
            edges.before.push(before);
        }
        edges
    }

    /// Adds edges until no more than `lanes` parts are without an order: each part follows another in a lane.
    fn narrow(&mut self, lanes: usize) {
        // Where each lane ends, and how many parts the longest path to each part has.
        let (mut ends, mut depths): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for (part, before) in self.before.iter_mut().enumerate() {
            let follows = ends.iter().position(|end| before.contains(end));
            match follows {
                Some(lane) => ends[lane] = part,
                None if ends.len() < lanes => ends.push(part),
                None => {
                    // The lane that is done the soonest, as far as is known.
                    if let Some(end) = ends.iter_mut().min_by_key(|end| depths[**end]) {
                        before.push(*end);
                        before.sort_unstable();
                        *end = part;
                    }
                }
            }
            depths.push(depth_after(before, &depths));
        }
    }

    /// Leaves out each edge that a path of others stands for.
    fn reduce(&mut self) {
        let words = self.before.len().div_ceil(64);
        // For each part, a bit for every part that comes before it.
        let mut known: Vec<Vec<u64>> = Vec::with_capacity(self.before.len());
        for before in &mut self.before {
            let mut bits = vec![0_u64; words];
            // From the last on: a path leads through later parts.
            let mut kept = Vec::with_capacity(before.len());
            for &part in before.iter().rev() {
                let (word, bit) = (part / 64, 1 << (part % 64));
                if bits[word] & bit == 0 {
                    kept.push(part);
                    bits.iter_mut().zip(&known[part]).for_each(|(mine, theirs)| *mine |= theirs);
                    bits[word] |= bit;
                }
            }
            kept.reverse();
            *before = kept;
            known.push(bits);
        }
    }

    /// The parts that a part waits for.
    pub fn before(&self, part: usize) -> &[usize] {
        &self.before[part]
    }

    /// The parts that no other waits for.
    pub fn leaves(&self) -> Vec<usize> {
        let mut is_leaf = vec![true; self.before.len()];
        self.before.iter().flatten().for_each(|&part| is_leaf[part] = false);
        (0..is_leaf.len()).filter(|&part| is_leaf[part]).collect()
    }

    /// Whether the order is worth a graph of its own beside the line.
    pub fn is_wide(&self) -> bool {
        self.depth() < self.before.len()
    }

    /// How many parts the longest path has.
    fn depth(&self) -> usize {
        let mut depths: Vec<usize> = Vec::with_capacity(self.before.len());
        for before in &self.before {
            depths.push(depth_after(before, &depths));
        }
        depths.into_iter().max().unwrap_or(0)
    }
}

/// How many parts the longest path to a part has, which comes after these.
fn depth_after(before: &[usize], depths: &[usize]) -> usize {
    1 + before.iter().map(|&part| depths[part]).max().unwrap_or(0)
}

impl Used {
    /// Notes a part's use of the slot, and whom it waits for.
    fn meet(&mut self, part: usize, access: Access, before: &mut Vec<usize>) {
        match access {
            Access::Read => {
                before.extend(self.written);
                self.read.push(part);
            }
            // Who read the slot since its last write waits for that write.
            Access::Write => {
                if self.read.is_empty() {
                    before.extend(self.written);
                }
                before.append(&mut self.read);
                self.written = Some(part);
            }
        }
    }
}

#[cfg(test)]
#[path = "edges_tests.rs"]
mod tests;
