//! From a function's bitcode to machine code.

pub mod abi;
pub(crate) mod bitcode;
#[expect(unsafe_code, reason = "LLVM runs on a stack of its own")]
mod guard;
#[expect(unsafe_code, reason = "handles of LLVM's C API")]
mod llvm;
