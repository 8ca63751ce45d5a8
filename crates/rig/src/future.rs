//! Points as futures: waiting without a thread of one's own, on any executor.
//!
//! A future that finds its point pending leaves its waker with the point's device. While a device has wakers, one thread
//! of rig's serves them: it commits what is waited for, sits in the driver's sleep as any waiter does, and wakes whose points
//! are reached or failed. A poll itself never blocks, commits nothing and makes no call of a driver that could.
//!
//! # Invariants
//!
//! 1. A future enlists and then reads the word again; the thread takes wakers out after it has read the word. So no
//!    completion falls between the two.
//! 2. A device has at most one such thread. It decides its end under the list's lock, where it sees the list empty; a
//!    future that enlists after that sees no thread, and starts one.
//! 3. A future that is dropped takes its wakers back, so what is cancelled leaves nothing behind.
//! 4. Wakers run with no lock held and never inside a fill: they are the caller's code.
//! 5. A value that waits on a queue for other devices' values that are pending is also enlisted with those, and they with theirs,
//!    so that their faults are found: only a device's own driver tells of them.
//! 6. A wait that ends with Refused, behind a lost device that nobody closes, ends for all of its device's futures at once: each
//!    is woken, and its poll finds the same.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::device::Core;
use crate::error::invalid;
use crate::primitive::thread;
use crate::timeline::{Stamp, State, timelines};
use crate::wait::Patience;
use crate::{Point, Result};

/// The wakers of one device.
pub(crate) struct Waiting {
    /// By value and seat, so that the first are those that the word reaches first.
    wakers: BTreeMap<(u64, u64), Waker>,
    next_seat: u64,
    /// Whether the thread runs.
    served: bool,
}

impl Waiting {
    pub(crate) fn new() -> Waiting {
        Waiting { wakers: BTreeMap::new(), next_seat: 0, served: false }
    }
}

/// A future's place in a device's list, which its drop gives back.
struct Seat {
    core: Arc<Core>,
    key: (u64, u64),
}

impl Seat {
    /// Leaves the waker with the device. Whether somebody will wake it.
    fn take(core: Arc<Core>, value: u64, waker: &Waker) -> (Seat, bool) {
        // Before the lock: a waker's clone is the caller's code too.
        let waker = waker.clone();
        let mut waiting = core.futures.lock();
        waiting.next_seat += 1;
        let key = (value, waiting.next_seat);
        waiting.wakers.insert(key, waker);
        if !waiting.served {
            let of = Arc::clone(&core);
            waiting.served = thread::Builder::new().name("rig-futures".into()).spawn(move || serve(&of)).is_ok();
        }
        let served = waiting.served;
        drop(waiting);
        (Seat { core, key }, served)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let waker = self.core.futures.lock().wakers.remove(&self.key);
        // A waker's drop is the caller's code too: it runs here, after the lock.
        drop(waker);
    }
}

/// The wait for a point: made by `.await` of a [`Point`], or by [`into_future`](std::future::IntoFuture::into_future).
///
/// Dropping it cancels the wait and leaves nothing behind. It may be polled by any executor, and moved between threads.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let buffer = device.buffer(64)?;
/// let point = device.submission().memset(0, 7).make()?.take().submit(&[&buffer])?;
/// futures::executor::block_on(async { point.await })?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a future does nothing unless it is awaited"]
pub struct PointFuture {
    point: Point,
    /// The place with the point's device, and places with the devices that its value waits for.
    seats: Vec<Seat>,
}

impl std::future::IntoFuture for Point {
    type Output = Result<()>;
    type IntoFuture = PointFuture;

    /// The wait for the point, as a future: its errors are those of [`wait`](Point::wait).
    ///
    /// The work is committed by a thread of rig's, not by the poll. A device of the host's cores runs the work on its pool: an
    /// executor's thread never helps.
    fn into_future(self) -> PointFuture {
        PointFuture { point: self, seats: Vec::new() }
    }
}

impl Future for PointFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let stamp = self.point.stamp();
        if let Some(answer) = settled(stamp) {
            self.seats.clear();
            return Poll::Ready(answer);
        }
        if rig_edge::callback::inside() {
            return Poll::Ready(invalid!("a fill or a kernel cannot wait for a point: wait after the submit"));
        }
        if let Some(error) = timelines().device(stamp.slot).and_then(|core| core.refusal()) {
            self.seats.clear();
            return Poll::Ready(Err(error));
        }
        let mut seats = Vec::with_capacity(1);
        let served = enlist(stamp, context.waker(), &mut seats);
        // The old seats go only now, so that the thread that serves them does not end between.
        self.seats = seats;
        if let Some(answer) = settled(stamp) {
            self.seats.clear();
            return Poll::Ready(answer);
        }
        if !served {
            // The system has no thread to wake it: then the executor looks again and again.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl fmt::Debug for PointFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PointFuture").field("point", &self.point).finish_non_exhaustive()
    }
}

/// How a wait for the value ends, if it has.
fn settled(stamp: Stamp) -> Option<Result<()>> {
    let core = timelines().device(stamp.slot);
    if let Some(core) = &core {
        core.refresh();
    }
    match timelines().state(stamp) {
        State::Reached => Some(Ok(())),
        State::Failed(lost) => Some(Err(lost.into())),
        // The device is gone, and its values are shown or failed.
        State::Pending if core.is_none() => Some(Ok(())),
        State::Pending => None,
    }
}

/// Enlists with the value's device, and with those that it waits for. Whether all of them will wake it.
fn enlist(stamp: Stamp, waker: &Waker, seats: &mut Vec<Seat>) -> bool {
    let mut served = true;
    let mut next = Some(stamp);
    while let Some(stamp) = next
        && let Some(core) = timelines().device(stamp.slot)
    {
        // One that has failed is settled, and would wake at once, and again and again: its own device has nothing more to tell.
        let pending = |producer: &Stamp| matches!(timelines().state(*producer), State::Pending);
        let producer = core.waits_for(stamp.value).filter(pending);
        let (seat, seat_served) = Seat::take(core, stamp.value, waker);
        seats.push(seat);
        served &= seat_served;
        // Producers' values were submitted before those that wait for them, so the chain ends.
        next = producer;
    }
    served
}

/// Wakes a device's futures until none is left.
fn serve(core: &Arc<Core>) {
    let mut patience = Patience::asleep(core);
    while let Some((first, last)) = core.next_futures() {
        // A loss fails the values, and a refusal is everyone's: the next look finds both.
        if core.commit_through(last).is_err() || patience.pass(Stamp { slot: core.slot, value: first }).is_err() {
            thread::yield_now();
        }
    }
}

impl Core {
    /// Wakes the futures whose points are reached or failed. Nothing from inside a fill: the thread then does it.
    pub(crate) fn wake_futures(&self) {
        if rig_edge::callback::inside() {
            return;
        }
        self.refresh();
        let settled = self.take_settled(&mut self.futures.lock());
        wake(settled);
    }

    /// Wakes who can be woken, and gives the least and the greatest value that is still waited for; `None` if there is
    /// none: then the thread that asks has ended.
    fn next_futures(&self) -> Option<(u64, u64)> {
        loop {
            self.refresh();
            let refused = self.refusal().is_some();
            let (settled, range) = {
                let mut waiting = self.futures.lock();
                let mut settled = self.take_settled(&mut waiting);
                if refused {
                    // Every value that is pending stands behind the next one.
                    settled.extend(std::mem::take(&mut waiting.wakers).into_values());
                }
                let value = |entry: Option<(&(u64, u64), &Waker)>| entry.map(|(key, _)| key.0);
                let range = value(waiting.wakers.first_key_value()).zip(value(waiting.wakers.last_key_value()));
                if settled.is_empty() && range.is_none() {
                    waiting.served = false;
                    return None;
                }
                (settled, range)
            };
            // Woken futures often enlist again at once: look before ending.
            wake(settled);
            if range.is_some() {
                return range;
            }
        }
    }

    fn take_settled(&self, waiting: &mut Waiting) -> Vec<Waker> {
        let pending = |value| matches!(timelines().state(Stamp { slot: self.slot, value }), State::Pending);
        let settled = waiting.wakers.extract_if(.., |key, _| !pending(key.0));
        settled.map(|(_, waker)| waker).collect()
    }
}

fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        // A waker's panic is its executor's, and ends neither the other waits nor the thread.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}
