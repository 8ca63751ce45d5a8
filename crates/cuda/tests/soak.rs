//! The soak of the driver: mixed load of real threads on two devices, on two GPUs where there are as many, with memory that stays
//! flat on both sides and handles that all come back. What a thread does and what is looked at: [`rig_conformance::soak`].
//!
//! Threads lose their own devices by [`rig::Device::lose`] and by closing them. None faults: CUDA's faults stay for as long as the
//! process lives.
//!
//! `cargo xtask soak --on cuda --minutes N` runs it. Without `--minutes` it runs for five seconds. Where there is no GPU it says so.
#![expect(clippy::unwrap_used, reason = "a test program: what it cannot do is its failure")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod gpu;

use std::ffi::c_void;
use std::process::ExitCode;
use std::time::Duration;

use rig::Device;
use rig_conformance::soak::{Count, Kernels, LEN, Soak, THREADS};
use rig_cuda::Cuda;

/// By how many bytes the GPU's memory in use may be more at a later rest. CUDA takes it in pieces of 2 MiB, for code and for what
/// streams and graphs are made of, and may keep a piece that it has once taken. Each thread of the load has two devices of its own
/// at a time and one that is still closing, and each may be the first to need another piece of either kind.
const GPU_MARGIN: u64 = THREADS * 3 * 2 * (2 << 20);

fn main() -> ExitCode {
    rig_conformance::soak::main("soak_of_gpus", Duration::from_secs(5), |time| match gpu::absent() {
        Some(why) => {
            println!("{why}");
            None
        }
        None => Some(soak(time)),
    })
}

fn soak(time: Duration) -> Result<(), String> {
    let kernels = Kernels {
        image: gpu::SUITE.to_vec(),
        groups: [LEN as u32 / 64, 1, 1],
        threads: [64, 1, 1],
        spin_rounds: 2_000_000,
    };
    let gpus = rig_cuda::count().min(2);
    let open = |number: usize| rig::open(rig_cuda::gpu(number % gpus));
    let kept: Vec<Device> = (0..gpus).map(|number| open(number).unwrap()).collect();
    let used = used();
    Soak::new("CUDA's driver", |thread| (kernels.clone(), move || open(thread as usize)))
        .shared(&kernels, || open(0))
        .shared(&kernels, || open(1))
        .once_before(
            "CUDA opens its files, starts its threads and loads code when they are first needed, and keeps them",
        )
        .counts(|| {
            kept.iter()
                .map(|device| Count::within(&format!("bytes in use on {device}"), used(device), GPU_MARGIN))
                .collect()
        })
        .run(time)
}

/// Asks how many bytes of a device's GPU are in use, by whomever.
fn used() -> impl Fn(&Device) -> u64 {
    type Set = unsafe extern "system" fn(*mut c_void) -> i32;
    type Info = unsafe extern "system" fn(*mut usize, *mut usize) -> i32;
    // SAFETY: NVIDIA's library is open already.
    #[expect(unsafe_code, reason = "asks CUDA")]
    let library = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
    // SAFETY: the type is the function's in cuda.h.
    #[expect(unsafe_code, reason = "asks CUDA")]
    let set: Set = unsafe { *library.get::<Set>(b"cuCtxSetCurrent\0").unwrap() };
    // SAFETY: as above.
    #[expect(unsafe_code, reason = "asks CUDA")]
    let info: Info = unsafe { *library.get::<Info>(b"cuMemGetInfo_v2\0").unwrap() };
    move |device| {
        let _ = &library;
        let context = device.capability::<Cuda>().unwrap().context;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is the GPU's primary one, which rig keeps for as long as the process lives.
        #[expect(unsafe_code, reason = "asks CUDA")]
        let set = unsafe { set(context) };
        // SAFETY: both are places for a number.
        #[expect(unsafe_code, reason = "asks CUDA")]
        let told = unsafe { info(&raw mut free, &raw mut total) };
        assert_eq!((set, told), (0, 0), "CUDA tells how much memory is free");
        (total - free) as u64
    }
}
