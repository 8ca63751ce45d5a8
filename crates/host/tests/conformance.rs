//! The conformance suite on the host's devices: on the memory device, on the cores device with kernels in Rust, and on the
//! cores device with kernels that the machine's C compiler made.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex};

use rig::Device;
use rig_conformance::suite::Fixtures;
use rig_host::{CoresOpener, Group, Kernels, MemoryOpener, Params};

/// Calls `each` with the numbers, below n, of a group's threads along x.
fn each(at: &Group, n: u32, each: impl FnMut(usize)) {
    let first = at.group[0] * at.threads[0];
    (first..first.saturating_add(at.threads[0]).min(n)).map(|i| i as usize).for_each(each);
}

/// The value at `i` of the ref at `at`.
#[expect(unsafe_code, reason = "a kernel works on what its launch named")]
fn cell<'a, T>(params: &Params<'a>, at: usize, i: usize) -> &'a mut T {
    // SAFETY: the suite launches with as many elements as it says, and each is one thread's.
    let cells = unsafe { params.slice_mut::<T>(at, i, 1) };
    &mut cells[0]
}

/// The suite's kernels, as group kernels in Rust.
fn kernels() -> Kernels {
    let add = |params: &Params<'_>, at: &Group| {
        each(at, params.get(16), |i| *cell::<f32>(params, 8, i) += *cell::<f32>(params, 0, i));
    };
    let scale = |params: &Params<'_>, at: &Group| {
        each(at, params.get(8), |i| *cell::<f32>(params, 0, i) *= params.get::<f32>(12));
    };
    let iota = |params: &Params<'_>, at: &Group| {
        each(at, params.get(8), |i| *cell::<u32>(params, 0, i) = params.get::<u32>(12).wrapping_add(i as u32));
    };
    let spin = |params: &Params<'_>, at: &Group| {
        each(at, params.get(8), |i| {
            let cell = cell::<u32>(params, 0, i);
            for _ in 0..params.get::<u32>(12) {
                *cell = std::hint::black_box(cell.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
            }
        });
    };
    Kernels::new().group("add", 24, add).group("scale", 16, scale).group("iota", 16, iota).group("spin", 16, spin)
}

/// The suite's kernels in Rust. Registered once: a registration lives as long as the process.
static RUST: LazyLock<Vec<u8>> = LazyLock::new(|| kernels().image());

/// The suite's kernels in C, or in Rust where there is no compiler.
static MACHINE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("suite-{}.o", std::process::id()));
    let compiler = std::env::var("RIG_TEST_COMPILERS").unwrap_or_else(|_| "cc".into());
    let mut command = Command::new(compiler.split(',').next().unwrap_or("cc"));
    command.args(["-c", "-O1", "-I"]).arg(root.join("include")).arg("-o").arg(&object);
    match command.arg(root.join("tests/kernels/suite.c")).status() {
        Ok(status) => {
            assert!(status.success(), "the compiler refuses the suite's kernels");
            let bytes = std::fs::read(&object).expect("the compiler wrote the object");
            std::fs::remove_file(&object).expect("the object is the test's own");
            bytes
        }
        Err(why) => {
            println!("in Rust instead, as there is no C compiler: {why}");
            RUST.clone()
        }
    }
});

fn bad_images() -> Vec<(String, Vec<u8>)> {
    let cut = MACHINE[..MACHINE.len() / 2].to_vec();
    let mut foreign = MACHINE.clone();
    if foreign.starts_with(b"\x7fELF") {
        foreign[18] = 0xe0;
    }
    let mut unknown = RUST.clone();
    unknown.truncate(24);
    unknown.extend(u64::MAX.to_le_bytes());
    vec![
        ("an object that is cut short".into(), cut),
        ("an object for another machine".into(), foreign),
        ("kernels that nobody registered".into(), unknown),
    ]
}

/// Makes the device fault by a kernel that panics.
#[expect(unsafe_code, reason = "launches a kernel")]
fn lose(device: &Device) -> bool {
    static FAILS: LazyLock<Vec<u8>> =
        LazyLock::new(|| Kernels::new().group("fails", 0, |_, _| panic!("on purpose")).image());
    let fails = device.load(&FAILS).and_then(|image| image.function("fails"));
    let Ok(submission) = fails.and_then(|function| device.submission().launch(&function, []).make()) else {
        return true;
    };
    // SAFETY: the kernel touches no memory of the device's. Whether the fault comes at once or later is the driver's.
    let _ = unsafe { submission.take().launch(&[]) };
    true
}

/// Kernels that stand still, by the number in their parameters.
static STANDING: LazyLock<(Vec<u8>, Mutex<HashSet<u64>>, Condvar)> = LazyLock::new(|| {
    let stand = |params: &Params<'_>, _: &Group| {
        let (_, standing, gone) = &*STANDING;
        let mut standing = standing.lock().expect("the tests' own");
        while standing.contains(&params.get::<u64>(0)) {
            standing = gone.wait(standing).expect("the tests' own");
        }
    };
    (Kernels::new().group("stand", 8, stand).image(), Mutex::default(), Condvar::new())
});

/// A kernel that stands still until this is dropped.
struct Standing(u64);

impl Drop for Standing {
    fn drop(&mut self) {
        STANDING.1.lock().expect("the tests' own").remove(&self.0);
        STANDING.2.notify_all();
    }
}

/// Holds the work that follows on a device that runs it beside the caller: by a kernel that stands still.
#[expect(unsafe_code, reason = "launches a kernel")]
fn hold(device: &Device) -> Option<Box<dyn Send>> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if !device.name().starts_with("CORES") {
        return None;
    }
    let stand = device.load(&STANDING.0).and_then(|image| image.function("stand")).expect("a kernel of this file");
    let mut run = device.submission().launch(&stand, []).params(8).make().expect("its submission").take();
    let standing = Standing(NEXT.fetch_add(1, Ordering::Relaxed));
    STANDING.1.lock().expect("the tests' own").insert(standing.0);
    run.part(0).set(0, standing.0);
    // SAFETY: the kernel touches no memory of the device's.
    unsafe { run.launch(&[]) }.expect("a launch");
    Some(Box::new(standing))
}

macro_rules! fixtures {
    ($name:ident, $opener:ty, $open:expr, $image:expr, $rounds:expr, $full:expr) => {
        struct $name;

        impl Fixtures for $name {
            type Opener = $opener;

            fn opener(&self) -> $opener {
                $open
            }

            fn image(&self) -> Vec<u8> {
                $image.clone()
            }

            fn bad_images(&self) -> Vec<(String, Vec<u8>)> {
                bad_images()
            }

            fn spin_rounds(&self) -> u32 {
                $rounds
            }

            fn lose(&self, device: &Device) -> bool {
                lose(device)
            }

            fn hold(&self, device: &Device) -> Option<Box<dyn Send>> {
                hold(device)
            }

            fn in_full(&self) -> bool {
                $full
            }
        }
    };
}

mod memory_device {
    use super::*;
    fixtures!(Memory, MemoryOpener, rig_host::memory(), RUST, 1000, true);
    fn fixtures() -> Memory {
        Memory
    }
    rig_conformance::conformance! { fixtures = fixtures }
}

mod cores_device {
    use super::*;
    fixtures!(Cores, CoresOpener, rig_host::cores(), RUST, 2000, true);
    fn fixtures() -> Cores {
        Cores
    }
    rig_conformance::conformance! { fixtures = fixtures }
}

mod cores_device_machine_code {
    use super::*;
    fixtures!(Machine, CoresOpener, rig_host::cores(), MACHINE, 5000, false);
    fn fixtures() -> Machine {
        Machine
    }
    rig_conformance::conformance! { fixtures = fixtures }
}
