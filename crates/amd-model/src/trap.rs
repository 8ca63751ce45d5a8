//! Traps: a look at the machine just before the host's first store to a ring or a doorbell.
//!
//! Between the stores of a header and of its packet's body lie a few nanoseconds, in which no other thread is sure to look.
//! So the pages that the host has of a ring and of the doorbells are made read-only; a store faults, the handler of the
//! signal shows the address to the machine, opens the page, and the store is done. The machine closes a ring when its
//! doorbell is rung, and the doorbells once they are heard.
//!
//! # Invariants
//!
//! 1. Only code outside of this crate stores to trapped pages, and it does so without any lock of the machine's: the handler
//!    runs on that thread and may take them. The model itself reaches the same memory through mappings of its own.
//! 2. A fault at another address goes to the handler that was there before.
//!
//! This costs a fault for every submission, and an exchange of the process's handler of SIGSEGV; it is for tests of the order
//! in which a driver publishes, and off unless a builder asks for it.

use crate::machine::Shared;
use rustix::mm::MprotectFlags;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Pages that trap, and whose machine.
struct Trap {
    begin: usize,
    len: usize,
    machine: Weak<Shared>,
}

static TRAPS: Mutex<Vec<Trap>> = Mutex::new(Vec::new());

/// What handled the signal before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Lets stores to pages trap.
pub(crate) fn set(begin: usize, len: usize, machine: &Arc<Shared>) {
    PREVIOUS.get_or_init(install);
    let machine = Arc::downgrade(machine);
    let mut traps = TRAPS.lock().unwrap_or_else(PoisonError::into_inner);
    traps.retain(|trap| trap.machine.strong_count() > 0);
    traps.push(Trap { begin, len, machine });
    drop(traps);
    close(begin, len);
}

/// Takes traps out that lie in a range, which is about to be unmapped.
pub(crate) fn forget(begin: usize, len: usize) {
    let mut traps = TRAPS.lock().unwrap_or_else(PoisonError::into_inner);
    traps.retain(|trap| trap.begin + trap.len <= begin || begin + len <= trap.begin);
}

/// The next store to the pages traps.
pub(crate) fn close(begin: usize, len: usize) {
    protect(begin, len, MprotectFlags::READ);
}

/// Stores to the pages are done.
pub(crate) fn open(begin: usize, len: usize) {
    protect(begin, len, MprotectFlags::READ | MprotectFlags::WRITE);
}

fn protect(begin: usize, len: usize, flags: MprotectFlags) {
    // SAFETY: the pages were mapped through the machine, for reads and writes; a store that faults meanwhile is done again
    // once the handler has opened them.
    let result = unsafe { rustix::mm::mprotect(begin as *mut _, len, flags) };
    // The caller may have unmapped them: then nothing traps there.
    let _ = result;
}

fn install() -> libc::sigaction {
    // SAFETY: a struct of integers and a set of signals: all zeros are a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: as above.
    let mut previous: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both structs are whole; the handler has the signature that SA_SIGINFO asks for.
    let result = unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut previous) };
    assert_eq!(result, 0, "the system takes a handler of SIGSEGV");
    previous
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler of SIGSEGV the fault's information, which stays while the handler runs.
    let told = unsafe { &*info };
    // SAFETY: of SIGSEGV, the information holds an address.
    let address = unsafe { told.si_addr() } as usize;
    let found = {
        let traps = TRAPS.lock().unwrap_or_else(PoisonError::into_inner);
        let trap = traps.iter().find(|trap| (trap.begin..trap.begin + trap.len).contains(&address));
        trap.map(|trap| (trap.begin, trap.len, trap.machine.upgrade()))
    };
    match found {
        Some((begin, len, machine)) => {
            if let Some(machine) = machine {
                machine.trapped(address);
            }
            open(begin, len);
        }
        None => pass_on(signal, info, context),
    }
}

/// Gives a fault that is none of the traps' to the handler before.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS.get();
    match previous.filter(|previous| previous.sa_flags & libc::SA_SIGINFO != 0 && previous.sa_sigaction > 1) {
        Some(previous) => {
            // SAFETY: with SA_SIGINFO the number is the address of a function of this signature.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(previous.sa_sigaction) };
            handler(signal, info, context);
        }
        None => {
            // SAFETY: the default action is a handler; the store faults again and ends the process.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        }
    }
}
