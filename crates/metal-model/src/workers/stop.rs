//! Stopping a kernel that takes too long: a signal to its worker's thread, whose handler leaves the kernel's fiber.
//!
//! # Invariants
//!
//! 1. The handler leaves a stack only where machine code, or a host function that it called, runs on a fiber; there no
//!    lock is held, and no frame has a destructor. Elsewhere it does nothing, and the worker is told again.
//! 2. The handler may itself be interrupted by the signal: the signal is not blocked while it runs, for it may not return.

use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::sync::Once;

use crate::jit::host;

/// The signal: by default it is ignored, and hardly a program uses it.
const SIGNAL: c_int = libc::SIGURG;

/// A worker's thread, to be sent the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target(libc::pthread_t);

impl Target {
    pub(super) fn this_thread() -> Self {
        // SAFETY: has no preconditions.
        Self(unsafe { libc::pthread_self() })
    }

    /// Tells the thread to leave a kernel that is late.
    pub(super) fn stop(&self) {
        // SAFETY: a worker is told while it runs a job, so its thread lives (invariant 3 of the workers).
        unsafe { libc::pthread_kill(self.0, SIGNAL) };
    }
}

/// Called on the signal.
extern "C" fn stop(_signal: c_int) {
    host::stop_if_late();
}

/// Sets the handler, once.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the structure is plain data, for which zeros are no flags, no handler and an empty mask.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = stop as *const () as usize;
        action.sa_flags = libc::SA_NODEFER | libc::SA_RESTART;
        // SAFETY: the action is whole, and its handler does what a handler may (invariants 1 and 2).
        unsafe { libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) };
    });
}
