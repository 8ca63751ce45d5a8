//! A softmax over each row of a matrix. One thread a row.
#![no_std]

mod rig_host;
use rig_host::{Group, Kernel};

/// As `softmax.c` has them.
#[repr(C)]
pub struct Params {
    x: *const f32,
    y: *mut f32,
    rows: u32,
    columns: u32,
}

unsafe extern "C" {
    safe fn expf(x: f32) -> f32;
}

#[unsafe(no_mangle)]
#[used]
static rig_kernel_softmax: Kernel = Kernel::group::<Params>();

fn row(x: &[f32], y: &mut [f32]) {
    let most = x.iter().fold(f32::NEG_INFINITY, |most, &x| if x > most { x } else { most });
    let mut sum = 0.0;
    for (x, y) in x.iter().zip(&mut *y) {
        *y = expf(x - most);
        sum += *y;
    }
    for y in y {
        *y /= sum;
    }
}

/// The kernel.
///
/// # Safety
///
/// `x` and `y` are `rows` times `columns` floats each, and do not overlap; no other group of the launch takes this one's
/// rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn softmax(params: &Params, at: &Group) {
    let columns = params.columns as usize;
    for r in at.range(0, params.rows) {
        // SAFETY: the row lies inside the matrices, and is this group's alone.
        let (x, y) = unsafe {
            (
                core::slice::from_raw_parts(params.x.add(r * columns), columns),
                core::slice::from_raw_parts_mut(params.y.add(r * columns), columns),
            )
        };
        row(x, y);
    }
}
