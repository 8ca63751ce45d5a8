//! Weak references and associated objects: what else is known of an object, kept beside it and forgotten with it.
//!
//! A weak reference is a place in the program's memory that becomes null when the object goes. The table knows each such
//! place; an object whose header has neither bit costs nothing at its end.
//!
//! Threads: one lock is around the table and every weak place. What is released in consequence is released after it.

use std::{collections::BTreeMap, ffi::c_void, sync::Mutex};

use super::{
    class::locked,
    message,
    object::{ASSOCIATED, Object, WEAK},
    object_calls, pool,
    selector::Selector,
};

/// A weak place: null or an object that lives.
type Place = *mut Option<Object>;

struct Table {
    /// The weak places of each object, by its address.
    weak: BTreeMap<usize, Vec<usize>>,
    /// What is associated with each object, by its address and the key.
    associated: BTreeMap<(usize, usize), (Object, bool)>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { weak: BTreeMap::new(), associated: BTreeMap::new() });

impl Table {
    fn add(&mut self, place: Place, object: Object) {
        self.weak.entry(object.address()).or_default().push(place.addr());
    }

    fn remove(&mut self, place: Place, object: Object) {
        let Some(places) = self.weak.get_mut(&object.address()) else { return };
        places.retain(|known| *known != place.addr());
        if places.is_empty() {
            self.weak.remove(&object.address());
        }
    }
}

/// The object is going: its weak places become null, and what is associated with it is released.
pub(crate) fn forget(object: Object) {
    let mut table = locked(&TABLE);
    for place in table.weak.remove(&object.address()).unwrap_or_default() {
        let place: Place = std::ptr::with_exposed_provenance_mut(place);
        // SAFETY: the program told of this place, and tells when it ends; the lock is around all its uses.
        unsafe { place.write(None) };
    }
    let address = object.address();
    let keys: Vec<_> = table.associated.range((address, 0)..=(address, usize::MAX)).map(|(key, _)| *key).collect();
    let gone: Vec<_> = keys.iter().filter_map(|key| table.associated.remove(key)).collect();
    drop(table);
    for (value, _) in gone.into_iter().filter(|(_, retained)| *retained) {
        object_calls::release(value);
    }
}

/// # Safety
/// `place` is not a weak place yet.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn objc_initWeak(place: Place, object: Option<Object>) -> Option<Object> {
    // SAFETY: the caller's promise.
    unsafe { place.write(None) };
    // SAFETY: a weak place that is null.
    unsafe { objc_storeWeak(place, object) }
}

/// # Safety
/// `place` is a weak place.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn objc_storeWeak(place: Place, object: Option<Object>) -> Option<Object> {
    place.expose_provenance();
    let mut table = locked(&TABLE);
    // SAFETY: the caller's promise, and the lock.
    if let Some(old) = unsafe { place.read() } {
        table.remove(place, old);
    }
    // An object that is being freed gets no new weak reference; neither does one that has no count.
    let object = object.filter(|object| object.has_header() && object.try_retain());
    if let Some(object) = object {
        object.mark(WEAK);
        table.add(place, object);
    }
    // SAFETY: the caller's promise, and the lock.
    unsafe { place.write(object) };
    drop(table);
    object.inspect(|object| object.release())
}

/// # Safety
/// `place` is a weak place.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn objc_loadWeakRetained(place: Place) -> Option<Object> {
    let _table = locked(&TABLE);
    // SAFETY: the caller's promise, and the lock.
    unsafe { place.read() }.filter(|object| object.try_retain())
}

/// # Safety
/// `place` is a weak place.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn objc_loadWeak(place: Place) -> Option<Object> {
    // SAFETY: the caller's promise.
    unsafe { objc_loadWeakRetained(place) }.inspect(|object| pool::autorelease(*object))
}

/// # Safety
/// `place` is a weak place; it ends here.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn objc_destroyWeak(place: Place) {
    let mut table = locked(&TABLE);
    // SAFETY: the caller's promise, and the lock.
    if let Some(old) = unsafe { place.read() } {
        table.remove(place, old);
    }
}

/// # Safety
/// `from` is a weak place, `to` is not one yet.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn objc_copyWeak(to: Place, from: Place) {
    // SAFETY: the caller's promise.
    let object = unsafe { objc_loadWeakRetained(from) };
    // SAFETY: the caller's promise.
    unsafe { objc_initWeak(to, object) };
    if let Some(object) = object {
        object_calls::release(object);
    }
}

/// # Safety
/// `from` is a weak place and ends here, `to` is not one yet.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn objc_moveWeak(to: Place, from: Place) {
    // SAFETY: the caller's promise.
    unsafe { objc_copyWeak(to, from) };
    // SAFETY: the caller's promise.
    unsafe { objc_destroyWeak(from) };
}

/// How an association holds its value: 0 not at all, 1 and 0x301 by a reference, 3 and 0x303 by a copy.
#[unsafe(no_mangle)]
extern "C" fn objc_setAssociatedObject(object: Object, key: *const c_void, value: Option<Object>, policy: usize) {
    let value = value.map(|value| match policy & 0xff {
        0 => (value, false),
        3 => (message::send(value, Selector::of(c"copy")).unwrap_or(value), true),
        _ => (object_calls::retain(value), true),
    });
    let key = (object.address(), key.addr());
    let mut table = locked(&TABLE);
    let old = match value {
        Some(value) => table.associated.insert(key, value),
        None => table.associated.remove(&key),
    };
    if object.has_header() {
        object.mark(ASSOCIATED);
    }
    drop(table);
    if let Some((old, true)) = old {
        object_calls::release(old);
    }
}

#[unsafe(no_mangle)]
extern "C" fn objc_getAssociatedObject(object: Object, key: *const c_void) -> Option<Object> {
    locked(&TABLE).associated.get(&(object.address(), key.addr())).map(|(value, _)| *value)
}

#[unsafe(no_mangle)]
extern "C" fn objc_removeAssociatedObjects(object: Object) {
    let address = object.address();
    let mut table = locked(&TABLE);
    let keys: Vec<_> = table.associated.range((address, 0)..=(address, usize::MAX)).map(|(key, _)| *key).collect();
    let gone: Vec<_> = keys.iter().filter_map(|key| table.associated.remove(key)).collect();
    drop(table);
    for (value, _) in gone.into_iter().filter(|(_, retained)| *retained) {
        object_calls::release(value);
    }
}
