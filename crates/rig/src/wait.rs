//! Waiting for points: read the word, then the state; commit; spin; sleep in the driver.
//!
//! # Invariants
//!
//! 1. No lock is held while a wait sleeps.
//! 2. A wait for a value that waits on a queue for other devices first waits for those: so it learns of their faults
//!    from their own drivers, and its end with Lost comes at once.
//! 3. A wait for a value that stands behind work of a lost device which nobody closes ends too ([`Core::held_up`]).

use std::time::{Duration, Instant};

use rig_edge::{Fault, Sleep};

use crate::device::Core;
use crate::error::invalid;
use crate::primitive::{self, spin_loop, thread};
use crate::profile::{self, HostWork};
use crate::timeline::{Lost, Stamp, State, timelines, word_shows};
use crate::{Error, Result, hold};

/// How long one sleep in the driver may last. TIMEOUT: a waiter looks at the state of its device this often; twenty
/// sleeps a second cost well under 5 ms of processor time (C15).
const SLEEP: Duration = Duration::from_millis(50);

/// How often a wait for a closed device's word looks at it. TIMEOUT: only memory waits for such a word, and rarely.
const CLOSED_POLL: Duration = Duration::from_millis(1);

/// How long a wait for a closed device's word lasts. TIMEOUT: an allocation would rather fail than wait for ever for the
/// work of a device that somebody closed, which may hang.
const CLOSED_BOUND: Duration = Duration::from_secs(2);

/// How many readings of the word one look at the clock is worth.
const SPINS_A_LOOK: u32 = 64;

/// Waits until the value is reached.
///
/// # Errors
///
/// Lost where it failed; Refused where it stands behind a lost device that nobody closes; Invalid from inside a fill or a kernel.
pub(crate) fn wait(stamp: Stamp) -> Result<()> {
    match timelines().state(stamp) {
        State::Reached => Ok(()),
        State::Failed(lost) => Err(lost.into()),
        State::Pending => wait_pending(stamp),
    }
}

fn wait_pending(stamp: Stamp) -> Result<()> {
    if rig_edge::callback::inside() {
        return invalid!("a fill or a kernel cannot wait for a point: wait after the submit");
    }
    let Some(core) = timelines().device(stamp.slot) else {
        // The device is gone, and its values are shown or failed.
        return match timelines().state(stamp) {
            State::Failed(lost) => Err(lost.into()),
            _ => Ok(()),
        };
    };
    profile::host(&core.name, || wait_for(&core, stamp), |_| Some((HostWork::Wait, 0)))
}

fn wait_for(core: &Core, stamp: Stamp) -> Result<()> {
    let mut patience = Patience::new(core);
    loop {
        core.refresh();
        match timelines().state(stamp) {
            State::Reached => return Ok(()),
            State::Failed(lost) => return Err(lost.into()),
            State::Pending => {}
        }
        if let Err(error) = core.commit_through(stamp.value) {
            return lost_or(stamp, error);
        }
        if let Some(producer) = core.waits_for(stamp.value) {
            // Its failure is this value's too, and is seen above.
            if wait(producer).is_ok() {
                thread::yield_now();
                continue;
            }
            // Or that of a value before, behind which this one stands until the lost device is stopped: a wait for that is a
            // wait as any other.
        }
        if let Err(error) = patience.pass(stamp) {
            return lost_or(stamp, error);
        }
    }
}

/// How a wait ends whose device was lost meanwhile: a value that was reached before the loss stays reached.
pub(crate) fn lost_or(stamp: Stamp, error: Error) -> Result<()> {
    match timelines().state(stamp) {
        State::Reached => Ok(()),
        State::Failed(lost) => Err(Lost::into(lost)),
        State::Pending => Err(error),
    }
}

/// The stages of one wait: a bounded spin, then sleeps, then the hang bound.
pub(crate) struct Patience<'a> {
    core: &'a Core,
    spun: bool,
    /// Whether the waiting thread may run the device's work.
    helps: bool,
    seen: u64,
    /// When the word was first seen at `seen`, with nothing of another device in its way.
    since: Option<Instant>,
}

impl<'a> Patience<'a> {
    fn new(core: &'a Core) -> Patience<'a> {
        Patience { core, spun: false, helps: !hold::inside_closure(), seen: core.shown(), since: None }
    }

    /// The patience of a thread that serves others: it neither spins nor helps.
    pub(crate) fn asleep(core: &'a Core) -> Patience<'a> {
        Patience { core, spun: true, helps: false, seen: core.shown(), since: None }
    }

    /// Lets some time pass, until the word moves at the latest.
    pub(crate) fn pass(&mut self, stamp: Stamp) -> Result<()> {
        if !self.spun {
            self.spun = true;
            if self.spin(stamp) {
                return Ok(());
            }
        }
        let now = self.core.shown();
        if now != self.seen {
            self.seen = now;
            self.since = None;
        }
        if now >= stamp.value {
            return Ok(());
        }
        let mut still = SLEEP;
        if let Some(on) = self.core.waits_for(now + 1) {
            // While its next value waits on a queue for another device, it is not this one that hangs.
            self.since = None;
            if let Some(held_up) = self.core.held_up(on) {
                still = still.min(held_up.left()?);
            }
        }
        if let Some(bound) = self.core.facts.hang {
            let time = primitive::now();
            let elapsed = time.saturating_duration_since(*self.since.get_or_insert(time));
            if elapsed >= bound {
                let why = format!("its work hung: the word stood at {now} for {} ms", elapsed.as_millis());
                self.core.lose(Fault::here(why));
                return Err(self.core.lost_error());
            }
            still = still.min(bound - elapsed).max(Duration::from_millis(1));
        }
        self.core.sleep(Sleep { seen: now, until: stamp.value, still, help: self.helps })
    }

    /// Reads the word for as long as the driver says is worth it. True once it shows the value.
    fn spin(&self, stamp: Stamp) -> bool {
        let bound = self.core.facts.spin;
        if bound.is_zero() || cfg!(rig_shuttle) {
            return false;
        }
        let start = Instant::now();
        loop {
            for _ in 0..SPINS_A_LOOK {
                if self.core.shown() >= stamp.value {
                    return true;
                }
                spin_loop();
            }
            if start.elapsed() >= bound || self.core.gate.is_shut() {
                return false;
            }
        }
    }
}

/// Waits until the word shows the value, whatever came of it, or until only a stop that nobody has asked for can make it
/// so. For memory alone.
pub(crate) fn wait_shown(stamp: Stamp) {
    let start = primitive::now();
    while !word_shows(stamp) {
        let Some(core) = timelines().device(stamp.slot) else { return };
        if !core.gate.is_shut() {
            // A failed value of a live device is not waited for by `wait`: its word moves once its producers are stopped.
            if matches!(timelines().state(stamp), State::Failed(_)) || wait(stamp).is_err() {
                return;
            }
            continue;
        }
        if !core.gate.is_closing() {
            return;
        }
        crate::device::sweep_stopped();
        if word_shows(stamp) || primitive::now().saturating_duration_since(start) > CLOSED_BOUND {
            return;
        }
        thread::sleep(CLOSED_POLL);
    }
}

/// Waits until the device's word differs from `seen`, which earlier work of it is to bring about: used after Later.
pub(crate) fn wait_moved(core: &Core, seen: u64) -> Result<()> {
    let submitted = core.submitted.load(crate::primitive::atomic::Ordering::Acquire);
    core.commit_through(submitted)?;
    if core.shown() != seen {
        return Ok(());
    }
    if seen >= submitted {
        core.lose("its driver answered Later with nothing in flight");
        return Err(core.lost_error());
    }
    let next = Stamp { slot: core.slot, value: seen + 1 };
    match wait(next) {
        // It failed with another device, and this one goes on: its word moves once that one is stopped.
        Err(Error::Lost { .. }) if !core.gate.is_shut() => wait_past(core, next),
        answer => answer,
    }
}

/// Waits until the device's word shows the value, whatever came of it. Refused where nobody closes the lost device that it waits
/// for.
fn wait_past(core: &Core, stamp: Stamp) -> Result<()> {
    let mut patience = Patience::new(core);
    while core.shown() < stamp.value {
        core.check_open()?;
        patience.pass(stamp)?;
    }
    Ok(())
}
