//! What the driver says of a GPU.

use std::time::Duration;

use rig_edge::{Completion, Facts, Kinds, Queue, Reach, WaitFacts, WordSource};

use crate::gpu::Gpu;
use crate::sys::Result;
use crate::sys::abi::device_attribute as attribute;

/// What CUDA's allocators align every region to at least.
pub(crate) const ALIGNMENT: usize = 256;

/// The bytes of a line of the GPU's second cache, which all its cores share.
const CACHE_BYTES: usize = 128;

/// How many waits one submit may place: each costs a call of some hundred nanoseconds, so that the host's own wait is
/// cheaper beyond a few.
const WAITS_MOST: usize = 16;

/// How long a wait reads the word before it sleeps. TIMEOUT: a hundred small launches take a tenth of a millisecond, and
/// a nap of the system's ends up to that much late.
const SPIN: Duration = Duration::from_micros(200);

/// The facts of a device on `gpu`.
pub(crate) fn facts(gpu: &Gpu, hang: Option<Duration>) -> Result<Facts> {
    let ask = |attribute| gpu.api.device_attribute(gpu.device, attribute);
    let (major, minor) = (ask(attribute::COMPUTE_CAPABILITY_MAJOR)?, ask(attribute::COMPUTE_CAPABILITY_MINOR)?);
    let waits = WaitFacts { stores: true, hosts: true, most: WAITS_MOST };
    Ok(Facts {
        arch: format!("sm_{major}{minor}"),
        budget: gpu.api.device_bytes(gpu.device)? as u64,
        queues: vec![Queue { name: "STREAM:0".into(), kinds: Kinds::ALL }],
        // Two devices on one GPU copy beside each other's launches; the one stream of a device does one thing at a time.
        copy_engine: None,
        completion: Completion::Store,
        waits: if gpu.waits { waits } else { WaitFacts::NONE },
        // A stream has room for some thousand calls, and what `room` counts stays below; but a submission of more parts than that
        // by itself, which CUDA takes one by one, waits in CUDA for its own work, and a fill may put anything on the stream.
        may_block: true,
        hang,
        spin: SPIN,
        maps_host: gpu.registers,
        host_addresses: false,
        alignment: ALIGNMENT,
        cache_bytes: Some(CACHE_BYTES),
        reach: Reach::Driver,
        word: WordSource::Given,
        bus: gpu.api.device_bus(gpu.device).ok().map(|bus| bus.to_ascii_lowercase()),
    })
}
