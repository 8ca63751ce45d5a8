//! y = a x + y. One thread an element; a group takes as many elements as it has threads along x.
#![no_std]

mod rig_host;
use rig_host::{Group, Kernel};

/// As `saxpy.c` has them.
#[repr(C)]
pub struct Params {
    x: *const f32,
    y: *mut f32,
    a: f32,
    n: u32,
}

#[unsafe(no_mangle)]
#[used]
static rig_kernel_saxpy: Kernel = Kernel::group::<Params>();

/// The kernel.
///
/// # Safety
///
/// `x` and `y` are `n` floats each, and do not overlap; no other group of the launch takes this one's elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn saxpy(params: &Params, at: &Group) {
    let range = at.range(0, params.n);
    // SAFETY: the range lies inside the n floats of each, and is this group's alone.
    let (x, y) = unsafe {
        (
            core::slice::from_raw_parts(params.x.add(range.start), range.len()),
            core::slice::from_raw_parts_mut(params.y.add(range.start), range.len()),
        )
    };
    for (x, y) in x.iter().zip(y) {
        *y = params.a * x + *y;
    }
}
