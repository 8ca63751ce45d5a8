//! LLVM's fatal errors as errors.
//!
//! LLVM ends the process on what it calls fatal, such as an instruction that its code generator cannot select. Its
//! handler must not return; so LLVM runs on a fiber, and the handler leaves that fiber for good. What the fiber held
//! (LLVM's memory, its stack) is leaked then.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Once;

use llvm_sys::error_handling::LLVMInstallFatalErrorHandler;

use crate::fiber::{Stack, StackPointer, enter, leave};

/// Bytes of the stack that LLVM runs on: its passes recurse, and pages that are not touched cost nothing.
const STACK_BYTES: usize = 64 << 20;

/// A call of LLVM that runs on this thread.
struct Guard {
    caller: StackPointer,
    fatal: Option<String>,
}

thread_local! {
    static CURRENT: Cell<*mut Guard> = const { Cell::new(ptr::null_mut()) };
}

/// Where the caller of a guard was left, or is to be.
fn caller(guard: *mut Guard) -> *mut StackPointer {
    // SAFETY: guards live in the frame of `call`, which waits for its fiber on the same thread.
    unsafe { &raw mut (*guard).caller }
}

/// What the fiber runs, and where its outcome goes.
struct Call<F, T> {
    work: Option<F>,
    outcome: Option<Result<T, Box<dyn Any + Send>>>,
    guard: *mut Guard,
}

/// Called by LLVM instead of ending the process.
extern "C" fn fatal(reason: *const c_char) {
    let guard = CURRENT.get();
    if guard.is_null() {
        return;
    }
    // SAFETY: LLVM hands a text that ends with a zero byte.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
    // SAFETY: the guard lives in the frame of `guarded`, which waits for this fiber on the same thread.
    unsafe { (*guard).fatal = Some(reason) };
    // SAFETY: as above; the caller's stack pointer was stored when this fiber was entered, and this fiber is never
    // entered again.
    unsafe { leave(caller(guard)) };
}

extern "C" fn run<F: FnOnce() -> T, T>(call: *mut c_void) -> ! {
    // SAFETY: `guarded` passes its own call, which it keeps until the fiber has left.
    let call = unsafe { &mut *call.cast::<Call<F, T>>() };
    if let Some(work) = call.work.take() {
        call.outcome = Some(catch_unwind(AssertUnwindSafe(work)));
    }
    // SAFETY: the guard outlives the fiber, and the fiber is done.
    unsafe { leave(caller(call.guard)) };
    unreachable!("a fiber that was left for good is not entered again")
}

/// Runs work that calls LLVM; a fatal error of LLVM's is an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static ONCE: Once = Once::new();
    // SAFETY: the handler fits LLVM's type, and LLVM calls it on the thread that met the error.
    ONCE.call_once(|| unsafe { LLVMInstallFatalErrorHandler(Some(fatal)) });
    if !CURRENT.get().is_null() {
        // Within guarded work already.
        return Ok(work());
    }
    call(work)
}

fn call<F: FnOnce() -> T, T>(work: F) -> Result<T, String> {
    let stack = Stack::new(STACK_BYTES).map_err(|why| format!("no stack for LLVM: {why}"))?;
    let mut guard = Guard { caller: StackPointer::none(), fatal: None };
    let guard_at = &raw mut guard;
    let mut call = Call { work: Some(work), outcome: None, guard: guard_at };
    let call_at = &raw mut call;
    CURRENT.set(guard_at);
    let start = stack.prepare(run::<F, T>, call_at.cast());
    // SAFETY: the stack was just prepared and is alive, and `guard` keeps this thread's own stack pointer meanwhile.
    unsafe { enter(caller(guard_at), start) };
    CURRENT.set(ptr::null_mut());
    if let Some(reason) = guard.fatal.take() {
        // Frames of LLVM and of the work still lie on the stack, and may be pointed at.
        std::mem::forget(stack);
        return Err(reason);
    }
    match call.outcome.take() {
        Some(Ok(value)) => Ok(value),
        Some(Err(panic)) => resume_unwind(panic),
        None => Err("LLVM left its work undone".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fatal_error_of_llvm_is_an_error_and_the_thread_goes_on() {
        let answer = guarded(|| fatal(c"cannot select".as_ptr()));
        assert_eq!(answer, Err("cannot select".to_owned()));
        assert_eq!(guarded(|| 7), Ok(7));
    }

    #[test]
    fn a_panic_passes_through() {
        let caught = catch_unwind(|| guarded(|| panic!("seven")));
        assert_eq!(caught.err().and_then(|panic| panic.downcast_ref::<&str>().copied()), Some("seven"));
        assert_eq!(guarded(|| 7), Ok(7));
    }
}
