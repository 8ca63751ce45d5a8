//! What rig tells a program's log, by the crate `tracing`, where the feature `tracing` is on: one event for each thing that
//! an operator would ask for afterwards. Nothing is told of a submit, a wait or a cached allocation.
//!
//! | level | event | fields |
//! | --- | --- | --- |
//! | ERROR | a device is lost | `device`, `why` |
//! | WARN | a device could not be opened | `device`, `why` |
//! | WARN | an allocation found no memory | `device`, `bytes`, `in_use`, `cached`, `budget` |
//! | INFO | a device is open | `device`, `driver`, `budget` |
//! | INFO | a device is closed | `device`, `why` |
//! | DEBUG | a device is stopped | `device` |
//! | DEBUG | a round of reclamation is over | `device`, `round`, `in_use`, `cached`, `budget` |
//! | DEBUG | a driver grew for a submit | `device`, `growths` |
//! | TRACE | a driver made memory | `device`, `memory`, `bytes` |
//!
//! Bytes are bytes of the device's budget. Every event has the target `rig`.
//!
//! # Invariants
//!
//! 1. No lock of rig's and no turn is held while a subscriber runs: it is the program's code, and may use rig itself.
//! 2. A subscriber's panic ends in here: what the event told of has happened and stays whole.
//! 3. Where the feature is off, nothing is left of an event but the reads of its fields.

use crate::device::Core;

/// Tells of an event: its level, its words and its fields.
macro_rules! tell {
    ($level:ident, $words:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        #[cfg(feature = "tracing")]
        $crate::events::shielded(|| ::tracing::$level!(target: "rig", $($field = $value,)* $words));
        #[cfg(not(feature = "tracing"))]
        { $(let _ = &$value;)* }
    }};
}
pub(crate) use tell;

/// Runs a subscriber's code. A panic of it was reported by the panic hook, and is nobody else's.
#[cfg(feature = "tracing")]
pub(crate) fn shielded(tell: impl FnOnce()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(tell));
}

/// A round of reclamation is over.
pub(crate) fn reclaimed(core: &Core, round: usize) {
    if let Some(held) = Held::of(core) {
        let Held { in_use, cached, budget } = held;
        tell!(
            debug,
            "a round of reclamation is over",
            device = &*core.name,
            round = round,
            in_use = in_use,
            cached = cached,
            budget = budget
        );
    }
}

/// An allocation found no memory after every round.
pub(crate) fn out_of_memory(core: &Core, bytes: u64) {
    if let Some(held) = Held::of(core) {
        let Held { in_use, cached, budget } = held;
        tell!(
            warn,
            "an allocation found no memory",
            device = &*core.name,
            bytes = bytes,
            in_use = in_use,
            cached = cached,
            budget = budget
        );
    }
}

/// What a device's pool holds, in bytes.
struct Held {
    in_use: u64,
    cached: u64,
    budget: u64,
}

impl Held {
    /// `None` where nobody is told: then the pool's lock is not taken.
    fn of(core: &Core) -> Option<Held> {
        if !cfg!(feature = "tracing") {
            return None;
        }
        let pool = core.pool.lock();
        Some(Held { in_use: pool.live, cached: pool.cached, budget: pool.budget })
    }
}
