//! The end of a device.
//!
//! # Invariants
//!
//! 1. Once the word shows the last value and `stop` has returned, nothing writes the word: the handler that completes the last
//!    command buffer writes the last value, or `stop` does where none is left, and each writes only a value above what the
//!    word shows.

use crate::driver::Metal;

impl Metal {
    /// Ends the device without waiting for its work.
    pub(crate) fn end(&self) {
        objc2::rc::autoreleasepool(|_| {
            let mut state = self.shared.lock();
            if state.stopped {
                return;
            }
            state.stopped = true;
            state.drop_open();
            let released = (state.running.take(), state.handler.take());
            // The arenas stay while committed work may read them: its last handler releases them.
            if state.ring.uncompleted() == 0 {
                state.release();
                let last = state.last;
                self.shared.raise(&mut state, last);
            }
            drop(state);
            drop(released);
            self.shared.wake();
        });
    }
}

impl Drop for Metal {
    fn drop(&mut self) {
        // rig stops every device that it opened; this is for one whose opening went no further. The handler and the state hold
        // one another until then.
        self.end();
    }
}
