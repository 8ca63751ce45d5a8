//! The memory of loaded code: written, then sealed, then run.
//!
//! # Invariants
//!
//! 1. [`Pages`] are readable and writable, and reached by their owner alone.
//! 2. A [`Machine`]'s code is readable and executable, its constants readable, its variables readable and writable, and
//!    nothing but kernels touches them.

use std::ops::Range;

use memmap2::MmapMut;

use super::link::Layout;
use crate::kernel::Group;

/// A kernel as compilers make it.
pub(crate) type MachineKernel = unsafe extern "C" fn(*const u8, *const Group);

/// Fresh pages, to write an image to.
pub(crate) struct Pages(MmapMut);

/// A loaded image. Its memory goes with it.
#[derive(Debug)]
pub(crate) struct Machine {
    pages: MmapMut,
}

impl Pages {
    /// `len` zero bytes, a multiple of the page; a page at least.
    pub(crate) fn new(len: u64) -> Result<Pages, String> {
        let len = len.max(page_bytes());
        MmapMut::map_anon(len as usize)
            .map(Pages)
            .map_err(|why| format!("the host has no memory for the image's {len} bytes: {why}"))
    }

    pub(crate) fn base(&self) -> u64 {
        self.0.as_ptr().addr() as u64
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Gives each segment its protection.
    pub(crate) fn seal(self, layout: &Layout) -> Result<Machine, String> {
        // Before the code can run anywhere: it was written as data.
        forget_instructions(&self.0[layout.code.start as usize..layout.code.end as usize]);
        protect(&self.0, &layout.code, Protection::Execute)?;
        protect(&self.0, &layout.constants, Protection::Read)?;
        Ok(Machine { pages: self.0 })
    }
}

impl Machine {
    /// The kernel whose code begins `offset` bytes into the image.
    ///
    /// # Panics
    ///
    /// If the offset lies outside of the image: the loader checks functions against their sections.
    #[expect(unsafe_code, reason = "an address of code becomes a function")]
    pub(crate) fn kernel(&self, offset: u64) -> MachineKernel {
        let code = &self.pages[offset as usize..];
        // SAFETY: the types are of one size, and the pointer is not null. What calling the function does is for the
        // caller of `launch` to know: that is the contract of loading machine code.
        unsafe { std::mem::transmute::<*const u8, MachineKernel>(code.as_ptr()) }
    }
}

enum Protection {
    Read,
    Execute,
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "asks the system")]
fn protect(pages: &MmapMut, range: &Range<u64>, protection: Protection) -> Result<(), String> {
    if range.is_empty() {
        return Ok(());
    }
    let part = &pages[range.start as usize..range.end as usize];
    let flags = match protection {
        Protection::Read => libc::PROT_READ,
        Protection::Execute => libc::PROT_READ | libc::PROT_EXEC,
    };
    // SAFETY: the range is whole pages of a mapping that `pages` owns, and nothing holds a reference for writing to it:
    // from here on the pages are only read and run.
    let answer = unsafe { libc::mprotect(part.as_ptr().cast_mut().cast(), part.len(), flags) };
    if answer == 0 {
        return Ok(());
    }
    Err(format!("the host does not let code be made executable: {}", std::io::Error::last_os_error()))
}

#[cfg(not(unix))]
fn protect(_: &MmapMut, _: &Range<u64>, _: Protection) -> Result<(), String> {
    Err("this host runs no ELF objects".into())
}

/// The bytes of a page.
pub(crate) fn page_bytes() -> u64 {
    rig_edge::page_bytes() as u64
}

/// Makes new code visible to instruction fetches. x86-64 keeps them coherent (Intel SDM volume 3, section 12.6: for code
/// that another address has not run before, nothing is needed); arm64 does not.
#[cfg(not(target_arch = "aarch64"))]
fn forget_instructions(_: &[u8]) {}

#[cfg(all(target_arch = "aarch64", target_vendor = "apple"))]
#[expect(unsafe_code, reason = "asks the C library")]
fn forget_instructions(code: &[u8]) {
    unsafe extern "C" {
        fn sys_icache_invalidate(start: *mut std::ffi::c_void, len: usize);
    }
    // SAFETY: the range is mapped memory; nothing in it changes.
    unsafe { sys_icache_invalidate(code.as_ptr().cast_mut().cast(), code.len()) }
}

/// The sequence of the Arm Architecture Reference Manual, section B2.4.4 ("Concurrent modification and execution").
#[cfg(all(target_arch = "aarch64", not(target_vendor = "apple")))]
#[expect(unsafe_code, reason = "cache maintenance has no call of the library")]
fn forget_instructions(code: &[u8]) {
    use std::arch::asm;
    let sizes: u64;
    // SAFETY: reads a register that every system lets programs read.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) sizes, options(nomem, nostack, preserves_flags)) };
    let (data_line, code_line) = (4_usize << (sizes >> 16 & 15), 4_usize << (sizes & 15));
    let (start, end) = (code.as_ptr().addr(), code.as_ptr().addr() + code.len());
    for line in (start & !(data_line - 1)..end).step_by(data_line) {
        // SAFETY: cleans a line of memory that is mapped; changes no content.
        unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: a barrier.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    for line in (start & !(code_line - 1)..end).step_by(code_line) {
        // SAFETY: forgets fetched instructions of memory that is mapped.
        unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: a barrier.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
}
