//! The processor of AQL packets: takes them from the ring in order, checks them, and starts dispatches.
//!
//! A packet stays in its slot until it retires: the waves of a dispatch read theirs. The processor then writes into the slot
//! what no packet holds, with an invalid header, so that a slot that is not written again is noticed. The read index goes
//! on once all earlier packets have retired too.
//!
//! Formats: HSA "Platform System Architecture Specification" 2.9 (packets), and ROCr's headers for the vendor's packet that
//! names an indirect buffer.

mod check;
mod flight;
mod scratch;

use crate::caches::Cache;
use crate::isa::Dispatch;
use crate::memory::Miss;
use crate::pm4::Buffer;
use crate::queue::{Processor, Queue};
use crate::scheduler::{Blocked, Readiness, Stop};
use crate::state::{Core, SILENT};
use crate::trace::Traced;
use crate::violation::{PublicationFault, Want};
use flight::Flight;
use scratch::{Pieces, Scratch};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Bytes of a packet.
const PACKET: usize = 64;

/// What the processor leaves in the body of a slot.
const POISON: u8 = 0xdb;
const POISONED: u64 = u64::from_le_bytes([POISON; 8]);

/// Looks at a slot in one go.
const LOOKS: usize = 400;

/// Dispatches of a queue that run at once.
const FLIGHTS_MAX: usize = 6;

/// Packets behind the doorbell that are looked at for a header that came before its body.
const AHEAD: u64 = 4;

/// A packet's type.
const VENDOR: u16 = 0;
const INVALID: u16 = 1;
const DISPATCH: u16 = 2;
const BARRIER_AND: u16 = 3;
const BARRIER_OR: u16 = 5;

/// A packet as it was taken from the ring.
#[derive(Clone, Debug)]
struct Packet {
    index: u64,
    bytes: [u8; PACKET],
}

/// A packet at the head of the ring, checked, that waits for its turn or is being processed.
#[derive(Debug)]
struct Head {
    packet: Packet,
    work: Work,
    acquired: bool,
}

#[derive(Debug)]
enum Work {
    /// With the scratch that it found.
    Dispatch(Box<Dispatch>, Option<Scratch>),
    /// All of the signals, or one of them.
    Barrier {
        signals: [u64; 5],
        all: bool,
    },
    Buffer(Buffer),
}

/// The processor of one queue.
#[derive(Debug, Default)]
pub(crate) struct AqlState {
    head: Option<Head>,
    /// The next packet to take.
    next: u64,
    /// Packets that have retired before an earlier one.
    retired: BTreeSet<u64>,
    pub(crate) flights: Vec<Flight>,
    /// The pieces of scratch that its waves have.
    pieces: Pieces,
    /// What dispatches stored and no packet released.
    pub(crate) unreleased: Cache,
    /// The queue's own struct was looked at.
    checked: bool,
}

impl Packet {
    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|i| self.bytes[at + i]))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|i| self.bytes[at + i]))
    }

    fn header(&self) -> u16 {
        self.u16(0)
    }

    fn barrier(&self) -> bool {
        self.header() & 1 << 8 != 0
    }

    fn signal(&self) -> u64 {
        self.u64(56)
    }
}

/// The scope of a header's acquire: 0 none, 1 the agent, 2 the system.
fn acquire_scope(header: u16) -> u16 {
    header >> 9 & 3
}

/// The scope of a header's release.
fn release_scope(header: u16) -> u16 {
    header >> 11 & 3
}

impl AqlState {
    /// What a packet that has not retired needs of a range: its index, and what it uses it as.
    pub(crate) fn needs(&self, va: u64, size: u64) -> Option<(u64, &'static str)> {
        let hit = |begin: u64, len: u64| begin < va + size && va < begin + len;
        let flight = self
            .flights
            .iter()
            .find(|flight| !flight.arguments.is_empty() && hit(flight.dispatch.kernarg, flight.arguments.len() as u64));
        if let Some(flight) = flight {
            return Some((flight.packet.index, "arguments"));
        }
        let scratch = |flight: &&Flight| flight.scratch.is_some_and(|scratch| hit(scratch.va, scratch.bytes));
        if let Some(flight) = self.flights.iter().find(scratch) {
            return Some((flight.packet.index, "scratch"));
        }
        let head = self.head.as_ref()?;
        match &head.work {
            Work::Buffer(buffer) if hit(buffer.va, buffer.bytes()) => Some((head.packet.index, "an indirect buffer")),
            _ => None,
        }
    }
}

impl Core {
    /// What a doorbell covers must be published, and what is not must be invalid.
    pub(crate) fn aql_rung(&mut self, queue: &mut Queue, to: u64) -> Result<(), Stop> {
        let Processor::Aql(aql) = &mut queue.processor else { return Ok(()) };
        if !std::mem::replace(&mut aql.checked, true) {
            self.queue_struct(queue)?;
        }
        for index in queue.rung..to {
            let packet = self.slot(queue, index)?;
            if packet.header() & 0xff == INVALID {
                return Err(Stop::Publication(PublicationFault::Invalid));
            }
            if poisoned(&packet) {
                return Err(Stop::Publication(PublicationFault::HeaderFirst));
            }
        }
        Ok(())
    }

    /// Looks at packets that no doorbell covers yet, as the hardware may: one with a header has its body.
    pub(crate) fn aql_ahead(&self, queue: &Queue) -> Result<(), Stop> {
        let Processor::Aql(aql) = &queue.processor else { return Ok(()) };
        let slots = queue.size / PACKET as u64;
        for index in queue.rung..(queue.rung + AHEAD).min(queue.read + slots) {
            // The header is read before the body: its store, with release, was to come last.
            let header = self.word32(queue.gpu, queue.slot_va(index))?;
            if !aql.checked || header as u16 & 0xff == INVALID {
                return Ok(());
            }
            if poisoned(&self.slot(queue, index)?) {
                return Err(Stop::Publication(PublicationFault::HeaderFirst));
            }
        }
        Ok(())
    }

    /// Looks at the next slot of each queue again and again, as long as no doorbell rings.
    pub(crate) fn watch(&mut self) {
        let mut seen = Vec::new();
        for queue in self.queues.values().filter(|queue| !queue.stopped) {
            let Processor::Aql(AqlState { checked: true, .. }) = queue.processor else { continue };
            let va = queue.slot_va(queue.rung);
            let Ok(found) = self.space.reach(queue.gpu, va, Want::Read) else { continue };
            let doorbell = self.gpus[queue.gpu].doorbells.raw().u64(queue.slot * 8);
            for _ in 0..LOOKS {
                // ORDERING: Acquire pairs with the driver's release store of the header, behind the body.
                if found.raw.u32(found.at).load(Ordering::Acquire) as u16 & 0xff != INVALID {
                    let body = (8..PACKET).step_by(8).map(|at| found.raw.u64(found.at + at).load(Ordering::Relaxed));
                    seen.extend(body.filter(|&word| word == POISONED).take(1).map(|_| queue.id));
                    break;
                }
                if doorbell.load(Ordering::Relaxed) != SILENT {
                    break;
                }
            }
        }
        for id in seen {
            self.stopped(id, Stop::Publication(PublicationFault::HeaderFirst));
        }
    }

    fn slot(&self, queue: &Queue, index: u64) -> Result<Packet, Miss> {
        let va = queue.slot_va(index);
        let mut bytes = [0; PACKET];
        // ORDERING: Acquire (in `word32`) pairs with the driver's release store of the header.
        let head = self.word32(queue.gpu, va)?;
        self.bytes(queue.gpu, va, &mut bytes)?;
        bytes[..4].copy_from_slice(&head.to_le_bytes());
        Ok(Packet { index, bytes })
    }

    pub(crate) fn aql_readiness(&self, queue: &Queue, aql: &AqlState) -> Readiness {
        let Some(head) = &aql.head else {
            return if aql.next < queue.rung { Readiness::Ready } else { Readiness::Not };
        };
        if head.packet.barrier() && !aql.flights.is_empty() {
            return Readiness::Not;
        }
        match &head.work {
            Work::Dispatch(..) if aql.flights.len() >= FLIGHTS_MAX => Readiness::Not,
            Work::Dispatch(..) => Readiness::Ready,
            Work::Barrier { signals, all } => self.barrier_readiness(queue.gpu, signals, *all),
            Work::Buffer(buffer) => self.pm4_readiness(queue.gpu, buffer, aql.flights.is_empty()),
        }
    }

    fn barrier_readiness(&self, gpu: usize, signals: &[u64; 5], all: bool) -> Readiness {
        let named = signals.iter().copied().filter(|&signal| signal != 0);
        let mut waits = named.filter_map(|va| match self.signal(gpu, va) {
            // What cannot be read is reported when the packet is processed.
            Ok(0) | Err(_) => None,
            Ok(holds) => Some(Blocked { va: va + 8, holds: holds as u64, wants: 0 }),
        });
        let named = signals.iter().filter(|&&signal| signal != 0).count();
        match waits.next() {
            Some(blocked) if all || waits.count() + 1 == named => Readiness::Blocked(blocked),
            _ => Readiness::Ready,
        }
    }

    /// Moves the head of the ring.
    pub(crate) fn aql_head(&mut self, queue: &mut Queue) -> Result<(), Stop> {
        let Processor::Aql(aql) = &mut queue.processor else { return Ok(()) };
        let Some(mut head) = aql.head.take() else {
            queue.at = aql.next;
            aql.next += 1;
            let packet = self.slot(queue, queue.at)?;
            let work = self.check(queue, &packet)?;
            queue.delay = self.draw_delay();
            let Processor::Aql(aql) = &mut queue.processor else { return Ok(()) };
            aql.head = Some(Head { packet, work, acquired: false });
            return Ok(());
        };
        queue.at = head.packet.index;
        if !std::mem::replace(&mut head.acquired, true) {
            self.acquire(queue.gpu, acquire_scope(head.packet.header()));
        }
        let ids = (queue.gpu, queue.id);
        match head.work {
            Work::Dispatch(dispatch, scratch) => return self.launch(queue, head.packet, *dispatch, scratch),
            Work::Barrier { signals, .. } => {
                for signal in signals.into_iter().filter(|&signal| signal != 0) {
                    self.signal(queue.gpu, signal)?;
                    self.traced(Traced::Waited { queue: queue.id, va: signal + 8 });
                }
            }
            Work::Buffer(mut buffer) => {
                let done = self.pm4_step(queue, &mut buffer)?;
                if !done {
                    let Processor::Aql(aql) = &mut queue.processor else { return Ok(()) };
                    aql.head = Some(Head { packet: head.packet, work: Work::Buffer(buffer), acquired: true });
                    return Ok(());
                }
            }
        }
        self.release(queue, release_scope(head.packet.header()));
        self.complete(ids, head.packet.signal())?;
        self.traced(Traced::Retired { queue: queue.id, index: head.packet.index });
        self.retire(queue, &head.packet)
    }

    /// Steps of delay that the next packet gets.
    pub(crate) fn draw_delay(&mut self) -> u64 {
        match self.faults.delay {
            0 => 0,
            most => self.rng.below(most as usize + 1) as u64,
        }
    }

    /// Takes a packet out of the ring: its slot is poisoned, and the read index goes on if no earlier packet is left.
    fn retire(&mut self, queue: &mut Queue, packet: &Packet) -> Result<(), Stop> {
        if self.slot(queue, packet.index)?.bytes != packet.bytes {
            return Err(Stop::Publication(PublicationFault::Changed));
        }
        let found = self.space.reach(queue.gpu, queue.slot_va(packet.index), Want::Write)?;
        let head = u32::from_le_bytes([INVALID as u8, 0, POISON, POISON]);
        found.raw.u32(found.at).store(head, Ordering::Release);
        found.raw.write(found.at + 4, &[POISON; PACKET - 4]);
        let Processor::Aql(aql) = &mut queue.processor else { return Ok(()) };
        aql.retired.insert(packet.index);
        while aql.retired.remove(&queue.read) {
            queue.read += 1;
        }
        Ok(self.put64(queue.gpu, queue.read_pointer, queue.read)?)
    }

    /// Drops what an acquire drops.
    fn acquire(&mut self, gpu: usize, scope: u16) {
        let caches = &mut self.gpus[gpu].caches;
        if scope >= 1 {
            caches.gl0.iter_mut().chain(&mut caches.scalar).for_each(Cache::clear);
        }
        if scope >= 2 {
            caches.l2.drop_clean();
        }
    }

    /// Gives on what a release gives on, of all dispatches that have ended.
    fn release(&mut self, queue: &mut Queue, scope: u16) {
        let Processor::Aql(aql) = &mut queue.processor else { return };
        let l2 = &mut self.gpus[queue.gpu].caches.l2;
        if scope >= 1 {
            aql.unreleased.release(&self.space, queue.gpu, l2);
        }
        if scope >= 2 {
            l2.write_back(&self.space, queue.gpu);
        }
    }
}

/// Whether 8 bytes of the body are what the processor left there.
fn poisoned(packet: &Packet) -> bool {
    (8..PACKET).step_by(8).any(|at| packet.u64(at) == POISONED)
}
