//! A stand-in for NCCL's library: the functions of `nccl.h` that rig-nccl calls, over loopback and the host's memory, for
//! machines that have neither NCCL nor a GPU.
//!
//! It is a shared library of the same symbols. A "stream" is ignored: an operation is done, on the calling thread, before its
//! call or its group returns, so who calls it plays the GPU. One process, the one that made the id, holds a server thread;
//! every rank has a connection to it, sends what it was asked for, and waits for the answer.
//!
//! # What it does as NCCL does
//!
//! 1. Ranks of one or several processes and threads; groups over several communicators of one thread; sends and receives are
//!    matched in their order by pairs, collectives by theirs.
//! 2. A rank whose peer is gone waits for ever, and only an abort of its own communicator ends it.
//! 3. An abort ends what the rank waits for **as if it had been done**, with 0xAB in place of every result, and so it ends the
//!    operations that its peers wait for at that moment: as NCCL's kernels do, whose neighbours are told that data is there.
//! 4. Collectives whose kinds, lengths or types differ are not found: they hang.
//! 5. A communicator's end in good order is a collective of the ranks near one another: in the process that made the id it
//!    returns once every rank has ended its own, or is gone. So that process may end right after it, and nothing is cut off.
//!
//! # Faults
//!
//! The variable `RIG_NCCL_MODEL_FAULT` has one happen in a process: `init` (no communicator of it is ever connected),
//! `async:N` (its N-th group of operations hangs, and the communicator reports an error beside calls), `error:N` (the call
//! answers an error).
//!
//! # What it does not model
//!
//! Half-width floats, streams and their order, connections that are made at first use, CUDA's own waits for a whole GPU.

mod client;
#[expect(unsafe_code, reason = "functions for C, over memory that their callers name")]
pub mod exports;
mod math;
mod server;
mod wire;
