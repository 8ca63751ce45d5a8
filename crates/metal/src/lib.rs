//! The Mac's GPU for rig, through Apple's Metal.
//!
//! [`gpu`] opens it, and [`count`] says whether there is one. Images are metallibs, as Apple's Metal compiler makes them. A device
//! opens on macOS 15 or later, on a GPU of an Apple or a Mac family; the crate builds on every system, and where there is no
//! Metal the reason says so. With the feature `model` devices open on x86-64 Linux too, on software Metal (the crate
//! rig-metal-model), which runs the same metallibs: for tests.
//!
//! # How work runs
//!
//! A device owns a Metal command queue, and keeps at most one open command buffer. Each submit encodes its launches into it and
//! returns. The device commits it when a wait asks for one of its values, when the GPU could run out of work, and after 256
//! values. As each command buffer completes, Metal calls a handler of the device on a thread of Metal's, which stores into the
//! device's word the last value of each command buffer that has completed with all before it.
//!
//! A launch's parameters are kernel buffer 0: a `constant` or `device` struct whose refs are pointers, or words. They lie in an
//! arena of the device's, on 256 bytes each. All memory is shared: the host addresses it, and copies and sets bytes itself.
//!
//! # Names of functions
//!
//! A function may be resolved with values of its function constants, by its name:
//! `image.function("gemm{align_M=true, 10=3u32, 11=1.5f32}")`. Each constant is named as in the source or by its index; its value
//! is a literal as Rust writes it, with its type as the suffix (`bool`s need none): i8, u8, i16, u16, i32, u32, i64, u64, f16 or
//! f32. Spaces are free. Each spelling is a function of its own, with a pipeline of its own. A constant that the function does
//! not have, or a value of another type, is Invalid and the error says which there are.
//!
//! # Fills
//!
//! A fill gets an [`Encoder`]: the open command buffer's compute encoder, and the means to end it, to commit the command buffer and
//! to start the next. `Function::entry` of rig gives the [`Entry`] of a function, whose pipeline a fill
//! can run. [`Capability::icb`] records launches once, for fills to run ([`Encoder::execute`]). Fills may be compiled code:
//! [`abi`] and `include/rig_metal.h`. A fill that uses Metal objects of its own keeps them by the submission, since command
//! buffers retain nothing here.
//!
//! # Failure
//!
//! A submit fails at once where a fill fails, Metal makes no command buffer or encoder, or Metal raises an exception; later where
//! Metal reports that a command buffer failed. The first failure stays, and loses the device. Metal itself ends work that runs
//! too long, so there is no hang bound.
//!
//! # Limits
//!
//! * A queue of Metal's holds 1,024 command buffers: a submit that would need one more blocks until one completes.
//! * Textures, samplers, heaps and ray tracing are for fills.
//! * No other device reaches a device's memory by DMA, and devices map none of one another's: Metal offers neither.
//!
//! # Sources
//!
//! Apple's headers of Metal (macOS 26 SDK), the Metal Shading Language Specification, and the Metal Feature Set Tables.
//! `docs/metal.md` of the repository says what is proved, and how.

#[cfg(rig_metal)]
pub mod abi;
#[cfg(not(rig_metal))]
mod absent;
#[cfg(any(rig_metal, test))]
#[cfg_attr(not(rig_metal), expect(dead_code, reason = "tested everywhere, used where there is Metal"))]
mod arena;
#[cfg(rig_metal)]
mod capability;
#[cfg(rig_metal)]
mod code;
#[cfg(rig_metal)]
mod compile;
#[cfg(rig_metal)]
mod completion;
#[cfg(any(rig_metal, test))]
#[cfg_attr(not(rig_metal), expect(dead_code, reason = "tested everywhere, used where there is Metal"))]
mod constants;
#[cfg(rig_metal)]
mod driver;
#[cfg(rig_metal)]
mod encoder;
#[cfg(rig_metal)]
mod facts;
#[cfg(rig_metal)]
mod grow;
#[cfg(rig_metal)]
mod icb;
#[cfg(rig_metal)]
mod limits;
#[cfg(rig_metal)]
mod memory;
#[cfg(rig_metal)]
mod object;
#[cfg(rig_metal)]
mod open;
mod opener;
#[cfg(rig_metal)]
mod params;
#[cfg(any(rig_metal, test))]
#[cfg_attr(not(rig_metal), expect(dead_code, reason = "tested everywhere, used where there is Metal"))]
mod ring;
#[cfg(rig_metal)]
mod running;
#[cfg(rig_metal)]
mod sleep;
#[cfg(rig_metal)]
mod state;
#[cfg(rig_metal)]
mod stop;
#[cfg(rig_metal)]
pub mod sys;
#[cfg(rig_metal)]
mod work;

#[cfg(not(rig_metal))]
pub use absent::{Metal, count};
#[cfg(rig_metal)]
pub use capability::Capability;
#[cfg(rig_metal)]
pub use code::{Entry, Image};
#[cfg(rig_metal)]
pub use driver::Metal;
#[cfg(rig_metal)]
pub use encoder::Encoder;
#[cfg(rig_metal)]
pub use icb::{Icb, IndirectLaunch};
#[cfg(rig_metal)]
pub use memory::Region;
#[cfg(rig_metal)]
pub use open::count;
pub use opener::{GpuOpener, gpu};
