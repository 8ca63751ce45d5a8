//! A profile: what three devices did while a stream of blocks went through them, as text, as a trace and as a page.
//!
//! The devices work at the same time, which the trace shows: the spans of one overlap those of the others, and arrows lead from
//! each block's stage to the next. Open profile.html in a browser, or profile.json in Perfetto or chrome://tracing.
//!
//! `cargo run --release --example profile`, or with the folder to write to behind `--`.
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rig::{Buffer, Device, Profile, Run, ValueSpan, write};
use rig_host::Kernels;

const BLOCKS: usize = 12;
/// The numbers of a block.
const LEN: usize = 1 << 16;

/// A device of its own, and a run of a kernel of this name that calls `work` with a block.
fn stage(name: &str, work: impl Fn(&mut [u32]) + Send + Sync + 'static) -> rig::Result<(Device, Run)> {
    let device = rig::open(rig_host::cores().threads(NonZero::<u32>::MIN))?;
    // SAFETY: slot 0 holds a block, and the launch has one group.
    let kernels = Kernels::new().group(name, 8, move |params, _| work(unsafe { params.slice_mut(0, 0, LEN) }));
    let function = device.load(&kernels.image())?.function(name)?;
    let run = device.submission().launch(&function, [write(0)]).make()?.take();
    Ok((device, run))
}

fn launch(run: &mut Run, block: &Buffer) -> rig::Result<()> {
    // SAFETY: a stage's kernel works on the block of slot 0, and on nothing else.
    unsafe { run.launch(&[block])? };
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    // What has a speed of its own and needs no processor: a camera, a disk.
    let (source, deliver) = stage("deliver", |block| {
        // TIMEOUT: a camera of 200 pictures a second.
        thread::sleep(Duration::from_millis(5));
        block.fill(7);
    })?;
    let (middle, transform) = stage("transform", |block| {
        let round = |value: u32, _| value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223).rotate_left(7);
        block.iter_mut().for_each(|value| *value = (0..64).fold(*value, round));
    })?;
    // TIMEOUT: a disk that writes a block of 256 KiB at 64 MiB a second.
    let (sink, store) = stage("store", |_| thread::sleep(Duration::from_millis(4)))?;

    // A few blocks, used again and again; each device reaches them by a borrow.
    let borrowed = |block: Buffer| Ok([block.borrow(&source)?, block.borrow(&middle)?, block.borrow(&sink)?]);
    let blocks: Vec<[Buffer; 3]> =
        (0..4).map(|_| source.buffer(4 * LEN).and_then(borrowed)).collect::<rig::Result<_>>()?;
    let mut runs = [deliver, transform, store];

    let (streamed, profile) = Profile::take(|| -> rig::Result<()> {
        // In each turn a stage takes the block that the stage before it had in the turn before.
        for turn in 0..BLOCKS + 2 {
            for (stage, run) in runs.iter_mut().enumerate() {
                if let Some(number) = turn.checked_sub(stage).filter(|&number| number < BLOCKS) {
                    launch(run, &blocks[number % blocks.len()][stage])?;
                }
            }
        }
        Ok(())
    })?;
    streamed?;

    let stage = |name| profile.values.iter().filter(move |value| &*value.parts[0].name == name);
    let meets =
        |one: &ValueSpan, other| stage(other).any(|two| one.ran.zip(two.ran).is_some_and(|(a, b)| a.overlaps(&b)));
    let at_once = stage("transform").filter(|of| meets(of, "deliver") && meets(of, "store")).count();
    println!("{at_once} of {BLOCKS} blocks were transformed while one was delivered and one was stored");
    print!("{profile}");
    profile.write_chrome_trace(BufWriter::new(File::create(folder.join("profile.json"))?))?;
    profile.write_html(BufWriter::new(File::create(folder.join("profile.html"))?))?;
    println!("{} and profile.json show it", folder.join("profile.html").display());
    Ok(())
}
