//! What the host's devices say of themselves.

use std::time::Duration;

use rig_edge::{Completion, Facts, Kinds, Queue, Reach, WaitFacts, WordSource};

use crate::memory::{ALIGNMENT, host_bytes};

/// The bytes of a cache line, over which two cores that write neighbouring bytes fight.
const CACHE_BYTES: usize = if cfg!(all(target_vendor = "apple", target_arch = "aarch64")) { 128 } else { 64 };

/// The facts of a host device whose one queue is `queue`.
pub(crate) fn facts(queue: &str) -> Facts {
    Facts {
        arch: std::env::consts::ARCH.into(),
        budget: host_bytes(),
        queues: vec![Queue { name: queue.into(), kinds: Kinds::ALL }],
        copy_engine: None,
        completion: Completion::Host,
        waits: WaitFacts::NONE,
        may_block: false,
        // A kernel is the user's own, and may take as long as it takes.
        hang: None,
        // A waiter runs the work itself in `sleep`, so reading the word first would only delay it.
        spin: Duration::ZERO,
        maps_host: true,
        host_addresses: true,
        alignment: ALIGNMENT,
        cache_bytes: Some(CACHE_BYTES),
        reach: Reach::Device,
        word: WordSource::Given,
        bus: None,
    }
}
