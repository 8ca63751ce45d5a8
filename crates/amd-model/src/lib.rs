//! A software AMD GPU: what stands under the calls of Linux's kernel driver for AMD's GPUs, with no GPU.

#![cfg(all(unix, target_pointer_width = "64"))]

mod aql;
mod caches;
mod control;
pub mod errno;
mod events;
mod faults;
pub mod isa;
mod kfd;
mod machine;
mod memory;
mod options;
mod pm4;
mod queue;
#[expect(unsafe_code, reason = "memory at real addresses, shared with the program under test")]
mod raw;
mod rng;
mod scheduler;
mod sdma;
mod shader;
mod state;
#[cfg(test)]
mod tests;
mod topology;
mod trace;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a handler of a signal, and the protection of pages")]
mod trap;
mod violation;
mod words;

pub use control::{Counts, Step};
pub use kfd::abi;
pub use machine::{Call, Machine};
pub use options::Builder;
pub use trace::Traced;
pub use violation::{Group, PacketFault, PublicationFault, QueueMemory, Violation, Want};
