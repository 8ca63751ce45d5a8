//! `rig devices`: what opens, with its facts, and why the rest does not.

use std::io::Write;

use comfy_table::{ContentArrangement, Table, presets};
use rig::{Device, Facts};
use rig_edge::{Completion, Kinds, Reach, WordSource};
use serde::Serialize;

use crate::arguments::Devices;
use crate::error::Result;
use crate::open::candidates;
use crate::size::bytes;

/// How many devices stand side by side in one table, so that it fits a terminal of 100 columns.
const DEVICES_WIDE: usize = 3;

#[derive(Serialize)]
struct Report {
    devices: Vec<Opened>,
    closed: Vec<Closed>,
}

/// A device that opened. Of a device's facts, all.
#[derive(Serialize)]
struct Opened {
    name: String,
    driver: &'static str,
    arch: String,
    budget_bytes: u64,
    queues: Vec<Queue>,
    copy_engine: Option<String>,
    completion: &'static str,
    waits_for_stores: bool,
    waits_for_hosts: bool,
    waits_most: usize,
    may_block: bool,
    hang_ms: Option<u64>,
    spin_ns: u64,
    maps_host: bool,
    host_addresses: bool,
    alignment_bytes: usize,
    cache_bytes: Option<usize>,
    fault_reaches: &'static str,
    word: &'static str,
    bus: Option<String>,
}

#[derive(Serialize)]
struct Queue {
    name: String,
    runs: Vec<&'static str>,
}

/// A device that did not open.
#[derive(Serialize)]
struct Closed {
    name: String,
    driver: &'static str,
    why: String,
}

/// Lists the devices.
pub fn devices(arguments: &Devices, out: &mut impl Write) -> Result<()> {
    let mut report = Report { devices: Vec::new(), closed: Vec::new() };
    for candidate in candidates() {
        let (name, driver) = (candidate.device.name().to_owned(), candidate.driver);
        match candidate.device.open() {
            Ok(device) => report.devices.push(Opened::of(driver, &device)),
            Err(why) => report.closed.push(Closed { name, driver, why: why.to_string() }),
        }
    }
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        show(&report, out)?;
    }
    Ok(())
}

fn show(report: &Report, out: &mut impl Write) -> Result<()> {
    for devices in report.devices.chunks(DEVICES_WIDE) {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(std::iter::once("device").chain(devices.iter().map(|device| device.name.as_str())));
        let rows: Vec<Vec<(&str, String)>> = devices.iter().map(Opened::rows).collect();
        for (index, (fact, _)) in rows[0].iter().enumerate() {
            table.add_row(std::iter::once(*fact).chain(rows.iter().map(|rows| rows[index].1.as_str())));
        }
        writeln!(out, "{table}")?;
    }
    if report.devices.is_empty() {
        writeln!(out, "no device opens")?;
    }
    for closed in &report.closed {
        writeln!(out, "{} (driver {}) does not open: {}", closed.name, closed.driver, closed.why)?;
    }
    Ok(())
}

impl Opened {
    fn of(driver: &'static str, device: &Device) -> Opened {
        let facts: &Facts = device.facts();
        Opened {
            name: device.name().into(),
            driver,
            arch: facts.arch.clone(),
            budget_bytes: facts.budget,
            queues: facts
                .queues
                .iter()
                .map(|queue| Queue { name: queue.name.clone(), runs: runs(queue.kinds) })
                .collect(),
            copy_engine: facts.copy_engine.clone(),
            completion: match facts.completion {
                Completion::Store => "a store on a queue",
                Completion::Host => "the host",
            },
            waits_for_stores: facts.waits.stores,
            waits_for_hosts: facts.waits.hosts,
            waits_most: facts.waits.most,
            may_block: facts.may_block,
            // 2^64 ms and 2^64 ns are more than a lifetime.
            hang_ms: facts.hang.map(|hang| hang.as_millis() as u64),
            spin_ns: facts.spin.as_nanos() as u64,
            maps_host: facts.maps_host,
            host_addresses: facts.host_addresses,
            alignment_bytes: facts.alignment,
            cache_bytes: facts.cache_bytes,
            fault_reaches: match facts.reach {
                Reach::Device => "this device",
                Reach::Driver => "every device of the driver",
            },
            word: match facts.word {
                WordSource::Given => "given",
                WordSource::Own => "the driver's own",
            },
            bus: facts.bus.clone(),
        }
    }

    /// Each fact in words, in the same order for every device.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let yes = |yes: bool| if yes { "yes" } else { "no" }.to_string();
        let or = |text: Option<String>, none: &str| text.unwrap_or_else(|| none.into());
        let queues: Vec<String> =
            self.queues.iter().map(|queue| format!("{}: {}", queue.name, queue.runs.join(", "))).collect();
        vec![
            ("driver", self.driver.into()),
            ("architecture", self.arch.clone()),
            ("budget", bytes(self.budget_bytes)),
            ("queues", if queues.is_empty() { "none".into() } else { queues.join("\n") }),
            ("copy engine", or(self.copy_engine.clone(), "none")),
            ("word", self.word.into()),
            ("word written by", self.completion.into()),
            ("queue waits", waits(self)),
            ("submit may block", yes(self.may_block)),
            ("hang bound", or(self.hang_ms.map(|ms| format!("{ms} ms")), "none")),
            ("spin", format!("{} ns", self.spin_ns)),
            ("maps the host's memory", yes(self.maps_host)),
            ("host addresses memory", yes(self.host_addresses)),
            ("alignment", bytes(self.alignment_bytes as u64)),
            ("cache line", or(self.cache_bytes.map(|line| bytes(line as u64)), "not known")),
            ("a fault reaches", self.fault_reaches.into()),
            ("bus address", or(self.bus.clone(), "none")),
        ]
    }
}

fn runs(kinds: Kinds) -> Vec<&'static str> {
    [(kinds.launch, "launch"), (kinds.copy, "copy"), (kinds.memset, "memset"), (kinds.fill, "fill")]
        .into_iter()
        .filter_map(|(runs, name)| runs.then_some(name))
        .collect()
}

fn waits(device: &Opened) -> String {
    match (device.waits_for_stores, device.waits_for_hosts) {
        (false, false) => "none".into(),
        (true, false) => format!("{} for words stored by queues", device.waits_most),
        (false, true) => format!("{} for words written by the host", device.waits_most),
        (true, true) => format!("{} for any word", device.waits_most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_open_is_listed_with_the_reason() {
        let closed = Closed { name: "METAL".into(), driver: "metal", why: "METAL cannot be opened: no Mac".into() };
        let mut out = Vec::new();
        show(&Report { devices: vec![], closed: vec![closed] }, &mut out).unwrap();
        let expected = "no device opens\nMETAL (driver metal) does not open: METAL cannot be opened: no Mac\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
