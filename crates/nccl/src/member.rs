//! A rank's own state: its communicator of NCCL's, and how many operations it was given.
//!
//! # Invariants
//!
//! 1. Calls that queue work on the communicator, and its end in good order, are made under `comm`'s lock, so they never
//!    overlap.
//! 2. A communicator is ended once: by whoever takes it out of `comm`, or, where a call that does not return holds the lock, by
//!    the abort that makes it return; then `aborted` says so, and nobody calls NCCL with it again.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::lane::Lane;
use crate::operation::Call;
use crate::sys::abi::{Comm, Stream};
use crate::sys::{Api, Failure};
use crate::watch::{Event, Shared};
use crate::wire::Count;

/// How long an abort waits for a call on the communicator to return by itself. TIMEOUT: calls take microseconds, unless the
/// stream's queue is full behind work that only the abort ends.
const CALL_TIME: Duration = Duration::from_millis(500);
/// How often it looks. TIMEOUT: a failure is rare, and this much later.
const LOOK: Duration = Duration::from_millis(2);

/// One rank of this process.
pub(crate) struct Member<L: Lane> {
    api: &'static Api,
    rank: u32,
    ranks: u32,
    seat: Arc<L::Seat>,
    shared: Arc<Shared>,
    /// The communicator, while it may be used.
    comm: Mutex<Comm>,
    /// The same, for who cannot wait for the lock.
    known: AtomicPtr<c_void>,
    aborted: AtomicBool,
    queued: AtomicU64,
}

impl<L: Lane> Member<L> {
    pub fn new(api: &'static Api, rank: u32, ranks: u32, seat: L::Seat, shared: Arc<Shared>) -> Member<L> {
        Member {
            api,
            rank,
            ranks,
            seat: Arc::new(seat),
            shared,
            comm: Mutex::new(Comm::NULL),
            known: AtomicPtr::new(std::ptr::null_mut()),
            aborted: AtomicBool::new(false),
            queued: AtomicU64::new(0),
        }
    }

    pub fn rank(&self) -> u32 {
        self.rank
    }

    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    pub fn seat(&self) -> &Arc<L::Seat> {
        &self.seat
    }

    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// How far the rank is.
    pub fn count(&self) -> Count {
        // What is done is read first: it is never more than what was queued.
        let done = L::done(&self.seat);
        Count { queued: self.queued.load(Ordering::Acquire).max(done), done }
    }

    fn lock(&self) -> MutexGuard<'_, Comm> {
        self.comm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the rank its communicator.
    pub fn connect(&self, comm: Comm) {
        *self.lock() = comm;
        self.known.store(comm.0, Ordering::Release);
    }

    /// The number of the next fill's operations. Fills of one device run one at a time.
    pub fn next(&self) -> u64 {
        self.queued.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Has NCCL put the operations on the stream.
    pub fn call(&self, calls: &[Call], stream: Stream) -> Result<(), String> {
        let comm = self.lock();
        if let Some(why) = self.shared.failure() {
            return Err(format!("the communicator has failed: {why}"));
        }
        if *comm == Comm::NULL || self.aborted.load(Ordering::Acquire) {
            return Err("the communicator was closed".to_owned());
        }
        let called = self.put(calls, *comm, stream);
        called.map_err(|failure| {
            let why = self.api.describe(failure, *comm);
            // A fill whose work runs later can tell nobody by its answer.
            self.shared.tell(Event::Failed(format!("rank {}: {why}", self.rank)));
            why
        })
    }

    fn put(&self, calls: &[Call], comm: Comm, stream: Stream) -> Result<(), Failure> {
        // SAFETY: the communicator is alive, and only this call is on it, by the lock; the stream is that of the fill that asks,
        // of the rank's device, and the addresses are its slots', which rig keeps until the work is done.
        #[expect(unsafe_code, reason = "calls NCCL over the memory of a fill's slots")]
        let each = |call: &Call| unsafe { call.put(self.api, comm, stream) };
        if let [call] = calls {
            return each(call);
        }
        self.api.group_start()?;
        let put = calls.iter().try_for_each(each);
        // A group that was begun is ended, also behind a call that failed.
        let ended = self.api.group_end();
        put.and(ended)
    }

    /// What NCCL has noticed beside calls. Asked by the watch alone, which also is who ends the communicator, so it is alive.
    pub fn wrong(&self) -> Option<String> {
        let comm = Comm(self.known.load(Ordering::Acquire));
        if comm == Comm::NULL || self.aborted.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the communicator was made, and is not ended while the watch asks; NCCL takes this call beside any other.
        #[expect(unsafe_code, reason = "asks a communicator")]
        let asked = unsafe { self.api.async_error(comm) };
        asked.err().map(|failure| format!("rank {}: {}", self.rank, self.api.describe(failure, comm)))
    }

    /// Takes the communicator for its end.
    fn take(&self) -> Option<Comm> {
        let comm = std::mem::replace(&mut *self.lock(), Comm::NULL);
        (comm != Comm::NULL && !self.aborted.swap(true, Ordering::AcqRel)).then_some(comm)
    }

    /// Ends the communicator in good order, once all that it was given is done.
    pub fn destroy(&self) {
        if let Some(comm) = self.take() {
            // SAFETY: nobody else has the communicator any more (invariant 2).
            #[expect(unsafe_code, reason = "gives a communicator back")]
            let end = || unsafe { self.api.destroy(comm) };
            // What fails at the end has nobody left to tell.
            let _ = L::within(&self.seat, end);
        }
    }

    /// Ends the communicator's work, and it, also where a call on it does not return.
    pub fn abort(&self) {
        let start = Instant::now();
        let comm = loop {
            match self.comm.try_lock() {
                Ok(mut comm) => break std::mem::replace(&mut *comm, Comm::NULL),
                Err(TryLockError::Poisoned(poisoned)) => break *poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if start.elapsed() < CALL_TIME => thread::sleep(LOOK),
                Err(TryLockError::WouldBlock) => break Comm(self.known.load(Ordering::Acquire)),
            }
        };
        if comm == Comm::NULL || self.aborted.swap(true, Ordering::AcqRel) {
            return;
        }
        // SAFETY: the communicator is ended once, by `aborted`, and no later call gets it. A call that still runs on it is one
        // that does not return: NCCL states that an abort from another thread ends it.
        #[expect(unsafe_code, reason = "ends a communicator")]
        let end = || unsafe { self.api.abort(comm) };
        let _ = L::within(&self.seat, end);
    }
}
