//! OpenCL on PoCL: one queue in order, buffers as kernel arguments that each launch sets.
//!
//! The context, the queue and the kernel are made once and live until the process ends; buffers are released with their
//! handle. Launches ask for no event, so none is made.

mod sys;

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::rc::Rc;

use sys::{Handle, OpenCl, SUCCESS};

use crate::peer::{ALLOCATION, GROUP, LARGE, PAIRS, Peer, Result, SMALL};

/// y += x, a float a thread.
const ADD: &CStr = c"
kernel void add(global const float *x, global float *y) {
    size_t i = get_global_id(0);
    y[i] += x[i];
}";

/// The threads of a group of the large launch: the most that PoCL takes, and what the host's cores get of rig.
const LARGE_GROUP: usize = 4096;

/// What the platform's name holds.
const NAME: &str = "Portable";

/// Memory of the context, which it is given back to.
struct Memory {
    opencl: Rc<OpenCl>,
    handle: Handle,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the handle is a memory object of the library's, and is released once, here.
        #[expect(unsafe_code, reason = "calls the library")]
        let _ = unsafe { (self.opencl.release_memory)(self.handle) };
    }
}

/// PoCL's device with the work's buffers.
pub struct Pocl {
    opencl: Rc<OpenCl>,
    about: String,
    context: Handle,
    queue: Handle,
    kernel: Handle,
    small: Vec<[Memory; 2]>,
    large: Vec<Memory>,
}

/// A status as an answer.
fn done(what: &str, status: i32) -> Result {
    if status == SUCCESS { Ok(()) } else { Err(format!("OpenCL's {what} failed with the status {status}")) }
}

impl Pocl {
    /// Opens PoCL; `None` where it is not installed.
    pub fn open() -> Result<Option<Pocl>> {
        let Some(opencl) = OpenCl::open() else { return Ok(None) };
        let found = platforms(&opencl).into_iter().find(|one| fact(&opencl, *one, sys::PLATFORM_NAME).contains(NAME));
        let Some(platform) = found else { return Ok(None) };
        // What it was built with stands behind the version.
        let version = fact(&opencl, platform, sys::PLATFORM_VERSION);
        let about = version.split("  ").next().unwrap_or_default().to_owned();
        let (context, queue, kernel) = make(&opencl, platform)?;
        let opencl = Rc::new(opencl);
        let mut pocl = Pocl { opencl, about, context, queue, kernel, small: Vec::new(), large: Vec::new() };
        pocl.small = (0..PAIRS).map(|_| pocl.pair(SMALL)).collect::<Result<_>>()?;
        pocl.large = pocl.pair(LARGE)?.into();
        Ok(Some(pocl))
    }

    fn buffer(&self, len: usize) -> Result<Memory> {
        let mut status = SUCCESS;
        // SAFETY: the context is the library's; no host memory is given; `status` is where the status goes.
        #[expect(unsafe_code, reason = "calls the library")]
        let handle = unsafe { (self.opencl.buffer)(self.context, sys::READ_WRITE, len, null_mut(), &mut status) };
        done("clCreateBuffer", status)?;
        Ok(Memory { opencl: Rc::clone(&self.opencl), handle })
    }

    fn pair(&self, floats: usize) -> Result<[Memory; 2]> {
        let filled = |value: f32| {
            let memory = self.buffer(4 * floats)?;
            self.copy_in(&vec![value; floats], &memory)?;
            Ok::<Memory, String>(memory)
        };
        Ok([filled(1.0)?, filled(0.0)?])
    }

    /// Puts a launch over a pair into the queue.
    fn launch(&self, x: &Memory, y: &Memory, threads: usize, group: usize) -> Result {
        for (index, memory) in (0..).zip([x, y]) {
            let place = (&raw const memory.handle).cast::<c_void>();
            // SAFETY: both arguments of the kernel are memory objects, whose handle `place` holds for the call.
            #[expect(unsafe_code, reason = "calls the library")]
            let status = unsafe { (self.opencl.argument)(self.kernel, index, size_of::<Handle>(), place) };
            done("clSetKernelArg", status)?;
        }
        // SAFETY: the grid has one axis, whose two lengths live for the call; the kernel touches a float of each buffer for
        // each thread, and the grids here have one for each float. No points are waited for or asked for.
        #[expect(unsafe_code, reason = "calls the library")]
        let status = unsafe {
            (self.opencl.launch)(self.queue, self.kernel, 1, null(), &threads, &group, 0, null(), null_mut())
        };
        done("clEnqueueNDRangeKernel", status)
    }

    /// Hands over what is in the queue.
    fn flush(&self) -> Result {
        // SAFETY: the queue is the library's.
        #[expect(unsafe_code, reason = "calls the library")]
        let status = unsafe { (self.opencl.flush)(self.queue) };
        done("clFlush", status)
    }

    /// Waits for what is in the queue.
    fn finish(&self) -> Result {
        // SAFETY: the queue is the library's.
        #[expect(unsafe_code, reason = "calls the library")]
        let status = unsafe { (self.opencl.finish)(self.queue) };
        done("clFinish", status)
    }

    fn copy_in(&self, from: &[f32], to: &Memory) -> Result {
        let (len, start) = (size_of_val(from), from.as_ptr().cast());
        // SAFETY: the buffer has the slice's bytes, and the call returns when they are copied.
        #[expect(unsafe_code, reason = "calls the library")]
        let status =
            unsafe { (self.opencl.write)(self.queue, to.handle, sys::BLOCKING, 0, len, start, 0, null(), null_mut()) };
        done("clEnqueueWriteBuffer", status)
    }

    fn copy_out(&self, from: &Memory, to: &mut [f32]) -> Result {
        let (len, start) = (size_of_val(to), to.as_mut_ptr().cast());
        // SAFETY: the buffer has the slice's bytes, any of which are a float, and the call returns when they are copied.
        #[expect(unsafe_code, reason = "calls the library")]
        let status =
            unsafe { (self.opencl.read)(self.queue, from.handle, sys::BLOCKING, 0, len, start, 0, null(), null_mut()) };
        done("clEnqueueReadBuffer", status)
    }
}

/// The platforms that are installed.
fn platforms(opencl: &OpenCl) -> Vec<Handle> {
    let mut found = [null_mut(); 16];
    let mut count = 0;
    // SAFETY: there is room for as many handles as are asked for, and for their count.
    #[expect(unsafe_code, reason = "calls the library")]
    let status = unsafe { (opencl.platforms)(found.len() as u32, found.as_mut_ptr(), &mut count) };
    // Without a platform the status says so.
    if status == SUCCESS { found[..found.len().min(count as usize)].to_vec() } else { Vec::new() }
}

/// A fact of a platform in words.
fn fact(opencl: &OpenCl, platform: Handle, which: u32) -> String {
    let mut text = [0_u8; 256];
    // SAFETY: there is room for as many bytes as are said.
    #[expect(unsafe_code, reason = "calls the library")]
    let status = unsafe { (opencl.platform_info)(platform, which, text.len(), text.as_mut_ptr().cast(), null_mut()) };
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    if status == SUCCESS { String::from_utf8_lossy(&text[..end]).trim().to_owned() } else { String::new() }
}

/// A context of the platform's first device, its queue, and the kernel.
fn make(opencl: &OpenCl, platform: Handle) -> Result<(Handle, Handle, Handle)> {
    let mut device = null_mut();
    // SAFETY: there is room for the one handle that is asked for.
    #[expect(unsafe_code, reason = "calls the library")]
    let status = unsafe { (opencl.devices)(platform, sys::ALL_DEVICES, 1, &mut device, null_mut()) };
    done("clGetDeviceIDs", status)?;
    let mut status = SUCCESS;
    // SAFETY: one device of the library's, and nothing to call at errors.
    #[expect(unsafe_code, reason = "calls the library")]
    let context = unsafe { (opencl.context)(null(), 1, &device, null(), null_mut(), &mut status) };
    done("clCreateContext", status)?;
    // SAFETY: the device is the context's.
    #[expect(unsafe_code, reason = "calls the library")]
    let queue = unsafe { (opencl.queue)(context, device, 0, &mut status) };
    done("clCreateCommandQueue", status)?;
    let text: *const c_char = ADD.as_ptr();
    // SAFETY: one text, which a zero byte ends.
    #[expect(unsafe_code, reason = "calls the library")]
    let program = unsafe { (opencl.program)(context, 1, &text, null(), &mut status) };
    done("clCreateProgramWithSource", status)?;
    let options = CString::default();
    // SAFETY: the device is the context's; the options are a text that lives for the call; nothing is called later.
    #[expect(unsafe_code, reason = "calls the library")]
    let built = unsafe { (opencl.build)(program, 1, &device, options.as_ptr(), null(), null_mut()) };
    done("clBuildProgram", built)?;
    // SAFETY: the program is built, and the name is a text.
    #[expect(unsafe_code, reason = "calls the library")]
    let kernel = unsafe { (opencl.kernel)(program, c"add".as_ptr(), &mut status) };
    done("clCreateKernel", status)?;
    Ok((context, queue, kernel))
}

impl Peer for Pocl {
    fn name(&self) -> &'static str {
        "OpenCL on PoCL"
    }

    fn about(&self) -> String {
        self.about.clone()
    }

    fn singles(&mut self, submitted: &mut dyn FnMut()) -> Result {
        for [x, y] in &self.small {
            self.launch(x, y, SMALL, GROUP)?;
            self.flush()?;
        }
        submitted();
        self.finish()
    }

    fn batch(&mut self, submitted: &mut dyn FnMut()) -> Result {
        for [x, y] in &self.small {
            self.launch(x, y, SMALL, GROUP)?;
        }
        self.flush()?;
        submitted();
        self.finish()
    }

    fn round_trip(&mut self) -> Result {
        let [x, y] = &self.small[0];
        self.launch(x, y, SMALL, GROUP)?;
        self.finish()
    }

    fn add(&mut self) -> Result {
        self.launch(&self.large[0], &self.large[1], LARGE, LARGE_GROUP)?;
        self.finish()
    }

    fn allocate(&mut self) -> Result {
        self.buffer(ALLOCATION).map(drop)
    }

    fn write(&mut self, from: &[f32]) -> Result {
        self.copy_in(from, &self.large[1])
    }

    fn read(&mut self, to: &mut [f32]) -> Result {
        self.copy_out(&self.large[1], to)
    }

    fn small(&mut self, pair: usize) -> Result<Vec<f32>> {
        let mut floats = vec![0.0; SMALL];
        self.copy_out(&self.small[pair][1], &mut floats)?;
        Ok(floats)
    }
}
