//! The suite's kernels for the host's devices.

use rig_host::{Group, Kernels, Params};

/// An image of them. Registered once: a registration lives as long as the process.
pub fn suite() -> Vec<u8> {
    let add = |params: &Params<'_>, at: &Group| {
        let x: &[f32] = elements(params, 0, at);
        elements::<f32>(params, 8, at).iter_mut().zip(x).for_each(|(y, x)| *y += x);
    };
    let scale = |params: &Params<'_>, at: &Group| {
        elements::<f32>(params, 0, at).iter_mut().for_each(|y| *y *= params.get::<f32>(12));
    };
    let iota = |params: &Params<'_>, at: &Group| {
        let start = params.get::<u32>(12).wrapping_add(at.group[0] * at.threads[0]);
        elements::<u32>(params, 0, at).iter_mut().zip(0..).for_each(|(y, i)| *y = start.wrapping_add(i));
    };
    let spin = |params: &Params<'_>, at: &Group| {
        for y in elements::<u32>(params, 0, at) {
            (0..params.get::<u32>(12)).for_each(|_| *y = y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        }
    };
    Kernels::new()
        .group("add", 24, add)
        .group("scale", 16, scale)
        .group("iota", 16, iota)
        .group("spin", 16, spin)
        .image()
}

/// The elements of a group's threads, of the ref at `slot`. The soak's groups have a thread for each element and none beyond.
#[expect(unsafe_code, reason = "a kernel works on what its launch named")]
fn elements<'a, T>(params: &Params<'a>, slot: usize, at: &Group) -> &'a mut [T] {
    let (first, len) = (at.group[0] as usize * at.threads[0] as usize, at.threads[0] as usize);
    // SAFETY: a launch has a thread for each element of its slots and none beyond, groups take disjoint ranges, and what reads one
    // slot and writes another has two buffers there.
    unsafe { params.slice_mut(slot, first, len) }
}
