//! The end of a device.
//!
//! # Invariants
//!
//! 1. The kernel ends a queue with all that runs on it before it answers. So after `stop` no work of the device runs, and the
//!    host may raise the word to the last value.

use rig_edge::Fault;

use crate::Amd;

impl Amd {
    /// Ends the device without waiting for its work.
    pub(crate) fn end(&self) -> Result<(), Fault> {
        let Some(hot) = self.hot.lock().take() else { return Ok(()) };
        let stamps = self.clock.get().and_then(|clock| clock.close());
        let last = hot.flights.last();
        let ended = hot.queues.end(&self.gpu);
        if self.word.load() < last {
            self.word.raise(last);
        }
        if ended.is_ok() {
            for own in self.own.lock().drain(..).chain(hot.scratch.all()).chain(stamps) {
                // SAFETY: the queues are no more, and nothing else used it.
                #[expect(unsafe_code, reason = "gives memory back")]
                unsafe {
                    own.free(&self.gpu);
                }
            }
        }
        for event in self.events.all() {
            // An event that the kernel does not end goes with the process.
            let _ = self.gpu.kfd().destroy_event(event);
        }
        ended.or_else(|failure| if self.gpu.lost().is_some() { Ok(()) } else { Err(self.gpu.fault(&failure)) })
    }
}

impl Drop for Amd {
    fn drop(&mut self) {
        // rig stops every device that it opened; this is for one whose opening went no further.
        let _ = self.end();
    }
}
