//! What is told to profiles while they are taken.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rig_edge::times::{self, Span, Times};

use super::{HostWork, lock, process};
use crate::run::Run;
use crate::submission::{Made, Shape};
use crate::submit::submit_recorded;
use crate::timeline::Stamp;
use crate::{Buffer, Point, Result};

/// How many profiles are being taken.
static TAKEN: AtomicU32 = AtomicU32::new(0);
/// Where they collect.
static OPEN: Mutex<Vec<Arc<Recorded>>> = Mutex::new(Vec::new());

/// Whether somebody takes a profile.
#[inline]
pub(crate) fn is_on() -> bool {
    // ORDERING: Relaxed: a submit that runs beside the beginning of a profile may or may not be in it.
    TAKEN.load(Ordering::Relaxed) != 0
}

/// What one profile was told.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) span: Mutex<Option<Span>>,
    pub(super) values: Mutex<Vec<Arc<Value>>>,
    pub(super) host: Mutex<Vec<Host>>,
}

/// A value, as its submit left it.
pub(super) struct Value {
    pub(super) stamp: Stamp,
    pub(super) device: Arc<str>,
    pub(super) submit: Span,
    pub(super) times: Arc<Times>,
    /// The name and the bytes of each part.
    pub(super) parts: Vec<(Arc<str>, u64)>,
    pub(super) follows: Vec<Stamp>,
}

/// A host's span.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) work: HostWork,
    pub(super) thread: Arc<str>,
    pub(super) device: Arc<str>,
    pub(super) span: Span,
    pub(super) bytes: u64,
}

/// What one submit tells.
pub(crate) struct Recording {
    times: Arc<Times>,
    follows: Mutex<Vec<Stamp>>,
}

impl Recording {
    /// Where the driver notes when the work ran.
    pub(crate) fn times(&self) -> &Arc<Times> {
        &self.times
    }

    /// The work follows another device's value, which the host waits for.
    pub(crate) fn follow(&self, stamp: Stamp) {
        lock(&self.follows).push(stamp);
    }
}

/// Submits the run and tells the open profiles of it.
#[cold]
pub(crate) fn submit(run: &mut Run, buffers: &[&Buffer], own_hold: bool) -> Result<Point> {
    let told = lock(&OPEN).clone();
    let made = Arc::clone(&run.made);
    let recording = Recording { times: Arc::new(Times::new(made.shapes.len())), follows: Mutex::default() };
    let start = times::now();
    let answer = submit_recorded(run, buffers, own_hold, Some(&recording));
    let submit = Span { start, end: times::now() };
    let device = Arc::clone(&made.core().name);
    if let Ok(point) = &answer {
        let mut follows = std::mem::take(&mut *lock(&recording.follows));
        follows.extend_from_slice(&run.follow);
        follows.sort_unstable_by_key(|stamp| (stamp.slot, stamp.value));
        follows.dedup();
        let parts = parts(&made, buffers);
        let times = recording.times;
        let value =
            Arc::new(Value { stamp: point.stamp(), device: Arc::clone(&device), submit, times, parts, follows });
        told.iter().for_each(|profile| lock(&profile.values).push(Arc::clone(&value)));
    }
    tell(&told, HostWork::Submit, &device, submit, 0);
    process::tend();
    answer
}

/// Each part's name, and the bytes of the buffers that it uses, each buffer once.
fn parts(made: &Made, buffers: &[&Buffer]) -> Vec<(Arc<str>, u64)> {
    let bytes = |slot: u32| buffers[slot as usize].len() as u64;
    let part = |shape: &Shape| match shape {
        Shape::Launch { refs, name } => {
            let mut slots: Vec<u32> = refs.iter().map(|r| r.slot).collect();
            slots.sort_unstable();
            slots.dedup();
            (Arc::clone(name), slots.into_iter().map(bytes).sum())
        }
        Shape::Copy(copy) => ("copy".into(), bytes(copy.from) + bytes(copy.to)),
        Shape::Memset(memset) => ("memset".into(), bytes(memset.slot)),
        Shape::Fill => ("fill".into(), 0),
    };
    made.shapes.iter().map(part).collect()
}

/// Runs `work`; tells the open profiles what it was, about which device, and of how many bytes, where there are any.
#[inline]
pub(crate) fn host<R>(device: &str, work: impl FnOnce() -> R, what: impl FnOnce(&R) -> Option<(HostWork, u64)>) -> R {
    if is_on() { host_told(device, work, what) } else { work() }
}

#[cold]
fn host_told<R>(device: &str, work: impl FnOnce() -> R, what: impl FnOnce(&R) -> Option<(HostWork, u64)>) -> R {
    let told = lock(&OPEN).clone();
    let start = times::now();
    let answer = work();
    let span = Span { start, end: times::now() };
    if let Some((work, bytes)) = what(&answer) {
        tell(&told, work, &device.into(), span, bytes);
        process::tend();
    }
    answer
}

fn tell(told: &[Arc<Recorded>], work: HostWork, device: &Arc<str>, span: Span, bytes: u64) {
    let thread = std::thread::current();
    let name = thread.name().map_or_else(|| format!("{:?}", thread.id()).into(), Arc::from);
    let host = Host { work, thread: name, device: Arc::clone(device), span, bytes };
    told.iter().for_each(|profile| lock(&profile.host).push(host.clone()));
}

/// Has submits and the host tell of themselves to `recorded`, until [`end`].
pub(super) fn begin(recorded: &Arc<Recorded>) {
    lock(&OPEN).push(Arc::clone(recorded));
    TAKEN.fetch_add(1, Ordering::Relaxed);
}

/// Ends that: called once for each [`begin`].
pub(super) fn end(recorded: &Arc<Recorded>) {
    TAKEN.fetch_sub(1, Ordering::Relaxed);
    lock(&OPEN).retain(|open| !Arc::ptr_eq(open, recorded));
}

/// Takes a profile of the closure; waits for the values that it was told of.
pub(super) fn collect<R>(closure: impl FnOnce() -> R) -> (R, Arc<Recorded>) {
    let recorded = Arc::new(Recorded::default());
    begin(&recorded);
    let start = times::now();
    let answer = catch_unwind(AssertUnwindSafe(closure));
    end(&recorded);
    let answer = answer.unwrap_or_else(|panic| resume_unwind(panic));
    // Submits that were under way beside the closure's end may still tell of themselves: they are left out.
    let values = lock(&recorded.values).clone();
    for value in &values {
        // What is lost says so below, by its state.
        let _ = crate::wait::wait(value.stamp);
        value.times.settle();
    }
    *lock(&recorded.values) = values;
    *lock(&recorded.span) = Some(Span { start, end: times::now() });
    (answer, recorded)
}
