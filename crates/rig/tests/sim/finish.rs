//! Budgets while the program runs, and its end: every wait ends, all memory is right, and everything comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rig::{Error, Point};
use rig_conformance::model::{Model, Options, Pace};

use crate::log::{Allocation, Key};
use crate::player::Player;
use crate::primitive::{lock, pause, thread};
use crate::random::Random;
use crate::world::{self, Dev, World};

/// The bytes of a region that small buffers share, and the largest of those.
const SLAB: u64 = 64 << 10;
const SMALL: u64 = 4 << 10;

/// How often the thread that lets work run looks in vain before a wait counts as one without an end. TIMEOUT: every other
/// thread has as many turns meanwhile; none needs a hundredth.
const VAIN: u64 = 400_000;

/// How often a lazy one looks before it lets work run.
const PATIENT: u64 = 30;

impl World {
    /// What a driver holds is never above the largest budget so far (C18).
    pub fn check_budgets(&self) {
        for dev in lock(&self.devices).iter() {
            let most = self.log.lock().devices[dev.number].budgets.iter().map(|budget| budget.bytes).max().unwrap_or(0);
            let held = dev.control.live_bytes();
            if held > most {
                self.log.broken("C18", &format!("d{} holds {held} bytes of a budget of {most}", dev.number));
            }
        }
    }

    /// Whether an allocation had to fail (C17): all that others may have taken meanwhile, and it, pass the budget.
    pub fn judge_shortage(&self, dev: &Dev, len: usize, own: usize, call: u64, ret: u64) {
        let plan = &self.plans[dev.model];
        let inner = self.log.lock();
        let any_lost = inner.devices.iter().any(|life| life.lost.is_some() || !life.causes.is_empty() && self.loses);
        if any_lost || self.short || plan.short || plan.hides {
            return;
        }
        let budgets = &inner.devices[dev.number].budgets;
        // The last that surely held before the call, and each that may have come with it or after it.
        let last = budgets.iter().filter(|budget| budget.set < call).max_by_key(|budget| budget.set);
        let since = last.map_or(0, |last| last.begun);
        let held = budgets.iter().filter(|budget| budget.begun <= ret && budget.set >= since);
        let budget = held.map(|budget| budget.bytes).min().unwrap_or(0);
        let of_device = |of: &&Allocation| of.counts && of.device == dev.number;
        let there =
            |of: &&Allocation| of.made <= ret && (of.exported || of.dropped.is_none_or(|dropped| dropped >= call));
        let all = inner.allocations.iter().enumerate().filter(|(index, _)| *index != own).map(|(_, of)| of);
        let large = |len: u64| len + len / 16 + 256;
        let taken: u64 = all
            .clone()
            .filter(of_device)
            .filter(there)
            .map(|of| of.len as u64)
            .filter(|len| *len > SMALL)
            .map(large)
            .sum();
        // Of small buffers all count that ever were: how they share regions is not the point here.
        let small = all.filter(of_device).filter(|of| of.len > 0 && of.len as u64 <= SMALL);
        let mut classes = [0_u64; 13];
        small.for_each(|of| classes[(of.len.next_power_of_two().ilog2() as usize).clamp(6, 12)] += 1);
        // At worst each of the three kinds of memory has a region that is hardly used.
        let regions = |(class, count): (usize, &u64)| match count {
            0 => 0,
            count => (count << class).div_ceil(SLAB) + count.min(&3) - 1,
        };
        let slabs: u64 = classes.iter().enumerate().map(regions).sum();
        // What rig itself makes for a trial of peers and for code.
        let own_small = if plan.peers { 2 * SLAB } else { 0 } + if plan.placed { 16 << 10 } else { 0 };
        let wanted = if len as u64 > SMALL { large(len as u64) } else { SLAB };
        let sum = taken + slabs * SLAB + own_small + wanted;
        drop(inner);
        if sum <= budget {
            let how = format!(
                "{len} bytes on d{} were OutOfMemory between {call} and {ret}: others held at most {taken} and {slabs} \
                 shared regions, of a budget of {budget}",
                dev.number
            );
            self.log.broken("C17", &how);
        }
    }

    /// Lets work run until the program is over; finds waits without an end.
    pub fn complete(&self, over: &AtomicBool) {
        let mut random = Random::new(self.log.seed);
        let (mut last, mut vain) = (0, 0_u64);
        let mut since = std::time::Instant::now();
        while !over.load(Ordering::SeqCst) {
            for _ in 0..random.below(4) {
                thread::yield_now();
            }
            if !self.lazy || vain > PATIENT {
                self.models[random.below(self.models.len())].step_any();
            }
            let now = self.log.clock();
            vain = self.vain(now == last, vain, &mut since);
            last = now;
            if vain > 0 && self.extras.hangs {
                self.stand_still(vain);
            } else if vain > 0 && vain.is_multiple_of(VAIN / 100) {
                self.stop_lost();
            }
            if vain > VAIN {
                self.log.broken("no wait without an end", &format!("nothing goes on: {}", self.log.doing()));
            }
            thread::yield_now();
        }
    }

    /// How often nothing has happened in a row. Shuttle's turns are counted; with real threads turns tell nothing.
    #[cfg(rig_shuttle)]
    fn vain(&self, still: bool, vain: u64, _since: &mut std::time::Instant) -> u64 {
        if still { vain + 1 } else { 0 }
    }

    #[cfg(not(rig_shuttle))]
    fn vain(&self, still: bool, _vain: u64, since: &mut std::time::Instant) -> u64 {
        // TIMEOUT: how late work runs that nobody asks for.
        std::thread::sleep(std::time::Duration::from_micros(20));
        if !still {
            *since = std::time::Instant::now();
        }
        // TIMEOUT: half a minute is far beyond what any step takes.
        match since.elapsed().as_secs() {
            0 => 0,
            1..=30 => VAIN / 100,
            _ => VAIN + 1,
        }
    }

    /// Closes what is lost: what stands behind work that waits for it, on a queue, goes on only then.
    pub fn stop_lost(&self) {
        let mut devices: Vec<rig::Device> = lock(&self.devices).iter().filter_map(|dev| dev.any_device()).collect();
        devices.extend(lock(&self.handles).iter().map(|handle| handle.buffer().device()));
        devices.iter().filter(|device| device.lost().is_some()).for_each(rig::Device::close);
        self.end_stopped();
    }

    /// Ends what stopped devices are still at.
    pub fn end_stopped(&self) {
        // Work of a device that faulted and was stopped never ends by itself here: the hardware would cut it off at last.
        let all = self.models.iter().flat_map(|model| (0..model.opened()).map(|index| model.device(index)));
        all.filter(|control| control.is_stopped() && !control.is_dropped()).for_each(|control| control.end_work());
    }

    /// Ends the program: reads all memory, waits for all points, gives all back.
    pub fn finish(self: &Arc<World>) {
        let player = Player::new(self, 99);
        self.log.begin(99, "the end: reading all memory");
        self.stop_lost();
        let handles = std::mem::take(&mut *lock(&self.handles));
        for handle in &handles {
            player.read_all(handle);
        }
        if self.extras.beside || self.extras.gives_up {
            let devices = lock(&self.devices).clone();
            devices.iter().for_each(|dev| player.probe(dev));
        }
        self.log.begin(99, "the end: waiting for all points");
        let points = lock(&self.points).clone();
        for (point, key) in points {
            self.end_of(point, key);
            self.log.answered(key, &point.reached());
        }
        for dev in lock(&self.devices).iter() {
            player.look(dev);
        }
        self.check_losses();
        self.log.begin(99, "the end: dropping all handles");
        drop(handles);
        let claims = std::mem::take(&mut *lock(&self.claims));
        drop(claims);
        let devices = lock(&self.devices).clone();
        devices.iter().for_each(|dev| self.run_out(dev));
        for dev in &devices {
            self.log.begin(99, &format!("the end: what d{} holds", dev.number));
            self.check_empty(dev);
        }
        self.close_all(&player, &devices);
        self.check_back();
        self.check_exports();
    }

    /// How the wait for a point ends, behind whatever is lost: closed, that holds nobody up.
    fn end_of(&self, point: Point, key: Key) {
        let devices = lock(&self.devices).len();
        let mut answer = point.wait();
        for _ in 0..devices {
            self.log.answered(key, &answer.clone().map(|()| true));
            if !matches!(answer, Err(Error::Refused(_))) {
                return;
            }
            self.stop_lost();
            answer = point.wait();
        }
        self.log.answered(key, &answer.map(|()| true));
    }

    /// A device that nothing could lose is not lost.
    fn check_losses(&self) {
        if self.loses {
            return;
        }
        if let Some(life) = self.log.lock().devices.iter().find(|life| life.lost.is_some()) {
            let how = format!("{} is lost, for {:?}, and nothing faulted", life.name, life.lost);
            self.log.broken("C20", &how);
        }
    }

    /// Waits for all that a device runs: its last work, over any device's memory, may have no point that anybody kept.
    fn run_out(&self, dev: &Dev) {
        let Some(device) = dev.device().filter(|device| !self.loses && device.lost().is_none()) else { return };
        if let Err(error) = world::trial(&device).and_then(|point| point.wait()) {
            self.log.broken("C20", &format!("d{} does nothing any more: {error}", dev.number));
        }
    }

    /// An open device without buffers has nothing in use, and gives nearly all of its budget to one.
    fn check_empty(&self, dev: &Dev) {
        let Some(device) = dev.device().filter(|device| device.lost().is_none()) else { return };
        let plan = &self.plans[dev.model];
        device.reclaim();
        let any_lost = self.log.lock().devices.iter().any(|life| life.lost.is_some());
        let (allocated, cached, budget) = (device.allocated(), device.cached(), device.budget());
        let held = dev.control.live_bytes();
        // Memory that a lost device may still use comes back once that one is stopped.
        if any_lost || self.loses {
            return;
        }
        // What a function may reach stays in use for ever.
        let exported = dev.control.exported_bytes();
        if allocated > exported && !plan.placed {
            self.log.broken("C16, C17", &format!("d{} has {allocated} bytes in use, and no buffer", dev.number));
        }
        if !plan.placed && held != allocated + cached {
            let how = format!("d{} holds {held} bytes; rig says {allocated} and {cached}", dev.number);
            self.log.broken("C18", &how);
        }
        if plan.short || self.short {
            return;
        }
        let most = budget.saturating_sub(exported) / 10 * 9;
        if let Err(error) = device.buffer(usize::try_from(most).unwrap_or(0)) {
            self.log.broken(
                "C17",
                &format!("d{} gives no {most} bytes of its {budget}, and has no buffer: {error}", dev.number),
            );
        }
    }

    /// Closes or drops every device, until its driver is gone.
    fn close_all(&self, player: &Player, devices: &[Arc<Dev>]) {
        lock(&self.seats).clear();
        lock(&self.devices).clear();
        for dev in devices {
            if dev.number % 2 == 0 {
                self.cause(dev, "it was closed");
                self.log.in_no_time("a close", || dev.device().iter().for_each(rig::Device::close));
                player.look(dev);
            }
            dev.forget_all(&self.log);
        }
        let sweeper = Model::with("SIM-SWEEP", Options::default().pace(Pace::AtOnce));
        self.log.begin(99, "the end: stopping all devices");
        let left = || {
            let all = self.models.iter().flat_map(|model| (0..model.opened()).map(|index| model.device(index)));
            all.filter(|control| !control.is_dropped()).collect::<Vec<_>>()
        };
        let mut rounds = 0_u64;
        loop {
            let left = left();
            if left.is_empty() {
                break;
            }
            for control in left {
                if control.is_stopped() && rounds > 8 {
                    control.end_work();
                }
            }
            // An open and a close sweep up what stopped devices hold.
            drop(rig::open(sweeper.opener()));
            pause();
            rounds += 1;
            if rounds > 2000 {
                let told = self.models.iter().flat_map(|model| (0..model.opened()).map(|index| model.device(index)));
                let told: Vec<String> = told
                    .filter(|control| !control.is_dropped())
                    .map(|control| {
                        let (regions, images, plans) = (control.regions(), control.images(), control.plans());
                        let (shown, last) = (control.shown(), control.submitted());
                        format!(
                            "stopped {}, {regions} regions, {images} images, {plans} plans, word {shown} of {last}",
                            control.is_stopped()
                        )
                    })
                    .collect();
                self.log.broken("C02", &format!("a driver never goes: {}", told.join("; ")));
            }
        }
        // Threads that served futures end once their device is gone.
        (0..10).for_each(|_| pause());
    }

    /// Nothing is left, and nothing was done wrong.
    fn check_back(&self) {
        for (index, model) in self.models.iter().enumerate() {
            let violations = model.violations();
            if let Some(first) = violations.first() {
                self.log.broken("E", &format!("model {index}: {first} ({} in all)", violations.len()));
            }
            for device in 0..model.opened() {
                let control = model.device(device);
                let bytes = control.live_bytes() - control.exported_bytes();
                let left = (control.regions(), control.images(), control.plans(), bytes);
                if left != (0, 0, 0, 0) {
                    let how = format!("model {index}, device {device}: regions, images, plans, bytes left: {left:?}");
                    self.log.broken("C02, E27", &how);
                }
            }
        }
        for (what, promise, counts) in [("kept objects", "C21", &self.kept), ("owners", "C08", &self.owners)] {
            let (made, dropped) = (counts[0].load(Ordering::SeqCst), counts[1].load(Ordering::SeqCst));
            if made != dropped {
                self.log.broken(promise, &format!("{made} {what} were kept, and {dropped} dropped"));
            }
        }
    }
}
