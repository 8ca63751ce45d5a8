//! Sleep: a condition that the completion handlers signal.

use std::time::Instant;

use rig_edge::{Fault, Sleep};

use crate::driver::Metal;

impl Metal {
    /// Sleeps until the word moves or the time is over. Gives the device's failure, every time.
    pub(crate) fn doze(&self, sleep: Sleep) -> Result<(), Fault> {
        let until = Instant::now().checked_add(sleep.still);
        let mut state = self.shared.lock();
        if state.stopped {
            return Err(Fault::here("a sleep on a stopped device is invalid"));
        }
        loop {
            state.check()?;
            if self.shared.shown() != sleep.seen {
                return Ok(());
            }
            let timed_out = match until {
                Some(until) => self.shared.moved.wait_until(&mut state, until).timed_out(),
                None => {
                    self.shared.moved.wait(&mut state);
                    false
                }
            };
            if timed_out {
                return state.check();
            }
        }
    }
}
