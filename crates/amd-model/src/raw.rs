//! Memory at real addresses: the pages that stand for the GPU's and the host's memory, and the only accesses to them.
//!
//! # Invariants
//!
//! 1. A [`Raw`] is made for memory that stays mapped, readable and writable for as long as it is used: of [`Pages`], which
//!    unmap when dropped and lend theirs, or of pages of the caller's, who promised it in a call of the kernel's.
//! 2. Every access is inside its `Raw`, checked, and atomic where the address is aligned to the access: the host and
//!    other threads of the program write the same words at the same time, through other mappings or this one.
//!
//! Accesses of a word that carry an order name it: the host's release stores of headers and doorbells pair with the acquire
//! loads here, and its acquire loads of the words that a queue stores pair with the release stores here.

use rustix::fd::{AsFd, IntoRawFd, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A page of the host's.
pub(crate) const PAGE: u64 = 4096;

/// Memory at an address.
#[derive(Debug)]
pub(crate) struct Raw {
    address: usize,
    len: usize,
}

/// Shared memory without a name, mapped here, which can be mapped for the caller too.
#[derive(Debug)]
pub(crate) struct Pages {
    raw: Raw,
    file: OwnedFd,
}

impl Raw {
    /// # Safety
    ///
    /// Invariant 1 of the module.
    pub(crate) unsafe fn new(address: usize, len: usize) -> Self {
        Self { address, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn at(&self, offset: usize, len: usize, align: usize) -> usize {
        assert!(offset <= self.len && len <= self.len - offset, "an access of {len} bytes at {offset} of {}", self.len);
        let address = self.address + offset;
        assert!(address.is_multiple_of(align), "an access of a word at {address:#x}, which is not aligned");
        address
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        let address = self.at(offset, 1, 1);
        // SAFETY: the byte is inside this memory (`at` asserts it), which is mapped (invariant 1), and is accessed by atomics
        // alone (invariant 2).
        unsafe { AtomicU8::from_ptr(address as *mut u8) }
    }

    /// The aligned 32-bit word at an offset.
    pub(crate) fn u32(&self, offset: usize) -> &AtomicU32 {
        let address = self.at(offset, 4, 4);
        // SAFETY: the word is inside this memory and aligned (`at` asserts both), which is mapped (invariant 1), and is
        // accessed by atomics alone (invariant 2).
        unsafe { AtomicU32::from_ptr(address as *mut u32) }
    }

    /// The aligned 64-bit word at an offset.
    pub(crate) fn u64(&self, offset: usize) -> &AtomicU64 {
        let address = self.at(offset, 8, 8);
        // SAFETY: as in `u32`.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }
    }

    /// Copies bytes out: whole words where they are aligned.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if (self.address + offset + at).is_multiple_of(8) && bytes.len() - at >= 8 {
                bytes[at..at + 8].copy_from_slice(&self.u64(offset + at).load(Ordering::Relaxed).to_le_bytes());
                at += 8;
            } else if (self.address + offset + at).is_multiple_of(4) && bytes.len() - at >= 4 {
                bytes[at..at + 4].copy_from_slice(&self.u32(offset + at).load(Ordering::Relaxed).to_le_bytes());
                at += 4;
            } else {
                bytes[at] = self.byte(offset + at).load(Ordering::Relaxed);
                at += 1;
            }
        }
    }

    /// Copies bytes in: whole words where they are aligned.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if (self.address + offset + at).is_multiple_of(8) && bytes.len() - at >= 8 {
                let word = u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
                self.u64(offset + at).store(word, Ordering::Release);
                at += 8;
            } else if (self.address + offset + at).is_multiple_of(4) && bytes.len() - at >= 4 {
                let word = u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
                self.u32(offset + at).store(word, Ordering::Release);
                at += 4;
            } else {
                self.byte(offset + at).store(bytes[at], Ordering::Release);
                at += 1;
            }
        }
    }

    /// Sets all bytes.
    pub(crate) fn fill(&self, byte: u8) {
        let block = [byte; 4096];
        let mut at = 0;
        while at < self.len {
            let n = block.len().min(self.len - at);
            self.write(at, &block[..n]);
            at += n;
        }
    }
}

impl Pages {
    /// New pages, all zero.
    pub(crate) fn new(len: usize) -> Result<Self, i32> {
        let errno = |errno: rustix::io::Errno| errno.raw_os_error();
        let file = rustix::fs::memfd_create("rig-amd-model", MemfdFlags::CLOEXEC).map_err(errno)?;
        rustix::fs::ftruncate(&file, len as u64).map_err(errno)?;
        // SAFETY: a new mapping at an address that the kernel chooses replaces nothing.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file.as_fd(),
                0,
            )
        }
        .map_err(errno)?;
        // SAFETY: the mapping was just made, of `len` bytes, and stands until these pages drop, which own the `Raw`.
        let raw = unsafe { Raw::new(address as usize, len) };
        Ok(Self { raw, file })
    }

    pub(crate) fn raw(&self) -> &Raw {
        &self.raw
    }

    /// The pages as a file of the system's, which whoever gets it closes.
    pub(crate) fn file(&self) -> Result<i32, i32> {
        self.file.try_clone().map(IntoRawFd::into_raw_fd).map_err(|error| error.raw_os_error().unwrap_or(0))
    }

    /// Maps the pages for the caller too.
    ///
    /// # Safety
    ///
    /// As of the kernel's mmap: with MAP_FIXED the caller owns what is replaced.
    pub(crate) unsafe fn map(&self, at: &Place, offset: u64) -> Result<usize, i32> {
        let flags = MapFlags::from_bits_retain(at.flags as u32);
        let protection = ProtFlags::from_bits_retain(at.protection as u32);
        // SAFETY: the caller's promise is that of mmap.
        unsafe { rustix::mm::mmap(at.address as *mut _, at.len, protection, flags, self.file.as_fd(), offset) }
            .map(|address| address as usize)
            .map_err(|errno| errno.raw_os_error())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's own, and with it goes the `Raw` that was lent from it.
        let _ = unsafe { rustix::mm::munmap(self.raw.address as *mut _, self.raw.len) };
    }
}

/// Where and how a mapping for the caller is to be: the arguments of mmap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) address: usize,
    pub(crate) len: usize,
    pub(crate) protection: i32,
    pub(crate) flags: i32,
}

/// Maps memory that stands for nothing: a reservation of addresses.
///
/// # Safety
///
/// As of the kernel's mmap.
pub(crate) unsafe fn map_anonymous(at: &Place) -> Result<usize, i32> {
    let flags = MapFlags::from_bits_retain(at.flags as u32 & !MAP_ANONYMOUS);
    let protection = ProtFlags::from_bits_retain(at.protection as u32);
    // SAFETY: the caller's promise is that of mmap.
    unsafe { rustix::mm::mmap_anonymous(at.address as *mut _, at.len, protection, flags) }
        .map(|address| address as usize)
        .map_err(|errno| errno.raw_os_error())
}

/// # Safety
///
/// As of the kernel's munmap.
pub(crate) unsafe fn unmap(address: usize, len: usize) -> Result<(), i32> {
    // SAFETY: the caller's promise is that of munmap.
    unsafe { rustix::mm::munmap(address as *mut _, len) }.map_err(|errno| errno.raw_os_error())
}

/// MAP_ANONYMOUS, which rustix sets itself.
const MAP_ANONYMOUS: u32 = 0x20;

/// Reads a struct of plain integers from the caller's memory.
///
/// # Safety
///
/// `address` is the address of `size` readable bytes, or of more.
pub(crate) unsafe fn take<T: crate::kfd::abi::Wire>(address: *const u8, size: usize) -> T {
    let mut value = T::default();
    let n = size.min(size_of::<T>());
    // SAFETY: `n` bytes are readable by the caller's promise and fit `value`, whose every byte pattern is a value (`Wire`).
    unsafe { std::ptr::copy_nonoverlapping(address, (&raw mut value).cast::<u8>(), n) };
    value
}

/// Writes a struct of plain integers to the caller's memory.
///
/// # Safety
///
/// `address` is the address of `size` writable bytes, or of more.
pub(crate) unsafe fn give<T: crate::kfd::abi::Wire>(address: *mut u8, size: usize, value: &T) {
    let n = size.min(size_of::<T>());
    // SAFETY: `n` bytes are writable by the caller's promise, and `value` has as many, none of them padding (`Wire`).
    unsafe { std::ptr::copy_nonoverlapping((&raw const *value).cast::<u8>(), address, n) };
}
