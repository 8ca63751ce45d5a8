//! A software AMD GPU: what stands under the calls of Linux's kernel driver for AMD's GPUs, with no GPU.

pub mod isa;
