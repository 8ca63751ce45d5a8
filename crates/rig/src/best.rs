//! The best device that opens: openers are tried in the order in which their program would rather have them.
//!
//! This crate knows no driver, so the program names them; what it passed over, and why, comes with the device.

use std::fmt;

use rig_edge::Opener;

use crate::error::invalid;
use crate::{Device, Error, Result, open};

/// A device that may open: an [`Opener`] of some driver.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let candidate = rig::Candidate::new(rig_host::cores());
/// assert_eq!(candidate.name(), "CORES");
/// let device = candidate.open()?;
/// # Ok(())
/// # }
/// ```
pub struct Candidate {
    name: String,
    open: Box<dyn FnOnce() -> Result<Device>>,
}

impl Candidate {
    /// What `opener` opens. Nothing is opened yet.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// let candidate = rig::Candidate::new(rig_host::memory());
    /// # Ok(())
    /// # }
    /// ```
    pub fn new<O: Opener + 'static>(opener: O) -> Candidate {
        Candidate { name: opener.name(), open: Box::new(move || open(opener)) }
    }

    /// The name that the device would have.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// assert_eq!(rig::Candidate::new(rig_host::memory()).name(), "MEMORY");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens it, as [`open`] does.
    ///
    /// # Errors
    ///
    /// Those of [`open`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// let device = rig::Candidate::new(rig_host::memory()).open()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(self) -> Result<Device> {
        (self.open)()
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What [`best_of`] found.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig::Candidate;
/// let best = rig::best_of([Candidate::new(rig_host::memory()), Candidate::new(rig_host::cores())])?;
/// // The first opened, so none was passed over, and there is no reason to tell.
/// assert_eq!(best.device.name(), "MEMORY");
/// assert!(best.passed.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Best {
    /// The device.
    pub device: Device,
    /// What was tried before it and did not open: each one's name, and why.
    pub passed: Vec<(String, Error)>,
}

impl fmt::Display for Best {
    /// The device and, in one sentence, why none of those before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.device, self.device.facts().arch)?;
        if !self.passed.is_empty() {
            write!(f, ", since {}", reasons(&self.passed))?;
        }
        Ok(())
    }
}

/// Opens the first candidate that opens, and tries no further: give those that you would rather have first.
///
/// A program that carries a kernel for each of some devices runs on whichever a machine has:
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig::Candidate;
///
/// // With rig-cuda and rig-amd, their `gpu(0)` would stand before the host's cores.
/// let best = rig::best_of([Candidate::new(rig_host::cores()), Candidate::new(rig_host::memory())])?;
/// eprintln!("on {best}");
/// assert_eq!(best.device.name(), "CORES");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Refused where none opens, with each one's reason; Invalid without a candidate, and inside a fill or a kernel.
pub fn best_of(candidates: impl IntoIterator<Item = Candidate>) -> Result<Best> {
    let mut passed = Vec::new();
    for candidate in candidates {
        let name = candidate.name.clone();
        match candidate.open() {
            Ok(device) => return Ok(Best { device, passed }),
            Err(why @ Error::Refused(_)) => passed.push((name, why)),
            Err(other) => return Err(other),
        }
    }
    if passed.is_empty() {
        return invalid!("there is no candidate to open: name one at least, such as the host's cores");
    }
    Err(Error::Refused(reasons(&passed)))
}

/// Each reason, which names its device.
fn reasons(passed: &[(String, Error)]) -> String {
    passed.iter().map(|(_, why)| why.to_string()).collect::<Vec<_>>().join("; and ")
}
