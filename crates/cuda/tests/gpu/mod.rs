//! What the tests on a GPU share: whether there is one, the kernels, and runs of a single launch.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rig::{Buffer, Device, Image, Point, RefSpec, Result, Run, write};

pub const SUITE: &[u8] = include_bytes!("../../kernels/suite.ptx");
pub const TEST: &[u8] = include_bytes!("../../kernels/test.ptx");

/// Why there is no GPU here, if there is none.
pub fn absent() -> Option<String> {
    (rig_cuda::count() == 0).then(|| "skipped: no CUDA device".to_owned())
}

/// A device on the first GPU. None, and said so, where there is no GPU.
pub fn device() -> Option<Device> {
    if let Some(why) = absent() {
        println!("{why}");
        return None;
    }
    Some(rig::open(rig_cuda::gpu(0)).unwrap())
}

/// A run of one launch of a function.
pub fn run(image: &Image, name: &str, refs: impl IntoIterator<Item = RefSpec>) -> Run {
    let function = image.function(name).unwrap();
    let builder = image.device().submission().launch(&function, refs).params(function.params().unwrap());
    builder.make().unwrap().take()
}

/// A run of `busy` for some time.
pub fn busy(image: &Image, time: Duration) -> Run {
    let mut run = run(image, "busy", [write(0)]);
    run.part(0).groups([1; 3]).threads([1; 3]).set(8, time.as_nanos() as u64);
    run
}

/// Launches kernels that touch what their refs, parameters and grid say.
pub fn launch(run: &mut Run, buffers: &[&Buffer]) -> Result<Point> {
    // SAFETY: the tests' kernels touch the elements that the tests give them, and nothing else; those that fault do so in a
    // process of their own.
    #[expect(unsafe_code, reason = "launches kernels of this crate")]
    unsafe {
        run.launch(buffers)
    }
}

/// The variable that tells a child process which test it is.
const CHILD: &str = "RIG_CUDA_CHILD";

/// Whether this process is the child that runs `name`.
pub fn is_child(name: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|child| child == name)
}

/// TIMEOUT: how long a child may take: a GPU opens in a second or two, and the longest hang bound here is two.
const CHILD_TIME: Duration = Duration::from_secs(120);

/// Runs this binary again as the child `name`, with `arguments`.
pub fn child(name: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).env(CHILD, name).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > CHILD_TIME {
            child.kill().unwrap();
        }
        // TIMEOUT: a look every few milliseconds costs nothing beside a process that opens a GPU.
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Runs `body` in a process of its own, which it may wreck; called from the test `name`. The parent sees that it passed.
pub fn in_child(name: &str, body: impl FnOnce()) {
    if is_child(name) {
        return body();
    }
    if let Some(why) = absent() {
        println!("{why}");
        return;
    }
    let output = child(name, &["--exact", name, "--nocapture", "--test-threads=1"]);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the child ended with {}:\n{text}", output.status);
    assert!(text.contains("1 passed"), "the child ran no test:\n{text}");
}
