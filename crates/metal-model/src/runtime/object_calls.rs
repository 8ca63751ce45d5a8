//! The C functions of objects: retain, release, autorelease, class of, instance variables, associated and weak ones.
//!
//! Every pointer that they take is null or an [`Object`]; that is the promise of their callers, who hold references.

use std::{
    ffi::{c_char, c_void},
    sync::LazyLock,
};

use super::{
    class::{Class, OWN_COUNT, Variable, c_str},
    message,
    object::Object,
    pool,
    selector::Selector,
};

static RETAIN: LazyLock<Selector> = LazyLock::new(|| Selector::of(c"retain"));
static RELEASE: LazyLock<Selector> = LazyLock::new(|| Selector::of(c"release"));
static AUTORELEASE: LazyLock<Selector> = LazyLock::new(|| Selector::of(c"autorelease"));

/// Retains by message where the class wishes so.
pub(crate) fn retain(object: Object) -> Object {
    if object.class().flagged(OWN_COUNT) {
        return message::send(object, *RETAIN).unwrap_or(object);
    }
    object.retain()
}

/// Releases by message where the class wishes so.
pub(crate) fn release(object: Object) {
    if object.class().flagged(OWN_COUNT) {
        message::send_nothing(object, *RELEASE);
        return;
    }
    object.release();
}

fn autorelease(object: Object) -> Object {
    if object.class().flagged(OWN_COUNT) {
        return message::send(object, *AUTORELEASE).unwrap_or(object);
    }
    pool::autorelease(object);
    object
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_retain(object: Option<Object>) -> Option<Object> {
    object.map(retain)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_release(object: Option<Object>) {
    if let Some(object) = object {
        release(object);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_autorelease(object: Option<Object>) -> Option<Object> {
    object.map(autorelease)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_autoreleaseReturnValue(object: Option<Object>) -> Option<Object> {
    object.map(autorelease)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_retainAutorelease(object: Option<Object>) -> Option<Object> {
    object.map(|object| autorelease(retain(object)))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_retainAutoreleaseReturnValue(object: Option<Object>) -> Option<Object> {
    object.map(|object| autorelease(retain(object)))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_retainAutoreleasedReturnValue(object: Option<Object>) -> Option<Object> {
    object.map(retain)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_retainBlock(object: Option<Object>) -> Option<Object> {
    object.map(Object::retain)
}

/// # Safety
/// `place` holds null or a reference that it owns.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn objc_storeStrong(place: *mut Option<Object>, object: Option<Object>) {
    let new = object.map(retain);
    // SAFETY: the caller's promise.
    let old = unsafe { place.replace(new) };
    if let Some(old) = old {
        release(old);
    }
}

#[unsafe(no_mangle)]
extern "C" fn object_getClass(object: Option<Object>) -> Option<&'static Class> {
    object.map(Object::class)
}

#[unsafe(no_mangle)]
extern "C" fn object_getClassName(object: Option<Object>) -> *const c_char {
    object.map_or(c"nil", |object| object.class().name()).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn object_setClass(object: Option<Object>, class: &'static Class) -> Option<&'static Class> {
    object.map(|object| object.set_class(class))
}

#[unsafe(no_mangle)]
extern "C" fn class_createInstance(class: Option<&'static Class>, extra: usize) -> Option<Object> {
    class.map(|class| Object::create(class, extra))
}

#[unsafe(no_mangle)]
extern "C" fn object_dispose(object: Option<Object>) -> Option<Object> {
    object.inspect(|object| object.dispose());
    None
}

/// Where the bytes begin that `class_createInstance` was asked for beyond the class's own.
#[unsafe(no_mangle)]
extern "C" fn object_getIndexedIvars(object: Object) -> *const c_void {
    let size = object.class().size.load(std::sync::atomic::Ordering::Relaxed);
    object.pointer().cast::<u8>().wrapping_add(size).cast()
}

fn place(object: Object, variable: &Variable) -> *mut Option<Object> {
    object.pointer().cast::<u8>().wrapping_add(variable.offset).cast()
}

/// # Safety
/// The variable is of the object's class, and holds an object.
#[unsafe(no_mangle)]
unsafe extern "C" fn object_getIvar(object: Option<Object>, variable: &Variable) -> Option<Object> {
    // SAFETY: the caller's promise.
    object.and_then(|object| unsafe { place(object, variable).read() })
}

/// # Safety
/// The variable is of the object's class, and holds an object.
#[unsafe(no_mangle)]
unsafe extern "C" fn object_setIvar(object: Option<Object>, variable: &Variable, value: Option<Object>) {
    if let Some(object) = object {
        // SAFETY: the caller's promise.
        unsafe { place(object, variable).write(value) };
    }
}

/// # Safety
/// `name` is a C string; the variable of this name holds a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn object_getInstanceVariable(
    object: Object,
    name: *const c_char,
    out: Option<&mut Option<Object>>,
) -> Option<&'static Variable> {
    // SAFETY: the caller's promise.
    let variable = object.class().variable(unsafe { c_str(name) })?;
    if let Some(out) = out {
        // SAFETY: the caller's promise, and the variable is of the object's class.
        *out = unsafe { place(object, variable).read() };
    }
    Some(variable)
}

/// # Safety
/// `name` is a C string; the variable of this name holds a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn object_setInstanceVariable(
    object: Object,
    name: *const c_char,
    value: Option<Object>,
) -> Option<&'static Variable> {
    // SAFETY: the caller's promise.
    let variable = object.class().variable(unsafe { c_str(name) })?;
    // SAFETY: the caller's promise, and the variable is of the object's class.
    unsafe { place(object, variable).write(value) };
    Some(variable)
}
