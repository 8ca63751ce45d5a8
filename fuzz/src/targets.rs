//! The targets: each is a function of bytes that panics where a property does not hold.

pub mod amd;
pub mod bytes;
pub mod cli;
pub mod cuda;
pub mod host;
pub mod metal;
pub mod nccl;
pub mod shader;
