//! The examples, run as a reader runs them: what each prints is what it teaches.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An example's program. `cargo test` builds the examples beside the tests; `cargo test --test examples` does not, and
/// then this does, where the program is missing or older than its source.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let program = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs");
    let written = |path: &Path| path.metadata().and_then(|facts| facts.modified()).ok();
    if written(&program) < written(&source) {
        let built = Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["build", "--quiet", "--example", name, "--target-dir"])
            .arg(profile.parent().unwrap())
            .status();
        assert!(
            built.unwrap().success() && written(&program) >= written(&source),
            "build the examples: cargo build --examples"
        );
    }
    program
}

/// What an example prints, its arguments given.
fn run(name: &str, arguments: &[&Path]) -> String {
    printed(name, Command::new(program(name)).args(arguments))
}

fn printed(name: &str, command: &mut Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && error.is_empty(), "{name} ended with {}: {error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn prints(out: &str, lines: &[&str]) {
    let mut rest = out.lines();
    for line in lines {
        assert!(rest.any(|printed| printed == *line), "no line {line:?}, or not in its place, in\n{out}");
    }
}

/// Promises C01, H03.
#[test]
fn add_prints_its_sum_and_the_device() {
    assert_eq!(run("add", &[]), "y[10] = 11 on CORES\n");
}

/// Promises C05, C06, C07, C16, C17, C18.
#[test]
fn buffers_shows_views_copies_and_memory_that_comes_back() {
    prints(
        &run("buffers", &[]),
        &[
            "the squares below 1000 add up to 332833500",
            "without the last ten: 322943115",
            "on MEMORY: 322943115, copied by way of Peer",
            "invalid: the view 3996..4004 is not inside the 4000 bytes of the buffer",
            "all bytes set: true",
            "in use 64 MiB, cached 0 MiB",
            "in use 0 MiB, cached 64 MiB",
            "in use 64 MiB, cached 0 MiB",
            "no room for 64 MiB more in a budget of 100",
            "once the other is dropped, 96 MiB fit",
        ],
    );
}

#[test]
fn guide_does_what_the_guide_says() {
    prints(
        &run("guide", &[]),
        &[
            &format!("the best device here is CORES ({})", std::env::consts::ARCH),
            "the last of x is 65535",
            "y is [1.0, 2.0, 3.0]",
            "value 2: y[0] = 10.5",
            "value 3: y[0] = 20.5",
            "value 4: y[0] = 30.5",
            "after both: 4",
            "65 MiB do not fit in 64",
            "x[0] = 0",
            "samples[0] = 3",
            "in place, over 262144 bytes",
            "four threads added 1 each: 4",
            "1 values ran",
            "CORES is lost: the kernel broken panicked: a bug in a kernel",
            "CORES is open again: true",
        ],
    );
}

/// Promise C14.
#[test]
fn order_is_right_over_two_devices_without_a_wait() {
    prints(
        &run("order", &[]),
        &[
            "50 rounds over CORES and MEMORY: 100 launches, and not one wait",
            "a[7] = 14508816805887513759, as it should be: true",
            "all reached: true",
        ],
    );
}

/// Promises C20, C26, C31, H04.
#[test]
fn loss_shows_one_reason_everywhere_and_that_the_rest_goes_on() {
    let lost = "CORES is lost: the kernel root panicked: -1 has no square root; open it again to go on";
    prints(
        &run("loss", &[]),
        &[
            &format!("the wait answers: {lost}"),
            &format!("and so does every call: {lost}"),
            &format!("also a read of what the work wrote: {lost}"),
            "what was reached stays reached: true",
            "MEMORY goes on: the root of 16 is 4",
            "CORES is open again: the root of 9 is 3",
        ],
    );
}

/// Promises C13, C14, C15, C31.
#[test]
fn timelines_shows_what_a_point_says_and_that_it_outlives_its_device() {
    prints(
        &run("timelines", &[]),
        &[
            "CORES counts 1, 2, 3",
            "3 is reached before its work may begin: false",
            "3 was waited for, so 1 and 2 are reached: true",
            "MEMORY counts for itself: 1 follows 4 of CORES",
            "done in the order [1, 2, 3, 4, 5]",
            "the device is gone, and 4 stays reached: true",
            "a wait for the work of a closed device: CORES is lost: it was closed; open it again to go on",
        ],
    );
}

/// Promise C11.
#[test]
fn steps_is_exact_over_hundreds_of_runs_with_other_buffers_and_parameters() {
    let out = run("steps", &[]);
    assert!(out.starts_with("600 steps on CORES, ") && out.contains(" each, of which the submit "), "{out}");
    prints(&out, &["both plates as they should be: true"]);
}

/// Promises C16, C17, C18.
#[test]
fn reclamation_goes_round_a_hundred_budgets_and_on_after_a_shortage() {
    prints(
        &run("reclamation", &[]),
        &[
            "dropped before the work began: 8 MiB in use, 0 MiB cached",
            "the work had its bytes all the same: true",
            "after the work: 0 MiB in use, 8 MiB cached",
            "a buffer of the same size: 8 MiB in use, 0 MiB cached",
            "with 8 MiB of 16 in use, 12 more are refused: no memory for 12582912 bytes: drop buffers, raise the budget, or use \
             smaller ones",
            "the other buffer is as it was: true",
            "12 MiB once the other is dropped: 12 MiB in use, 0 MiB cached",
            "640 buffers, 1600 MiB in all, never above the budget: true",
            "under a budget of 1 MiB: 0 MiB in use, 0 MiB cached",
        ],
    );
}

/// What `elf` prints of images that it needs no compiler for.
const REFUSED: [&str; 2] = [
    "a text: CORES refuses the image: the image is neither an ELF object nor kernels of rig_host::Kernels",
    "another machine's object: CORES refuses the image: the object is for an AMD GPU, and host devices run x86-64 and aarch64",
];

/// Promises C10, H03.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "the compilers here may make no ELF objects")]
fn elf_launches_what_a_compiler_makes_and_refuses_the_rest() {
    let out = run("elf", &[]);
    prints(&out, &REFUSED);
    if out.contains("no C compiler is here") {
        // Written past the capture of the tests, so that it is seen.
        let _ = writeln!(std::io::stderr(), "skipped elf's object, since there is no cc, gcc or clang here");
        return;
    }
    prints(
        &out,
        &[
            "an object that prints: CORES refuses the image: the object needs `puts`, which a host device does not give",
            "a wrong name: the image has no function root; it has roots, scale",
            "bytes of parameters: scale Some(16), roots Some(8)",
            "a thousand roots on CORES, all as they should be: true",
        ],
    );
    assert!(out.contains("an object cut short: CORES refuses the image: the object is broken or cut short: "), "{out}");
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "programs are found otherwise")]
fn elf_says_so_where_there_is_no_compiler() {
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no programs");
    let out = printed("elf", Command::new(program("elf")).env("PATH", nowhere));
    prints(&out, &REFUSED);
    prints(&out, &["no C compiler is here (cc, gcc or clang), so the rest is left out"]);
}

/// Promise M70.
#[test]
#[cfg_attr(windows, ignore = "the compilers here make no such library")]
fn c_fill_runs_code_in_c_among_the_work_and_gives_its_reason() {
    let out = run("c_fill", &[]);
    if out.contains("no C compiler is here") {
        // Written past the capture of the tests, so that it is seen.
        let _ = writeln!(std::io::stderr(), "skipped c_fill, since there is no cc, gcc or clang here");
        return;
    }
    prints(
        &out,
        &[
            "the sums on CORES are right: true",
            "CORES is lost: the slots of scaled_sum have one length; open it again to go on",
        ],
    );
}

/// Promises C09, C14, H02.
/// Promise C22.
#[test]
fn profile_writes_what_three_devices_did_as_a_text_a_trace_and_a_page() {
    let folder = std::env::temp_dir().join(format!("rig-profile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let out = run("profile", &[&folder]);
    assert!(out.contains("deliver") && out.contains("transform") && out.contains("store"), "{out}");
    let text = std::fs::read_to_string(folder.join("profile.json")).unwrap();
    let page = std::fs::read_to_string(folder.join("profile.html")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(page.contains("deliver"));
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let spans = |name: &str| {
        let events = trace["traceEvents"].as_array().unwrap().iter();
        events.filter(|event| event["ph"] == "X" && event["tid"] == 0 && event["name"] == name).count()
    };
    assert_eq!(["deliver", "transform", "store"].map(spans), [12; 3]);
    // How many depends on what else the machine does; that devices overlap whatever it does is what tests/trace shows.
    assert!(out.contains(" of 12 blocks were transformed while one was delivered and one was stored\n"), "{out}");
}

#[test]
fn pipeline_brings_every_block_through_three_devices_that_may_be_at_work_at_the_same_time() {
    let out = run("pipeline", &[]);
    prints(&out, &["16 blocks through three devices", "every block right and in its place: true"]);
    // How many devices were at work at the same time, by the clocks of their kernels.
    let at_once = |what: &str| {
        let line = out.lines().find(|line| line.starts_with(what)).unwrap();
        let count = line.split_once(", at most ").and_then(|(_, rest)| rest.strip_suffix(" at work at a time"));
        count.and_then(|count| count.parse::<u32>().ok()).unwrap()
    };
    assert_eq!(at_once("with a wait after each stage: "), 1, "{out}");
    // Two or three, but on a machine that is busy enough; that devices overlap whatever it does is what tests/trace shows.
    assert!((1..=3).contains(&at_once("as a pipeline: ")), "{out}");
}

/// Promise C19.
#[test]
fn claims_writes_in_place_where_nobody_else_sees_the_memory() {
    prints(
        &run("claims", &[]),
        &[
            "100 operations, 100 in place, 0 bytes more",
            "with a view in the way: in place: false, x = [100.0, 100.0, 100.0, 100.0], y = [101.0, 101.0, 101.0, 101.0]",
            "with a claim in the way: in place: false",
            "with nobody in the way: in place: true, z[0] = 103",
        ],
    );
}

/// Promise C15.
#[test]
fn futures_serves_a_thousand_tasks_on_one_thread() {
    prints(
        &run("futures", &[]),
        &[
            "1000 tasks of 5 rounds on one thread: 5000 in all",
            "other work got its turn while the device was busy: true",
            "and then the point was reached: x[0] = 1",
            "after a close: CORES is lost: it was closed; open it again to go on",
        ],
    );
}

/// Promises C08, H05.
#[test]
fn host_memory_closes_its_file_once_no_work_can_use_it() {
    assert_eq!(
        run("host_memory", &[]).lines().collect::<Vec<_>>(),
        [
            "143360 bytes wrapped, 0 of the device's budget used",
            "the buffer is dropped",
            "the file is closed",
            "the file reads: A DEVICE WORKS WHERE THE BYTES ARE",
            "a megabyte of the program's own, in place: true",
        ]
    );
}

/// Promise H02.
#[test]
fn mandelbrot_writes_a_picture_of_the_set() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mandelbrot.png");
    let out = run("mandelbrot", &[&path]);
    assert!(out.contains("960 x 640 pixels on CORES in "), "{out}");
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((frame.width, frame.height, frame.color_type), (960, 640, png::ColorType::Rgb));
    let (rows, _) = pixels.as_chunks::<{ 3 * 960 }>();
    let pixel = |x: usize, y: usize| &rows[y][3 * x..3 * x + 3];
    // The origin and -1 are of the set; the corners are far outside.
    let at = |x: f64, y: f64| pixel((480.0 + (x + 0.7) * 960.0 / 3.5) as usize, (320.0 + y * 960.0 / 3.5) as usize);
    assert_eq!((at(0.0, 0.0), at(-1.0, 0.0)), (&[0; 3][..], &[0; 3][..]));
    assert_ne!(pixel(0, 0), &[0; 3]);
    // The set has an area of 1.5066: count the pixels that are taken for it.
    let inside = rows.iter().flat_map(|row| row.as_chunks::<3>().0).filter(|pixel| **pixel == [0; 3]).count();
    let area = inside as f64 * (3.5 / 960.0) * (3.5 / 960.0);
    assert!((1.49..1.54).contains(&area), "the area of the set is {area}");
    // And it is its own mirror image. Row 320 is the axis.
    let differ = (1..320).filter(|&y| rows[320 - y] != rows[320 + y]).count();
    assert_eq!(differ, 0, "rows that are not as their mirror image");
}
