//! What tests over several processes share: the lane of the host's cores, the stand-in library, and children.
//!
//! A test starts this binary again for each process, with the variables that a launcher would set and with `RIG_NCCL` at the
//! stand-in; each child runs the part of the test's name.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::c_void;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rig::{Buffer, Device, Point, Run};
use rig_nccl::{Communicator, Lane, Options, World};

/// TIMEOUT: how long a child may take: seconds, on a machine that is busy with a whole workspace's tests.
const CHILD_TIME: Duration = Duration::from_secs(100);
/// TIMEOUT: how often a parent looks at its children.
const LOOK: Duration = Duration::from_millis(5);

/// The variable that tells a child which test it is a process of.
const CHILD: &str = "RIG_NCCL_TEST";

/// The host's cores: a task on the device's thread plays the GPU, and the stand-in's blocking call the kernel.
pub struct Cores;

/// How far a device is.
#[derive(Default)]
pub struct Seat(AtomicU64);

impl Lane for Cores {
    type Driver = rig_host::Host;
    type Seat = Seat;

    fn hardware(_: &Device) -> String {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        format!("{pid}/{}", MADE.fetch_add(1, Ordering::Relaxed))
    }

    fn seat(_: &Device) -> Result<Seat, String> {
        Ok(Seat::default())
    }

    fn within<T>(_: &Seat, call: impl FnOnce() -> T) -> Result<T, String> {
        Ok(call())
    }

    fn put(
        seat: &Arc<Seat>,
        encoder: &mut rig_host::Encoder<'_>,
        value: u64,
        work: impl FnOnce(*mut c_void) -> Result<(), String> + Send + 'static,
    ) -> Result<(), String> {
        let seat = Arc::clone(seat);
        encoder.task(move || {
            work(std::ptr::null_mut())?;
            seat.0.store(value, Ordering::Release);
            Ok(())
        });
        Ok(())
    }

    fn done(seat: &Seat) -> u64 {
        seat.0.load(Ordering::Acquire)
    }
}

/// Devices of one thread each.
pub fn devices(count: usize) -> Vec<Device> {
    (0..count).map(|_| rig::open(rig_host::cores().threads(NonZero::<u32>::MIN)).unwrap()).collect()
}

/// Bounds for tests: what is to fail by a bound of the communicator's fails soon, and nothing else by any.
pub fn options() -> Options {
    Options::default()
}

/// A communicator of the child's world over some devices.
pub fn connect(devices: &[Device], options: Options) -> Communicator<Cores> {
    rig_nccl::connect_on::<Cores>(&World::from_env().unwrap(), devices, options).unwrap()
}

/// Launches fills of rig-nccl's.
pub fn launch(run: &mut Run, buffers: &[&Buffer]) -> rig::Result<Point> {
    // SAFETY: the tests' submissions have fills of rig-nccl's alone, which touch the slots that they name.
    #[expect(unsafe_code, reason = "launches fills")]
    unsafe {
        run.launch(buffers)
    }
}

/// The stand-in, which cargo builds beside the tests.
fn stand_in() -> PathBuf {
    let name = format!("{}rig_nccl_model{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let exe = std::env::current_exe().unwrap();
    let near = [exe.parent(), exe.parent().and_then(|deps| deps.parent())];
    let found = near.into_iter().flatten().map(|folder| folder.join(&name)).find(|file| file.exists());
    found.unwrap_or_else(|| panic!("{name} stands beside {}", exe.display()))
}

/// Where this process's run meets: a file of its own.
pub fn meeting(test: &str) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let name = format!("rig-nccl-{test}-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    format!("file:{}", std::env::temp_dir().join(name).display())
}

/// The processes of a test. Those that still run are ended when it drops.
pub struct Processes(pub Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether this process is a child, and of which test.
pub fn child_of() -> Option<String> {
    std::env::var(CHILD).ok()
}

/// Starts the processes of a test, each with what `more` sets beside.
pub fn start(test: &str, count: usize, more: impl Fn(usize, &mut Command)) -> Processes {
    let meet = meeting(test);
    let children = (0..count).map(|process| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["child", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(CHILD, test).env("RIG_NCCL", stand_in()).env("NCCL_RUNTIME_CONNECT", "0");
        command.env("RIG_NCCL_MEET", &meet).env("RIG_NCCL_PROCESS", process.to_string());
        command.env("RIG_NCCL_PROCESSES", count.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        more(process, &mut command);
        command.spawn().unwrap()
    });
    Processes(children.collect())
}

/// Waits for a child, and gives what it printed.
pub fn output(mut child: Child) -> (bool, String) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > CHILD_TIME {
            child.kill().unwrap();
        }
        std::thread::sleep(LOOK);
    }
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    (status.success(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

/// Runs the processes of a test, and gives what each printed; all must end well but those in `dead`.
#[track_caller]
pub fn finish(mut processes: Processes, dead: &[usize]) -> Vec<String> {
    let children = std::mem::take(&mut processes.0);
    let outputs: Vec<(bool, String)> = children.into_iter().map(output).collect();
    let bad: Vec<usize> =
        (0..outputs.len()).filter(|process| !outputs[*process].0 && !dead.contains(process)).collect();
    let texts: Vec<String> = outputs.into_iter().map(|(_, text)| text).collect();
    // All of them: the cause may be in another than the one that hung.
    assert!(bad.is_empty(), "processes {bad:?} did not end well:\n{}", texts.join("\n----\n"));
    texts
}
