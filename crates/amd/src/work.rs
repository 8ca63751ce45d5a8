//! Work: room, which counts, and submit, which places.
//!
//! Both walk the work in the same way (`order.rs`), so they cannot differ; which queue runs each part is decided by `room`, and
//! stands in the part's scratch.

use std::sync::atomic::{AtomicBool, Ordering};

use rig_edge::{Fault, Fill, Part, Room, Submitted, Work};

use crate::Amd;
use crate::aql::{self, Dispatch};
use crate::encoder::{self, Allowance};
use crate::kernel::{self, What};
use crate::limits::Limits;
use crate::order::{Engine, Line, Placed, Places, Sink, Walk};
use crate::pm4;
use crate::queue::{ARGUMENTS_ALIGN, Queues};
use crate::ring::{Cursor, Ring};
use crate::scratch::Scratch;
use crate::sdma::{self, Caches};
use crate::timeline::Flights;
use crate::times::{Between, Detail, Stamps};
use crate::windows::Windows;

/// What all runs of a submission share: nothing, since packets are made anew in each.
///
/// ```
#[doc = include_str!("example.txt")]
/// use rig_amd::Plan;
/// use rig_edge::{Driver, Memset, Opener, Part, Timeline, WordIndex};
///
/// // As rig asks for it when a submission is made.
/// let amd = gpu(0).make(Timeline::new(WordIndex::new(7)))?;
/// let plan = amd.plan(&[Part::Memset(Memset { slot: 0, byte: 1 })]);
/// assert!(matches!(plan, Ok(Plan)));
/// amd.stop(None)?;
/// # Ok(())
/// # }
/// ```
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
pub(crate) struct Count<'a> {
    queues: &'a Queues,
    scratch: &'a Scratch,
    pub compute: Cursor,
    pub copier: Cursor,
    pub arguments: Cursor,
    /// Whether the one invalidation of a value is counted.
    pub stale: bool,
    /// The ring of stamps with what the value takes of it, while it is timed.
    stamps: Option<(Ring, Cursor)>,
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

    fn stamp(&mut self, engine: Engine) -> u32 {
        match engine {
            Engine::Compute => self.commands(&[]),
            Engine::Copier => self.copier(&sdma::clock(0)),
        }
        0
    }

    fn between(&mut self, _: Between) {}

    fn fill(walk: &mut Walk<'_, Self>, _: &Fill<Amd>, _: &Work<'_>) -> Result<(), String> {
        walk.count_fill();
        Ok(())
    }
}

impl<'a> Count<'a> {
    pub fn new(queues: &'a Queues, scratch: &'a Scratch) -> Count<'a> {
        Count {
            queues,
            scratch,
            compute: queues.compute.ring.cursor(),
            copier: queues.copier.ring.cursor(),
            arguments: queues.arguments.ring.cursor(),
            stale: false,
            stamps: None,
        }
    }

    /// With the stamps of a value that takes `bytes` of their ring.
    fn with_stamps(self, ring: Ring, bytes: u64) -> Count<'a> {
        let mut cursor = ring.cursor();
        ring.pass(&mut cursor, bytes);
        Count { stamps: Some((ring, cursor)), ..self }
    }

    /// Counts what a fill may take.
    pub fn allow(&mut self, allowance: Allowance) {
        let Queues { compute, copier, arguments } = self.queues;
        compute.ring.allow(&mut self.compute, allowance.compute, aql::BYTES);
        copier.ring.allow(&mut self.copier, allowance.copier, 4 * encoder::PACKET_MOST as u64);
        arguments.ring.allow(&mut self.arguments, allowance.arguments, kernel::ARGUMENTS_MOST);
    }

    /// Whether it fits now, later or never.
    fn answer(&self) -> Room {
        let rings = [
            (&self.queues.compute.ring, &self.compute, "the compute queue"),
            (&self.queues.copier.ring, &self.copier, "the copy queue"),
            (&self.queues.arguments.ring, &self.arguments, "the memory for arguments"),
        ];
        let stamps = self.stamps.as_ref().map(|(ring, cursor)| (ring, cursor, "the memory for times"));
        for (ring, cursor, name) in rings.into_iter().chain(stamps) {
            if ring.never_fits(cursor) {
                return Room::Refused(format!(
                    "the submission takes {} bytes of {name}, which has {}: submit it in parts",
                    cursor.bytes,
                    ring.most()
                ));
            }
        }
        let mut rings = rings.into_iter().chain(stamps);
        if rings.all(|(ring, cursor, _)| ring.fits(cursor)) { Room::Ok } else { Room::Later }
    }
}

/// Places work in the rings.
pub(crate) struct Place<'a> {
    pub value: u64,
    pub queues: &'a mut Queues,
    pub scratch: &'a mut Scratch,
    pub limits: &'a Limits,
    stamps: Option<Stamps<'a>>,
    stale: &'a AtomicBool,
    /// Whether a launch of this value has looked at it: what is loaded meanwhile is of no launch of it.
    pub looked: bool,
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
        if std::mem::replace(&mut self.looked, true) {
            return false;
        }
        // ORDERING: Acquire: pairs with the Release of `Image::tell`.
        self.stale.load(Ordering::Relaxed) && self.stale.swap(false, Ordering::Acquire)
    }

    #[cold]
    fn scratch(&mut self) -> u32 {
        let fields = self.scratch.name(self.value);
        let at = self.queues.compute.scratch_at();
        self.queues.compute.run(&pm4::store(at, &fields));
        self.scratch.units()
    }

    fn stamp(&mut self, engine: Engine) -> u32 {
        // PANIC: a value that is timed has stamps.
        let (number, at) = self.stamps.as_mut().expect("stamps of a value that is timed").next();
        match engine {
            Engine::Compute => self.queues.compute.run(&pm4::clock(at)),
            Engine::Copier => self.queues.copier.packet(&sdma::clock(at)),
        }
        number
    }

    fn between(&mut self, between: Between) {
        if let Some(stamps) = &mut self.stamps {
            stamps.between(between);
        }
    }

    fn fill(walk: &mut Walk<'_, Self>, fill: &Fill<Amd>, work: &Work<'_>) -> Result<(), String> {
        walk.run_fill(fill, work)
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
    /// Decides which queue runs each part and what is timed, and whether all fits.
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
                Part::Memset(_) => Engine::Copier,
                Part::Fill(_) => Engine::Compute,
            };
            work.scratch[index][0] = u64::from(engine == Engine::Copier);
        }
        if work.times.is_some() {
            return self.room_timed(parts, work);
        }
        self.room_of(parts, work, Detail::Nothing)
    }

    /// As much as the rings can hold is timed.
    #[cold]
    fn room_timed(&self, parts: &[Part<Amd>], work: &mut Work<'_>) -> Room {
        if self.clock.get().is_none() {
            return Room::Grow;
        }
        let mut detail = if parts.is_empty() { Detail::Value } else { Detail::Parts };
        loop {
            match self.room_of(parts, work, detail) {
                Room::Refused(_) if detail != Detail::Nothing => detail = detail.less(),
                answer => {
                    detail.note(work);
                    return answer;
                }
            }
        }
    }

    #[inline]
    fn room_of(&self, parts: &[Part<Amd>], work: &Work<'_>, detail: Detail) -> Room {
        let mut hot = self.hot.lock();
        let Some(hot) = hot.as_mut() else { return Room::Refused("the device is stopped".into()) };
        let answer = self.count(hot, parts, work, detail).answer();
        if answer != Room::Later && !hot.flights.are_full() {
            return answer;
        }
        hot.flights.see(self.word.load(), &mut hot.queues);
        if let Some(clock) = self.clock.get().filter(|_| detail != Detail::Nothing) {
            clock.see();
        }
        match self.count(hot, parts, work, detail).answer() {
            Room::Ok if hot.flights.are_full() => Room::Later,
            answer => answer,
        }
    }

    /// Counts what the work takes.
    #[inline]
    fn count<'a>(&'a self, hot: &'a Hot, parts: &[Part<Amd>], work: &Work<'_>, detail: Detail) -> Count<'a> {
        let mut sink = Count::new(&hot.queues, &hot.scratch);
        if let Some(clock) = self.clock.get().filter(|_| detail != Detail::Nothing) {
            sink = sink.with_stamps(clock.ring(), detail.bytes(parts.len()));
        }
        let mut walk = Walk { line: hot.line, places: &self.places, sink };
        // Counting runs no fill, and so there is no error.
        let _ = walk.value(hot.flights.last() + 1, parts, work, |index| decided(&work.scratch[index]), detail);
        walk.sink
    }

    /// Places the work and tells the GPU.
    #[inline]
    pub(crate) fn take(&self, value: u64, parts: &[Part<Amd>], work: &Work<'_>) -> Submitted {
        let mut hot = self.hot.lock();
        let Some(hot) = hot.as_mut() else {
            return Submitted::Failed(Fault::new("the device is stopped"));
        };
        if let Err(why) = self.place(value, hot, parts, work) {
            return Submitted::Failed(Fault::new(why));
        }
        hot.flights.note(value, &hot.queues);
        hot.queues.publish(&self.windows);
        Submitted::Committed
    }

    /// Places the work. The error is a fill's.
    #[inline]
    fn place(&self, value: u64, hot: &mut Hot, parts: &[Part<Amd>], work: &Work<'_>) -> Result<(), String> {
        let Hot { queues, line, scratch, .. } = hot;
        let detail = Detail::of(work);
        let clock = self.clock.get().filter(|_| detail != Detail::Nothing);
        let stamps = clock.and_then(|clock| clock.begin(detail, parts.len()));
        let detail = if stamps.is_some() { detail } else { Detail::Nothing };
        let sink = Place { value, queues, scratch, limits: &self.limits, stamps, stale: &self.stale, looked: false };
        let mut walk = Walk { line: *line, places: &self.places, sink };
        walk.value(value, parts, work, |index| decided(&work.scratch[index]), detail)?;
        *line = walk.line;
        if let (Some(stamps), Some(clock), Some(times)) = (walk.sink.stamps, clock, work.times) {
            stamps.end(clock, value, times);
        }
        Ok(())
    }
}

#[cfg(all(test, unix, feature = "model"))]
#[path = "work_tests.rs"]
mod tests;
