//! Losing a device: once, with one reason, and with everything that waited for it.
//!
//! # The order of a loss
//!
//! 1. The reason is written; the first one stays.
//! 2. The gate shuts: no call enters any more.
//! 3. The slot's unreached values fail (the timeline's invariant 1 says how that is seen in time).
//! 4. Values of other devices that wait on a queue for failed ones fail, and those that follow them, until none is left.
//!
//! A submit looks whether what its value depends on has failed, and notes it, under one lock; a loss fails values before it
//! looks, under that lock, at what is noted: one of the two sees the other. What is noted is given to the driver, so a loss
//! fails no value that a refused submit left to the next one.

use std::any::Any;
use std::sync::Arc;

use rig_edge::{Fault, Reach};

use super::core::{Dependent, Reason, known};
use super::{Core, timelines};
use crate::events::tell;
use crate::primitive::atomic::Ordering;
use crate::primitive::now;
use crate::timeline::{Lost, Stamp};

impl Core {
    /// Loses the device for a fault or a hang, and with it all that the fault reaches. The first reason stays; a device that
    /// is closed is lost already.
    pub(crate) fn lose(&self, fault: impl Into<Fault>) {
        let fault: Fault = fault.into();
        let why: Arc<str> = fault.reason.into();
        if self.lose_alone(&why, true) {
            self.spread(&why, fault.reach);
        }
    }

    /// Loses the device alone, for a reason of the program's. Its driver has not faulted, and its stop is told of no fault (E20).
    pub(crate) fn lose_unfaulted(&self, why: &str) {
        self.lose_alone(&why.into(), false);
        // Also where another loss was first: it may not have come so far, and what waited is Lost once this returns.
        propagate();
    }

    /// Loses what else the fault reaches, and fails what depends on what was lost.
    fn spread(&self, why: &Arc<str>, reach: Option<Reach>) {
        if reach.unwrap_or(self.facts.reach) == Reach::Driver {
            let driver = self.driver.as_any().type_id();
            for other in known().iter().filter(|core| core.driver.as_any().type_id() == driver) {
                other.lose_alone(why, true);
            }
        }
        propagate();
    }

    /// Shuts the device for a fault while its turn is held; [`lose_shut`](Core::lose_shut) then does the rest of the loss.
    pub(crate) fn shut_for(&self, fault: &Fault) {
        self.shut(&fault.reason.as_str().into(), true, |gate| gate.lose());
    }

    /// What a loss brings with it, once [`shut_for`](Core::shut_for) has shut the device, with no lock and no turn held.
    pub(crate) fn lose_shut(&self, fault: Fault) {
        self.wake_waiters();
        let why = fault.reason.into();
        if self.why_lost().as_ref() == Some(&why) {
            tell!(error, "a device is lost", device = &*self.name, why = &*why);
            self.spread(&why, fault.reach);
        }
    }

    fn lose_alone(&self, why: &Arc<str>, fault: bool) -> bool {
        let first = self.shut(why, fault, |gate| gate.lose());
        self.wake_waiters();
        if first {
            tell!(error, "a device is lost", device = &*self.name, why = &**why);
        }
        first
    }

    /// Closes the device: shuts its gate, fails what is not reached, and runs stop unless calls are inside, the last of
    /// which then does.
    pub(crate) fn close(self: &Arc<Core>, why: &str) {
        let why: Arc<str> = why.into();
        let first = self.shut(&why, false, |gate| gate.close());
        if !first {
            self.gate.close();
        }
        // If a fill dropped or closed it, the last call to leave, the next sweep or the reaper does what follows. Claimed
        // before the device stands on the list, so that no other thread's sweep stops it while this close returns.
        let inside = rig_edge::callback::inside();
        let claimed = !inside && self.gate.claim_stop();
        super::stop::keep_until_over(self);
        if first {
            propagate();
        }
        self.wake_waiters();
        if first && !inside {
            tell!(info, "a device is closed", device = &*self.name, why = &*why);
        }
        if claimed {
            self.stop();
        }
        if !inside {
            super::sweep_stopped();
        }
    }

    /// Writes the reason, shuts the gate, fails what is not reached. False if the device was lost or closed before.
    fn shut(&self, why: &Arc<str>, fault: bool, shut: impl FnOnce(&crate::gate::Gate) -> bool) -> bool {
        let lost = Lost { device: Arc::clone(&self.name), why: Arc::clone(why) };
        // Held to the end: stop asks for the reason first, so it raises no word before what was not reached has failed.
        let mut reason = self.reason.lock();
        if reason.is_some() {
            return false;
        }
        *reason = Some(Reason { lost: lost.clone(), fault, since: now() });
        shut(&self.gate);
        self.refresh();
        timelines().fail_unreached(self.slot, &lost);
        drop(reason);
        true
    }

    /// Why the device is lost or closed.
    pub(crate) fn why_lost(&self) -> Option<Arc<str>> {
        self.reason.lock().as_ref().map(|reason| Arc::clone(&reason.lost.why))
    }

    /// Notes that `value`, which the driver is given next, cannot be right unless every value of `on` is. Where one of them
    /// has failed it notes nothing, and gives the failure: then the driver must not be given the value.
    pub(crate) fn depend(&self, value: u64, on: &[Stamp]) -> Option<Lost> {
        let mut dependents = self.dependents.lock();
        if let Some(lost) = on.iter().find_map(|stamp| timelines().failure(*stamp)) {
            return Some(lost);
        }
        let shown = self.shown();
        dependents.retain(|dependent| dependent.value > shown);
        dependents.extend(on.iter().map(|&on| Dependent { value, on }));
        self.mark_oldest(&dependents);
        None
    }

    fn mark_oldest(&self, dependents: &[Dependent]) {
        let oldest = dependents.iter().map(|dependent| dependent.value).min().unwrap_or(u64::MAX);
        self.oldest_dependent.store(oldest, Ordering::Release);
    }

    /// What the unreached values up to `value` wait for and their words do not show: the first such.
    pub(crate) fn waits_for(&self, value: u64) -> Option<Stamp> {
        if self.oldest_dependent.load(Ordering::Acquire) > value {
            return None;
        }
        let mut dependents = self.dependents.lock();
        let shown = self.shown();
        dependents.retain(|dependent| dependent.value > shown);
        self.mark_oldest(&dependents);
        let foreign = dependents.iter().filter(|d| d.value <= value && d.on.slot != self.slot);
        foreign.map(|d| d.on).find(|on| !crate::timeline::word_shows(*on))
    }

    /// Fails the unreached values whose producers failed. True if any did now.
    fn fail_dependents(&self) -> bool {
        let dependents = self.dependents.lock().clone();
        let mut any = false;
        for Dependent { value, on } in dependents {
            if let Some(lost) = timelines().failure(on) {
                any |= timelines().fail_value(self.slot, value, &lost);
            }
        }
        any
    }
}

/// Fails what depends on failed values, over all devices, until nothing more does.
pub(crate) fn propagate() {
    let known = known();
    // Each round fails at least one more value of finitely many.
    while known.iter().filter(|core| core.fail_dependents()).count() > 0 {}
    for core in &known {
        core.wake_waiters();
    }
}

/// A panic's message.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}
