//! One submit, from the checks to the stamps.
//!
//! # The steps
//!
//! 1. Check the run and the buffers. The borrow of the buffers is the read claim.
//! 2. Lock the stamps of the allocations, each once, in address order. See that no host hold stands in the way. Collect
//!    the points to follow, less those that are reached and those that device order gives.
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
//! 2. Locks are taken in one order: allocations by address, then one turn. So submits never deadlock (S08).
//! 3. A value that was given to the driver is in `submitted` before the turn is given back, and on every stamp before
//!    the stamps are unlocked, whatever the driver answered (S06).
//! 4. A submit that begins anew for the [`PATIENCE`]th time reserves its allocations, all at once, and goes before later
//!    ones.
//!
//! # What it touches
//!
//! For one launch over two buffers in a steady state: a lock and an unlock of each allocation, one atomic operation to
//! take the turn and one to give it back: six in all, some 5 ns each on the machine in docs/performance.md. Beside them
//! two lines of each allocation, the run, the parts, the gate's line and the word's. No heap allocation.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rig_edge::{Block, Completion, Grown, Room, Scratch, Slot, Submitted, Wait, WordIndex, WordSource, Work, callback};

use crate::allocation::{Allocation, RESERVED};
use crate::device::Core;
use crate::error::invalid;
use crate::gate::{Left, Turn};
use crate::hold;
use crate::primitive::atomic::Ordering;
use crate::run::{Run, Use};
use crate::submission::{Made, Shape};
use crate::timeline::{Stamp, State, timelines, word_shows};
use crate::{Buffer, Error, Point, Result};

/// How often a submit begins before it reserves its allocations.
const PATIENCE: u32 = 4;

/// How often a submit may ask for a growth (E08): as an allocation tries.
const GROWTHS: u32 = 4;

/// Above this many buffers the allocations are sorted by the library's sort instead of by insertion.
const FEW: usize = 24;

/// What stands between a submit and its value.
enum Obstacle {
    /// A host hold, or a submit that goes before, on this buffer's allocation.
    Hold { buffer: usize, write: bool },
    /// A producer's work is not committed yet.
    Commit(Stamp),
    /// A point that no queue of the device can wait for.
    Point(Stamp),
    /// Another thread submits or commits on the device.
    Turn,
    /// The parts fit once the word has moved from here.
    Later(u64),
    /// The driver must grow.
    Grow,
}

/// What ends an attempt without a point.
enum Stop {
    Begin(Obstacle),
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Fail(error)
    }
}

/// A submit under way: the run's fields, borrowed apart.
struct Submit<'a> {
    made: &'a Made,
    core: &'a Core,
    buffers: &'a [&'a Buffer],
    blocks: &'a [Block],
    params: &'a [u8],
    scratch: &'a mut [Scratch],
    slots: &'a mut Vec<Slot>,
    order: &'a mut Vec<Use>,
    waits: &'a mut Vec<Wait>,
    after: &'a [Stamp],
    follow: &'a mut Vec<Stamp>,
    depends: &'a mut Vec<Stamp>,
    /// Whether the host itself holds the allocations for this submit: a staging copy of its own closure.
    own_hold: bool,
    reserved: bool,
}

/// Submits the run.
pub(crate) fn submit(run: &mut Run, buffers: &[&Buffer]) -> Result<Point> {
    submit_holding(run, buffers, false)
}

/// Submits the run; with `own_hold`, under holds that the caller itself has on all allocations.
pub(crate) fn submit_holding(run: &mut Run, buffers: &[&Buffer], own_hold: bool) -> Result<Point> {
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
    };
    submit.check()?;
    let result = match submit.attempt() {
        Ok(point) => Ok(point),
        Err(Stop::Fail(error)) => Err(error),
        Err(Stop::Begin(obstacle)) => submit.begin_again(obstacle),
    };
    submit.slots.clear();
    result
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
        self.slots.clear();
        for (index, buffer) in self.buffers.iter().enumerate() {
            let allocation = buffer.allocation();
            if !std::ptr::eq(&raw const **allocation.handle(), &raw const *self.made.handle) {
                return invalid!(
                    "the buffer of slot {index} is of {} and the submission of {}: give a buffer of the submission's device",
                    allocation.handle().core.name,
                    self.core.name
                );
            }
            self.slots.push(buffer.slot());
        }
        for (index, shape) in self.made.shapes.iter().enumerate() {
            match shape {
                Shape::Launch { refs } => self.check_launch(index, refs)?,
                Shape::Copy(copy) => self.check_copy(index, copy.from as usize, copy.to as usize)?,
                Shape::Memset | Shape::Fill => {}
            }
        }
        self.sort();
        Ok(())
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

    /// The allocations in address order, each once.
    fn sort(&mut self) {
        self.order.clear();
        for (index, of) in self.made.slots.iter().enumerate() {
            let buffer = self.buffers[index];
            let whole = of.whole && buffer.is_whole();
            let new = Use { buffer: index as u32, write: of.write, whole };
            if self.buffers.len() > FEW {
                self.order.push(new);
                continue;
            }
            let address = buffer.allocation().as_ptr();
            let mut at = self.order.len();
            while at > 0 && self.address(at - 1) > address {
                at -= 1;
            }
            if at > 0 && self.address(at - 1) == address {
                merge(&mut self.order[at - 1], new);
            } else {
                self.order.insert(at, new);
            }
        }
        if self.buffers.len() > FEW {
            let buffers = self.buffers;
            let address = |of: &Use| buffers[of.buffer as usize].allocation().as_ptr();
            self.order.sort_unstable_by_key(address);
            self.order.dedup_by(|next, kept| {
                let same = address(next) == address(kept);
                if same {
                    merge(kept, *next);
                }
                same
            });
        }
    }

    fn address(&self, at: usize) -> *const Allocation {
        self.allocation(&self.order[at]) as *const _
    }

    fn allocation(&self, of: &Use) -> &Allocation {
        self.buffers[of.buffer as usize].allocation()
    }

    // ---- 2 to 6: one attempt ----

    fn attempt(&mut self) -> std::result::Result<Point, Stop> {
        self.lock();
        if let Err(stop) = self.collect().and_then(|()| self.place_waits()) {
            self.unlock();
            return Err(stop);
        }
        match self.core.gate.try_turn() {
            Turn::Taken => {}
            Turn::Held => {
                self.unlock();
                return Err(Stop::Begin(Obstacle::Turn));
            }
            Turn::Shut => {
                self.unlock();
                return Err(Stop::Fail(self.core.lost_error()));
            }
        }
        let outcome = self.hand_over();
        let left = self.core.gate.give_turn();
        if let Outcome::Given { value, .. } = outcome {
            self.stamp(Stamp { slot: self.core.slot, value });
        }
        self.unlock();
        self.core.after(left);
        self.conclude(outcome, left)
    }

    fn conclude(&mut self, outcome: Outcome, left: Left) -> std::result::Result<Point, Stop> {
        match outcome {
            Outcome::Given { value, failed: None } if left == Left::Open => {
                Ok(Point::new(Stamp { slot: self.core.slot, value }))
            }
            // The device was lost or closed before the submit returned (S11).
            Outcome::Given { failed: None, .. } => Err(Stop::Fail(self.core.lost_error())),
            Outcome::Given { failed: Some(why), .. } | Outcome::Panicked(why) => {
                self.core.lose(why);
                Err(Stop::Fail(self.core.lost_error()))
            }
            Outcome::Refused(why) => {
                Err(Stop::Fail(Error::Invalid(format!("{} refuses the work: {why}", self.core.name))))
            }
            Outcome::Failed(error) => Err(Stop::Fail(error)),
            Outcome::Later(seen) => Err(Stop::Begin(Obstacle::Later(seen))),
            Outcome::Grow => Err(Stop::Begin(Obstacle::Grow)),
        }
    }

    fn lock(&self) {
        for of in self.order.iter() {
            self.allocation(of).lock();
        }
    }

    fn unlock(&self) {
        for of in self.order.iter() {
            // SAFETY: `lock` took each of these on this thread, and no reference into their states is alive: each is made
            // and used inside one statement or loop body below.
            #[expect(unsafe_code, reason = "the stamps' lock has no guard")]
            unsafe {
                self.allocation(of).unlock();
            }
        }
    }

    /// Sees that nothing is in the way, and collects the points to follow.
    fn collect(&mut self) -> std::result::Result<(), Stop> {
        self.follow.clear();
        self.depends.clear();
        let oldest = self.core.oldest_dependent.load(Ordering::Acquire);
        let any_failed = timelines().any_failed();
        for index in 0..self.order.len() {
            let of = self.order[index];
            let allocation = self.buffers[of.buffer as usize].allocation();
            // SAFETY: the lock is held by `lock`, and this is the only reference until the end of the loop's body.
            #[expect(unsafe_code, reason = "the stamps' lock has no guard")]
            let held = unsafe { allocation.held() };
            if !self.own_hold && hold::in_the_way(allocation, held, of.write, self.reserved) {
                return Err(Stop::Begin(Obstacle::Hold { buffer: of.buffer as usize, write: of.write }));
            }
            if any_failed {
                self.refuse_failed(&of, &held.stamps)?;
            }
            if let Some(stamp) = held.stamps.write() {
                self.meet(stamp, oldest);
            }
            if of.write {
                for stamp in held.stamps.reads() {
                    self.meet(stamp, oldest);
                }
            }
        }
        self.collect_after(oldest)
    }

    /// A stamp that the work must follow.
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

    fn collect_after(&mut self, oldest: u64) -> std::result::Result<(), Stop> {
        for index in 0..self.after.len() {
            let stamp = self.after[index];
            match timelines().state(stamp) {
                State::Failed(lost) => return Err(Stop::Fail(lost.into())),
                State::Reached => {}
                State::Pending => self.meet(stamp, oldest),
            }
        }
        Ok(())
    }

    /// Memory whose last write failed may only be overwritten whole; and nothing follows a failed value whose word does
    /// not show it, unless device order does.
    #[cold]
    fn refuse_failed(&self, of: &Use, stamps: &crate::stamps::Stamps) -> std::result::Result<(), Stop> {
        let settled = |stamp: Stamp| word_shows(stamp) || stamp.slot == self.core.slot;
        if let Some(stamp) = stamps.write()
            && let Some(lost) = timelines().failure(stamp)
            && !(of.whole && settled(stamp))
        {
            return Err(Stop::Fail(lost.into()));
        }
        for stamp in stamps.reads().filter(|stamp| of.write && !settled(*stamp)) {
            if let Some(lost) = timelines().failure(stamp) {
                return Err(Stop::Fail(lost.into()));
            }
        }
        Ok(())
    }

    /// Turns the points to follow into queue waits, or into what the host must wait for first.
    fn place_waits(&mut self) -> std::result::Result<(), Stop> {
        self.waits.clear();
        for index in 0..self.follow.len() {
            let stamp = self.follow[index];
            let Some(producer) = timelines().device(stamp.slot) else {
                continue;
            };
            producer.refresh();
            match timelines().state(stamp) {
                State::Reached => continue,
                State::Failed(lost) => return Err(Stop::Fail(lost.into())),
                State::Pending => {}
            }
            if producer.committed.load(Ordering::Acquire) < stamp.value {
                return Err(Stop::Begin(Obstacle::Commit(stamp)));
            }
            if !self.can_wait_for(&producer) {
                return Err(Stop::Begin(Obstacle::Point(stamp)));
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
    fn hand_over(&mut self) -> Outcome {
        let mut given = None;
        let caught = catch_unwind(AssertUnwindSafe(|| self.under_turn(&mut given)));
        caught.unwrap_or_else(|payload| {
            let why = format!("its driver panicked: {}", crate::device::panic_message(&*payload));
            match given {
                Some(value) => {
                    self.given(value);
                    Outcome::Given { value, failed: Some(why) }
                }
                None => Outcome::Panicked(why),
            }
        })
    }

    fn under_turn(&mut self, given: &mut Option<u64>) -> Outcome {
        let core = self.core;
        let seen = core.shown();
        let bound = self.made.bound();
        let mut work = Work {
            blocks: self.blocks,
            params: self.params,
            slots: self.slots,
            waits: self.waits,
            scratch: self.scratch,
        };
        // SAFETY: the turn is held, so no other hot call of the device runs. The parts and plan are this submission's, of
        // this device; the slots were filled from buffers of this device, inside their allocations.
        #[expect(unsafe_code, reason = "the debt of room is paid here")]
        match unsafe { bound.room(&mut work) } {
            Room::Ok => {}
            Room::Later => return Outcome::Later(seen),
            Room::Grow => return Outcome::Grow,
            Room::Refused(why) => return Outcome::Refused(why),
        }
        // Only the turn's holder writes `submitted`.
        let value = core.submitted.load(Ordering::Relaxed) + 1;
        if !self.depends.is_empty()
            && let Some(error) = register(core, value, self.depends)
        {
            return Outcome::Failed(error);
        }
        *given = Some(value);
        let _in_fill = self.made.has_fill.then(callback::enter);
        // SAFETY: as for room, which just answered Ok for this work; the value is the last plus one. Memory, code and
        // plan outlive the work: each is given back only once the word shows this value, by the stamps that follow.
        #[expect(unsafe_code, reason = "the debt of submit is paid here")]
        let answer = unsafe { bound.submit(value, &mut work) };
        self.given(value);
        let failed = match answer {
            Submitted::Committed => {
                // ORDERING: Release: who reads the mark sees the commit.
                core.committed.store(value, Ordering::Release);
                None
            }
            Submitted::Encoded => None,
            Submitted::Failed(why) => Some(why),
        };
        Outcome::Given { value, failed }
    }

    /// Notes that the driver was given `value`.
    fn given(&self, value: u64) {
        // ORDERING: Release pairs with the Acquire of waits and of the sweep; only the turn's holder writes both.
        self.core.submitted.store(value, Ordering::Release);
        self.made.last.store(value, Ordering::Release);
    }

    /// Writes the stamps, under their locks.
    fn stamp(&self, stamp: Stamp) {
        for of in self.order.iter() {
            // SAFETY: the lock is held by `lock`, and this is the only reference until the end of the loop's body.
            #[expect(unsafe_code, reason = "the stamps' lock has no guard")]
            let held = unsafe { self.allocation(of).held() };
            if of.write {
                held.stamps.add_write(stamp);
            } else {
                held.stamps.add_read(stamp);
            }
        }
    }

    // ---- beginning again ----

    #[cold]
    fn begin_again(&mut self, first: Obstacle) -> Result<Point> {
        let mut obstacle = first;
        let mut growths = 0;
        let mut beginnings = 1;
        let result = loop {
            if let Err(error) = self.pass(&obstacle, &mut growths) {
                break Err(error);
            }
            beginnings += 1;
            if beginnings > PATIENCE && !self.reserved && !self.own_hold && !hold::inside_closure() {
                self.reserve();
            }
            match self.attempt() {
                Ok(point) => break Ok(point),
                Err(Stop::Fail(error)) => break Err(error),
                Err(Stop::Begin(next)) => obstacle = next,
            }
        };
        self.unreserve();
        result
    }

    /// Waits an obstacle away, with no lock held.
    fn pass(&mut self, obstacle: &Obstacle, growths: &mut u32) -> Result<()> {
        match *obstacle {
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
        match grown {
            Grown::Grown if *growths <= GROWTHS => Ok(()),
            Grown::Short(_) if *growths < GROWTHS => {
                self.core.reclaim(*growths as usize);
                Ok(())
            }
            Grown::Short(bytes) => Err(Error::OutOfMemory { bytes }),
            Grown::Grown => {
                self.core.lose(format!("its driver asked for more than {GROWTHS} growths for one submit"));
                Err(self.core.lost_error())
            }
        }
    }

    /// Lets this submit go before later ones on its allocations: reserves all of them at once.
    fn reserve(&mut self) {
        loop {
            self.lock();
            let taken = self.order.iter().position(|of| {
                // ORDERING: Relaxed: flags are written under the allocation's lock alone.
                self.allocation(of).flags.load(Ordering::Relaxed) & RESERVED != 0
            });
            if taken.is_none() {
                for of in self.order.iter() {
                    self.allocation(of).flags.fetch_or(RESERVED, Ordering::Relaxed);
                }
                self.reserved = true;
            }
            self.unlock();
            match taken {
                None => return,
                Some(at) => hold::wait_clear(self.allocation(&self.order[at]), self.order[at].write, false),
            }
        }
    }

    fn unreserve(&mut self) {
        if !std::mem::take(&mut self.reserved) {
            return;
        }
        for of in self.order.iter() {
            let allocation = self.allocation(of);
            let flags = allocation.with(|_| hold::clear_flags(allocation, RESERVED));
            hold::wake(allocation, flags);
        }
    }
}

/// What came of handing the work over.
enum Outcome {
    /// The driver was given the value; `failed` says why its submit failed, if it did.
    Given {
        value: u64,
        failed: Option<String>,
    },
    /// The driver panicked before it was given a value.
    Panicked(String),
    Refused(String),
    /// What the value depends on has failed: no value was taken.
    Failed(Error),
    Later(u64),
    Grow,
}

fn merge(kept: &mut Use, other: Use) {
    kept.write |= other.write;
    kept.whole = false;
}

/// Notes what the value depends on, and then looks whether that has failed: see the order of a loss.
#[cold]
fn register(core: &Core, value: u64, depends: &[Stamp]) -> Option<Error> {
    core.depend(value, depends.iter().copied());
    let failed = depends.iter().find_map(|stamp| timelines().failure(*stamp))?;
    core.forget(value);
    Some(failed.into())
}
