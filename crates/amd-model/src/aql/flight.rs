//! Dispatches that run: their launch, the steps of their work-groups, and their end.

use super::scratch::Scratch;
use super::{Packet, release_scope};
use crate::caches::{Cache, Hit, LINE, Piece, UNITS};
use crate::isa::{Access, Dispatch, Fault, FaultKind, Progress, WorkGroup};
use crate::memory::Miss;
use crate::queue::{Processor, Queue};
use crate::scheduler::Stop;
use crate::shader::ShaderBus;
use crate::state::Core;
use crate::trace::Traced;
use crate::violation::{PublicationFault, Violation, Want};

/// Work-groups of a dispatch that run at once.
const GROUPS_MAX: usize = 4;

/// Instructions of a step, at most.
const INSTRUCTIONS: usize = 64;

/// A dispatch that runs.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(super) packet: Packet,
    pub(super) dispatch: Dispatch,
    groups: [u32; 3],
    /// Work-groups that have begun.
    begun: u64,
    /// Each with its unit, and where the scratch of its waves begins.
    running: Vec<(WorkGroup, usize, Vec<u64>)>,
    pub(super) scratch: Option<Scratch>,
    stores: Cache,
    launched: u64,
    pub(super) arguments: Vec<u8>,
}

impl Core {
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

    pub(super) fn launch(
        &mut self,
        queue: &mut Queue,
        packet: Packet,
        dispatch: Dispatch,
        scratch: Option<Scratch>,
    ) -> Result<(), Stop> {
        if self.scratch_of(queue, &dispatch)? != scratch {
            let va = queue.write_pointer;
            return Err(Stop::Publication(PublicationFault::StorageChanged { va, what: "the queue's scratch" }));
        }
        self.check_code(queue, dispatch.entry);
        let mut arguments = vec![0; dispatch.descriptor.kernarg_bytes as usize];
        self.bytes(queue.gpu, dispatch.kernarg, &mut arguments)?;
        let index = packet.index;
        let flight = Flight {
            packet,
            groups: dispatch.groups(),
            begun: 0,
            running: Vec::new(),
            scratch,
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
        let total = flight.groups.iter().fold(1u64, |total, &n| total.saturating_mul(u64::from(n)));
        let running = flight.running.len();
        let begins = flight.begun < total && running < GROUPS_MAX && (running == 0 || self.rng.below(2) == 0);
        let mut bases = Some(Vec::new());
        if let Some(scratch) = flight.scratch.filter(|_| begins) {
            bases = scratch.take(&mut aql.pieces, flight.dispatch.waves(), &mut self.rng);
        }
        let chosen = match bases {
            Some(bases) if begins => {
                let mut group =
                    WorkGroup::new(&flight.dispatch, group_at(flight.groups, flight.begun), self.rng.next());
                group.set_scratch(&bases);
                flight.begun += 1;
                flight.running.push((group, self.rng.below(UNITS), bases));
                running
            }
            // Other waves have all the scratch of the engine: the group begins later.
            _ if running == 0 => return Ok(()),
            _ => self.rng.below(running),
        };
        let instructions = 1 + self.rng.below(INSTRUCTIONS) as u32;
        let clock = self.clock();
        let caches = &mut self.gpus[gpu].caches;
        let (group, unit, _) = &mut flight.running[chosen];
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
                let (.., bases) = flight.running.swap_remove(chosen);
                if let Some(scratch) = flight.scratch {
                    scratch.give(&mut aql.pieces, &bases);
                }
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

fn group_at(groups: [u32; 3], place: u64) -> [u32; 3] {
    let (x, y) = (u64::from(groups[0]), u64::from(groups[1]));
    [(place % x) as u32, (place / x % y) as u32, (place / (x * y)) as u32]
}

/// What a wave's fault means for its queue.
fn wave_stop(queue: u32, index: u64, fault: &Fault, tripped: bool) -> Stop {
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
