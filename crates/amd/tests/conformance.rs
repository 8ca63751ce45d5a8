//! The conformance suite on the software GPU, whole.
//!
//! Every case has a machine of its own with two GPUs, and ends by asking it for violations. The scheduler's seed is the
//! process's: `RIG_AMD_SEED`, or 0.
#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use machine::Machines;

fn fixtures() -> Machines {
    Machines::new(machine::seed())
}

rig_conformance::conformance! {
    fixtures = fixtures,
    skip = [
        "failure::a_lost_device_can_be_opened_again_at_once: the kernel runs nothing more of a process on a GPU where it faulted",
    ],
}
