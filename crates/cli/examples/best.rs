//! The best device there is: one program that brings a kernel for each driver, and runs on whichever machine it finds itself.
//!
//! The kernel is the one of `rig bench`: each thread counts a number up. Its sources stand in `kernels/bench`.
//!
//! `cargo run --release -p rig-cli --example best`

use rig::{Candidate, write};

/// The threads of the launch, and so the numbers.
const THREADS: usize = 64;

/// The devices that the program would rather have, the best first.
fn candidates() -> Vec<Candidate> {
    vec![
        Candidate::new(rig_cuda::gpu(0)),
        Candidate::new(rig_amd::gpu(0)),
        Candidate::new(rig_metal::gpu(0)),
        Candidate::new(rig_host::cores()),
    ]
}

/// The kernel for the device of this name.
fn image(device: &str) -> Vec<u8> {
    match device {
        "CUDA" => include_bytes!("../kernels/bench/cuda.ptx").to_vec(),
        "AMD" => include_bytes!("../kernels/bench/amd.co").to_vec(),
        "METAL" => include_bytes!("../kernels/bench/metal.metallib").to_vec(),
        _ => rig_host::Kernels::new()
            .group("rig_count", 8, |params, _| {
                // SAFETY: slot 0 holds so many numbers, and the launch has one group.
                #[expect(unsafe_code, reason = "a kernel works on memory that its launch names")]
                let numbers: &mut [u32] = unsafe { params.slice_mut(0, 0, THREADS) };
                numbers.iter_mut().for_each(|number| *number += 1);
            })
            .image()
            .to_vec(),
    }
}

fn main() -> rig::Result<()> {
    let best = rig::best_of(candidates())?;
    // Which it is, and why it is none of those before it.
    eprintln!("on {best}");
    let device = best.device;
    let count = device.load(&image(device.name()))?.function("rig_count")?;
    let numbers = device.buffer(size_of::<u32>() * THREADS)?;
    numbers.copy_from_slice(&[41_u32; THREADS])?;
    let mut run = device.submission().launch(&count, [write(0)]).make()?.take();
    run.part(0).groups([1, 1, 1]).threads([THREADS as u32, 1, 1]);
    // SAFETY: the kernel writes the 64 numbers of slot 0, and the launch has as many threads.
    #[expect(unsafe_code, reason = "a launch runs a kernel")]
    unsafe {
        run.launch(&[&numbers])?
    };
    numbers.read(|numbers: &[u32]| println!("41 and 1 are {}", numbers[0]))
}
