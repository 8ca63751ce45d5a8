//! What a kernel of the host is: the calling convention, in Rust.
//!
//! `include/rig_host.h` states the same for C, made of [`Group`] and of [`abi`](crate::abi). A kernel gets its parameters and its place in the grid, and returns when
//! the group (or, for a thread kernel, the thread) is done. Both are lent for the call.
//!
//! # Invariants
//!
//! 1. [`Group`] is laid out as objects that were compiled before expect it: the const asserts below keep it so.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use bytemuck::AnyBitPattern;

use crate::group;

/// A group's place in the grid, its memory and its barrier.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Group {
    /// This group's place in the grid, below `groups` on each axis.
    pub group: [u32; 3],
    /// The grid, in groups.
    pub groups: [u32; 3],
    /// The threads of a group.
    pub threads: [u32; 3],
    /// This thread's place in the group; zeros in a group kernel.
    pub thread: [u32; 3],
    /// The bytes of group memory.
    pub group_bytes: u32,
    pub(crate) reserved: u32,
    /// Memory that the threads of the group share, on 64 bytes. What it holds at the group's start is unspecified.
    pub group_memory: *mut c_void,
    /// Returns once every thread of the group has called it or has returned. For thread kernels.
    pub(crate) barrier: extern "C" fn(group: *const Group),
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Group, group) == 0);
    assert!(offset_of!(Group, groups) == 12);
    assert!(offset_of!(Group, threads) == 24);
    assert!(offset_of!(Group, thread) == 36);
    assert!(offset_of!(Group, group_bytes) == 48);
    assert!(offset_of!(Group, reserved) == 52);
    assert!(offset_of!(Group, group_memory) == 56);
    assert!(offset_of!(Group, barrier) == 64);
    assert!(size_of::<Group>() == 72);
    assert!(align_of::<Group>() == 8);
};

impl Group {
    /// Returns once every thread of the group has called it or has returned. In a group kernel it returns at once.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let kernels = rig_host::Kernels::new().thread("k", 16, 0, |params, at| {
    ///     let mine = at.thread[0] as usize;
    ///     // SAFETY: slot 0 has a float for each thread, and before the barrier each touches its own.
    ///     let own: &mut [f32] = unsafe { params.slice_mut(0, mine, 1) };
    ///     own[0] = mine as f32;
    ///     at.barrier();
    ///     // SAFETY: after it nobody writes.
    ///     let all: &[f32] = unsafe { params.slice(0, 0, at.thread_count()) };
    ///     assert_eq!(all[at.thread_count() - 1 - mine], (at.thread_count() - 1 - mine) as f32);
    /// });
    /// # let function = device.load(&kernels.image())?.function("k")?;
    /// # let x = device.from_slice(&[1.0_f32; 64])?;
    /// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
    /// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
    /// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
    /// # unsafe { run.launch(&[&x])?.wait()? };
    /// # Ok(())
    /// # }
    /// ```
    pub fn barrier(&self) {
        group::meet();
    }

    /// The number of threads in a group.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let kernels = rig_host::Kernels::new().group("k", 16, |_, at| assert_eq!(at.thread_count(), 64));
    /// # let function = device.load(&kernels.image())?.function("k")?;
    /// # let x = device.from_slice(&[1.0_f32; 64])?;
    /// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
    /// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
    /// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
    /// # unsafe { run.launch(&[&x])?.wait()? };
    /// # Ok(())
    /// # }
    /// ```
    pub fn thread_count(&self) -> usize {
        self.threads.iter().map(|&axis| axis as usize).product()
    }
}

/// A kernel's parameters, with the addresses of the buffers in place at the refs.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// // An address at 0, and a float at 8.
/// let kernels = rig_host::Kernels::new().group("k", 16, |params, at| {
///     let by: f32 = params.get(8);
///     // SAFETY: slot 0 has a float for each thread of the one group.
///     let x: &mut [f32] = unsafe { params.slice_mut(0, 0, at.thread_count()) };
///     x.iter_mut().for_each(|x| *x *= by);
/// });
/// # let function = device.load(&kernels.image())?.function("k")?;
/// # let x = device.from_slice(&[1.0_f32; 64])?;
/// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
/// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
/// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
/// # unsafe { run.launch(&[&x])?.wait()? };
/// assert_eq!(x.to_vec()?, [2.0; 64]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Params<'a> {
    bytes: &'a [u8],
    /// Addresses in the bytes are good only while the work runs.
    lent: PhantomData<*mut u8>,
}

impl fmt::Debug for Params<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Params({} bytes)", self.bytes.len())
    }
}

#[expect(unsafe_code, reason = "a kernel makes slices of the memory that its launch named")]
impl<'a> Params<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Params<'a> {
        Params { bytes, lent: PhantomData }
    }

    /// The parameters' bytes.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let kernels = rig_host::Kernels::new().group("k", 16, |params, _| assert_eq!(params.bytes().len(), 16));
    /// # let function = device.load(&kernels.image())?.function("k")?;
    /// # let x = device.from_slice(&[1.0_f32; 64])?;
    /// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
    /// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
    /// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
    /// # unsafe { run.launch(&[&x])?.wait()? };
    /// # Ok(())
    /// # }
    /// ```
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The value at `at` bytes.
    ///
    /// # Panics
    ///
    /// If the value does not lie inside the parameters. A kernel's panic loses its device.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// // Behind the ref, at 8, stands what the run set.
    /// let kernels = rig_host::Kernels::new().group("k", 16, |params, _| assert_eq!(params.get::<f32>(8), 2.0));
    /// # let function = device.load(&kernels.image())?.function("k")?;
    /// # let x = device.from_slice(&[1.0_f32; 64])?;
    /// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
    /// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
    /// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
    /// # unsafe { run.launch(&[&x])?.wait()? };
    /// # Ok(())
    /// # }
    /// ```
    pub fn get<T: AnyBitPattern>(&self, at: usize) -> T {
        let bytes = at.checked_add(size_of::<T>()).and_then(|end| self.bytes.get(at..end));
        match bytes {
            Some(bytes) => bytemuck::pod_read_unaligned(bytes),
            None => {
                panic!("{} bytes of parameters at {at} of {} were asked for", size_of::<T>(), self.bytes.len())
            }
        }
    }

    /// The address that stands at `at` bytes: there, a ref.
    ///
    /// # Panics
    ///
    /// As [`get`](Params::get).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let kernels = rig_host::Kernels::new().group("k", 16, |params, _| {
    ///     let x: *mut f32 = params.address(0);
    ///     // SAFETY: slot 0 has a float, and the launch one group.
    ///     unsafe { *x += 1.0 };
    /// });
    /// # let function = device.load(&kernels.image())?.function("k")?;
    /// # let x = device.from_slice(&[1.0_f32; 64])?;
    /// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
    /// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
    /// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
    /// # unsafe { run.launch(&[&x])?.wait()? };
    /// assert_eq!(x.read(|x| x[0])?, 2.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn address<T>(&self, at: usize) -> *mut T {
        // The address of memory that the driver handed out: its provenance was exposed when the region was located.
        std::ptr::with_exposed_provenance_mut(self.get::<u64>(at) as usize)
    }

    /// `len` values of the memory of the ref at `at`, from its `first`.
    ///
    /// # Safety
    ///
    /// The ref's memory holds so many initialised values there, aligned for `T`, and nothing writes them while the slice
    /// is in use: no other group, thread or ref of the launch.
    ///
    /// # Panics
    ///
    /// As [`get`](Params::get).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let kernels = rig_host::Kernels::new().group("k", 16, |params, _| {
    ///     // SAFETY: slot 0 has 64 floats, which nothing writes meanwhile.
    ///     let x: &[f32] = unsafe { params.slice(0, 0, 64) };
    ///     assert_eq!(x.iter().sum::<f32>(), 64.0);
    /// });
    /// # let function = device.load(&kernels.image())?.function("k")?;
    /// # let x = device.from_slice(&[1.0_f32; 64])?;
    /// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
    /// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
    /// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
    /// # unsafe { run.launch(&[&x])?.wait()? };
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn slice<T>(&self, at: usize, first: usize, len: usize) -> &'a [T] {
        // SAFETY: the caller says that the memory reaches so far.
        let start = unsafe { self.address::<T>(at).add(first) };
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// As [`slice`](Params::slice), for writing.
    ///
    /// # Safety
    ///
    /// As for [`slice`](Params::slice); the ref is a write; and nothing else reads or writes the values while the slice is
    /// in use.
    ///
    /// # Panics
    ///
    /// As [`get`](Params::get).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let kernels = rig_host::Kernels::new().group("k", 16, |params, at| {
    ///     // SAFETY: slot 0 has 64 floats for each group, and no other group touches these.
    ///     let x: &mut [f32] = unsafe { params.slice_mut(0, 64 * at.group[0] as usize, 64) };
    ///     x.fill(5.0);
    /// });
    /// # let function = device.load(&kernels.image())?.function("k")?;
    /// # let x = device.from_slice(&[1.0_f32; 64])?;
    /// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
    /// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
    /// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
    /// # unsafe { run.launch(&[&x])?.wait()? };
    /// assert_eq!(x.to_vec()?, [5.0; 64]);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn slice_mut<T>(&self, at: usize, first: usize, len: usize) -> &'a mut [T] {
        // SAFETY: the caller says that the memory reaches so far.
        let start = unsafe { self.address::<T>(at).add(first) };
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}

/// A kernel that is a Rust function.
pub(crate) type RustKernel = dyn Fn(&Params<'_>, &Group) + Send + Sync;

/// How often a kernel is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Once a group; it loops over the group's threads itself.
    Group,
    /// Once a thread; it may meet the other threads of its group at barriers.
    Thread,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_at_their_places() {
        let mut bytes = [0; 24];
        bytes[8..12].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[13..21].copy_from_slice(&2.5_f64.to_ne_bytes());
        let params = Params::new(&bytes);
        assert_eq!(params.get::<u32>(8), 7);
        assert_eq!(params.get::<f64>(13), 2.5);
    }

    #[test]
    #[should_panic(expected = "8 bytes of parameters at 17 of 24")]
    fn parameters_are_not_read_past_their_end() {
        Params::new(&[0; 24]).get::<u64>(17);
    }
}
