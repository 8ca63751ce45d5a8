//! The core on the model device: hostile schedules, faults and shortages, each decided by the test.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails its test")]

mod apart;
mod behind;
mod close;
mod code;
mod dma;
mod fill;
mod future;
mod host_memory;
mod loss;
mod order;
mod profile;
mod reclaim;
mod sharing;
mod support;
