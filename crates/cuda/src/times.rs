//! When a value's work ran on the GPU, while somebody takes a profile.
//!
//! Two events stand around the work on the stream. The GPU stamps them with a clock of its own; a third, which was recorded on
//! the idle stream of a clock between two readings of the host's, says how both clocks lie to one another. CUDA tells the
//! distance of two events, in milliseconds as a float with a resolution of half a microsecond (cuEventElapsedTime): near the
//! third event that is exact enough, so the clocks are brought together anew whenever a second has passed.
//!
//! # Invariants
//!
//! 1. The events of a value are destroyed by its settle, which rig calls once.
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

/// An event, and when the GPU met it by the host's clock.
struct Anchor {
    gpu: &'static Gpu,
    event: Event,
    at: u64,
    error_ns: u64,
}

impl Drop for Anchor {
    fn drop(&mut self) {
        // What CUDA refuses to take back after a sticky error, it has ended by itself.
        let _ = self.gpu.enter().and_then(|_current| {
            // SAFETY: made by `align`, and this was the last that knows it.
            #[expect(unsafe_code, reason = "gives the event back")]
            unsafe {
                self.gpu.api.event_destroy(self.event)
            }
        });
    }
}

/// The last alignment of a GPU's clock with the host's. Old anchors are kept by the values that use them.
#[derive(Default)]
pub(crate) struct Clock(Mutex<Option<Arc<Anchor>>>);

/// The event before a value's work.
pub(crate) struct Started {
    anchor: Arc<Anchor>,
    event: Event,
}

impl Gpu {
    /// Puts the event before a value's work on the stream. The GPU's context is current.
    #[cold]
    pub(crate) fn time_from(&'static self, stream: Stream) -> Result<Started> {
        let anchor = self.anchor()?;
        let event = self.api.event_create()?;
        self.record(event, stream)?;
        Ok(Started { anchor, event })
    }

    /// Puts the event behind it, and has the times told once the work is done.
    #[cold]
    pub(crate) fn time_to(&'static self, started: Started, stream: Stream, times: &Arc<Times>) -> Result<()> {
        let end = self.api.event_create()?;
        self.record(end, stream)?;
        times.settle_by(move |times| {
            // What CUDA does not tell, since the device is lost, stays unknown.
            let _ = self.tell(&started, end, times);
        });
        Ok(())
    }

    fn record(&self, event: Event, stream: Stream) -> Result<()> {
        // SAFETY: the event was just made, and the stream is alive: the caller is a hot call of its device, or made it.
        #[expect(unsafe_code, reason = "records an event")]
        unsafe {
            self.api.event_record(event, stream)
        }
    }

    fn tell(&'static self, started: &Started, end: Event, times: &Times) -> Result<()> {
        let _current = self.enter()?;
        let told = self.span(started, end);
        for event in [started.event, end] {
            // SAFETY: made by `time_from` and `time_to`; this is their settle, which runs once (invariant 1).
            #[expect(unsafe_code, reason = "gives the events back")]
            unsafe { self.api.event_destroy(event) }?;
        }
        times.note(told?);
        times.note_error(started.anchor.error_ns + RESOLUTION_NS);
        Ok(())
    }

    /// From when to when, by the host's clock.
    fn span(&self, started: &Started, end: Event) -> Result<Span> {
        let since = |event: Event| {
            // SAFETY: the events are alive until `tell` destroys them, the anchor's for as long as it is kept.
            #[expect(unsafe_code, reason = "asks for a distance")]
            let milliseconds = unsafe { self.api.event_elapsed(started.anchor.event, event) }?;
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
                    let (start, end) = (since(started.event)?, end?);
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
        let mut reading = Anchor { gpu: self, event: self.api.event_create()?, at: 0, error_ns: 0 };
        let before = times::now();
        self.record(reading.event, stream)?;
        // SAFETY: the event was just made, and is destroyed by its anchor's drop.
        #[expect(unsafe_code, reason = "waits for the event")]
        unsafe { self.api.event_synchronize(reading.event) }?;
        reading.error_ns = (times::now() - before) / 2;
        reading.at = before + reading.error_ns;
        Ok(reading)
    }
}
