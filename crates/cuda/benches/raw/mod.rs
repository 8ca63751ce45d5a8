//! CUDA's driver interface by hand, for the bench to stand beside: a stream, plain launches, a write of a word.
#![expect(unsafe_code, reason = "calls CUDA's library")]
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "calls in a row with one reason")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

pub type Handle = *mut c_void;

macro_rules! raw {
    ($($field:ident = $name:literal ($($type:ty),*);)*) => {
        /// The functions that a program of this kind needs.
        pub struct Raw {
            $(pub $field: unsafe extern "system" fn($($type),*) -> c_int,)*
        }

        impl Raw {
            fn find() -> Raw {
                // SAFETY: NVIDIA's library, which is open already.
                let library = Box::leak(Box::new(unsafe { libloading::Library::new("libcuda.so.1") }.expect("libcuda")));
                Raw {
                    $($field: {
                        // SAFETY: the type is the function's in cuda.h.
                        *unsafe { library.get::<unsafe extern "system" fn($($type),*) -> c_int>($name.as_bytes()) }
                            .expect("a function of libcuda")
                    },)*
                }
            }
        }
    };
}

raw! {
    init = "cuInit\0" (c_uint);
    device = "cuDeviceGet\0" (*mut c_int, c_int);
    device_name = "cuDeviceGetName\0" (*mut c_char, c_int, c_int);
    version = "cuDriverGetVersion\0" (*mut c_int);
    retain = "cuDevicePrimaryCtxRetain\0" (*mut Handle, c_int);
    set = "cuCtxSetCurrent\0" (Handle);
    stream = "cuStreamCreate\0" (*mut Handle, c_uint);
    synchronize = "cuStreamSynchronize\0" (Handle);
    alloc = "cuMemAlloc_v2\0" (*mut u64, usize);
    host = "cuMemHostAlloc\0" (*mut Handle, usize, c_uint);
    host_device = "cuMemHostGetDevicePointer_v2\0" (*mut u64, Handle, c_uint);
    module = "cuModuleLoadData\0" (*mut Handle, *const c_void);
    function = "cuModuleGetFunction\0" (*mut Handle, Handle, *const c_char);
    launch = "cuLaunchKernel\0" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut Handle, *mut Handle
    );
    write = "cuStreamWriteValue64_v2\0" (Handle, u64, u64, c_uint);
    wait = "cuStreamWaitValue64_v2\0" (Handle, u64, u64, c_uint);
    graph = "cuGraphCreate\0" (*mut Handle, c_uint);
    graph_kernel = "cuGraphAddKernelNode_v2\0" (*mut Handle, Handle, *const Handle, usize, *const KernelNode);
    graph_make = "cuGraphInstantiateWithFlags\0" (*mut Handle, Handle, u64);
    graph_set = "cuGraphExecKernelNodeSetParams_v2\0" (Handle, Handle, *const KernelNode);
    graph_launch = "cuGraphLaunch\0" (Handle, Handle);
    copy = "cuMemcpyAsync\0" (u64, u64, usize, Handle);
}

fn ok(code: c_int) {
    assert_eq!(code, 0, "a call of the raw driver interface failed");
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
pub struct KernelNode {
    function: Handle,
    groups: [c_uint; 3],
    threads: [c_uint; 3],
    group_bytes: c_uint,
    arguments: *mut Handle,
    extra: *mut Handle,
    kernel: Handle,
    context: Handle,
}

/// A graph of launches of `add`.
pub struct RawGraph {
    exec: Handle,
    nodes: Vec<Handle>,
}

/// A word of host memory that a stream writes.
pub struct RawWord {
    host: *const AtomicU64,
    device: u64,
    pub value: u64,
}

impl RawWord {
    pub fn spin(&self) {
        // SAFETY: the word is pinned memory that is never freed.
        while unsafe { &*self.host }.load(Ordering::Acquire) < self.value {
            std::hint::spin_loop();
        }
    }
}

/// A program by hand: a context, a stream, the kernel `add`.
pub struct Program {
    pub raw: Raw,
    pub stream: Handle,
    add: Handle,
}

impl Program {
    pub fn new(ptx: &[u8]) -> Program {
        let raw = Raw::find();
        let (mut device, mut context, mut module, mut add) = (0, null_mut(), null_mut(), null_mut());
        let text = CString::new(ptx).expect("PTX is a text");
        // SAFETY: each call gets places to write to, and what the calls before it made.
        unsafe {
            ok((raw.init)(0));
            ok((raw.device)(&raw mut device, 0));
            ok((raw.retain)(&raw mut context, device));
            ok((raw.set)(context));
            ok((raw.module)(&raw mut module, text.as_ptr().cast()));
            ok((raw.function)(&raw mut add, module, c"add".as_ptr()));
        }
        let mut program = Program { raw, stream: null_mut(), add };
        program.stream = program.new_stream();
        program
    }

    /// The GPU's name and CUDA's version.
    pub fn about(&self) -> String {
        let (mut name, mut version) = ([0_u8; 128], 0);
        // SAFETY: the calls write as much as there is.
        unsafe {
            ok((self.raw.device_name)(name.as_mut_ptr().cast(), 128, 0));
            ok((self.raw.version)(&raw mut version));
        }
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        format!("{}, CUDA {}.{}", String::from_utf8_lossy(&name[..end]), version / 1000, version % 1000 / 10)
    }

    pub fn new_stream(&self) -> Handle {
        let mut stream = null_mut();
        // SAFETY: the call writes one handle.
        unsafe { ok((self.raw.stream)(&raw mut stream, 1)) };
        stream
    }

    pub fn memory(&self, len: usize) -> u64 {
        let mut address = 0;
        // SAFETY: the call writes one address.
        unsafe { ok((self.raw.alloc)(&raw mut address, len)) };
        address
    }

    pub fn pinned(&self, len: usize) -> (*mut u8, u64) {
        let (mut host, mut device) = (null_mut(), 0);
        // SAFETY: the calls write an address each.
        unsafe {
            ok((self.raw.host)(&raw mut host, len, 3));
            ok((self.raw.host_device)(&raw mut device, host, 0));
        }
        (host.cast(), device)
    }

    pub fn word(&self) -> RawWord {
        let (host, device) = self.pinned(4096);
        // SAFETY: the memory is pinned, and has room for a word.
        unsafe { host.cast::<u64>().write(0) };
        RawWord { host: host.cast(), device, value: 0 }
    }

    /// Launches `add` over 1,024 floats.
    pub fn add(&self, stream: Handle, mut x: u64, mut y: u64) {
        let mut n = 1024_u32;
        let mut arguments: [Handle; 3] = [(&raw mut x).cast(), (&raw mut y).cast(), (&raw mut n).cast()];
        // SAFETY: the arguments are the kernel's, and the memory has 1,024 floats.
        unsafe {
            ok((self.raw.launch)(self.add, 4, 1, 1, 256, 1, 1, 0, stream, arguments.as_mut_ptr(), null_mut()));
        }
    }

    /// Calls `then` with a node of `add` over 1,024 floats.
    fn node<T>(&self, mut x: u64, mut y: u64, then: impl FnOnce(*const KernelNode) -> T) -> T {
        let mut n = 1024_u32;
        let mut arguments: [Handle; 3] = [(&raw mut x).cast(), (&raw mut y).cast(), (&raw mut n).cast()];
        let node = KernelNode {
            function: self.add,
            groups: [4, 1, 1],
            threads: [256, 1, 1],
            group_bytes: 0,
            arguments: arguments.as_mut_ptr(),
            extra: null_mut(),
            kernel: null_mut(),
            context: null_mut(),
        };
        then(&raw const node)
    }

    /// A graph of a launch for each of `before`, which names the earlier launches that it waits for.
    pub fn graph(&self, before: &[Vec<usize>], memory: u64) -> RawGraph {
        let (mut graph, mut exec, mut nodes) = (null_mut(), null_mut(), Vec::<Handle>::new());
        // SAFETY: the calls write handles, and get what the calls before them made.
        unsafe {
            ok((self.raw.graph)(&raw mut graph, 0));
            for before in before {
                let mut node = null_mut();
                let before: Vec<Handle> = before.iter().map(|&launch| nodes[launch]).collect();
                let (at, count) = (before.as_ptr(), before.len());
                self.node(memory, memory, |of| ok((self.raw.graph_kernel)(&raw mut node, graph, at, count, of)));
                nodes.push(node);
            }
            ok((self.raw.graph_make)(&raw mut exec, graph, 0));
        }
        RawGraph { exec, nodes }
    }

    /// Gives one launch of a graph other memory.
    pub fn patch(&self, graph: &RawGraph, launch: usize, x: u64, y: u64) {
        // SAFETY: the graph is alive, and the memory has 1,024 floats.
        self.node(x, y, |of| unsafe { ok((self.raw.graph_set)(graph.exec, graph.nodes[launch], of)) });
    }

    pub fn launch_graph(&self, stream: Handle, graph: &RawGraph) {
        // SAFETY: the graph and the stream are alive.
        unsafe { ok((self.raw.graph_launch)(graph.exec, stream)) };
    }

    pub fn end_value(&self, stream: Handle, word: &mut RawWord) {
        word.value += 1;
        // SAFETY: the word is pinned memory.
        unsafe { ok((self.raw.write)(stream, word.device, word.value, 0)) };
    }

    pub fn wait_for(&self, stream: Handle, word: &RawWord) {
        // SAFETY: as above.
        unsafe { ok((self.raw.wait)(stream, word.device, word.value, 0)) };
    }

    pub fn copy(&self, stream: Handle, from: u64, to: u64, len: usize) {
        // SAFETY: both have these bytes.
        unsafe { ok((self.raw.copy)(to, from, len, stream)) };
    }

    pub fn synchronize(&self, stream: Handle) {
        // SAFETY: the stream is alive.
        unsafe { ok((self.raw.synchronize)(stream)) };
    }
}
