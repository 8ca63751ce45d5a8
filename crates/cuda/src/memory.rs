//! Memory: the GPU's own, host memory that stays in place, registered pages of the host, and what of another GPU's is in
//! reach.
//!
//! CUDA gives all of it addresses in one space, so a mapping for another device on the same GPU is the same address.
//!
//! # Invariants
//!
//! 1. Pages that several devices map are registered once: [`REGISTERED`] counts the mappings of each range, and the last
//!    to go ends the registration.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rig_edge::{Dma, Fault, Location, Mapping, Memory, page_bytes};

use crate::fault::{fault, sticky};
use crate::gpu::Gpu;
use crate::sys::Failure;
use crate::sys::abi::Code;

/// Memory that a device's work reaches.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// use rig::{Memory, read};
/// let (own, pinned) = (device.buffer(64)?, device.buffer_in(Memory::Pinned, 64)?);
/// // The GPU reaches both by addresses; the host, by an address, the pinned memory alone.
/// let fill = device.submission().fill::<rig_cuda::Cuda>([read(0), read(1)], |_, slots| {
///     let right = slots[0].device != 0 && slots[0].host.is_null() && !slots[1].host.is_null();
///     if right { Ok(()) } else { Err("memory of another kind".to_owned()) }
/// });
/// // SAFETY: the fill touches nothing.
/// unsafe { fill.make()?.take().launch(&[&own, &pinned])?.wait()? };
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Region {
    device: u64,
    host: *mut u8,
    len: usize,
    origin: Origin,
}

// SAFETY: a region is addresses: nothing is read through them by this type.
#[expect(unsafe_code, reason = "raw addresses are plain data")]
unsafe impl Send for Region {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "raw addresses are plain data")]
unsafe impl Sync for Region {}

/// Where a region's memory is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Made on the GPU.
    Gpu,
    /// Made on the host.
    Host,
    /// Pages of the host's, registered from this address on.
    Registered(usize),
    /// Another device's region.
    Peer,
}

/// A range of host pages that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    len: usize,
    mappings: usize,
}

/// What of the host's memory rig has registered, by the address of the first byte.
static REGISTERED: Mutex<BTreeMap<usize, Range>> = Mutex::new(BTreeMap::new());

/// How the pages from `start` on stand to what is registered.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    /// None of them is.
    New,
    /// All of them are, in the range that starts here.
    Inside(usize),
    /// Some of them are.
    Partly,
}

fn known(registered: &BTreeMap<usize, Range>, start: usize, len: usize) -> Known {
    // Ranges are disjoint, so the last that starts before the end is the only one that can reach over the start.
    match registered.range(..start + len).next_back() {
        Some((&first, range)) if first + range.len > start => {
            let inside = first <= start && start + len <= first + range.len;
            if inside { Known::Inside(first) } else { Known::Partly }
        }
        _ => Known::New,
    }
}

/// Takes one mapping of a range away. True if it was the last.
fn release(registered: &mut BTreeMap<usize, Range>, start: usize) -> bool {
    let Some(range) = registered.get_mut(&start) else { return false };
    range.mappings -= 1;
    let last = range.mappings == 0;
    if last {
        registered.remove(&start);
    }
    last
}

impl Region {
    /// Memory of a kind, or none if there is none.
    pub(crate) fn alloc(gpu: &Gpu, memory: Memory, len: usize) -> Result<Option<Region>, Fault> {
        let made = gpu.enter().and_then(|_current| match memory {
            Memory::Device => {
                let device = gpu.api.memory_alloc(len)?;
                Ok(Region { device, host: std::ptr::null_mut(), len, origin: Origin::Gpu })
            }
            _ => Region::on_host(gpu, len),
        });
        match made {
            Ok(region) => Ok(Some(region)),
            // Also where CUDA allocates nothing just now, as while another part of the process records a graph.
            Err(failure) => sticky(gpu.api, failure).map(|()| None),
        }
    }

    fn on_host(gpu: &Gpu, len: usize) -> Result<Region, Failure> {
        let host = gpu.api.host_alloc(len)?;
        // SAFETY: the memory was just made, with this many bytes, and nobody else knows of it.
        #[expect(unsafe_code, reason = "initialises memory")]
        unsafe {
            host.write_bytes(0, len);
        }
        let device = gpu.api.host_device(host)?;
        Ok(Region { device, host, len, origin: Origin::Host })
    }

    /// Registers the whole pages that hold the `len` bytes at `address`.
    ///
    /// # Safety
    ///
    /// As [`map_host`](rig_edge::Driver::map_host).
    #[expect(unsafe_code, reason = "the pages are the caller's")]
    pub(crate) unsafe fn register(gpu: &Gpu, address: *mut u8, len: usize) -> Result<Mapping<Region>, Fault> {
        let (start, len) = (address.addr(), len.next_multiple_of(page_bytes()));
        let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        let first = match known(&registered, start, len) {
            Known::Inside(first) => first,
            Known::New => start,
            Known::Partly => {
                return Ok(Mapping::Never(format!(
                    "of the {len} bytes at {start:#x} some are mapped already and others are not: map all of them first"
                )));
            }
        };
        let mapped = gpu.enter().and_then(|_current| {
            if !registered.contains_key(&first) {
                // SAFETY: the caller promises that the pages stay until the mapping is freed.
                unsafe { gpu.api.host_register(address, len) }?;
            }
            gpu.api.host_device(address).inspect_err(|_| {
                if !registered.contains_key(&first) {
                    // SAFETY: registered above, and nobody knows of it.
                    let _ = unsafe { gpu.api.host_unregister(address) };
                }
            })
        });
        match mapped {
            Ok(device) => {
                registered.entry(first).or_insert(Range { len, mappings: 0 }).mappings += 1;
                Ok(Mapping::Mapped(Region { device, host: address, len, origin: Origin::Registered(first) }))
            }
            Err(Failure { code: Code::OUT_OF_MEMORY, .. }) => Ok(Mapping::NoMemory),
            Err(failure) if failure.code.is_sticky() => Err(fault(gpu.api, failure)),
            Err(failure) => Ok(Mapping::Never(never(gpu, failure))),
        }
    }

    /// The region as another device's work reaches it.
    pub(crate) fn mapped_for(&self, gpu: &Gpu, home: &Gpu) -> Result<Mapping<Region>, Fault> {
        match gpu.link(home) {
            Ok(Ok(())) => Ok(Mapping::Mapped(Region {
                device: self.device,
                host: self.host,
                len: self.len,
                origin: Origin::Peer,
            })),
            Ok(Err(why)) => Ok(Mapping::Never(why)),
            Err(failure) => Err(fault(gpu.api, failure)),
        }
    }

    pub(crate) fn location(&self) -> Location {
        Location { device: self.device, host: self.host, handle: std::ptr::null() }
    }

    /// Gives the memory, the registration or the mapping back.
    ///
    /// # Safety
    ///
    /// As [`free`](rig_edge::Driver::free).
    #[expect(unsafe_code, reason = "the caller owes that nothing uses it")]
    pub(crate) unsafe fn free(self, gpu: &Gpu) -> Result<(), Fault> {
        let freed = gpu.enter().and_then(|_current| match self.origin {
            // SAFETY: `alloc` made it, and the caller promises that nothing uses it.
            Origin::Gpu => unsafe { gpu.api.memory_free(self.device) },
            // SAFETY: as above.
            Origin::Host => unsafe { gpu.api.host_free(self.host) },
            Origin::Registered(first) => {
                let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
                if !release(&mut registered, first) {
                    return Ok(());
                }
                let offset = self.host.addr() - first;
                // SAFETY: `register` registered the range, and this was its last mapping.
                unsafe { gpu.api.host_unregister(self.host.wrapping_sub(offset)) }
            }
            Origin::Peer => Ok(()),
        });
        // What CUDA does not take back now stays until the process ends.
        freed.or_else(|failure| sticky(gpu.api, failure))
    }

    /// How a PCI function reaches the memory.
    pub(crate) fn dma(&self, gpu: &Gpu, function: &str) -> Result<Result<Dma, String>, Fault> {
        if let Some(why) = self.no_dma(gpu, function) {
            return Ok(Err(why));
        }
        let len = self.len.next_multiple_of(page_bytes());
        match gpu.enter().and_then(|_current| gpu.api.dma_buf(self.device, len)) {
            Ok(descriptor) => Ok(Ok(Dma::DmaBuf { descriptor, offset: 0 })),
            Err(failure) if failure.code.is_sticky() => Err(fault(gpu.api, failure)),
            Err(failure) => Ok(Err(format!("CUDA gives {function} no dma-buf: {}", gpu.api.describe(failure)))),
        }
    }

    /// Why the function reaches the memory by no dma-buf, as far as that is known without CUDA.
    fn no_dma(&self, gpu: &Gpu, function: &str) -> Option<String> {
        if !is_bus_address(function) {
            return Some(format!("{function} is no bus address, such as 0000:41:00.0"));
        }
        if !Path::new("/sys/bus/pci/devices").join(function).exists() {
            return Some(format!("this machine has no PCI function {function}"));
        }
        if self.origin != Origin::Gpu {
            return Some(format!("{function} reaches the GPU's own memory alone: this is the host's"));
        }
        if !gpu.dma_buf {
            return Some(format!("{function} gets no access, since the GPU's driver gives out no dma-bufs"));
        }
        let page = page_bytes();
        (!(self.device as usize).is_multiple_of(page) || !self.len.is_multiple_of(page)).then(|| {
            format!(
                "{function} gets whole pages of {page} bytes: this memory is {} bytes at {:#x}",
                self.len, self.device
            )
        })
    }
}

/// Why pages cannot be registered.
fn never(gpu: &Gpu, failure: Failure) -> String {
    let why = gpu.api.describe(failure);
    match failure.code {
        Code::HOST_MEMORY_ALREADY_REGISTERED => {
            format!("another part of the process has registered some of these pages with CUDA: {why}")
        }
        _ => format!("CUDA cannot register these pages: {why}"),
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
        for text in ["", "41:00.0", "0000:41:00", "0000:41:00.0 ", "0000-41:00.0", "no function at all", "0000:4g:00.0"]
        {
            assert!(!is_bus_address(text), "{text:?}");
        }
    }

    /// Promises E25, E26.
    #[test]
    fn pages_are_registered_once_and_as_long_as_a_mapping_lasts() {
        let mut registered = BTreeMap::new();
        assert_eq!(known(&registered, 100, 50), Known::New);
        registered.insert(100, Range { len: 50, mappings: 2 });
        assert_eq!(known(&registered, 100, 50), Known::Inside(100));
        assert_eq!(known(&registered, 120, 30), Known::Inside(100));
        assert_eq!(known(&registered, 150, 10), Known::New);
        assert_eq!(known(&registered, 50, 50), Known::New);
        for (start, len) in [(50, 51), (149, 2), (90, 100), (100, 51), (99, 51)] {
            assert_eq!(known(&registered, start, len), Known::Partly, "{len} at {start}");
        }
        assert!(!release(&mut registered, 100));
        assert!(release(&mut registered, 100));
        assert_eq!(known(&registered, 100, 50), Known::New);
        assert!(!release(&mut registered, 100), "what is not registered is not released");
    }
}
