//! A software AMD GPU: what stands under the calls of Linux's kernel driver for AMD's GPUs, with no GPU.
//!
//! A driver that speaks to `/dev/kfd` and a render node calls a [`Machine`] instead of the kernel: [`Machine::open`],
//! [`Machine::ioctl`], [`Machine::mmap`], [`Machine::munmap`], [`Machine::read_text`]. All above those calls is then what
//! ships. Rings, doorbells, words and memory are pages at real addresses, which the driver maps, writes and reads as it would
//! a GPU's; a thread of the machine hears the doorbells and runs what is in the rings, down to the gfx1100 instructions of
//! the kernels.
//!
//! The model is stricter than the hardware and the kernel. What a driver does wrong is a [`Violation`], typed and kept:
//! [`Machine::assert_clean`] fails the test that looks. Where hardware or kernel would answer with an error, a fault or a
//! hang, the machine does that too, so that the driver's own paths for it run.
//!
//! ```
//! use rig_amd_model::Machine;
//!
//! let machine = Machine::builder().seed(7).gpus(2).build();
//! let root = "/sys/devices/virtual/kfd/kfd/topology/nodes";
//! assert_eq!(machine.list(root).unwrap(), ["0", "1", "2"]);
//! let kfd = machine.open("/dev/kfd").unwrap();
//! machine.close(kfd);
//! machine.assert_clean();
//! ```
//!
//! What it models, what can be made to go wrong, and what it does not model: [`docs`].
//!
//! # How it is made
//!
//! All state is one struct behind one lock (`state`). The kernel's calls (`kfd`) take it once each; the engine's thread
//! (`machine`) takes it for a batch of steps. A step (`scheduler`) hears the doorbells, lists what can move, and lets the seed
//! choose: the head of a ring (`aql` with `pm4`, `sdma`), or a dispatch that runs, whose work-groups ([`isa`]) reach memory
//! through `shader`. Between engines and the pages (`raw`) lie the mappings (`memory`) and the caches (`caches`).

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod aql;
mod caches;
mod control;
pub mod docs;
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
