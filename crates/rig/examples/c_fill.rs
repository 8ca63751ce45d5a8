//! A fill in C: code of a library in C becomes part of a submission, and runs in the order of the work.
//!
//! `cargo run --release --example c_fill`: the code is compiled on the spot, by the first of cc, gcc and clang that is found.
#![expect(unsafe_code, reason = "code in C is called, and a kernel is launched")]

use std::error::Error;
use std::ffi::c_void;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libloading::Library;
use rig::{Function, read, write};
use rig_host::abi::{self, CEntry, CFill};
use rig_host::{Host, Kernels};

/// Where rig_host.h is.
const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/include");

const N: usize = 1000;

/// What a library in C brings: a function of its own, and the fill that puts it among rig's work.
const SOURCE: &str = r#"
#include <string.h>
#include "rig_host.h"

/* A function of the library's own. It knows nothing of rig. */
static void running_sum(double *x, size_t n) {
  for (size_t i = 1; i < n; i++) x[i] += x[i - 1];
}

/* The function as a task, and what it gets. */
struct sum { double *x; size_t n; };

static int32_t sum_task(void *data, char *why, size_t why_bytes) {
  const struct sum *of = data;
  (void)why, (void)why_bytes;
  running_sum(of->x, of->n);
  return 0;
}

/* The parameters of the kernel that the fill launches. */
struct scale { double *x; double by; uint64_t n; };

/* Slot 0 is copied to slot 1, and there scaled by the kernel that is handed over, and summed up. */
int32_t scaled_sum(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user) {
  double *x = slots[1].host;
  size_t n = slots[1].len / sizeof(double);
  struct scale params = {x, 0.5, n};
  struct sum sum = {x, n};
  rig_host_launch launch = {user, &params, sizeof params, {1, 1, 1}, {64, 1, 1}, 0, 0};
  if (slot_count < 2 || slots[0].len != slots[1].len) {
    strncpy(encoder->why, "the slots of scaled_sum have one length", encoder->why_bytes);
    return 1;
  }
  launch.groups[0] = (uint32_t)((n + 63) / 64);
  /* Each answers 0, or has left the reason in why. */
  if (encoder->copy(encoder, slots[0].host, x, slots[1].len)) return 1;
  if (encoder->launch(encoder, &launch)) return 1;
  return encoder->task(encoder, sum_task, &sum, sizeof sum);
}
"#;

/// The library that a C compiler makes of the source; `None` if there is no compiler.
fn compile() -> Result<Option<PathBuf>, Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("rig-c-fill-{}{}", std::process::id(), std::env::consts::DLL_SUFFIX));
    for compiler in ["cc", "gcc", "clang"] {
        let mut command = Command::new(compiler);
        command.args(["-O2", "-shared", "-fPIC", "-I", INCLUDE, "-x", "c", "-", "-o"]).arg(&path);
        let mut child = match command.stdin(Stdio::piped()).spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            child => child?,
        };
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(SOURCE.as_bytes())?;
        }
        if !child.wait()?.success() {
            return Err(format!("{compiler} does not compile the fill").into());
        }
        return Ok(Some(path));
    }
    Ok(None)
}

/// A kernel for the fill to launch. One of an ELF object would do as well.
fn kernels() -> Kernels {
    Kernels::new().group("scale", 24, |params, at| {
        let (by, n) = (params.get::<f64>(8), params.get::<u64>(16) as usize);
        let first = at.group[0] as usize * at.threads[0] as usize;
        let count = (at.threads[0] as usize).min(n - first);
        // SAFETY: the fill launches as many groups as its slot has numbers for, and no other touches these.
        let x = unsafe { params.slice_mut::<f64>(0, first, count) };
        x.iter_mut().for_each(|x| *x *= by);
    })
}

/// The fill of the library, which may launch `scale`.
fn fill(library: &Library, scale: &Function) -> Result<(CFill, *const CEntry), Box<dyn Error>> {
    // SAFETY: this is the type of the function in the source.
    let fill = unsafe { library.get::<CFill>(b"scaled_sum") }?;
    let scale = scale.entry::<Host>().ok_or("the function is of another driver")?;
    Ok((*fill, abi::entry(scale)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = compile()? else {
        println!("no C compiler is here (cc, gcc or clang), so there is nothing to do");
        return Ok(());
    };
    // SAFETY: the library has no code that runs when it is loaded.
    let library = unsafe { Library::new(Path::new(&path)) }?;
    std::fs::remove_file(&path)?;

    let device = rig::open(rig_host::cores())?;
    let scale = device.load(&kernels().image())?.function("scale")?;
    let (code, entry) = fill(&library, &scale)?;
    let user = entry.cast_mut().cast::<c_void>();
    // SAFETY: the fill works on its two slots as the refs below say. The submission keeps the function that it launches, and the
    // library outlives the device's work.
    let code = unsafe { abi::c_fill(code, user) };
    // The fill is a part as any other: what comes before it is done when it runs, and what comes after it waits.
    let parts = device.submission().fill::<Host>([read(0), write(1)], code).copy(1, 2);
    let submission = parts.keep(scale).make()?;
    let [x, y, copied] = [device.buffer(8 * N)?, device.buffer(8 * N)?, device.buffer(8 * N)?];
    x.write(|x: &mut [f64]| x.iter_mut().enumerate().for_each(|(i, x)| *x = i as f64))?;
    // SAFETY: the fill and the copy work on these three slots.
    unsafe { submission.take().launch(&[&x, &y, &copied])? };
    let half_of_sum = (N * (N - 1)) as f64 / 4.0;
    let right = |sums: &[f64]| sums.first() == Some(&0.0) && sums.last() == Some(&half_of_sum);
    println!("the sums on {device} are right: {}", copied.read(right)?);

    // A fill that answers an error loses its device, and its words are the reason.
    let [short, short_too] = [device.buffer(8)?, device.buffer(8)?];
    // SAFETY: as above; the fill looks at the lengths first.
    match unsafe { submission.take().launch(&[&x, &short, &short_too]) }.and_then(|point| point.wait()) {
        Err(error) => println!("{error}"),
        Ok(()) => println!("unexpected: slots of two lengths are taken"),
    }
    Ok(())
}
