//! The soak of the driver: mixed load of real threads on software Metal, with memory that stays flat and every object of Metal's
//! released. What a thread does and what is looked at: [`rig_conformance::soak`].
//!
//! Faults are fills that fail. Software Metal looks at every call of the driver's meanwhile, and stops at one that is wrong.
//!
//! `cargo xtask soak --on metal --minutes N` runs it. Without `--minutes` it runs for two seconds.
#![cfg_attr(
    all(target_os = "linux", target_arch = "x86_64"),
    expect(clippy::unwrap_used, reason = "a test program: what it cannot do is its failure")
)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("skipped: software Metal runs on Linux on x86-64");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> std::process::ExitCode {
    let usual = std::time::Duration::from_secs(2);
    rig_conformance::soak::main("soak_of_software_metal", usual, |time| Some(on_software::soak(time)))
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod on_software {
    use std::time::Duration;

    use rig::Device;
    use rig_conformance::soak::{Count, Kernels, LEN, Own, Soak};
    use rig_metal::Metal;
    use rig_metal_model::live;
    use rig_metal_model::machine::Machine;

    use super::kit;

    pub fn soak(time: Duration) -> Result<(), String> {
        let machine = Machine::builder().fast_compiles().build();
        let kernels = Kernels {
            image: kit::library("suite"),
            groups: [LEN as u32 / 64, 1, 1],
            threads: [64, 1, 1],
            spin_rounds: 2_000,
        };
        let open = || opened(&machine);
        Soak::new("Metal's driver on software Metal", |_| Gpu { machine: &machine, kernels: &kernels })
            .shared(&kernels, open)
            .shared(&kernels, open)
            .once_before("software Metal starts its threads and makes its classes when they are first needed")
            .counts(|| counts(&machine))
            .run(time)
    }

    /// A device on the machine's GPU.
    fn opened(machine: &Machine) -> rig::Result<Device> {
        let _entered = machine.enter();
        rig::open(rig_metal::gpu(0))
    }

    /// What lives in the process, each class for itself.
    fn counts(machine: &Machine) -> Vec<Count> {
        machine.settle();
        let count = |what: &str, now: isize| Count::exact(what, now.try_into().unwrap_or(0));
        let objects = live::objects();
        let others = [("blocks", live::blocks()), ("objects autoreleased outside of pools", live::unpooled() as isize)];
        let objects = objects.iter().map(|(class, &now)| count(class, now));
        objects.chain(others.map(|(what, now)| count(what, now))).collect()
    }

    /// What a thread opens.
    struct Gpu<'m> {
        machine: &'m Machine,
        kernels: &'m Kernels,
    }

    impl Own for Gpu<'_> {
        fn open(&mut self) -> rig::Result<Device> {
            opened(self.machine)
        }

        fn kernels(&self) -> &Kernels {
            self.kernels
        }

        fn faults(&self) -> bool {
            true
        }

        fn fault(&mut self, device: &Device) {
            let fill =
                |_: &mut rig_metal::Encoder<'_>, _: &[rig_edge::Slot]| Err("a fill that fails on purpose".into());
            let submission = device.submission().fill::<Metal>([], fill).make().unwrap();
            let _ = kit::launch(&mut submission.take(), &[]);
        }
    }
}
