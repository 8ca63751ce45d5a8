//! The Objective-C runtime, a small Foundation, blocks and dispatch data, on which the model's classes stand.
//!
//! The crates objc2, objc2-foundation, block2 and dispatch2, none of them patched, call the C functions of this module
//! where on Apple's systems they call the system's. So a program written with those crates links and runs, with real
//! selectors, classes, ownership, autorelease pools and blocks.
//!
//! It is stricter than the real one: what a Mac forgives by chance is found here, every time.
//! * A message to a freed object, a retain of it or a release of it names the object's class and aborts. So does the call
//!   of a freed block. Freed objects stay in a quarantine for the next [`object::QUARANTINE`] that are freed.
//! * Autorelease with no pool is counted ([`crate::live::unpooled`]) and the object leaks, also where Apple's runtime hands
//!   the object over without a pool.
//! * [`crate::live`] counts the living objects of each class, blocks and dispatch data included.
//!
//! What it leaves out: `+initialize` on first use, forwarding of messages, properties, `@synchronized` and the dispatch
//! queues. A program that needs one of those fails to link, or its message is answered as unrecognized.
//!
//! # Invariants
//!
//! 1. A class, a method, an instance variable, a selector and a protocol live for ever once made.
//! 2. An object's `object::Header` stands directly before it, but for classes, blocks and constants, whose class says so
//!    in its flags.
//! 3. What a method cache has published never changes; a cache that must change is replaced as a whole.
//!
//! Threads: every function may be called from any thread. A message send takes no lock once its method is in the cache.

pub mod block;
pub mod class;
mod class_calls;
pub mod dispatch;
pub mod exception;
pub mod foundation;
mod lookup;
mod message;
pub(crate) mod object;
mod object_calls;
mod pool;
mod protocol_calls;
mod root;
mod selector;
mod weak;

#[cfg(test)]
mod tests;

pub use class::Class;
pub use exception::{catch, throw};
pub use object::QUARANTINE;

use std::fmt::Display;

/// Ends the process: the program has misused an object in a way that a Mac may or may not survive.
#[cold]
#[track_caller]
pub(crate) fn misuse(what: impl Display) -> ! {
    eprintln!("Objective-C: {what}\n{}", std::backtrace::Backtrace::capture());
    std::process::abort()
}
