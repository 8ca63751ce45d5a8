//! Metal's interface: Apple's on macOS, software Metal's on Linux with the feature `model`.
//!
//! This is the one place where the two differ. The names and the signatures are the same, so a program that writes fills for
//! both takes them from here. Calls that may raise an Objective-C exception go through `guard`.

use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(target_os = "macos")]
pub use objc2::exception;
#[cfg(target_os = "macos")]
pub use objc2_metal::*;

#[cfg(not(target_os = "macos"))]
pub use rig_metal_model::protocol::*;
#[cfg(not(target_os = "macos"))]
pub use rig_metal_model::runtime::exception;

// The system's default device is Core Graphics' to know: without the framework in the process there is none.
#[cfg(target_os = "macos")]
#[expect(unsafe_code, reason = "links a framework, and declares nothing of it")]
#[link(name = "CoreGraphics", kind = "framework")]
unsafe extern "C" {}

/// Runs calls on Metal. An Objective-C exception that one of them raises ends the closure, and is the error.
pub(crate) fn guard<R>(calls: impl FnOnce() -> R) -> Result<R, String> {
    exception::catch(AssertUnwindSafe(calls)).map_err(|raised| match raised {
        Some(raised) => format!("Metal raised an exception: {raised}"),
        None => "Metal raised an exception without a reason".into(),
    })
}

/// Runs calls on Metal and code of others'. An exception or a panic ends the closure, and is the error.
pub(crate) fn guard_panics<R>(calls: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    // The exception is caught inside: one that met catch_unwind would be foreign to it.
    match catch_unwind(AssertUnwindSafe(|| guard(calls))) {
        Ok(Ok(answer)) => answer,
        Ok(Err(raised)) => Err(raised),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            Err(format!("a panic while work was encoded: {}", text.unwrap_or("without a message")))
        }
    }
}
