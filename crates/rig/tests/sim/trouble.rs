//! Steps that lose devices, open them again, and make drivers short of things.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rig_conformance::model::{Call, Pace};

use crate::log::Outcome;
use crate::player::{Numbers, Player};
use crate::primitive::lock;
use crate::world::Dev;

/// How many growths for one submit a driver may ask for.
const GROWTHS: u32 = 4;

impl Player {
    /// Notes a reason for the device; where faults reach further, the log takes any device's reason for anyone's.
    pub fn cause(&self, dev: &Dev, why: &str) {
        self.world.cause(dev, why);
    }

    /// What the program sees of its devices: a loss, with its first reason, for ever.
    pub fn look(&self, dev: &Dev) {
        let Some(device) = dev.device() else { return };
        let Some(why) = device.lost() else { return };
        let mut inner = self.world.log.lock();
        inner.clock += 1;
        let now = inner.clock;
        let life = &mut inner.devices[dev.number];
        life.known_lost.get_or_insert(now);
        let first = life.lost.get_or_insert_with(|| why.to_string()).clone();
        let name = life.name.clone();
        drop(inner);
        if *first != *why {
            self.world.log.broken("C20", &format!("d{} was lost for {first:?}, and now for {why:?}", dev.number));
        }
        self.world.log.check_lost(&name, &why);
    }

    pub fn fault(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let why = self.world.name("it burned");
        self.cause(&dev, &why);
        dev.control.fault(&why);
        self.say(&format!("d{} faults: {why}", dev.number));
        Some(Outcome::Done)
    }

    pub fn fault_in(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        const CALLS: [Call; 14] = [
            Call::Alloc,
            Call::Free,
            Call::MapHost,
            Call::MapPeer,
            Call::Image,
            Call::Entry,
            Call::Unload,
            Call::Plan,
            Call::Room,
            Call::Submit,
            Call::Commit,
            Call::Grow,
            Call::Sleep,
            Call::Submit,
        ];
        let (dev, call) = (self.world.seat(n.next()), CALLS[n.below(CALLS.len())]);
        let why = self.world.name(&format!("a fault in {call:?}"));
        self.cause(&dev, &why);
        // A room has no answer for a fault.
        self.cause(&dev, &format!("its driver panicked: {why}"));
        dev.control.fault_in(call, &why);
        self.say(&format!("d{} will fault: {why}", dev.number));
        Some(Outcome::Done)
    }

    pub fn panic_in(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        const CALLS: [Call; 8] =
            [Call::Alloc, Call::Free, Call::MapPeer, Call::Plan, Call::Room, Call::Submit, Call::Commit, Call::Sleep];
        let (dev, call) = (self.world.seat(n.next()), CALLS[n.below(CALLS.len())]);
        self.cause(&dev, &format!("its driver panicked: the model was told to panic in {call:?}"));
        dev.control.panic_in(call);
        self.say(&format!("d{} will panic in {call:?}", dev.number));
        Some(Outcome::Done)
    }

    pub fn close(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        self.cause(&dev, "it was closed");
        let device = dev.device()?;
        self.world.log.in_no_time("a close", || device.close());
        self.say(&format!("close of d{}", dev.number));
        self.look(&dev);
        Some(Outcome::Done)
    }

    pub fn reopen(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let old = self.world.seat(n.next());
        let lost = old.device().is_none_or(|device| device.lost().is_some());
        if !lost && !n.one_in(4) {
            return None;
        }
        self.look(&old);
        let given = self.world.is_given(old.model);
        let result = self.world.open(old.seat, old.model);
        let outcome = self.told(&format!("opening anew of seat {}", old.seat), &result);
        self.not_invalid("an opening", &outcome);
        if given && result.is_ok() {
            self.world.log.broken("E36", &format!("d{} opened again, and a PCI function has its memory", old.number));
        }
        let Ok(new) = result else { return Some(outcome) };
        self.say(&format!("seat {} is d{}", new.seat, new.number));
        if n.one_in(2) {
            self.say(&format!("d{} is forgotten", old.number));
            self.made.clear();
            self.world.log.lock().devices[old.number].forgotten = true;
            old.forget(&self.world.log);
        }
        let mut seats = lock(&self.world.seats);
        if let Some(seat) = seats.iter_mut().find(|seat| seat.number == old.number) {
            *seat = Arc::clone(&new);
        }
        Some(outcome)
    }

    pub fn shortage(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let times = 1 + n.below(6) as u32;
        let what = n.below(7);
        let control = &dev.control;
        match what {
            0 => control.alloc_fail_next(times),
            1 => control.map_no_memory_next(Call::MapPeer, times as usize),
            2 => control.map_no_memory_next(Call::MapHost, times as usize),
            3 => control.map_never_next(Call::MapPeer, "a will of the driver's"),
            4 => control.no_memory_next(times),
            5 => control.plan_no_memory_next(1),
            _ => {
                self.grow(&dev, 2);
                control.short_next(times);
            }
        }
        self.say(&format!("d{} is short of {what}, {times} times", dev.number));
        Some(Outcome::Done)
    }

    /// Has the driver ask for growths, for as many as one submit may meet without taking the driver for broken.
    fn grow(&self, dev: &Dev, times: u32) {
        let (seeded, short) = (self.world.plans[dev.model].seeded, self.world.short);
        // A model with a seed asks for one more by itself, and for more where growths fall short.
        let most = if !seeded {
            GROWTHS
        } else if short {
            0
        } else {
            GROWTHS - 1
        };
        let before = dev.growths.fetch_add(times, Ordering::Relaxed);
        dev.control.grow_next(times.min(most.saturating_sub(before)));
    }

    /// What a busy driver does, and one that is not.
    pub fn busy(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let what = n.below(4);
        match what {
            0 => self.grow(&dev, 1 + n.below(2) as u32),
            1 => dev.control.commit_now(),
            2 if self.world.faults => {
                self.cause(&dev, "its driver answered Later with nothing in flight");
                dev.control.later_next(1);
            }
            _ if self.world.plans[dev.model].seeded => {}
            _ => dev.control.pace([Pace::AtOnce, Pace::Stepped, Pace::Slept][n.below(3)]),
        }
        self.say(&format!("d{} is busy in way {what}", dev.number));
        Some(Outcome::Done)
    }
}
