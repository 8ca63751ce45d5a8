//! What is allocated, and which GPU may reach it how.
//!
//! One space of addresses serves every GPU and the host, as the kernel's driver keeps it: a memory has one address on every
//! GPU, and each GPU reaches it only while it is mapped for that GPU.
//!
//! # Invariants
//!
//! 1. Memories do not overlap, and begin and end on pages.
//! 2. A memory that a GPU is mapped for, or that a queue stands on, is not freed.

use crate::kfd::abi;
use crate::raw::{Pages, Raw};
use crate::violation::Want;
use std::collections::BTreeMap;

/// What a memory's bytes are.
#[derive(Debug)]
pub(crate) enum Backing {
    /// Pages of the model's: the GPU's own memory, or the host's.
    Pages(Pages),
    /// Pages of the caller's.
    Host(Raw),
    /// The doorbells of its GPU, which no engine reaches.
    Doorbells,
    /// The page of registers that flush the window.
    Registers,
}

/// An allocation.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) handle: u64,
    pub(crate) va: u64,
    pub(crate) size: u64,
    /// The GPU that it was allocated of, by its place in the machine.
    pub(crate) gpu: usize,
    pub(crate) flags: u32,
    pub(crate) backing: Backing,
    /// The GPUs that it is mapped for.
    pub(crate) mapped: Vec<usize>,
    /// How many uses queues have of it.
    pub(crate) used: u32,
    /// Where the render node maps it.
    pub(crate) offset: u64,
    /// Whether the host has mapped it.
    pub(crate) window: bool,
}

impl Memory {
    /// Whether caches of a GPU may hold its lines beyond a work-group.
    pub(crate) fn cached(&self) -> bool {
        self.flags & (abi::FLAG_COHERENT | abi::FLAG_UNCACHED) == 0
    }

    pub(crate) fn raw(&self) -> Option<&Raw> {
        match &self.backing {
            Backing::Pages(pages) => Some(pages.raw()),
            Backing::Host(raw) => Some(raw),
            Backing::Doorbells | Backing::Registers => None,
        }
    }

    fn permits(&self, want: Want) -> bool {
        match want {
            Want::Read => true,
            Want::Write => self.flags & abi::FLAG_WRITABLE != 0,
            Want::Execute => self.flags & abi::FLAG_EXECUTABLE != 0,
        }
    }
}

/// An access that no mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Miss {
    pub(crate) va: u64,
    pub(crate) want: Want,
    /// Whether anything is mapped there.
    pub(crate) mapped: bool,
}

/// Bytes of a memory that an engine may reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach<'a> {
    pub(crate) raw: &'a Raw,
    pub(crate) at: usize,
    /// How many bytes are there from the address on.
    pub(crate) len: u64,
    pub(crate) cached: bool,
}

/// All allocations.
#[derive(Debug, Default)]
pub(crate) struct Space {
    by_va: BTreeMap<u64, Memory>,
    by_handle: BTreeMap<u64, u64>,
    by_offset: BTreeMap<u64, u64>,
}

impl Space {
    /// The memory that holds an address.
    pub(crate) fn at(&self, va: u64) -> Option<&Memory> {
        let (_, memory) = self.by_va.range(..=va).next_back()?;
        (va - memory.va < memory.size).then_some(memory)
    }

    pub(crate) fn overlaps(&self, va: u64, size: u64) -> bool {
        self.at(va).is_some() || self.by_va.range(va..va + size).next().is_some()
    }

    pub(crate) fn insert(&mut self, memory: Memory) {
        self.by_handle.insert(memory.handle, memory.va);
        self.by_offset.insert(memory.offset, memory.va);
        self.by_va.insert(memory.va, memory);
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&Memory> {
        self.by_va.get(self.by_handle.get(&handle)?)
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut Memory> {
        self.by_va.get_mut(self.by_handle.get(&handle)?)
    }

    pub(crate) fn remove(&mut self, handle: u64) -> Option<Memory> {
        let va = self.by_handle.remove(&handle)?;
        let memory = self.by_va.remove(&va)?;
        self.by_offset.remove(&memory.offset);
        Some(memory)
    }

    /// The memory whose mapping for the host begins at an offset.
    pub(crate) fn by_offset_mut(&mut self, offset: u64) -> Option<&mut Memory> {
        self.by_va.get_mut(self.by_offset.get(&offset)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Memory> {
        self.by_va.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_va.len()
    }

    /// Bytes allocated of a GPU with a flag.
    pub(crate) fn bytes(&self, gpu: usize, flag: u32) -> u64 {
        self.by_va
            .values()
            .filter(|memory| memory.gpu == gpu && memory.flags & flag != 0)
            .map(|memory| memory.size)
            .sum()
    }

    /// What a GPU finds at an address.
    pub(crate) fn reach(&self, gpu: usize, va: u64, want: Want) -> Result<Reach<'_>, Miss> {
        let miss = |mapped| Miss { va, want, mapped };
        let memory = self.at(va).filter(|memory| memory.mapped.contains(&gpu)).ok_or(miss(false))?;
        let raw = memory.raw().ok_or(miss(false))?;
        if !memory.permits(want) {
            return Err(miss(true));
        }
        let at = va - memory.va;
        Ok(Reach { raw, at: at as usize, len: memory.size - at, cached: memory.cached() })
    }

    /// Whether a GPU may do so with all of a range; the first address where it may not.
    pub(crate) fn covers(&self, gpu: usize, va: u64, len: u64, want: Want) -> Result<(), Miss> {
        let mut at = va;
        while at - va < len {
            at += self.reach(gpu, at, want)?.len;
        }
        Ok(())
    }
}
