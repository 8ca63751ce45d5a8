//! The conformance suite: on software Metal here, and on Metal itself on a Mac (`cargo xtask metal`).
#![cfg(any(target_os = "macos", all(feature = "model", target_os = "linux", target_arch = "x86_64")))]
#![expect(clippy::unwrap_used, reason = "tests")]

use rig::Device;
use rig_conformance::suite::Fixtures;
use rig_metal::{GpuOpener, Metal};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

struct Gpu;

impl Fixtures for Gpu {
    type Opener = GpuOpener;

    fn opener(&self) -> GpuOpener {
        rig_metal::gpu(0)
    }

    fn image(&self) -> Vec<u8> {
        kit::library("suite")
    }

    fn bad_images(&self) -> Vec<(String, Vec<u8>)> {
        let whole = kit::library("suite");
        let mut foreign = whole.clone();
        foreign[..4].copy_from_slice(b"\x7fELF");
        vec![
            ("no bytes".into(), Vec::new()),
            ("no library".into(), b"nonsense".to_vec()),
            ("a library that is cut short".into(), whole[..whole.len() / 2].to_vec()),
            ("a file of another kind".into(), foreign),
            ("a library with a vertex function".into(), kit::library("vertex")),
        ]
    }

    fn spin_rounds(&self) -> u32 {
        if cfg!(target_os = "macos") { 1_000_000 } else { 2_000 }
    }

    fn lose(&self, device: &Device) -> bool {
        let fill = |_: &mut rig_metal::Encoder<'_>, _: &[rig_edge::Slot]| Err("a fill that fails on purpose".into());
        let made = device.submission().fill::<Metal>([], fill).make();
        if let Ok(submission) = made {
            let _ = kit::launch(&mut submission.take(), &[]);
        }
        true
    }

    #[cfg(not(target_os = "macos"))]
    fn hold(&self, _: &Device) -> Option<Box<dyn Send>> {
        Some(Box::new(held::Held::new()))
    }
}

/// Software Metal's holds. All tests here are on one machine, so one of them holds at a time, and the others wait.
#[cfg(not(target_os = "macos"))]
mod held {
    use std::sync::{Condvar, Mutex};

    use rig_metal_model::machine::Machine;

    static HOLDS: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

    /// No command buffer runs until this is dropped.
    pub struct Held(Machine);

    impl Held {
        pub fn new() -> Held {
            let mut holds = HOLDS.1.wait_while(HOLDS.0.lock().unwrap(), |holds| *holds).unwrap();
            *holds = true;
            let machine = Machine::current();
            machine.hold();
            Held(machine)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.release();
            *HOLDS.0.lock().unwrap() = false;
            HOLDS.1.notify_one();
        }
    }
}

fn fixtures() -> Gpu {
    Gpu
}

rig_conformance::conformance! { fixtures = fixtures }
