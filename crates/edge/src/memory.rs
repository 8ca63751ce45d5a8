//! Memory as a driver gives it: kinds, places, mappings, DMA.

use std::ffi::c_void;

/// The bytes of a word of memory: `alloc` is asked only for positive multiples of it, so a kernel may read and write a
/// buffer's last bytes by whole words (C04).
///
/// ```
/// use rig_edge::WORD_BYTES;
///
/// // A buffer of 10 bytes lies in memory of 12, so that a kernel may store its last bytes as a word.
/// assert_eq!(10_usize.next_multiple_of(WORD_BYTES), 12);
/// ```
pub const WORD_BYTES: usize = 4;

/// What a region's memory is for.
///
/// ```
/// use rig_edge::Memory;
///
/// /// The heap of the vendor's that each kind comes from; None where the device has no such memory.
/// fn heap(memory: Memory) -> Option<u32> {
///     match memory {
///         Memory::Device => Some(0),
///         Memory::Pinned => Some(1),
///         // The device's own through its window, and whatever kinds there will be.
///         _ => None,
///     }
/// }
/// assert_eq!((heap(Memory::Pinned), heap(Memory::Mapped)), (Some(1), None));
/// ```
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
    ///
    /// ```
    /// use rig_edge::{Fault, Memory};
    ///
    /// let fault = Fault::new(format!("the kernel took back {} memory", Memory::Pinned.name()));
    /// assert_eq!(fault.reason, "the kernel took back pinned memory");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Memory::Device => "device",
            Memory::Pinned => "pinned",
            Memory::Mapped => "mapped",
        }
    }
}

/// Where a region lies.
///
/// ```
/// use rig_edge::Location;
///
/// // Memory of a card's own, which the host does not address and which has no object of the vendor's.
/// let at = Location { device: 0x7f00_0000_0000, host: std::ptr::null_mut(), handle: std::ptr::null() };
/// assert!(at.host.is_null());
/// ```
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
///
/// ```
/// use rig_edge::{Fault, Mapping};
///
/// /// What an error code of the system's says of a mapping.
/// fn answer(code: i32) -> Result<Mapping<()>, Fault> {
///     match code {
///         0 => Ok(Mapping::Mapped(())),
///         12 => Ok(Mapping::NoMemory), // may do once something is freed
///         14 => Ok(Mapping::Never("the pages are a device's registers, and no memory".into())),
///         _ => Err(Fault::new(format!("the mapping fails with {code}"))),
///     }
/// }
/// assert!(matches!(answer(12), Ok(Mapping::NoMemory)));
/// assert!(answer(5).is_err());
/// ```
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
///
/// ```
/// use rig_edge::Dma;
///
/// /// What a driver of a network card asks of the answer: where byte `at` of the memory is, for the card.
/// fn address(dma: &Dma, mut at: u64) -> Option<u64> {
///     let Dma::Bus(ranges) = dma else { return None };
///     for (start, len) in ranges {
///         if at < *len {
///             return Some(start + at);
///         }
///         at -= len;
///     }
///     None
/// }
/// let dma = Dma::Bus(vec![(0x1_0000, 0x1000), (0x9_0000, 0x1000)]);
/// assert_eq!(address(&dma, 0x1008), Some(0x9_0008));
/// ```
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
///
/// ```
/// use rig_edge::page_bytes;
///
/// // `map_host` maps whole pages: those that hold these bytes.
/// let (start, len) = (10_000_usize, 5_000_usize);
/// let first = start - start % page_bytes();
/// let mapped = (start + len).next_multiple_of(page_bytes()) - first;
/// assert!(first <= start && mapped >= len && mapped.is_multiple_of(page_bytes()));
/// ```
pub fn page_bytes() -> usize {
    #[cfg(unix)]
    return rustix::param::page_size();
    // Windows has pages of 4 KiB on every architecture that Rust knows there.
    #[cfg(not(unix))]
    return 4096;
}
