//! Work: room, which counts, and submit, which places.
//!
//! Both walk the work in the same way (`order.rs`), so they cannot differ; which queue runs each part is decided by `room`, and
//! stands in the part's scratch.

use std::sync::atomic::{AtomicBool, Ordering};

use rig_edge::{Fault, Part, PlanError, Room, Submitted, Work};

use crate::Amd;
use crate::aql::{self, Dispatch};
use crate::kernel::What;
use crate::order::{Engine, Line, Placed, Places, Sink, Walk};
use crate::pm4;
use crate::queue::{ARGUMENTS_ALIGN, Queues};
use crate::ring::Cursor;
use crate::scratch::Scratch;
use crate::sdma::{self, Caches};
use crate::timeline::Flights;
use crate::windows::Windows;

/// What all runs of a submission share: nothing, since packets are made anew in each.
#[derive(Debug)]
pub struct Plan;

/// What the hot calls work on.
#[derive(Debug)]
pub(crate) struct Hot {
    pub queues: Queues,
    pub line: Line,
    pub flights: Flights,
    pub scratch: Scratch,
}

/// What a part's scratch says of the queue that runs it.
fn decided(scratch: &rig_edge::Scratch) -> Engine {
    if scratch[0] == 0 { Engine::Compute } else { Engine::Copier }
}

/// The bytes that a launch takes of the ring of arguments.
fn arguments_len(kernarg: u32) -> u64 {
    u64::from(kernarg.max(1)).next_multiple_of(ARGUMENTS_ALIGN)
}

/// Counts what work takes of the rings.
struct Count<'a> {
    queues: &'a Queues,
    scratch: &'a Scratch,
    compute: Cursor,
    copier: Cursor,
    arguments: Cursor,
    /// Whether the one invalidation of a value is counted.
    stale: bool,
}

impl Sink for Count<'_> {
    #[inline]
    fn commands(&mut self, _: &[u32]) {
        self.queues.compute.ring.pass(&mut self.compute, aql::BYTES);
    }

    #[inline]
    fn launch(&mut self, launch: &Placed<'_>) {
        self.queues.compute.ring.pass(&mut self.compute, aql::BYTES);
        self.queues.arguments.ring.pass(&mut self.arguments, arguments_len(launch.entry.kernarg));
    }

    #[inline]
    fn copier(&mut self, words: &[u32]) {
        self.queues.copier.ring.pass(&mut self.copier, size_of_val(words) as u64);
    }

    fn is_stale(&mut self) -> bool {
        // Counted always: code may be loaded between room and submit.
        !std::mem::replace(&mut self.stale, true)
    }

    fn scratch(&mut self) -> u32 {
        // What is made between room and submit is larger: no launch needs a second command then that needs none here.
        self.queues.compute.ring.pass(&mut self.compute, aql::BYTES);
        self.scratch.units()
    }
}

impl<'a> Count<'a> {
    fn new(hot: &'a Hot) -> Count<'a> {
        let Hot { queues, scratch, .. } = hot;
        Count {
            queues,
            scratch,
            compute: queues.compute.ring.cursor(),
            copier: queues.copier.ring.cursor(),
            arguments: queues.arguments.ring.cursor(),
            stale: false,
        }
    }

    /// Whether it fits now, later or never.
    fn answer(&self) -> Room {
        let rings = [
            (&self.queues.compute.ring, &self.compute, "the compute queue"),
            (&self.queues.copier.ring, &self.copier, "the copy queue"),
            (&self.queues.arguments.ring, &self.arguments, "the memory for arguments"),
        ];
        for (ring, cursor, name) in rings {
            if ring.never_fits(cursor) {
                return Room::Refused(format!(
                    "the submission takes {} bytes of {name}, which has {}: submit it in parts",
                    cursor.bytes,
                    ring.most()
                ));
            }
        }
        if rings.iter().all(|(ring, cursor, _)| ring.fits(cursor)) { Room::Ok } else { Room::Later }
    }
}

/// Places work in the rings.
struct Place<'a> {
    value: u64,
    queues: &'a mut Queues,
    scratch: &'a mut Scratch,
    stale: &'a AtomicBool,
}

impl Sink for Place<'_> {
    #[inline]
    fn commands(&mut self, words: &[u32]) {
        self.queues.compute.run(words);
    }

    #[inline]
    fn launch(&mut self, launch: &Placed<'_>) {
        let Placed { entry, block, acquire, .. } = *launch;
        let (at, kernarg) = self.queues.arguments.take(arguments_len(entry.kernarg));
        self.arguments(at, launch);
        let [x, y, z] = block.threads;
        let along = |axis: usize| block.groups[axis] * block.threads[axis];
        self.queues.compute.packet(&aql::dispatch(&Dispatch {
            acquire,
            workgroup: [x as u16, y as u16, z as u16],
            grid: [along(0), along(1), along(2)],
            private_bytes: entry.private,
            group_bytes: entry.group + block.group_bytes,
            kernel_object: entry.kernel_object,
            kernarg,
        }));
    }

    #[inline]
    fn copier(&mut self, words: &[u32]) {
        self.queues.copier.packet(words);
    }

    #[inline]
    fn is_stale(&mut self) -> bool {
        // ORDERING: Acquire: pairs with the Release of `Image::entry`.
        self.stale.load(Ordering::Relaxed) && self.stale.swap(false, Ordering::Acquire)
    }

    #[cold]
    fn scratch(&mut self) -> u32 {
        let fields = self.scratch.name(self.value);
        let at = self.queues.compute.scratch_at();
        self.queues.compute.run(&pm4::store(at, &fields));
        self.scratch.units()
    }
}

impl Place<'_> {
    /// Writes a launch's arguments at the offset `at`: its parameters, with the addresses of the slots added at its refs, and
    /// what describes the launch.
    #[inline]
    fn arguments(&self, at: usize, launch: &Placed<'_>) {
        let raw = &self.queues.arguments.raw;
        let Placed { entry, block, params, refs, slots, .. } = *launch;
        raw.put(at, params);
        for place in refs {
            let start = place.at as usize;
            // PANIC: rig saw that a ref's eight bytes are inside the parameters.
            let offset: [u8; 8] = params[start..start + 8].try_into().expect("eight bytes");
            let address = slots[place.slot as usize].device.wrapping_add(u64::from_ne_bytes(offset));
            raw.put(at + start, &address.to_ne_bytes());
        }
        if entry.kernarg as usize > params.len() {
            raw.zero(at + params.len(), entry.kernarg as usize - params.len());
            for hidden in entry.hidden.iter() {
                let place = at + hidden.at as usize;
                match hidden.what {
                    What::Groups(axis) => raw.put(place, &block.groups[axis as usize].to_le_bytes()),
                    What::Threads(axis) => raw.put(place, &(block.threads[axis as usize] as u16).to_le_bytes()),
                    What::Dimensions => raw.put(place, &3_u16.to_le_bytes()),
                }
            }
        }
    }
}

/// Puts the copy of `len` bytes on the copy queue of a device that has no value yet, as its first work.
pub(crate) fn first_copy(queues: &mut Queues, places: &Places, from: u64, to: u64, len: u64, mark: u32) {
    for packet in [
        &sdma::caches(Caches::Invalidate)[..],
        &sdma::copy(from, to, len),
        &sdma::caches(Caches::WriteBack),
        &sdma::fence(places.marks[1], mark),
    ] {
        queues.copier.packet(packet);
    }
    queues.publish(&Windows::default());
}

impl Amd {
    pub(crate) fn plan_of(&self, parts: &[Part<Amd>]) -> Result<Plan, PlanError> {
        match parts.iter().position(|part| matches!(part, Part::Fill(_))) {
            None => Ok(Plan),
            Some(index) => Err(PlanError::Refused(format!("part {index} is a fill: this device's queues take none"))),
        }
    }

    /// Decides which queue runs each part, and whether all fits.
    #[inline]
    pub(crate) fn room_for(&self, parts: &[Part<Amd>], work: &mut Work<'_>) -> Room {
        for (index, (part, block)) in parts.iter().zip(work.blocks).enumerate() {
            let engine = match part {
                Part::Launch(launch) => {
                    if let Some(why) = self.limits.refuse(&launch.entry, block) {
                        return Room::Refused(format!("part {index} asks for {why}"));
                    }
                    Engine::Compute
                }
                Part::Copy(copy) => self.places.engine_of(copy, work.slots),
                _ => Engine::Copier,
            };
            work.scratch[index][0] = u64::from(engine == Engine::Copier);
        }
        let mut hot = self.hot.lock();
        let Some(hot) = hot.as_mut() else { return Room::Refused("the device is stopped".into()) };
        let answer = self.count(hot, parts, work);
        if answer != Room::Later && !hot.flights.are_full() {
            return answer;
        }
        hot.flights.see(self.word.load(), &mut hot.queues);
        match self.count(hot, parts, work) {
            Room::Ok if hot.flights.are_full() => Room::Later,
            answer => answer,
        }
    }

    /// Whether the work fits what is free.
    #[inline]
    fn count(&self, hot: &Hot, parts: &[Part<Amd>], work: &Work<'_>) -> Room {
        let mut walk = Walk { line: hot.line, places: &self.places, sink: Count::new(hot) };
        walk.value(hot.flights.last() + 1, parts, work, |index| decided(&work.scratch[index]));
        walk.sink.answer()
    }

    /// Places the work and tells the GPU.
    #[inline]
    pub(crate) fn take(&self, value: u64, parts: &[Part<Amd>], work: &Work<'_>) -> Submitted {
        let mut hot = self.hot.lock();
        let Some(Hot { queues, line, flights, scratch }) = hot.as_mut() else {
            return Submitted::Failed(Fault::new("the device is stopped"));
        };
        let sink = Place { value, queues, scratch, stale: &self.stale };
        let mut walk = Walk { line: *line, places: &self.places, sink };
        walk.value(value, parts, work, |index| decided(&work.scratch[index]));
        *line = walk.line;
        flights.note(value, queues);
        queues.publish(&self.windows);
        Submitted::Committed
    }
}

#[cfg(all(test, unix, feature = "model"))]
#[path = "work_tests.rs"]
mod tests;
