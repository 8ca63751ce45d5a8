//! From a function's bitcode to machine code.

pub mod abi;
