//! The opener, which is the same where there is Metal and where there is none.

use rig_edge::{Opener, Timeline};

#[cfg(not(rig_metal))]
use crate::absent::{Metal, make};
#[cfg(rig_metal)]
use crate::{driver::Metal, open::make};

/// The opener of the GPU `index`, counted from 0: `METAL`, `METAL:1` and so on. Never fails: its
/// [`make`](Opener::make) does.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// // Where there is no Metal it does not open, and the reason says what is missing.
/// let Ok(device) = rig::open(rig_metal::gpu(0)) else { return Ok(()) };
/// let x = device.buffer(1 << 20)?;
/// x.memset(7)?;
/// assert_eq!(x.read(|x: &[u8]| x[99])?, 7);
/// # Ok(())
/// # }
/// ```
pub fn gpu(index: u32) -> GpuOpener {
    GpuOpener { index }
}

/// Opens devices on one GPU. Each has a queue, a timeline and a capability of its own.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig::Candidate;
/// // A Mac's GPU, or else the cores.
/// let best = rig::best_of([Candidate::new(rig_metal::gpu(0)), Candidate::new(rig_host::cores())])?;
/// assert!(["METAL", "CORES"].contains(&best.device.name()));
/// // Nothing is opened before then: an opener says what would be.
/// assert_eq!(Candidate::new(rig_metal::gpu(1)).name(), "METAL:1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GpuOpener {
    index: u32,
}

impl Opener for GpuOpener {
    type Driver = Metal;

    fn name(&self) -> String {
        if self.index == 0 { "METAL".into() } else { format!("METAL:{}", self.index) }
    }

    fn make(&self, timeline: Timeline) -> Result<Metal, String> {
        make(self.index, timeline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise M02.
    #[test]
    fn openers_are_named_by_their_gpus_and_never_fail() {
        assert_eq!(gpu(0).name(), "METAL");
        assert_eq!(gpu(1).name(), "METAL:1");
        assert_eq!(gpu(u32::MAX).name(), "METAL:4294967295");
    }
}
