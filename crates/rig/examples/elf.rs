//! Objects: machine code as a C compiler makes it, loaded from memory and launched; and what rig says of other bytes.
//!
//! `cargo run --release --example elf`: the code is compiled on the spot, by the first of cc, gcc and clang that is found.
#![expect(unsafe_code, reason = "a launch runs machine code")]

use std::error::Error;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use rig::{Device, write};

/// Where rig_host.h is, which states the calling convention.
const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/include");

/// Two kernels. RIG_GROUP_KERNEL also says how many bytes of parameters each has. `sqrtf` is one of the functions that rig
/// gives to objects.
const KERNELS: &str = r#"
#include <math.h>
#include "rig_host.h"

struct params { float *x; float by; };

RIG_GROUP_KERNEL(scale, sizeof(struct params), 0)
{
    const struct params *p = params;
    float *x = p->x + at->group[0] * at->threads[0];
    for (uint32_t i = 0; i < at->threads[0]; i++) x[i] *= p->by;
}

RIG_GROUP_KERNEL(roots, sizeof(float *), 0)
{
    float *x = *(float *const *)params + at->group[0] * at->threads[0];
    for (uint32_t i = 0; i < at->threads[0]; i++) x[i] = sqrtf(x[i]);
}
"#;

/// A kernel that needs what a host device does not give.
const GREETING: &str = "int puts(const char *); void greet(const void *params, const void *at) { puts(\"hello\"); }";

/// The bytes of the object that a C compiler makes of `source`; `None` if there is no compiler.
fn compile(source: &str) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("rig-elf-{}.o", std::process::id()));
    for compiler in ["cc", "gcc", "clang"] {
        let mut command = Command::new(compiler);
        command.args(["-O2", "-I", INCLUDE, "-x", "c", "-c", "-", "-o"]).arg(&path);
        let mut child = match command.stdin(Stdio::piped()).spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            child => child?,
        };
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(source.as_bytes())?;
        }
        if !child.wait()?.success() {
            return Err(format!("{compiler} does not compile the kernels").into());
        }
        let object = std::fs::read(&path)?;
        std::fs::remove_file(&path)?;
        return Ok(Some(object));
    }
    Ok(None)
}

fn refusal(device: &Device, what: &str, image: &[u8]) {
    match device.load(image) {
        Err(error) => println!("{what}: {error}"),
        Ok(_) => println!("unexpected: {what} loads"),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = rig::open(rig_host::cores())?;

    // What is no object for this host is refused with the reason, and nothing else happens.
    refusal(&device, "a text", b"int main(void) { return 0; }");
    let mut foreign = [0; 64];
    // ELF of 64 bits, little-endian, version 1; a relocatable object (1) for AMD's GPUs (224).
    foreign[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    (foreign[16], foreign[18]) = (1, 224);
    refusal(&device, "another machine's object", &foreign);

    let (Some(object), Some(greeting)) = (compile(KERNELS)?, compile(GREETING)?) else {
        println!("no C compiler is here (cc, gcc or clang), so the rest is left out");
        return Ok(());
    };
    refusal(&device, "an object cut short", &object[..object.len() / 2]);
    refusal(&device, "an object that prints", &greeting);

    // An object is an image. A name that it does not have is an error that lists those that it has.
    let image = device.load(&object)?;
    if let Err(error) = image.function("root") {
        println!("a wrong name: {error}");
    }
    let (scale, roots) = (image.function("scale")?, image.function("roots")?);
    println!("bytes of parameters: scale {:?}, roots {:?}", scale.params(), roots.params());

    // x = sqrt(x / 2): the launches of one submission run one after the other.
    let mut run = device.submission().launch(&scale, [write(0)]).launch(&roots, [write(0)]).make()?.take();
    run.part(0).groups([10, 1, 1]).threads([100, 1, 1]).set(8, 0.5_f32);
    run.part(1).groups([10, 1, 1]).threads([100, 1, 1]);
    let x = device.buffer(4 * 1000)?;
    x.write(|x: &mut [f32]| x.iter_mut().enumerate().for_each(|(i, x)| *x = (2 * i * i) as f32))?;
    // SAFETY: both kernels read and write as many floats of slot 0 as the grid has threads: the buffer's thousand.
    unsafe { run.launch(&[&x])? };
    let right = |x: &[f32]| x.iter().enumerate().all(|(i, &x)| x == i as f32);
    println!("a thousand roots on {device}, all as they should be: {}", x.read(right)?);
    Ok(())
}
