//! c = a b. One thread an element of c: x runs over its columns and y over its rows.
#![no_std]

mod rig_host;
use rig_host::{Group, Kernel};

/// As `matmul.c` has them.
#[repr(C)]
pub struct Params {
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    m: u32,
    n: u32,
    k: u32,
}

#[unsafe(no_mangle)]
#[used]
static rig_kernel_matmul: Kernel = Kernel::group::<Params>();

/// The kernel.
///
/// # Safety
///
/// `a` is `m` times `k` floats, `b` is `k` times `n`, `c` is `m` times `n`, and `c` overlaps neither; no other group of
/// the launch takes this one's elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn matmul(params: &Params, at: &Group) {
    let (n, k) = (params.n as usize, params.k as usize);
    let (columns, rows) = (at.range(0, params.n), at.range(1, params.m));
    if columns.is_empty() {
        return;
    }
    for i in rows {
        // SAFETY: row i of a and of c lies inside them, and these columns of it are this group's alone.
        let (a, c) = unsafe {
            (
                core::slice::from_raw_parts(params.a.add(i * k), k),
                core::slice::from_raw_parts_mut(params.c.add(i * n + columns.start), columns.len()),
            )
        };
        c.fill(0.0);
        // Row by row of b, so that the inner loop runs along memory.
        for (l, a) in a.iter().enumerate() {
            // SAFETY: row l of b lies inside it.
            let b = unsafe { core::slice::from_raw_parts(params.b.add(l * n + columns.start), columns.len()) };
            for (b, c) in b.iter().zip(&mut *c) {
                *c += a * b;
            }
        }
    }
}
