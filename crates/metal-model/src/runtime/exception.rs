//! Exceptions: thrown as a Rust unwind that carries the object, caught by [`catch`].
//!
//! The two functions have the signatures of `objc2::exception`, which on Apple's systems do the same through the system's
//! runtime. A Rust panic passes through [`catch`] unchanged. A throw that no [`catch`] of its thread waits for ends the
//! process, as it does on a Mac.
//!
//! Threads: an exception unwinds the thread that throws it.

use std::{
    any::Any,
    cell::Cell,
    panic::{self, AssertUnwindSafe, UnwindSafe},
};

use objc2::{exception::Exception, rc::Retained, runtime::AnyObject};
use objc2_foundation::NSException;

use super::{foundation, misuse};

/// What unwinds.
struct Thrown(Option<Retained<Exception>>);

// SAFETY: a thrown object is caught by the thread that threw it; the bound is that of unwind payloads in general.
unsafe impl Send for Thrown {}

thread_local! {
    /// How many `catch` are under way on this thread.
    static CATCHING: Cell<usize> = const { Cell::new(0) };
}

/// Calls the closure and catches an exception that it throws.
///
/// # Errors
///
/// The exception; `None` where nil was thrown.
pub fn catch<R>(closure: impl FnOnce() -> R + UnwindSafe) -> Result<R, Option<Retained<Exception>>> {
    struct Catching;
    impl Drop for Catching {
        fn drop(&mut self) {
            CATCHING.set(CATCHING.get() - 1);
        }
    }
    CATCHING.set(CATCHING.get() + 1);
    let catching = Catching;
    let result = panic::catch_unwind(AssertUnwindSafe(closure));
    drop(catching);
    result.or_else(|payload| match payload.downcast::<Thrown>() {
        Ok(thrown) => Err(thrown.0),
        Err(panic) => panic::resume_unwind(panic),
    })
}

/// Throws an exception.
pub fn throw(exception: Retained<Exception>) -> ! {
    unwind(Some(exception))
}

/// Throws an `NSException` of this name and reason.
pub fn raise(name: &str, reason: &str) -> ! {
    throw(NSException::into_exception(foundation::exception(name, reason)))
}

/// What a payload of `catch_unwind` says, for people, if it is an exception.
pub fn describe(payload: &(dyn Any + Send)) -> Option<String> {
    let thrown = payload.downcast_ref::<Thrown>()?;
    Some(thrown.0.as_deref().map_or_else(|| "exception nil".to_owned(), |exception| format!("{exception:?}")))
}

fn unwind(exception: Option<Retained<Exception>>) -> ! {
    if CATCHING.get() == 0 {
        match exception {
            Some(exception) => misuse(format_args!("uncaught {exception:?}")),
            None => misuse("uncaught exception nil"),
        }
    }
    panic::resume_unwind(Box::new(Thrown(exception)))
}

/// # Safety
/// Null or an object.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn objc_exception_throw(exception: *mut AnyObject) -> ! {
    // SAFETY: the caller's promise; an object of any class can be thrown as an exception.
    unwind(unsafe { Retained::retain(exception.cast::<Exception>()) })
}
