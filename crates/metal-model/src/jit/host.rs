//! The host functions that machine code calls (`abi`), and what they look things up in.
//!
//! Machine code runs on a fiber of a worker. The worker sets what its kernel may reach before, and takes what was raised
//! afterwards.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::abi;
use crate::fiber;
use crate::kernel::{Bound, MemoryAccess, Residency};

/// What a kernel may reach.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) bound: Vec<Bound>,
    pub(crate) resident: Residency,
}

impl Reach {
    /// The range that holds the byte at an address: its start and bytes.
    fn range(&self, address: u64, tables: &[(u64, u64)]) -> Option<(u64, u64)> {
        let holds = |&(start, len): &(u64, u64)| address.checked_sub(start).is_some_and(|offset| offset < len);
        let bound = self.bound.iter().map(|bound| (bound.address, bound.len)).find(holds);
        bound.or_else(|| self.resident.range(address)).or_else(|| tables.iter().copied().find(holds))
    }

    /// The range that ends at an address.
    fn ending(&self, address: u64) -> Option<(u64, u64)> {
        let bound = self.bound.iter().map(|bound| (bound.address, bound.len));
        let mut all = bound.chain(self.resident.before(address));
        all.find(|&(start, len)| start.wrapping_add(len) == address)
    }
}

/// What a kernel did that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raised {
    pub(crate) kind: u32,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) access: MemoryAccess,
    /// The range that it left.
    pub(crate) range: (u64, u64),
}

/// No constant variables.
const NO_TABLES: &[(u64, u64)] = &[];

thread_local! {
    static REACH: Cell<*const Reach> = const { Cell::new(ptr::null()) };
    static TABLES: Cell<*const [(u64, u64)]> = const { Cell::new(NO_TABLES) };
    static LATE: Cell<*const AtomicBool> = const { Cell::new(ptr::null()) };
    static RAISED: Cell<Option<Raised>> = const { Cell::new(None) };
}

/// Sets what machine code on this thread may reach, until the guard is dropped.
pub(crate) struct Reaching<'a>(PhantomData<&'a Reach>);

impl<'a> Reaching<'a> {
    pub(crate) fn new(reach: &'a Reach, tables: &'a [(u64, u64)], late: &'a AtomicBool) -> Self {
        REACH.set(reach);
        TABLES.set(tables);
        LATE.set(late);
        RAISED.set(None);
        Self(PhantomData)
    }

    /// What was raised, if anything.
    pub(crate) fn raised(&self) -> Option<Raised> {
        RAISED.take()
    }
}

/// Leaves the kernel that runs on this thread, if it is late. Called by a signal's handler, on any of the thread's stacks.
pub(crate) fn stop_if_late() {
    let late = LATE.get();
    // SAFETY: `Reaching` borrows what it sets for as long as it is set.
    let late = unsafe { late.as_ref() }.is_some_and(|late| late.load(Ordering::Relaxed));
    if late && fiber::is_entered() {
        let access = MemoryAccess::Read;
        raise(Raised { kind: abi::VIOLATION_TIMEOUT, address: 0, size: 0, access, range: (0, 0) });
    }
}

impl Drop for Reaching<'_> {
    fn drop(&mut self) {
        REACH.set(ptr::null());
        TABLES.set(NO_TABLES);
        LATE.set(ptr::null());
    }
}

fn range(address: u64) -> Option<(u64, u64)> {
    let reach = REACH.get();
    // SAFETY: `Reaching` borrows what it sets for as long as it is set.
    let reach = unsafe { reach.as_ref() }?;
    // SAFETY: as above.
    let tables = unsafe { &*TABLES.get() };
    reach.range(address, tables)
}

fn ending(address: u64) -> Option<(u64, u64)> {
    let reach = REACH.get();
    // SAFETY: as above.
    unsafe { reach.as_ref() }.and_then(|reach| reach.ending(address))
}

fn raise(raised: Raised) -> ! {
    RAISED.set(Some(raised));
    fiber::abandon()
}

/// Two words, in the registers in which C answers them.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Words(u64, u64);

/// `rig_reach`.
extern "C" fn reach(address: u64) -> Words {
    let (start, len) = range(address).unwrap_or((0, 0));
    Words(start, len)
}

/// `rig_check`.
extern "C" fn check(address: u64, size: u64, access: u32, root: u64) {
    let held = range(address);
    let own = range(root);
    let fits = |(start, len): (u64, u64)| {
        address.checked_sub(start).and_then(|offset| len.checked_sub(offset)).is_some_and(|left| size <= left)
    };
    if own.or(held).is_some_and(fits) {
        return;
    }
    let access = match access {
        abi::ACCESS_READ => MemoryAccess::Read,
        abi::ACCESS_WRITE => MemoryAccess::Write,
        _ => MemoryAccess::Atomic,
    };
    let left = own.or(held).or_else(|| ending(root));
    let kind = if left.is_some() { abi::VIOLATION_OUT_OF_BOUNDS } else { abi::VIOLATION_NOT_RESIDENT };
    raise(Raised { kind, address, size, access, range: left.unwrap_or((0, 0)) });
}

/// `rig_violation`.
extern "C" fn violation(kind: u32, address: u64, size: u64) -> ! {
    let range = range(address).unwrap_or((0, 0));
    raise(Raised { kind, address, size, access: MemoryAccess::Read, range });
}

/// The names and addresses of all that machine code may call.
pub(crate) fn symbols() -> Vec<(&'static str, usize)> {
    let mut all = crate::prelude::symbols();
    all.extend([
        ("rig_barrier", fiber::barrier as *const () as usize),
        ("rig_exchange", fiber::exchange as *const () as usize),
        ("rig_reach", reach as *const () as usize),
        ("rig_check", check as *const () as usize),
        ("rig_violation", violation as *const () as usize),
    ]);
    all
}
