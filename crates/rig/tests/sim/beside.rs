//! Losses in the middle of a submit: another thread closes or loses the device whose point the submit follows, after the submit's checks
//! and before its last look; and work that follows nothing, which no loss of another device may touch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rig_conformance::model::Call;

use crate::log::Outcome;
use crate::player::{Numbers, Player};
use crate::primitive::thread;
use crate::world::{self, Dev};

/// How often a call of room lets others go on at most: it may be another submit's, which nobody waits for.
const TURNS: usize = 300;

/// Where a submit and the loss beside it have come to. Of the standard library, so that these are no points of the schedule.
#[derive(Default)]
struct Meeting {
    /// Whether the next room is to wait for the loss.
    waits: AtomicBool,
    inside: AtomicBool,
    lost: AtomicBool,
    over: AtomicBool,
}

fn is(flag: &AtomicBool) -> bool {
    flag.load(Ordering::SeqCst)
}

fn set(flag: &AtomicBool) {
    flag.store(true, Ordering::SeqCst);
}

impl Player {
    pub fn beside(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let (dev, other) = (self.world.seat(n.next()), self.world.seat(n.next()));
        let lost = |dev: &Dev| dev.device().is_none_or(|device| device.lost().is_some());
        if dev.number == other.number || lost(&dev) || lost(&other) {
            return None;
        }
        let device = other.device()?;
        let point = world::trial(&device).ok()?;
        let key = self.world.point(point);
        let meeting = Arc::new(Meeting::default());
        set(&meeting.waits);
        self.wait_in_room(&dev, &meeting);
        let loses = self.world.extras.gives_up && n.one_in(2);
        if !loses {
            self.cause(&other, "it was closed");
        }
        // Either the room ends with the loss, or as it begins, so that the loss goes on beside what follows.
        let first = n.one_in(2);
        let closer = {
            let (meeting, player, other) = (Arc::clone(&meeting), self.beyond(), Arc::clone(&other));
            thread::spawn(move || {
                while !is(&meeting.inside) && !is(&meeting.over) {
                    thread::yield_now();
                }
                if first {
                    set(&meeting.lost);
                }
                if is(&meeting.inside) && loses {
                    player.lose_now(&other);
                } else if is(&meeting.inside) {
                    device.close();
                }
                set(&meeting.lost);
            })
        };
        let outcome = self.launch_on(&dev, n, |_, _| (vec![point], vec![key]));
        set(&meeting.over);
        closer.join().expect("a panic ends the run");
        self.look(&other);
        self.probe(&dev);
        outcome
    }

    /// Has the next room of the device wait until the loss is there.
    fn wait_in_room(&self, dev: &Dev, meeting: &Arc<Meeting>) {
        let meeting = Arc::clone(meeting);
        dev.control.on(Call::Room, move || {
            if !meeting.waits.swap(false, Ordering::SeqCst) {
                return;
            }
            set(&meeting.inside);
            for _ in 0..TURNS {
                if is(&meeting.lost) {
                    break;
                }
                thread::yield_now();
            }
        });
    }

    /// Submits work that follows nothing and touches no memory: only the loss of its own device may lose it.
    pub fn probe(&self, dev: &Dev) {
        if !self.world.extras.beside && !self.world.extras.gives_up {
            return;
        }
        let Some(device) = dev.device().filter(|device| device.lost().is_none()) else { return };
        let op = self.begin(format!("work that follows nothing on d{}", dev.number), &[dev], Vec::new());
        let outcome = self.outcome_of(&world::try_trial(&device));
        self.end(op, outcome, |_| {});
    }
}
