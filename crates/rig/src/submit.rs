//! One submit, from the checks to the stamps.
//!
//! # The steps
//!
//! 1. Check the run and the buffers. The borrow of the buffers is the read claim.
//! 2. Lock the stamps of the allocations, each once: in address order, or many of them by tries. See that no host hold
//!    stands in the way. Collect the points to follow, less those that are reached and those that device order gives.
//! 3. For each producer: see that its work is committed through the point; then a queue wait where the facts allow.
//! 4. Take the turn; read the word; ask room.
//! 5. Choose the value and call the driver's submit; nothing between.
//! 6. Give the turn back; write the stamps, whatever submit answered; unlock; return the point or Lost.
//!
//! What must be waited for is an [`Obstacle`]: everything is released, the obstacle waited away with no lock held, and
//! the submit begins again at 2.
//!
//! # Invariants
//!
//! 1. Nothing blocks while stamps or the turn are held, but a driver's own submit (S13).
//! 2. Locks that are waited for are taken in one order: allocations by address. The turn, and many allocations at first,
//!    are only tried for. So submits never deadlock (S08).
//! 3. A value that was given to the driver is in `submitted` before the turn is given back, and on every stamp before
//!    the stamps are unlocked, whatever the driver answered (S06).
//! 4. A submit that begins anew for the [`PATIENCE`]th time reserves its allocations, all at once, and goes before later
//!    ones.
//!
//! # What it touches
//!
//! For one launch over two buffers in a steady state: a lock and an unlock of each allocation, one atomic operation to
//! take the turn and one to give it back: six in all, whose time is the floor in docs/performance.md. Beside them
//! two lines of each allocation, the run, the parts, the gate's line and the word's. No heap allocation.

mod again;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rig_edge::{Block, Completion, Fault, Room, Scratch, Slot, Submitted, Wait, WordIndex, WordSource, Work, callback};

use crate::allocation::Allocation;
use crate::device::Core;
use crate::error::invalid;
use crate::gate::{Left, Turn};
use crate::hold;
use crate::primitive::atomic::Ordering;
use crate::profile::{self, Recording};
use crate::run::{Run, Use};
use crate::submission::{Made, Shape};
use crate::timeline::{Lost, Stamp, State, timelines, word_shows};
use crate::{Buffer, Error, Point, Result};

/// How often a submit begins before it reserves its allocations.
const PATIENCE: u32 = 4;

/// How often a submit may ask for a growth (E08): as an allocation tries.
const GROWTHS: u32 = 4;

/// Up to this many buffers the allocations are brought into address order as they come. Above it, they are locked as they
/// come, by tries, which for two hundred saves a fifth of the submit; only where one is held already are they sorted.
const FEW: usize = if cfg!(rig_shuttle) { 1 } else { 24 };

/// What stands between a submit and its value.
#[derive(Clone, Copy)]
enum Obstacle {
    /// A host hold, or a submit that goes before, on this buffer's allocation.
    Hold { buffer: usize, write: bool },
    /// A producer's work is not committed yet.
    Commit(Stamp),
    /// A point that no queue of the device can wait for.
    Point(Stamp),
    /// Another thread holds the stamps of an allocation: next time, wait for each in the order of addresses.
    Stamps,
    /// Another thread submits or commits on the device.
    Turn,
    /// The parts fit once the word has moved from here.
    Later(u64),
    /// The driver must grow.
    Grow,
}

/// An attempt gave no point: [`Submit::why`] says why. The reason stands there, and not in here, so that the happy path
/// moves one word.
struct Halt;

/// Why an attempt gave no point.
enum Why {
    Begin(Obstacle),
    Fail(Error),
}

/// A submit under way: the run's fields, borrowed apart.
struct Submit<'a> {
    made: &'a Made,
    core: &'a Core,
    buffers: &'a [&'a Buffer],
    blocks: &'a [Block],
    params: &'a [u8],
    scratch: &'a mut [Scratch],
    slots: &'a mut [Slot],
    order: &'a mut Vec<Use>,
    waits: &'a mut Vec<Wait>,
    after: &'a [Stamp],
    follow: &'a mut Vec<Stamp>,
    depends: &'a mut Vec<Stamp>,
    /// Whether the host itself holds the allocations for this submit: a staging copy of its own closure.
    own_hold: bool,
    reserved: bool,
    /// Whether `order` is in the order of addresses, each allocation once.
    sorted: bool,
    /// What profiles that are being taken want to know of it.
    recording: Option<&'a Recording>,
    why: Option<Why>,
}

/// Submits the run.
pub(crate) fn submit(run: &mut Run, buffers: &[&Buffer]) -> Result<Point> {
    submit_holding(run, buffers, false)
}

/// Submits the run; with `own_hold`, under holds that the caller itself has on all allocations.
pub(crate) fn submit_holding(run: &mut Run, buffers: &[&Buffer], own_hold: bool) -> Result<Point> {
    if profile::is_on() {
        return profile::submit(run, buffers, own_hold);
    }
    submit_recorded(run, buffers, own_hold, None)
}

/// Submits the run, and tells a recording what it asks for.
pub(crate) fn submit_recorded(
    run: &mut Run,
    buffers: &[&Buffer],
    own_hold: bool,
    recording: Option<&Recording>,
) -> Result<Point> {
    if callback::inside() {
        return invalid!("a fill or a kernel cannot submit: submit after it");
    }
    let mut submit = Submit {
        core: run.made.core(),
        made: &run.made,
        buffers,
        blocks: &run.blocks,
        params: bytemuck::cast_slice(&run.params),
        scratch: &mut run.scratch,
        slots: &mut run.slots,
        order: &mut run.order,
        waits: &mut run.waits,
        after: &run.after,
        follow: &mut run.follow,
        depends: &mut run.depends,
        own_hold,
        reserved: false,
        sorted: false,
        recording,
        why: None,
    };
    submit.check()?;
    match submit.attempt() {
        Ok(point) => Ok(point),
        Err(Halt) => submit.begin_again(),
    }
}

impl Submit<'_> {
    // ---- 1: checks ----

    fn check(&mut self) -> Result<()> {
        if self.buffers.len() != self.made.slots.len() {
            return invalid!(
                "a submit of this submission takes {} buffers, not {}",
                self.made.slots.len(),
                self.buffers.len()
            );
        }
        let few = self.buffers.len() <= FEW;
        self.order.clear();
        for (index, buffer) in self.buffers.iter().enumerate() {
            let allocation = buffer.allocation();
            if !Arc::ptr_eq(buffer.handle(), &self.made.handle) {
                return self.wrong_device(index);
            }
            if buffer.is_borrow() {
                self.check_borrow(index)?;
            }
            self.slots[index] = buffer.slot();
            let of = self.made.slots[index];
            let whole = of.whole && buffer.is_whole();
            let new = Use { allocation: allocation.as_non_null(), buffer: index as u32, write: of.write, whole };
            if few {
                insert(self.order, new);
            } else {
                self.order.push(new);
            }
        }
        self.sorted = few;
        for (index, shape) in self.made.shapes.iter().enumerate() {
            match shape {
                Shape::Launch { refs, .. } => self.check_launch(index, refs)?,
                Shape::Copy(copy) => self.check_copy(index, copy.from as usize, copy.to as usize)?,
                Shape::Memset(_) | Shape::Fill => {}
            }
        }
        if self.made.has_fill {
            self.find_handles();
        }
        Ok(())
    }

    /// Gives the slots the vendor's objects of their regions, which only fills look at.
    fn find_handles(&mut self) {
        for (slot, buffer) in self.slots.iter_mut().zip(self.buffers) {
            if let Some(location) = buffer.location() {
                slot.handle = location.handle;
                slot.handle_offset = buffer.in_region();
            }
        }
    }

    /// A device that is lost or closed gives its memory to nobody.
    #[cold]
    fn check_borrow(&self, index: usize) -> Result<()> {
        self.buffers[index].allocation().handle().core.check_open()
    }

    #[cold]
    fn wrong_device(&self, index: usize) -> Result<()> {
        invalid!(
            "the buffer of slot {index} is of {} and the submission of {}: give a buffer of the submission's device",
            self.buffers[index].handle().core.name,
            self.core.name
        )
    }

    /// Brings many uses into address order, each allocation once. Whether some are joined already does not matter.
    #[cold]
    fn sort(&mut self) {
        self.sorted = true;
        self.order.sort_unstable_by_key(|of| of.allocation);
        self.order.dedup_by(|next, kept| {
            let same = next.allocation == kept.allocation;
            if same {
                merge(kept, *next);
            }
            same
        });
    }

    #[inline]
    fn check_launch(&self, index: usize, refs: &[rig_edge::Ref]) -> Result<()> {
        let block = &self.blocks[index];
        let axes = block.groups.iter().chain(&block.threads);
        if axes.copied().min() == Some(0) {
            return invalid!(
                "part {index} has a grid of {:?} groups of {:?} threads: every axis is at least 1",
                block.groups,
                block.threads
            );
        }
        for r in refs {
            let at = (block.params_at + r.at) as usize;
            // PANIC: refs lie inside the launch's parameters by the submission's making.
            let offset = u64::from_ne_bytes(self.params[at..at + 8].try_into().expect("8 bytes"));
            let len = self.slots[r.slot as usize].len;
            if offset >= len.max(1) {
                return invalid!(
                    "part {index} has the offset {offset} at its ref at {}, out of the {len} bytes of slot {}",
                    r.at,
                    r.slot
                );
            }
        }
        Ok(())
    }

    fn check_copy(&self, index: usize, from: usize, to: usize) -> Result<()> {
        let (a, b) = (self.buffers[from], self.buffers[to]);
        if a.len() != b.len() {
            return invalid!("part {index} copies {} bytes of slot {from} to {} of slot {to}", a.len(), b.len());
        }
        if std::ptr::eq(a.allocation().as_ptr(), b.allocation().as_ptr()) && a.offset().abs_diff(b.offset()) < a.len() {
            return invalid!("part {index} copies slot {from} onto bytes of itself: use Buffer::copy_to for that");
        }
        Ok(())
    }

    // ---- 2 to 6: one attempt ----

    #[inline]
    fn attempt(&mut self) -> std::result::Result<Point, Halt> {
        if self.sorted {
            self.lock_and_collect::<false>()?;
        } else {
            self.try_and_collect()?;
        }
        if let Err(halt) = self.place_waits() {
            self.unlock(self.order.len());
            return Err(halt);
        }
        match self.core.gate.try_turn() {
            Turn::Taken => {}
            Turn::Held => {
                self.unlock(self.order.len());
                return self.begin(Obstacle::Turn);
            }
            Turn::Shut => {
                self.unlock(self.order.len());
                return self.fail(self.core.lost_error());
            }
        }
        let outcome = self.hand_over();
        let value = match &outcome {
            Ok(value) => *value,
            Err(trouble) => self.give_up(trouble),
        };
        let left = self.core.gate.give_turn();
        if value == NOT_GIVEN {
            self.unlock(self.order.len());
        } else {
            self.stamp_and_unlock(Stamp { slot: self.core.slot, value });
        }
        if left == Left::Open
            && let Ok(value) = outcome
        {
            return Ok(Point::new(Stamp { slot: self.core.slot, value }));
        }
        self.conclude(outcome, left)
    }

    /// What failed under the turn shuts the device before the turn is given back, or another thread's value would come after
    /// one that never runs (E09). The value that the driver was given.
    #[cold]
    fn give_up(&self, trouble: &Trouble) -> u64 {
        if let Trouble::Failed { fault, .. } | Trouble::Panicked(fault) = trouble {
            self.core.shut_for(fault);
        }
        trouble.given()
    }

    #[cold]
    fn conclude(&mut self, outcome: std::result::Result<u64, Trouble>, left: Left) -> std::result::Result<Point, Halt> {
        self.core.after(left);
        match outcome {
            // The device was lost or closed before the submit returned (S11).
            Ok(_) => self.fail(self.core.lost_error()),
            Err(Trouble::Failed { fault, .. } | Trouble::Panicked(fault)) => {
                self.core.lose_shut(fault);
                self.fail(self.core.lost_error())
            }
            Err(Trouble::Refused(why)) => {
                self.fail(Error::Invalid(format!("{} refuses the work: {why}", self.core.name)))
            }
            Err(Trouble::Error(error)) => self.fail(error),
            Err(Trouble::Begin(obstacle)) => self.begin(obstacle),
        }
    }

    fn begin<T>(&mut self, obstacle: Obstacle) -> std::result::Result<T, Halt> {
        self.why = Some(Why::Begin(obstacle));
        Err(Halt)
    }

    #[cold]
    fn fail<T>(&mut self, error: impl Into<Error>) -> std::result::Result<T, Halt> {
        self.why = Some(Why::Fail(error.into()));
        Err(Halt)
    }

    /// Unlocks the first `count` allocations of `order`.
    #[cold]
    fn unlock(&self, count: usize) {
        for of in &self.order[..count] {
            // SAFETY: `lock_and_collect` took each of these on this thread, and no reference into their states is alive.
            #[expect(unsafe_code, reason = "the stamps' lock has no guard")]
            unsafe {
                of.get().unlock();
            }
        }
    }

    /// Locks all allocations as they come, without waiting for any, and joins the uses of each. No lock is held if it does
    /// not answer Ok.
    fn try_lock_all(&mut self) -> std::result::Result<(), Halt> {
        let mut held = 0;
        for index in 0..self.order.len() {
            let of = self.order[index];
            let allocation = of.get();
            if allocation.try_lock() {
                allocation.note(held);
                self.order[held] = of;
                held += 1;
                continue;
            }
            // What another thread noted fits a use here at most by chance, and then that use is of another allocation.
            match self.order[..held].get_mut(allocation.noted()) {
                Some(mine) if mine.allocation == of.allocation => merge(mine, of),
                _ => {
                    self.unlock(held);
                    // The uses between are joined already: what is left out stands among the first.
                    self.order.drain(held..index);
                    self.sort();
                    return self.begin(Obstacle::Stamps);
                }
            }
        }
        self.order.truncate(held);
        Ok(())
    }

    #[inline(never)]
    fn try_and_collect(&mut self) -> std::result::Result<(), Halt> {
        self.try_lock_all()?;
        self.lock_and_collect::<true>()
    }

    /// Locks the allocations, unless they are `LOCKED`; sees that nothing is in the way; collects the points to follow. Locks
    /// are held if it answers Ok, and none if not.
    #[inline]
    fn lock_and_collect<const LOCKED: bool>(&mut self) -> std::result::Result<(), Halt> {
        self.follow.clear();
        self.depends.clear();
        for index in 0..self.order.len() {
            let of = self.order[index];
            let allocation = of.get();
            if !LOCKED {
                allocation.lock();
            }
            let held_now = if LOCKED { self.order.len() } else { index + 1 };
            // SAFETY: the lock is held, by this loop or by the tries, and this is the only reference until the end of the
            // loop's body.
            #[expect(unsafe_code, reason = "the stamps' lock has no guard")]
            let held = unsafe { allocation.held() };
            if !self.own_hold && hold::in_the_way(allocation, &held, of.write, self.reserved) {
                self.unlock(held_now);
                return self.begin(Obstacle::Hold { buffer: of.buffer as usize, write: of.write });
            }
            // Read under the lock: whoever left a stamp here noted what it depends on before.
            let oldest = self.core.oldest_dependent.load(Ordering::Acquire);
            if let Some(stamp) = held.stamps.write() {
                // What is overwritten whole is not read: the order matters, and what came of the write does not.
                self.meet(stamp, if of.whole { u64::MAX } else { oldest });
            }
            if of.write {
                held.stamps.each_read(|stamp| self.meet(stamp, u64::MAX));
            }
        }
        // After the words: a loss that is not seen here read its word later, and failed nothing that was shown above.
        if self.core.timelines.any_failed() {
            self.see_failures()?;
        }
        if self.after.is_empty() { Ok(()) } else { self.collect_after() }
    }

    /// Looks whether a stamp of the locked allocations stands in the way because it failed.
    #[cold]
    fn see_failures(&mut self) -> std::result::Result<(), Halt> {
        for index in 0..self.order.len() {
            let of = self.order[index];
            // SAFETY: the locks of all are held, and this is the only reference until the end of the loop's body.
            #[expect(unsafe_code, reason = "the stamps' lock has no guard")]
            let held = unsafe { of.get().held() };
            if let Some(lost) = self.failed(&of, held.stamps) {
                self.unlock(self.order.len());
                return self.fail(lost);
            }
        }
        Ok(())
    }

    /// A stamp that the work must follow. A value of the device's own, from `oldest` on, is one that this submit's cannot be
    /// right without.
    #[inline]
    fn meet(&mut self, stamp: Stamp, oldest: u64) {
        if stamp.slot == self.core.slot {
            // Device order gives it; but where the value waits for another device, so does this one.
            if stamp.value >= oldest {
                self.depends.push(stamp);
            }
        } else if !word_shows(stamp) {
            self.follow.push(stamp);
        }
    }

    fn collect_after(&mut self) -> std::result::Result<(), Halt> {
        let oldest = self.core.oldest_dependent.load(Ordering::Acquire);
        for index in 0..self.after.len() {
            let stamp = self.after[index];
            match timelines().state(stamp) {
                State::Failed(lost) => {
                    self.unlock(self.order.len());
                    return self.fail(lost);
                }
                State::Reached => {}
                State::Pending if stamp.slot == self.core.slot => self.meet(stamp, oldest),
                // Whatever its word shows by now: only a look at both tells, which comes next.
                State::Pending => self.follow.push(stamp),
            }
        }
        Ok(())
    }

    /// Memory whose last write failed may only be overwritten whole; and nothing follows a failed value whose word does
    /// not show it, unless device order does.
    #[cold]
    fn failed(&self, of: &Use, stamps: &crate::stamps::Stamps) -> Option<Lost> {
        let settled = |stamp: Stamp| word_shows(stamp) || stamp.slot == self.core.slot;
        if let Some(stamp) = stamps.write()
            && let Some(lost) = timelines().failure(stamp)
            && !(of.whole && settled(stamp))
        {
            return Some(lost);
        }
        let mut uses = stamps.reads().filter(|stamp| of.write && !settled(*stamp));
        uses.find_map(|stamp| timelines().failure(stamp))
    }

    /// Turns the points to follow into queue waits, or into what the host must wait for first.
    #[inline]
    fn place_waits(&mut self) -> std::result::Result<(), Halt> {
        self.waits.clear();
        if self.follow.is_empty() { Ok(()) } else { self.place_waits_for_producers() }
    }

    fn place_waits_for_producers(&mut self) -> std::result::Result<(), Halt> {
        for index in 0..self.follow.len() {
            let stamp = self.follow[index];
            let producer = timelines().device(stamp.slot);
            producer.iter().for_each(|producer| producer.refresh());
            // Also where the device is gone since the stamps were read: what it left unreached has failed.
            let producer = match (timelines().state(stamp), producer) {
                (State::Failed(lost), _) => return self.fail(lost),
                (State::Pending, Some(producer)) => producer,
                _ => continue,
            };
            if producer.committed.load(Ordering::Acquire) < stamp.value {
                return self.begin(Obstacle::Commit(stamp));
            }
            if !self.can_wait_for(&producer) {
                return self.begin(Obstacle::Point(stamp));
            }
            self.waits.push(Wait { word: WordIndex::new(stamp.slot as usize), value: stamp.value });
            self.depends.push(stamp);
        }
        Ok(())
    }

    fn can_wait_for(&self, producer: &Core) -> bool {
        let waits = self.core.facts.waits;
        let kind = match producer.facts.completion {
            Completion::Store => waits.stores,
            Completion::Host => waits.hosts,
        };
        kind && producer.facts.word == WordSource::Given && self.waits.len() < waits.most
    }

    /// Room, value and submit, under the turn. A panic of the driver's is caught here.
    #[inline]
    fn hand_over(&mut self) -> std::result::Result<u64, Trouble> {
        let mut given = NOT_GIVEN;
        match catch_unwind(AssertUnwindSafe(|| self.under_turn(&mut given))) {
            Ok(outcome) => outcome,
            Err(payload) => self.panicked(&*payload, given),
        }
    }

    #[cold]
    fn panicked(&self, payload: &(dyn std::any::Any + Send), given: u64) -> std::result::Result<u64, Trouble> {
        let fault = Fault::here(format!("its driver panicked: {}", crate::device::panic_message(payload)));
        if given == NOT_GIVEN {
            return Err(Trouble::Panicked(fault));
        }
        self.given(given);
        Err(Trouble::Failed { value: given, fault })
    }

    #[inline]
    fn under_turn(&mut self, given: &mut u64) -> std::result::Result<u64, Trouble> {
        let core = self.core;
        let seen = core.shown();
        let bound = self.made.bound();
        let mut work = Work {
            blocks: self.blocks,
            params: self.params,
            slots: self.slots,
            apart: self.order.len() == self.buffers.len(),
            waits: self.waits,
            scratch: self.scratch,
            times: self.recording.map(Recording::times),
        };
        // SAFETY: the turn is held, so no other hot call of the device runs. The parts and plan are this submission's, of
        // this device; the slots were filled from buffers of this device, inside their allocations.
        #[expect(unsafe_code, reason = "the debt of room is paid here")]
        match unsafe { bound.room(&mut work) } {
            Room::Ok => {}
            Room::Later => return Err(Trouble::Begin(Obstacle::Later(seen))),
            Room::Grow => return Err(Trouble::Begin(Obstacle::Grow)),
            Room::Refused(why) => return Err(Trouble::Refused(why)),
        }
        // Only the turn's holder writes `submitted`.
        let value = core.submitted.load(Ordering::Relaxed) + 1;
        if !self.depends.is_empty()
            && let Some(lost) = core.depend(value, self.depends)
        {
            return Err(Trouble::Error(lost.into()));
        }
        *given = value;
        let _in_fill = self.made.has_fill.then(callback::enter);
        // SAFETY: as for room, which just answered Ok for this work; the value is the last plus one. Memory, code and
        // plan outlive the work: each is given back only once the word shows this value, by the stamps that follow.
        #[expect(unsafe_code, reason = "the debt of submit is paid here")]
        let answer = unsafe { bound.submit(value, &mut work) };
        self.given(value);
        match answer {
            // ORDERING: Release: who reads the mark sees the commit.
            Submitted::Committed => core.committed.store(value, Ordering::Release),
            Submitted::Encoded => {}
            Submitted::Failed(fault) => return Err(Trouble::Failed { value, fault }),
        }
        Ok(value)
    }

    /// Notes that the driver was given `value`.
    fn given(&self, value: u64) {
        // ORDERING: Release pairs with the Acquire of waits and of the sweep; only the turn's holder writes both.
        self.core.submitted.store(value, Ordering::Release);
        self.made.last.store(value, Ordering::Release);
    }

    /// Writes each allocation's stamp and unlocks it.
    #[inline]
    fn stamp_and_unlock(&self, stamp: Stamp) {
        for of in self.order.iter() {
            let allocation = of.get();
            // SAFETY: the lock is held since `lock_and_collect`, and this is the only reference until it is unlocked.
            #[expect(unsafe_code, reason = "the stamps' lock has no guard")]
            let held = unsafe { allocation.held() };
            if of.write {
                held.stamps.add_write(stamp);
            } else {
                held.stamps.add_read(stamp);
            }
            // SAFETY: as above; `held` is not used any more.
            #[expect(unsafe_code, reason = "the stamps' lock has no guard")]
            unsafe {
                allocation.unlock();
            }
        }
    }
}

/// Why handing the work over gave no value that will run.
enum Trouble {
    /// The driver was given the value, and its submit failed.
    Failed {
        value: u64,
        fault: Fault,
    },
    /// The driver panicked before it was given a value.
    Panicked(Fault),
    Refused(String),
    /// What the value depends on has failed: no value was taken.
    Error(Error),
    Begin(Obstacle),
}

/// No value: a device's values start at 1 or later.
const NOT_GIVEN: u64 = 0;

impl Trouble {
    /// The value that the driver was given, or [`NOT_GIVEN`].
    fn given(&self) -> u64 {
        if let Trouble::Failed { value, .. } = self { *value } else { NOT_GIVEN }
    }
}

impl Use {
    /// The allocation, for as long as the submit that collected it.
    #[inline]
    fn get<'a>(&self) -> &'a Allocation {
        // SAFETY: `sort` took the address from a buffer that is lent to the submit for all of its time, and `order` is
        // read only by the submit that wrote it.
        #[expect(unsafe_code, reason = "an address whose owner is borrowed beside it")]
        unsafe {
            self.allocation.as_ref()
        }
    }
}

/// Puts a use where its address belongs; joins it to another of the same allocation.
#[inline]
fn insert(order: &mut Vec<Use>, new: Use) {
    match order.last() {
        Some(last) if last.allocation >= new.allocation => insert_before(order, new),
        _ => order.push(new),
    }
}

/// The case of an address that is no higher than the last.
fn insert_before(order: &mut Vec<Use>, new: Use) {
    let mut at = order.len();
    while at > 0 && order[at - 1].allocation > new.allocation {
        at -= 1;
    }
    if at > 0 && order[at - 1].allocation == new.allocation {
        merge(&mut order[at - 1], new);
    } else {
        order.insert(at, new);
    }
}

fn merge(kept: &mut Use, other: Use) {
    kept.write |= other.write;
    kept.whole = false;
}
