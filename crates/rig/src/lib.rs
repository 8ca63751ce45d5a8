//! rig runs work on a machine's devices.
//!
//! A program opens devices, allocates memory, loads images, makes a submission once and runs it many times with other
//! buffers and parameters. rig orders work by the memory it reads and writes, so a program names no event, fence or
//! stream. It takes memory back without a free, and a lost device is a state instead of a hang.
//!
//! ```
//! use rig::write;
//!
//! fn main() -> rig::Result<()> {
//!     // A kernel that is a Rust function: a group takes as many floats as it has threads.
//!     let kernels = rig_host::Kernels::new().group("double", 8, |params, at| {
//!         let threads = at.threads[0] as usize;
//!         // SAFETY: the launch has a thread for each float of slot 0, and no other group touches these.
//!         let x: &mut [f32] = unsafe { params.slice_mut(0, at.group[0] as usize * threads, threads) };
//!         x.iter_mut().for_each(|x| *x *= 2.0);
//!     });
//!     let device = rig::open(rig_host::cores())?;
//!     let double = device.load(&kernels.image())?.function("double")?;
//!     let x = device.buffer(4 * 256)?;
//!     x.write(|x: &mut [f32]| x.fill(1.5))?;
//!     let step = device.submission().launch(&double, [write(0)]).make()?;
//!     let mut run = step.take();
//!     run.part(0).groups([4, 1, 1]).threads([64, 1, 1]);
//!     // SAFETY: the kernel touches nothing but the 256 floats of slot 0.
//!     unsafe { run.launch(&[&x])? };
//!     // The read waits for the launch, because the launch writes x.
//!     assert_eq!(x.read(|x: &[f32]| x[255])?, 3.0);
//!     Ok(())
//! }
//! ```
//!
//! # Order
//!
//! 1. A device runs its values one after the other, each whole.
//! 2. Work that reads an allocation starts after the last write of it on every device.
//! 3. Work that writes it starts after every use of it on every device.
//! 4. Work starts after the points that the caller names ([`Run::after`]).
//! 5. The host's own reads and writes ([`Buffer::read`], [`Buffer::write`]) obey 2 and 3, and work waits for them.
//!
//! # Memory
//!
//! Dropping a buffer never waits. Its memory comes back once no work uses it, goes to the device's cache, and from there
//! to later buffers or back to the driver. An allocation that does not fit makes rounds of reclamation: it takes back
//! what has completed, waits for what was dropped and still runs, gives the cache back, and only then is
//! [`Error::OutOfMemory`].
//!
//! Memory need not be copied to be shared: [`Buffer::borrow`] gives another device access to it, [`Buffer::from_host`] wraps
//! host memory, and [`Buffer::consume`] gives an input's memory to a result where nobody else can see it.
//!
//! # Waiting
//!
//! A submit returns a [`Point`] and waits for no work. [`Point::wait`] blocks; `point.await` does not, on any executor, and one
//! thread a device serves all that wait so.
//!
//! # Loss
//!
//! A fault or a hang loses the device once, with one reason. Its points that were reached stay reached, the others are
//! [`Error::Lost`] for ever, and so is every value of another device that waited for one of them. Memory that a failed
//! value wrote is refused until it is wholly written anew. Other devices go on; the same hardware can be opened again at
//! once.
//!
//! # Logs
//!
//! With the feature `tracing`, rig tells a program's log, by events of the crate `tracing` with the target `rig`, which
//! devices were opened, closed and lost and why, which allocations found no memory, and at the levels DEBUG and TRACE each
//! round of reclamation, each growth of a driver and each region of memory that a driver made. A subscriber runs with no lock
//! of rig's held, and may use rig. Nothing is told of a submit or a wait; [`Profile`] is for those.
//!
//! # Seeing what runs
//!
//! [`Profile::take`] gives what every device and the host did while a closure ran. And a program that knows nothing of profiles
//! is traced as it is, where the variable `RIG_TRACE` names a file when it opens its first device:
//!
//! ```console
//! $ RIG_TRACE=trace.html cargo run --release --example pipeline
//! ```
//!
//! The file is written when the process exits, whichever devices are still open then, as [`Profile::write_file`] does: a page
//! (`.html`), a text (`.txt`) or a Chrome trace. Several files are parted as in `PATH`, and `%p` in a name is the process's
//! number. The trace begins with the first open and holds 262,144 spans at most. A process that a signal or an abort ends writes
//! none. Without the variable nothing is done, but for one look at the environment at the first open.
//!
//! # Inside callbacks
//!
//! Inside a fill or a kernel of the host's devices, a call that could wait or submit is [`Error::Invalid`] and changes
//! nothing. Inside a closure over a buffer all calls work, but one that would have to wait for a closure to end is
//! Invalid, since it might wait for itself.

mod allocation;
mod best;
mod buffer;
mod bulk;
mod copy;
mod device;
mod dropped;
mod error;
mod events;
mod future;
mod gate;
mod hold;
mod host;
mod image;
mod mapped;
mod memory;
mod peer;
mod point;
mod primitive;
mod profile;
mod run;
mod stamps;
mod submission;
mod submit;
mod timeline;
mod typed;
mod wait;

pub use best::{Best, Candidate, best_of};
pub use buffer::{Buffer, Claim};
pub use copy::{Copied, CopyPath};
pub use device::{Device, open};
pub use error::{Error, Result};
pub use future::PointFuture;
pub use host::{HostMemory, HostPages, NotWrapped};
pub use image::{Function, Image};
pub use point::Point;
pub use profile::{HostSpan, HostWork, Interval, PartRan, Profile, ValueSpan};
pub use rig_edge::{Dma, Facts, Memory};
pub use run::{PartMut, Run};
pub use submission::{Builder, RefSpec, Submission, read, write};
pub use typed::TypedBuffer;
