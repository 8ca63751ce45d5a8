//! `rig bench`: what launches, waits, copies and cached memory cost on each device, as a table, JSON and a chart.
//!
//! Each number is the median of rounds over a share of the device's time; its spread is the distance of the quarters. A round
//! repeats a cheap call so often that the clock's own time does not show, and divides. What is measured is what a program pays: rig
//! with the driver, and the waits for the device where the work is waited for.

mod chart;
mod kernels;
mod measure;
mod text;

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use rig::Device;
use serde::Serialize;

use crate::arguments::Bench;
use crate::error::{Error, Result};
use crate::open::{Candidate, candidates, named};
use measure::{Measured, Plan};

/// What a device takes, and in which sizes it copies.
const WHOLE: Plan = Plan { takes: Duration::from_secs(10), copies: &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20] };
const QUICK: Plan = Plan { takes: Duration::from_secs(2), copies: &[4 << 10, 64 << 10, 1 << 20, 16 << 20] };

/// What was measured on every device.
#[derive(Debug, Serialize)]
pub struct Report {
    /// This program's version.
    pub version: &'static str,
    /// The devices.
    pub devices: Vec<Benched>,
    /// Those that do not open.
    pub closed: Vec<Closed>,
}

/// A device and its numbers.
#[derive(Debug, Serialize)]
pub struct Benched {
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: &'static str,
    /// Its architecture.
    pub arch: String,
    /// What was measured, in the order of the table.
    pub measured: Vec<Measured>,
    /// What could not be measured, and why.
    pub left_out: Vec<String>,
}

/// A device that does not open.
#[derive(Debug, Serialize)]
pub struct Closed {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// Measures the devices.
pub fn bench(arguments: &Bench, out: &mut impl Write) -> Result<()> {
    let plan = if arguments.quick { QUICK } else { WHOLE };
    let chosen: Vec<Candidate> = match arguments.device.as_slice() {
        [] => candidates(),
        names => names.iter().map(|name| named(name)).collect::<Result<_>>()?,
    };
    let mut report = Report { version: env!("CARGO_PKG_VERSION"), devices: Vec::new(), closed: Vec::new() };
    for Candidate { driver, device } in chosen {
        let name = device.name().to_owned();
        match device.open() {
            Ok(device) => report.devices.push(measured(driver, &device, &plan)?),
            // Who names a device wants its numbers.
            Err(why) if !arguments.device.is_empty() => return Err(why.into()),
            Err(why) => report.closed.push(Closed { name, why: why.to_string() }),
        }
    }
    if let Some(path) = &arguments.chart {
        let write = |why| Error::File { what: "write", path: path.clone(), why };
        std::fs::write(path, chart::svg(&report)).map_err(write)?;
    }
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        text::show(&report, out)?;
        if let Some(path) = &arguments.chart {
            writeln!(out, "wrote {}", path.display())?;
        }
    }
    Ok(())
}

/// Measures a device; says so first, since it takes its time.
fn measured(driver: &'static str, device: &Device, plan: &Plan) -> Result<Benched> {
    let terminal = std::io::stderr().is_terminal();
    let mut error = std::io::stderr();
    if terminal {
        // A closed standard error loses it, and no more.
        let _ = write!(error, "\r\x1b[Kmeasuring {device}, which takes about {} seconds", plan.takes.as_secs());
    }
    let (measured, left_out) = measure::all(driver, device, plan)?;
    if terminal {
        let _ = write!(error, "\r\x1b[K");
    }
    Ok(Benched { name: device.name().into(), driver, arch: device.facts().arch.clone(), measured, left_out })
}
