//! The machine's whole state, behind its one lock.

use crate::caches::GpuCaches;
use crate::errno;
use crate::events::Events;
use crate::faults::Faults;
use crate::kfd::abi;
use crate::memory::{Backing, Space};
use crate::options::Options;
use crate::queue::Queue;
use crate::raw::{Pages, Place};
use crate::rng::Rng;
use crate::scheduler::Actor;
use crate::trace::{Trace, Traced};
use crate::violation::Violation;
use std::any::Any;
use std::collections::BTreeMap;
use std::time::Instant;

/// A file that a caller has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum File {
    /// /dev/kfd.
    Kfd,
    /// The render node of a GPU.
    Render(usize),
}

/// A GPU.
#[derive(Debug)]
pub(crate) struct Gpu {
    /// What the kernel calls it.
    pub(crate) id: u32,
    /// The number of its render node.
    pub(crate) minor: u32,
    /// The open render node that the process's addresses of this GPU hang on: they do so until the process ends.
    pub(crate) bound: Option<i32>,
    /// The process's doorbells.
    pub(crate) doorbells: Pages,
    /// Where the host has mapped them.
    pub(crate) doorbells_at: Vec<usize>,
    /// Which doorbells queues have.
    pub(crate) slots: Vec<Option<u32>>,
    /// The registers that flush the window.
    pub(crate) registers: Pages,
    pub(crate) caches: GpuCaches,
    /// An access faulted: the kernel runs nothing more of this process on the GPU.
    pub(crate) evicted: bool,
}

/// Addresses that the caller has mapped.
#[derive(Debug, Default)]
pub(crate) struct HostRanges {
    /// Begin to end, without overlap.
    ranges: BTreeMap<usize, usize>,
}

/// All state.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) rng: Rng,
    pub(crate) start: Instant,
    files: BTreeMap<i32, File>,
    next_file: i32,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) space: Space,
    pub(crate) next_handle: u64,
    pub(crate) next_offset: u64,
    pub(crate) host: HostRanges,
    /// The GPU whose doorbells the call that is served has mapped.
    pub(crate) new_doorbells: Option<usize>,
    pub(crate) queues: BTreeMap<u32, Queue>,
    /// What can move: a list that a step makes anew.
    pub(crate) actors: Vec<Actor>,
    /// Steps so far.
    pub(crate) now: u64,
    pub(crate) next_queue: u32,
    pub(crate) events: Events,
    pub(crate) faults: Faults,
    pub(crate) violations: Vec<Violation>,
    pub(crate) trace: Trace,
    pub(crate) held: bool,
    pub(crate) stop: bool,
    pub(crate) changed: bool,
    /// Since when nothing has moved though a queue waits.
    pub(crate) stuck_since: Option<Instant>,
    /// What the engine's thread died of.
    pub(crate) broken: Option<String>,
}

/// The number of the first render node.
pub(crate) const FIRST_MINOR: u32 = 128;

/// Violations that are kept; later ones repeat them.
const VIOLATIONS_MAX: usize = 64;

/// Doorbells of a process on a GPU.
pub(crate) const DOORBELLS: usize = abi::DOORBELL_BYTES / 8;

/// What a doorbell reads as while nobody has rung it.
pub(crate) const SILENT: u64 = u64::MAX;

impl Core {
    pub(crate) fn new(options: Options) -> Self {
        let gpus = (0..options.gpus).map(Gpu::new).collect();
        Self {
            rng: Rng::new(options.seed),
            start: Instant::now(),
            files: BTreeMap::new(),
            next_file: 1000,
            gpus,
            space: Space::default(),
            next_handle: 1,
            next_offset: 1 << 32,
            host: HostRanges::default(),
            new_doorbells: None,
            queues: BTreeMap::new(),
            actors: Vec::new(),
            now: 0,
            next_queue: 0,
            events: Events::default(),
            faults: Faults::default(),
            violations: Vec::new(),
            trace: Trace::default(),
            held: options.held,
            stop: false,
            changed: false,
            stuck_since: None,
            broken: None,
            options,
        }
    }

    pub(crate) fn open(&mut self, path: &str) -> Result<i32, i32> {
        let gpus = self.gpus.len();
        let render = |number: &str| -> Option<usize> {
            let place = number.parse::<u32>().ok()?.checked_sub(FIRST_MINOR)? as usize;
            (place < gpus).then_some(place)
        };
        let file = match path.strip_prefix("/dev/dri/renderD") {
            Some(number) => File::Render(render(number).ok_or(errno::ENOENT)?),
            None if path == "/dev/kfd" && gpus > 0 => File::Kfd,
            None => return Err(errno::ENOENT),
        };
        let fd = self.next_file;
        self.next_file += 1;
        self.files.insert(fd, file);
        Ok(fd)
    }

    pub(crate) fn close(&mut self, fd: i32) {
        if self.files.remove(&fd).is_none() {
            self.violate(Violation::NoFile { fd });
        }
    }

    pub(crate) fn file(&mut self, fd: i32) -> Result<File, i32> {
        match self.files.get(&fd) {
            Some(&file) => Ok(file),
            None => {
                self.violate(Violation::NoFile { fd });
                Err(errno::EBADF)
            }
        }
    }

    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn gpu(&self, id: u32) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.id == id)
    }

    /// # Safety
    ///
    /// As of the kernel's mmap.
    #[expect(unsafe_code, reason = "it maps what the caller names")]
    pub(crate) unsafe fn map_file(&mut self, fd: i32, place: &Place, offset: u64) -> Result<usize, i32> {
        let file = self.file(fd)?;
        let refuse = |core: &mut Self, field, value, wants| {
            core.violate(Violation::Argument { call: "mmap", field, value, wants });
            Err(errno::EINVAL)
        };
        match file {
            File::Kfd if offset & abi::MMAP_DOORBELL == abi::MMAP_DOORBELL => {
                let id = (offset >> abi::MMAP_GPU_SHIFT & 0xffff) as u32;
                let Some(gpu) = self.gpu(id) else {
                    return refuse(self, "offset", offset, "a GPU's doorbells");
                };
                if offset & ((1 << abi::MMAP_GPU_SHIFT) - 1) != 0 || place.len != abi::DOORBELL_BYTES {
                    return refuse(self, "length", place.len as u64, "all doorbells of a GPU: 8192 bytes");
                }
                self.new_doorbells = Some(gpu);
                // SAFETY: the caller's promise.
                unsafe { self.gpus[gpu].doorbells.map(place, 0) }.inspect_err(|_| self.new_doorbells = None)
            }
            File::Kfd if offset & abi::MMAP_DOORBELL == abi::MMAP_EVENTS => match self.events.own_page() {
                // SAFETY: the caller's promise.
                Some(pages) if place.len <= pages.raw().len() => unsafe { pages.map(place, 0) },
                _ => refuse(self, "offset", offset, "the page of events that the kernel made"),
            },
            File::Kfd if offset >> 62 == 0 => {
                let id = (offset >> abi::MMAP_GPU_SHIFT & 0xffff) as u32;
                match self.gpu(id) {
                    // SAFETY: the caller's promise.
                    Some(gpu) if place.len == 4096 => unsafe { self.gpus[gpu].registers.map(place, 0) },
                    _ => refuse(self, "offset", offset, "one page: a GPU's registers that flush its window"),
                }
            }
            File::Kfd => refuse(self, "offset", offset, "doorbells, the page of events or a GPU's registers"),
            // SAFETY: the caller's promise.
            File::Render(gpu) => unsafe { self.map_memory(gpu, place, offset) },
        }
    }

    #[expect(unsafe_code, reason = "it maps what the caller names")]
    unsafe fn map_memory(&mut self, gpu: usize, place: &Place, offset: u64) -> Result<usize, i32> {
        let Some(memory) = self.space.by_offset_mut(offset).filter(|memory| memory.gpu == gpu) else {
            self.violate(Violation::Argument {
                call: "mmap",
                field: "offset",
                value: offset,
                wants: "the offset of a memory of this GPU",
            });
            return Err(errno::EINVAL);
        };
        if place.len as u64 > memory.size {
            let value = place.len as u64;
            self.violate(Violation::Argument {
                call: "mmap",
                field: "length",
                value,
                wants: "the memory's size or less",
            });
            return Err(errno::EINVAL);
        }
        let hidden = memory.flags & abi::FLAG_VRAM != 0 && memory.flags & abi::FLAG_PUBLIC == 0;
        if hidden {
            let flags = memory.flags;
            self.violate(Violation::Flags {
                call: "mmap",
                flags,
                why: "the GPU's memory without PUBLIC is not for the host",
            });
            return Err(errno::EPERM);
        }
        match (&memory.window, &memory.backing) {
            // SAFETY: the caller's promise.
            (Some(window), _) => unsafe { window.pages.map(place, 0) },
            // SAFETY: the caller's promise.
            (None, Backing::Pages(pages)) => unsafe { pages.map(place, 0) },
            (None, _) => Err(errno::EINVAL),
        }
    }

    pub(crate) fn violate(&mut self, violation: Violation) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation);
        }
        self.changed = true;
    }

    pub(crate) fn traced(&mut self, traced: Traced) {
        self.trace.push(traced);
    }

    /// Whether the engine has queues to look at.
    pub(crate) fn runs(&self) -> bool {
        !self.held && !self.queues.is_empty() && self.broken.is_none()
    }

    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn broken(&mut self, why: String) {
        self.broken = Some(why);
        self.changed = true;
    }

    /// The GPU's clock.
    pub(crate) fn clock(&self) -> u64 {
        (self.start.elapsed().as_nanos() * u128::from(self.options.clock_hz) / 1_000_000_000) as u64 + 1
    }
}

impl Gpu {
    fn new(place: usize) -> Self {
        let pages = |len| Pages::new(len).expect("the system has pages for doorbells");
        let doorbells = pages(abi::DOORBELL_BYTES);
        doorbells.raw().fill(0xff);
        Self {
            id: 0x2a1b + 0x1111 * place as u32,
            minor: FIRST_MINOR + place as u32,
            bound: None,
            doorbells,
            doorbells_at: Vec::new(),
            slots: vec![None; DOORBELLS],
            registers: pages(4096),
            caches: GpuCaches::default(),
            evicted: false,
        }
    }
}

impl HostRanges {
    /// Notes a mapping; what it replaces is in it.
    pub(crate) fn insert(&mut self, address: usize, len: usize) {
        self.cut(address, address + len);
        self.ranges.insert(address, address + len);
    }

    /// Takes a mapping out: false if not all of it was there.
    pub(crate) fn remove(&mut self, address: usize, len: usize) -> bool {
        let end = address.saturating_add(len);
        let all = len > 0 && self.holds(address, end - address);
        if all {
            self.cut(address, end);
        }
        all
    }

    /// Whether all of a range is mapped.
    pub(crate) fn holds(&self, address: usize, len: usize) -> bool {
        let mut at = address;
        while at < address + len {
            match self.ranges.range(..=at).next_back() {
                Some((_, &last)) if last > at => at = last,
                _ => return false,
            }
        }
        true
    }

    fn cut(&mut self, begin: usize, end: usize) {
        let hit: Vec<_> = self.ranges.range(..end).filter(|&(_, &last)| last > begin).map(|(&a, &b)| (a, b)).collect();
        for (first, last) in hit {
            self.ranges.remove(&first);
            if first < begin {
                self.ranges.insert(first, begin);
            }
            if last > end {
                self.ranges.insert(end, last);
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.ranges.iter().map(|(begin, end)| end - begin).sum()
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
}
