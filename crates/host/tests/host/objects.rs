//! Objects that the compilers of this machine make, loaded and run.
//!
//! A compiler that is not there is skipped, and the test says so. The tests run under an emulator too, with
//! `RIG_TEST_COMPILERS=aarch64-linux-gnu-gcc`, cargo's linker of the target set to the same, and its runner to
//! `qemu-aarch64 -L /usr/aarch64-linux-gnu`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Device, Run, both, launch, open};
use rig_edge::{Driver, EntryAnswer};
use rig_host::Image;

/// The C compilers to try. An emulated run names its cross compilers in RIG_TEST_COMPILERS, with commas.
fn compilers() -> Vec<String> {
    let names = std::env::var("RIG_TEST_COMPILERS").unwrap_or_else(|_| "gcc,clang,clang-19".into());
    names.split(',').map(String::from).collect()
}

/// Whether the test runs under an emulator: then only the cross compilers make objects for it.
fn emulated() -> bool {
    std::env::var_os("RIG_TEST_COMPILERS").is_some()
}

/// The bytes of the object that the first compiler that is there makes of a source, or `None` if none is.
fn compile_by_any(source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    compilers().iter().find_map(|compiler| compile(compiler, source, flags))
}

/// The bytes of the object that `compiler` makes of a source of `tests/kernels`, or `None` if there is no such compiler.
#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn compile(compiler: &str, source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let object: PathBuf =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{source}-{}-{count}.o", std::process::id()));
    let mut command = Command::new(compiler);
    if compiler == "rustc" {
        command.args(["--crate-type", "lib", "--edition", "2024", "--emit", "obj", "-C", "panic=abort"]);
    } else {
        command.args(["-c", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root.join("include"));
    }
    command.args(flags).arg("-o").arg(&object).arg(root.join("tests/kernels").join(source));
    let Ok(output) = command.output() else {
        println!("skipped: there is no {compiler}");
        return None;
    };
    assert!(output.status.success(), "{compiler} {flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    Some(bytes)
}

#[expect(clippy::unwrap_used, reason = "a helper of tests")]
/// A launch of a kernel of `x`, `y` and `n` over all n, on groups of `threads`.
fn run_pair(device: &mut Device, image: &Image, name: &str, x: &[f32], y: &[f32], threads: u32) -> Vec<f32> {
    let n = x.len();
    let (xs, ys) = (device.memory(4 * n), device.memory(4 * y.len()));
    xs.values().copy_from_slice(x);
    ys.values().copy_from_slice(y);
    let entry = device.entry(image, name);
    let mut run = Run::new(device, vec![launch(&entry, &[0, 1])], vec![xs.slot(), ys.slot()]);
    run.set(0, [n.div_ceil(threads as usize) as u32, 1, 1], [threads, 1, 1], &[n as u64]);
    run.blocks[0].group_bytes = 4 * threads;
    device.run(&mut run).unwrap();
    ys.values::<f32>().to_vec()
}

fn close(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-5 * b.abs().max(1.0)
}

fn check_c(device: &mut Device, image: &Image) {
    let n = 10_007;
    let x: Vec<f32> = (0..n).map(|i| 0.25 + i as f32 / n as f32).collect();
    let ones = vec![1.0; n];
    let added = run_pair(device, image, "add", &x, &ones, 256);
    assert!(added.iter().zip(&x).all(|(y, x)| *y == x + 1.0));

    let applied = run_pair(device, image, "apply", &x, &ones, 100);
    let by_table = |i: usize, x: f32| [x.exp(), x.tanh(), 2.0 * x, x.sqrt(), x.abs()][i % 5];
    assert!((0..n).all(|i| close(applied[i], by_table(i, x[i]) + (-x[i]).exp() + x[i].powf(0.25))));

    let chosen = run_pair(device, image, "choices", &x, &ones, 64);
    let choose = |i: usize, x: f32| [x + 1.0, x * 3.0, x - 7.0, x.ln(), x / 5.0, -x, x.mul_add(x, 1.0), 0.0][i % 8];
    assert!((0..n).all(|i| close(chosen[i], choose(i, x[i]))));

    let sums = run_pair(device, image, "sum", &x, &vec![0.0; n.div_ceil(256)], 256);
    assert!(sums.iter().zip(x.chunks(256)).all(|(sum, x)| close(*sum, x.iter().sum())));

    let uneven = run_pair(device, image, "uneven", &x[..97], &ones[..97], 97);
    assert!(uneven.iter().zip(&x).all(|(y, x)| *y == x + 1.0));
    check_variables(device, image);
}

#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn check_variables(device: &mut Device, image: &Image) {
    let out = device.memory(20);
    let mut run = Run::new(device, vec![launch(&device.entry(image, "variables"), &[0])], vec![out.slot()]);
    run.set(0, [1, 1, 1], [1, 1, 1], &[]);
    for time in 1..=2 {
        device.run(&mut run).unwrap();
        assert_eq!(out.values::<u32>()[..4], [41 + time, 2 * time, 3 * time, 0x0707_0707]);
        assert_eq!(&out.values::<u8>()[16..], b"rig\0");
    }
    let cells = device.memory(4 * 2 * 3 * 4);
    let mut run = Run::new(device, vec![launch(&device.entry(image, "plain"), &[0])], vec![cells.slot()]);
    run.set(0, [2, 3, 4], [1, 1, 9], &[]);
    device.run(&mut run).unwrap();
    let expected = (0..24).map(|i| (i % 2) | (i / 2 % 3) << 8 | (i / 6) << 16 | 9 << 24);
    assert!(cells.values::<u32>().iter().copied().eq(expected));
}

/// Promises H02, H03.
#[test]
fn objects_of_every_compiler_and_code_model_run_on_both_devices() {
    let flags: &[&[&str]] = &[
        &["-O0"],
        &["-O2"],
        &["-O3", "-march=native"],
        &["-O2", "-fPIC"],
        &["-O1", "-fPIE", "-ffunction-sections", "-fdata-sections"],
        &["-O2", "-fcommon", "-g"],
        &["-O2", "-fstack-clash-protection", "-fno-plt"],
    ];
    for compiler in compilers() {
        for flags in flags {
            // A compiler for another machine knows no native one.
            if flags.contains(&"-march=native") && compiler.contains("linux") {
                continue;
            }
            let Some(bytes) = compile(&compiler, "kernels.c", flags) else { break };
            for mut device in both() {
                let image = device.image(&bytes).unwrap_or_else(|why| panic!("{compiler} {flags:?}: {why}"));
                check_c(&mut device, &image);
            }
        }
    }
}

/// Promise H03.
#[test]
fn objects_of_rustc_run() {
    if emulated() {
        println!("skipped: rustc makes objects for the machine that emulates");
        return;
    }
    for level in ["opt-level=0", "opt-level=3"] {
        let flags = ["-C", level, "-C", "debug-assertions=no", "-C", "overflow-checks=no"];
        let Some(bytes) = compile("rustc", "kernels.rs", &flags) else { break };
        let mut device = open(rig_host::cores());
        match device.image(&bytes) {
            Ok(image) => {
                let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
                let y = run_pair(&mut device, &image, "add", &x, &x, 128);
                assert!(y.iter().zip(&x).all(|(y, x)| *y == 2.0 * x));
            }
            // Unoptimised, core's own functions are called from outside of the object.
            Err(why) => assert!(level == "opt-level=0" && why.contains("needs"), "{why}"),
        }
    }
}

/// Promises E06, C12, H03.
#[test]
fn what_an_object_says_of_its_kernels_is_known_before_a_launch() {
    let Some(bytes) = compile_by_any("kernels.c", &["-O2"]) else { return };
    let device = open(rig_host::cores());
    let image = device.image(&bytes).unwrap();
    let facts = |name: &str| match device.driver.entry(&image, name).unwrap() {
        EntryAnswer::Entry(_, facts) => facts,
        other => panic!("{other:?}"),
    };
    assert_eq!((facts("add").params, facts("add").threads), (Some(24), Some(rig_host::GROUP_KERNEL_THREADS_MAX)));
    assert_eq!((facts("plain").params, facts("plain").threads), (None, Some(rig_host::GROUP_KERNEL_THREADS_MAX)));
    assert_eq!((facts("sum").params, facts("sum").threads), (Some(24), Some(rig_host::THREADS_MAX)));
    let EntryAnswer::Absent { names } = device.driver.entry(&image, "first").unwrap() else { panic!("static") };
    assert_eq!(names, ["add", "apply", "choices", "plain", "sum", "uneven", "variables"]);
}

/// Promise H04.
#[test]
#[cfg(unix)]
fn a_hardware_fault_of_a_kernel_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    const FAULT: &str = "RIG_HOST_TEST_FAULT";
    let name = "objects::a_hardware_fault_of_a_kernel_ends_the_process";
    if let Ok(kernel) = std::env::var(FAULT) {
        let bytes = compile_by_any("faults.c", &["-O1"]).unwrap();
        let mut device = open(rig_host::cores());
        let image = device.image(&bytes).unwrap();
        let mut run = Run::new(&device, vec![launch(&device.entry(&image, &kernel), &[])], vec![]);
        run.set(0, [1, 1, 1], [1, 1, 1], &[]);
        let _ = device.run(&mut run);
        return;
    }
    if emulated() || compile_by_any("faults.c", &["-O1"]).is_none() {
        println!("skipped: an emulator starts no child of the test, or there is no compiler");
        return;
    }
    let (segv, ill, fpe) = (11, 4, 8);
    for (kernel, signal) in [("bad_address", segv), ("bad_instruction", ill), ("bad_division", fpe)] {
        if kernel == "bad_division" && !cfg!(target_arch = "x86_64") {
            // arm64 divides by zero without a fault.
            continue;
        }
        let child =
            Command::new(std::env::current_exe().unwrap()).args(["--exact", name]).env(FAULT, kernel).output().unwrap();
        assert_eq!(child.status.signal(), Some(signal), "{kernel}: {child:?}");
    }
}
