//! What a library beside rig needs of a GPU: the context made current, and counters that the stream raises and the host reads.
//!
//! # Invariants
//!
//! 1. A counter's memory is pinned, alone on its cache line, and lasts as long as the process: a store that a lost device's
//!    stream still makes hits nothing else.
//! 2. Nobody but the streams that fills put stores on writes a counter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Capability;
use crate::fault::reason;
use crate::gpu::{Gpu, gpu};
use crate::sys::{Current, api};

/// The bytes of a counter: a cache line.
const LINE: usize = 64;
/// The bytes that are pinned at a time: a page of most systems.
const PAGE: usize = 4096;

/// A number that a fill has the stream raise, and that the host reads: how far the work on the stream has come.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// use rig_cuda::{Counter, Cuda};
/// use std::sync::Arc;
/// let capability = device.capability::<rig_cuda::Cuda>().expect("a device of CUDA's has one");
/// let steps: Arc<Counter> = Arc::new(capability.counter()?);
/// let in_fill = Arc::clone(&steps);
/// // The device's work is followed from the host with no wait for it.
/// let fill = device.submission().fill::<Cuda>([], move |encoder, _| encoder.count(&in_fill, 1)).make()?;
/// // SAFETY: the fill touches no memory but the counter.
/// unsafe { fill.take().launch(&[])? };
/// while steps.value() < 1 {
///     assert!(device.lost().is_none());
///     std::thread::yield_now();
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Counter {
    /// Where it is, for the GPU whose device it was made for.
    pub(crate) address: u64,
    value: &'static AtomicU64,
}

/// The GPU's context, current on this thread until this is dropped.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// let capability = device.capability::<rig_cuda::Cuda>().expect("a device of CUDA's has one");
/// // Calls of CUDA's libraries stand in here, on this thread; it has its own context again behind them.
/// let made = {
///     let _current: rig_cuda::Entered = capability.enter()?;
///     format!("made on the GPU {}", capability.ordinal)
/// };
/// assert_eq!(made, "made on the GPU 0");
/// # Ok(())
/// # }
/// ```
pub struct Entered {
    _current: Current,
}

/// The unused counters of the pinned pages, by the host's addresses.
static UNUSED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl Capability {
    /// Makes the GPU's context current on this thread, as CUDA's libraries ask for, until the answer is dropped.
    ///
    /// # Errors
    ///
    /// CUDA's words, where it has failed in this process.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
    /// let capability = device.capability::<rig_cuda::Cuda>().expect("a device of CUDA's has one");
    /// let current = capability.enter()?;
    /// // Here cublasCreate or cufftPlan1d would make what it makes on the device's GPU: the context that they ask for is there.
    /// # type Get = unsafe extern "C" fn(*mut *mut std::ffi::c_void) -> i32;
    /// # // SAFETY: CUDA's library is in the process already.
    /// # let library = unsafe { libloading::Library::new(if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" })? };
    /// # // SAFETY: the type is the function's in cuda.h.
    /// # let get = unsafe { library.get::<Get>(b"cuCtxGetCurrent\0")? };
    /// # let cu_ctx_get_current = || {
    /// #     let mut context = std::ptr::null_mut();
    /// #     // SAFETY: the call writes one handle.
    /// #     assert_eq!(unsafe { get(&raw mut context) }, 0);
    /// #     context
    /// # };
    /// assert_eq!(cu_ctx_get_current(), capability.context);
    /// drop(current);
    /// # Ok(())
    /// # }
    /// ```
    pub fn enter(&self) -> Result<Entered, String> {
        let gpu = self.gpu()?;
        gpu.enter().map(|current| Entered { _current: current }).map_err(|failure| reason(gpu.api, failure))
    }

    /// A counter that starts at 0 and that fills of this device raise ([`Encoder::count`](crate::Encoder::count)). Its 64
    /// bytes are kept until the process ends.
    ///
    /// # Errors
    ///
    /// CUDA's words, where there is no memory for it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
    /// let capability = device.capability::<rig_cuda::Cuda>().expect("a device of CUDA's has one");
    /// let counter = capability.counter()?;
    /// assert_eq!(counter.value(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn counter(&self) -> Result<Counter, String> {
        let gpu = self.gpu()?;
        let why = |failure| reason(gpu.api, failure);
        let _current = gpu.enter().map_err(why)?;
        let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.is_empty() {
            let page = gpu.api.host_alloc(PAGE).map_err(why)?;
            unused.extend((0..PAGE / LINE).map(|line| page.expose_provenance() + line * LINE));
        }
        // PANIC: the page has lines.
        let host = unused.pop().expect("a page of counters");
        let host = std::ptr::with_exposed_provenance_mut::<u8>(host);
        let address = gpu.api.host_device(host).map_err(why)?;
        // SAFETY: a line of a pinned page of CUDA's, which starts at zero, is never given back, and is this counter's alone;
        // the GPU's stores are of these 64 bits, which are aligned.
        #[expect(unsafe_code, reason = "memory that a device writes")]
        let value = unsafe { AtomicU64::from_ptr(host.cast()) };
        value.store(0, Ordering::Relaxed);
        Ok(Counter { address, value })
    }

    fn gpu(&self) -> Result<&'static Gpu, String> {
        gpu(api()?, self.ordinal)
    }
}

impl Counter {
    /// The last value that the stream has stored. Acquire: what its work wrote to the host's memory before is seen.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
    /// use std::sync::Arc;
    /// let capability = device.capability::<rig_cuda::Cuda>().expect("a device of CUDA's has one");
    /// let counter = Arc::new(capability.counter()?);
    /// let in_fill = Arc::clone(&counter);
    /// let fill = device.submission().fill::<rig_cuda::Cuda>([], move |encoder, _| encoder.count(&in_fill, 41)).make()?;
    /// // SAFETY: the fill touches no memory but the counter.
    /// unsafe { fill.take().launch(&[])?.wait()? };
    /// assert_eq!(counter.value(), 41);
    /// # Ok(())
    /// # }
    /// ```
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }
}
