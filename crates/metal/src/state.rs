//! A device's state, under one lock: the open command buffer, the committed ones, the arena, and what has failed.
//!
//! The hot calls, the completion handlers, `sleep` and `stop` meet here. No call of rig is made under the lock, and no turn of
//! rig's is ever waited for, so a handler never waits for a submit that waits for it.
//!
//! # Invariants
//!
//! 1. While a hot call encodes, the open command buffer is the call's (`encoding`), and the lock is free: so handlers store
//!    the word, and a submit that waits for one of the queue's command buffers lets them.
//! 2. The word is written under the lock alone, by [`State::settle`] and by `stop`; `stored` is what it shows.
//! 3. The first failure stays. Once there is one, only `stop` and the handlers after it write the word.
//! 4. Command buffers are committed under the lock, each after it was put in the ring: so the ring has the order of the
//!    commits, and a handler finds its entry.

use std::sync::Arc;

use objc2::rc::autoreleasepool;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rig_edge::{Fault, Times, Word};

use crate::completion::Handler;
use crate::encoder::Open;
use crate::icb::Recorded;
use crate::params::{Params, Taken};
use crate::ring::Ring;
use crate::running::Running;
use crate::sys::{MTLCommandBuffer, guard};

/// After how many values the open command buffer is committed.
pub(crate) const VALUES_MOST: u32 = 256;

/// With fewer committed command buffers than this left to complete, a submit commits: so that the GPU finds work behind the
/// one that it runs.
pub(crate) const BEHIND_LEAST: usize = 3;

/// What goes with a committed command buffer.
pub(crate) struct Sent {
    /// The last value whose work it or one before it holds to the end.
    pub upto: u64,
    /// Its bytes of the arena.
    pub taken: Option<Taken>,
    /// Indirect command buffers that it runs.
    #[expect(dead_code, reason = "kept until the entry leaves")]
    pub keep: Vec<Arc<Recorded>>,
    /// Where to note when the GPU ran it, while somebody takes a profile.
    pub times: Option<Arc<Times>>,
}

/// What a device's threads share.
pub(crate) struct Shared {
    word: &'static Word,
    state: Mutex<State>,
    /// The word has moved, or the device has failed.
    pub moved: Condvar,
    /// A command buffer has completed, or the device has failed.
    pub room: Condvar,
}

/// The state under the lock.
pub(crate) struct State {
    pub failure: Option<String>,
    pub open: Option<Open>,
    /// Whether a hot call has the open command buffer.
    pub encoding: bool,
    /// Whether a command buffer completed while a hot call had the open one.
    pub wanted: bool,
    pub ring: Ring<Sent>,
    pub params: Params,
    /// The last value given to `submit`.
    pub last: u64,
    /// What the word shows.
    pub stored: u64,
    pub stopped: bool,
    /// Until `stop`.
    pub running: Option<Arc<Running>>,
    /// Until `stop`.
    pub handler: Option<Handler>,
    /// Whether the fence was updated by an encoder that is before all new ones.
    pub fenced: bool,
}

impl Shared {
    pub fn new(word: &'static Word, running: Arc<Running>) -> Shared {
        let start = word.load();
        let state = State {
            failure: None,
            open: None,
            encoding: false,
            wanted: false,
            ring: Ring::new(),
            params: Params::default(),
            last: start,
            stored: start,
            stopped: false,
            running: Some(running),
            handler: None,
            fenced: false,
        };
        Shared { word, state: Mutex::new(state), moved: Condvar::new(), room: Condvar::new() }
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// What the word shows.
    #[inline]
    pub fn shown(&self) -> u64 {
        self.word.load()
    }

    /// What runs the device's work, until `stop`.
    pub fn running(&self) -> Option<Arc<Running>> {
        self.lock().running.clone()
    }

    /// Records a failure, and gives the device's first as a fault.
    #[cold]
    pub fn fault(&self, why: String) -> Fault {
        let fault = self.lock().fail(why);
        self.wake();
        fault
    }

    /// Wakes all who wait for the device.
    pub fn wake(&self) {
        self.moved.notify_all();
        self.room.notify_all();
    }

    /// Raises the word. Release: pairs with the Acquire of whoever reads it. Called under the lock.
    pub fn raise(&self, state: &mut State, value: u64) {
        if value > state.stored {
            state.stored = value;
            self.word.raise(value);
        }
    }
}

impl State {
    /// Records a failure, and gives the device's first as a fault.
    #[cold]
    pub fn fail(&mut self, why: String) -> Fault {
        Fault::new(self.failure.get_or_insert(why).clone())
    }

    /// The device's failure as a fault.
    #[inline]
    pub fn check(&self) -> Result<(), Fault> {
        match &self.failure {
            None => Ok(()),
            Some(why) => Err(Fault::new(why.clone())),
        }
    }

    /// Commits the open command buffer, if it holds anything. Its failure is the device's.
    pub fn commit_open(&mut self) -> Result<(), Fault> {
        match self.open.take() {
            Some(open) => self.commit(open),
            None => Ok(()),
        }
    }

    /// Commits a command buffer.
    pub fn commit(&mut self, mut open: Open) -> Result<(), Fault> {
        let Some(handler) = &self.handler else {
            return Err(self.fail("the device is stopped".into()));
        };
        let sent =
            Sent { upto: open.upto, taken: open.taken, keep: std::mem::take(&mut open.keep), times: open.times.take() };
        self.ring.push(open.buffer.address().addr(), sent);
        let committed = autoreleasepool(|_| {
            guard(|| {
                open.end();
                handler.add_to(&open.buffer);
                open.buffer.commit();
            })
        });
        self.fenced |= open.fenced;
        committed.map_err(|why| {
            self.ring.take_back();
            open.abandon();
            self.fail(why)
        })
    }

    /// Drops the open command buffer uncommitted.
    pub fn drop_open(&mut self) {
        if let Some(open) = self.open.take() {
            open.abandon();
        }
    }

    /// Releases what work needs, after the last of it.
    pub fn release(&mut self) {
        self.params = Params::default();
        self.ring.release();
    }

    /// Lets the entries leave that have completed, with all before them, and gives the value that the word is to show.
    pub fn settle(&mut self) -> u64 {
        let mut value = self.stored;
        while let Some(sent) = self.ring.pop() {
            if let Some(taken) = sent.taken {
                self.params.give_back(taken);
            }
            // INVARIANT: entries leave in commit order, and values rise with it.
            value = value.max(sent.upto);
        }
        if self.params.any_retired() && !self.encoding {
            let open = self.open.as_ref().and_then(|open| open.taken);
            let oldest = self.ring.iter().find_map(|sent| sent.taken).or(open).map_or(u64::MAX, |taken| taken.oldest);
            self.params.release_before(oldest);
        }
        value
    }
}
