//! The functions of OpenCL's library that the peer calls, opened when it runs.
//!
//! The unsafe boundary is here and in the parent: a function is called as OpenCL 1.2's header declares it (opencl.h by
//! Khronos, cl.h), with handles that the library gave and that live until the process ends, but for memory objects.

use std::ffi::{c_char, c_void};

use libloading::Library;

/// A handle to one of the library's objects.
pub type Handle = *mut c_void;

/// What a build calls when it is done; null here.
type Callback = *const c_void;

/// `CL_SUCCESS`.
pub const SUCCESS: i32 = 0;
/// `CL_TRUE`: a copy that returns when it is done.
pub const BLOCKING: u32 = 1;
/// `CL_MEM_READ_WRITE`.
pub const READ_WRITE: u64 = 1;
/// `CL_DEVICE_TYPE_ALL`.
pub const ALL_DEVICES: u64 = 0xffff_ffff;
/// `CL_PLATFORM_VERSION`.
pub const PLATFORM_VERSION: u32 = 0x0901;
/// `CL_PLATFORM_NAME`.
pub const PLATFORM_NAME: u32 = 0x0902;

/// The names that the library has, the one with its version first: only it comes without the headers.
const NAMES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal: fn($($argument:ty),*) -> $answer:ty;)*) => {
        /// The library.
        pub struct OpenCl {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($argument),*) -> $answer,)*
            _library: Library,
        }

        impl OpenCl {
            /// Opens the library; `None` where there is none, or it lacks a function.
            pub fn open() -> Option<OpenCl> {
                // SAFETY: what the library does when it is loaded is the system's: it is the one that Vulkan's and OpenCL's
                // users have.
                #[expect(unsafe_code, reason = "loads a library")]
                let library = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
                Some(OpenCl {
                    $($field: {
                        // SAFETY: the type is that of the function in OpenCL's header.
                        #[expect(unsafe_code, reason = "gives a function its type")]
                        let function = unsafe { library.get($symbol) };
                        *function.ok()?
                    },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    /// Platforms: room, where they go, how many there are.
    platforms = b"clGetPlatformIDs\0": fn(u32, *mut Handle, *mut u32) -> i32;
    /// A fact of a platform: which, room, where it goes, its bytes.
    platform_info = b"clGetPlatformInfo\0": fn(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    /// A platform's devices: kinds, room, where they go, how many there are.
    devices = b"clGetDeviceIDs\0": fn(Handle, u64, u32, *mut Handle, *mut u32) -> i32;
    /// A context: properties, devices, what is called at errors and with what, the status.
    context = b"clCreateContext\0":
        fn(*const isize, u32, *const Handle, Callback, *mut c_void, *mut i32) -> Handle;
    /// A queue of a device, in order: properties, the status.
    queue = b"clCreateCommandQueue\0": fn(Handle, Handle, u64, *mut i32) -> Handle;
    /// A program of texts: how many, where, their lengths, the status.
    program = b"clCreateProgramWithSource\0":
        fn(Handle, u32, *const *const c_char, *const usize, *mut i32) -> Handle;
    /// Compiles: devices, options, what is called when it is done and with what.
    build = b"clBuildProgram\0": fn(Handle, u32, *const Handle, *const c_char, Callback, *mut c_void) -> i32;
    /// A function of a program, the status.
    kernel = b"clCreateKernel\0": fn(Handle, *const c_char, *mut i32) -> Handle;
    /// Memory: flags, bytes, host memory to take, the status.
    buffer = b"clCreateBuffer\0": fn(Handle, u64, usize, *mut c_void, *mut i32) -> Handle;
    /// Gives memory back.
    release_memory = b"clReleaseMemObject\0": fn(Handle) -> i32;
    /// An argument of a kernel: which, its bytes, where they are.
    argument = b"clSetKernelArg\0": fn(Handle, u32, usize, *const c_void) -> i32;
    /// Launches: axes, offsets, threads, threads of a group, points to wait for, the launch's own point.
    launch = b"clEnqueueNDRangeKernel\0": fn(
        Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle, *mut Handle
    ) -> i32;
    /// Copies from the program: blocking or not, first byte, bytes, from where; points as above.
    write = b"clEnqueueWriteBuffer\0":
        fn(Handle, Handle, u32, usize, usize, *const c_void, u32, *const Handle, *mut Handle) -> i32;
    /// Copies to the program.
    read = b"clEnqueueReadBuffer\0":
        fn(Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> i32;
    /// Hands over what is in the queue.
    flush = b"clFlush\0": fn(Handle) -> i32;
    /// Waits for what is in the queue.
    finish = b"clFinish\0": fn(Handle) -> i32;
}
