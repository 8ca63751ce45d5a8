//! Metal's objects between threads.
//!
//! Apple's headers call devices, queues, libraries, functions, pipelines and fences safe to use from several threads at once,
//! and objc2-metal says so in its types. Of the others (buffers, residency sets, command buffers, encoders) a thread may use
//! any object that no other thread uses at the same time. [`Held`] carries them between threads; who sends a message to one
//! states why no other thread does so meanwhile.

use std::ops::Deref;

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;

/// A counted handle of a Metal object.
pub(crate) struct Held<P: ?Sized>(Retained<ProtocolObject<P>>);

// SAFETY: a reference count may be changed on any thread, and Metal's objects belong to no thread. Messages to the objects
// that Metal does not call safe for threads are sent under the lock that holds the handle, by the one hot call that runs, or
// only read what never changes (a buffer's length and addresses).
#[expect(unsafe_code, reason = "handles of Metal's objects go from thread to thread")]
unsafe impl<P: ?Sized> Send for Held<P> {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "handles of Metal's objects go from thread to thread")]
unsafe impl<P: ?Sized> Sync for Held<P> {}

impl<P: ?Sized> Held<P> {
    /// The address of the object.
    pub fn address(&self) -> *const std::ffi::c_void {
        Retained::as_ptr(&self.0).cast()
    }
}

impl<P: ?Sized> From<Retained<ProtocolObject<P>>> for Held<P> {
    fn from(object: Retained<ProtocolObject<P>>) -> Held<P> {
        Held(object)
    }
}

impl<P: ?Sized> Clone for Held<P> {
    fn clone(&self) -> Held<P> {
        Held(self.0.clone())
    }
}

impl<P: ?Sized> Deref for Held<P> {
    type Target = ProtocolObject<P>;

    #[inline]
    fn deref(&self) -> &ProtocolObject<P> {
        &self.0
    }
}

impl<P: ?Sized> std::fmt::Debug for Held<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:p}", self.address())
    }
}
