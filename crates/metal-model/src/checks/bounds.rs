//! What a pointer may reach, from its root on.
//!
//! Invariant: the three numbers of a pointer are there wherever the pointer is: they are computed where it is, from
//! numbers that are there by the same argument; those of a phi are phis beside it.

use std::collections::HashMap;
use std::mem::offset_of;

use super::Size;
use super::build::{Build, Made};
use crate::address::GPU_BIAS;
use crate::jit::abi::{GroupContext, SLOTS};
use crate::jit::llvm::Value;

/// Whose memory it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Memory {
    /// Device and constant memory, by GPU addresses.
    Device,
    Threadgroup,
    /// The thread's own.
    Private,
}

/// What a pointer may reach, and where in it the pointer is.
#[derive(Clone, Copy)]
pub(super) struct Range<'c> {
    pub(super) memory: Memory,
    /// Bytes from the range's start to the pointer, of 64 bits that wrap.
    pub(super) offset: Value<'c>,
    /// The range's bytes.
    pub(super) bytes: Value<'c>,
    /// The address of the pointer's root.
    pub(super) root: Value<'c>,
}

impl Range<'_> {
    /// Whether it is known here and now that so many bytes are inside.
    pub(super) fn holds(&self, size: Size<'_>) -> bool {
        let (Some(offset), Some(bytes), Size::Fixed(size)) =
            (self.offset.constant_int(), self.bytes.constant_int(), size)
        else {
            return false;
        };
        self.memory != Memory::Device && offset <= bytes && size <= bytes - offset
    }
}

/// The ranges of one function's pointers.
pub(super) struct Bounds<'b, 'c> {
    build: &'b Build<'c>,
    reach: Value<'c>,
    known: HashMap<Value<'c>, Option<Range<'c>>>,
}

impl<'b, 'c> Bounds<'b, 'c> {
    pub(super) fn new(build: &'b Build<'c>, reach: Value<'c>) -> Self {
        Self { build, reach, known: HashMap::new() }
    }

    /// What a pointer may reach; none where nothing is known of it that a check could compare.
    pub(super) fn of(&mut self, pointer: Value<'c>) -> Option<Range<'c>> {
        if let Some(known) = self.known.get(&pointer) {
            return *known;
        }
        if self.memory(pointer).is_none_or(|memory| memory != Memory::Device && self.unknown(pointer, &mut Vec::new()))
        {
            self.known.insert(pointer, None);
            return None;
        }
        let range = self.make(pointer);
        self.known.insert(pointer, range);
        range
    }

    /// The memory of a pointer's address space.
    fn memory(&self, pointer: Value<'c>) -> Option<Memory> {
        match pointer.kind().space()? {
            0 => Some(Memory::Private),
            1 | 2 => Some(Memory::Device),
            3 => Some(Memory::Threadgroup),
            _ => None,
        }
    }

    /// Whether a pointer to threadgroup or private memory may come from what is no variable.
    fn unknown(&self, pointer: Value<'c>, seen: &mut Vec<Value<'c>>) -> bool {
        if seen.contains(&pointer) {
            return false;
        }
        seen.push(pointer);
        match self.build.made_by(pointer) {
            Made::Steps => self.build.steps(pointer).is_none_or(|steps| self.unknown(steps.base, seen)),
            Made::Same(base) => base.kind().space() != pointer.kind().space() || self.unknown(base, seen),
            Made::Phi(values) => values.into_iter().any(|(value, _)| self.unknown(value, seen)),
            Made::Select(_, yes, no) => self.unknown(yes, seen) || self.unknown(no, seen),
            Made::Place(_) | Made::Variable(_) | Made::Nothing => false,
            Made::Load(from) => self.slot(pointer, from).is_none(),
            Made::Parameter | Made::Other => true,
        }
    }

    fn make(&mut self, pointer: Value<'c>) -> Option<Range<'c>> {
        let memory = self.memory(pointer)?;
        let zero = self.build.int(0);
        let whole = |bytes| Some(Range { memory, offset: zero, bytes, root: zero });
        match self.build.made_by(pointer) {
            Made::Steps => self.stepped(pointer),
            Made::Same(base) if base.kind().space() == pointer.kind().space() => self.of(base),
            Made::Phi(values) => self.joined(pointer, memory, values),
            Made::Select(condition, yes, no) => {
                let (yes, no) = (self.of(yes)?, self.of(no)?);
                self.build.after(pointer);
                let choose = |yes, no| self.build.select(condition, yes, no);
                Some(Range {
                    memory,
                    offset: choose(yes.offset, no.offset),
                    bytes: choose(yes.bytes, no.bytes),
                    root: choose(yes.root, no.root),
                })
            }
            Made::Nothing => whole(zero),
            Made::Place(bytes) | Made::Variable(bytes) if memory != Memory::Device => whole(self.build.int(bytes)),
            Made::Load(from) => match self.slot(pointer, from) {
                Some(lengths) => self.bound(pointer, memory, lengths),
                None => self.reached(pointer),
            },
            _ => self.reached(pointer),
        }
    }

    /// The range of a pointer so many steps from another.
    fn stepped(&mut self, pointer: Value<'c>) -> Option<Range<'c>> {
        let steps = self.build.steps(pointer)?;
        if let (Made::Variable(bytes), Some(Memory::Device)) = (self.build.made_by(steps.base), self.memory(pointer)) {
            // A constant variable by its GPU address: the bias is among the steps.
            let bytes = self.build.int(bytes);
            let root = self.build.address(pointer);
            let offset = self.build.int(steps.fixed.wrapping_sub(GPU_BIAS));
            return Some(Range { memory: Memory::Device, offset, bytes, root });
        }
        let base = self.of(steps.base)?;
        if pointer.is_instruction() {
            self.build.before(pointer);
        }
        let mut offset = base.offset;
        for (index, scale) in steps.scaled {
            let index = self.build.widened(index);
            offset = self.build.add(offset, self.build.mul(index, self.build.int(scale)));
        }
        if steps.fixed != 0 {
            offset = self.build.add(offset, self.build.int(steps.fixed));
        }
        Some(Range { offset, ..base })
    }

    /// The ranges that come together in a phi.
    fn joined(
        &mut self,
        phi: Value<'c>,
        memory: Memory,
        values: Vec<(Value<'c>, super::build::Block)>,
    ) -> Option<Range<'c>> {
        let [offset, bytes, root] = [(); 3].map(|()| self.build.phi_beside(phi));
        // Known before its values are looked at: one of them may come from the phi itself.
        let range = Range { memory, offset, bytes, root };
        self.known.insert(phi, Some(range));
        for (value, from) in values {
            let zero = self.build.int(0);
            let other = self.of(value).unwrap_or(Range { memory, offset: zero, bytes: zero, root: zero });
            self.build.comes(offset, from, other.offset);
            self.build.comes(bytes, from, other.bytes);
            self.build.comes(root, from, other.root);
        }
        Some(range)
    }

    /// If a pointer is loaded from the group's context: how far behind it its length lies.
    fn slot(&self, pointer: Value<'c>, from: Value<'c>) -> Option<u64> {
        const POINTERS: u64 = SLOTS as u64 * 8;
        let (base, at) = match self.build.made_by(from) {
            Made::Steps => {
                self.build.steps(from).filter(|steps| steps.scaled.is_empty()).map(|steps| (steps.base, steps.fixed))?
            }
            _ => (from, 0),
        };
        if !matches!(self.build.made_by(base), Made::Parameter) {
            return None;
        }
        let (pointers, lengths) = match pointer.kind().space()? {
            1 | 2 => (offset_of!(GroupContext, buffers), offset_of!(GroupContext, lengths)),
            3 => (offset_of!(GroupContext, threadgroup), offset_of!(GroupContext, threadgroup_lengths)),
            _ => return None,
        };
        let into = at.checked_sub(pointers as u64)?;
        (into < POINTERS && into.is_multiple_of(8)).then_some((lengths - pointers) as u64)
    }

    /// What is bound at the argument's index.
    fn bound(&mut self, pointer: Value<'c>, memory: Memory, behind: u64) -> Option<Range<'c>> {
        let Made::Load(from) = self.build.made_by(pointer) else { return None };
        self.build.after(pointer);
        let place = self.build.moved(from, self.build.int(behind));
        let bytes = self.build.constant_load(self.build.word(), place);
        Some(Range { memory, offset: self.build.int(0), bytes, root: self.build.address(pointer) })
    }

    /// What the host says that an address may reach.
    fn reached(&mut self, pointer: Value<'c>) -> Option<Range<'c>> {
        if pointer.is_instruction() || matches!(self.build.made_by(pointer), Made::Parameter) {
            self.build.after(pointer);
        }
        let root = self.build.address(pointer);
        let range = self.build.call(self.reach, &[root]);
        let (start, bytes) = (self.build.member(range, 0), self.build.member(range, 1));
        Some(Range { memory: Memory::Device, offset: self.build.sub(root, start), bytes, root })
    }
}
