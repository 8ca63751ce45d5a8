//! NCCL's own types, as its header `nccl.h` lays them out.
//!
//! Numbers are those of NCCL 2.10 and later, which never gives one another meaning. An answer is a number and no enum, since a
//! newer library answers with numbers that no list here could hold.

use std::ffi::c_void;

/// The answer of a call: `ncclResult_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Code(pub i32);

impl Code {
    pub const SUCCESS: Code = Code(0);
    pub const IN_PROGRESS: Code = Code(7);
}

/// The bytes of a [`UniqueId`].
pub(crate) const ID_BYTES: usize = 128;

/// `ncclUniqueId`: how the ranks of one communicator find one another. Passed by value.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct UniqueId(pub [u8; ID_BYTES]);

/// `ncclComm_t`: a rank's communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Comm(pub *mut c_void);

impl Comm {
    /// No communicator.
    pub const NULL: Comm = Comm(std::ptr::null_mut());
}

// SAFETY: a handle is a number to everyone but NCCL, whose calls may come from any thread (NCCL's documentation, "Thread
// safety"); that calls which queue work on one communicator do not overlap is seen to where they are made.
unsafe impl Send for Comm {}
// SAFETY: as for Send.
unsafe impl Sync for Comm {}

/// `cudaStream_t`, which is CUDA's `CUstream`.
pub(crate) type Stream = *mut c_void;

const _: () = {
    assert!(size_of::<UniqueId>() == 128 && align_of::<UniqueId>() == 1);
    assert!(size_of::<Comm>() == size_of::<*mut c_void>());
};
