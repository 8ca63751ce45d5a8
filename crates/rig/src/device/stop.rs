//! Stopping a device, and what follows: its memory comes back once its work can no longer run.
//!
//! # Invariants
//!
//! 1. A device that is closing stands in the process-wide list until it is finished: stopped, its word at the last value,
//!    and everything that nobody holds given back. Buffers that the program still holds come back when they drop.
//! 2. The list is swept by every open, close and allocation round, and by one reaper thread that lives only while the
//!    list holds something and decides its exit under the list's lock.

use std::sync::Arc;
use std::time::Duration;

use rig_edge::WordSource;

use super::Core;
use super::core::known;
use crate::events::tell;
use crate::primitive::atomic::{AtomicUsize, Ordering};
use crate::primitive::{Mutex, process_wide, thread};
use crate::timeline::timelines;

/// How often the reaper looks. TIMEOUT: memory of a closed device that nobody opens again comes back this late at most,
/// and 50 looks a second cost nothing that can be measured.
const REAPER_PERIOD: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Stopping {
    cores: Mutex<List>,
    count: AtomicUsize,
}

#[derive(Default)]
struct List {
    cores: Vec<Arc<Core>>,
    reaper: bool,
}

process_wide! {
    /// The devices that are closing.
    fn stopping() -> Stopping { Stopping::default() }
}

/// Puts a closing device on the list, once.
pub(super) fn keep_until_over(core: &Arc<Core>) {
    let mut list = stopping().cores.lock();
    if list.cores.iter().any(|known| Arc::ptr_eq(known, core)) {
        return;
    }
    list.cores.push(Arc::clone(core));
    stopping().count.store(list.cores.len(), Ordering::Release);
    if !list.reaper && !cfg!(rig_shuttle) {
        // If the system has no thread, the sweeps of other calls do without.
        list.reaper = thread::Builder::new().name("rig-reaper".into()).spawn(reap).is_ok();
    }
}

fn reap() {
    loop {
        thread::sleep(REAPER_PERIOD);
        sweep_stopped();
        let mut list = stopping().cores.lock();
        if list.cores.is_empty() {
            list.reaper = false;
            return;
        }
    }
}

/// Gives back what stopped devices hold and can give back.
pub(crate) fn sweep_stopped() {
    if stopping().count.load(Ordering::Acquire) == 0 || rig_edge::callback::inside() {
        return;
    }
    let cores = stopping().cores.lock().cores.clone();
    for core in &cores {
        if core.gate.claim_stop() {
            core.stop();
        }
        core.try_finish();
    }
    let mut list = stopping().cores.lock();
    list.cores.retain(|core| !core.is_settled());
    stopping().count.store(list.cores.len(), Ordering::Release);
    drop(list);
    // `cores` drops here, with no lock held: the last reference to a core drops its driver.
}

/// Stops the lost devices of this name: an open of the name asks for it (C01, C20).
pub(super) fn stop_lost(name: &str) {
    for core in known() {
        if &*core.name == name && core.gate.is_lost() {
            core.close("its hardware was opened again");
        }
    }
}

impl Core {
    /// Runs the driver's stop: called once, by whoever claimed it, with no counted call in flight.
    pub(crate) fn stop(&self) {
        let fault = {
            let reason = self.reason.lock();
            reason.as_ref().filter(|reason| reason.fault).map(|reason| Arc::clone(&reason.lost.why))
        };
        // A stop that fails or panics has still ended the device's work as far as it could (E22): the word tells.
        let _ = self.caught(|| self.driver.stop(fault.as_deref()));
        timelines().end_failures(self.slot, self.submitted.load(Ordering::Acquire));
        self.stopped.store(true, Ordering::Release);
        tell!(debug, "a device is stopped", device = &*self.name);
    }

    /// Once the word shows the end: gives back all that nobody holds, and then the slot.
    pub(super) fn try_finish(&self) {
        if !self.is_over() {
            return;
        }
        self.take_back(true);
        self.sweep_retired();
        let memory_back = self.free_mappings() & self.give_cache_back();
        if memory_back && self.retired.lock().is_empty() && !self.finished.swap(true, Ordering::AcqRel) {
            if self.facts.word == WordSource::Own {
                *self.word_freed.lock() = true;
                self.driver.free_word();
            }
            timelines().release(self.slot);
        }
    }

    /// Whether nothing is left to do for the device until somebody drops a buffer of it. What a device that is lost may still
    /// use, or maps and cannot free yet, comes back once that one is stopped.
    fn is_settled(&self) -> bool {
        self.finished.load(Ordering::Acquire)
            && !self.has_dropped()
            && self.retired.lock().is_empty()
            && self.pool.lock().is_back()
    }
}
