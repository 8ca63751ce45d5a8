//! Memory as a driver gives it: kinds, places, mappings, DMA.

use std::ffi::c_void;

/// The bytes of a word of memory: `alloc` is asked only for positive multiples of it, so a kernel may read and write a
/// buffer's last bytes by whole words (C04).
pub const WORD_BYTES: usize = 4;

/// What a region's memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Memory {
    /// The device's own memory: the fastest for its work; the host may not address it.
    Device,
    /// Host memory that the device reaches and that stays in place, for fast copies. The host addresses it.
    Pinned,
    /// Memory that the host addresses and the device works in: the device's own through a window, or the host's.
    Mapped,
}

impl Memory {
    /// Its name in messages: `device`, `pinned` or `mapped`.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Device => "device",
            Memory::Pinned => "pinned",
            Memory::Mapped => "mapped",
        }
    }
}

/// Where a region lies.
#[derive(Clone, Copy, Debug)]
pub struct Location {
    /// The address by which the device's work reaches the first byte; 0 where it has none.
    pub device: u64,
    /// The host address of the first byte; null where the host addresses none of it. Bytes that the host addresses are
    /// initialised: a driver's `alloc` gives zeros there (C33).
    pub host: *mut u8,
    /// The vendor's object of the region, such as an MTLBuffer, for fills; null where there is none.
    pub handle: *const c_void,
}

// SAFETY: a Location is three addresses, plain data: nothing is read through them by this type. Whoever dereferences one
// proves it there.
#[expect(unsafe_code, reason = "raw addresses are plain data")]
unsafe impl Send for Location {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "raw addresses are plain data")]
unsafe impl Sync for Location {}

/// What came of mapping memory that another device or the host owns.
#[derive(Debug)]
pub enum Mapping<R> {
    /// The mapping, freed as a region is.
    Mapped(R),
    /// No memory for the mapping now: it may succeed once something is freed.
    NoMemory,
    /// This memory can never be mapped so, and why.
    Never(String),
}

/// How a PCI function reaches a region's bytes (E34).
#[derive(Debug)]
#[non_exhaustive]
pub enum Dma {
    /// Ranges of bus addresses, in the order of the region's bytes: first address and length in bytes.
    Bus(Vec<(u64, u64)>),
    /// A dma-buf's file descriptor and the offset of the region's first byte in it. The caller owns the descriptor.
    DmaBuf {
        /// The open file descriptor.
        descriptor: i32,
        /// The offset in bytes.
        offset: u64,
    },
}

/// The bytes of a page of the host's memory.
pub fn page_bytes() -> usize {
    #[cfg(unix)]
    return rustix::param::page_size();
    // Windows has pages of 4 KiB on every architecture that Rust knows there.
    #[cfg(not(unix))]
    return 4096;
}
