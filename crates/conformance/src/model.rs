//! The model device: a driver whose every completion, fault, shortage, Later, growth, Encoded value and queue wait a test
//! decides, step by step or from one seed, and which checks its caller.
//!
//! A [`Model`] is the test's hand on it: [`opener`](Model::opener) opens devices, [`device`](Model::device) controls each.
//! Work is really done, on the host's memory, by kernels that are Rust closures, so that results can be checked too.
//!
//! ```
//! use rig_conformance::model::{Model, Pace, image};
//!
//! # fn main() -> rig::Result<()> {
//! let model = Model::new("MODEL");
//! let device = rig::open(model.opener())?;
//! let iota = device.load(&image(&["iota"]))?.function("iota")?;
//! let y = device.buffer(16)?;
//! let step = device.submission().launch(&iota, [rig::write(0)]).params(16).make()?;
//! let mut run = step.take();
//! run.part(0).set(8, 4_u32).set(12, 7_u32);
//! // SAFETY: iota writes four numbers to slot 0, which has room for them.
//! let point = unsafe { run.launch(&[&y])? };
//! assert!(!point.reached()?); // nothing runs until the test says so
//! model.device(0).complete_all();
//! assert!(point.reached()?);
//! y.read(|y: &[u32]| assert_eq!(y, [7, 8, 9, 10]))?;
//! # drop((run, step, y, iota, device));
//! model.assert_clean();
//! # Ok(())
//! # }
//! ```
//!
//! # What it can be told to do
//!
//! * **Pace**: run work at once, when stepped, in a sleep, or from a seed ([`Pace`]); queue waits are respected, or on
//!   purpose not ([`ModelDevice::ignore_waits`]).
//! * **Encoded** values, which run only once committed ([`ModelDevice::encode_only`]).
//! * **Later**, **Grow**, **Refused** of the next rooms; **Short** of the next growths; **no memory** for the next
//!   regions, entries, plans and images; a bound on memory and on values in flight.
//! * **Faults**: now ([`ModelDevice::fault`]), in the next call of a kind, in a kernel, of the next submit; panics in any
//!   call; opens that are refused.
//! * **Holds** of calls of a kind ([`ModelDevice::hold`]), so that a test has a thread stand inside one; code of the
//!   test's that runs in a call ([`ModelDevice::on`]).
//! * **Mappings** for which there is no memory, or that can never be made ([`ModelDevice::map_no_memory_next`],
//!   [`ModelDevice::map_never_next`]); peers between which bytes get lost ([`Options::peers_lose_bytes`]).
//! * **PCI functions**: `dma` by bus addresses or a dma-buf ([`Options::dma_bus`], [`Options::dma_buf`]); the test is the
//!   function ([`ModelDevice::dma_read`], [`ModelDevice::dma_write`]).
//! * **Work that outlives stop** ([`Options::lingers`]).
//! * **A broken promise**: a committed value that completes only once a later one was submitted (E42,
//!   [`ModelDevice::break_committed`]).
//!
//! # What it checks
//!
//! See [`Violation`]: when calls come (against stop, against each other), values, rooms, waits, memory, code, parts and
//! words. What a call that breaks a promise gets is a fault; what was seen is in [`Model::violations`], and a model that is
//! dropped with violations that nobody took panics.
//!
//! # What it does not model
//!
//! * Caches: what the work writes is seen at once. A missing flush or barrier shows on no model of this kind.
//! * Time: nothing takes any, and the hang bound is the caller's.
//! * Several queues at one time: a device runs one value after the other, in order.
//! * Group memory, barriers and threads of a group: a kernel is one call for the whole grid.
//! * Access by the host or by a PCI function while work runs, which it cannot see (the thread sanitizer does).
//! * Profiles' times.

mod bytes;
mod calls;
mod check;
mod cold;
mod control;
mod driver;
mod encoder;
mod entering;
mod hot;
mod kernel;
mod options;
mod running;
mod sharing;
mod state;
#[cfg(test)]
mod tests;
mod violation;

pub use calls::{Call, Calls};
pub use control::{Held, Model, ModelDevice};
pub use driver::{ModelDriver, ModelEntry, ModelImage, ModelOpener, ModelPlan, ModelRegion};
pub use encoder::Encoder;
pub use kernel::{Args, Grid, image};
pub use options::{Options, Pace, Tells};
pub use running::{Blocked, Ran};
pub use violation::Violation;
