//! The devices of the drivers that this program is built with, each behind a cargo feature of the driver's name.

use std::path::Path;

use rig::Device;

use crate::error::{Error, Result};
use crate::image;

/// Every driver, as its cargo feature is named, and whether this program is built with it.
pub const DRIVERS: [(&str, bool); 4] = [
    ("host", cfg!(feature = "host")),
    ("cuda", cfg!(feature = "cuda")),
    ("amd", cfg!(feature = "amd")),
    ("metal", cfg!(feature = "metal")),
];

/// A device that may open.
pub struct Candidate {
    /// The driver, as its cargo feature is named.
    pub driver: &'static str,
    /// How to open it.
    pub device: rig::Candidate,
}

/// Every device that may open, in the order of `rig devices`.
pub fn candidates() -> Vec<Candidate> {
    #[cfg_attr(
        not(any(feature = "host", feature = "cuda", feature = "metal", feature = "amd")),
        expect(unused_mut, reason = "this program is built without any driver")
    )]
    let mut candidates: Vec<(&'static str, rig::Candidate)> = Vec::new();
    #[cfg(feature = "host")]
    {
        candidates.push(("host", rig::Candidate::new(rig_host::cores())));
        candidates.push(("host", rig::Candidate::new(rig_host::memory())));
    }
    // The first also where there is none, so that the list says why.
    #[cfg(feature = "cuda")]
    candidates.extend((0..rig_cuda::count().max(1)).map(|index| ("cuda", rig::Candidate::new(rig_cuda::gpu(index)))));
    #[cfg(feature = "metal")]
    candidates.extend((0..metals()).map(|index| ("metal", rig::Candidate::new(rig_metal::gpu(index)))));
    // As for NVIDIA's, where the kernel may have a driver for AMD's GPUs.
    #[cfg(feature = "amd")]
    candidates.extend((0..amds()).map(|index| ("amd", rig::Candidate::new(rig_amd::gpu(index)))));
    candidates.into_iter().map(|(driver, device)| Candidate { driver, device }).collect()
}

/// How many GPUs of Metal's to list: one on a Mac at least, and elsewhere those of software Metal.
#[cfg(feature = "metal")]
fn metals() -> u32 {
    rig_metal::count().unwrap_or(1).max(u32::from(cfg!(target_vendor = "apple")))
}

/// How many of AMD's to list: one on Linux at least.
#[cfg(feature = "amd")]
fn amds() -> usize {
    rig_amd::count().max(usize::from(cfg!(target_os = "linux")))
}

/// The candidate of that name, in whatever case it is written.
pub fn named(name: &str) -> Result<Candidate> {
    let mut names = Vec::new();
    for candidate in candidates() {
        if candidate.device.name().eq_ignore_ascii_case(name) {
            return Ok(candidate);
        }
        names.push(candidate.device.name().to_owned());
    }
    let there = if names.is_empty() { "none".into() } else { names.join(", ") };
    Err(Error::NoDevice { name: name.into(), there })
}

/// Opens the device `name`, in whatever case it is written.
pub fn open(name: &str) -> Result<Device> {
    Ok(named(name)?.device.open()?)
}

/// Opens the first device that opens of the driver that the image is for; and says in one sentence which that is, and why.
pub fn for_image(path: &Path, binary: &[u8]) -> Result<(Device, String)> {
    let image = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let Some(kind) = image::kind(binary) else { return Err(Error::NoImage { path: path.into() }) };
    let of_kind = candidates().into_iter().filter(|candidate| candidate.driver == kind.driver);
    let devices: Vec<rig::Candidate> = of_kind.map(|candidate| candidate.device).collect();
    let none = |why: String| Error::NoneFor { path: path.into(), kind: kind.words, driver: kind.driver, why };
    if devices.is_empty() {
        return Err(none(without(kind.driver)));
    }
    let best = rig::best_of(devices).map_err(|why| none(why.to_string()))?;
    let why = format!("{image} is {}: on {best}", kind.words);
    Ok((best.device, why))
}

/// Why this program has no device of the driver.
fn without(driver: &str) -> String {
    match DRIVERS.contains(&(driver, true)) {
        // A driver that is built in has a candidate wherever its system may have a device.
        true => "there is none on this system".into(),
        false => {
            format!("this program is built without it; `cargo install --path crates/cli --features {driver}` has it")
        }
    }
}
