//! Kernels in Rust without std, to be compiled to an object: `rustc --crate-type lib --emit obj -C panic=abort`.
#![no_std]

#[repr(C)]
pub struct Group {
    group: [u32; 3],
    groups: [u32; 3],
    threads: [u32; 3],
    thread: [u32; 3],
    group_bytes: u32,
    reserved: u32,
    group_memory: *mut u8,
    barrier: extern "C" fn(*const Group),
}

#[repr(C)]
pub struct Pair {
    x: *const f32,
    y: *mut f32,
    n: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn add(params: *const Pair, at: *const Group) {
    let (p, at) = unsafe { (&*params, &*at) };
    let first = at.group[0] as usize * at.threads[0] as usize;
    let len = (at.threads[0] as usize).min(p.n as usize - first);
    let x = unsafe { core::slice::from_raw_parts(p.x.add(first), len) };
    let y = unsafe { core::slice::from_raw_parts_mut(p.y.add(first), len) };
    for (y, x) in y.iter_mut().zip(x) {
        *y += *x;
    }
}
