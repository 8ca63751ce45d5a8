//! Holds: the host's own reads and writes of an allocation, against submits and one another.
//!
//! # Invariants
//!
//! 1. A hold is set under the allocation's lock before its closure waits for work, so that later submits cannot starve it,
//!    and is cleared by its drop, also on unwind.
//! 2. Several holds are set all at once or not at all: a thread that waits for a hold has none. So holds never deadlock.
//! 3. A thread inside a closure never waits for a hold: it gets Invalid, since it might wait for itself or for somebody
//!    who waits for it.
//! 4. Who waits is woken: it sets WAITED_FOR under the allocation's lock and sleeps in the allocation's waiting room,
//!    whose lock it took before; whoever changes holds looks at the flag under the allocation's lock and then notifies
//!    the room. Lock order: room, then allocation.

use std::cell::Cell;

use crate::Result;
use crate::allocation::{Allocation, AllocationRef, Held, RESERVED, WAITED_FOR};
use crate::error::invalid;
use crate::primitive::atomic::Ordering;
use crate::primitive::{Condvar, Mutex, process_wide, thread_own};
use crate::stamps::Stamps;
use crate::timeline::Stamp;

thread_own! {
    /// How many closures over buffers this thread is inside of.
    static CLOSURES: Cell<u32> = Cell::new(0);
}

/// Whether this thread is inside a closure over a buffer.
pub(crate) fn inside_closure() -> bool {
    CLOSURES.with(|closures| closures.get() > 0)
}

/// Marks the thread as inside a closure, until dropped.
pub(crate) struct InClosure(());

impl InClosure {
    pub(crate) fn enter() -> InClosure {
        CLOSURES.with(|closures| closures.set(closures.get() + 1));
        InClosure(())
    }
}

impl Drop for InClosure {
    fn drop(&mut self) {
        CLOSURES.with(|closures| closures.set(closures.get() - 1));
    }
}

/// Places where threads wait for holds to change; an allocation's is found by its address.
const ROOMS: usize = 64;

struct Room {
    lock: Mutex<()>,
    changed: Condvar,
}

process_wide! {
    /// The waiting rooms.
    fn rooms() -> [Room; ROOMS] { std::array::from_fn(|_| Room { lock: Mutex::new(()), changed: Condvar::new() }) }
}

fn room(allocation: &Allocation) -> &'static Room {
    // Allocations are 96 bytes apart or more; the low bits tell little.
    &rooms()[(std::ptr::from_ref(allocation).addr() >> 5) % ROOMS]
}

/// Whether work that writes (or only reads) must wait for the host or for a submit that goes before.
#[inline]
pub(crate) fn in_the_way(allocation: &Allocation, held: &Held<'_>, write: bool, reserved_by_me: bool) -> bool {
    let holds = if write { *held.holds != 0 } else { *held.holds < 0 };
    holds || (!reserved_by_me && allocation.flags.load(Ordering::Relaxed) & RESERVED != 0 && !inside_closure())
}

/// Waits, with no lock held, until nothing is in the way any more.
pub(crate) fn wait_clear(allocation: &Allocation, write: bool, reserved_by_me: bool) {
    let room = room(allocation);
    let mut guard = room.lock.lock();
    while allocation.with(|held| {
        let wait = in_the_way(allocation, &held, write, reserved_by_me);
        if wait {
            // Relaxed: flags are written under the allocation's lock alone.
            allocation.flags.fetch_or(WAITED_FOR, Ordering::Relaxed);
        }
        wait
    }) {
        guard = room.changed.wait(guard);
    }
}

/// Wakes who waits for the allocation, if `flags`, as they were under the lock, say that somebody does.
pub(crate) fn wake(allocation: &Allocation, flags: u8) {
    if flags & WAITED_FOR != 0 {
        let room = room(allocation);
        drop(room.lock.lock());
        room.changed.notify_all();
    }
}

/// The allocation's flags without WAITED_FOR, which is cleared. Called under its lock.
pub(crate) fn clear_flags(allocation: &Allocation, clear: u8) -> u8 {
    allocation.flags.fetch_and(!(clear | WAITED_FOR), Ordering::Relaxed)
}

/// The host's hold of one allocation.
pub(crate) struct Hold {
    allocation: AllocationRef,
    write: bool,
}

/// What a hold must wait for before the host may touch the bytes.
pub(crate) type Follow = Vec<Stamp>;

/// One thing to hold.
pub(crate) struct Want<'a> {
    pub(crate) allocation: &'a AllocationRef,
    pub(crate) write: bool,
    /// Whether the host will overwrite every byte: then a failed last write does not matter.
    pub(crate) whole: bool,
}

/// Holds all of `wants`, which name different allocations, and then waits for the work that the host must follow.
///
/// # Errors
///
/// Invalid where the thread would have to wait inside a closure; Lost where the work to follow failed. Nothing is held
/// then.
pub(crate) fn hold(wants: &[Want<'_>]) -> Result<Vec<Hold>> {
    let mut order: Vec<&Want<'_>> = wants.iter().collect();
    order.sort_by_key(|want| want.allocation.as_ptr());
    let (holds, follow) = loop {
        match try_hold(&order) {
            Ok(taken) => break taken,
            Err(want) if inside_closure() => {
                return invalid!(
                    "this thread is inside a closure over a buffer and would wait for another closure to end: {} the \
                     {} bytes after the closure",
                    if want.write { "write" } else { "read" },
                    want.allocation.len
                );
            }
            Err(want) => wait_clear(want.allocation, want.write, false),
        }
    };
    for stamp in follow {
        crate::wait::wait(stamp)?;
    }
    Ok(holds)
}

/// Sets all holds, or none and says what is in the way.
fn try_hold<'a>(order: &[&'a Want<'a>]) -> std::result::Result<(Vec<Hold>, Follow), &'a Want<'a>> {
    let mut holds = Vec::with_capacity(order.len());
    let mut follow = Vec::new();
    for want in order {
        let set = want.allocation.with(|held| {
            if in_the_way(want.allocation, &held, want.write, false) || *held.holds == i16::MAX {
                return false;
            }
            *held.holds = if want.write { -1 } else { *held.holds + 1 };
            collect(held.stamps, want, &mut follow);
            true
        });
        if !set {
            // Dropping those already set gives them back: nobody waits while it holds (invariant 2).
            return Err(want);
        }
        holds.push(Hold { allocation: want.allocation.clone(), write: want.write });
    }
    Ok((holds, follow))
}

/// The work that the host must follow.
fn collect(stamps: &Stamps, want: &Want<'_>, follow: &mut Follow) {
    let timelines = crate::timeline::timelines();
    // A failed write that is overwritten whole, and failed uses, are not waited for once their words show them.
    let passed = |stamp: &Stamp| crate::timeline::word_shows(*stamp);
    let failed = |stamp: &Stamp| timelines.any_failed() && timelines.failure(*stamp).is_some();
    follow.extend(stamps.write().filter(|s| !(want.whole && passed(s) && failed(s))));
    if want.write {
        follow.extend(stamps.reads().filter(|s| !passed(s)));
    }
}

impl Hold {
    pub(crate) fn is_of(&self, allocation: &AllocationRef) -> bool {
        std::ptr::eq(self.allocation.as_ptr(), allocation.as_ptr())
    }

    /// Says that the host has written every byte anew: what work wrote before does not matter any more.
    pub(crate) fn wrote_whole(&self) {
        self.allocation.with(|held| held.stamps.forget_write());
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let flags = self.allocation.with(|held| {
            *held.holds = if self.write { 0 } else { *held.holds - 1 };
            clear_flags(&self.allocation, 0)
        });
        wake(&self.allocation, flags);
    }
}
