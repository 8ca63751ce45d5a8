//! What the machine code of kernels and the host agree on: names of host functions, offsets of contexts, kinds.
//!
//! # Host functions and globals that IR may call (declare them with exactly these types)
//!
//! | declaration | meaning |
//! | --- | --- |
//! | `declare ptr @rig_ctx()` | the running thread's [`ThreadContext`]; kernels with fibers only. The engine defines it in IR, inlined |
//! | `declare void @rig_barrier(ptr, i32)` | context, site: returns once every live thread of the threadgroup has called it |
//! | `declare i32 @rig_exchange(ptr, i32, ptr, i32, ptr)` | context, site, this lane's value, its bytes (the same for all lanes of a site; at most [`EXCHANGE_MAX`]), and a pointer to a `ptr` variable that is set to the values of all lanes: lane `l`'s value at `l * bytes`, 16-byte aligned, valid until this thread's next barrier or exchange. Values of lanes outside the answered mask are undefined. Answers the mask of active lanes |
//! | `declare { i64, i64 } @rig_reach(i64)` | first address and length of the range that holds a GPU address (a bound buffer or a resident allocation), or zeros. It has no effects and reads no memory that changes in a dispatch: declare it `nounwind willreturn memory(none) speculatable` |
//! | `declare void @rig_check(i64, i64, i32, i64)` | GPU address, bytes, access ([`ACCESS_READ`] …), root (the GPU address that the pointer was derived from): returns when all these bytes are reachable, abandons the dispatch with the violation when not. Where a range holds the root, the same range must hold the bytes; where none does, any may. For the slow path behind an inlined check |
//! | `declare void @rig_violation(i32, i64, i64)` | kind ([`VIOLATION_NOT_RESIDENT`] …), address, bytes: abandons the dispatch; never returns (`noreturn nounwind cold`) |
//!
//! Sites: bodies of the prelude pass `i32 0`. Once they are inlined the engine numbers the calls of `rig_barrier` and
//! `rig_exchange` in the order of the IR, before any pass that moves code. Lanes that wait at different sites are
//! released at the lowest number first.
//!
//! # What `checks::instrument` does for the engine
//!
//! `instrument(module, kernel, checks)` rewrites each access to address spaces 1 and 2 of every function of the module:
//! the address is a GPU address, so the access goes to `getelementptr i8, ptr, i64 -GPU_BIAS`. With checks, the bytes
//! accessed are compared with the range of the pointer's root (`rig_reach` of what the pointer was derived from), and
//! outside of it `rig_check` decides. A function with the string attribute [`UNCHECKED`] is translated and not checked:
//! the engine proves its accesses beforehand. Globals in address space 2 need no care: the engine has replaced their
//! uses by the global's address plus the bias, and `rig_reach` knows them. Address space 3 holds host addresses.

use std::mem::offset_of;

/// Lanes of a simdgroup.
pub const LANES: usize = 32;

/// The most bytes that a lane gives to an exchange.
pub const EXCHANGE_MAX: usize = 256;

/// Buffer and threadgroup slots of a dispatch.
pub const SLOTS: usize = 31;

/// The string attribute of functions that `checks::instrument` translates and does not check.
pub const UNCHECKED: &str = "rig-unchecked";

/// A load.
pub const ACCESS_READ: u32 = 0;
/// A store.
pub const ACCESS_WRITE: u32 = 1;
/// An atomic that reads and writes.
pub const ACCESS_ATOMIC: u32 = 2;

/// An address in no reachable range.
pub const VIOLATION_NOT_RESIDENT: u32 = 0;
/// Bytes past the end of the range that holds the address.
pub const VIOLATION_OUT_OF_BOUNDS: u32 = 1;
/// An address that its type's alignment forbids.
pub const VIOLATION_MISALIGNED: u32 = 2;
/// Bytes outside a threadgroup variable or argument.
pub const VIOLATION_THREADGROUP: u32 = 3;
/// Bytes outside a thread's own variable.
pub const VIOLATION_PRIVATE: u32 = 4;
/// `__builtin_trap` and the like.
pub const VIOLATION_TRAP: u32 = 5;
/// The host stopped the kernel: it took too long.
pub const VIOLATION_TIMEOUT: u32 = 6;

/// What a dispatch is to all threads of the group that runs on one worker.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GroupContext {
    /// GPU addresses of the bound buffers; 0 where none is.
    pub buffers: [u64; SLOTS],
    /// Bytes from each buffer's address to the end of its allocation.
    pub lengths: [u64; SLOTS],
    /// Host addresses of the threadgroup arguments.
    pub threadgroup: [u64; SLOTS],
    /// Bytes of the threadgroup arguments.
    pub threadgroup_lengths: [u64; SLOTS],
    /// The grid in groups.
    pub groups: [u32; 3],
    /// Threads of this group.
    pub threads: [u32; 3],
    /// Threads of the whole grid.
    pub grid: [u32; 3],
    /// Threads of a group that is not at a ragged edge: what a group's place is multiplied with.
    pub stride: [u32; 3],
    /// This group's place in the grid.
    pub group: [u32; 3],
}

/// What a thread that runs on a fiber is.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadContext {
    /// Its lane in its simdgroup.
    pub lane: u32,
    /// Its simdgroup in the threadgroup.
    pub simdgroup: u32,
    /// Its place in the threadgroup, linear.
    pub index: u32,
    /// Lanes that its simdgroup started with: 32, or fewer in the last simdgroup of a group.
    pub lanes: u32,
    /// Its place in the threadgroup.
    pub local: [u32; 3],
    /// Keeps the next field aligned without hidden bytes.
    pub reserved: u32,
    /// Its group.
    pub group: *const GroupContext,
}

/// Where [`ThreadContext::lane`] lies.
pub const THREAD_LANE: usize = offset_of!(ThreadContext, lane);
