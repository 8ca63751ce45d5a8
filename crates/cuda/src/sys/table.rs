//! The functions of CUDA's library, found by name when it opens.
//!
//! Not by a crate of bindings: the `sys` layer of cudarc, the one that is kept, panics where the library or a function is
//! missing, and reads answers and attributes as closed enums, which is undefined for a number that a newer library
//! answers with. rig needs sixty functions of some five hundred.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::check::Obstacle;

use super::abi::{Code, Context, CopyNode, Event, Exec, Function, Graph, KernelNode, MemsetNode, Module, Node, Stream};

macro_rules! table {
    ($($field:ident = $name:literal ($($type:ty),*);)*) => {
        /// CUDA's functions, by rig's names.
        pub(crate) struct Table {
            $(pub $field: unsafe extern "system" fn($($type),*) -> Code,)*
            /// Never unloaded: CUDA's threads run in it.
            _library: std::mem::ManuallyDrop<libloading::Library>,
        }

        impl Table {
            /// Finds every function.
            fn find(library: libloading::Library) -> Result<Table, Obstacle> {
                Ok(Table {
                    $($field: {
                        // SAFETY: the type is the function's in cuda.h.
                        let found = unsafe {
                            library.get::<unsafe extern "system" fn($($type),*) -> Code>($name.to_bytes_with_nul())
                        };
                        *found.map_err(|_| missing($name))?
                    },)*
                    _library: std::mem::ManuallyDrop::new(library),
                })
            }
        }
    };
}

/// That the library lacks a function.
fn missing(name: &CStr) -> Obstacle {
    Obstacle::OldDriver(format!(
        "NVIDIA's driver is too old: its library has no {}; install one for CUDA 12.4 or later",
        name.to_string_lossy()
    ))
}

table! {
    init = c"cuInit" (c_uint);
    version = c"cuDriverGetVersion" (*mut c_int);
    error_name = c"cuGetErrorName" (Code, *mut *const c_char);
    error_string = c"cuGetErrorString" (Code, *mut *const c_char);
    device_count = c"cuDeviceGetCount" (*mut c_int);
    device_get = c"cuDeviceGet" (*mut c_int, c_int);
    device_bus = c"cuDeviceGetPCIBusId" (*mut c_char, c_int, c_int);
    device_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    device_bytes = c"cuDeviceTotalMem_v2" (*mut usize, c_int);
    device_peer = c"cuDeviceCanAccessPeer" (*mut c_int, c_int, c_int);
    context_retain = c"cuDevicePrimaryCtxRetain" (*mut Context, c_int);
    context_current = c"cuCtxGetCurrent" (*mut Context);
    context_set = c"cuCtxSetCurrent" (Context);
    context_push = c"cuCtxPushCurrent_v2" (Context);
    context_pop = c"cuCtxPopCurrent_v2" (*mut Context);
    context_peer = c"cuCtxEnablePeerAccess" (Context, c_uint);
    stream_create = c"cuStreamCreate" (*mut Stream, c_uint);
    stream_destroy = c"cuStreamDestroy_v2" (Stream);
    stream_query = c"cuStreamQuery" (Stream);
    stream_synchronize = c"cuStreamSynchronize" (Stream);
    stream_wait = c"cuStreamWaitValue64_v2" (Stream, u64, u64, c_uint);
    stream_write = c"cuStreamWriteValue64_v2" (Stream, u64, u64, c_uint);
    event_create = c"cuEventCreate" (*mut Event, c_uint);
    event_destroy = c"cuEventDestroy_v2" (Event);
    event_record = c"cuEventRecord" (Event, Stream);
    event_synchronize = c"cuEventSynchronize" (Event);
    event_elapsed = c"cuEventElapsedTime" (*mut f32, Event, Event);
    memory_alloc = c"cuMemAlloc_v2" (*mut u64, usize);
    memory_free = c"cuMemFree_v2" (u64);
    host_alloc = c"cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    host_free = c"cuMemFreeHost" (*mut c_void);
    host_register = c"cuMemHostRegister_v2" (*mut c_void, usize, c_uint);
    host_unregister = c"cuMemHostUnregister" (*mut c_void);
    host_device = c"cuMemHostGetDevicePointer_v2" (*mut u64, *mut c_void, c_uint);
    range_handle = c"cuMemGetHandleForAddressRange" (*mut c_void, u64, usize, c_int, u64);
    copy = c"cuMemcpyAsync" (u64, u64, usize, Stream);
    copy_to_host = c"cuMemcpyDtoH_v2" (*mut c_void, u64, usize);
    memset = c"cuMemsetD8Async" (u64, u8, usize, Stream);
    module_load = c"cuModuleLoadDataEx" (*mut Module, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    module_unload = c"cuModuleUnload" (Module);
    module_function = c"cuModuleGetFunction" (*mut Function, Module, *const c_char);
    module_count = c"cuModuleGetFunctionCount" (*mut c_uint, Module);
    module_functions = c"cuModuleEnumerateFunctions" (*mut Function, c_uint, Module);
    function_name = c"cuFuncGetName" (*mut *const c_char, Function);
    function_load = c"cuFuncLoad" (Function);
    function_param = c"cuFuncGetParamInfo" (Function, usize, *mut usize, *mut usize);
    function_attribute = c"cuFuncGetAttribute" (*mut c_int, c_int, Function);
    function_set = c"cuFuncSetAttribute" (Function, c_int, c_int);
    launch = c"cuLaunchKernel" (
        Function, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Stream, *mut *mut c_void, *mut *mut c_void
    );
    graph_create = c"cuGraphCreate" (*mut Graph, c_uint);
    graph_destroy = c"cuGraphDestroy" (Graph);
    graph_kernel = c"cuGraphAddKernelNode_v2" (*mut Node, Graph, *const Node, usize, *const KernelNode);
    graph_copy = c"cuGraphAddMemcpyNode" (*mut Node, Graph, *const Node, usize, *const CopyNode, Context);
    graph_memset = c"cuGraphAddMemsetNode" (*mut Node, Graph, *const Node, usize, *const MemsetNode, Context);
    graph_instantiate = c"cuGraphInstantiateWithFlags" (*mut Exec, Graph, u64);
    exec_destroy = c"cuGraphExecDestroy" (Exec);
    exec_upload = c"cuGraphUpload" (Exec, Stream);
    exec_launch = c"cuGraphLaunch" (Exec, Stream);
    exec_kernel = c"cuGraphExecKernelNodeSetParams_v2" (Exec, Node, *const KernelNode);
    exec_copy = c"cuGraphExecMemcpyNodeSetParams" (Exec, Node, *const CopyNode, Context);
    exec_memset = c"cuGraphExecMemsetNodeSetParams" (Exec, Node, *const MemsetNode, Context);
    exec_enable = c"cuGraphNodeSetEnabled" (Exec, Node, c_uint);
}

/// The library's names, by the system.
#[cfg(windows)]
const LIBRARIES: [&str; 1] = ["nvcuda.dll"];
#[cfg(not(windows))]
const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

impl Table {
    /// Opens CUDA's library.
    pub fn open() -> Result<Table, Obstacle> {
        Table::open_one_of(&LIBRARIES)
    }

    fn open_one_of(names: &[&str]) -> Result<Table, Obstacle> {
        let mut whys = Vec::new();
        for name in names {
            // SAFETY: opening runs the initialisers of NVIDIA's library, whose name this is; it has none that rig must do
            // something for.
            match unsafe { libloading::Library::new(*name) } {
                Ok(library) => return Table::find(library),
                Err(why) => {
                    let cause = std::error::Error::source(&why).map_or_else(|| why.to_string(), ToString::to_string);
                    // Most systems name the library themselves.
                    whys.push(if cause.contains(name) { cause } else { format!("{name}: {cause}") });
                }
            }
        }
        let whys = whys.join("; ");
        Err(Obstacle::NoLibrary(format!("there is no CUDA here, since NVIDIA's driver is not installed: {whys}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise N01.
    #[test]
    fn a_library_that_is_not_there_is_a_reason_that_says_what_to_install() {
        let why = Table::open_one_of(&["libcuda-of-no-machine.so"]).err().unwrap();
        assert!(matches!(why, Obstacle::NoLibrary(_)), "{why:?}");
        let why = why.to_string();
        assert!(why.contains("NVIDIA's driver is not installed"), "{why}");
        assert!(why.contains("libcuda-of-no-machine.so"), "{why}");
    }

    /// Promise N01.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_the_functions_is_too_old() {
        let why = Table::open_one_of(&["libc.so.6"]).err().unwrap();
        assert!(matches!(&why, Obstacle::OldDriver(why) if why.contains("cuInit") && why.contains("12.4")), "{why}");
    }
}
