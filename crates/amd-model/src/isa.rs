//! The shader core: it decodes gfx1100 machine words and runs them, a work-group at a time.
//!
//! A caller that stands for the dispatcher makes a [`Dispatch`] from a packet and a kernel descriptor, and for each
//! work-group a [`WorkGroup`], which it steps until it is done. Global memory, and every cache in front of it, is the
//! caller's, behind [`Bus`]; the cache of instructions is [`Code`], which the caller owns and invalidates.
//!
//! # Invariants
//!
//! 1. Waves have 32 lanes. A kernel of wave64, and what else the core lacks, is refused by name.
//! 2. One call of [`WorkGroup::step`] advances one wave, chosen by the group's seed; the same seed makes the same order.
//! 3. Each access to memory is complete before the wave's next instruction. A bus that delays stores learns from
//!    [`Bus::acknowledge`] when the wave waits for them.
//! 4. What the hardware leaves undefined (registers and group memory at the start) is filled by the seed.
//! 5. The core is stricter than the hardware: accesses of a word that are not aligned to it, group and private memory outside
//!    the dispatch's sizes, and registers outside the descriptor's number are faults with the place and the instruction.
//!
//! Nothing here is shared between threads: who has the group steps it.
//!
//! # Sources
//!
//! "RDNA3" Instruction Set Architecture: Reference Guide (AMD, 2023), for encodings and meanings; LLVM's "User Guide for
//! AMDGPU Backend" for descriptors and the state in which a wave starts; llvm-objdump 19 for the text of instructions.

mod bus;
mod code;
mod compare;
mod decode;
mod dispatch;
mod divide;
mod exchange;
mod fault;
mod float;
mod group;
mod inst;
mod memory;
mod packed;
mod private;
mod scalar;
#[cfg(test)]
mod tests;
mod text;
mod transcend;
mod vector;
mod vector3;
mod wave;

pub use bus::{Access, AtomicOp, Bus, Caches, Scope};
pub use code::Code;
pub use dispatch::{Descriptor, Dispatch};
pub use fault::{Fault, FaultKind, Place};
pub use group::{Progress, WorkGroup};

/// Lanes of a wave.
pub const LANES: usize = 32;
