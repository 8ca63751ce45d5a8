//! Messages: from a receiver and a selector to the function to call.

use std::{ffi::c_void, sync::LazyLock};

use objc2::{ffi::objc_super, runtime::Imp};

use super::{class::Class, exception, lookup, misuse, object::Object, selector::Selector};

/// A function of any message, under its true type.
pub(crate) type Call<R> = unsafe extern "C-unwind" fn(Object, Selector) -> R;

/// The function of a message without arguments.
///
/// # Safety
/// The method takes no arguments and returns an `R`.
pub(crate) unsafe fn as_call<R>(implementation: Imp) -> Call<R> {
    // SAFETY: the caller's promise.
    unsafe { std::mem::transmute::<Imp, Call<R>>(implementation) }
}

/// The function with which `receiver` answers the selector.
#[unsafe(no_mangle)]
extern "C-unwind" fn objc_msg_lookup(receiver: Option<Object>, selector: Selector) -> Imp {
    let Some(receiver) = receiver else { return nothing() };
    match lookup::cached(receiver.class(), selector) {
        Some(implementation) => implementation,
        None => miss(receiver.class(), selector),
    }
}

/// The function of the class above, by which a method calls the one that it replaces.
#[unsafe(no_mangle)]
extern "C-unwind" fn objc_msg_lookup_super(above: &objc_super, selector: Selector) -> Imp {
    if above.receiver.is_null() {
        return nothing();
    }
    // SAFETY: the caller has it from its own class, so it is a class of this runtime.
    let Some(class) = (unsafe { above.super_class.cast::<Class>().as_ref() }) else { return nothing() };
    match lookup::cached(class, selector) {
        Some(implementation) => implementation,
        None => miss(class, selector),
    }
}

#[cold]
#[inline(never)]
fn miss(class: &'static Class, selector: Selector) -> Imp {
    lookup::method(class, selector).map_or_else(unrecognized, |method| method.implementation())
}

/// What answers a message to nil: zero.
fn nothing() -> Imp {
    extern "C-unwind" fn zero(_: *mut c_void, _: *mut c_void) -> usize {
        0
    }
    let zero: extern "C-unwind" fn(*mut c_void, *mut c_void) -> usize = zero;
    // SAFETY: functions have one size; callers call it by the type of the message.
    unsafe { std::mem::transmute::<extern "C-unwind" fn(*mut c_void, *mut c_void) -> usize, Imp>(zero) }
}

/// What answers a selector that no method is for: an exception.
fn unrecognized() -> Imp {
    extern "C-unwind" fn answer(receiver: Object, selector: Selector) -> ! {
        not_recognized(receiver, selector)
    }
    let answer: extern "C-unwind" fn(Object, Selector) -> ! = answer;
    // SAFETY: as in `nothing`; it reads the two arguments that every message has.
    unsafe { std::mem::transmute::<extern "C-unwind" fn(Object, Selector) -> !, Imp>(answer) }
}

/// Throws what Apple's root class throws.
pub(crate) fn not_recognized(receiver: Object, selector: Selector) -> ! {
    let kind = if receiver.as_class().is_some() { "class" } else { "instance" };
    let title = receiver.title(selector.name());
    let reason = format!("{title}: unrecognized selector sent to {kind} {:p}", receiver.pointer());
    exception::raise("NSInvalidArgumentException", &reason)
}

static DEALLOC: LazyLock<Selector> = LazyLock::new(|| Selector::of(c"dealloc"));

/// Sends `dealloc`.
pub(crate) fn dealloc(object: Object) {
    let implementation = objc_msg_lookup(Some(object), *DEALLOC);
    // SAFETY: `dealloc` takes nothing and returns nothing.
    let call = unsafe { as_call::<()>(implementation) };
    // SAFETY: the object has this method.
    unsafe { call(object, *DEALLOC) };
}

/// Sends a message that has no arguments and no answer.
pub(crate) fn send_nothing(object: Object, selector: Selector) {
    let implementation = objc_msg_lookup(Some(object), selector);
    // SAFETY: the callers in this crate send `release`, which takes nothing and answers nothing.
    let call = unsafe { as_call::<()>(implementation) };
    // SAFETY: every object has this method.
    unsafe { call(object, selector) };
}

/// Sends a message that has no arguments and answers with an object.
pub(crate) fn send(object: Object, selector: Selector) -> Option<Object> {
    let implementation = objc_msg_lookup(Some(object), selector);
    // SAFETY: the callers in this crate send selectors of Foundation that answer with an object and take nothing.
    let call = unsafe { as_call::<Option<Object>>(implementation) };
    // SAFETY: the object has this method, or the function throws.
    unsafe { call(object, selector) }
}

/// Sends a message whose one argument is a zone, and whose answer an object, with no zone.
pub(crate) fn with_zone(object: Object, selector: Selector) -> Option<Object> {
    type Zoned = unsafe extern "C-unwind" fn(Object, Selector, *mut c_void) -> Option<Object>;
    let implementation = objc_msg_lookup(Some(object), selector);
    // SAFETY: the callers in this crate send `allocWithZone:`, `copyWithZone:` and `mutableCopyWithZone:`.
    let call = unsafe { std::mem::transmute::<Imp, Zoned>(implementation) };
    // SAFETY: the object has this method, or the function throws.
    unsafe { call(object, selector, std::ptr::null_mut()) }
}

// Crates name these as values, to choose among ways of sending; on this runtime they choose `objc_msg_lookup`.
macro_rules! never_called {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            misuse(concat!(stringify!($name), " is not how messages are sent here"));
        }
    )*};
}
never_called!(objc_msgSend, objc_msgSend_stret, objc_msgSend_fpret, class_getMethodImplementation_stret);

/// The function that instances of the class answer the selector with.
#[unsafe(no_mangle)]
extern "C" fn class_getMethodImplementation(class: Option<&'static Class>, selector: Selector) -> Option<Imp> {
    let class = class?;
    Some(lookup::method(class, selector).map_or_else(unrecognized, |method| method.implementation()))
}
