//! Residency sets, and what pointers may reach.
//!
//! A set does not keep its allocations alive: Apple promises no such thing. An allocation whose object has gone is resident
//! no more.

use std::collections::HashSet;
use std::sync::{Arc, Weak, atomic::Ordering};

use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{AnyObject, NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSArray, NSString, NSUInteger};
use parking_lot::Mutex;

use super::{
    ResourceState, again, buffer::Buffer, concrete, create, device::Device, indirect::IndirectBuffer,
    pipeline::Pipeline,
};
use crate::{
    machine::{Machine, What},
    protocol::{MTLAllocation, MTLDevice, MTLResidencySet},
};

/// An allocation of a set.
#[derive(Clone)]
struct Entry {
    state: Weak<dyn ResourceState>,
    /// The object, to compare with and to answer while the state says that it lives.
    object: Address,
}

/// An object's address.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Address(*const AnyObject);

// SAFETY: the address is compared, and followed only on the thread that asks for it, where the object lives.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// A residency set, without its object.
pub(crate) struct SetState {
    machine: Machine,
    staged: Mutex<Vec<Entry>>,
    committed: Mutex<Arc<[Entry]>>,
}

impl SetState {
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    fn add(&self, call: &'static str, allocation: &AnyObject) {
        let Some(state) = allocation_state(allocation) else {
            self.machine.violate(call, "the allocation is not of this device");
            return;
        };
        let mut staged = self.staged.lock();
        let object = Address(allocation);
        if !staged.iter().any(|entry| entry.object == object && entry.lives()) {
            staged.push(Entry { state: Arc::downgrade(&state), object });
            self.machine.0.tally.resident.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn remove(&self, allocation: &AnyObject) {
        let mut staged = self.staged.lock();
        let before = staged.len();
        staged.retain(|entry| entry.object != Address(allocation));
        let gone = (before - staged.len()) as u64;
        self.machine.0.tally.resident.fetch_sub(gone, Ordering::Relaxed);
    }

    fn remove_all(&self) {
        let gone = std::mem::take(&mut *self.staged.lock()).len() as u64;
        self.machine.0.tally.resident.fetch_sub(gone, Ordering::Relaxed);
    }

    fn commit(&self) {
        let staged: Arc<[Entry]> = self.staged.lock().as_slice().into();
        *self.committed.lock() = staged;
    }
}

impl Drop for SetState {
    fn drop(&mut self) {
        self.remove_all();
    }
}

impl Entry {
    fn lives(&self) -> bool {
        self.state.upgrade().is_some_and(|state| state.life().lasts())
    }
}

/// What pointers may reach, by the sets of a command buffer and of its queue when it was committed.
#[derive(Default)]
pub(crate) struct Reach(Vec<(Arc<SetState>, Arc<[Entry]>)>);

impl Reach {
    pub(crate) fn of<'a>(sets: impl Iterator<Item = &'a Arc<SetState>>) -> Self {
        Self(sets.map(|set| (set.clone(), set.committed.lock().clone())).collect())
    }

    /// The allocations that were resident at the commit, and still are.
    pub(crate) fn allocations(&self) -> Vec<Arc<dyn ResourceState>> {
        let mut found = Vec::new();
        for (set, then) in &self.0 {
            let now = set.committed.lock().clone();
            let changed = !Arc::ptr_eq(then, &now);
            let kept: HashSet<_> =
                if changed { now.iter().map(|entry| entry.object.0).collect() } else { HashSet::new() };
            for entry in then.iter() {
                let Some(state) = entry.state.upgrade().filter(|state| state.life().lasts()) else { continue };
                if !changed || kept.contains(&entry.object.0) {
                    found.push(state);
                }
            }
        }
        found
    }
}

/// The state of an object that can be resident.
pub(crate) fn allocation_state(object: &AnyObject) -> Option<Arc<dyn ResourceState>> {
    if let Some(buffer) = concrete::<Buffer>(object) {
        return Some(buffer.state().clone());
    }
    if let Some(buffer) = concrete::<IndirectBuffer>(object) {
        return Some(buffer.state().clone());
    }
    concrete::<Pipeline>(object).map(|pipeline| -> Arc<dyn ResourceState> { pipeline.facts().clone() })
}

/// What a set's object holds.
pub(crate) struct Variables {
    state: Arc<SetState>,
    device: Retained<Device>,
    label: Option<String>,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelResidencySet"]
    #[ivars = Variables]
    pub(crate) struct ResidencySet;

    unsafe impl NSObjectProtocol for ResidencySet {}

    unsafe impl MTLResidencySet for ResidencySet {
        #[unsafe(method_id(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
            ProtocolObject::from_retained(self.ivars().device.clone())
        }

        #[unsafe(method_id(label))]
        fn label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.as_deref().map(NSString::from_str)
        }

        #[unsafe(method(allocatedSize))]
        fn allocated_size(&self) -> u64 {
            let committed = self.ivars().state.committed.lock().clone();
            committed.iter().filter_map(|entry| entry.state.upgrade()).map(|state| state.allocated()).sum()
        }

        #[unsafe(method(requestResidency))]
        fn request(&self) {}

        #[unsafe(method(endResidency))]
        fn end(&self) {}

        #[unsafe(method(addAllocation:))]
        fn add(&self, allocation: &AnyObject) {
            self.ivars().state.add("-[MTLResidencySet addAllocation:]", allocation);
        }

        #[unsafe(method(addAllocations:count:))]
        fn add_all(&self, allocations: *const *const AnyObject, count: NSUInteger) {
            // SAFETY: the message hands as many objects as it counts.
            for allocation in unsafe { objects(allocations, count) } {
                self.ivars().state.add("-[MTLResidencySet addAllocations:count:]", allocation);
            }
        }

        #[unsafe(method(removeAllocation:))]
        fn remove(&self, allocation: &AnyObject) {
            self.ivars().state.remove(allocation);
        }

        #[unsafe(method(removeAllocations:count:))]
        fn remove_some(&self, allocations: *const *const AnyObject, count: NSUInteger) {
            // SAFETY: the message hands as many objects as it counts.
            for allocation in unsafe { objects(allocations, count) } {
                self.ivars().state.remove(allocation);
            }
        }

        #[unsafe(method(removeAllAllocations))]
        fn remove_all(&self) {
            self.ivars().state.remove_all();
        }

        #[unsafe(method(containsAllocation:))]
        fn contains(&self, allocation: &AnyObject) -> bool {
            self.ivars().state.staged.lock().iter().any(|entry| entry.object == Address(allocation) && entry.lives())
        }

        #[unsafe(method_id(allAllocations))]
        fn all(&self) -> Retained<NSArray<ProtocolObject<dyn MTLAllocation>>> {
            let staged = self.ivars().state.staged.lock().clone();
            let living = staged.iter().filter(|entry| entry.lives());
            // SAFETY: the object lives, and is of a class that can be resident.
            let objects: Vec<&ProtocolObject<dyn MTLAllocation>> =
                living.map(|entry| unsafe { &*entry.object.0.cast() }).collect();
            NSArray::from_slice(&objects)
        }

        #[unsafe(method(allocationCount))]
        fn count(&self) -> NSUInteger {
            self.ivars().state.staged.lock().len()
        }

        #[unsafe(method(commit))]
        fn commit(&self) {
            let state = &self.ivars().state;
            state.machine.permits(What::CommitResidency);
            state.commit();
        }
    }
);

impl ResidencySet {
    pub(crate) fn state(&self) -> &Arc<SetState> {
        &self.ivars().state
    }
}

/// Objects that a message hands as an array.
///
/// # Safety
/// `first` points to `count` living objects.
pub(crate) unsafe fn objects<'a>(first: *const *const AnyObject, count: NSUInteger) -> Vec<&'a AnyObject> {
    // SAFETY: the caller's.
    let objects = unsafe { std::slice::from_raw_parts(first, count) };
    // SAFETY: each is a living object.
    objects.iter().map(|object| unsafe { &**object }).collect()
}

/// The object of a new set.
pub(crate) fn new(device: &Device, label: Option<String>) -> Retained<ProtocolObject<dyn MTLResidencySet>> {
    let machine = device.machine();
    let committed = Mutex::new(Arc::from(Vec::new()));
    let state = Arc::new(SetState { machine: machine.clone(), staged: Mutex::default(), committed });
    ProtocolObject::from_retained(create!(ResidencySet, machine, Variables { state, device: again(device), label }))
}
