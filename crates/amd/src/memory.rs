//! Memory: the GPU's own, the host's, what of the GPU's own the host addresses through its window, wrapped pages, and what
//! other GPUs reach of it.
//!
//! Each memory has one address, on the host and on every GPU that reaches it.
//!
//! # Invariants
//!
//! 1. Memory that the GPU owns lies in the GPU's range of addresses and in no other, so that an address alone tells it.
//! 2. A memory is mapped for a GPU once, however many mappings of rig's there are: [`Shared`] counts them, and the last to go
//!    ends it. The GPU that made a memory has it mapped until the memory is freed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rig_edge::{Dma, Fault, Location, Mapping, Memory, page_bytes};

use crate::abi::memory_flag as flag;
use crate::gpu::Gpu;
use crate::kfd::{Failure, Handle};
use crate::raw::Raw;
use crate::sys::{Errno, Place, Protection};
use crate::system::System;

/// What every region's first byte is aligned to, and the least distance of two buffers in one.
pub(crate) const ALIGNMENT: usize = 256;

/// From this length on a memory's address is on 2 MiB, which the GPU translates by one entry of its tables.
const LARGE: u64 = 2 << 20;

/// A kind of memory, as the driver makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The GPU's own.
    Vram,
    /// The GPU's own, which the host addresses through the GPU's window.
    Window,
    /// The host's.
    Host,
    /// The host's, which no cache of the GPU's holds and the GPU may run commands from: rings, arguments, words.
    Commands,
}

impl Kind {
    /// How the kernel driver makes it.
    fn flags(self) -> u32 {
        let all = flag::WRITABLE | flag::NO_SUBSTITUTE;
        match self {
            // Executable: code is loaded there.
            Kind::Vram => all | flag::VRAM | flag::EXECUTABLE,
            Kind::Window => all | flag::VRAM | flag::PUBLIC | flag::EXECUTABLE,
            Kind::Host => all | flag::GTT | flag::COHERENT,
            Kind::Commands => all | flag::GTT | flag::COHERENT | flag::UNCACHED | flag::EXECUTABLE,
        }
    }
}

/// Memory that a device's work reaches.
///
/// ```
#[doc = include_str!("example.txt")]
/// use rig_edge::{Driver, Memory, Opener, Timeline, WordIndex};
///
/// // As rig has one of the driver.
/// let amd = gpu(0).make(Timeline::new(WordIndex::new(7)))?;
/// let region = amd.alloc(Memory::Pinned, 4096)?.ok_or("no memory")?;
/// let at = amd.locate(&region);
/// assert_eq!(at.device, at.host.addr() as u64, "one address for the host and for every GPU");
/// amd.stop(None)?;
/// // SAFETY: no work used it, and the device has stopped.
/// unsafe { amd.free(region)? };
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Region {
    device: u64,
    host: *mut u8,
    len: usize,
    shared: Arc<Shared>,
    origin: Origin,
}

// SAFETY: a region is addresses and a handle: nothing is read through them by this type.
#[expect(unsafe_code, reason = "raw addresses are plain data")]
unsafe impl Send for Region {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "raw addresses are plain data")]
unsafe impl Sync for Region {}

/// Where a region's memory is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Made for this device.
    Made(Kind),
    /// Pages of the host's.
    Wrapped,
    /// Another device's region.
    Peer,
}

/// A memory, and which GPUs it is mapped for beside the one that made it.
#[derive(Debug)]
struct Shared {
    handle: Handle,
    /// The GPU that made it.
    home: u32,
    /// The register of that GPU which flushes the host's writes, where they go through its window.
    window: Option<Raw>,
    /// How many mappings each other GPU has of it.
    guests: Mutex<HashMap<u32, usize>>,
}

/// Whether an answer says that there is no memory.
pub(crate) fn is_short(failure: &Failure) -> bool {
    matches!(failure.errno, Errno::NOMEM | Errno::NOSPC | Errno::AGAIN)
}

impl Region {
    /// Memory of a kind of rig's, or none if there is none.
    pub(crate) fn alloc(gpu: &Gpu, memory: Memory, len: usize) -> Result<Option<Region>, Fault> {
        let kind = match memory {
            Memory::Device => Kind::Vram,
            Memory::Mapped if gpu.has_window() => Kind::Window,
            _ => Kind::Host,
        };
        match Region::make(gpu, kind, len) {
            Ok(region) => Ok(Some(region)),
            Err(failure) if is_short(&failure) => Ok(None),
            Err(failure) => Err(gpu.fault(&failure)),
        }
    }

    /// Memory of a kind; its bytes are zero where the host addresses them.
    pub(crate) fn make(gpu: &Gpu, kind: Kind, len: usize) -> Result<Region, Failure> {
        let short = Failure { call: "an allocation", errno: Errno::NOMEM };
        let Some(whole) = len.checked_next_multiple_of(page_bytes()) else { return Err(short) };
        let own = matches!(kind, Kind::Vram | Kind::Window);
        let align = if whole as u64 >= LARGE { LARGE } else { page_bytes() as u64 };
        let address = if own {
            gpu.spans().lock().take(whole as u64, align).ok_or(short)? as usize
        } else {
            gpu.kfd().reserve(whole)?
        };
        let give_addresses = || {
            if own {
                gpu.spans().lock().give(address as u64, whole as u64);
            } else {
                // SAFETY: reserved above, and nothing is mapped there.
                #[expect(unsafe_code, reason = "gives addresses back")]
                unsafe {
                    gpu.kfd().release(address, whole);
                }
            }
        };
        // SAFETY: the addresses were just taken for this memory alone, and it is not the host's.
        #[expect(unsafe_code, reason = "the kernel makes memory at them")]
        let made = unsafe { gpu.kfd().alloc(gpu.id(), address as u64, whole as u64, kind.flags(), 0) };
        let (handle, offset) = made.inspect_err(|_| give_addresses())?;
        let window = gpu.flush_register().filter(|_| kind == Kind::Window);
        let shared = Shared { handle, home: gpu.id(), window, guests: Mutex::default() };
        let mut region = Region {
            device: address as u64,
            host: std::ptr::null_mut(),
            len,
            shared: Arc::new(shared),
            origin: Origin::Made(kind),
        };
        let mapped = gpu.kfd().map(handle, gpu.id()).and_then(|()| {
            if kind == Kind::Vram {
                return Ok(());
            }
            // SAFETY: the addresses are this memory's, and nothing uses them yet.
            #[expect(unsafe_code, reason = "maps the memory for the host")]
            let host = unsafe { gpu.kfd().map_file(Place::Over(address), whole, gpu.render(), offset) }?;
            region.host = std::ptr::with_exposed_provenance_mut(host);
            // SAFETY: mapped just now, with these bytes, to read and write, and nobody else knows of it.
            #[expect(unsafe_code, reason = "initialises memory")]
            unsafe {
                region.host.write_bytes(0, whole);
            }
            Ok(())
        });
        if let Err(failure) = mapped {
            // SAFETY: nobody knows of it.
            #[expect(unsafe_code, reason = "gives the memory back")]
            unsafe {
                region.free(gpu);
            }
            return Err(failure);
        }
        Ok(region)
    }

    /// Wraps the whole pages that hold the `len` bytes at `host`.
    ///
    /// # Safety
    ///
    /// As [`map_host`](rig_edge::Driver::map_host).
    #[expect(unsafe_code, reason = "the pages are the caller's")]
    pub(crate) unsafe fn wrap(system: &System, gpu: &Gpu, host: *mut u8, len: usize) -> Result<Mapping<Region>, Fault> {
        let whole = len.next_multiple_of(page_bytes());
        if system.owns(host.addr()) {
            let why = "these pages are a window to a GPU's own memory, which no other GPU takes for the host's";
            return Ok(Mapping::Never(why.into()));
        }
        // Addresses of their own: pages may be wrapped more than once, and ranges may overlap.
        let address = match gpu.kfd().reserve(whole) {
            Ok(address) => address,
            Err(_) => return Ok(Mapping::NoMemory),
        };
        // SAFETY: the caller promises that the pages stay until the mapping is freed, which frees the handle.
        match unsafe { gpu.wrap_at(address as u64, host, whole) } {
            Ok(handle) => {
                let shared = Shared { handle, home: gpu.id(), window: None, guests: Mutex::default() };
                let (device, shared) = (address as u64, Arc::new(shared));
                Ok(Mapping::Mapped(Region { device, host, len, shared, origin: Origin::Wrapped }))
            }
            Err(failure) => {
                // SAFETY: reserved above, and nothing is mapped there.
                unsafe { gpu.kfd().release(address, whole) };
                if is_short(&failure) {
                    return Ok(Mapping::NoMemory);
                }
                Ok(Mapping::Never(format!("the kernel cannot give the GPU these pages: {failure}")))
            }
        }
    }

    /// The region as the work of a device on `gpu` reaches it.
    pub(crate) fn mapped_for(&self, gpu: &Gpu) -> Mapping<Region> {
        if gpu.id() != self.shared.home {
            let mut guests = self.shared.guests.lock();
            let mappings = guests.entry(gpu.id()).or_insert(0);
            if *mappings == 0
                && let Err(failure) = gpu.kfd().map(self.shared.handle, gpu.id())
            {
                if is_short(&failure) {
                    return Mapping::NoMemory;
                }
                return Mapping::Never(format!("the kernel maps no memory of the one GPU for the other: {failure}"));
            }
            *mappings += 1;
        }
        Mapping::Mapped(Region {
            device: self.device,
            host: self.host,
            len: self.len,
            shared: Arc::clone(&self.shared),
            origin: Origin::Peer,
        })
    }

    pub(crate) fn location(&self) -> Location {
        Location { device: self.device, host: self.host, handle: std::ptr::null() }
    }

    /// The kernel's handle of the memory.
    pub(crate) fn handle(&self) -> Handle {
        self.shared.handle
    }

    /// The GPU whose window the host writes it through, and the register that flushes that; none where it does not.
    pub(crate) fn window(&self) -> Option<(u32, Raw)> {
        self.shared.window.map(|register| (self.shared.home, register))
    }

    /// Gives the memory or the mapping back. What the kernel does not take back stays until the process ends.
    ///
    /// # Safety
    ///
    /// As [`free`](rig_edge::Driver::free).
    #[expect(unsafe_code, reason = "the caller owes that nothing uses it")]
    pub(crate) unsafe fn free(self, gpu: &Gpu) {
        let (kfd, handle) = (gpu.kfd(), self.shared.handle);
        if self.origin == Origin::Peer {
            self.leave(gpu);
            return;
        }
        // SAFETY: the caller promises that nothing uses it.
        let unmapped = unsafe { kfd.unmap(handle, gpu.id()) };
        // SAFETY: as above; mappings for other GPUs are freed before.
        let freed = unmapped.and_then(|()| unsafe { kfd.free(handle) });
        if freed.is_err() {
            return;
        }
        let (address, whole) = (self.device as usize, self.len.next_multiple_of(page_bytes()));
        match self.origin {
            Origin::Made(Kind::Vram) => gpu.spans().lock().give(address as u64, whole as u64),
            Origin::Made(Kind::Window) => {
                // SAFETY: the addresses are the range's, and the memory there is freed.
                let kept = unsafe { kfd.port().mmap(Place::Over(address), whole, Protection::None, None) };
                if kept.is_ok() {
                    gpu.spans().lock().give(address as u64, whole as u64);
                }
            }
            // SAFETY: `reserve` gave the addresses to this region, and the memory there is freed.
            _ => unsafe { kfd.release(address, whole) },
        }
    }

    /// Ends one mapping for a GPU that did not make the memory.
    fn leave(&self, gpu: &Gpu) {
        if gpu.id() == self.shared.home {
            return;
        }
        let mut guests = self.shared.guests.lock();
        let Some(mappings) = guests.get_mut(&gpu.id()) else { return };
        *mappings -= 1;
        if *mappings == 0 {
            guests.remove(&gpu.id());
            // SAFETY: the caller of `free` promises that no work of the device uses it, and there is no other mapping.
            #[expect(unsafe_code, reason = "takes the memory from the GPU")]
            let _ = unsafe { gpu.kfd().unmap(self.shared.handle, gpu.id()) };
        }
    }

    /// How a PCI function reaches the memory, or why it does not.
    pub(crate) fn dma(&self, gpu: &Gpu, function: &str) -> Result<Dma, String> {
        if !is_bus_address(function) {
            return Err(format!("{function} is no bus address, such as 0000:41:00.0"));
        }
        let functions = gpu.kfd().port().list("/sys/bus/pci/devices").unwrap_or_default();
        if !functions.iter().any(|name| name == function) {
            return Err(format!("this machine has no PCI function {function}"));
        }
        if !matches!(self.origin, Origin::Made(Kind::Vram | Kind::Window)) {
            return Err(format!("{function} reaches the GPU's own memory alone: this is the host's"));
        }
        if !gpu.kfd().exports() {
            return Err(format!(
                "{function} gets no access: the kernel's driver gives out dma-bufs from version 1.12 on"
            ));
        }
        let exported = gpu.kfd().export(self.shared.handle);
        let descriptor = exported.map_err(|failure| format!("the kernel gives {function} no dma-buf: {failure}"))?;
        Ok(Dma::DmaBuf { descriptor, offset: 0 })
    }
}

/// Whether a text is a bus address as PCI writes it: `0000:41:00.0`.
fn is_bus_address(text: &str) -> bool {
    let shape = "xxxx:xx:xx.x";
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(is, due)| if due == b'x' { is.is_ascii_hexdigit() } else { is == due })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_addresses_are_told_from_other_texts() {
        assert!(is_bus_address("0000:41:00.0") && is_bus_address("000a:ff:1f.7"));
        for text in ["", "41:00.0", "0000:41:00", "0000:41:00.0 ", "0000-41:00.0", "0000:4g:00.0"] {
            assert!(!is_bus_address(text), "{text:?}");
        }
    }

    #[test]
    fn code_runs_from_the_gpus_memory_and_commands_from_memory_that_no_cache_holds() {
        assert_ne!(Kind::Vram.flags() & flag::EXECUTABLE, 0);
        let commands = Kind::Commands.flags();
        assert_eq!(commands & (flag::COHERENT | flag::UNCACHED), flag::COHERENT | flag::UNCACHED);
        assert_eq!(Kind::Vram.flags() & flag::PUBLIC, 0, "the host's window is for Mapped memory alone");
    }
}
