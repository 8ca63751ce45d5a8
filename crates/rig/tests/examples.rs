//! The examples, run as a reader runs them: what each prints is what it teaches.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

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
    let output = Command::new(program(name)).args(arguments).output().unwrap();
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

/// Promise C14.
#[test]
fn order_is_right_over_two_devices_without_a_wait() {
    prints(
        &run("order", &[]),
        &[
            "50 rounds over CORES and MEMORY: 100 launches, and not one wait",
            "a[7] = 14508816805887513759, as it should be: true",
            "the values of CORES: 1, 2, 3 ...",
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
