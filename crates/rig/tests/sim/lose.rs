//! Devices that the program itself loses, for a reason of its own: from a thread of its own, in a closure over the memory, in a
//! waker that a loss may call, and in a drop of what a submission kept. It takes no time, the first reason stays, nobody else is
//! lost for it whatever the driver's faults reach, and what it fails has failed once it returns.
//!
//! Some seeds draw these losses beside faults, others alone: there every reason must be the program's.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use rig::{Device, Point, PointFuture};
use rig_conformance::model::ModelDriver;

use crate::log::{Key, Outcome};
use crate::player::{Numbers, Player};
use crate::primitive::{block_on, lock, thread};
use crate::world::{self, Dev, World};

impl Player {
    /// A player beside the program's threads, for what runs in a waker, a drop or a thread of a step's own.
    pub fn beyond(&self) -> Player {
        Player::new(&self.world, 98)
    }

    pub fn lose(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let outcome = self.lose_now(&dev);
        if n.one_in(3) {
            self.lose_now(&dev);
        }
        self.others_go_on(&dev);
        outcome
    }

    /// Over memory that the thread itself has in a closure.
    pub fn lose_in_closure(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let mut lost = None;
        self.write_and(n, |player, handle| lost = player.lose_now(&handle.dev));
        lost
    }

    /// In the waker of a future: whoever finds the point reached or lost calls it. Often that is a loss of the point's own
    /// device, beside work of another that follows the point.
    pub fn lose_in_waker(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let (dev, other) = (self.world.seat(n.next()), self.world.seat(n.next()));
        let of_this = n.one_in(2);
        let (point, key) = if of_this { self.followed(&dev, n)? } else { self.world.some_point(n.next())? };
        let target = if n.one_in(2) { &dev } else { &other };
        let flag = || AtomicBool::new(false);
        let loser = Loser { player: self.beyond(), dev: Arc::clone(target), polled: flag(), woken: flag() };
        let loser = Arc::new(loser);
        let awaits = Losing { future: point.into_future(), loser: Arc::clone(&loser) };
        let beside = of_this.then(|| {
            let (loser, player, dev) = (Arc::clone(&loser), self.beyond(), Arc::clone(&dev));
            thread::spawn(move || {
                while !loser.polled.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                player.lose_now(&dev);
            })
        });
        let result = block_on(awaits);
        beside.into_iter().for_each(|beside| beside.join().expect("a panic ends the run"));
        self.world.log.answered(key, &result.clone().map(|()| true));
        let outcome = self.told(&format!("await with a waker that loses {}:{}", key.0, key.1), &result);
        self.not_invalid("an await", &outcome);
        loser.woken.load(Ordering::SeqCst).then_some(outcome)
    }

    /// A new point of the device, which a launch on another follows.
    fn followed(&mut self, dev: &Arc<Dev>, n: &mut Numbers<'_>) -> Option<(Point, Key)> {
        let point = world::trial(&dev.device()?).ok()?;
        let key = self.world.point(point);
        let follower = self.world.seat(n.next());
        self.launch_on(&follower, n, |_, _| (vec![point], vec![key]));
        Some((point, key))
    }

    /// In the drop of an object that a submission keeps, which comes with whatever call finds its work done.
    #[expect(unsafe_code, reason = "a launch")]
    pub fn lose_in_drop(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let (dev, other) = (self.world.seat(n.next()), self.world.seat(n.next()));
        let device = dev.device()?;
        let kept = Kept { world: Arc::downgrade(&self.world), dev: Arc::downgrade(&other) };
        let op =
            self.begin(format!("work that keeps a loss of d{} on d{}", other.number, dev.number), &[&dev], Vec::new());
        let launch = || {
            let mut run = device.submission().fill::<ModelDriver>([], |_, _| Ok(())).keep(kept).make()?.take();
            // SAFETY: the fill does nothing.
            unsafe { run.launch(&[]) }
        };
        let outcome = self.outcome_of(&launch());
        self.not_invalid("a submit of nothing", &outcome);
        Some(self.end(op, outcome, |_| {}))
    }

    /// Loses the device, and looks at what must have come of it by the time that the call returns.
    pub fn lose_now(&self, dev: &Arc<Dev>) -> Option<Outcome> {
        let device = dev.any_device()?;
        let why = self.world.name("the program gave it up");
        let before = device.lost();
        // The device has its place in the table while it is open: these are its own, or settled since long.
        let mine = if before.is_none() { self.points_of(dev) } else { Vec::new() };
        if before.is_none() {
            self.world.log.lock().devices[dev.number].gave_up.push(why.clone());
        }
        self.world.log.in_no_time("a loss", || device.lose(&why));
        let first = self.first_reason(dev, &device, before.as_deref());
        self.say(&format!("d{} is given up for {why:?}, and lost for {first:?}", dev.number));
        self.look(dev);
        self.look_at_points(&mine, &first);
        Some(Outcome::Done)
    }

    /// Why the device is lost: the first reason, where there was one before.
    fn first_reason(&self, dev: &Dev, device: &Device, before: Option<&str>) -> String {
        let after = device.lost();
        match (before, after.as_deref()) {
            (None, Some(now)) => now.into(),
            (Some(before), Some(now)) if before == now => now.into(),
            _ => {
                let how =
                    format!("d{} was given up: it was lost for {before:?} before, and is for {after:?}", dev.number);
                self.world.log.broken("C20", &how)
            }
        }
    }

    fn points_of(&self, dev: &Dev) -> Vec<Key> {
        let inner = self.world.log.lock();
        let timeline = inner.timelines.get(&inner.devices[dev.number].of).copied();
        drop(inner);
        let points = lock(&self.world.points);
        points.iter().map(|(_, key)| *key).filter(|key| Some(key.0) == timeline).collect()
    }

    /// What was not reached is Lost by now: of the device itself, and of whatever waited for it.
    fn look_at_points(&self, mine: &[Key], first: &str) {
        let log = &self.world.log;
        let points: Vec<(Point, Key)> = lock(&self.world.points).clone();
        let mut open = Vec::new();
        for (point, key) in points {
            let known = log.answer(key);
            match (point.reached(), known) {
                (Ok(false), None) => open.push(key),
                (Ok(false), Some(known)) => {
                    log.broken("C31", &format!("point {}:{} was {known:?}, and is not reached", key.0, key.1));
                }
                (answer, _) => log.answered(key, &answer),
            }
        }
        if let Some(key) = open.iter().find(|key| mine.contains(key)) {
            log.broken(
                "C20, C31",
                &format!("point {}:{} is neither reached nor Lost after its device is", key.0, key.1),
            );
        }
        let broken = crate::losses::at_once(&log.lock(), first, &open);
        if let Err((promise, how)) = broken {
            log.broken(promise, &format!("after a loss for {first:?} has returned, {how}, and is not Lost yet"));
        }
    }

    /// What the program sees of the other devices, and that one works which nothing has lost.
    fn others_go_on(&self, dev: &Dev) {
        let others = lock(&self.world.devices).clone();
        let others: Vec<_> = others.into_iter().filter(|other| other.number != dev.number).collect();
        others.iter().for_each(|other| self.look(other));
        let open = |other: &&Arc<Dev>| other.device().is_some_and(|device| device.lost().is_none());
        others.iter().rev().find(open).into_iter().for_each(|other| self.probe(other));
    }
}

/// A future of a point, whose waker loses a device.
struct Losing {
    future: PointFuture,
    loser: Arc<Loser>,
}

impl Future for Losing {
    type Output = rig::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<rig::Result<()>> {
        let both = Waker::from(Arc::new(Both { loser: Arc::clone(&self.loser), waker: context.waker().clone() }));
        let answer = Pin::new(&mut self.future).poll(&mut Context::from_waker(&both));
        self.loser.polled.store(true, Ordering::SeqCst);
        answer
    }
}

struct Loser {
    player: Player,
    dev: Arc<Dev>,
    /// Whether the future has been asked, and so stands in its device's list, or is over.
    polled: AtomicBool,
    woken: AtomicBool,
}

/// A waker that loses a device, and then wakes.
struct Both {
    loser: Arc<Loser>,
    waker: Waker,
}

impl Wake for Both {
    fn wake(self: Arc<Self>) {
        if !self.loser.woken.swap(true, Ordering::SeqCst) {
            self.loser.player.lose_now(&self.loser.dev);
        }
        self.waker.wake_by_ref();
    }
}

/// What a submission keeps: its drop loses a device. It keeps neither the device nor the program.
struct Kept {
    world: Weak<World>,
    dev: Weak<Dev>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let (Some(world), Some(dev)) = (self.world.upgrade(), self.dev.upgrade()) {
            Player::new(&world, 98).lose_now(&dev);
        }
    }
}
