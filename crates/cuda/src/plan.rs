//! What a graph holds, and what of it a run changes.
//!
//! Pure: what a run asks for is compared with what the graph holds, and only what differs goes to a [`Patch`], the graph's
//! own calls. So the comparison is the same code in a test without a GPU.
//!
//! # Invariants
//!
//! 1. `Held` says what the graph's next launch does, exactly: it changes when a call succeeded, and a part whose call
//!    failed counts as unknown until one succeeds.

use rig_edge::{Block, Part, Ref, Slot, Work};

use crate::Cuda;
use crate::sys::Failure;
use crate::sys::abi::Function;
use crate::sys::stream::Shape;

/// A made graph whose nodes can be changed: one node a part, of the part's index.
pub(crate) trait Patch {
    /// Changes a launch. The parameters are copied.
    fn launch(&mut self, node: usize, function: Function, shape: &Shape, params: &mut [u8]) -> Result<(), Failure>;
    /// Changes a copy of some bytes.
    fn copy(&mut self, node: usize, from: u64, to: u64, len: u64) -> Result<(), Failure>;
    /// Changes a memset of some bytes.
    fn memset(&mut self, node: usize, at: u64, byte: u8, len: u64) -> Result<(), Failure>;
    /// Runs the node or leaves it out.
    fn enable(&mut self, node: usize, enabled: bool) -> Result<(), Failure>;
}

/// What a graph holds.
#[derive(Debug)]
pub(crate) struct Held {
    parts: Box<[HeldPart]>,
    /// The parameters of all launches, with the addresses at their refs.
    params: Box<[u8]>,
    /// Room for one launch's.
    stage: Box<[u8]>,
    /// What the last run asked for, all of which the graph holds; none after a failure.
    last: Option<Asked>,
}

/// What a run asked for, as rig gave it: the same again needs no look at the parts.
#[derive(Debug, Default)]
struct Asked {
    blocks: Vec<Block>,
    params: Vec<u8>,
    /// Each slot's address and length.
    slots: Vec<(u64, u64)>,
}

impl Asked {
    /// Whether the work asks for the same. Notes what it asks for, where not.
    fn again(&mut self, work: &Work<'_>) -> bool {
        let blocks = self.blocks == work.blocks;
        if !blocks {
            self.blocks.clear();
            self.blocks.extend_from_slice(work.blocks);
        }
        let params = self.params == work.params;
        if !params {
            self.params.clear();
            self.params.extend_from_slice(work.params);
        }
        let asks = || work.slots.iter().map(|slot| (slot.device, slot.len));
        let slots = self.slots.iter().copied().eq(asks());
        if !slots {
            self.slots.clear();
            self.slots.extend(asks());
        }
        blocks && params && slots
    }
}

/// What one node of a graph holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldPart {
    /// A launch, whose parameters start here; no shape where it is not known.
    Launch { params_at: usize, shape: Option<Shape> },
    /// A copy or a memset.
    Move { bytes: Option<Bytes>, enabled: bool },
    /// A fill, which no graph holds.
    Fill,
}

/// The bytes that a copy or a memset moves: where from (a memset's nowhere), where to, how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bytes {
    from: u64,
    to: u64,
    len: u64,
}

/// A part that the graph did not take.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub part: usize,
    pub failure: Failure,
    /// Whether the part is a launch, which runs no other way either.
    pub is_launch: bool,
}

impl Shape {
    /// A block's.
    #[inline]
    pub fn of(block: &Block) -> Shape {
        Shape { groups: block.groups, threads: block.threads, group_bytes: block.group_bytes }
    }
}

/// Writes a launch's parameters as the function reads them: at each ref, the slot's address plus the offset that stands
/// there.
#[inline]
pub(crate) fn resolve(params: &[u8], refs: &[Ref], slots: &[Slot], into: &mut [u8]) {
    into.copy_from_slice(params);
    for r in refs {
        let at = r.at as usize;
        let place = &mut into[at..at + 8];
        // PANIC: the place was cut to 8 bytes.
        let offset = u64::from_ne_bytes(place.try_into().expect("8 bytes"));
        place.copy_from_slice(&(slots[r.slot as usize].device + offset).to_ne_bytes());
    }
}

impl Held {
    /// What a new graph of these parts holds: nothing that is known.
    pub fn new(parts: &[Part<Cuda>]) -> Held {
        let (mut end, mut longest) = (0, 0);
        let parts = parts.iter().map(|part| match part {
            Part::Launch(launch) => {
                let params_at = end;
                end += launch.entry.params;
                longest = longest.max(launch.entry.params);
                HeldPart::Launch { params_at, shape: None }
            }
            Part::Copy(_) | Part::Memset(_) => HeldPart::Move { bytes: None, enabled: true },
            Part::Fill(_) => HeldPart::Fill,
        });
        let parts = parts.collect();
        Held { parts, params: vec![0; end].into(), stage: vec![0; longest].into(), last: None }
    }

    /// Whether the last run had these grids, which were seen to be within the limits.
    #[inline]
    pub fn knows(&self, blocks: &[Block]) -> bool {
        self.last.as_ref().is_some_and(|last| last.blocks == blocks)
    }

    /// Changes what differs from what the work asks for. The parameters of launches have their functions' lengths.
    #[inline]
    pub fn patch(&mut self, parts: &[Part<Cuda>], work: &Work<'_>, graph: &mut impl Patch) -> Result<(), Refusal> {
        let mut last = self.last.take();
        if last.get_or_insert_default().again(work) {
            self.last = last;
            return Ok(());
        }
        self.patch_parts(parts, work, graph)?;
        self.last = last;
        Ok(())
    }

    fn patch_parts(&mut self, parts: &[Part<Cuda>], work: &Work<'_>, graph: &mut impl Patch) -> Result<(), Refusal> {
        for (index, (part, block)) in parts.iter().zip(work.blocks).enumerate() {
            let (done, is_launch) = match part {
                Part::Launch(launch) => {
                    let of = (launch.entry.function, &*launch.refs);
                    (self.patch_launch(index, of, block, work, graph), true)
                }
                Part::Copy(copy) => {
                    let (from, to) = (&work.slots[copy.from as usize], &work.slots[copy.to as usize]);
                    let bytes = Bytes { from: from.device, to: to.device, len: from.len.min(to.len) };
                    let set = |graph: &mut _, bytes: Bytes| Patch::copy(graph, index, bytes.from, bytes.to, bytes.len);
                    (self.patch_move(index, bytes, graph, set), false)
                }
                Part::Memset(memset) => {
                    let slot = &work.slots[memset.slot as usize];
                    let bytes = Bytes { from: 0, to: slot.device, len: slot.len };
                    let set =
                        |graph: &mut _, bytes: Bytes| Patch::memset(graph, index, bytes.to, memset.byte, bytes.len);
                    (self.patch_move(index, bytes, graph, set), false)
                }
                Part::Fill(_) => (Ok(()), false),
            };
            if let Err(failure) = done {
                return Err(Refusal { part: index, failure, is_launch });
            }
        }
        Ok(())
    }

    #[inline]
    fn patch_launch(
        &mut self,
        index: usize,
        (function, refs): (Function, &[Ref]),
        block: &Block,
        work: &Work<'_>,
        graph: &mut impl Patch,
    ) -> Result<(), Failure> {
        let HeldPart::Launch { params_at, shape: held } = &mut self.parts[index] else {
            return Ok(());
        };
        let params = work.params_of(block);
        let stage = &mut self.stage[..params.len()];
        resolve(params, refs, work.slots, stage);
        let shape = Shape::of(block);
        let known = &mut self.params[*params_at..*params_at + params.len()];
        if *held == Some(shape) && known == stage {
            return Ok(());
        }
        *held = None;
        graph.launch(index, function, &shape, stage)?;
        *held = Some(shape);
        known.copy_from_slice(stage);
        Ok(())
    }

    /// A node of no bytes is left out, since CUDA takes no such node.
    fn patch_move<G: Patch>(
        &mut self,
        index: usize,
        bytes: Bytes,
        graph: &mut G,
        set: impl FnOnce(&mut G, Bytes) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let HeldPart::Move { bytes: held, enabled } = &mut self.parts[index] else {
            return Ok(());
        };
        let due = bytes.len > 0;
        if due && *held != Some(bytes) {
            *held = None;
            set(graph, bytes)?;
            *held = Some(bytes);
        }
        if *enabled != due {
            graph.enable(index, due)?;
            *enabled = due;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
