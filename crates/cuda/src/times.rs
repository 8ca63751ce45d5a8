//! When a value's work ran on the GPU, while somebody takes a profile.
//!
//! Two events stand around the work on the stream. The GPU stamps them with a clock of its own; a third, which was recorded on
//! the idle stream of a clock between two readings of the host's, says how both clocks lie to one another. CUDA tells the
//! distance of two events, in milliseconds as a float with a resolution of half a microsecond (cuEventElapsedTime): near the
//! third event that is exact enough, so the clocks are brought together anew whenever a second has passed.
//!
//! # Invariants
//!
//! 1. An event is given back by what drops it: the settle of its value, which rig runs once, or drops where a profile ends
//!    before the value does; or an error on the way.
//! 2. Nothing here is done while no profile is taken.

use std::sync::{Arc, Mutex, PoisonError};

use rig_edge::{Span, Times, times};

use crate::gpu::Gpu;
use crate::sys::Result;
use crate::sys::abi::{Code, Event, Stream};

/// How long one alignment of the clocks serves: a float's 24 bits then still tell 120 nanoseconds, and clocks of crystals
/// drift apart by some ten microseconds a second at worst.
const SERVES_NS: u64 = 1_000_000_000;

/// How often the clocks are read for one alignment: the reading with the least time between both ends counts.
const READINGS: usize = 8;

/// How long the event behind a value is waited for once the word shows the value. TIMEOUT: the GPU meets it within
/// microseconds of storing the word; the work of a lost device may never get there.
const BEHIND_WORD_NS: u64 = 20_000_000;

/// The resolution of CUDA's distances, in nanoseconds.
const RESOLUTION_NS: u64 = 500;

/// An event, which its drop gives back. CUDA keeps of it what work on a stream still needs.
struct Mark {
    gpu: &'static Gpu,
    event: Event,
}

impl Mark {
    /// A new event. The GPU's context is current, here and in `record`.
    fn new(gpu: &'static Gpu) -> Result<Mark> {
        Ok(Mark { gpu, event: gpu.api.event_create()? })
    }

    /// Puts the event on the stream.
    fn record(&self, stream: Stream) -> Result<()> {
        // SAFETY: a mark's event lives as long as the mark, and the stream is alive: the caller is a hot call of its device, or
        // made it.
        #[expect(unsafe_code, reason = "records an event")]
        unsafe {
            self.gpu.api.event_record(self.event, stream)
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // What CUDA refuses to take back after a sticky error, it has ended by itself.
        let _ = self.gpu.enter().and_then(|_current| {
            // SAFETY: made by `new`, and this was the last that knows it.
            #[expect(unsafe_code, reason = "gives the event back")]
            unsafe {
                self.gpu.api.event_destroy(self.event)
            }
        });
    }
}

/// An event, and when the GPU met it by the host's clock.
struct Anchor {
    mark: Mark,
    at: u64,
    error_ns: u64,
}

/// The last alignment of a GPU's clock with the host's. Old anchors are kept by the values that use them.
#[derive(Default)]
pub(crate) struct Clock(Mutex<Option<Arc<Anchor>>>);

/// The event before a value's work.
pub(crate) struct Started {
    anchor: Arc<Anchor>,
    mark: Mark,
}

impl Gpu {
    /// Puts the event before a value's work on the stream. The GPU's context is current.
    #[cold]
    pub(crate) fn time_from(&'static self, stream: Stream) -> Result<Started> {
        let anchor = self.anchor()?;
        let mark = Mark::new(self)?;
        mark.record(stream)?;
        Ok(Started { anchor, mark })
    }

    /// Puts the event behind it, and has the times told once the work is done.
    #[cold]
    pub(crate) fn time_to(&'static self, started: Started, stream: Stream, times: &Arc<Times>) -> Result<()> {
        let end = Mark::new(self)?;
        end.record(stream)?;
        times.settle_by(move |times| {
            // What CUDA does not tell, since the device is lost, stays unknown.
            let _ = self.tell(&started, &end, times);
        });
        Ok(())
    }

    fn tell(&'static self, started: &Started, end: &Mark, times: &Times) -> Result<()> {
        let _current = self.enter()?;
        times.note(self.span(started, end)?);
        times.note_error(started.anchor.error_ns + RESOLUTION_NS);
        Ok(())
    }

    /// From when to when, by the host's clock.
    fn span(&self, started: &Started, end: &Mark) -> Result<Span> {
        let since = |mark: &Mark| {
            // SAFETY: a mark's event lives as long as the mark.
            #[expect(unsafe_code, reason = "asks for a distance")]
            let milliseconds = unsafe { self.api.event_elapsed(started.anchor.mark.event, mark.event) }?;
            let nanoseconds = (f64::from(milliseconds) * 1e6).max(0.0) as u64;
            Result::Ok(started.anchor.at + nanoseconds)
        };
        let asked = times::now();
        loop {
            match since(end) {
                Err(failure) if failure.code == Code::NOT_READY && times::now() - asked < BEHIND_WORD_NS => {
                    std::thread::yield_now();
                }
                end => {
                    let (start, end) = (since(&started.mark)?, end?);
                    return Ok(Span { start, end: end.max(start) });
                }
            }
        }
    }

    /// How the GPU's clock and the host's lie to one another, by no older reading than serves.
    fn anchor(&'static self) -> Result<Arc<Anchor>> {
        let mut last = self.clock.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(anchor) = &*last
            && times::now() - anchor.at < SERVES_NS
        {
            return Ok(Arc::clone(anchor));
        }
        let anchor = Arc::new(self.align()?);
        *last = Some(Arc::clone(&anchor));
        Ok(anchor)
    }

    /// Records events on an idle stream, each between two readings of the host's clock; the shortest counts.
    fn align(&'static self) -> Result<Anchor> {
        let stream = self.api.stream_create()?;
        let readings: Result<Vec<Anchor>> = (0..READINGS).map(|_| self.read(stream)).collect();
        // SAFETY: made above; its work is done.
        #[expect(unsafe_code, reason = "gives the stream back")]
        unsafe { self.api.stream_destroy(stream) }?;
        // PANIC: there is at least one reading.
        Ok(readings?.into_iter().min_by_key(|reading| reading.error_ns).expect("the clocks were read"))
    }

    fn read(&'static self, stream: Stream) -> Result<Anchor> {
        let mark = Mark::new(self)?;
        let before = times::now();
        mark.record(stream)?;
        // SAFETY: a mark's event lives as long as the mark.
        #[expect(unsafe_code, reason = "waits for the event")]
        unsafe { self.api.event_synchronize(mark.event) }?;
        let error_ns = (times::now() - before) / 2;
        Ok(Anchor { mark, at: before + error_ns, error_ns })
    }
}
