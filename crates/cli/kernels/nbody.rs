//! One step of n bodies that attract each other. One thread a body. Four floats a body: x, y, z and its mass; and x, y, z
//! of its velocity and one that is not used.
#![no_std]

mod rig_host;
use rig_host::{Group, Kernel};

/// As `nbody.c` has them.
#[repr(C)]
pub struct Params {
    bodies: *const [f32; 4],
    moved: *mut [f32; 4],
    velocities: *mut [f32; 4],
    step: f32,
    softening: f32,
    n: u32,
}

unsafe extern "C" {
    safe fn sqrtf(x: f32) -> f32;
}

#[unsafe(no_mangle)]
#[used]
static rig_kernel_nbody: Kernel = Kernel::group::<Params>();

fn pull(bodies: &[[f32; 4]], at: &[f32; 4], softening: f32) -> [f32; 3] {
    let mut pull = [0.0; 3];
    for other in bodies {
        let d = [other[0] - at[0], other[1] - at[1], other[2] - at[2]];
        let squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + softening;
        let force = other[3] / (squared * sqrtf(squared));
        for (pull, d) in pull.iter_mut().zip(d) {
            *pull += force * d;
        }
    }
    pull
}

/// The kernel.
///
/// # Safety
///
/// `bodies`, `moved` and `velocities` are `n` times four floats, and do not overlap; no other group of the launch takes
/// this one's bodies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nbody(params: &Params, at: &Group) {
    // SAFETY: n bodies, which nothing writes.
    let bodies = unsafe { core::slice::from_raw_parts(params.bodies, params.n as usize) };
    for i in at.range(0, params.n) {
        // SAFETY: body i is inside all three, and this group's alone.
        let (body, moved, velocity) =
            unsafe { (&*params.bodies.add(i), &mut *params.moved.add(i), &mut *params.velocities.add(i)) };
        let pull = pull(bodies, body, params.softening);
        for axis in 0..3 {
            velocity[axis] += params.step * pull[axis];
            moved[axis] = body[axis] + params.step * velocity[axis];
        }
        moved[3] = body[3];
    }
}
