//! The sum of each group's elements: a kernel of threads that meet at barriers. One thread an element; the threads of a
//! group are a power of two, and the launch gives 4 bytes of group memory to each.
#![no_std]

mod rig_host;
use rig_host::{Group, Kernel};

/// As `reduce.c` has them.
#[repr(C)]
pub struct Params {
    x: *const f32,
    sums: *mut f32,
    n: u32,
}

#[unsafe(no_mangle)]
#[used]
static rig_kernel_reduce: Kernel = Kernel::thread::<Params>();

/// The kernel.
///
/// # Safety
///
/// `x` is `n` floats and `sums` one a group; the group memory is a float a thread; the threads are a power of two.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reduce(params: &Params, at: &Group) {
    let shared = at.group_memory.cast::<f32>();
    let (thread, threads) = (at.thread[0] as usize, at.threads[0] as usize);
    let i = at.group[0] as usize * threads + thread;
    // SAFETY: i is checked; the thread's float of the group memory is its own until the barrier, which every thread calls.
    unsafe {
        shared.add(thread).write(if i < params.n as usize { *params.x.add(i) } else { 0.0 });
        at.barrier();
    }
    let mut half = threads / 2;
    while half > 0 {
        // SAFETY: the lower half of the floats is written by its own threads, and the upper half only read; every thread
        // calls the barrier as often, since `half` is the same for all.
        unsafe {
            if thread < half {
                *shared.add(thread) += *shared.add(thread + half);
            }
            at.barrier();
        }
        half /= 2;
    }
    if thread == 0 {
        // SAFETY: one float a group, and this is the group's own.
        unsafe { params.sums.add(at.group[0] as usize).write(*shared) };
    }
}
