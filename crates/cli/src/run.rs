//! `rig run`: one function of an image, once or several times, over buffers from files or made.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rig::{Buffer, Device, Function, RefSpec};
use serde::Serialize;

use crate::arguments::Run;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::members::{BufferSpec, Member, Members};
use crate::open;
use crate::progress::Progress;
use crate::timing::Timing;
use crate::values::{self, Values};

#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    /// Which device was picked and why, where the command line names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    picked: Option<&'a str>,
    function: &'a str,
    groups: [u32; 3],
    threads: [u32; 3],
    group_bytes: u32,
    params_bytes: usize,
    buffers: Vec<Shown>,
    files: Vec<Written>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timing: Option<Timing>,
}

/// A buffer, and the values that `--print` asks for.
#[derive(Serialize)]
struct Shown {
    slot: usize,
    #[serde(rename = "type")]
    element: &'static str,
    count: usize,
    written: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Values>,
}

/// A file that `--out` made.
#[derive(Serialize)]
struct Written {
    slot: usize,
    file: PathBuf,
    count: usize,
    #[serde(rename = "type")]
    element: &'static str,
}

/// Runs the function.
pub fn run(arguments: &Run, out: &mut impl Write) -> Result<()> {
    Ready::new(arguments)?.go(out)
}

/// A command line whose device is open and whose image is loaded.
pub struct Ready<'a> {
    arguments: &'a Run,
    specs: Vec<&'a BufferSpec>,
    /// The slot of each output.
    slots: Vec<usize>,
    device: Device,
    /// Which it is and why, where the command line names none.
    picked: Option<String>,
    function: Function,
}

impl<'a> Ready<'a> {
    /// Opens the device and loads the image; says which device it is where the command line names none.
    pub fn new(arguments: &'a Run) -> Result<Ready<'a>> {
        let specs: Vec<&BufferSpec> = arguments.members.buffers().collect();
        let slots = arguments.out.iter().map(|output| output.slot_of(&specs)).collect::<Result<_>>()?;
        let read = |why| Error::File { what: "read", path: arguments.image.clone(), why };
        let binary = std::fs::read(&arguments.image).map_err(read)?;
        let (device, picked) = match &arguments.device {
            Some(name) => (open::open(name)?, None),
            None => open::for_image(&arguments.image, &binary).map(|(device, why)| (device, Some(why)))?,
        };
        let function = device.load(&binary)?.function(&arguments.function)?;
        if let Some(picked) = picked.as_ref().filter(|_| !arguments.json) {
            // A closed standard error loses it, and no more.
            let _ = writeln!(std::io::stderr(), "rig: {picked}");
        }
        Ok(Ready { arguments, specs, slots, device, picked, function })
    }

    /// Makes the buffers, runs the function, and writes and prints what the command line asks for.
    pub fn go(&self, out: &mut impl Write) -> Result<()> {
        let Ready { arguments, specs, slots, device, picked, function } = self;
        let buffers: Vec<Buffer> = specs.iter().map(|spec| values::make(device, spec)).collect::<Result<_>>()?;
        let (places, params_bytes) = arguments.members.layout();
        let mut run = prepare(device, function, arguments, &places, params_bytes)?;
        let repeats = arguments.repeat.unwrap_or(1);
        let progress = Progress::new(repeats, !arguments.json);
        let times = launches(&mut run, &buffers.iter().collect::<Vec<_>>(), repeats, progress)?;

        let outputs = arguments.out.iter().zip(slots);
        for (output, &slot) in outputs.clone() {
            output.write(specs[slot].element, &buffers[slot])?;
        }
        let report = Report {
            device: device.name(),
            picked: picked.as_deref(),
            function: function.name(),
            groups: arguments.grid,
            threads: arguments.group,
            group_bytes: arguments.group_memory,
            params_bytes,
            buffers: shown(specs, &buffers, arguments.print)?,
            files: outputs.map(|(output, &slot)| written(&output.path, slot, specs, &buffers)).collect(),
            timing: arguments.repeat.and_then(|_| Timing::of(times, bytes_of(&buffers))),
        };
        if arguments.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
        } else {
            show(&report, out)?;
        }
        Ok(())
    }
}

/// A run of one launch with the grid, the refs and the scalars of the command line.
fn prepare(
    device: &Device,
    function: &Function,
    arguments: &Run,
    places: &[usize],
    params_bytes: usize,
) -> Result<rig::Run> {
    let refs = refs(&arguments.members, places);
    let submission = device.submission().launch(function, refs).params(params_bytes).make()?;
    let mut run = submission.take();
    let mut part = run.part(0).groups(arguments.grid).threads(arguments.group).group_bytes(arguments.group_memory);
    for (member, &at) in arguments.members.0.iter().zip(places) {
        if let Member::Scalar(bytes) = member {
            part = part.bytes(at, bytes);
        }
    }
    Ok(run)
}

/// One ref for each buffer, at its place in the parameters.
fn refs(members: &Members, places: &[usize]) -> Vec<RefSpec> {
    let at = members.0.iter().zip(places).filter_map(|(member, &at)| match member {
        Member::Buffer(buffer) => Some((buffer.written, at)),
        Member::Scalar(_) => None,
    });
    // A command line is far shorter than 4 GiB, so slots and places fit 32 bits.
    (0..)
        .zip(at)
        .map(|(slot, (written, at))| if written { rig::write(slot) } else { rig::read(slot) }.at(at as u32))
        .collect()
}

/// Launches and waits, one after the other, and gives the time of each.
fn launches(run: &mut rig::Run, buffers: &[&Buffer], times: u32, mut progress: Progress) -> Result<Vec<Duration>> {
    (1..=times)
        .map(|done| {
            let start = Instant::now();
            // SAFETY: nothing here can prove what machine code does. Whoever runs this program vouches for the image, and
            // the help says so: it runs with this program's rights, as if it were a program itself.
            #[expect(unsafe_code, reason = "runs the image that the user names")]
            let point = unsafe { run.launch(buffers) }?;
            point.wait()?;
            let end = Instant::now();
            progress.ended(done, end);
            Ok(end - start)
        })
        .collect()
}

fn bytes_of(buffers: &[Buffer]) -> u64 {
    buffers.iter().map(|buffer| buffer.len() as u64).sum()
}

fn shown(specs: &[&BufferSpec], buffers: &[Buffer], print: Option<u64>) -> Result<Vec<Shown>> {
    let each = specs.iter().zip(buffers).enumerate().map(|(slot, (spec, buffer))| {
        let values = match print {
            Some(most) if spec.written => Some(values::first(spec.element, buffer, most)?),
            _ => None,
        };
        let count = buffer.len() / spec.element.size();
        Ok(Shown { slot, element: spec.element.name(), count, written: spec.written, values })
    });
    each.collect()
}

fn written(path: &std::path::Path, slot: usize, specs: &[&BufferSpec], buffers: &[Buffer]) -> Written {
    let element: Element = specs[slot].element;
    Written { slot, file: path.into(), count: buffers[slot].len() / element.size(), element: element.name() }
}

fn show(report: &Report<'_>, out: &mut impl Write) -> Result<()> {
    let axes = |axes: [u32; 3]| axes.map(|axis| axis.to_string()).join(" x ");
    let (function, device) = (report.function, report.device);
    writeln!(out, "{function} on {device}: {} groups of {} threads", axes(report.groups), axes(report.threads))?;
    if let Some(timing) = report.timing {
        writeln!(out, "{timing}")?;
    }
    for buffer in &report.buffers {
        if let Some(values) = &buffer.values {
            writeln!(out, "slot {} ({} of {}): {values}", buffer.slot, buffer.count, buffer.element)?;
        }
    }
    for file in &report.files {
        writeln!(out, "wrote {} values of {} to {}", file.count, file.element, file.file.display())?;
    }
    Ok(())
}
