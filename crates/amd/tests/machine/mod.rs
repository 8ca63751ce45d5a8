//! Machines with software GPUs for the tests: what the suite's fixtures need, and what its cases leave behind.
#![expect(clippy::unwrap_used, reason = "tests fail by it")]

pub mod bare;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rig::{Device, write};
use rig_amd::{GpuOpener, System};
use rig_amd_model::{Counts, Group, Machine};
use rig_conformance::suite::Fixtures;

/// The suite's kernels.
pub const SUITE: &[u8] = include_bytes!("../../../amd-model/fixtures/suite.co");
/// Kernels that fault.
pub const FAULTS: &[u8] = include_bytes!("../../../amd-model/fixtures/faults.co");

/// The seed of the scheduler.
pub fn seed() -> u64 {
    std::env::var("RIG_AMD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

/// The first seed of a test of many: `RIG_AMD_FIRST`, or 0.
pub fn first_seed() -> u64 {
    std::env::var("RIG_AMD_FIRST").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

/// How many seeds a test of many goes through: `RIG_AMD_SEEDS`, or `few`.
pub fn seeds(few: u64) -> u64 {
    std::env::var("RIG_AMD_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(few)
}

/// TIMEOUT: how long a queue of the suite's machines may wait for a word. What follows a lost device waits until the device is
/// closed, at the end of its case, which takes seconds on a machine that does much else.
const STUCK: std::time::Duration = std::time::Duration::from_secs(100);
/// A PCI function of the suite's machines.
const NETWORK_CARD: &str = "0000:41:00.0";

/// The memory of each GPU: what a case of buffers past 4 GiB needs. What of it is touched is the host's, and no more.
const VRAM: u64 = 8 << 30;

/// A machine with two GPUs.
pub struct Machines {
    machine: Machine,
    system: System,
    faults: AtomicBool,
}

impl Machines {
    pub fn new(seed: u64) -> Machines {
        let builder = Machine::builder().seed(seed).gpus(2).vram(VRAM).pci_function(NETWORK_CARD).stuck_after(STUCK);
        let machine = builder.build();
        let system = rig_amd::on(&machine);
        Machines { machine, system, faults: AtomicBool::new(false) }
    }

    /// What is alive on the machine.
    pub fn counts(&self) -> Counts {
        self.machine.counts()
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("violations: {:#x?}", self.machine.violations());
            return;
        }
        if self.faults.load(Ordering::Relaxed) {
            // The access that the case asked for, and no more.
            let found = self.machine.take_violations();
            assert!(found.iter().all(|found| found.group() == Group::Memory), "{found:x?}");
        }
        self.machine.assert_clean();
    }
}

/// Launches kernels of the tests.
#[expect(unsafe_code, reason = "launches kernels")]
pub fn launch(run: &mut rig::Run, buffers: &[&rig::Buffer]) -> rig::Result<rig::Point> {
    // SAFETY: the machine's GPUs reach what is mapped for them alone, and the kernels of the tests what their refs say, or
    // addresses where nothing is.
    unsafe { run.launch(buffers) }
}

impl Fixtures for Machines {
    type Opener = GpuOpener;

    fn opener(&self) -> GpuOpener {
        self.system.gpu(0)
    }

    fn second(&self) -> GpuOpener {
        self.system.gpu(1)
    }

    fn image(&self) -> Vec<u8> {
        SUITE.to_vec()
    }

    fn bad_images(&self) -> Vec<(String, Vec<u8>)> {
        let changed = |at: usize, byte: u8| {
            let mut file = SUITE.to_vec();
            file[at] = byte;
            file
        };
        vec![
            ("no ELF file".into(), b"nonsense".to_vec()),
            ("an ELF file that is cut short".into(), SUITE[..900].to_vec()),
            ("an ELF file for the host".into(), changed(18, 62)),
            ("a code object for gfx1030".into(), changed(48, 0x36)),
        ]
    }

    fn grid(&self, n: u32) -> ([u32; 3], [u32; 3]) {
        ([n.div_ceil(64).max(1), 1, 1], [64, 1, 1])
    }

    fn spin_rounds(&self) -> u32 {
        100
    }

    fn dma_function(&self) -> Option<String> {
        Some(NETWORK_CARD.into())
    }

    fn lose(&self, device: &Device) -> bool {
        let image = device.load(FAULTS).unwrap();
        let fault = image.function("store_at").unwrap();
        let submission = device.submission().launch(&fault, [write(0)]).make().unwrap();
        let y = device.buffer(4).unwrap();
        let mut run = submission.take();
        // Four terabytes past the buffer, where nothing is mapped.
        run.part(0).groups([1; 3]).threads([1; 3]).set(8, 1_u64 << 42).set(16, 1_u32);
        self.faults.store(true, Ordering::Relaxed);
        let _ = launch(&mut run, &[&y]);
        true
    }

    fn hold(&self, _: &Device) -> Option<Box<dyn Send>> {
        self.machine.hold();
        Some(Box::new(Held(self.machine.clone())))
    }

    fn hanging(&self) -> Option<GpuOpener> {
        Some(self.system.gpu(0).hang(Some(Duration::from_millis(300))))
    }
}

/// A machine whose GPUs stand still until this is dropped.
struct Held(Machine);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.release();
    }
}
