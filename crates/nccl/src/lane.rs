//! What a communicator needs of a device, and what NVIDIA's GPUs give it.
//!
//! The seam below which CUDA is: ranks, meetings and failures stand above it, and are the same over a lane of a test's own.

use std::ffi::c_void;
use std::sync::Arc;

use rig::Device;
use rig_cuda::{Counter, Cuda};
use rig_edge::Driver;

/// How a fill of one driver's devices has NCCL put work in its place.
pub trait Lane: Send + Sync + 'static {
    /// The driver of the devices.
    type Driver: Driver;
    /// What a rank keeps of its device, beside the device.
    type Seat: Send + Sync + 'static;

    /// What names the device's hardware within its machine, so that two ranks on one are found.
    fn hardware(device: &Device) -> String;

    /// Makes what a rank on this device keeps.
    ///
    /// # Errors
    ///
    /// Why the device can be no rank's.
    fn seat(device: &Device) -> Result<Self::Seat, String>;

    /// Calls `call` on this thread with the device current, as NCCL wants it where a communicator is made or ends. It may be
    /// called when the device is lost.
    ///
    /// # Errors
    ///
    /// Why the device cannot be made current.
    fn within<T>(seat: &Self::Seat, call: impl FnOnce() -> T) -> Result<T, String>;

    /// Has `work` put its work on the device's stream, in the fill's place, and behind it what brings [`done`](Lane::done) to
    /// `value`.
    ///
    /// # Errors
    ///
    /// Those of `work`, and why the fill is not one of the seat's device.
    fn put(
        seat: &Arc<Self::Seat>,
        encoder: &mut <Self::Driver as Driver>::Encoder<'_>,
        value: u64,
        work: impl FnOnce(*mut c_void) -> Result<(), String> + Send + 'static,
    ) -> Result<(), String>;

    /// The last value whose work is done.
    fn done(seat: &Self::Seat) -> u64;
}

/// NVIDIA's GPUs.
#[derive(Debug)]
pub struct Gpu;

/// A rank's GPU.
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
