//! `rig doctor`: which drivers work here, what keeps the others from it, and what mends that.
//!
//! Whether a device opens is what its driver says, by the open that programs use; what stands in the way is the kind of obstacle
//! that the driver's own check meets. Only what a user can do about it is looked for here, in files of the system that no driver
//! needs: packages' and modules' traces, owners of device files, whether this is a container. All of those stand behind
//! [`System`], so the tests play broken systems.

#[cfg(feature = "amd")]
mod amd;
#[cfg(feature = "cuda")]
mod cuda;
mod metal;
#[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "what no driver that is built in asks"))]
mod system;

use std::io::Write;

use serde::Serialize;

use crate::arguments::Doctor;
use crate::error::{Error, Result};
use crate::open::{DRIVERS, candidates};
use system::{Folder, System};

/// NVIDIA's and AMD's numbers as vendors of PCI functions.
const NVIDIA: &str = "0x10de";
const AMD: &str = "0x1002";

/// How it stands with a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// A device of it opens.
    Opens,
    /// The machine has no hardware for it: nothing to mend.
    Absent,
    /// The hardware is there, and rig does not know it.
    #[cfg_attr(
        not(feature = "amd"),
        expect(dead_code, reason = "only a driver that this program is built without says it")
    )]
    Unsupported,
    /// Something can be mended.
    Broken,
}

/// What was found, and what mends it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Finding {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

/// A state and what it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Diagnosis {
    state: State,
    findings: Vec<Finding>,
}

impl Diagnosis {
    fn new(state: State, what: impl Into<String>) -> Diagnosis {
        Diagnosis { state, findings: vec![Finding { what: what.into(), mend: None }] }
    }

    /// Something that can be mended so.
    fn broken(what: impl Into<String>, mend: impl Into<String>) -> Diagnosis {
        Diagnosis::new(State::Broken, what).mend(mend)
    }

    /// What mends the last finding.
    fn mend(mut self, mend: impl Into<String>) -> Diagnosis {
        if let Some(last) = self.findings.last_mut() {
            last.mend = Some(mend.into());
        }
        self
    }

    #[cfg_attr(
        not(feature = "amd"),
        expect(dead_code, reason = "only a driver that this program is built without says it")
    )]
    fn and(mut self, what: impl Into<String>, mend: impl Into<String>) -> Diagnosis {
        self.findings.push(Finding { what: what.into(), mend: Some(mend.into()) });
        self
    }
}

/// A device, open or not.
#[derive(Debug, Serialize)]
struct Tried {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// What is said of a driver.
#[derive(Debug, Serialize)]
struct Examined {
    driver: &'static str,
    built: bool,
    state: State,
    devices: Vec<Tried>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Report {
    drivers: Vec<Examined>,
    /// Whether a device opens that is not the host's.
    beyond_the_host: bool,
    healthy: bool,
}

/// Examines the drivers; gives the exit code.
pub fn doctor(arguments: &Doctor, out: &mut impl Write) -> Result<u8> {
    let chosen = chosen(&arguments.driver)?;
    let drivers: Vec<Examined> =
        chosen.iter().map(|&(driver, built)| examine(driver, built, &Folder::root())).collect();
    let beyond_the_host = drivers.iter().any(|driver| driver.driver != "host" && driver.state == State::Opens);
    let healthy = healthy(&drivers, !arguments.driver.is_empty());
    let report = Report { drivers, beyond_the_host, healthy };
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        show(&report, out)?;
    }
    Ok(u8::from(!healthy))
}

/// The drivers that the command line names, or all.
fn chosen(names: &[String]) -> Result<Vec<(&'static str, bool)>> {
    if names.is_empty() {
        return Ok(DRIVERS.to_vec());
    }
    let find = |name: &String| {
        DRIVERS
            .into_iter()
            .find(|(driver, _)| driver.eq_ignore_ascii_case(name))
            .ok_or_else(|| Error::NoDriver { name: name.clone(), there: DRIVERS.map(|(driver, _)| driver).join(", ") })
    };
    names.iter().map(find).collect()
}

/// Drivers that were asked for by name have to open. Else it is enough that one beyond the host does, or that nothing is to be
/// mended.
fn healthy(drivers: &[Examined], named: bool) -> bool {
    let all = |good: fn(&Examined) -> bool| drivers.iter().all(good);
    let beyond = drivers.iter().any(|driver| driver.driver != "host" && driver.state == State::Opens);
    match named {
        true => all(|driver| driver.state == State::Opens),
        false => beyond || all(|driver| driver.state != State::Broken),
    }
}

/// Opens what there is of a driver, and says what it comes from where nothing opens.
fn examine(driver: &'static str, built: bool, system: &dyn System) -> Examined {
    let of_it = candidates().into_iter().filter(|candidate| candidate.driver == driver);
    let devices: Vec<Tried> = of_it
        .map(|candidate| {
            let name = candidate.device.name().to_owned();
            match candidate.device.open() {
                Ok(device) => Tried { name, arch: Some(device.facts().arch.clone()), why: None },
                Err(why) => Tried { name, arch: None, why: Some(why.to_string()) },
            }
        })
        .collect();
    let diagnosis = match devices.iter().any(|device| device.arch.is_some()) {
        true => Diagnosis { state: State::Opens, findings: Vec::new() },
        false if !built => not_built(driver, system),
        false => diagnose(driver, system),
    };
    Examined { driver, built, state: diagnosis.state, devices, findings: diagnosis.findings }
}

/// What keeps a driver from opening that this program is built with.
fn diagnose(driver: &str, system: &dyn System) -> Diagnosis {
    match driver {
        #[cfg(feature = "cuda")]
        "cuda" => cuda::diagnose(rig_cuda::check(), system),
        #[cfg(feature = "amd")]
        "amd" => amd::diagnose(rig_amd::check(0), system),
        "metal" => metal::diagnose(&metal::Here::this(), system),
        // The cores open wherever the driver is built in.
        _ => Diagnosis::new(State::Broken, "no device of it opens"),
    }
}

/// A driver that this program is built without: to be mended where its hardware is.
fn not_built(driver: &str, system: &dyn System) -> Diagnosis {
    let there = match driver {
        "cuda" => has_gpu(system, NVIDIA),
        "amd" => has_gpu(system, AMD),
        "metal" => cfg!(target_vendor = "apple"),
        _ => true,
    };
    let state = if there { State::Broken } else { State::Absent };
    let mend = format!("cargo install --path crates/cli --features {driver}");
    Diagnosis::new(state, "this program is built without it").mend(mend)
}

/// Whether a display or accelerator of the vendor is on the PCI bus.
fn has_gpu(system: &dyn System, vendor: &str) -> bool {
    const DEVICES: &str = "/sys/bus/pci/devices";
    system.list(DEVICES).iter().any(|device| {
        let of = |file: &str| system.text(&format!("{DEVICES}/{device}/{file}")).unwrap_or_default();
        let class = of("class");
        of("vendor").trim() == vendor && ["0x03", "0x12"].iter().any(|kind| class.starts_with(kind))
    })
}

/// Whether this is a container, where device files and libraries come from how it is started.
#[cfg_attr(
    not(any(feature = "cuda", feature = "amd")),
    expect(dead_code, reason = "only a driver that this program is built without asks it")
)]
fn in_container(system: &dyn System) -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|file| system.is_there(file))
        || system.variable("container").is_some()
}

/// What lets the user use a device file.
#[cfg_attr(
    not(any(feature = "cuda", feature = "amd")),
    expect(dead_code, reason = "only a driver that this program is built without says it")
)]
fn access(path: &str, system: &dyn System) -> Diagnosis {
    let (what, mend) = match system.group(path).filter(|group| group != "root") {
        Some(group) => (
            format!("the user may not use {path}, which the group {group} may"),
            format!("sudo usermod -aG {group} $USER, and log in again (in a container: --group-add {group})"),
        ),
        None => (
            format!("the user may not use {path}, which root alone may"),
            format!("a rule of udev that gives {path} to the group render with mode 0660, and the user in that group"),
        ),
    };
    Diagnosis::broken(what, mend)
}

fn show(report: &Report, out: &mut impl Write) -> Result<()> {
    for driver in &report.drivers {
        let name = format!("{:<6}", driver.driver);
        let opens: Vec<String> = driver
            .devices
            .iter()
            .filter_map(|device| Some(format!("{} ({})", device.name, device.arch.as_ref()?)))
            .collect();
        match driver.state {
            State::Opens => writeln!(out, "{name} opens: {}", opens.join(", "))?,
            State::Absent => writeln!(out, "{name} has no hardware here")?,
            State::Unsupported => writeln!(out, "{name} does not know the hardware here")?,
            State::Broken => writeln!(out, "{name} does not open, and can be mended")?,
        }
        for finding in &driver.findings {
            writeln!(out, "         what: {}", finding.what)?;
            if let Some(mend) = &finding.mend {
                // What is not there needs no mending, but there may be something to try.
                let how = if driver.state == State::Broken { "mend" } else { "try" };
                writeln!(out, "         {how}: {mend}")?;
            }
        }
        for device in &driver.devices {
            if let Some(why) = &device.why {
                writeln!(out, "         its open says: {why}")?;
            }
        }
    }
    let sum = match (report.beyond_the_host, report.healthy) {
        (true, _) => "a device beyond the host's opens",
        (false, true) => "nothing beyond the host opens, and nothing is to be mended: rig runs on the cores",
        (false, false) => "nothing beyond the host opens, and what keeps it from that can be mended",
    };
    // Of named drivers the lines above say all.
    if report.drivers.len() == DRIVERS.len() {
        writeln!(out, "{sum}")?;
    }
    Ok(())
}

// They play systems of all drivers.
#[cfg(all(test, feature = "cuda", feature = "amd"))]
mod tests;
