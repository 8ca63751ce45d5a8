//! Beginning again: an obstacle is waited away with no lock held, and the submit starts anew at the stamps.

use rig_edge::Grown;

use super::{GROWTHS, Obstacle, PATIENCE, Submit, Why};
use crate::allocation::RESERVED;
use crate::error::invalid;
use crate::events::{self, tell};
use crate::primitive::atomic::Ordering;
use crate::timeline::timelines;
use crate::{Error, Point, Result, hold};

impl Submit<'_> {
    #[cold]
    pub(super) fn begin_again(&mut self) -> Result<Point> {
        let mut growths = 0;
        let mut beginnings = 1;
        let result = loop {
            let obstacle = match self.why.take() {
                Some(Why::Begin(obstacle)) => obstacle,
                Some(Why::Fail(error)) => break Err(error),
                None => unreachable!("a halt says why"),
            };
            if let Err(error) = self.pass(obstacle, &mut growths) {
                break Err(error);
            }
            // A reservation helps against what allocations wait for, and not against a device that is much used.
            beginnings += u32::from(!matches!(obstacle, Obstacle::Turn | Obstacle::Stamps));
            if beginnings > PATIENCE && !self.reserved && !self.own_hold && !hold::inside_closure() {
                self.reserve();
            }
            if let Ok(point) = self.attempt() {
                break Ok(point);
            }
        };
        self.unreserve();
        result
    }

    /// Waits an obstacle away, with no lock held.
    fn pass(&mut self, obstacle: Obstacle, growths: &mut u32) -> Result<()> {
        if let (Some(recording), Obstacle::Point(stamp) | Obstacle::Commit(stamp)) = (self.recording, obstacle) {
            recording.follow(stamp);
        }
        match obstacle {
            Obstacle::Hold { buffer, write } => {
                if hold::inside_closure() {
                    return invalid!(
                        "the buffer of slot {buffer} is inside a closure of the host, and so is this thread: submit after \
                         the closure"
                    );
                }
                hold::wait_clear(self.buffers[buffer].allocation(), write, self.reserved);
                Ok(())
            }
            Obstacle::Commit(stamp) => match timelines().device(stamp.slot) {
                // A producer that was lost meanwhile fails its values, which the next attempt meets.
                Some(producer) => {
                    producer.commit_through(stamp.value).or_else(|error| crate::wait::lost_or(stamp, error))
                }
                None => Ok(()),
            },
            Obstacle::Point(stamp) => crate::wait::wait(stamp),
            Obstacle::Stamps => Ok(()),
            Obstacle::Turn => {
                self.core.gate.wait_turn();
                Ok(())
            }
            Obstacle::Later(seen) => crate::wait::wait_moved(self.core, seen),
            Obstacle::Grow => self.grow(growths),
        }
    }

    fn grow(&self, growths: &mut u32) -> Result<()> {
        let grown = self.core.counted(|driver| driver.grow())?;
        *growths += 1;
        tell!(debug, "a driver grew for a submit", device = &*self.core.name, growths = *growths);
        match grown {
            Grown::Grown if *growths <= GROWTHS => Ok(()),
            Grown::Short(_) if *growths < GROWTHS => {
                self.core.reclaim(*growths as usize);
                Ok(())
            }
            Grown::Short(bytes) => {
                events::out_of_memory(self.core, bytes);
                Err(Error::OutOfMemory { bytes })
            }
            Grown::Grown => {
                self.core.lose(format!("its driver asked for more than {GROWTHS} growths for one submit"));
                Err(self.core.lost_error())
            }
        }
    }

    /// Lets this submit go before later ones on its allocations: reserves all of them at once.
    fn reserve(&mut self) {
        if !self.sorted {
            self.sort();
        }
        loop {
            for of in self.order.iter() {
                of.get().lock();
            }
            let taken = self.order.iter().position(|of| {
                // ORDERING: Relaxed: flags are written under the allocation's lock alone.
                of.get().flags.load(Ordering::Relaxed) & RESERVED != 0
            });
            if taken.is_none() {
                for of in self.order.iter() {
                    of.get().flags.fetch_or(RESERVED, Ordering::Relaxed);
                }
                self.reserved = true;
            }
            self.unlock(self.order.len());
            match taken {
                None => return,
                Some(at) => hold::wait_clear(self.order[at].get(), self.order[at].write, false),
            }
        }
    }

    fn unreserve(&mut self) {
        if !std::mem::take(&mut self.reserved) {
            return;
        }
        for of in self.order.iter() {
            let allocation = of.get();
            let flags = allocation.with(|_| hold::clear_flags(allocation, RESERVED));
            hold::wake(allocation, flags);
        }
    }
}
