//! `NSArray`, `NSMutableArray` and `NSEnumerator`: objects in order.
//!
//! Enumeration copies into the caller's buffer, so it never points into an array that changes; the count of changes tells
//! objc2-foundation of one that did.

use std::{
    cell::{Cell, RefCell},
    ffi::c_ulong,
    ptr::{self, NonNull},
};

use objc2::{
    AllocAnyThread, ClassType, DefinedClass, Message, define_class, msg_send,
    rc::{Allocated, Retained},
    runtime::{AnyObject, NSObject, NSObjectProtocol, NSZone},
};
use objc2_foundation::{NSFastEnumerationState, NSRange, NSString};

use super::{description, equal};
use crate::runtime::{class::export_class, exception};

/// `NSNotFound`.
const NOT_FOUND: usize = isize::MAX as usize;

export_class!("NSArray", || {
    Array::class();
});
export_class!("NSMutableArray", || {
    MutableArray::class();
});
export_class!("NSEnumerator", || {
    Enumerator::class();
});

/// What an array holds.
#[derive(Default)]
pub(crate) struct Items {
    objects: RefCell<Vec<Retained<AnyObject>>>,
    changes: Cell<c_ulong>,
}

define_class!(
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "NSArray"]
    #[ivars = Items]
    pub(crate) struct Array;

    unsafe impl NSObjectProtocol for Array {}

    impl Array {
        #[unsafe(method_id(init))]
        fn init(this: Allocated<Self>) -> Retained<Self> {
            finish(this, Vec::new())
        }

        #[unsafe(method_id(initWithObjects:count:))]
        fn init_objects(this: Allocated<Self>, objects: *mut *mut AnyObject, count: usize) -> Retained<Self> {
            finish(this, taken(objects, count))
        }

        #[unsafe(method_id(initWithArray:))]
        fn init_array(this: Allocated<Self>, other: &Array) -> Retained<Self> {
            finish(this, other.objects())
        }

        #[unsafe(method(count))]
        fn count(&self) -> usize {
            self.ivars().objects.borrow().len()
        }

        #[unsafe(method_id(objectAtIndex:))]
        fn at(&self, index: usize) -> Retained<AnyObject> {
            self.get(index)
        }

        #[unsafe(method_id(objectAtIndexedSubscript:))]
        fn at_subscript(&self, index: usize) -> Retained<AnyObject> {
            self.get(index)
        }

        #[unsafe(method_id(firstObject))]
        fn first(&self) -> Option<Retained<AnyObject>> {
            self.ivars().objects.borrow().first().cloned()
        }

        #[unsafe(method_id(lastObject))]
        fn last(&self) -> Option<Retained<AnyObject>> {
            self.ivars().objects.borrow().last().cloned()
        }

        #[unsafe(method(getObjects:))]
        fn get_all(&self, out: *mut *mut AnyObject) {
            hand_out(&self.objects(), out);
        }

        #[unsafe(method(getObjects:range:))]
        fn get_range(&self, out: *mut *mut AnyObject, range: NSRange) {
            let objects = self.objects();
            let part = objects.get(range.location..range.location.saturating_add(range.length));
            hand_out(part.unwrap_or_else(|| beyond(range.location + range.length, objects.len())), out);
        }

        #[unsafe(method_id(subarrayWithRange:))]
        fn part(&self, range: NSRange) -> Retained<Array> {
            let objects = self.objects();
            let part = objects.get(range.location..range.location.saturating_add(range.length));
            array(part.unwrap_or_else(|| beyond(range.location + range.length, objects.len())).to_vec())
        }

        #[unsafe(method_id(arrayByAddingObject:))]
        fn adding(&self, object: &AnyObject) -> Retained<Array> {
            let mut objects = self.objects();
            objects.push(object.retain());
            array(objects)
        }

        #[unsafe(method(containsObject:))]
        fn contains(&self, object: &AnyObject) -> bool {
            self.objects().iter().any(|held| equal(held, object))
        }

        #[unsafe(method(indexOfObject:))]
        fn index(&self, object: &AnyObject) -> usize {
            self.objects().iter().position(|held| equal(held, object)).unwrap_or(NOT_FOUND)
        }

        #[unsafe(method(indexOfObjectIdenticalTo:))]
        fn index_identical(&self, object: &AnyObject) -> usize {
            self.objects().iter().position(|held| ptr::eq(&raw const **held, object)).unwrap_or(NOT_FOUND)
        }

        #[unsafe(method(isEqualToArray:))]
        fn is_equal_array(&self, other: &Array) -> bool {
            self.same(other)
        }

        #[unsafe(method(isEqual:))]
        fn is_equal(&self, other: Option<&AnyObject>) -> bool {
            other.and_then(Array::of).is_some_and(|other| self.same(other))
        }

        #[unsafe(method(hash))]
        fn hash(&self) -> usize {
            self.ivars().objects.borrow().len()
        }

        #[unsafe(method_id(objectEnumerator))]
        fn enumerator(&self) -> Retained<Enumerator> {
            enumerator(self.objects())
        }

        #[unsafe(method(countByEnumeratingWithState:objects:count:))]
        fn enumerate(&self, state: NonNull<NSFastEnumerationState>, buffer: NonNull<*mut AnyObject>, room: usize) -> usize {
            enumerate(&self.objects(), self.ivars().changes.as_ptr(), state, buffer, room)
        }

        #[unsafe(method(copyWithZone:))]
        fn copy(&self, _zone: *mut NSZone) -> *mut Array {
            Retained::into_raw(array(self.objects()))
        }

        #[unsafe(method(mutableCopyWithZone:))]
        fn mutable_copy(&self, _zone: *mut NSZone) -> *mut MutableArray {
            // SAFETY: the class below has this method of the one above.
            let copy: Retained<MutableArray> = unsafe { msg_send![MutableArray::alloc(), initWithArray: self] };
            Retained::into_raw(copy)
        }

        #[unsafe(method_id(description))]
        fn description(&self) -> Retained<NSString> {
            let lines: Vec<_> = self.objects().iter().map(|object| format!("    {}", description(object))).collect();
            NSString::from_str(&format!("(\n{}\n)", lines.join(",\n")))
        }
    }

    impl Array {
        #[unsafe(method_id(array))]
        fn with_none() -> Retained<Self> {
            array(Vec::new())
        }

        #[unsafe(method_id(arrayWithObject:))]
        fn with_one(object: &AnyObject) -> Retained<Self> {
            array(vec![object.retain()])
        }

        #[unsafe(method_id(arrayWithObjects:count:))]
        fn with_objects(objects: *mut *mut AnyObject, count: usize) -> Retained<Self> {
            array(taken(objects, count))
        }

        #[unsafe(method_id(arrayWithArray:))]
        fn with_array(other: &Array) -> Retained<Self> {
            array(other.objects())
        }
    }
);

define_class!(
    // SAFETY: the class above may be subclassed; the class has no `Drop`.
    #[unsafe(super(Array, NSObject))]
    #[name = "NSMutableArray"]
    pub(crate) struct MutableArray;

    impl MutableArray {
        #[unsafe(method_id(array))]
        fn with_none() -> Retained<Self> {
            // SAFETY: the class above has this method.
            unsafe { msg_send![MutableArray::alloc(), init] }
        }

        #[unsafe(method_id(initWithCapacity:))]
        fn init_capacity(this: Allocated<Self>, _capacity: usize) -> Retained<Self> {
            // SAFETY: the class above has this method.
            unsafe { msg_send![this, init] }
        }

        #[unsafe(method(addObject:))]
        fn add(&self, object: &AnyObject) {
            self.change(|objects| objects.push(object.retain()));
        }

        #[unsafe(method(addObjectsFromArray:))]
        fn add_all(&self, other: &Array) {
            let more = other.objects();
            self.change(|objects| objects.extend(more));
        }

        #[unsafe(method(insertObject:atIndex:))]
        fn insert(&self, object: &AnyObject, index: usize) {
            self.check(index, self.objects().len() + 1);
            self.change(|objects| objects.insert(index, object.retain()));
        }

        #[unsafe(method(removeObjectAtIndex:))]
        fn remove(&self, index: usize) {
            self.check(index, self.objects().len());
            drop(self.change(|objects| objects.remove(index)));
        }

        #[unsafe(method(removeLastObject))]
        fn remove_last(&self) {
            drop(self.change(Vec::pop));
        }

        #[unsafe(method(removeAllObjects))]
        fn remove_all(&self) {
            drop(self.change(std::mem::take));
        }

        #[unsafe(method(removeObject:))]
        fn remove_object(&self, object: &AnyObject) {
            let (equal, others) = self.objects().into_iter().partition(|held| equal(held, object));
            let _: Vec<Retained<AnyObject>> = equal;
            drop(self.change(|objects| std::mem::replace(objects, others)));
        }

        #[unsafe(method(replaceObjectAtIndex:withObject:))]
        fn replace(&self, index: usize, object: &AnyObject) {
            self.check(index, self.objects().len());
            drop(self.change(|objects| std::mem::replace(&mut objects[index], object.retain())));
        }

        #[unsafe(method(exchangeObjectAtIndex:withObjectAtIndex:))]
        fn exchange(&self, one: usize, other: usize) {
            self.check(one.max(other), self.objects().len());
            self.change(|objects| objects.swap(one, other));
        }
    }
);

define_class!(
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "NSEnumerator"]
    #[ivars = Items]
    pub(crate) struct Enumerator;

    unsafe impl NSObjectProtocol for Enumerator {}

    impl Enumerator {
        #[unsafe(method_id(nextObject))]
        fn next(&self) -> Option<Retained<AnyObject>> {
            self.ivars().objects.borrow_mut().pop()
        }

        #[unsafe(method_id(allObjects))]
        fn all(&self) -> Retained<Array> {
            let mut left = self.ivars().objects.take();
            left.reverse();
            array(left)
        }

        #[unsafe(method(countByEnumeratingWithState:objects:count:))]
        fn enumerate(&self, state: NonNull<NSFastEnumerationState>, buffer: NonNull<*mut AnyObject>, room: usize) -> usize {
            let mut left = self.ivars().objects.borrow().clone();
            left.reverse();
            enumerate(&left, self.ivars().changes.as_ptr(), state, buffer, room)
        }
    }
);

impl Array {
    /// What it holds now.
    pub(crate) fn objects(&self) -> Vec<Retained<AnyObject>> {
        self.ivars().objects.borrow().clone()
    }

    /// The array that an object is, if it is one.
    fn of(object: &AnyObject) -> Option<&Array> {
        let mut above = std::iter::successors(Some(object.class()), |class| class.superclass());
        // SAFETY: the object's class is this one or one below it.
        above.any(|class| ptr::eq(class, Array::class())).then(|| unsafe { &*ptr::from_ref(object).cast::<Array>() })
    }

    fn get(&self, index: usize) -> Retained<AnyObject> {
        self.check(index, self.ivars().objects.borrow().len());
        self.ivars().objects.borrow()[index].clone()
    }

    fn same(&self, other: &Array) -> bool {
        let (own, others) = (self.objects(), other.objects());
        own.len() == others.len() && own.iter().zip(&others).all(|(one, other)| equal(one, other))
    }

    fn check(&self, index: usize, count: usize) {
        if index >= count {
            beyond::<()>(index, count);
        }
    }
}

impl MutableArray {
    /// Changes what it holds. What the change gives up is returned: releasing it may run a program's code.
    fn change<R>(&self, change: impl FnOnce(&mut Vec<Retained<AnyObject>>) -> R) -> R {
        let items = Array::ivars(self);
        items.changes.set(items.changes.get().wrapping_add(1));
        change(&mut items.objects.borrow_mut())
    }
}

fn beyond<R>(index: usize, count: usize) -> R {
    exception::raise("NSRangeException", &format!("index {index} beyond bounds of an array of {count}"))
}

fn finish(this: Allocated<Array>, objects: Vec<Retained<AnyObject>>) -> Retained<Array> {
    let this = this.set_ivars(Items { objects: RefCell::new(objects), changes: Cell::new(0) });
    // SAFETY: `init` of the root class takes nothing and returns its receiver.
    unsafe { msg_send![super(this), init] }
}

/// An `NSArray` of these.
pub(crate) fn array(objects: Vec<Retained<AnyObject>>) -> Retained<Array> {
    finish(Array::alloc(), objects)
}

/// An `NSEnumerator` of these.
pub(super) fn enumerator(mut objects: Vec<Retained<AnyObject>>) -> Retained<Enumerator> {
    objects.reverse();
    let this = Enumerator::alloc().set_ivars(Items { objects: RefCell::new(objects), changes: Cell::new(0) });
    // SAFETY: `init` of the root class takes nothing and returns its receiver.
    unsafe { msg_send![super(this), init] }
}

/// References to the objects of a caller's array.
pub(super) fn taken(objects: *mut *mut AnyObject, count: usize) -> Vec<Retained<AnyObject>> {
    let take = |at| {
        // SAFETY: the caller has this many pointers there.
        let object = unsafe { objects.wrapping_add(at).read() };
        // SAFETY: null or an object.
        let object = unsafe { Retained::retain(object) };
        object.unwrap_or_else(|| exception::raise("NSInvalidArgumentException", "a collection cannot hold nil"))
    };
    (0..count).map(take).collect()
}

/// Writes the objects where a caller wants them, without references.
pub(super) fn hand_out(objects: &[Retained<AnyObject>], out: *mut *mut AnyObject) {
    for (at, object) in objects.iter().enumerate() {
        // SAFETY: the caller has room for all of them.
        unsafe { out.wrapping_add(at).write(Retained::as_ptr(object).cast_mut()) };
    }
}

/// The next objects of an enumeration, into the caller's buffer. The state counts those that went before.
pub(super) fn enumerate(
    objects: &[Retained<AnyObject>],
    changes: *mut c_ulong,
    mut state: NonNull<NSFastEnumerationState>,
    buffer: NonNull<*mut AnyObject>,
    room: usize,
) -> usize {
    // SAFETY: the caller's own, for the time of the call.
    let state = unsafe { state.as_mut() };
    let before = usize::try_from(state.state).unwrap_or(usize::MAX);
    let rest = objects.get(before..).unwrap_or_default();
    let next = rest.get(..room.min(rest.len())).unwrap_or_default();
    hand_out(next, buffer.as_ptr());
    state.state = (before + next.len()) as c_ulong;
    state.itemsPtr = buffer.as_ptr();
    state.mutationsPtr = changes;
    next.len()
}
