//! CUDA's own types, as its header `cuda.h` lays them out: answers, handles, and the structs of graph nodes.
//!
//! Numbers are those of CUDA 12.4 and later; NVIDIA never gives one another meaning. An answer is a number and no enum,
//! since a newer library answers with numbers that no list here could hold.

use std::ffi::c_void;

/// The answer of a call: `CUresult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Code(pub i32);

impl Code {
    pub const SUCCESS: Code = Code(0);
    pub const INVALID_VALUE: Code = Code(1);
    pub const OUT_OF_MEMORY: Code = Code(2);
    pub const NOT_FOUND: Code = Code(500);
    pub const NOT_READY: Code = Code(600);
    pub const PEER_ACCESS_ALREADY_ENABLED: Code = Code(704);
    pub const HOST_MEMORY_ALREADY_REGISTERED: Code = Code(712);

    /// Whether CUDA answers every later call of the process with it, on every GPU: only a new process recovers. Seen for
    /// 700 and 719 on an H200; the others are those whose documentation says that the process must end.
    pub fn is_sticky(self) -> bool {
        matches!(self.0, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 911 | 999)
    }
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(pub *mut c_void);

        impl $name {
            /// No object.
            pub const NULL: $name = $name(std::ptr::null_mut());
        }

        // SAFETY: a handle is a number to everyone but CUDA, whose calls may come from any thread (CUDA's programming
        // guide); that calls on one graph do not overlap is seen to where they are made.
        unsafe impl Send for $name {}
        // SAFETY: as for Send.
        unsafe impl Sync for $name {}
    )*};
}

handles! {
    /// `CUcontext`.
    Context;
    /// `CUstream`.
    Stream;
    /// `CUevent`.
    Event;
    /// `CUmodule`.
    Module;
    /// `CUfunction`.
    Function;
    /// `CUgraph`.
    Graph;
    /// `CUgraphNode`.
    Node;
    /// `CUgraphExec`.
    Exec;
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct KernelNode {
    pub function: Function,
    pub groups: [u32; 3],
    pub threads: [u32; 3],
    pub group_bytes: u32,
    /// One pointer a parameter; null, since `extra` gives all of them as bytes.
    pub kernel_params: *mut *mut c_void,
    /// A list of tags and values that gives the parameters as bytes: see [`extra`].
    pub extra: *mut *mut c_void,
    pub kernel: *mut c_void,
    pub context: Context,
}

/// The list that gives a launch its parameters as bytes: `CU_LAUNCH_PARAM_BUFFER_POINTER` (1) and the address,
/// `CU_LAUNCH_PARAM_BUFFER_SIZE` (2) and the address of the length, and the end (0).
pub(crate) fn extra(params: *mut u8, len: *mut usize) -> [*mut c_void; 5] {
    let tag = |tag: usize| std::ptr::without_provenance_mut::<c_void>(tag);
    [tag(1), params.cast(), tag(2), len.cast(), tag(0)]
}

/// `CU_MEMORYTYPE_DEVICE`: an address of CUDA's one address space, which pinned host memory has too.
const MEMORY_DEVICE: u32 = 2;

/// `CUDA_MEMCPY3D_v2`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CopyNode {
    pub from: CopyEnd,
    pub to: CopyEnd,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// One side of a [`CopyNode`].
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CopyEnd {
    x: usize,
    y: usize,
    z: usize,
    lod: usize,
    memory: u32,
    host: *mut c_void,
    device: u64,
    array: *mut c_void,
    reserved: *mut c_void,
    pitch: usize,
    height: usize,
}

impl CopyNode {
    /// A copy of `len` bytes in one line.
    pub fn line(from: u64, to: u64, len: usize) -> CopyNode {
        let end = |device| CopyEnd {
            x: 0,
            y: 0,
            z: 0,
            lod: 0,
            memory: MEMORY_DEVICE,
            host: std::ptr::null_mut(),
            device,
            array: std::ptr::null_mut(),
            reserved: std::ptr::null_mut(),
            pitch: len,
            height: 1,
        };
        CopyNode { from: end(from), to: end(to), width: len, height: 1, depth: 1 }
    }
}

/// `CUDA_MEMSET_NODE_PARAMS_v1`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct MemsetNode {
    pub at: u64,
    pub pitch: usize,
    pub value: u32,
    pub element_bytes: u32,
    pub width: usize,
    pub height: usize,
}

impl MemsetNode {
    /// A memset of `len` bytes in one line.
    pub fn line(at: u64, byte: u8, len: usize) -> MemsetNode {
        MemsetNode { at, pitch: len, value: byte.into(), element_bytes: 1, width: len, height: 1 }
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<KernelNode>() == 72);
    assert!(offset_of!(KernelNode, group_bytes) == 32 && offset_of!(KernelNode, extra) == 48);
    assert!(size_of::<CopyNode>() == 200);
    assert!(offset_of!(CopyNode, to) == 88 && offset_of!(CopyNode, width) == 176);
    assert!(offset_of!(CopyEnd, memory) == 32 && offset_of!(CopyEnd, device) == 48 && offset_of!(CopyEnd, pitch) == 72);
    assert!(size_of::<MemsetNode>() == 40);
    assert!(offset_of!(MemsetNode, value) == 16 && offset_of!(MemsetNode, width) == 24);
};

/// `CUdevice_attribute`: those that are asked for.
pub(crate) mod device_attribute {
    pub const MAX_THREADS_PER_BLOCK: i32 = 1;
    pub const MAX_BLOCK_DIM_X: i32 = 2;
    pub const MAX_GRID_DIM_X: i32 = 5;
    pub const MAX_SHARED_MEMORY_PER_BLOCK: i32 = 8;
    pub const UNIFIED_ADDRESSING: i32 = 41;
    pub const COMPUTE_CAPABILITY_MAJOR: i32 = 75;
    pub const COMPUTE_CAPABILITY_MINOR: i32 = 76;
    pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: i32 = 97;
    pub const HOST_REGISTER_SUPPORTED: i32 = 99;
    pub const CAN_USE_64_BIT_STREAM_MEM_OPS: i32 = 122;
    pub const DMA_BUF_SUPPORTED: i32 = 124;
}

/// `CUfunction_attribute`: those that are asked for.
pub(crate) mod function_attribute {
    pub const MAX_THREADS_PER_BLOCK: i32 = 0;
    pub const SHARED_SIZE_BYTES: i32 = 1;
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: i32 = 8;
    pub const CLUSTER_SIZE_MUST_BE_SET: i32 = 10;
}

/// `CU_STREAM_NON_BLOCKING`: the stream does not wait for the default stream.
pub(crate) const STREAM_NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DEFAULT`: the event keeps its time.
pub(crate) const EVENT_DEFAULT: u32 = 0;
/// `CU_STREAM_WAIT_VALUE_GEQ`.
pub(crate) const WAIT_VALUE_GEQ: u32 = 0;
/// `CU_STREAM_WRITE_VALUE_DEFAULT`: the write follows a fence over the whole system. (An H200 refuses the flag that leaves the
/// fence out.)
pub(crate) const WRITE_VALUE_DEFAULT: u32 = 0;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`, and the same of `CU_MEMHOSTREGISTER`: every context of the
/// process reaches the memory, by an address.
pub(crate) const HOST_PORTABLE_MAPPED: u32 = 1 | 2;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
pub(crate) const RANGE_DMA_BUF: i32 = 1;
/// `CU_JIT_ERROR_LOG_BUFFER`.
pub(crate) const JIT_ERROR_LOG: i32 = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
pub(crate) const JIT_ERROR_LOG_BYTES: i32 = 6;
