//! What the driver says of a GPU.

use std::time::Duration;

use rig_edge::{Completion, Facts, Kinds, Queue, Reach, WaitFacts, WordSource};

use crate::gpu::Gpu;
use crate::memory::ALIGNMENT;

/// The names of the queues.
const COMPUTE: &str = "COMPUTE:0";
const COPIER: &str = "SDMA:0";

/// The bytes of a line of the GPU's second cache.
const CACHE_BYTES: usize = 128;

/// How many waits one submit may place: each is a packet, and the queue runs them one after the other.
const WAITS_MOST: usize = 16;

/// How long a wait reads the word before it sleeps. TIMEOUT: a small launch takes some ten microseconds, and an interrupt that
/// ends a sleep as much again.
const SPIN: Duration = Duration::from_micros(50);

/// The facts of a device on `gpu`.
pub(crate) fn facts(gpu: &Gpu, hang: Option<Duration>) -> Facts {
    let compute = Kinds { launch: true, copy: true, memset: false, fill: true };
    let copier = Kinds { launch: false, copy: true, memset: true, fill: false };
    Facts {
        arch: gpu.chip().arch().into(),
        budget: gpu.node().vram,
        queues: vec![Queue { name: COMPUTE.into(), kinds: compute }, Queue { name: COPIER.into(), kinds: copier }],
        copy_engine: Some(COPIER.into()),
        completion: Completion::Store,
        waits: WaitFacts { stores: true, hosts: true, most: WAITS_MOST },
        may_block: false,
        hang,
        spin: SPIN,
        maps_host: true,
        host_addresses: false,
        alignment: ALIGNMENT,
        cache_bytes: Some(CACHE_BYTES),
        // Other devices on the same GPU are lost with it: each learns that by an event of its own.
        reach: Reach::Device,
        word: WordSource::Given,
        bus: gpu.node().bus.clone(),
    }
}
