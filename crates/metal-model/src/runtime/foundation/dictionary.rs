//! `NSDictionary` and `NSMutableDictionary`: objects by key, in the order in which the keys came.
//!
//! A search compares hashes, then sends `isEqual:`. Dictionaries of Metal's interface are small.

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
use objc2_foundation::{NSFastEnumerationState, NSString};

use super::{
    array::{Array, Enumerator, array, enumerate, enumerator, hand_out, taken},
    copied, description, equal, hashed,
};
use crate::runtime::class::export_class;

export_class!("NSDictionary", || {
    Dictionary::class();
});
export_class!("NSMutableDictionary", || {
    MutableDictionary::class();
});

/// A key with its hash, and what it leads to.
#[derive(Clone)]
struct Pair {
    hash: usize,
    key: Retained<AnyObject>,
    value: Retained<AnyObject>,
}

/// What a dictionary holds.
pub(crate) struct Pairs {
    pairs: RefCell<Vec<Pair>>,
    changes: Cell<c_ulong>,
}

define_class!(
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "NSDictionary"]
    #[ivars = Pairs]
    pub(crate) struct Dictionary;

    unsafe impl NSObjectProtocol for Dictionary {}

    impl Dictionary {
        #[unsafe(method_id(init))]
        fn init(this: Allocated<Self>) -> Retained<Self> {
            finish(this, Vec::new())
        }

        #[unsafe(method_id(initWithObjects:forKeys:count:))]
        fn init_objects(
            this: Allocated<Self>,
            objects: *mut *mut AnyObject,
            keys: *mut *mut AnyObject,
            count: usize,
        ) -> Retained<Self> {
            finish(this, paired(&taken(keys, count), taken(objects, count)))
        }

        #[unsafe(method_id(initWithDictionary:))]
        fn init_dictionary(this: Allocated<Self>, other: &Dictionary) -> Retained<Self> {
            finish(this, other.pairs())
        }

        #[unsafe(method(count))]
        fn count(&self) -> usize {
            self.ivars().pairs.borrow().len()
        }

        #[unsafe(method_id(objectForKey:))]
        fn value(&self, key: &AnyObject) -> Option<Retained<AnyObject>> {
            self.get(key)
        }

        #[unsafe(method_id(objectForKeyedSubscript:))]
        fn value_subscript(&self, key: &AnyObject) -> Option<Retained<AnyObject>> {
            self.get(key)
        }

        #[unsafe(method_id(allKeys))]
        fn all_keys(&self) -> Retained<Array> {
            array(self.keys())
        }

        #[unsafe(method_id(allValues))]
        fn all_values(&self) -> Retained<Array> {
            array(self.values())
        }

        #[unsafe(method_id(keyEnumerator))]
        fn key_enumerator(&self) -> Retained<Enumerator> {
            enumerator(self.keys())
        }

        #[unsafe(method_id(objectEnumerator))]
        fn value_enumerator(&self) -> Retained<Enumerator> {
            enumerator(self.values())
        }

        #[unsafe(method(getObjects:andKeys:))]
        fn get_all(&self, values: *mut *mut AnyObject, keys: *mut *mut AnyObject) {
            self.hand_out(values, keys, usize::MAX);
        }

        #[unsafe(method(getObjects:andKeys:count:))]
        fn get_some(&self, values: *mut *mut AnyObject, keys: *mut *mut AnyObject, count: usize) {
            self.hand_out(values, keys, count);
        }

        #[unsafe(method(countByEnumeratingWithState:objects:count:))]
        fn enumerate(&self, state: NonNull<NSFastEnumerationState>, buffer: NonNull<*mut AnyObject>, room: usize) -> usize {
            enumerate(&self.keys(), self.ivars().changes.as_ptr(), state, buffer, room)
        }

        #[unsafe(method(isEqualToDictionary:))]
        fn is_equal_dictionary(&self, other: &Dictionary) -> bool {
            self.same(other)
        }

        #[unsafe(method(isEqual:))]
        fn is_equal(&self, other: Option<&AnyObject>) -> bool {
            other.and_then(Dictionary::of).is_some_and(|other| self.same(other))
        }

        #[unsafe(method(hash))]
        fn hash(&self) -> usize {
            self.ivars().pairs.borrow().len()
        }

        #[unsafe(method(copyWithZone:))]
        fn copy(&self, _zone: *mut NSZone) -> *mut Dictionary {
            Retained::into_raw(finish(Dictionary::alloc(), self.pairs()))
        }

        #[unsafe(method(mutableCopyWithZone:))]
        fn mutable_copy(&self, _zone: *mut NSZone) -> *mut MutableDictionary {
            let allocated = MutableDictionary::alloc();
            // SAFETY: the class below has this method of the one above.
            let copy: Retained<MutableDictionary> = unsafe { msg_send![allocated, initWithDictionary: self] };
            Retained::into_raw(copy)
        }

        #[unsafe(method_id(description))]
        fn description(&self) -> Retained<NSString> {
            let line = |pair: &Pair| format!("    {} = {};\n", description(&pair.key), description(&pair.value));
            let lines: String = self.pairs().iter().map(line).collect();
            NSString::from_str(&format!("{{\n{lines}}}"))
        }
    }

    impl Dictionary {
        #[unsafe(method_id(dictionary))]
        fn with_none() -> Retained<Self> {
            empty()
        }

        #[unsafe(method_id(dictionaryWithObject:forKey:))]
        fn with_one(value: &AnyObject, key: &AnyObject) -> Retained<Self> {
            finish(Dictionary::alloc(), paired(&[key.retain()], vec![value.retain()]))
        }

        #[unsafe(method_id(dictionaryWithObjects:forKeys:count:))]
        fn with_objects(objects: *mut *mut AnyObject, keys: *mut *mut AnyObject, count: usize) -> Retained<Self> {
            finish(Dictionary::alloc(), paired(&taken(keys, count), taken(objects, count)))
        }
    }
);

define_class!(
    // SAFETY: the class above may be subclassed; the class has no `Drop`.
    #[unsafe(super(Dictionary, NSObject))]
    #[name = "NSMutableDictionary"]
    pub(crate) struct MutableDictionary;

    impl MutableDictionary {
        #[unsafe(method_id(dictionary))]
        fn with_none() -> Retained<Self> {
            // SAFETY: the class above has this method.
            unsafe { msg_send![MutableDictionary::alloc(), init] }
        }

        #[unsafe(method_id(initWithCapacity:))]
        fn init_capacity(this: Allocated<Self>, _capacity: usize) -> Retained<Self> {
            // SAFETY: the class above has this method.
            unsafe { msg_send![this, init] }
        }

        #[unsafe(method(setObject:forKey:))]
        fn set(&self, value: &AnyObject, key: &AnyObject) {
            let mut pairs = self.pairs();
            insert(&mut pairs, key, value.retain());
            self.replace(pairs);
        }

        #[unsafe(method(removeObjectForKey:))]
        fn remove(&self, key: &AnyObject) {
            let hash = hashed(key);
            let mut pairs = self.pairs();
            pairs.retain(|pair| pair.hash != hash || !equal(&pair.key, key));
            self.replace(pairs);
        }

        #[unsafe(method(removeAllObjects))]
        fn remove_all(&self) {
            self.replace(Vec::new());
        }
    }
);

impl Dictionary {
    fn pairs(&self) -> Vec<Pair> {
        self.ivars().pairs.borrow().clone()
    }

    fn keys(&self) -> Vec<Retained<AnyObject>> {
        self.ivars().pairs.borrow().iter().map(|pair| pair.key.clone()).collect()
    }

    fn values(&self) -> Vec<Retained<AnyObject>> {
        self.ivars().pairs.borrow().iter().map(|pair| pair.value.clone()).collect()
    }

    /// The dictionary that an object is, if it is one.
    pub(super) fn of(object: &AnyObject) -> Option<&Dictionary> {
        let mut above = std::iter::successors(Some(object.class()), |class| class.superclass());
        let is = above.any(|class| ptr::eq(class, Dictionary::class()));
        // SAFETY: the object's class is this one or one below it.
        is.then(|| unsafe { &*ptr::from_ref(object).cast::<Dictionary>() })
    }

    /// What the key leads to.
    pub(super) fn get(&self, key: &AnyObject) -> Option<Retained<AnyObject>> {
        let hash = hashed(key);
        self.pairs().into_iter().find(|pair| pair.hash == hash && equal(&pair.key, key)).map(|pair| pair.value)
    }

    fn same(&self, other: &Dictionary) -> bool {
        let pairs = self.pairs();
        let found = |pair: &Pair| other.get(&pair.key).is_some_and(|value| equal(&value, &pair.value));
        pairs.len() == other.pairs().len() && pairs.iter().all(found)
    }

    fn hand_out(&self, values: *mut *mut AnyObject, keys: *mut *mut AnyObject, count: usize) {
        for (objects, out) in [(self.values(), values), (self.keys(), keys)] {
            if !out.is_null() {
                hand_out(objects.get(..count.min(objects.len())).unwrap_or_default(), out);
            }
        }
    }
}

impl MutableDictionary {
    fn replace(&self, pairs: Vec<Pair>) {
        let own = Dictionary::ivars(self);
        own.changes.set(own.changes.get().wrapping_add(1));
        drop(own.pairs.replace(pairs));
    }
}

fn insert(pairs: &mut Vec<Pair>, key: &AnyObject, value: Retained<AnyObject>) {
    let hash = hashed(key);
    match pairs.iter_mut().find(|pair| pair.hash == hash && equal(&pair.key, key)) {
        Some(known) => known.value = value,
        None => pairs.push(Pair { hash, key: copied(key), value }),
    }
}

fn paired(keys: &[Retained<AnyObject>], values: Vec<Retained<AnyObject>>) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(keys.len());
    for (key, value) in keys.iter().zip(values) {
        insert(&mut pairs, key, value);
    }
    pairs
}

fn finish(this: Allocated<Dictionary>, pairs: Vec<Pair>) -> Retained<Dictionary> {
    let this = this.set_ivars(Pairs { pairs: RefCell::new(pairs), changes: Cell::new(0) });
    // SAFETY: `init` of the root class takes nothing and returns its receiver.
    unsafe { msg_send![super(this), init] }
}

/// A dictionary without keys.
pub(super) fn empty() -> Retained<Dictionary> {
    finish(Dictionary::alloc(), Vec::new())
}
