//! The soak of the driver: mixed load of real threads on a software machine with two GPUs, with memory that stays flat and
//! everything of the kernel's that comes back. What a thread does and what is looked at: [`rig_conformance::soak`].
//!
//! Threads lose their own devices by [`rig::Device::lose`] and by closing them: the kernel runs nothing more of a process on a GPU where it
//! faulted, so none faults here. The machine looks at every packet of the driver's meanwhile, and must find nothing wrong.
//!
//! `cargo xtask soak --on amd --minutes N` runs it. Without `--minutes` it runs for two seconds.

#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped: the software GPU runs on Linux");
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let usual = std::time::Duration::from_secs(2);
    rig_conformance::soak::main("soak_of_software_gpus", usual, |time| Some(on_linux::soak(time)))
}

#[cfg(target_os = "linux")]
mod on_linux {
    use std::time::Duration;

    use rig_conformance::soak::{Count, Kernels, Soak};
    use rig_conformance::suite::Fixtures;

    use super::machine::{self, Machines};

    /// Each memory of the machine is a file of the process: some 16 of a device's queues, arguments, marks, stamps and code, and one
    /// for each of the 20 buffers and more of an episode whose memory runs out.
    const HANDLES: u64 = 40;

    pub fn soak(time: Duration) -> Result<(), String> {
        let machine = Machines::new(machine::seed());
        let kernels = Kernels::of(&machine);
        let open = || rig::open(machine.opener());
        Soak::new("AMD's driver on software GPUs", |_| (kernels.clone(), open))
            .shared(&kernels, open)
            .shared(&kernels, || rig::open(machine.second()))
            .once_before("the driver keeps the kernel's file and the GPUs' for as long as the process lives, and what all GPUs share")
            .handles(HANDLES)
            .counts(|| counts(&machine))
            .run(time)
        // The machine's end sees that the driver did nothing wrong.
    }

    /// What lives under the kernel's interface. Nothing of it may be more at a later rest: rings are made with their device and do not
    /// grow, stamps are made once, for the first profile, and the suite's kernels need no scratch.
    fn counts(machine: &Machines) -> Vec<Count> {
        let counts = machine.counts();
        vec![
            Count::exact("files of the machine", counts.files as u64),
            Count::exact("memories", counts.memories as u64),
            Count::exact("bytes of them", counts.bytes),
            Count::exact("mappings", counts.mappings as u64),
            Count::exact("queues", counts.queues as u64),
            Count::exact("events", counts.events as u64),
            Count::exact("bytes of the host's addresses", counts.host_bytes as u64),
        ]
    }
}
