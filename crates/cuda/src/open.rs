//! The opener, and how many GPUs there are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use rig_edge::{Opener, Timeline};

use crate::entries::Entries;
use crate::facts::facts;
use crate::fault::{self, reason};
use crate::gpu::{Gpu, gpu as open_gpu};
use crate::sys::{Result, api};
use crate::{Capability, Cuda};

/// How long committed work may leave the word unmoved. TIMEOUT: the longest single kernels of training take seconds, and a
/// program whose kernels take longer says so by [`GpuOpener::hang`].
const HANG: Duration = Duration::from_secs(60);

/// How many GPUs CUDA sees here: 0 where there is no driver of NVIDIA's. A GPU that is counted may still not open.
///
/// ```
/// let names: Vec<String> = (0..rig_cuda::count())
///     .filter_map(|gpu| rig::open(rig_cuda::gpu(gpu)).ok())
///     .map(|device| format!("{device} ({})", device.facts().arch))
///     .collect();
/// assert!(names.iter().all(|name| name.starts_with("CUDA")), "{names:?}");
/// ```
pub fn count() -> usize {
    let count = api().ok().and_then(|api| api.device_count().ok());
    count.map_or(0, |count| count.max(0) as usize)
}

/// The opener of the GPU `index`, counted from 0: `CUDA`, `CUDA:1` and so on. Never fails: its
/// [`make`](Opener::make) does.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// // Where there is no GPU it does not open, and the reason says what is missing.
/// let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// let x = device.buffer(1 << 20)?;
/// x.memset(7)?;
/// assert_eq!(x.read(|x: &[u8]| x[99])?, 7);
/// # Ok(())
/// # }
/// ```
pub fn gpu(index: usize) -> GpuOpener {
    GpuOpener { index, hang: Some(HANG) }
}

/// Opens devices on one GPU. Each has a stream of its own; all share the GPU's primary context, as everything else in the
/// process that uses CUDA does.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig::Candidate;
/// // Nothing is opened yet: an opener says what would be.
/// let openers = [0, 1].map(rig_cuda::gpu);
/// let names = openers.clone().map(|opener| Candidate::new(opener).name().to_owned());
/// assert_eq!(names, ["CUDA", "CUDA:1"]);
/// // The first GPU that opens, or else the host's cores.
/// let best = rig::best_of(openers.map(Candidate::new).into_iter().chain([Candidate::new(rig_host::cores())]))?;
/// println!("on {best}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GpuOpener {
    index: usize,
    hang: Option<Duration>,
}

impl GpuOpener {
    /// Takes the device for hung once committed work has left its word unmoved for `bound`, or never: a minute without
    /// this.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// use std::time::Duration;
    /// // Its kernels take minutes, and are no hang before an hour.
    /// let opener = rig_cuda::gpu(0).hang(Some(Duration::from_secs(3600)));
    /// let Ok(device) = rig::open(opener) else { return Ok(()) };
    /// device.buffer(64)?.memset(1)?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hang(self, bound: Option<Duration>) -> GpuOpener {
        GpuOpener { hang: bound, ..self }
    }
}

impl Opener for GpuOpener {
    type Driver = Cuda;

    fn name(&self) -> String {
        if self.index == 0 { "CUDA".into() } else { format!("CUDA:{}", self.index) }
    }

    fn make(&self, timeline: Timeline) -> std::result::Result<Cuda, String> {
        if let Some(refusal) = fault::refusal() {
            return Err(refusal);
        }
        let api = api()?;
        let ordinal = i32::try_from(self.index).unwrap_or(i32::MAX);
        let made = open_gpu(api, ordinal)
            .and_then(|gpu| make(gpu, timeline, self.hang).map_err(|failure| reason(api, failure)));
        // An open that met what another device's work broke says what to do about it.
        made.map_err(|why| fault::refusal().unwrap_or(why))
    }
}

fn make(gpu: &'static Gpu, timeline: Timeline, hang: Option<Duration>) -> Result<Cuda> {
    let facts = facts(gpu, hang)?;
    let _current = gpu.enter()?;
    let stream = gpu.api.stream_create()?;
    let index = timeline.index();
    let start = timeline.word().load();
    Ok(Cuda {
        gpu,
        stream,
        facts,
        capability: Capability { context: gpu.context().0, stream: stream.0, ordinal: gpu.ordinal },
        word: timeline.word(),
        word_at: gpu.word(index),
        counter_at: gpu.counter(index),
        // No value: the first graph brings the counter up.
        counted: AtomicU64::new(u64::MAX),
        stands: Mutex::new(None),
        last: AtomicU64::new(start),
        stored: AtomicU64::new(start),
        entries: Entries::new(),
        stopped: AtomicBool::new(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openers_are_named_by_their_gpus() {
        assert_eq!(gpu(0).name(), "CUDA");
        assert_eq!(gpu(7).hang(None).name(), "CUDA:7");
    }
}
