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
    let mut spans: HashMap<Stamp, Span> = HashMap::new();
    let mut ends: HashMap<u32, u64> = HashMap::new();
    for value in order(values) {
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

/// The values, each after those that it follows and the ones before it on its device.
///
/// The ends of their submits do not tell: of two threads that submit, the one whose value came first may be the last to return.
fn order(values: &[Arc<Value>]) -> Vec<&Arc<Value>> {
    let index: HashMap<Stamp, usize> = values.iter().enumerate().map(|(index, value)| (value.stamp, index)).collect();
    let mut by_device: Vec<usize> = (0..values.len()).collect();
    by_device.sort_by_key(|&index| (values[index].stamp.slot, values[index].stamp.value));
    let (mut after, mut waits) = (vec![Vec::new(); values.len()], vec![0_usize; values.len()]);
    let same = |pair: &&[usize]| values[pair[0]].stamp.slot == values[pair[1]].stamp.slot;
    let before = by_device.windows(2).filter(same).map(|pair| (pair[0], pair[1]));
    let followed = values.iter().enumerate().flat_map(|(index_of, value)| {
        value.follows.iter().filter_map(|stamp| index.get(stamp)).map(move |&followed| (followed, index_of))
    });
    for (first, second) in before.chain(followed) {
        after[first].push(second);
        waits[second] += 1;
    }
    let mut ready: Vec<usize> = (0..values.len()).filter(|&index| waits[index] == 0).collect();
    let mut next = 0;
    while let Some(&index) = ready.get(next) {
        next += 1;
        for &second in &after[index] {
            waits[second] -= 1;
            if waits[second] == 0 {
                ready.push(second);
            }
        }
    }
    ready.into_iter().map(|index| &values[index]).collect()
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

#[cfg(test)]
mod tests {
    use rig_edge::times::Times;

    use super::*;

    fn value(stamp: Stamp, submit: (u64, u64), ran: (u64, u64), follows: &[Stamp]) -> Arc<Value> {
        let times = Arc::new(Times::new(1));
        times.note(Span { start: ran.0, end: ran.1 });
        let submit = Span { start: submit.0, end: submit.1 };
        Arc::new(Value { stamp, device: "A".into(), submit, times, parts: Vec::new(), follows: follows.to_vec() })
    }

    /// Promise C22.
    #[test]
    fn values_are_in_order_also_where_the_submit_of_the_first_returned_last() {
        let stamp = |slot, value| Stamp { slot, value };
        // 1:5 was submitted before 1:6 and returned after it; 0:9 follows 1:6, and returned before both.
        let values = [
            value(stamp(0, 9), (0, 10), (60, 70), &[stamp(1, 6)]),
            value(stamp(1, 6), (0, 20), (40, 50), &[]),
            value(stamp(1, 5), (0, 30), (20, 45), &[]),
        ];
        let spans = spans(&values, Span { start: 0, end: 100 });
        let of = |slot, value| spans[&stamp(slot, value)];
        assert_eq!((of(1, 5).start, of(1, 5).end), (20, 45), "as the device told it");
        assert_eq!((of(1, 6).start, of(1, 6).end), (45, 50));
        assert_eq!((of(0, 9).start, of(0, 9).end), (60, 70));
    }
}
