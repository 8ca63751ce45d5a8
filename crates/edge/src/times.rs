//! When a value's work ran, while somebody takes a profile.
//!
//! rig makes a [`Times`] for each submit that a profile sees and lends it to the driver in
//! [`Work::times`](crate::Work::times). A driver that can tell notes there when the work ran, on the host's clock
//! ([`now`]), and keeps a handle until then.
//!
//! # Invariants
//!
//! 1. What is noted before the word shows the value is seen by whoever saw the word (E38): notes are Relaxed, and the word's
//!    Release and Acquire carry them.
//! 2. Spans only grow: threads that run parts of one value note theirs in any order, and the span covers them all.
//! 3. A settle runs at most once, after the word shows the value or the value can never be reached, with no lock held.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// The host's clock: nanoseconds since its first reading in the process, rising on every thread. What [`Instant`] reads.
///
/// ```
/// use rig_edge::times::{Span, Times, now};
///
/// let times = Times::new(1);
/// let start = now();
/// // ... the work of the value's one part, here on the host ...
/// times.note_part(0, 0, Span { start, end: now() });
/// assert!(times.value().is_some_and(|span| span.start == start && span.end >= start));
/// ```
pub fn now() -> u64 {
    at(Instant::now())
}

/// An instant on the clock of [`now`]; 0 for one before its first reading.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use rig_edge::times;
///
/// let began = Instant::now();
/// # times::now();
/// // What a driver measured by itself, on the clock of profiles.
/// let later = times::at(began + Duration::from_micros(5));
/// assert!(later >= times::at(began) && later - times::at(began) <= 5_000);
/// ```
pub fn at(instant: Instant) -> u64 {
    static ANCHOR: OnceLock<Instant> = OnceLock::new();
    let anchor = *ANCHOR.get_or_init(Instant::now);
    // PANIC of none: 2^64 nanoseconds are 584 years.
    u64::try_from(instant.saturating_duration_since(anchor).as_nanos()).unwrap_or(u64::MAX)
}

/// From when to when something ran, on the clock of [`now`].
///
/// ```
/// use rig_edge::times::Span;
///
/// /// A device's ticks of 10 ns, of which tick 0 was at `zero` on the host's clock.
/// fn span(zero: u64, ticks: [u64; 2]) -> Span {
///     let [start, end] = ticks.map(|tick| zero + 10 * tick);
///     Span { start, end }
/// }
/// assert_eq!(span(1_000, [3, 7]), Span { start: 1_030, end: 1_070 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The beginning, in nanoseconds.
    pub start: u64,
    /// The end, in nanoseconds: at least `start`.
    pub end: u64,
}

/// When one part ran.
///
/// ```
/// use rig_edge::{PartSpan, Span, Times};
///
/// let times = Times::new(2);
/// // The second part, on the second queue of the device's facts.
/// times.note_part(1, 1, Span { start: 10, end: 30 });
/// assert_eq!(times.part(1), Some(PartSpan { queue: 1, span: Span { start: 10, end: 30 } }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSpan {
    /// The queue that ran it, as the facts list them.
    pub queue: u32,
    /// When.
    pub span: Span,
}

/// The end of a span that nothing was noted of.
const NEVER: u64 = 0;
/// The start of one.
const UNKNOWN: u64 = u64::MAX;

struct Noted {
    start: AtomicU64,
    end: AtomicU64,
}

impl Noted {
    const fn new() -> Noted {
        Noted { start: AtomicU64::new(UNKNOWN), end: AtomicU64::new(NEVER) }
    }

    fn add(&self, span: Span) {
        self.start.fetch_min(span.start, Ordering::Relaxed);
        self.end.fetch_max(span.end.max(span.start), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Span> {
        let (start, end) = (self.start.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        (start != UNKNOWN).then_some(Span { start, end })
    }
}

/// Gives the times that a device knows only once the work has completed.
type Settle = Box<dyn FnOnce(&Times) + Send>;

/// The times of one value's work.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// use std::sync::Arc;
///
/// // rig lends it in a submit while somebody takes a profile, and a driver keeps a clone until it can tell.
/// let times = Arc::new(Times::new(1));
/// let work = Work { times: Some(&times), ..work(&[], &mut []) };
/// if let Some(times) = work.times.cloned() {
///     times.note_part(0, 0, Span { start: 100, end: 250 });
/// }
/// assert_eq!(times.value(), Some(Span { start: 100, end: 250 }));
/// ```
pub struct Times {
    value: Noted,
    parts: Box<[(Noted, AtomicU32)]>,
    error_ns: AtomicU64,
    settle: Mutex<Option<Settle>>,
}

impl Times {
    /// Times of which nothing is noted, for a value of `parts` parts.
    ///
    /// ```
    /// use rig_edge::Times;
    ///
    /// // A driver's own test makes the times that rig would, for work of two parts.
    /// let times = Times::new(2);
    /// assert_eq!((times.parts(), times.value()), (2, None));
    /// ```
    pub fn new(parts: usize) -> Times {
        Times {
            value: Noted::new(),
            parts: (0..parts).map(|_| (Noted::new(), AtomicU32::new(0))).collect(),
            error_ns: AtomicU64::new(0),
            settle: Mutex::new(None),
        }
    }

    /// The value's parts.
    ///
    /// ```
    /// use rig_edge::{Span, Times};
    ///
    /// /// A device that stamps the beginning of each part and the end of the last.
    /// fn note(times: &Times, stamps: &[u64]) {
    ///     for part in 0..times.parts() {
    ///         times.note_part(part, 0, Span { start: stamps[part], end: stamps[part + 1] });
    ///     }
    /// }
    /// let times = Times::new(2);
    /// note(&times, &[10, 20, 50]);
    /// assert_eq!(times.part(1).map(|part| part.span), Some(Span { start: 20, end: 50 }));
    /// ```
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Notes that some of the value's work ran in this span.
    ///
    /// ```
    /// use rig_edge::{Span, Times};
    ///
    /// // Two threads run groups of one launch, and each notes its own.
    /// let times = Times::new(1);
    /// std::thread::scope(|threads| {
    ///     threads.spawn(|| times.note(Span { start: 10, end: 40 }));
    ///     threads.spawn(|| times.note(Span { start: 12, end: 55 }));
    /// });
    /// assert_eq!(times.value(), Some(Span { start: 10, end: 55 }));
    /// ```
    pub fn note(&self, span: Span) {
        self.value.add(span);
    }

    /// Notes that some of the part at `part` ran in this span, on the queue at `queue` of the facts; the value's span covers
    /// it too. A part that there is not is left out.
    ///
    /// ```
    /// use rig_edge::{Span, Times};
    ///
    /// let times = Times::new(2);
    /// times.note_part(0, 0, Span { start: 10, end: 20 });
    /// times.note_part(1, 0, Span { start: 25, end: 30 });
    /// assert_eq!(times.value(), Some(Span { start: 10, end: 30 }));
    /// ```
    pub fn note_part(&self, part: usize, queue: u32, span: Span) {
        self.note(span);
        if let Some((noted, on)) = self.parts.get(part) {
            noted.add(span);
            on.store(queue, Ordering::Relaxed);
        }
    }

    /// Notes by how much a span's ends may be wrong, where the device has a clock of its own that was brought onto the
    /// host's.
    ///
    /// ```
    /// use rig_edge::Times;
    ///
    /// let times = Times::new(1);
    /// // Read between two readings of the host's clock, 400 ns apart: half of that either way.
    /// let (before, after) = (1_000, 1_400);
    /// times.note_error((after - before) / 2);
    /// assert_eq!(times.error_ns(), 200);
    /// ```
    pub fn note_error(&self, error_ns: u64) {
        self.error_ns.fetch_max(error_ns, Ordering::Relaxed);
    }

    /// Has `settle` note the times after the work, for a device that tells them only then. It is called once, on any thread,
    /// with no lock held, after the word shows the value or once that can no longer be; it must not wait. Of a value whose submit
    /// was under way beside the profile's end nobody asks: then it is dropped uncalled, and what it holds gives itself back.
    ///
    /// ```
    /// use rig_edge::{Span, Times};
    ///
    /// let times = Times::new(1);
    /// // The device stores its stamps behind the work: they are read when somebody asks for them.
    /// let stamps = std::sync::Arc::new([100, 180]);
    /// times.settle_by(move |times| times.note(Span { start: stamps[0], end: stamps[1] }));
    /// assert_eq!(times.value(), None);
    /// times.settle();
    /// assert_eq!(times.value(), Some(Span { start: 100, end: 180 }));
    /// ```
    pub fn settle_by(&self, settle: impl FnOnce(&Times) + Send + 'static) {
        *self.settle.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(settle));
    }

    /// Lets the driver note what it tells only after the work. rig's alone to call.
    ///
    /// ```
    /// use rig_edge::{Span, Times};
    ///
    /// // In a driver's own test, which stands for rig: after the word shows the value.
    /// let times = Times::new(1);
    /// times.settle_by(|times| times.note(Span { start: 1, end: 2 }));
    /// times.settle();
    /// times.settle(); // nothing is left to settle
    /// assert_eq!(times.value(), Some(Span { start: 1, end: 2 }));
    /// ```
    pub fn settle(&self) {
        let settle = self.settle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(settle) = settle {
            settle(self);
        }
    }

    /// When the value's work ran; `None` if the driver did not tell.
    ///
    /// ```
    /// use rig_edge::{Span, Times};
    ///
    /// let times = Times::new(1);
    /// assert_eq!(times.value(), None);
    /// times.note(Span { start: 5, end: 9 });
    /// assert_eq!(times.value().map(|span| span.end - span.start), Some(4));
    /// ```
    pub fn value(&self) -> Option<Span> {
        self.value.get()
    }

    /// When the part at `part` ran; `None` if the driver did not tell.
    ///
    /// ```
    /// use rig_edge::{Span, Times};
    ///
    /// // A driver that knows when the value ran, and nothing of its parts.
    /// let times = Times::new(2);
    /// times.note(Span { start: 5, end: 9 });
    /// assert_eq!((times.part(0), times.part(1)), (None, None));
    /// ```
    pub fn part(&self, part: usize) -> Option<PartSpan> {
        let (noted, queue) = self.parts.get(part)?;
        Some(PartSpan { queue: queue.load(Ordering::Relaxed), span: noted.get()? })
    }

    /// By how much the spans' ends may be wrong, in nanoseconds; 0 for the host's own clock.
    ///
    /// ```
    /// use rig_edge::Times;
    ///
    /// let times = Times::new(1);
    /// assert_eq!(times.error_ns(), 0);
    /// // Of all the alignments that the value's stamps went by, the worst one counts.
    /// times.note_error(300);
    /// times.note_error(120);
    /// assert_eq!(times.error_ns(), 300);
    /// ```
    pub fn error_ns(&self) -> u64 {
        self.error_ns.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Times").field("value", &self.value()).field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_covers_all_that_was_noted_in_any_order() {
        let times = Times::new(2);
        assert_eq!((times.value(), times.part(0), times.part(7)), (None, None, None));
        times.note_part(1, 3, Span { start: 50, end: 60 });
        times.note_part(1, 3, Span { start: 20, end: 30 });
        times.note(Span { start: 10, end: 15 });
        assert_eq!(times.part(1), Some(PartSpan { queue: 3, span: Span { start: 20, end: 60 } }));
        assert_eq!(times.value(), Some(Span { start: 10, end: 60 }));
        assert_eq!(times.part(0), None);
        times.note_part(9, 0, Span { start: 70, end: 5 });
        assert_eq!(times.value(), Some(Span { start: 10, end: 70 }), "no span ends before it starts");
    }

    #[test]
    fn a_settle_runs_once() {
        let times = Times::new(1);
        times.settle();
        times.settle_by(|times| times.note(Span { start: 1, end: times.value().map_or(2, |span| span.end + 1) }));
        times.settle();
        times.settle();
        assert_eq!(times.value(), Some(Span { start: 1, end: 2 }));
    }

    #[test]
    fn the_clock_rises_and_an_instant_before_it_is_zero() {
        let before = Instant::now().checked_sub(std::time::Duration::from_secs(3600 * 24 * 365 * 50));
        let (a, b) = (now(), now());
        assert!(a <= b);
        assert_eq!(before.map_or(0, at), 0);
    }
}
