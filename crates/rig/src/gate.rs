//! The gate of a device: who may call its driver, and when `stop` may run.
//!
//! One atomic word holds the turn, the count of counted calls in flight and the device's state, so that a submit pays
//! one atomic operation to take the turn, to count itself against `stop` and to see that the device is open, and one to
//! leave.
//!
//! # Invariants
//!
//! 1. At most one thread holds the turn. The hot calls run under it alone (E17).
//! 2. The state moves open → lost, open → closing, lost → closing, and never back. No call enters unless it is open.
//! 3. `stop` is claimed once, by whoever sees closing with no turn and no counted call: the closer or the last to leave
//!    (E03, E20). After the claim nobody enters, since the state is never open again.
//!
//! # Memory ordering
//!
//! Taking the turn acquires what the last holder released: the device's submitted value and its plans are plain data
//! under the turn. Leaving releases, and the claim of stop acquires: stop sees all that every call did.

use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::primitive::{Condvar, Mutex, spin_loop};

const TURN: u64 = 1;
const WAITERS: u64 = 1 << 1;
const LOST: u64 = 1 << 2;
const CLOSING: u64 = 1 << 3;
const CLAIMED: u64 = 1 << 4;
const ONE_CALL: u64 = 1 << 8;
const CALLS: u64 = !(ONE_CALL - 1);
const SHUT: u64 = LOST | CLOSING;

/// How many pauses a thread that found the turn held makes before it looks again, at first; each look doubles it.
///
/// The holder of a fast driver's turn is done in some tens of nanoseconds, but the line that the turn stands on takes longer
/// to travel between cores. So who found it held stays away for some submits' time: the holder's core then goes on with the
/// line in its cache, and together the threads submit more than if each submit moved it.
const PAUSES: u32 = if cfg!(rig_shuttle) { 1 } else { 32 };

/// How many looks before a thread parks: some 40 us in all, about what parking and waking cost.
const LOOKS: u32 = if cfg!(rig_shuttle) { 1 } else { 6 };

/// The gate is shut: the device is lost or closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shut;

/// What came of a try for the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Taken,
    Held,
    Shut,
}

/// What a leaver must do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Left {
    /// Nothing.
    Open,
    /// The device was lost or is closing, and others are still inside or somebody else stops it.
    Shut,
    /// The leaver was the last: it runs stop.
    Stop,
}

pub(crate) struct Gate {
    bits: AtomicU64,
    waiting: Mutex<()>,
    given_back: Condvar,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate { bits: AtomicU64::new(0), waiting: Mutex::new(()), given_back: Condvar::new() }
    }

    /// Whether the device is lost or closing.
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        self.bits.load(Ordering::SeqCst) & SHUT != 0
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.bits.load(Ordering::SeqCst) & LOST != 0
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.bits.load(Ordering::SeqCst) & CLOSING != 0
    }

    /// Enters as a counted call; whoever enters leaves by [`leave`](Gate::leave).
    pub(crate) fn enter(&self) -> Result<(), Shut> {
        let mut bits = self.bits.load(Ordering::Relaxed);
        loop {
            if bits & SHUT != 0 {
                return Err(Shut);
            }
            // ORDERING: Acquire pairs with the Release of the open's first stores and of `lose` and `close`.
            match self.bits.compare_exchange_weak(bits, bits + ONE_CALL, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => bits = now,
            }
        }
    }

    pub(crate) fn leave(&self) -> Left {
        // ORDERING: Release: stop's claim sees all that this call did.
        let before = self.bits.fetch_sub(ONE_CALL, Ordering::AcqRel);
        self.left(before - ONE_CALL)
    }

    /// Tries for the turn, once.
    #[inline]
    pub(crate) fn try_turn(&self) -> Turn {
        let mut bits = self.bits.load(Ordering::Relaxed);
        loop {
            if bits & SHUT != 0 {
                return Turn::Shut;
            }
            if bits & TURN != 0 {
                return Turn::Held;
            }
            // ORDERING: Acquire pairs with the Release of `give_turn`.
            match self.bits.compare_exchange_weak(bits, bits | TURN, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Turn::Taken,
                Err(now) => bits = now,
            }
        }
    }

    /// Waits, with no lock held, until the turn was given back or the gate shut. The caller then tries again.
    pub(crate) fn wait_turn(&self) {
        for look in 0..LOOKS {
            for _ in 0..PAUSES << look {
                spin_loop();
            }
            let bits = self.bits.load(Ordering::Relaxed);
            if bits & SHUT != 0 || bits & TURN == 0 {
                return;
            }
        }
        self.park();
    }

    fn park(&self) {
        let mut guard = self.waiting.lock();
        loop {
            let bits = self.bits.load(Ordering::SeqCst);
            if bits & SHUT != 0 || bits & TURN == 0 {
                return;
            }
            let marked = bits | WAITERS;
            if self.bits.compare_exchange(bits, marked, Ordering::SeqCst, Ordering::Relaxed).is_err() {
                continue;
            }
            // The holder sees WAITERS when it gives the turn back, and takes the lock that is held here to notify.
            guard = self.given_back.wait(guard);
        }
    }

    /// Takes the turn, waiting as long as it is held.
    pub(crate) fn take_turn(&self) -> Result<(), Shut> {
        loop {
            match self.try_turn() {
                Turn::Taken => return Ok(()),
                Turn::Shut => return Err(Shut),
                Turn::Held => self.wait_turn(),
            }
        }
    }

    #[inline]
    pub(crate) fn give_turn(&self) -> Left {
        // ORDERING: Release: the next holder sees all that this one did. SeqCst, so that a loss that came before is seen.
        let before = self.bits.fetch_and(!(TURN | WAITERS), Ordering::SeqCst);
        if before & (WAITERS | SHUT) == 0 {
            return Left::Open;
        }
        self.wake();
        self.left(before & !(TURN | WAITERS))
    }

    #[cold]
    fn wake(&self) {
        drop(self.waiting.lock());
        self.given_back.notify_all();
    }

    fn left(&self, bits: u64) -> Left {
        if bits & SHUT == 0 {
            Left::Open
        } else if self.claim_stop() {
            Left::Stop
        } else {
            Left::Shut
        }
    }

    /// Shuts the gate for a loss. True for the first.
    pub(crate) fn lose(&self) -> bool {
        let mut bits = self.bits.load(Ordering::SeqCst);
        loop {
            if bits & SHUT != 0 {
                return false;
            }
            match self.bits.compare_exchange(bits, bits | LOST, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(now) => bits = now,
            }
        }
        self.wake();
        true
    }

    /// Shuts the gate for good. True if the device was open until now.
    pub(crate) fn close(&self) -> bool {
        let before = self.bits.fetch_or(CLOSING, Ordering::SeqCst);
        self.wake();
        before & SHUT == 0
    }

    /// Claims stop, if the device is closing and nobody is inside. True once.
    pub(crate) fn claim_stop(&self) -> bool {
        let mut bits = self.bits.load(Ordering::SeqCst);
        loop {
            if bits & CLOSING == 0 || bits & (CLAIMED | TURN | CALLS) != 0 {
                return false;
            }
            match self.bits.compare_exchange(bits, bits | CLAIMED, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(now) => bits = now,
            }
        }
    }
}

#[cfg(all(test, not(rig_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_to_leave_a_closing_device_runs_stop_and_no_other() {
        let gate = Gate::new();
        gate.enter().unwrap();
        gate.enter().unwrap();
        assert_eq!(gate.try_turn(), Turn::Taken);
        assert!(gate.close());
        assert!(!gate.claim_stop());
        assert_eq!(gate.leave(), Left::Shut);
        assert_eq!(gate.give_turn(), Left::Shut);
        assert_eq!(gate.leave(), Left::Stop);
        assert!(!gate.claim_stop());
        assert_eq!(gate.enter(), Err(Shut));
        assert_eq!(gate.try_turn(), Turn::Shut);
    }

    #[test]
    fn a_loss_shuts_the_gate_once_and_claims_no_stop() {
        let gate = Gate::new();
        assert!(gate.lose());
        assert!(!gate.lose());
        assert!(!gate.claim_stop());
        assert!(!gate.close());
        assert!(gate.claim_stop());
    }

    #[test]
    fn a_turn_that_is_held_is_not_taken_twice() {
        let gate = Gate::new();
        assert_eq!(gate.try_turn(), Turn::Taken);
        assert_eq!(gate.try_turn(), Turn::Held);
        assert_eq!(gate.give_turn(), Left::Open);
        assert_eq!(gate.try_turn(), Turn::Taken);
    }
}
