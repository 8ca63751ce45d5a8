//! The list of dropped allocations: pushed by any drop, from any thread, with no lock; taken whole.
//!
//! A Treiber stack through the allocations' own `next`. It is only ever pushed to and taken whole, so the trouble of such
//! stacks, a head that leaves and comes back between a pop's reading and its exchange, cannot arise.
//!
//! # Memory ordering
//!
//! A push releases the allocation's last state; a take acquires it.

use std::ptr::{self, NonNull};

use crate::allocation::{Allocation, Dropped};
use crate::primitive::atomic::{AtomicPtr, Ordering};

pub(crate) struct DroppedList(AtomicPtr<Allocation>);

impl DroppedList {
    pub(crate) fn new() -> DroppedList {
        DroppedList(AtomicPtr::new(ptr::null_mut()))
    }

    /// Pushes an allocation whose count is zero; its owner gives it away.
    pub(crate) fn push(&self, allocation: NonNull<Allocation>) {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the pusher owns the allocation, and nobody frees it before it is on the list.
            #[expect(unsafe_code, reason = "links through the owned allocation")]
            let of = unsafe { allocation.as_ref() };
            of.next.store(head, Ordering::Relaxed);
            // ORDERING: Release pairs with the Acquire of `take`.
            match self.0.compare_exchange_weak(head, allocation.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Takes everything: the last pushed first.
    pub(crate) fn take(&self) -> Taken {
        if self.is_empty() {
            return Taken(ptr::null_mut());
        }
        // ORDERING: Acquire pairs with the Release of `push`.
        Taken(self.0.swap(ptr::null_mut(), Ordering::Acquire))
    }
}

/// What was taken. Iterate it to the end: what is left is leaked.
pub(crate) struct Taken(*mut Allocation);

impl Iterator for Taken {
    type Item = Dropped;

    fn next(&mut self) -> Option<Dropped> {
        let allocation = NonNull::new(self.0)?;
        // SAFETY: the whole list was taken, so this iterator owns each allocation on it.
        #[expect(unsafe_code, reason = "links through the owned allocations")]
        let of = unsafe { allocation.as_ref() };
        self.0 = of.next.load(Ordering::Relaxed);
        // SAFETY: pushed with a count of zero, and owned by this iterator alone.
        #[expect(unsafe_code, reason = "takes over ownership from the list")]
        Some(unsafe { Dropped::new(allocation) })
    }
}
