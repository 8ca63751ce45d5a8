//! From a function's bitcode to machine code.
//!
//! A function's module is read (`bitcode`, `metadata`), made one of this machine's (`specialize`), given an entry
//! (`entry`) and the checks of its accesses, compiled (`compile`) or found compiled (`cache`), and linked for each worker
//! that runs it (`link`). What the machine code and the host agree on is in `abi`; what it calls, in `host`.

pub mod abi;
pub(crate) mod bitcode;
mod cache;
pub(crate) mod compile;
mod entry;
#[expect(unsafe_code, reason = "LLVM runs on a stack of its own")]
mod guard;
#[expect(unsafe_code, reason = "is called by machine code")]
pub(crate) mod host;
#[expect(unsafe_code, reason = "handles of LLVM's linker")]
pub(crate) mod link;
#[expect(unsafe_code, reason = "handles of LLVM's C API")]
pub(crate) mod llvm;
mod metadata;
mod prove;
mod specialize;
pub(crate) mod translate;

pub(crate) use entry::{CONTEXT, GROUP_ENTRY, THREAD_ENTRY};
pub(crate) use prove::{ENTRY as PROVED_ENTRY, PROOF};
pub(crate) use specialize::TABLES;
