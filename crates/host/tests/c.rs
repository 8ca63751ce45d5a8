//! C against `include/rig_host.h`: fills on both devices of the host, and kernels that they launch.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(unsafe_code, reason = "the tests call compiled code and launch kernels")]

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use libloading::Library;
use rig::{Buffer, Device, Error, Function, Submission, read, write};
use rig_conformance::c;
use rig_host::abi::{self, CEntry, CFill};
use rig_host::{FillLaunch, Host};

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

/// The fills of fills.c; none where there is no C compiler.
fn fills() -> Option<Library> {
    // SAFETY: the library has no code that runs when it is loaded.
    c::library(&include(), &source("fills.c"), |path| unsafe { Library::new(path) }.unwrap())
}

/// The object of kernels.c.
fn object() -> Vec<u8> {
    c::object(&include(), &source("kernels.c")).unwrap()
}

fn both() -> [Device; 2] {
    [rig::open(rig_host::memory()).unwrap(), rig::open(rig_host::cores()).unwrap()]
}

/// `struct functions` of fills.c.
#[repr(C)]
struct Functions {
    spin: *const CEntry,
}

// SAFETY: an address of an entry, which may be used from any thread.
unsafe impl Send for Functions {}

/// A submission of one fill of fills.c, over slots 0 and 1, that may launch `spin`.
fn submission(device: &Device, fills: &Library, name: &str, spin: &Function) -> Submission {
    // SAFETY: this is the type of the functions in fills.c.
    let fill = unsafe { fills.get::<CFill>(name) }.unwrap();
    let functions = Box::new(Functions { spin: abi::entry(spin.entry::<Host>().unwrap()) });
    let user = (&raw const *functions).cast_mut().cast::<c_void>();
    // SAFETY: the fills use the two slots as the refs say, and the submission keeps what they are given.
    let fill = unsafe { abi::c_fill(*fill, user) };
    device.submission().fill::<Host>([read(0), write(1)], fill).keep(functions).keep(spin.clone()).make().unwrap()
}

fn run(submission: &Submission, buffers: &[&Buffer]) -> rig::Result<()> {
    // SAFETY: the fills work on the slots, as the refs say.
    unsafe { submission.take().launch(buffers) }?.wait()
}

/// Launches, and waits for nothing.
fn start(submission: &Submission, buffers: &[&Buffer]) {
    // SAFETY: memsets, copies and fills, which work on the slots as the refs say.
    unsafe { submission.take().launch(buffers) }.unwrap();
}

fn words(device: &Device, count: usize, of: impl Fn(usize) -> u32) -> Buffer {
    let buffer = device.buffer(4 * count).unwrap();
    buffer.write(|words: &mut [u32]| words.iter_mut().enumerate().for_each(|(i, word)| *word = of(i))).unwrap();
    buffer
}

fn spun(mut number: u32, rounds: u32) -> u32 {
    for _ in 0..rounds {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    number
}

/// Promise M70.
#[test]
fn every_compiler_of_c_and_cxx_takes_the_header_without_a_warning() {
    c::takes(&include(), &source("fills.c"));
    c::takes(&include(), &source("kernels.c"));
}

#[test]
fn the_code_on_the_page_about_c_is_taken_too() {
    let page = include_str!("../../../docs/c.md");
    let blocks: Vec<&str> = page.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 1);
    let file = std::env::temp_dir().join(format!("rig-c-page-{}.c", std::process::id()));
    std::fs::write(&file, blocks[0]).unwrap();
    c::takes(&include(), &file);
    std::fs::remove_file(&file).unwrap();
}

/// Promise M70.
#[test]
fn a_fill_in_c_copies_sets_launches_and_runs_code_of_its_own_in_its_place() {
    const N: usize = 1000;
    let Some(fills) = fills() else { return };
    let object = object();
    for device in both() {
        let spin = device.load(&object).unwrap().function("spin").unwrap();
        let steps = submission(&device, &fills, "steps", &spin);
        let (x, y) = (words(&device, N, |i| i as u32), words(&device, N, |_| 77));
        // Work before it and after it, so that its place shows: 5 in every byte of x, then the fill, then y to z.
        let z = device.buffer(4 * N).unwrap();
        let before = device.submission().memset(0, 5).make().unwrap();
        let after = device.submission().copy(0, 1).make().unwrap();
        for _ in 0..3 {
            start(&before, &[&x]);
            start(&steps, &[&x, &y]);
            start(&after, &[&y, &z]);
            let due = |i: usize| spun(spun(if i < N / 2 { 0 } else { 0x0505_0505 }, 3) + 1, 3);
            z.read(|z: &[u32]| assert!(z.iter().enumerate().all(|(i, &z)| z == due(i)), "{z:?}")).unwrap();
            y.write(|y: &mut [u32]| y.fill(77)).unwrap();
        }
    }
}

/// Promise M70.
#[test]
fn a_fill_in_c_that_fails_gives_its_reason() {
    let Some(fills) = fills() else { return };
    let object = object();
    let cases = [
        ("fails", "the reason of a fill in C"),
        ("silent", "the fill answered 7"),
        ("task_fails", "the reason of a task in C"),
        ("wrong_size", "spin has 16 bytes of parameters, and a fill launches it with 12"),
    ];
    for (name, due) in cases {
        for device in both() {
            let spin = device.load(&object).unwrap().function("spin").unwrap();
            let fill = submission(&device, &fills, name, &spin);
            let (x, y) = (words(&device, 64, |_| 1), words(&device, 64, |_| 1));
            match run(&fill, &[&x, &y]) {
                Err(error @ Error::Lost { .. }) => {
                    assert!(error.to_string().contains(due), "{name} on {device}: {error}")
                }
                other => panic!("{name} on {device}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_task_in_c_without_data_runs() {
    let Some(fills) = fills() else { return };
    let object = object();
    for device in both() {
        let spin = device.load(&object).unwrap().function("spin").unwrap();
        let (x, y) = (words(&device, 64, |_| 1), words(&device, 64, |_| 1));
        run(&submission(&device, &fills, "no_data", &spin), &[&x, &y]).unwrap();
    }
}

/// Promise M70.
#[test]
fn a_fill_in_rust_launches_what_one_in_c_does() {
    let image = rig_host::Kernels::new().group("double", 12, |params, at| {
        let n = params.get::<u32>(8) as usize;
        assert_eq!(at.group_bytes, 256);
        // SAFETY: the fill launches one group over n words of its slot.
        unsafe { params.slice_mut::<u32>(0, 0, n) }.iter_mut().for_each(|word| *word *= 2);
    });
    let image = image.image();
    for device in both() {
        let double = device.load(&image).unwrap().function("double").unwrap();
        let entry = double.entry::<Host>().unwrap().clone();
        let fill = device.submission().fill::<Host>([write(0)], move |encoder, slots| {
            let mut params = [0; 12];
            params[..8].copy_from_slice(&slots[0].device.to_ne_bytes());
            params[8..].copy_from_slice(&64_u32.to_ne_bytes());
            let launch =
                FillLaunch { entry: &entry, params: &params, groups: [1; 3], threads: [64, 1, 1], group_bytes: 256 };
            // SAFETY: the kernel works on the slot's 64 words.
            unsafe { encoder.launch(&launch) }?;
            // SAFETY: the second half of the slot takes its first.
            unsafe { encoder.copy(slots[0].host, slots[0].host.wrapping_add(128), 128) };
            // SAFETY: the slot is longer than a word.
            unsafe { encoder.memset(slots[0].host, 1, 4) };
            Ok(())
        });
        let y = words(&device, 64, |i| i as u32);
        run(&fill.make().unwrap(), &[&y]).unwrap();
        y.read(|y: &[u32]| {
            assert_eq!((y[0], y[1], y[31], y[32], y[63]), (0x0101_0101, 2, 62, 0, 62));
        })
        .unwrap();
    }
}

#[test]
fn a_launch_of_a_fill_that_can_never_run_is_refused_in_words() {
    let image = rig_host::Kernels::new().group("nothing", 0, |_, _| {}).image();
    let shapes =
        [([0, 1, 1], [1, 1, 1], 0, "groups"), ([1; 3], [0, 1, 1], 0, "threads"), ([1; 3], [1; 3], 1 << 21, "bytes")];
    for (groups, threads, group_bytes, due) in shapes {
        let device = rig::open(rig_host::memory()).unwrap();
        let nothing = device.load(&image).unwrap().function("nothing").unwrap();
        let entry = nothing.entry::<Host>().unwrap().clone();
        let fill = device.submission().fill::<Host>([], move |encoder, _| {
            // SAFETY: the kernel does nothing.
            unsafe { encoder.launch(&FillLaunch { entry: &entry, params: &[], groups, threads, group_bytes }) }
        });
        let why = run(&fill.make().unwrap(), &[]).unwrap_err().to_string();
        assert!(why.contains("nothing was launched") && why.contains(due), "{why}");
    }
}
