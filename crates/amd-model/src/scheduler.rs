//! Which engine moves next: every choice is the seed's.
//!
//! One step hears the doorbells, lists what can move (the head of each queue, and every dispatch that runs), and moves one
//! of them a little. Neighbouring dispatches without a barrier so run in any order, queues interleave, and nothing but a
//! wait orders two queues. On a machine that is held while its packets are written, one seed makes one order.

use crate::caches::Cache;
use crate::control::Step;
use crate::events::Exception;
use crate::kfd::abi;
use crate::memory::Miss;
use crate::queue::{Processor, Queue};
use crate::state::{Core, SILENT};
use crate::trace::Traced;
use crate::violation::{PacketFault, PublicationFault, Violation, Want};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What can move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// The head of a queue.
    Head(u32),
    /// A dispatch of a queue, or a copy, by its place among those that run.
    Flight(u32, usize),
}

/// What a wait of a queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) va: u64,
    pub(crate) holds: u64,
    pub(crate) wants: u64,
}

/// Whether the head of a queue can move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// Nothing is published, or an earlier packet of the queue still runs.
    Not,
    Blocked(Blocked),
}

/// What stops an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// An access that no mapping allows.
    Access(Miss),
    /// An access that a test made fault.
    Tripped(u64, Want),
    Packet(PacketFault),
    Publication(PublicationFault),
    Other(Violation),
}

impl From<Miss> for Stop {
    fn from(miss: Miss) -> Self {
        Self::Access(miss)
    }
}

impl From<PacketFault> for Stop {
    fn from(fault: PacketFault) -> Self {
        Self::Packet(fault)
    }
}

impl Core {
    /// Moves one engine; false if none can.
    pub(crate) fn step(&mut self) -> bool {
        if self.faults.hung {
            return false;
        }
        self.hear();
        let mut actors = std::mem::take(&mut self.actors);
        actors.clear();
        self.list(&mut actors);
        let chosen = match actors.len() {
            0 => None,
            1 => Some(actors[0]),
            n => Some(actors[self.rng.below(n)]),
        };
        self.actors = actors;
        let Some(actor) = chosen else {
            self.stand_still();
            return false;
        };
        self.stuck_since = None;
        self.now += 1;
        self.act(actor);
        true
    }

    fn list(&self, actors: &mut Vec<Actor>) {
        for queue in self.queues.values().filter(|queue| !queue.stopped) {
            let running = match &queue.processor {
                Processor::Aql(aql) => aql.flights.len(),
                Processor::Sdma(sdma) => sdma.moves.len(),
            };
            actors.extend((0..running).map(|place| Actor::Flight(queue.id, place)));
            if self.readiness(queue) == Readiness::Ready {
                actors.push(Actor::Head(queue.id));
            }
        }
    }

    fn readiness(&self, queue: &Queue) -> Readiness {
        match &queue.processor {
            Processor::Aql(aql) => self.aql_readiness(queue, aql),
            Processor::Sdma(sdma) => self.sdma_readiness(queue, sdma),
        }
    }

    fn act(&mut self, actor: Actor) {
        let (Actor::Head(id) | Actor::Flight(id, _)) = actor;
        // The queue leaves the table while it moves, so that it and the rest of the machine can change together.
        let Some(mut queue) = self.queues.remove(&id) else { return };
        let result = match actor {
            Actor::Head(_) if queue.delay > 0 => {
                queue.delay -= 1;
                Ok(())
            }
            Actor::Head(_) => match &queue.processor {
                Processor::Aql(_) => self.aql_head(&mut queue),
                Processor::Sdma(_) => self.sdma_head(&mut queue),
            },
            Actor::Flight(_, place) => match &queue.processor {
                Processor::Aql(_) => self.fly(&mut queue, place),
                Processor::Sdma(_) => self.sdma_move(&mut queue, place),
            },
        };
        self.queues.insert(id, queue);
        if let Err(stop) = result {
            self.stopped(id, stop);
        }
    }

    /// What an engine's fault does: it is reported as the hardware and the kernel do, and kept as a violation.
    pub(crate) fn stopped(&mut self, id: u32, stop: Stop) {
        let Some(queue) = self.queues.get(&id) else { return };
        let (gpu, index, gpu_id) = (queue.gpu, queue.at, self.gpus[queue.gpu].id);
        self.gpus[gpu].evicted |= matches!(stop, Stop::Access(_) | Stop::Tripped(..));
        let exception = match stop {
            Stop::Access(Miss { va, want, mapped }) => {
                self.violate(Violation::Access { gpu_id, queue: id, va, want, mapped });
                memory_exception(gpu_id, va, want, mapped)
            }
            Stop::Tripped(va, want) => memory_exception(gpu_id, va, want, false),
            Stop::Packet(fault) => {
                self.violate(Violation::Packet { queue: id, index, fault });
                hang(gpu_id)
            }
            Stop::Publication(fault) => {
                self.violate(Violation::Publication { queue: id, index, fault });
                hang(gpu_id)
            }
            Stop::Other(violation) => {
                self.violate(violation);
                hang(gpu_id)
            }
        };
        self.stop_gpu(gpu);
        self.events.raise(exception);
        self.changed = true;
    }

    /// Stops all queues of a GPU, as the kernel does with a process whose GPU faulted.
    pub(crate) fn stop_gpu(&mut self, gpu: usize) {
        let stopping = self.queues.values_mut().filter(|queue| queue.gpu == gpu && !queue.stopped);
        let mut stopped = Vec::new();
        for queue in stopping {
            queue.stopped = true;
            match &mut queue.processor {
                Processor::Aql(aql) => aql.flights.clear(),
                Processor::Sdma(sdma) => sdma.moves.clear(),
            }
            stopped.push(queue.id);
        }
        for queue in stopped {
            self.traced(Traced::Stopped { queue });
        }
    }

    /// A GPU's own memory holds nothing that was there.
    pub(crate) fn lose_memory(&mut self, gpu: usize) {
        let caches = &mut self.gpus[gpu].caches;
        caches.l2.clear();
        caches.gl0.iter_mut().chain(&mut caches.scalar).for_each(Cache::clear);
        caches.invalidate_code();
        for memory in self.space.iter().filter(|memory| memory.gpu == gpu && memory.flags & abi::FLAG_VRAM != 0) {
            memory.fill(&[LOST; 4096], usize::MAX);
        }
    }

    /// A GPU's caches let a range of addresses go, which is about to be unmapped. What a packet still needs of it is a
    /// violation.
    pub(crate) fn leave(&mut self, gpu: usize, va: u64, size: u64) {
        let space = &self.space;
        let caches = &mut self.gpus[gpu].caches;
        caches.l2.leave(space, gpu, va, size);
        caches.gl0.iter_mut().chain(&mut caches.scalar).for_each(|cache| cache.leave(space, gpu, va, size));
        caches.invalidate_code();
        let mut found = Vec::new();
        for queue in self.queues.values_mut().filter(|queue| queue.gpu == gpu) {
            let needed = match &mut queue.processor {
                Processor::Aql(aql) => {
                    aql.unreleased.leave(space, gpu, va, size);
                    aql.needs(va, size)
                }
                Processor::Sdma(sdma) => {
                    sdma.cache.leave(space, gpu, va, size);
                    sdma.needs(va, size)
                }
            };
            if let Some((index, what)) = needed.filter(|_| !queue.stopped) {
                let fault = PublicationFault::StorageFreed { va, what };
                found.push(Violation::Publication { queue: queue.id, index, fault });
            }
        }
        found.into_iter().for_each(|violation| self.violate(violation));
    }

    /// Hears the doorbells, and before each the flush of the window that came before it.
    fn hear(&mut self) {
        self.flush();
        let (mut ringing, mut wrong) = (Vec::new(), Vec::new());
        for queue in self.queues.values().filter(|queue| !queue.stopped) {
            let doorbell = self.gpus[queue.gpu].doorbells.raw().u64(queue.slot * 8);
            if doorbell.load(Ordering::Relaxed) != SILENT {
                ringing.push(queue.id);
            } else if let Err(stop) = self.aql_ahead(queue) {
                wrong.push((queue.id, stop));
            }
        }
        wrong.into_iter().for_each(|(id, stop)| self.stopped(id, stop));
        ringing.into_iter().for_each(|id| self.hear_one(id));
    }

    fn hear_one(&mut self, id: u32) {
        let Some(queue) = self.queues.get(&id).filter(|queue| !queue.stopped) else { return };
        let doorbell = self.gpus[queue.gpu].doorbells.raw().u64(queue.slot * 8);
        // ORDERING: Acquire pairs with the driver's release store of the doorbell, behind its packets and write index.
        let value = doorbell.swap(SILENT, Ordering::AcqRel);
        self.flush();
        if self.faults.lose_doorbells > 0 {
            self.faults.lose_doorbells -= 1;
            return;
        }
        self.close_doorbells(id);
        let Some(mut queue) = self.queues.remove(&id) else { return };
        let heard = self.rung(&mut queue, value);
        self.queues.insert(id, queue);
        if let Err(stop) = heard {
            self.stopped(id, stop);
        }
    }

    /// The next ring of a GPU's doorbells traps again.
    fn close_doorbells(&self, id: u32) {
        if self.options.trapping
            && let Some(queue) = self.queues.get(&id)
        {
            self.gpus[queue.gpu].doorbells_at.iter().for_each(|&at| crate::trap::close(at, abi::DOORBELL_BYTES));
        }
    }

    /// The host is about to store at an address of a ring or of the doorbells.
    pub(crate) fn trapped(&mut self, address: usize) {
        let mut wrong = None;
        for queue in self.queues.values().filter(|queue| !queue.stopped) {
            let Processor::Aql(_) = queue.processor else { continue };
            let ring = queue.ring as usize;
            if (ring..ring + queue.size as usize).contains(&address) {
                let is_header = (address - ring) % 64 < 4;
                wrong = is_header.then_some((queue.id, PublicationFault::HeaderFirst));
            }
        }
        for queue in self.queues.values().filter(|queue| !queue.stopped) {
            let rings = |&at: &usize| at + queue.slot * 8 == address & !7;
            if self.gpus[queue.gpu].doorbells_at.iter().any(rings) {
                if self.word64(queue.gpu, queue.write_pointer) == Ok(queue.rung) {
                    let fault = PublicationFault::BeyondWriteIndex { doorbell: queue.rung + 1, write: queue.rung };
                    wrong = Some((queue.id, fault));
                }
                if matches!(queue.processor, Processor::Aql(_)) {
                    crate::trap::close(queue.ring as usize, queue.size as usize);
                }
            }
        }
        if let Some((id, fault)) = wrong {
            self.stopped(id, Stop::Publication(fault));
        }
    }

    /// Flushes the windows whose register was written.
    fn flush(&mut self) {
        for (place, gpu) in self.gpus.iter().enumerate() {
            let register = gpu.registers.raw().u32(0);
            // ORDERING: Acquire pairs with the driver's store of the register, behind what it wrote through the window.
            if register.load(Ordering::Relaxed) != 0 && register.swap(0, Ordering::AcqRel) != 0 {
                self.space.flush(place);
            }
        }
    }

    /// A doorbell with a value.
    fn rung(&mut self, queue: &mut Queue, value: u64) -> Result<(), Stop> {
        let aql = matches!(queue.processor, Processor::Aql(_));
        let wrong = |fault| Err(Stop::Publication(fault));
        let to = if aql { value.wrapping_add(1) } else { value };
        let write = self.word64(queue.gpu, queue.write_pointer)?;
        if !aql && !value.is_multiple_of(4) {
            return wrong(PublicationFault::Unaligned { doorbell: value });
        }
        if write < queue.written {
            return wrong(PublicationFault::WriteIndexBack { from: queue.written, to: write });
        }
        queue.written = write;
        if to > write {
            return wrong(PublicationFault::BeyondWriteIndex { doorbell: to, write });
        }
        if to < queue.rung {
            return wrong(PublicationFault::Back { from: queue.rung, to });
        }
        let size = queue.size / queue.unit();
        if write - queue.read > size {
            return wrong(PublicationFault::Overrun { write, read: queue.read, size });
        }
        if aql {
            self.aql_rung(queue, to)?;
        }
        self.traced(Traced::Rung { queue: queue.id, to });
        queue.rung = to;
        Ok(())
    }

    /// Nothing could move: if a queue waits, and has done so for long, that is a deadlock.
    fn stand_still(&mut self) {
        if self.held {
            return;
        }
        let blocked = self.blocked();
        if blocked.is_empty() {
            self.stuck_since = None;
            return;
        }
        let since = *self.stuck_since.get_or_insert_with(Instant::now);
        if since.elapsed() > self.options.stuck_after {
            self.stuck_since = None;
            for violation in blocked {
                let Violation::Deadlock { queue, .. } = violation else { continue };
                self.stopped(queue, Stop::Other(violation));
            }
        }
    }

    /// What queues wait for.
    fn blocked(&self) -> Vec<Violation> {
        let waiting = self.queues.values().filter(|queue| !queue.stopped).filter_map(|queue| {
            let Readiness::Blocked(Blocked { va, holds, wants }) = self.readiness(queue) else { return None };
            Some(Violation::Deadlock { queue: queue.id, index: queue.at, va, holds, wants })
        });
        waiting.collect()
    }

    /// What there is to do, where no engine could move.
    pub(crate) fn standing(&mut self) -> Step {
        let blocked = self.blocked();
        let rung = self.queues.values().any(|queue| {
            let doorbell = self.gpus[queue.gpu].doorbells.raw().u64(queue.slot * 8);
            !queue.stopped && doorbell.load(Ordering::Acquire) != SILENT
        });
        if !blocked.is_empty() {
            Step::Stuck(blocked)
        } else if rung || self.queues.values().any(Queue::busy) {
            Step::Moved
        } else {
            Step::Idle
        }
    }
}

/// What memory that is lost holds.
const LOST: u8 = 0xdd;

fn memory_exception(gpu_id: u32, va: u64, want: Want, mapped: bool) -> Exception {
    let denied = |kind| mapped && want == kind;
    Exception::Memory {
        va,
        gpu_id,
        not_present: !mapped,
        read_only: denied(Want::Write),
        no_execute: denied(Want::Execute),
    }
}

fn hang(gpu_id: u32) -> Exception {
    Exception::Hardware { reset_type: 0, reset_cause: 0, memory_lost: 0, gpu_id }
}
