//! Threads of a threadgroup as fibers of one worker's thread.
//!
//! A fiber is a stack and a stack pointer. A switch stores the registers that a call keeps, and the stack pointer, and
//! takes the other's. A fiber that is left for good is abandoned: no frame with a destructor lies on a kernel's fiber.

#[expect(unsafe_code, reason = "switches stacks, and is called by machine code")]
mod group;
#[expect(unsafe_code, reason = "switches stacks")]
mod stack;

pub(crate) use group::{Code, Ended, GroupEntry, Proof, Runner, ThreadEntry, abandon, barrier, exchange, is_entered};
pub(crate) use stack::{Stack, StackPointer, enter, leave};
