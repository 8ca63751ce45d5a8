//! Collectives over several GPUs and machines: NVIDIA's NCCL in fills of CUDA devices.
//!
//! [`connect`] makes a [`Communicator`] over the devices of all processes. Each device is a [`Rank`], which adds operations to
//! submissions of its device; rig orders them with all else by the memory that they read and write.
//!
//! ```no_run
//! # #![expect(unsafe_code, reason = "runs fills")]
//! use rig_nccl::{Options, Reduce, Type, World};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // SAFETY: first thing in main, with no other thread.
//! unsafe { rig_nccl::prepare() };
//! let world = World::from_env()?;
//! let gpus = world.share(rig_cuda::count())?;
//! let devices = gpus.map(|gpu| rig::open(rig_cuda::gpu(gpu))).collect::<rig::Result<Vec<_>>>()?;
//! let communicator = rig_nccl::connect(&world, &devices, Options::default())?;
//! for (index, device) in devices.iter().enumerate() {
//!     let rank = communicator.rank(index);
//!     let gradients = device.from_slice(&[rank.rank() as f32; 1024])?;
//!     let sum = rank.all_reduce(device.submission(), 0, 0, Type::F32, Reduce::Sum).make()?;
//!     // SAFETY: the fill has NCCL add up slot 0 of all ranks, and touches nothing else.
//!     unsafe { sum.take().launch(&[&gradients])? };
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Nothing of NCCL is needed to build: its library (2.18 or later) is opened when a communicator is made, and where it is
//! missing the reason says what to install.
//!
//! # Processes and ranks
//!
//! A *process* has one communicator of the world, over one device or several; a *rank* is one device in it. [`World`] says
//! which process this is and where they meet, from the variables of torchrun, mpirun and srun or from the program.
//!
//! # Order
//!
//! The caller owes that all ranks are given the same collectives in the same order, as at [`Rank::add`]. One thread may drive
//! all ranks of a process, one after the other, or each rank may have a thread of its own: no fill waits for another rank,
//! since all connections are made when the communicator is. Between the submits of one collective to two GPUs, a thread that
//! drives both must make no call that waits for the first: a wait for its point, or one in which CUDA waits for the GPU
//! (an allocation that finds no room in rig's cache may free memory, which does).
//!
//! A device runs its work in a line. To have communication overlap computation, open a second device on the same GPU for the
//! communicator, and lend it the buffers (`Buffer::borrow`): rig orders the two by the memory.
//!
//! # Failure
//!
//! A process that ends, a process that hangs, a device that is lost, an error of NCCL's, an operation that stands for too long:
//! each loses the devices of every rank, on every machine, with the reason, and ends NCCL's work. Waits then answer `Lost`. The
//! devices open again, and a new communicator can be made of the processes that are left. How long it takes, and why no value
//! passes as done that held an operation which was cut off, is in `docs/nccl.md` of the repository.
//!
//! # Threads
//!
//! Everything may be called from any thread. A communicator has one thread of its own, and one for each connection: process 0
//! has a connection to each other process.
//!
//! # Sources
//!
//! NCCL's documentation and its header `nccl.h`.

mod communicator;
mod error;
mod fate;
mod host;
mod lane;
mod meet;
mod member;
mod operation;
mod place;
mod plan;
mod rank;
#[expect(unsafe_code, reason = "the boundary to NCCL's library")]
mod sys;
mod warm;
mod watch;
mod wire;
mod world;

pub use communicator::{Communicator, Options, connect, connect_on, prepare};
pub use error::{Error, Result};
pub use lane::{Gpu, GpuSeat, Lane};
pub use operation::{Operation, Reduce, Type};
pub use place::Place;
pub use rank::Rank;
pub use world::World;
