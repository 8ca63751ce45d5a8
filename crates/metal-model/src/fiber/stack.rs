//! Stacks with a guard page below them, and the switch between them.
//!
//! # Invariants
//!
//! 1. The page below a stack is never accessible: a kernel that uses up its stack faults there.
//! 2. A stack pointer that a fiber was left at is used once.

use std::ffi::c_void;
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Bytes of a page, and of the guard.
const PAGE: usize = 4096;

/// Where a fiber was left.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct StackPointer(*mut u8);

impl StackPointer {
    pub(crate) const fn none() -> Self {
        Self(ptr::null_mut())
    }
}

/// Pages for a stack. They are mapped until it is dropped, and taken from the system as they are touched.
#[derive(Debug)]
pub(crate) struct Stack {
    start: *mut u8,
    len: usize,
}

// SAFETY: a stack owns its pages, which belong to no thread.
unsafe impl Send for Stack {}

/// What a fiber runs: it leaves for good instead of returning.
pub(crate) type Entry = extern "C" fn(*mut c_void) -> !;

impl Stack {
    pub(crate) fn new(bytes: usize) -> Result<Self, rustix::io::Errno> {
        let len = bytes.next_multiple_of(PAGE) + PAGE;
        let (read_write, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: new pages, at an address that the system chooses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, read_write, flags) }?;
        let stack = Self { start: start.cast(), len };
        // SAFETY: the first page is this mapping's, and nothing lies in it yet.
        unsafe { mprotect(start, PAGE, MprotectFlags::empty()) }?;
        Ok(stack)
    }

    /// Whether an address lies in it.
    pub(crate) fn holds(&self, address: usize) -> bool {
        (self.start.addr()..self.start.addr() + self.len).contains(&address)
    }

    /// Makes the stack one that calls `entry` with `argument` when it is entered. What was on it is forgotten.
    pub(crate) fn prepare(&self, entry: Entry, argument: *mut c_void) -> StackPointer {
        // Down from the top: 16 bytes of padding, the address that the switch returns to, and the six registers that it
        // takes, of which the first two (r15, r14) bring the entry and its argument. The padding makes the stack
        // pointer 16-byte aligned at the call in `begin`.
        let frame: [u64; 9] = [entry as usize as u64, argument as u64, 0, 0, 0, 0, begin as *const () as u64, 0, 0];
        // SAFETY: a stack has at least a page above its guard: the frame lies within it.
        let at = unsafe { self.start.add(self.len - size_of_val(&frame)) };
        // SAFETY: as above; the pages are this stack's, and a page's end minus 72 is aligned for u64.
        unsafe { at.cast::<[u64; 9]>().write(frame) };
        StackPointer(at)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the pages are this stack's, and it is gone.
        let unmapped = unsafe { munmap(self.start.cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "pages that were mapped are unmapped");
    }
}

/// The first code of a fiber: the entry is in r15, its argument in r14.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    core::arch::naked_asm!("mov rdi, r14", "call r15", "ud2")
}

/// Stores where this stack is left in `from`, and goes on at `to`.
#[unsafe(naked)]
unsafe extern "C" fn switch(from: *mut StackPointer, to: StackPointer) {
    core::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret"
    )
}

/// Leaves this stack, to be entered again, for another.
///
/// # Safety
///
/// `from` may be written. `to` was prepared, or stored by an earlier switch and not used since; its stack lives, and
/// belongs to this thread.
pub(crate) unsafe fn enter(from: *mut StackPointer, to: StackPointer) {
    // SAFETY: the caller's promise is what the switch needs.
    unsafe { switch(from, to) }
}

/// Leaves this stack for good.
///
/// # Safety
///
/// As for [`enter`], of the stack pointer at `to`; and this stack is not entered again where it is left.
pub(crate) unsafe fn leave(to: *const StackPointer) {
    let mut nowhere = StackPointer::none();
    // SAFETY: the caller's promise; `to` is readable.
    let to = unsafe { *to };
    // SAFETY: the caller's promise.
    unsafe { switch(&raw mut nowhere, to) }
}
