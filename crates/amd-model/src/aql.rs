//! The processor of AQL packets: takes them from the ring in order, checks them, and starts dispatches.
//!
//! A packet stays in its slot until it retires: the waves of a dispatch read theirs. The processor then writes into the slot
//! what no packet holds, with an invalid header, so that a slot that is not written again is noticed. The read index goes
//! on once all earlier packets have retired too.
//!
//! Formats: HSA "Platform System Architecture Specification" 2.9 (packets), and ROCr's headers for the vendor's packet that
//! names an indirect buffer.

use crate::caches::{Cache, Hit, LINE, Piece, UNITS};
use crate::isa::{Descriptor, Dispatch, FaultKind, Progress, WorkGroup};
use crate::memory::Miss;
use crate::pm4::Buffer;
use crate::queue::{Processor, Queue};
use crate::scheduler::{Blocked, Readiness, Stop};
use crate::shader::ShaderBus;
use crate::state::{Core, SILENT};
use crate::topology::COMPUTE_UNITS;
use crate::trace::Traced;
use crate::violation::{PacketFault, PublicationFault, Violation, Want};
use crate::words::{aligned, zero};
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

/// Work-groups of a dispatch that run at once.
const GROUPS_MAX: usize = 4;

/// Group memory of a work-group.
const GROUP_BYTES_MAX: u32 = 64 * 1024;

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
    Dispatch(Box<Dispatch>),
    /// All of the signals, or one of them.
    Barrier {
        signals: [u64; 5],
        all: bool,
    },
    Buffer(Buffer),
}

/// A dispatch that runs.
#[derive(Debug)]
pub(crate) struct Flight {
    packet: Packet,
    dispatch: Dispatch,
    groups: [u32; 3],
    /// Work-groups that have begun.
    begun: u64,
    running: Vec<(WorkGroup, usize)>,
    stores: Cache,
    launched: u64,
    arguments: Vec<u8>,
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

    /// The struct that the runtime and the processor share: amd_queue_t, around the two indices.
    fn queue_struct(&self, queue: &Queue) -> Result<(), Stop> {
        let base = queue.write_pointer.wrapping_sub(0x38);
        let gpu = queue.gpu;
        let wrong = |field, value, wants| Err(Stop::Publication(PublicationFault::QueueStruct { field, value, wants }));
        if queue.read_pointer != base + 0x80 {
            return wrong("read_dispatch_id", queue.read_pointer, base + 0x80);
        }
        let offset = u64::from(self.word32(gpu, base + 0x88)?);
        if offset != 0x80 {
            return wrong("read_dispatch_id_field_base_byte_offset", offset, 0x80);
        }
        let properties = u64::from(self.word32(gpu, base + 0xb4)?);
        if properties & 2 == 0 {
            return wrong("queue_properties", properties, properties | 2);
        }
        let units = u64::from(self.word32(gpu, base + 0x48)?);
        if units != u64::from(COMPUTE_UNITS) - 1 {
            return wrong("max_cu_id", units, u64::from(COMPUTE_UNITS) - 1);
        }
        let waves = u64::from(self.word32(gpu, base + 0x4c)?);
        if waves != 31 {
            return wrong("max_wave_id", waves, 31);
        }
        for index in self.word64(gpu, queue.write_pointer)?..queue.size / PACKET as u64 {
            let packet = self.slot(queue, index)?;
            let header = packet.header() & 0xff;
            // A slot with a body is being written: packets may be there before the write index says so.
            if header != INVALID && (8..PACKET).step_by(8).all(|at| packet.u64(at) == 0) {
                return wrong("the header of a slot that was not written", u64::from(header), u64::from(INVALID));
            }
        }
        Ok(())
    }

    pub(crate) fn aql_readiness(&self, queue: &Queue, aql: &AqlState) -> Readiness {
        let Some(head) = &aql.head else {
            return if aql.next < queue.rung { Readiness::Ready } else { Readiness::Not };
        };
        if head.packet.barrier() && !aql.flights.is_empty() {
            return Readiness::Not;
        }
        match &head.work {
            Work::Dispatch(_) if aql.flights.len() >= FLIGHTS_MAX => Readiness::Not,
            Work::Dispatch(_) => Readiness::Ready,
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
            Work::Dispatch(dispatch) => return self.launch(queue, head.packet, *dispatch),
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

    /// Checks a packet, and reads what it names.
    fn check(&self, queue: &Queue, packet: &Packet) -> Result<Work, Stop> {
        let header = packet.header();
        zero("header bits 13 to 15", u64::from(header >> 13))?;
        if acquire_scope(header) == 3 || release_scope(header) == 3 {
            let value = u64::from(header);
            return Err(PacketFault::Field { field: "header", value, wants: "scopes of 0, 1 or 2" }.into());
        }
        let signal = packet.signal();
        aligned("completion_signal", signal, 64)?;
        match header & 0xff {
            DISPATCH => self.check_dispatch(queue, packet),
            kind @ (BARRIER_AND | BARRIER_OR) => {
                zero("bytes 2 to 7", packet.u64(0) >> 16)?;
                zero("bytes 48 to 55", packet.u64(48))?;
                let signals = std::array::from_fn(|i| packet.u64(8 + i * 8));
                for signal in signals {
                    aligned("dep_signal", signal, 64)?;
                }
                Ok(Work::Barrier { signals, all: kind == BARRIER_AND })
            }
            VENDOR if packet.u16(2) == 1 => self.check_buffer(queue, packet),
            _ => Err(PacketFault::Unknown { words: [packet.u32(0), packet.u32(4)] }.into()),
        }
    }

    fn check_buffer(&self, queue: &Queue, packet: &Packet) -> Result<Work, Stop> {
        let field =
            |field, at: usize, wants| Err(PacketFault::Field { field, value: u64::from(packet.u32(at)), wants }.into());
        if packet.u32(4) != 0xc002_3f00 {
            return field("INDIRECT_BUFFER", 4, "0xc0023f00");
        }
        aligned("the buffer's address", u64::from(packet.u32(8)), 4)?;
        zero("the buffer's address bits 48 to 63", u64::from(packet.u32(12) >> 16))?;
        let words = packet.u32(16) & 0xf_ffff;
        if packet.u32(16) & !0xf_ffff != 1 << 23 || words == 0 {
            return field("the buffer's length", 16, "a number of words, and the bit 23");
        }
        if packet.u32(20) != 10 {
            return field("the words that follow", 20, "10");
        }
        for at in (24..56).step_by(8) {
            zero("bytes 24 to 55", packet.u64(at))?;
        }
        let va = u64::from(packet.u32(8)) | u64::from(packet.u32(12)) << 32;
        Ok(Work::Buffer(self.pm4_fetch(queue.gpu, va, words as usize)?))
    }

    fn check_dispatch(&self, queue: &Queue, packet: &Packet) -> Result<Work, Stop> {
        let setup = packet.u16(2);
        let dims = usize::from(setup & 3);
        if dims == 0 || setup & !3 != 0 {
            let value = u64::from(setup);
            return Err(PacketFault::Field { field: "setup", value, wants: "1, 2 or 3 dimensions" }.into());
        }
        zero("bytes 10 and 11", u64::from(packet.u16(10)))?;
        zero("bytes 48 to 55", packet.u64(48))?;
        let sizes = [4, 6, 8].map(|at| u32::from(packet.u16(at)));
        let grid = [12, 16, 20].map(|at| packet.u32(at));
        let all: u64 = sizes.iter().map(|&size| u64::from(size)).product();
        if all == 0 || all > 1024 {
            return Err(
                PacketFault::Field { field: "workgroup_size", value: all, wants: "1 to 1024 work-items" }.into()
            );
        }
        for axis in 0..3 {
            let value = u64::from(grid[axis]);
            if value == 0 {
                return Err(PacketFault::Field { field: "grid_size", value, wants: "at least 1" }.into());
            }
            if axis >= dims && (value != 1 || sizes[axis] != 1) {
                return Err(PacketFault::Field { field: "grid_size", value, wants: "1 beyond the dimensions" }.into());
            }
        }
        let descriptor = self.descriptor(queue, packet.u64(32))?;
        at_least("group_segment_size", packet.u32(28), descriptor.group_bytes)?;
        at_least("private_segment_size", packet.u32(24), descriptor.private_bytes)?;
        if packet.u32(28) > GROUP_BYTES_MAX {
            let value = u64::from(packet.u32(28));
            return Err(PacketFault::Field { field: "group_segment_size", value, wants: "65536 or less" }.into());
        }
        let kernarg = packet.u64(40);
        aligned("kernarg_address", kernarg, 16)?;
        let bytes = u64::from(descriptor.kernarg_bytes);
        if self.space.covers(queue.gpu, kernarg, bytes, Want::Read).is_err() {
            let field = "kernarg_address";
            return Err(PacketFault::Field {
                field,
                value: kernarg,
                wants: "mapped as long as the kernel's arguments",
            }
            .into());
        }
        let no_kernel = |why: String| PacketFault::NoKernel { va: packet.u64(32), why };
        let mut dispatch = Dispatch::new(queue.slot_va(packet.index), &packet.bytes, descriptor)
            .map_err(|fault| no_kernel(fault.to_string()))?;
        if !dispatch.entry.is_multiple_of(256) {
            return Err(no_kernel(format!("its entry {:#x} is not a multiple of 256", dispatch.entry)).into());
        }
        dispatch.queue = queue.write_pointer.wrapping_sub(0x38);
        dispatch.id = packet.index;
        dispatch.budget = self.options.wave_budget;
        Ok(Work::Dispatch(Box::new(dispatch)))
    }

    /// The descriptor that a packet's kernel_object names.
    fn descriptor(&self, queue: &Queue, va: u64) -> Result<Descriptor, Stop> {
        let no = |why: &str| PacketFault::NoKernel { va, why: why.to_owned() };
        if !va.is_multiple_of(64) {
            return Err(no("not a multiple of 64").into());
        }
        if self.space.covers(queue.gpu, va, 64, Want::Execute).is_err() {
            return Err(no("not in memory that may run").into());
        }
        let mut bytes = [0; 64];
        self.bytes(queue.gpu, va, &mut bytes)?;
        let reserved = [12..16, 24..44, 60..64];
        if reserved.into_iter().any(|range| bytes[range].iter().any(|&byte| byte != 0)) {
            return Err(no("no descriptor: bytes that are zero in one are not").into());
        }
        let descriptor = Descriptor::read(&bytes);
        if descriptor.entry_offset == 0 {
            return Err(no("no descriptor: its entry is itself").into());
        }
        Ok(descriptor)
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

    /// Looks whether instructions from a kernel's entry on were decoded from other bytes than are there now.
    fn check_code(&mut self, queue: &Queue, entry: u64) {
        let whole = |line| Piece { from: 0, len: LINE as usize, line, at: 0 };
        let mut line = entry - entry % LINE;
        let (mut then, mut now) = ([0; LINE as usize], [0; LINE as usize]);
        while self.gpus[queue.gpu].caches.fetched.get(whole(line), &mut then).0 == Hit::All {
            if self.bytes(queue.gpu, line, &mut now).is_err() {
                return;
            }
            self.gpus[queue.gpu].caches.l2.overlay(whole(line), &mut now);
            if then != now {
                self.violate(Violation::StaleRead { queue: queue.id, va: line, cache: "instructions" });
                return;
            }
            line += LINE;
        }
    }

    fn launch(&mut self, queue: &mut Queue, packet: Packet, dispatch: Dispatch) -> Result<(), Stop> {
        self.check_code(queue, dispatch.entry);
        let mut arguments = vec![0; dispatch.descriptor.kernarg_bytes as usize];
        self.bytes(queue.gpu, dispatch.kernarg, &mut arguments)?;
        let index = packet.index;
        let flight = Flight {
            packet,
            groups: dispatch.groups(),
            begun: 0,
            running: Vec::new(),
            stores: Cache::default(),
            launched: self.now,
            arguments,
            dispatch,
        };
        let Processor::Aql(aql) = &mut queue.processor else { return Ok(()) };
        aql.flights.push(flight);
        self.traced(Traced::Launched { queue: queue.id, index });
        Ok(())
    }

    /// Moves one work-group of a dispatch.
    pub(crate) fn fly(&mut self, queue: &mut Queue, place: usize) -> Result<(), Stop> {
        let (gpu, id) = (queue.gpu, queue.id);
        let Processor::Aql(aql) = &mut queue.processor else { return Ok(()) };
        let flight = &mut aql.flights[place];
        let total: u64 = flight.groups.iter().map(|&n| u64::from(n)).product();
        let running = flight.running.len();
        let chosen = if flight.begun < total && running < GROUPS_MAX && (running == 0 || self.rng.below(2) == 0) {
            let group = WorkGroup::new(&flight.dispatch, group_at(flight.groups, flight.begun), self.rng.next());
            flight.begun += 1;
            flight.running.push((group, self.rng.below(UNITS)));
            running
        } else {
            self.rng.below(running)
        };
        let instructions = 1 + self.rng.below(INSTRUCTIONS) as u32;
        let clock = self.clock();
        let caches = &mut self.gpus[gpu].caches;
        let (group, unit) = &mut flight.running[chosen];
        let mut bus = ShaderBus {
            space: &self.space,
            gpu,
            queue: id,
            l2: &mut caches.l2,
            gl0: &mut caches.gl0[*unit],
            scalar: &mut caches.scalar[*unit],
            fetched: &mut caches.fetched,
            stores: &mut flight.stores,
            unreleased: &aql.unreleased,
            trip: &mut self.faults.access,
            tripped: false,
            found: Vec::new(),
            now: self.now,
            launched: flight.launched,
            clock,
            caches: self.options.caches,
        };
        let progress = group.step(&mut caches.code, &mut bus, instructions);
        let (found, tripped) = (bus.found, bus.tripped);
        found.into_iter().for_each(|violation| self.violate(violation));
        match progress {
            Ok(Progress::Running) => Ok(()),
            Ok(Progress::Done) => {
                flight.running.swap_remove(chosen);
                if flight.running.is_empty() && flight.begun == total {
                    let flight = aql.flights.swap_remove(place);
                    return self.land(queue, flight);
                }
                Ok(())
            }
            Err(fault) => Err(wave_stop(id, flight.packet.index, &fault, tripped)),
        }
    }

    /// A dispatch has ended: its stores are released, and its signal is told.
    fn land(&mut self, queue: &mut Queue, flight: Flight) -> Result<(), Stop> {
        queue.at = flight.packet.index;
        let mut now = vec![0; flight.arguments.len()];
        self.bytes(queue.gpu, flight.dispatch.kernarg, &mut now)?;
        if now != flight.arguments {
            let va = flight.dispatch.kernarg;
            return Err(Stop::Publication(PublicationFault::StorageChanged { va, what: "arguments" }));
        }
        if let Processor::Aql(aql) = &mut queue.processor {
            aql.unreleased.absorb(flight.stores);
        }
        self.release(queue, release_scope(flight.packet.header()));
        self.traced(Traced::Ended { queue: queue.id, index: queue.at });
        self.complete((queue.gpu, queue.id), flight.packet.signal())?;
        self.retire(queue, &flight.packet)
    }
}

/// Instructions of a step, at most.
const INSTRUCTIONS: usize = 64;

fn group_at(groups: [u32; 3], place: u64) -> [u32; 3] {
    let (x, y) = (u64::from(groups[0]), u64::from(groups[1]));
    [(place % x) as u32, (place / x % y) as u32, (place / (x * y)) as u32]
}

fn at_least(field: &'static str, value: u32, wants: u32) -> Result<(), PacketFault> {
    let (value, wants) = (u64::from(value), u64::from(wants));
    if value < wants { Err(PacketFault::TooSmall { field, value, wants }) } else { Ok(()) }
}

/// Whether 8 bytes of the body are what the processor left there.
fn poisoned(packet: &Packet) -> bool {
    (8..PACKET).step_by(8).any(|at| packet.u64(at) == POISONED)
}

/// What a wave's fault means for its queue.
fn wave_stop(queue: u32, index: u64, fault: &crate::isa::Fault, tripped: bool) -> Stop {
    use crate::isa::Access;
    let want = |access| match access {
        Access::Fetch => Want::Execute,
        Access::Load => Want::Read,
        Access::Store | Access::Atomic => Want::Write,
    };
    match fault.kind {
        FaultKind::Unmapped { address, access } if tripped => Stop::Tripped(address, want(access)),
        FaultKind::Unmapped { address, access } => {
            Stop::Access(Miss { va: address, want: want(access), mapped: false })
        }
        FaultKind::Denied { address, access } => Stop::Access(Miss { va: address, want: want(access), mapped: true }),
        FaultKind::Budget { .. } => Stop::Other(Violation::Budget { queue, index, why: fault.to_string() }),
        _ => Stop::Other(Violation::Instruction { queue, index, why: fault.to_string() }),
    }
}
