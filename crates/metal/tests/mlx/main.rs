//! Functions of a library that Apple's compiler made, run through rig on software Metal and compared with numpy.
//!
//! The library is that of the wheel `mlx-metal`, opened as it stands. Its functions take each array at an index of its own, so
//! a fill binds them; rig loads the library, resolves the functions, orders the fills and waits.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod case;
mod element;
mod elementwise;
mod matrices;
mod oracle;
mod reductions;
#[path = "../../../metal-model/tests/wheel/mod.rs"]
mod wheel;

use std::ffi::c_void;
use std::ptr::NonNull;

use objc2::runtime::ProtocolObject;
use rig::{Buffer, Device, Image, RefSpec, Run, read, write};
use rig_edge::Slot;
use rig_metal::sys::{MTLBuffer, MTLComputeCommandEncoder, MTLSize};
use rig_metal::{Encoder, Entry, Metal};

use case::{Argument, Case, Grid};

/// A device of the test's own, and the library on it; `None` where the wheel is not to be had.
fn library() -> Option<(Device, Image)> {
    let path = wheel::library().inspect_err(|why| println!("{why}")).ok()?;
    let device = rig::open(rig_metal::gpu(0)).unwrap();
    let image = device.load(&std::fs::read(path).unwrap()).unwrap();
    Some((device, image))
}

/// Runs the cases and compares each with numpy's result; prints the largest errors.
///
/// # Panics
///
/// If one differs by more than it says.
fn run(cases: Vec<Case>) {
    let Some((device, image)) = library() else { return };
    let expected = match oracle::expected(&cases) {
        Ok(expected) => expected,
        Err(why) => return println!("{why}"),
    };
    for (case, expected) in cases.iter().zip(&expected) {
        let worst = case.check(&answer(&device, &image, case), expected);
        println!("{}: {worst:.2} roundings at most, of {}", case.name, case.roundings);
    }
}

/// What is bound at an index: a slot or bytes.
enum Bound {
    Slot(usize),
    Bytes(Vec<u8>),
}

/// What the function answers, run on the device by a fill.
fn answer(device: &Device, image: &Image, case: &Case) -> Vec<f64> {
    let function = image.function(&case.name).unwrap();
    let entry = function.entry::<Metal>().unwrap().clone();
    let (element, len) = case.output;
    let (mut buffers, mut refs, mut bound, mut output) = (Vec::new(), Vec::<RefSpec>::new(), Vec::new(), None);
    for (index, argument) in &case.arguments {
        let slot = buffers.len();
        match argument {
            Argument::Bytes(bytes) => {
                bound.push((*index, Bound::Bytes(bytes.clone())));
                continue;
            }
            Argument::Buffer(bytes) => {
                let buffer = device.buffer(bytes.len()).unwrap();
                buffer.copy_from_slice(bytes).unwrap();
                buffers.push(buffer);
                refs.push(read(slot as u32));
            }
            Argument::Output => {
                let buffer = device.buffer(len * element.bytes()).unwrap();
                buffer.memset(0).unwrap();
                output = Some(slot);
                buffers.push(buffer);
                refs.push(write(slot as u32));
            }
        }
        bound.push((*index, Bound::Slot(slot)));
    }
    let Grid { threads, size, group } = case.grid;
    let fill =
        move |encoder: &mut Encoder<'_>, slots: &[Slot]| encode(encoder, slots, &entry, &bound, threads, size, group);
    let submission = device.submission().fill::<Metal>(refs, fill).keep(function).make().unwrap();
    launch(&mut submission.take(), &buffers.iter().collect::<Vec<_>>());
    let output = &buffers[output.unwrap()];
    output.read(|bytes: &[u8]| element.decode(bytes)).unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

fn launch(run: &mut Run, buffers: &[&Buffer]) {
    // SAFETY: the case binds to the function what it asks for, of the lengths that its grid reaches, and software Metal ends
    // work that goes past a buffer.
    #[expect(unsafe_code, reason = "runs the library's function")]
    unsafe { run.launch(buffers) }.unwrap();
}

/// Encodes the function with its arguments.
fn encode(
    encoder: &mut Encoder<'_>,
    slots: &[Slot],
    entry: &Entry,
    bound: &[(usize, Bound)],
    threads: bool,
    size: [usize; 3],
    group: [usize; 3],
) -> Result<(), String> {
    let compute = encoder.compute()?;
    compute.setComputePipelineState(entry.pipeline());
    for (index, bound) in bound {
        match bound {
            Bound::Slot(slot) => bind_slot(compute, &slots[*slot], *index),
            Bound::Bytes(bytes) => {
                let pointer = NonNull::from(bytes.as_slice()).cast::<c_void>();
                // SAFETY: the encoder copies the bytes in the call.
                #[expect(unsafe_code, reason = "binds bytes")]
                unsafe {
                    compute.setBytes_length_atIndex(pointer, bytes.len(), *index);
                }
            }
        }
    }
    let of = |[width, height, depth]: [usize; 3]| MTLSize { width, height, depth };
    if threads {
        compute.dispatchThreads_threadsPerThreadgroup(of(size), of(group));
    } else {
        compute.dispatchThreadgroups_threadsPerThreadgroup(of(size), of(group));
    }
    Ok(())
}

fn bind_slot(compute: &ProtocolObject<dyn MTLComputeCommandEncoder>, slot: &Slot, index: usize) {
    let buffer = slot.handle.cast::<ProtocolObject<dyn MTLBuffer>>();
    // SAFETY: a slot's handle on a Metal device is the MTLBuffer of its region, which outlives the fill.
    #[expect(unsafe_code, reason = "the handle of a region")]
    let buffer = unsafe { buffer.as_ref() };
    // SAFETY: the buffer is the region's, and the offset lies in it.
    #[expect(unsafe_code, reason = "binds a buffer")]
    unsafe {
        compute.setBuffer_offset_atIndex(buffer, slot.handle_offset as usize, index);
    }
}
