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
use std::sync::atomic::Ordering;

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
    /// What the host sees of the GPU's own memory, and writes.
    pub(crate) window: Option<Window>,
}

/// The host's view of a GPU's own memory. What the host writes there reaches the memory once it is flushed; what the GPU
/// writes is seen at once.
#[derive(Debug)]
pub(crate) struct Window {
    /// What the host has mapped.
    pub(crate) pages: Pages,
    /// What the pages held when they and the memory were last the same.
    same: Pages,
}

impl Window {
    pub(crate) fn new(size: u64) -> Result<Self, i32> {
        Ok(Self { pages: Pages::new(size as usize)?, same: Pages::new(size as usize)? })
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.same.raw().write(at, bytes);
        self.pages.raw().write(at, bytes);
    }

    /// Brings what the host wrote to the memory.
    fn flush(&self, memory: &Raw) {
        let (pages, same) = (self.pages.raw(), self.same.raw());
        for at in (0..memory.len()).step_by(8) {
            let (now, then) = (pages.u64(at).load(Ordering::Acquire), same.u64(at).load(Ordering::Relaxed));
            if now == then {
                continue;
            }
            for (byte, (now, then)) in now.to_le_bytes().into_iter().zip(then.to_le_bytes()).enumerate() {
                if now != then {
                    memory.write(at + byte, &[now]);
                    same.write(at + byte, &[now]);
                }
            }
        }
    }

    /// Whether the host wrote bytes that are not flushed.
    fn differs(&self, at: usize, len: usize) -> bool {
        let (mut now, mut then) = ([0; 128], [0; 128]);
        (0..len).step_by(128).any(|from| {
            let n = (len - from).min(128);
            self.pages.raw().read(at + from, &mut now[..n]);
            self.same.raw().read(at + from, &mut then[..n]);
            now[..n] != then[..n]
        })
    }
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

    /// Sets all bytes.
    pub(crate) fn fill(&self, bytes: &[u8], len: usize) {
        let Some(raw) = self.raw() else { return };
        for at in (0..len.min(raw.len())).step_by(bytes.len()) {
            raw.write(at, bytes);
            if let Some(window) = &self.window {
                window.write(at, bytes);
            }
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
    window: Option<&'a Window>,
}

impl Reach<'_> {
    /// Writes, as an engine does: the host sees it too.
    pub(crate) fn write(&self, bytes: &[u8]) {
        self.raw.write(self.at, bytes);
        if let Some(window) = self.window {
            window.write(self.at, bytes);
        }
    }

    /// Shows the host what an atomic changed.
    pub(crate) fn show(&self, len: usize) {
        if let Some(window) = self.window {
            let mut bytes = [0; 8];
            self.raw.read(self.at, &mut bytes[..len]);
            window.write(self.at, &bytes[..len]);
        }
    }

    /// Whether the host wrote some of these bytes and did not flush them.
    pub(crate) fn unflushed(&self, len: usize) -> bool {
        self.window.is_some_and(|window| window.differs(self.at, len))
    }
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

    /// Brings what the host wrote through the window of a GPU to its memory.
    pub(crate) fn flush(&self, gpu: usize) {
        for memory in self.by_va.values().filter(|memory| memory.gpu == gpu) {
            if let (Some(window), Some(raw)) = (&memory.window, memory.raw()) {
                window.flush(raw);
            }
        }
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
        let window = memory.window.as_ref();
        Ok(Reach { raw, at: at as usize, len: memory.size - at, cached: memory.cached(), window })
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
