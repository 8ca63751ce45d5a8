//! The devices of the drivers that this program is built with, each behind a cargo feature of the driver's name.

use rig::Device;
use rig_edge::Opener;

use crate::error::{Error, Result};

/// A device that may open.
pub struct Candidate {
    /// The driver, as its cargo feature is named.
    pub driver: &'static str,
    /// The device's name.
    pub name: String,
    open: Box<dyn FnOnce() -> rig::Result<Device>>,
}

impl Candidate {
    #[cfg_attr(
        not(any(feature = "host", feature = "cuda", feature = "metal", feature = "amd")),
        expect(dead_code, reason = "this program is built without any driver")
    )]
    fn new<O: Opener + 'static>(driver: &'static str, opener: O) -> Candidate {
        Candidate { driver, name: opener.name(), open: Box::new(move || rig::open(opener)) }
    }

    /// Opens it.
    pub fn open(self) -> rig::Result<Device> {
        (self.open)()
    }
}

/// Every device that may open, in the order of `rig devices`.
pub fn candidates() -> Vec<Candidate> {
    let mut candidates = Vec::new();
    #[cfg(feature = "host")]
    candidates.extend([Candidate::new("host", rig_host::cores()), Candidate::new("host", rig_host::memory())]);
    // The first also where there is none, so that the list says why.
    #[cfg(feature = "cuda")]
    candidates.extend((0..rig_cuda::count().max(1)).map(|index| Candidate::new("cuda", rig_cuda::gpu(index))));
    #[cfg(feature = "metal")]
    candidates.extend((0..metals()).map(|index| Candidate::new("metal", rig_metal::gpu(index))));
    // As for NVIDIA's, where the kernel may have a driver for AMD's GPUs.
    #[cfg(feature = "amd")]
    candidates.extend((0..amds()).map(|index| Candidate::new("amd", rig_amd::gpu(index))));
    candidates
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

/// Opens the device `name`, in whatever case it is written.
pub fn open(name: &str) -> Result<Device> {
    let mut names = Vec::new();
    for candidate in candidates() {
        if candidate.name.eq_ignore_ascii_case(name) {
            return Ok(candidate.open()?);
        }
        names.push(candidate.name);
    }
    let there = if names.is_empty() { "none".into() } else { names.join(", ") };
    Err(Error::NoDevice { name: name.into(), there })
}
