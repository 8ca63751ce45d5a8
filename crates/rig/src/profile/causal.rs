//! From what was told to what is given: times since the beginning, in an order that could have been.
//!
//! Devices have clocks of their own, which drivers bring onto the host's with an error that they state. Within that error a
//! value may seem to start before its submit, or before the value before it ended. Such a start is moved up to what must
//! have been before it, and an end to its start: so whatever is drawn from a profile has no arrow that points back in time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rig_edge::Span;

use super::record::{Host, Recorded, Value};
use super::{HostSpan, Interval, PartRan, Profile, ValueSpan, lock};
use crate::timeline::{Stamp, State, timelines};

/// The profile of what was told.
pub(super) fn profile(recorded: Arc<Recorded>) -> Profile {
    let whole = lock(&recorded.span).unwrap_or(Span { start: 0, end: 0 });
    let values = std::mem::take(&mut *lock(&recorded.values));
    let host = std::mem::take(&mut *lock(&recorded.host));
    let spans = spans(&values, whole);
    let values = values.iter().map(|value| value_span(value, spans.get(&value.stamp).copied(), whole.start)).collect();
    let host = host.into_iter().map(|host| host_span(host, whole.start)).collect();
    Profile { took: Duration::from_nanos(whole.end - whole.start), values, host }
}

/// When each value ran, causally.
fn spans(values: &[Arc<Value>], whole: Span) -> HashMap<Stamp, Span> {
    let mut order: Vec<&Arc<Value>> = values.iter().collect();
    // What a value follows was submitted before its own submit ended, and so was the value before it on its device.
    order.sort_by_key(|value| value.submit.end);
    let mut spans: HashMap<Stamp, Span> = HashMap::new();
    let mut ends: HashMap<u32, u64> = HashMap::new();
    for value in order {
        let Some(told) = value.times.value() else { continue };
        let followed = value.follows.iter().filter_map(|stamp| spans.get(stamp)).map(|span| span.end);
        let before = ends.get(&value.stamp.slot).copied();
        let earliest = followed.chain(before).fold(value.submit.start, u64::max);
        // The profile ended after the value was reached.
        let latest = whole.end.max(earliest);
        let start = told.start.clamp(earliest, latest);
        let end = told.end.clamp(start, latest);
        spans.insert(value.stamp, Span { start, end });
        ends.insert(value.stamp.slot, end);
    }
    spans
}

fn value_span(value: &Value, span: Option<Span>, zero: u64) -> ValueSpan {
    let lost = matches!(timelines().state(value.stamp), State::Failed(_));
    let ran = span.filter(|_| !lost);
    let parts = value.parts.iter().enumerate().map(|(index, (name, bytes))| {
        let told = value.times.part(index);
        let inside = |part: Span, whole: Span| {
            let start = part.start.clamp(whole.start, whole.end);
            Span { start, end: part.end.clamp(start, whole.end) }
        };
        PartRan {
            name: Arc::clone(name),
            queue: told.map_or(0, |part| part.queue),
            ran: told.zip(ran).map(|(part, whole)| interval(inside(part.span, whole), zero)),
            bytes: *bytes,
        }
    });
    ValueSpan {
        device: Arc::clone(&value.device),
        timeline: value.stamp.slot,
        value: value.stamp.value,
        submit: interval(value.submit, zero),
        ran: ran.map(|span| interval(span, zero)),
        error: Duration::from_nanos(value.times.error_ns()),
        parts: parts.collect(),
        follows: value.follows.iter().map(|stamp| (stamp.slot, stamp.value)).collect(),
        lost,
    }
}

fn host_span(host: Host, zero: u64) -> HostSpan {
    let Host { work, thread, device, span, bytes } = host;
    HostSpan { work, thread, device, ran: interval(span, zero), bytes }
}

fn interval(span: Span, zero: u64) -> Interval {
    let since = |at: u64| Duration::from_nanos(at.saturating_sub(zero));
    Interval { start: since(span.start), end: since(span.end) }
}
