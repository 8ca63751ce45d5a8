//! The openers of the host's devices.

use std::num::NonZero;

use rig_edge::{Opener, Timeline};

use crate::caller::Caller;
use crate::facts::facts;
use crate::pool::Pool;
use crate::{Host, Runner};

/// Opens the memory device.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig_edge::Opener;
/// use rig_host::MemoryOpener;
/// let opener: MemoryOpener = rig_host::memory();
/// assert_eq!(opener.name(), "MEMORY");
/// // Each open is a device of its own, with its own order of work.
/// assert_ne!(rig::open(opener)?, rig::open(opener)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MemoryOpener(());

/// The memory device: the host's memory, and work that is done before its submit returns, on the thread that submits it.
/// Its name is `MEMORY`.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::open(rig_host::memory())?;
/// assert_eq!(device.name(), "MEMORY");
/// # Ok(())
/// # }
/// ```
pub fn memory() -> MemoryOpener {
    MemoryOpener(())
}

impl Opener for MemoryOpener {
    type Driver = Host;

    fn name(&self) -> String {
        "MEMORY".into()
    }

    fn make(&self, timeline: Timeline) -> Result<Host, String> {
        Ok(Host { facts: facts("MEMORY:0"), runner: Runner::Caller(Caller::new(timeline.word())) })
    }
}

/// Opens the cores device.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig_edge::Opener;
/// use rig_host::CoresOpener;
/// use std::num::NonZero;
/// let two: CoresOpener = rig_host::cores().threads(NonZero::new(2).expect("two is not zero"));
/// assert_eq!(two.name(), "CORES");
/// // Each open is a device of its own, with a pool of its own.
/// assert_ne!(rig::open(two)?, rig::open(two)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CoresOpener {
    cores: Option<NonZero<u32>>,
}

/// The cores device: work runs asynchronously on a pool over the host's cores. Its name is `CORES`.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::open(rig_host::cores())?;
/// assert_eq!(device.name(), "CORES");
/// # Ok(())
/// # }
/// ```
pub fn cores() -> CoresOpener {
    CoresOpener { cores: None }
}

impl CoresOpener {
    /// Runs work on at most `cores` threads at a time, rather than on as many as the host offers the process.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// use std::num::NonZero;
    /// // Half of a small machine, say.
    /// let device = rig::open(rig_host::cores().threads(NonZero::<u32>::MIN))?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn threads(self, cores: NonZero<u32>) -> CoresOpener {
        CoresOpener { cores: Some(cores) }
    }
}

impl Opener for CoresOpener {
    type Driver = Host;

    fn name(&self) -> String {
        "CORES".into()
    }

    fn make(&self, timeline: Timeline) -> Result<Host, String> {
        let offered = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let cores = self.cores.map_or_else(offered, NonZero::get);
        Ok(Host { facts: facts("CORES:0"), runner: Runner::Pool(Pool::new(timeline.word(), cores)?) })
    }
}
