//! The host's memory: every kind is the same.
//!
//! # Invariants
//!
//! 1. The bytes of a region that the device made are zero when made, on 64 bytes (a page for large ones), and stay in
//!    place until the region is dropped.
//! 2. An alias (a mapping) owns nothing: whoever asked for it keeps the memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use memmap2::MmapMut;
use rig_edge::Location;

/// Every region's first byte is a multiple of this.
pub(crate) const ALIGNMENT: usize = 64;

/// From this length on a region is pages of its own: fresh pages are zero for nothing, and go back to the system when
/// freed, where the allocator would write them or keep them.
const PAGES_FROM: usize = 64 * 1024;

/// From this length on huge pages are asked for: a first touch then costs a fault for 2 MiB, not for 4 KiB.
const HUGE_FROM: usize = 4 * 1024 * 1024;

/// Memory of a host device: made by it, or mapped for it. Dropping a region does free its memory.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let buffer = device.from_slice(&[1_u8, 2, 3, 4])?;
/// // A region of the host is memory of this process, whose address tasks and kernels get.
/// let fill = device.submission().fill::<rig_host::Host>([rig::read(0)], |_, slots| {
///     let aligned = slots[0].host.addr().is_multiple_of(64);
///     if aligned { Ok(()) } else { Err("every region starts on 64 bytes".to_owned()) }
/// });
/// // SAFETY: the fill touches nothing.
/// unsafe { fill.make()?.take().launch(&[&buffer])?.wait()? };
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Region(Memory);

#[derive(Debug)]
enum Memory {
    Block(Block),
    Pages(MmapMut),
    Alias(Alias),
}

/// A block of the allocator's.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

/// The start of memory that somebody else keeps.
#[derive(Debug)]
struct Alias(*mut u8);

// SAFETY: a Block owns its bytes as a Box does and lends them only as a raw address; nothing in it is a thread's own.
#[expect(unsafe_code, reason = "a block of bytes is owned as a box is")]
unsafe impl Send for Block {}
// SAFETY: a shared Block gives its address alone.
#[expect(unsafe_code, reason = "a block of bytes is owned as a box is")]
unsafe impl Sync for Block {}
// SAFETY: an Alias is an address, plain data.
#[expect(unsafe_code, reason = "an address is plain data")]
unsafe impl Send for Alias {}
// SAFETY: an Alias is an address, plain data.
#[expect(unsafe_code, reason = "an address is plain data")]
unsafe impl Sync for Alias {}

impl Block {
    #[expect(unsafe_code, reason = "the one place that asks the allocator")]
    fn new(len: usize) -> Option<Block> {
        let layout = Layout::from_size_align(len, ALIGNMENT).ok()?;
        assert!(len > 0, "a region of no bytes was asked for");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        Some(Block { start: NonNull::new(start)?, layout })
    }
}

impl Drop for Block {
    #[expect(unsafe_code, reason = "the one place that gives back to the allocator")]
    fn drop(&mut self) {
        // SAFETY: `start` came from the allocator with this layout, and is freed once, here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl Region {
    /// `len` zero bytes, or `None` if there is no memory for them.
    pub(crate) fn new(len: usize) -> Option<Region> {
        if len as u64 > host_bytes() {
            return None;
        }
        if len < PAGES_FROM {
            return Block::new(len).map(|block| Region(Memory::Block(block)));
        }
        let pages = MmapMut::map_anon(len).ok()?;
        if len >= HUGE_FROM {
            // Only advice, and only Linux takes it: where the system gives no huge pages the small ones serve.
            #[cfg(target_os = "linux")]
            let _ = pages.advise(memmap2::Advice::HugePage);
        }
        Some(Region(Memory::Pages(pages)))
    }

    /// The memory at `address`, which somebody else keeps.
    pub(crate) fn alias(address: *mut u8) -> Region {
        Region(Memory::Alias(Alias(address)))
    }

    /// The first byte.
    pub(crate) fn address(&self) -> *mut u8 {
        match &self.0 {
            Memory::Block(block) => block.start.as_ptr(),
            Memory::Pages(pages) => pages.as_ptr().cast_mut(),
            Memory::Alias(alias) => alias.0,
        }
    }

    /// Where the region lies: the host's address is the device's.
    pub(crate) fn location(&self) -> Location {
        let host = self.address();
        // Exposed: kernels make pointers of the number that stands in their parameters.
        Location { device: host.expose_provenance() as u64, host, handle: std::ptr::null() }
    }
}

/// The bytes of memory that the host has; `u64::MAX / 2` where nothing says.
pub(crate) fn host_bytes() -> u64 {
    static BYTES: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *BYTES.get_or_init(|| physical_bytes().unwrap_or(u64::MAX / 2))
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "asks the C library")]
fn physical_bytes() -> Option<u64> {
    // SAFETY: sysconf only answers a number.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    // SAFETY: as above.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let bytes = u64::try_from(pages).ok()?.checked_mul(u64::try_from(page).ok()?)?;
    (bytes > 0).then_some(bytes)
}

#[cfg(not(unix))]
fn physical_bytes() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(unsafe_code, reason = "reads the region's bytes")]
    fn bytes(region: &mut Region, len: usize) -> &mut [u8] {
        // SAFETY: the region holds `len` initialised bytes and is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(region.address(), len) }
    }

    /// Promises C33, E04.
    #[test]
    fn fresh_memory_is_zero_and_aligned_also_after_other_memory_was_freed() {
        for len in [4, 64, 4096, PAGES_FROM - 4, PAGES_FROM, HUGE_FROM + 4] {
            for _ in 0..3 {
                let mut region = Region::new(len).unwrap();
                assert_eq!(region.address().addr() % ALIGNMENT, 0);
                assert!(bytes(&mut region, len).iter().all(|&byte| byte == 0), "{len} bytes");
                bytes(&mut region, len).fill(0xff);
            }
        }
    }

    /// Promise E04.
    #[test]
    fn memory_beyond_the_hosts_is_none() {
        assert!(Region::new(usize::MAX & !3).is_none());
        assert!(Region::new(host_bytes() as usize / 4 * 4 + 4).is_none());
    }
}
