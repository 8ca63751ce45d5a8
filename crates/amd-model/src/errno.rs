//! The kernel's numbers for errors, as far as the model answers with them. Linux's, on the systems that rig runs on.

/// No such process: the GPU has no address space of this process yet.
pub const ESRCH: i32 = 3;
/// Not permitted.
pub const EPERM: i32 = 1;
/// No such file.
pub const ENOENT: i32 = 2;
/// An input or output error: the GPU is gone.
pub const EIO: i32 = 5;
/// A number that names no open file.
pub const EBADF: i32 = 9;
/// No memory.
pub const ENOMEM: i32 = 12;
/// Permission denied.
pub const EACCES: i32 = 13;
/// An address that the kernel cannot reach.
pub const EFAULT: i32 = 14;
/// In use.
pub const EBUSY: i32 = 16;
/// No such device.
pub const ENODEV: i32 = 19;
/// An argument that the kernel refuses.
pub const EINVAL: i32 = 22;
/// A request that this file does not know.
pub const ENOTTY: i32 = 25;
/// No space: no more queues or events.
pub const ENOSPC: i32 = 28;
