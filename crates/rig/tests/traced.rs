//! Programs that their environment has traced (`RIG_TRACE`): what the file holds, however the program ends.
//!
//! A program here is this test binary, run again with the name of a deed; the deeds are the tests' other halves.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(unsafe_code, reason = "launches run the tests' own kernels")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rig::{Buffer, Device, Run, write};
use rig_conformance::NullOpener;
use rig_conformance::model::{Model, Options, Pace, Tells};
use rig_edge::WaitFacts;
use rig_host::Kernels;
use serde_json::Value;

/// The variable that names the deed of a program.
const DEED: &str = "RIG_TEST_DEED";

/// An empty folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("traced").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs this binary for a deed, in `folder`.
fn program(deed: &str, folder: &Path, files: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "deeds", "--nocapture", "--test-threads=1"])
        .current_dir(folder)
        .env(DEED, deed)
        .env("RIG_TRACE", files)
        .output()
        .unwrap()
}

/// The events of a trace, which is JSON to its end.
fn events(path: &Path) -> Vec<Value> {
    let trace: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

/// How many values ran, by the names of their devices.
fn ran(events: &[Value], name: &str) -> usize {
    events.iter().filter(|event| event["ph"] == "X" && event["tid"] == 0 && event["name"] == name).count()
}

/// The files of a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A device of one core and a run of a kernel that fills a block.
fn filler() -> (Device, Run, Buffer) {
    let device = rig::open(rig_host::cores().threads(std::num::NonZero::<u32>::MIN)).unwrap();
    let kernels = Kernels::new().group("fill", 8, |params, _| {
        // SAFETY: slot 0 holds a block of 64 bytes, and the launch has one group.
        unsafe { params.slice_mut::<u8>(0, 0, 64) }.fill(7);
    });
    let fill = device.load(&kernels.image()).unwrap().function("fill").unwrap();
    let run = device.submission().launch(&fill, [write(0)]).make().unwrap().take();
    let block = device.buffer(64).unwrap();
    (device, run, block)
}

fn launch(run: &mut Run, block: &Buffer) -> rig::Point {
    // SAFETY: the kernel writes the 64 bytes of slot 0.
    unsafe { run.launch(&[block]) }.unwrap()
}

/// What the program does that the environment names; nothing in the tests' own process.
#[test]
fn deeds() {
    match std::env::var(DEED).as_deref() {
        Ok("any order") => any_order(),
        Ok("exit") => exit_at_work(),
        Ok("panic") => {
            let (_device, mut run, block) = filler();
            launch(&mut run, &block).wait().unwrap();
            panic!("as it was told");
        }
        Ok("nothing") => {
            // A device that does not open is none.
            rig::open(NullOpener::new("NULL")).map(drop).unwrap();
        }
        Ok("no device") => {}
        Ok("long") => long(),
        Ok("settles") => settles(),
        _ => {}
    }
}

/// Three devices: one closed and dropped before the others are made, one that a static keeps, one that is leaked with its
/// buffer; another thread has opened one and sleeps for ever.
fn any_order() {
    static KEPT: OnceLock<(Device, Buffer)> = OnceLock::new();
    let (closed, mut run, block) = filler();
    launch(&mut run, &block).wait().unwrap();
    closed.close();
    drop((closed, run, block));
    let (kept, mut run, block) = filler();
    launch(&mut run, &block).wait().unwrap();
    KEPT.set((kept, block)).unwrap();
    let (leaked, mut run, block) = filler();
    launch(&mut run, &block).wait().unwrap();
    std::mem::forget((leaked, run, block));
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (_device, mut run, block) = filler();
        launch(&mut run, &block).wait().unwrap();
        ready.send(()).unwrap();
        loop {
            std::thread::park();
        }
    });
    is_ready.recv().unwrap();
}

/// Ends while a kernel is at work that never ends.
fn exit_at_work() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    let (_device, mut run, block) = filler();
    launch(&mut run, &block).wait().unwrap();
    let endless = rig::open(rig_host::cores()).unwrap();
    let kernels = Kernels::new().group("endless", 8, |_, _| {
        STARTED.store(true, Ordering::Release);
        loop {
            std::thread::park();
        }
    });
    let function = endless.load(&kernels.image()).unwrap().function("endless").unwrap();
    let mut run = endless.submission().launch(&function, [write(0)]).make().unwrap().take();
    let block = endless.buffer(64).unwrap();
    launch(&mut run, &block);
    while !STARTED.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    std::process::exit(5);
}

/// More submits than a trace holds.
fn long() {
    let device = rig::open(NullOpener::new("NULL")).unwrap();
    let add = device.load(b"").unwrap().function("add").unwrap();
    let mut run = device.submission().launch(&add, [write(0)]).make().unwrap().take();
    let block = device.buffer(64).unwrap();
    for _ in 0..140_000 {
        launch(&mut run, &block);
    }
}

/// A device that tells of its work only once that is done: four values, the last of them just before the device closes.
fn settles() {
    let waits = WaitFacts { stores: true, hosts: true, most: 4 };
    let options = Options::default().pace(Pace::AtOnce).waits(waits).tells(Tells::Settled);
    let device = rig::open(Model::with("TOLD", options).opener()).unwrap();
    let block = device.buffer(64).unwrap();
    let mut run = device.submission().memset(0, 1).make().unwrap().take();
    for _ in 0..4 {
        run.submit(&[&block]).unwrap().wait().unwrap();
    }
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Promise C22.
#[test]
fn a_trace_is_whole_whatever_order_devices_end_in_and_whichever_never_do() {
    let folder = folder("any order");
    std::fs::write(folder.join("trace.json"), "an older trace").unwrap();
    let output = program("any order", &folder, "trace.json:trace.html:trace.txt:own-%p.json");
    assert!(output.status.success(), "{}", error(&output));
    let events = events(&folder.join("trace.json"));
    assert_eq!(ran(&events, "fill"), 4, "{events:?}");
    let host = events.iter().filter(|event| event["name"] == "submit CORES").count();
    assert_eq!(host, 4);
    let page = std::fs::read_to_string(folder.join("trace.html")).unwrap();
    assert!(page.starts_with("<!") && page.trim_end().ends_with("</html>"), "{page}");
    assert!(std::fs::read_to_string(folder.join("trace.txt")).unwrap().contains("CORES: 1 values, busy for "));
    let names = files(&folder);
    assert_eq!(names.len(), 4, "nothing else is left: {names:?}");
    let number = names[0].strip_prefix("own-").and_then(|name| name.strip_suffix(".json")).unwrap();
    assert!(number.parse::<u32>().is_ok(), "{names:?}");
}

/// Promise C22.
#[test]
fn an_exit_waits_for_no_work_and_its_trace_holds_what_was_done() {
    let folder = folder("exit");
    let output = program("exit", &folder, "trace.json");
    assert_eq!(output.status.code(), Some(5), "{}", error(&output));
    let events = events(&folder.join("trace.json"));
    assert_eq!((ran(&events, "fill"), ran(&events, "endless")), (1, 0));
    assert_eq!(events.iter().filter(|event| event["name"] == "submit CORES").count(), 2, "both were submitted");
}

#[test]
fn a_panic_leaves_a_trace_too() {
    let folder = folder("panic");
    let output = program("panic", &folder, "trace.json");
    assert!(!output.status.success() && error(&output).contains("as it was told"), "{}", error(&output));
    assert_eq!(ran(&events(&folder.join("trace.json")), "fill"), 1);
}

#[test]
fn a_file_that_cannot_be_written_is_said_and_changes_no_exit() {
    let folder = folder("absent");
    let output = program("nothing", &folder, "absent/trace.json:there.json");
    assert!(output.status.success(), "{}", error(&output));
    let said = error(&output);
    let why = "rig: cannot write the trace absent/trace.json (of the variable RIG_TRACE): No such file";
    assert!(said.contains(why), "{said}");
    assert_eq!(files(&folder), ["there.json"], "the others are written all the same");
}

#[test]
fn a_program_that_opens_no_device_writes_nothing() {
    let folder = folder("no device");
    assert!(program("no device", &folder, "trace.json").status.success());
    assert!(program("any order", &folder, "").status.success(), "and so does one with an empty variable");
    assert_eq!(files(&folder), [""; 0]);
}

/// Promise E38.
#[test]
fn times_that_a_device_tells_after_the_work_are_in_the_trace_also_of_a_device_that_is_closed() {
    let folder = folder("settles");
    let output = program("settles", &folder, "trace.json");
    assert!(output.status.success(), "{}", error(&output));
    assert_eq!(ran(&events(&folder.join("trace.json")), "memset"), 4);
}

#[test]
fn a_trace_has_a_length_and_says_so() {
    let folder = folder("long");
    let output = program("long", &folder, "trace.txt");
    assert!(output.status.success(), "{}", error(&output));
    assert!(error(&output).contains("with 262144 spans, the most that one has"), "{}", error(&output));
    let text = std::fs::read_to_string(folder.join("trace.txt")).unwrap();
    assert!(text.contains("NULL: 131072 values"), "{text}");
}
