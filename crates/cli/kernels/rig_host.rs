//! The calling convention of the host's kernels, for kernels in Rust: the same as the C header `rig_host.h` states.
//!
//! A kernel is compiled alone, to an object:
//! `rustc --crate-type=lib --emit=obj --edition=2024 -C panic=abort -C opt-level=2 kernel.rs`. It is `no_std`, and calls
//! nothing that may panic, since an object may import only the documented symbols of the host.

/// The group that a kernel runs for, and in a thread kernel the thread.
#[repr(C)]
pub struct Group {
    /// The group's place in the grid.
    pub group: [u32; 3],
    /// The grid, in groups.
    pub groups: [u32; 3],
    /// The threads of a group.
    pub threads: [u32; 3],
    /// This thread; zeros in a group kernel.
    pub thread: [u32; 3],
    /// The bytes of group memory.
    pub group_bytes: u32,
    reserved: u32,
    /// Memory that the threads of the group share.
    pub group_memory: *mut u8,
    barrier: unsafe extern "C" fn(*const Group),
}

impl Group {
    /// The elements along an axis that the group takes, one a thread, of `count` in all.
    #[inline(always)]
    #[allow(dead_code, reason = "not every kernel loops over its threads")]
    pub fn range(&self, axis: usize, count: u32) -> core::ops::Range<usize> {
        // SAFETY: the kernels name axis 0 or 1 of 3. Indexing would import the panic of a bad index.
        let (group, threads) = unsafe { (*self.group.get_unchecked(axis), *self.threads.get_unchecked(axis)) };
        let count = count as usize;
        let start = group as usize * threads as usize;
        let end = start + threads as usize;
        start..if end < count { end } else { count }
    }

    /// Returns once every thread of the group has called it.
    ///
    /// # Safety
    ///
    /// In a thread kernel alone, and called by every thread of the group as often.
    #[inline(always)]
    #[allow(dead_code, reason = "a group kernel has no barrier")]
    pub unsafe fn barrier(&self) {
        // SAFETY: the caller's; the device made this group with its barrier.
        unsafe { (self.barrier)(self) }
    }
}

/// What an object says of a kernel, in a symbol named `rig_kernel_` and the kernel's name.
#[repr(C)]
pub struct Kernel {
    version: u32,
    kind: u32,
    params: u32,
    group_bytes: u32,
}

impl Kernel {
    /// A kernel that is called once a group, with parameters `P`.
    #[allow(dead_code, reason = "a kernel is of one kind")]
    pub const fn group<P>() -> Kernel {
        Kernel { version: 1, kind: 0, params: size_of::<P>() as u32, group_bytes: 0 }
    }

    /// A kernel that is called once a thread, with parameters `P`.
    #[allow(dead_code, reason = "a kernel is of one kind")]
    pub const fn thread<P>() -> Kernel {
        Kernel { version: 1, kind: 1, params: size_of::<P>() as u32, group_bytes: 0 }
    }
}
