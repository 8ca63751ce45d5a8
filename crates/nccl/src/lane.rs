//! What a communicator needs of a device, and what NVIDIA's GPUs give it.
//!
//! The seam below which CUDA is: ranks, meetings and failures stand above it, and are the same over a lane of a test's own.

use std::ffi::c_void;
use std::sync::Arc;

use rig::Device;
use rig_cuda::{Counter, Cuda};
use rig_edge::Driver;

/// How a fill of one driver's devices has NCCL put work in its place.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use rig_nccl::Lane;
/// use std::ffi::c_void;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// The host's cores, with a library in NCCL's place whose calls return once their work is done.
/// struct Cores;
///
/// impl Lane for Cores {
///     type Driver = rig_host::Host;
///     /// How far the device is.
///     type Seat = AtomicU64;
///
///     fn hardware(_: &rig::Device) -> String {
///         // Any number of ranks may be on the same cores.
///         static MADE: AtomicU64 = AtomicU64::new(0);
///         MADE.fetch_add(1, Ordering::Relaxed).to_string()
///     }
///
///     fn seat(_: &rig::Device) -> Result<AtomicU64, String> {
///         Ok(AtomicU64::new(0))
///     }
///
///     fn within<T>(_: &AtomicU64, call: impl FnOnce() -> T) -> Result<T, String> {
///         Ok(call())
///     }
///
///     fn put(
///         seat: &Arc<AtomicU64>,
///         encoder: &mut rig_host::Encoder<'_>,
///         value: u64,
///         work: impl FnOnce(*mut c_void) -> Result<(), String> + Send + 'static,
///     ) -> Result<(), String> {
///         let seat = Arc::clone(seat);
///         // A task is the work, and there is no stream to put it on.
///         encoder.task(move || work(std::ptr::null_mut()).map(|()| seat.store(value, Ordering::Release)));
///         Ok(())
///     }
///
///     fn done(seat: &AtomicU64) -> u64 {
///         seat.load(Ordering::Acquire)
///     }
/// }
///
/// let device = rig::open(rig_host::cores())?;
/// assert_eq!(Cores::done(&Cores::seat(&device)?), 0);
/// # Ok(())
/// # }
/// ```
pub trait Lane: Send + Sync + 'static {
    /// The driver of the devices.
    type Driver: Driver;
    /// What a rank keeps of its device, beside the device.
    type Seat: Send + Sync + 'static;

    /// What names the device's hardware within its machine, so that two ranks on one are found.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// // Two ranks of one name would be two on one GPU, which NCCL does not take.
    /// assert_ne!(Cores::hardware(&devices[0]), Cores::hardware(&devices[1]));
    /// # Ok(())
    /// # }
    /// ```
    fn hardware(device: &Device) -> String;

    /// Makes what a rank on this device keeps.
    ///
    /// # Errors
    ///
    /// Why the device can be no rank's.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use rig_nccl::{Gpu, Lane};
    /// // Who gives NVIDIA's lane another device is told.
    /// let cores = rig::open(rig_host::cores())?;
    /// let Err(why) = Gpu::seat(&cores) else { panic!("the cores are no GPU") };
    /// assert!(why.starts_with("CORES is no device of rig-cuda's"), "{why}");
    /// # Ok(())
    /// # }
    /// ```
    fn seat(device: &Device) -> Result<Self::Seat, String>;

    /// Calls `call` on this thread with the device current, as NCCL wants it where a communicator is made or ends. It may be
    /// called when the device is lost.
    ///
    /// # Errors
    ///
    /// Why the device cannot be made current.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// let seat = Cores::seat(&devices[0])?;
    /// // Whatever the call answers is handed on; only a device that cannot be made current is an error.
    /// assert_eq!(Cores::within(&seat, || 6 * 7), Ok(42));
    /// # Ok(())
    /// # }
    /// ```
    fn within<T>(seat: &Self::Seat, call: impl FnOnce() -> T) -> Result<T, String>;

    /// Has `work` put its work on the device's stream, in the fill's place, and behind it what brings [`done`](Lane::done) to
    /// `value`.
    ///
    /// # Errors
    ///
    /// Those of `work`, and why the fill is not one of the seat's device.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// let seat = Arc::new(Cores::seat(&devices[0])?);
    /// let of_fill = Arc::clone(&seat);
    /// // What `Rank::add` makes: a fill that has the work put in its place, with the number that it brings `done` to.
    /// let fill = devices[0].submission().fill::<rig_host::Host>([], move |encoder, _| {
    ///     Cores::put(&of_fill, encoder, 1, |_stream| Ok(()))
    /// });
    /// // SAFETY: the fill's work touches nothing.
    /// unsafe { fill.make()?.take().launch(&[])?.wait()? };
    /// assert_eq!(Cores::done(&seat), 1);
    /// # Ok(())
    /// # }
    /// ```
    fn put(
        seat: &Arc<Self::Seat>,
        encoder: &mut <Self::Driver as Driver>::Encoder<'_>,
        value: u64,
        work: impl FnOnce(*mut c_void) -> Result<(), String> + Send + 'static,
    ) -> Result<(), String>;

    /// The last value whose work is done.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// // Nothing was put on the device through this seat.
    /// let seat = Cores::seat(&devices[0])?;
    /// assert_eq!(Cores::done(&seat), 0);
    /// # Ok(())
    /// # }
    /// ```
    fn done(seat: &Self::Seat) -> u64;
}

/// NVIDIA's GPUs.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use rig_nccl::{Gpu, Lane};
/// let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// // A GPU is named by its address on the bus, so two devices on one GPU are found to be two ranks on it.
/// let again = rig::open(rig_cuda::gpu(0))?;
/// assert_eq!(Gpu::hardware(&device), Gpu::hardware(&again));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Gpu;

/// A rank's GPU.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use rig_nccl::{Gpu, GpuSeat, Lane};
/// let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// let seat: GpuSeat = Gpu::seat(&device)?;
/// // The rank has been given nothing yet.
/// assert_eq!(Gpu::done(&seat), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct GpuSeat {
    capability: rig_cuda::Capability,
    counter: Counter,
}

impl Lane for Gpu {
    type Driver = Cuda;
    type Seat = GpuSeat;

    fn hardware(device: &Device) -> String {
        device.facts().bus.clone().unwrap_or_else(|| device.name().to_owned())
    }

    fn seat(device: &Device) -> Result<GpuSeat, String> {
        let not = || format!("{device} is no device of rig-cuda's: NCCL works on NVIDIA's GPUs alone");
        let capability = *device.capability::<Cuda>().ok_or_else(not)?;
        Ok(GpuSeat { capability, counter: capability.counter()? })
    }

    fn within<T>(seat: &GpuSeat, call: impl FnOnce() -> T) -> Result<T, String> {
        let _current = seat.capability.enter()?;
        Ok(call())
    }

    fn put(
        seat: &Arc<GpuSeat>,
        encoder: &mut rig_cuda::Encoder<'_>,
        value: u64,
        work: impl FnOnce(*mut c_void) -> Result<(), String> + Send + 'static,
    ) -> Result<(), String> {
        let stream = encoder.stream();
        if stream != seat.capability.stream {
            return Err("the submission is of another device than the rank: begin it on the rank's own".to_owned());
        }
        work(stream)?;
        encoder.count(&seat.counter, value)
    }

    fn done(seat: &GpuSeat) -> u64 {
        seat.counter.value()
    }
}
