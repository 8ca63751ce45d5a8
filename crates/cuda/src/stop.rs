//! The end of a device.
//!
//! # Invariants
//!
//! 1. After `stop` has returned nothing but work that is on the stream writes the word, and it writes the last value that
//!    `submit` was given: its own store, or one that stop puts behind it.

use std::sync::atomic::Ordering;

use rig_edge::Fault;

use crate::Cuda;
use crate::fault::{fault, has_failed};

impl Cuda {
    /// Ends the device without waiting for its work.
    pub(crate) fn end(&self) -> Result<(), Fault> {
        self.stopped.store(true, Ordering::Release);
        // ORDERING: Acquire: pairs with the Release of `take`; no hot call runs any more.
        let (last, stored) = (self.last.load(Ordering::Acquire), self.stored.load(Ordering::Acquire));
        if has_failed() {
            // CUDA has ended all work of the process, and answers nothing any more.
            self.raise(last);
            return Ok(());
        }
        let ended = self.gpu.enter().and_then(|_current| {
            // SAFETY: the stream is alive: stop is called once.
            #[expect(unsafe_code, reason = "asks the stream")]
            let idle = unsafe { self.gpu.api.stream_query(self.stream) }?;
            if idle {
                self.raise(last);
            } else if stored < last {
                // SAFETY: as above; the word lasts as long as the process.
                #[expect(unsafe_code, reason = "writes the word behind the work")]
                unsafe { self.gpu.api.stream_write(self.stream, self.word_at, last) }?;
            }
            // SAFETY: as above, and no counted call comes any more. CUDA keeps what the work needs until it is done.
            #[expect(unsafe_code, reason = "gives the stream back")]
            unsafe {
                self.gpu.api.stream_destroy(self.stream)
            }
        });
        ended.map_err(|failure| {
            let fault = fault(self.gpu.api, failure);
            if has_failed() {
                self.raise(last);
            }
            fault
        })
    }

    /// Raises the word, where no work does it.
    fn raise(&self, last: u64) {
        if self.word.load() < last {
            self.word.raise(last);
        }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // rig stops every device that it opened; this is for one whose opening went no further.
        if !self.stopped.load(Ordering::Acquire) && !has_failed() {
            let _ = self.gpu.enter().and_then(|_current| {
                // SAFETY: the stream is alive, and nothing uses it any more.
                #[expect(unsafe_code, reason = "gives the stream back")]
                unsafe {
                    self.gpu.api.stream_destroy(self.stream)
                }
            });
        }
    }
}
