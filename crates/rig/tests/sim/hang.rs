//! Devices that stop answering, work that is slow, and the time in which a wait gives up.
//!
//! Time is the simulation's own (`rig_edge::clock::let_pass`): it passes only where nothing goes on any more, in steps of
//! [`STEP`], and after each step a slow device's next value runs. So a device that works is never still for as long as the
//! bound, however slow it is, and is lost for no hang; one that has stopped answering ends every wait for it within two steps;
//! and whatever was to wait for no work ends in the moment in which it began. A device with no bound is only ever slow, over more
//! than twice the others' bound for each value.
//!
//! Where all stand still, what is lost is closed first, but in some seeds ([`Extras::leaves`](crate::plan::Extras::leaves)) nobody
//! does that: then whoever stands behind it is to be told so, in time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rig_conformance::model::Blocked;

use crate::log::Outcome;
use crate::plan::BOUND;
use crate::player::{Numbers, Player};
use crate::primitive::{let_pass, lock};
use crate::world::{Dev, World};

/// How much time passes at once.
const STEP: Duration = BOUND.checked_div(10).expect("a bound of several steps").saturating_mul(6);

/// How often nothing goes on in a row before all stands still. TIMEOUT: every other thread has more turns meanwhile than its
/// way to the next step takes.
const STILL: u64 = 600;

/// How often all may stand still in a row: what is lost is closed, and time passes, by turns.
const STILLS: u64 = 40;

/// A device whose work takes its time.
pub struct Slow {
    dev: Arc<Dev>,
    /// How many more values do.
    values: u32,
    /// After how many steps of time the next one runs.
    rests: u32,
}

impl World {
    /// Nothing has gone on so often in a row.
    pub fn stand_still(&self, vain: u64) {
        if !vain.is_multiple_of(STILL) {
            return;
        }
        let stills = vain / STILL;
        if stills > STILLS {
            self.log.broken("C20, waits end at the hang bound", &format!("nothing goes on: {}", self.log.doing()));
        }
        match (stills % 2 == 1, self.extras.leaves) {
            (true, false) => self.stop_lost(),
            (true, true) => self.end_stopped(),
            (false, _) => self.let_time_pass(),
        }
    }

    fn let_time_pass(&self) {
        let all = self.models.iter().flat_map(|model| (0..model.opened()).map(|index| model.device(index)));
        if all.into_iter().any(|control| matches!(control.blocked(), Some(Blocked::Running(_)))) {
            // A thread is in the middle of it.
            return;
        }
        let_pass(STEP);
        let slow = std::mem::take(&mut *lock(&self.slow));
        for mut of in slow.into_iter().filter(|of| !of.dev.hung.load(Ordering::SeqCst)) {
            of.rests = of.rests.saturating_sub(1);
            if of.rests == 0 {
                of.dev.control.hang(false);
                // It may have nothing to do, or wait for another device.
                let _ = of.dev.control.step();
                of.values -= 1;
                of.rests = self.rests(&of.dev);
            }
            if of.values > 0 {
                of.dev.control.hang(true);
                lock(&self.slow).push(of);
            }
        }
    }

    /// How many steps of time a slow device takes over a value: with no bound, more than any bound.
    fn rests(&self, dev: &Dev) -> u32 {
        if self.plans[dev.model].bound { 1 } else { 4 }
    }

    /// Whether the device may be still for a while. One that blocks in a submit would block there for ever.
    fn may_stand(&self, dev: &Dev) -> bool {
        !self.plans[dev.model].blocks && !dev.hung.load(Ordering::SeqCst)
    }
}

impl Player {
    pub fn hang(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        if !self.world.plans[dev.model].bound {
            return self.slow_down(&dev, n);
        }
        if !self.world.may_stand(&dev) {
            return None;
        }
        dev.hung.store(true, Ordering::SeqCst);
        self.world.log.lock().devices[dev.number].hung = true;
        dev.control.hang(true);
        self.say(&format!("d{} stops answering", dev.number));
        Some(Outcome::Done)
    }

    pub fn slow(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        self.slow_down(&dev, n)
    }

    fn slow_down(&self, dev: &Arc<Dev>, n: &mut Numbers<'_>) -> Option<Outcome> {
        if !self.world.may_stand(dev) {
            return None;
        }
        let values = 1 + n.below(4) as u32;
        dev.control.hang(true);
        self.say(&format!("d{} is slow over {values} values", dev.number));
        let (dev, rests) = (Arc::clone(dev), self.world.rests(dev));
        lock(&self.world.slow).push(Slow { dev, values, rests });
        Some(Outcome::Done)
    }
}
