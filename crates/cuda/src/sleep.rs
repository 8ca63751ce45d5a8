//! Sleep: waiting for the word without the processor.
//!
//! The GPU stores the word and wakes nobody, so a sleep naps and looks. An event with CUDA's blocking wait would wake the
//! thread, and would have to be put on the stream behind all that is there, after the value that is waited for.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rig_edge::{Fault, Sleep};

use crate::Cuda;
use crate::fault::sticky;

/// The shortest nap of a sleep. TIMEOUT: about the shortest that a system's timer gives.
const NAP_FIRST: Duration = Duration::from_micros(40);
/// The longest nap of a sleep. TIMEOUT: forty a second, each ten or twenty microseconds of processor time in a virtual machine.
const NAP_LAST: Duration = Duration::from_millis(25);
/// For how long naps are fine. TIMEOUT: copies of a gigabyte take twenty milliseconds.
const FINE: Duration = Duration::from_millis(32);
/// What part of the time that the word has stood a nap is, while naps are fine and after: how much later than its work a
/// wait may end.
const NAP_SHARES: [u32; 2] = [32, 12];
/// How often a sleep asks the stream. TIMEOUT: a fault is told this late at most, and CUDA itself takes several times as
/// long to find it.
const ASK_PERIOD: Duration = Duration::from_millis(25);

/// How long to nap once the word has stood for some time.
fn nap(stood: Duration) -> Duration {
    let [fine, coarse] = NAP_SHARES;
    (stood / if stood < FINE { fine } else { coarse }).clamp(NAP_FIRST, NAP_LAST)
}

impl Cuda {
    /// Sleeps until the word moves, in naps that grow with how long it has stood. Nothing tells of a fault but the stream:
    /// it is asked now and then, and at the end.
    pub(crate) fn doze(&self, sleep: Sleep) -> std::result::Result<(), Fault> {
        let start = Instant::now();
        let since = self.stands_since(sleep.seen, start);
        let mut asked = start;
        loop {
            let now = Instant::now();
            let passed = now - start;
            let over = self.word.load() != sleep.seen || passed >= sleep.still;
            if over || now - asked >= ASK_PERIOD {
                asked = now;
                self.ask()?;
            }
            if over {
                return Ok(());
            }
            // TIMEOUT: from NAP_FIRST to NAP_LAST, and no longer than is asked for.
            std::thread::sleep(nap(now - since).min(sleep.still - passed));
        }
    }

    /// Since when sleeps have seen the word at `seen`.
    fn stands_since(&self, seen: u64, now: Instant) -> Instant {
        let mut stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        match *stands {
            Some((value, since)) if value == seen => since,
            _ => stands.insert((seen, now)).1,
        }
    }

    /// Asks the stream whether the device has faulted.
    fn ask(&self) -> std::result::Result<(), Fault> {
        // SAFETY: the stream lives until `stop`, which no sleep overlaps.
        #[expect(unsafe_code, reason = "asks the stream")]
        let asked = self.gpu.enter().and_then(|_current| unsafe { self.gpu.api.stream_query(self.stream) });
        asked.map(drop).or_else(|failure| sticky(self.gpu.api, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise C15.
    #[test]
    fn a_second_is_two_hundred_naps_and_a_short_wait_ends_little_later_than_its_work() {
        let (mut stood, mut naps) = (Duration::ZERO, 0);
        while stood < Duration::from_secs(1) {
            stood += nap(stood);
            naps += 1;
        }
        assert!(naps <= 200, "{naps}");
        assert!(nap(Duration::from_millis(5)) < Duration::from_micros(160));
        assert!(nap(Duration::from_millis(30)) < Duration::from_millis(1));
        assert_eq!(nap(Duration::from_secs(100)), NAP_LAST);
    }
}
