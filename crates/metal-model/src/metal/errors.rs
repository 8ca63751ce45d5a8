//! Errors as Metal gives them.

use objc2::rc::Retained;
use objc2_foundation::{NSError, NSInteger};

use crate::{protocol::MTLLibraryError, queue::work::Failed, runtime::foundation};

/// The domain of what makes a command buffer fail.
pub(crate) const COMMAND_BUFFER_DOMAIN: &str = "MTLCommandBufferErrorDomain";
/// The domain of what makes a library, a function or a pipeline fail.
const LIBRARY_DOMAIN: &str = "MTLLibraryErrorDomain";
/// The domain of a residency set's failure.
const DEVICE_DOMAIN: &str = "MTLDeviceErrorDomain";

/// Why a command buffer failed.
pub(crate) fn command_buffer(failed: &Failed) -> Retained<NSError> {
    foundation::error(COMMAND_BUFFER_DOMAIN, failed.code.0.cast_signed(), &failed.why)
}

/// Why a library, a function or a pipeline cannot be had.
pub(crate) fn library(code: MTLLibraryError, why: &str) -> Retained<NSError> {
    foundation::error(LIBRARY_DOMAIN, code.0.cast_signed(), why)
}

/// Why the device cannot make something.
pub(crate) fn device(code: NSInteger, why: &str) -> Retained<NSError> {
    foundation::error(DEVICE_DOMAIN, code, why)
}

/// Puts an error where a message wants it, autoreleased as Metal's are.
///
/// # Safety
/// `place` is null, or a place for a reference.
pub(crate) unsafe fn put(place: *mut *mut NSError, error: Retained<NSError>) {
    if !place.is_null() {
        // SAFETY: the caller's place.
        unsafe { *place = Retained::autorelease_ptr(error) };
    }
}
