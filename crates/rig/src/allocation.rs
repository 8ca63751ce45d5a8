//! Allocations: the memory behind buffers, with its stamps and the host's holds.
//!
//! # Invariants
//!
//! 1. `holds` and `stamps` are touched only under `lock`, or by whoever owns the allocation after its last handle is gone.
//! 2. `refs` counts the handles (buffers and their views). The drop that takes it to zero owns the allocation and puts it
//!    on its device's list of dropped memory, through `next`; nothing else happens in a drop (C16).
//! 3. While the host holds an allocation for writing, no submit and no other hold is let in; while it holds it for
//!    reading, no write is (C30). Holds are set and cleared under `lock`.
//! 4. The region outlives the allocation: it is given back only from the dropped list, once the stamps are shown.
//!
//! An allocation is made one at a time on the heap and is 88 bytes: with the heap's own word it is an even 96, so that
//! two million buffers of one byte cost less than 200 bytes each. Hence the packed fields and the single count.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::device::Handle;
use crate::memory::Region;
use crate::primitive::RawLock;
use crate::primitive::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use crate::stamps::Stamps;

/// Somebody waits for the allocation's holds to change.
pub(crate) const WAITED_FOR: u8 = 1;
/// A submit that began anew too often goes before all others.
pub(crate) const RESERVED: u8 = 2;

/// What is guarded by the lock.
pub(crate) struct Held<'a> {
    /// The host's readers; -1 for one writer.
    pub(crate) holds: &'a mut i16,
    pub(crate) stamps: &'a mut Stamps,
}

pub(crate) struct Allocation {
    refs: AtomicU32,
    lock: RawLock,
    pub(crate) flags: AtomicU8,
    // Two cells, since one struct of both would be padded by six bytes.
    holds: UnsafeCell<i16>,
    stamps: UnsafeCell<Stamps>,
    /// The device address of the first byte, or 0.
    pub(crate) device_address: u64,
    /// The host address of the first byte, or null.
    pub(crate) host_address: *mut u8,
    /// The bytes that buffers may reach.
    pub(crate) len: usize,
    /// The region that the bytes lie in; null for an allocation of no bytes.
    pub(crate) region: *mut Region,
    handle: ManuallyDrop<Arc<Handle>>,
    /// The next of the dropped list; before that, a number that the lock's holder notes.
    pub(crate) next: AtomicPtr<Allocation>,
}

#[cfg(all(not(rig_shuttle), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Allocation>() == 88);

// SAFETY: the cells are reached only under the lock (invariant 1), the raw pointers are plain addresses whose memory
// outlives the allocation (invariant 4), and the counted handle is Send and Sync.
#[expect(unsafe_code, reason = "raw pointers and a cell behind a lock of its own")]
unsafe impl Send for Allocation {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "raw pointers and a cell behind a lock of its own")]
unsafe impl Sync for Allocation {}

impl Allocation {
    #[inline]
    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Takes the lock. Whoever holds locks of several allocations took them in the order of their addresses.
    #[inline]
    pub(crate) fn lock(&self) {
        self.lock.lock();
    }

    /// Takes the lock if nobody holds it: in any order, since whoever tries does not wait.
    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        self.lock.try_lock()
    }

    /// Notes a number for who holds the lock.
    #[inline]
    pub(crate) fn note(&self, number: usize) {
        self.next.store(ptr::without_provenance_mut(number), Ordering::Relaxed);
    }

    /// The number that the lock's holder noted; anything, if that is another thread.
    #[inline]
    pub(crate) fn noted(&self) -> usize {
        self.next.load(Ordering::Relaxed).addr()
    }

    /// # Safety
    ///
    /// The calling thread holds the lock, and uses no reference into the state any more.
    #[inline]
    #[expect(unsafe_code, reason = "the lock has no guard")]
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.lock.unlock() };
    }

    /// The state.
    ///
    /// # Safety
    ///
    /// The calling thread holds the lock for as long as the reference lives, and has no other reference to the state.
    #[inline]
    #[expect(unsafe_code, reason = "the lock has no guard")]
    pub(crate) unsafe fn held(&self) -> Held<'_> {
        // SAFETY: the lock excludes other threads, and the caller has no other reference.
        let holds = unsafe { &mut *self.holds.get() };
        // SAFETY: likewise.
        let stamps = unsafe { &mut *self.stamps.get() };
        Held { holds, stamps }
    }

    /// Runs `f` on the state under the lock.
    pub(crate) fn with<R>(&self, f: impl FnOnce(Held<'_>) -> R) -> R {
        self.lock();
        let guard = Unlock(self);
        // SAFETY: the lock is held until `guard` drops, and `f` gets the only reference.
        #[expect(unsafe_code, reason = "the lock has no guard")]
        let result = f(unsafe { guard.0.held() });
        drop(guard);
        result
    }
}

/// Unlocks on drop, also on unwind.
struct Unlock<'a>(&'a Allocation);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `with` right after it took the lock; the state's reference ended before.
        #[expect(unsafe_code, reason = "the lock has no guard")]
        unsafe {
            self.0.unlock();
        }
    }
}

/// A counted handle to an allocation.
pub(crate) struct AllocationRef(NonNull<Allocation>);

// SAFETY: an AllocationRef is a counted reference to a Send and Sync allocation.
#[expect(unsafe_code, reason = "a counted pointer")]
unsafe impl Send for AllocationRef {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "a counted pointer")]
unsafe impl Sync for AllocationRef {}

/// Where an allocation's bytes lie.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) device: u64,
    pub(crate) host: *mut u8,
    pub(crate) region: *mut Region,
}

impl Place {
    /// Where an allocation of no bytes lies.
    pub(crate) const NONE: Place = Place { device: 0, host: ptr::null_mut(), region: ptr::null_mut() };
}

impl AllocationRef {
    pub(crate) fn new(handle: Arc<Handle>, len: usize, place: Place) -> AllocationRef {
        let allocation = Box::new(Allocation {
            refs: AtomicU32::new(1),
            lock: RawLock::new(),
            flags: AtomicU8::new(0),
            holds: UnsafeCell::new(0),
            stamps: UnsafeCell::new(Stamps::new()),
            device_address: place.device,
            host_address: place.host,
            len,
            region: place.region,
            handle: ManuallyDrop::new(handle),
            next: AtomicPtr::new(ptr::null_mut()),
        });
        AllocationRef(NonNull::from(Box::leak(allocation)))
    }

    /// Whether this is the only handle. What it answers stays right as long as the caller makes no other.
    pub(crate) fn is_only(&self) -> bool {
        // ORDERING: Acquire pairs with the Release of the drops: what other handles did has happened.
        self.refs.load(Ordering::Acquire) == 1
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *const Allocation {
        self.0.as_ptr()
    }

    #[inline]
    pub(crate) fn as_non_null(&self) -> NonNull<Allocation> {
        self.0
    }
}

impl std::ops::Deref for AllocationRef {
    type Target = Allocation;

    #[inline]
    fn deref(&self) -> &Allocation {
        // SAFETY: the allocation is freed only from the dropped list, which it joins after its count went to zero; this
        // handle is counted.
        #[expect(unsafe_code, reason = "a counted pointer")]
        unsafe {
            self.0.as_ref()
        }
    }
}

impl Clone for AllocationRef {
    fn clone(&self) -> AllocationRef {
        // ORDERING: Relaxed is enough to add to a count that is not zero: nothing is published by it.
        let before = self.refs.fetch_add(1, Ordering::Relaxed);
        if before > u32::MAX / 2 {
            // A program that forgets two billion handles would wrap the count and free memory in use.
            std::process::abort();
        }
        AllocationRef(self.0)
    }
}

impl Drop for AllocationRef {
    fn drop(&mut self) {
        // ORDERING: Release for this handle's uses, Acquire for all others' by whoever takes the count to zero.
        if self.refs.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // SAFETY: the count is zero, so this thread owns the allocation, and it is on no list yet.
        #[expect(unsafe_code, reason = "the last drop owns the allocation")]
        let of = unsafe { self.0.as_mut() };
        // SAFETY: the handle is taken out once, here, and nobody uses it after: the allocation has no user left.
        #[expect(unsafe_code, reason = "the last drop owns the allocation")]
        let handle = unsafe { ManuallyDrop::take(&mut of.handle) };
        handle.core.dropped(self.0);
        // Last, since it may close the device, whose end takes the dropped list.
        drop(handle);
    }
}

/// An allocation that no handle refers to: owned by its device's memory.
pub(crate) struct Dropped(NonNull<Allocation>);

// SAFETY: owned, as a Box would be.
#[expect(unsafe_code, reason = "an owned pointer")]
unsafe impl Send for Dropped {}

impl Dropped {
    /// # Safety
    ///
    /// The allocation's count is zero, its handle was taken out, and this is its only owner.
    #[expect(unsafe_code, reason = "takes over ownership from the dropped list")]
    pub(crate) unsafe fn new(allocation: NonNull<Allocation>) -> Dropped {
        Dropped(allocation)
    }

    /// The stamps: nobody else can reach them.
    pub(crate) fn stamps(&mut self) -> &Stamps {
        // SAFETY: this is the only owner, lent exclusively.
        #[expect(unsafe_code, reason = "an owned pointer")]
        let of = unsafe { self.0.as_mut() };
        of.stamps.get_mut()
    }

    /// Frees the allocation's own bytes and gives its region's address and where in it the bytes lie.
    pub(crate) fn into_place(self) -> Place {
        // SAFETY: made by `Box::leak` in `AllocationRef::new`, and owned by this value alone. The handle was taken out, and
        // ManuallyDrop does not drop it again.
        #[expect(unsafe_code, reason = "an owned pointer")]
        let allocation = unsafe { Box::from_raw(self.0.as_ptr()) };
        Place { device: allocation.device_address, host: allocation.host_address, region: allocation.region }
    }
}
