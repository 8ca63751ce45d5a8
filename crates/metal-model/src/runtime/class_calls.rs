//! The C functions that build and ask classes, methods and instance variables.
//!
//! Every pointer that they take is null or was given out by this runtime; that is the promise of their callers. Arrays
//! that they give out are for `free`, hence from `malloc`.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    mem, ptr,
    sync::atomic::Ordering,
};

use objc2::runtime::{Bool, Imp};

use super::{
    class::{self, Class, Method, Protocol, Variable, c_str},
    lookup, misuse,
    selector::Selector,
};

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
}

/// An array of pointers for the caller to free; null where there is nothing.
pub(crate) fn give<T>(items: &[&'static T], count: Option<&mut c_uint>) -> *mut *const T {
    give_values(items.iter().map(|item| ptr::from_ref(*item)).collect(), count)
}

/// An array for the caller to free; null where there is nothing.
pub(crate) fn give_values<T>(items: Vec<T>, count: Option<&mut c_uint>) -> *mut T {
    if let Some(count) = count {
        *count = c_uint::try_from(items.len()).unwrap_or(c_uint::MAX);
    }
    if items.is_empty() {
        return ptr::null_mut();
    }
    // SAFETY: `malloc` may be called with any size.
    let memory = unsafe { malloc(items.len() * size_of::<T>()) }.cast::<T>();
    if memory.is_null() {
        misuse("out of memory");
    }
    for (at, item) in items.into_iter().enumerate() {
        // SAFETY: the memory has a place for each item, aligned for any type of an interface.
        unsafe { memory.wrapping_add(at).write(item) };
    }
    memory
}

/// A C string for the caller to free.
fn give_text(text: &[u8]) -> *mut c_char {
    // SAFETY: `malloc` may be called with any size.
    let memory = unsafe { malloc(text.len() + 1) }.cast::<u8>();
    if memory.is_null() {
        misuse("out of memory");
    }
    // SAFETY: the memory has room for the text.
    unsafe { memory.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    // SAFETY: and for the zero.
    unsafe { memory.wrapping_add(text.len()).write(0) };
    memory.cast()
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_getClass(name: *const c_char) -> Option<&'static Class> {
    // SAFETY: the caller's promise.
    class::find(unsafe { c_str(name) })
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_lookUpClass(name: *const c_char) -> Option<&'static Class> {
    // SAFETY: the caller's promise.
    class::find(unsafe { c_str(name) })
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_getRequiredClass(name: *const c_char) -> &'static Class {
    // SAFETY: the caller's promise.
    let name = unsafe { c_str(name) };
    class::find(name).unwrap_or_else(|| misuse(format_args!("no class {name:?}")))
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_getMetaClass(name: *const c_char) -> Option<&'static Class> {
    // SAFETY: the caller's promise.
    class::find(unsafe { c_str(name) }).map(Class::isa)
}

#[unsafe(no_mangle)]
extern "C" fn objc_copyClassList(count: Option<&mut c_uint>) -> *mut *const Class {
    give(&class::all(), count)
}

/// # Safety
/// `buffer` is null or has room for `room` pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_getClassList(buffer: *mut *const Class, room: c_int) -> c_int {
    let classes = class::all();
    if !buffer.is_null() {
        for (at, class) in classes.iter().take(usize::try_from(room).unwrap_or(0)).enumerate() {
            // SAFETY: the caller's promise.
            unsafe { buffer.wrapping_add(at).write(ptr::from_ref(*class)) };
        }
    }
    c_int::try_from(classes.len()).unwrap_or(c_int::MAX)
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_allocateClassPair(
    superclass: Option<&'static Class>,
    name: *const c_char,
    _extra: usize,
) -> Option<&'static Class> {
    // SAFETY: the caller's promise.
    class::allocate(superclass, unsafe { c_str(name) })
}

#[unsafe(no_mangle)]
extern "C" fn objc_registerClassPair(class: &'static Class) {
    class::register(class);
}

#[unsafe(no_mangle)]
extern "C" fn objc_disposeClassPair(class: &'static Class) {
    class::dispose(class);
}

/// # Safety
/// `name` and `types` are C strings.
#[unsafe(no_mangle)]
unsafe extern "C" fn class_addIvar(
    class: &'static Class,
    name: *const c_char,
    size: usize,
    alignment: u8,
    types: *const c_char,
) -> Bool {
    // SAFETY: the caller's promise.
    let name = unsafe { c_str(name) };
    // SAFETY: the caller's promise.
    let types = unsafe { c_str(types) };
    // Objects begin at multiples of 16 less the class pointer's place; objc2 itself asks for 8 at most.
    if class.is_realized() || alignment > 4 {
        return Bool::NO;
    }
    let mut members = class.members();
    if members.variables.iter().any(|known| known.name.as_c_str() == name) {
        return Bool::NO;
    }
    let offset = class.size.load(Ordering::Relaxed).next_multiple_of(1 << alignment);
    let variable = Variable { name: name.to_owned(), types: types.to_owned(), offset };
    members.variables.push(Box::leak(Box::new(variable)));
    class.size.store(offset + size, Ordering::Relaxed);
    Bool::YES
}

/// # Safety
/// `types` is a C string, and describes the implementation.
#[unsafe(no_mangle)]
unsafe extern "C" fn class_addMethod(class: &Class, selector: Selector, code: Imp, types: *const c_char) -> Bool {
    // SAFETY: the caller's promise.
    Bool::new(class.add_method(selector, code, unsafe { c_str(types) }))
}

/// # Safety
/// `types` is a C string, and describes the implementation.
#[unsafe(no_mangle)]
unsafe extern "C" fn class_replaceMethod(
    class: &'static Class,
    selector: Selector,
    code: Imp,
    types: *const c_char,
) -> Option<Imp> {
    if let Some(known) = class.own_method(selector) {
        return Some(known.set(code));
    }
    // SAFETY: the caller's promise.
    class.add_method(selector, code, unsafe { c_str(types) });
    None
}

#[unsafe(no_mangle)]
extern "C" fn class_addProtocol(class: &'static Class, protocol: &'static Protocol) -> Bool {
    let added = !conforms(class, protocol);
    if added {
        class.members().protocols.push(protocol);
    }
    Bool::new(added)
}

/// Whether the class or one above it adopts the protocol.
pub(crate) fn conforms(class: &'static Class, protocol: &Protocol) -> bool {
    class.realize();
    class.chain().any(|class| class.members().protocols.iter().any(|adopted| adopted.conforms(protocol)))
}

#[unsafe(no_mangle)]
extern "C" fn class_conformsToProtocol(class: Option<&'static Class>, protocol: Option<&Protocol>) -> Bool {
    Bool::new(class.zip(protocol).is_some_and(|(class, protocol)| conforms(class, protocol)))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn class_getInstanceMethod(
    class: Option<&'static Class>,
    selector: Selector,
) -> Option<&'static Method> {
    lookup::method(class?, selector)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn class_getClassMethod(
    class: Option<&'static Class>,
    selector: Selector,
) -> Option<&'static Method> {
    lookup::method(class?.isa(), selector)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn class_respondsToSelector(class: Option<&'static Class>, selector: Option<Selector>) -> Bool {
    Bool::new(class.zip(selector).is_some_and(|(class, selector)| lookup::method(class, selector).is_some()))
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn class_getInstanceVariable(
    class: Option<&'static Class>,
    name: *const c_char,
) -> Option<&'static Variable> {
    // SAFETY: the caller's promise.
    class?.variable(unsafe { c_str(name) })
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn class_getClassVariable(
    class: Option<&'static Class>,
    name: *const c_char,
) -> Option<&'static Variable> {
    // SAFETY: the caller's promise.
    class?.isa().variable(unsafe { c_str(name) })
}

#[unsafe(no_mangle)]
extern "C" fn class_copyIvarList(class: Option<&'static Class>, count: Option<&mut c_uint>) -> *mut *const Variable {
    let list = class.map(|class| class.members().variables.clone()).unwrap_or_default();
    give(&list, count)
}

#[unsafe(no_mangle)]
extern "C" fn class_copyMethodList(class: Option<&'static Class>, count: Option<&mut c_uint>) -> *mut *const Method {
    let list = class.inspect(|class| class.realize()).map(|class| class.members().methods.clone()).unwrap_or_default();
    give(&list, count)
}

#[unsafe(no_mangle)]
extern "C" fn class_copyProtocolList(
    class: Option<&'static Class>,
    count: Option<&mut c_uint>,
) -> *mut *const Protocol {
    let list = class.map(|class| class.members().protocols.clone()).unwrap_or_default();
    give(&list, count)
}

#[unsafe(no_mangle)]
extern "C" fn class_getInstanceSize(class: Option<&'static Class>) -> usize {
    let size = class.inspect(|class| class.realize()).map_or(0, |class| class.size.load(Ordering::Relaxed));
    size.next_multiple_of(size_of::<usize>())
}

#[unsafe(no_mangle)]
extern "C" fn class_getName(class: Option<&'static Class>) -> *const c_char {
    class.map_or(c"nil", Class::name).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn class_getSuperclass(class: Option<&'static Class>) -> Option<&'static Class> {
    class.inspect(|class| class.realize()).and_then(Class::superclass)
}

#[unsafe(no_mangle)]
extern "C" fn class_isMetaClass(class: Option<&'static Class>) -> Bool {
    Bool::new(class.is_some_and(Class::is_meta))
}

#[unsafe(no_mangle)]
extern "C" fn class_getVersion(_class: Option<&'static Class>) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn method_getName(method: Option<&Method>) -> Option<Selector> {
    method.map(|method| method.selector)
}

#[unsafe(no_mangle)]
extern "C" fn method_getImplementation(method: Option<&Method>) -> Option<Imp> {
    method.map(Method::implementation)
}

#[unsafe(no_mangle)]
extern "C" fn method_setImplementation(method: Option<&Method>, code: Imp) -> Option<Imp> {
    method.map(|method| method.set(code))
}

#[unsafe(no_mangle)]
extern "C" fn method_exchangeImplementations(one: &Method, other: &Method) {
    let first = one.implementation();
    one.set(other.set(first));
}

#[unsafe(no_mangle)]
extern "C" fn method_getTypeEncoding(method: Option<&Method>) -> *const c_char {
    method.map_or(ptr::null(), |method| method.types.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn method_getNumberOfArguments(method: Option<&Method>) -> c_uint {
    let count = method.map_or(0, |method| pieces(&method.types).len().saturating_sub(1));
    c_uint::try_from(count).unwrap_or(c_uint::MAX)
}

#[unsafe(no_mangle)]
extern "C" fn method_copyReturnType(method: &Method) -> *mut c_char {
    give_text(pieces(&method.types).first().copied().unwrap_or(b""))
}

#[unsafe(no_mangle)]
extern "C" fn method_copyArgumentType(method: &Method, index: c_uint) -> *mut c_char {
    pieces(&method.types).get(index as usize + 1).map_or(ptr::null_mut(), |piece| give_text(piece))
}

/// The encodings of the return value and of each argument, without the offsets that some compilers write between them.
fn pieces(types: &CStr) -> Vec<&[u8]> {
    let mut rest = types.to_bytes();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(piece_len(rest));
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        found.push(piece);
        rest = after.split_at(digits).1;
    }
    found
}

/// Bytes of the encoding that the text begins with.
fn piece_len(text: &[u8]) -> usize {
    // What stands before a type without being one: const, in, out, pointers, and so on.
    let before = text.iter().take_while(|byte| b"rnNoORVA^j".contains(byte)).count();
    let mut depth = 0_usize;
    let mut end = before;
    for byte in text.get(before..).unwrap_or_default() {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        end += 1;
        if depth == 0 {
            break;
        }
    }
    // `@?` is a block, `b3` a bit field.
    match text.get(before..end) {
        Some(b"@") if text.get(end) == Some(&b'?') => end + 1,
        _ => end,
    }
}

#[unsafe(no_mangle)]
extern "C" fn ivar_getName(variable: Option<&Variable>) -> *const c_char {
    variable.map_or(ptr::null(), |variable| variable.name.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn ivar_getOffset(variable: &Variable) -> isize {
    isize::try_from(variable.offset).unwrap_or(isize::MAX)
}

#[unsafe(no_mangle)]
extern "C" fn ivar_getTypeEncoding(variable: Option<&Variable>) -> *const c_char {
    variable.map_or(ptr::null(), |variable| variable.types.as_ptr())
}

// An `Imp` is one word, as every pointer that these functions give out.
const _: () = assert!(mem::size_of::<Option<Imp>>() == size_of::<usize>());
