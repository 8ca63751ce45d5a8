//! The C functions of protocols.
//!
//! A protocol that crates declare (`extern_protocol!`) needs no registration here: [`objc_getProtocol`] knows only those
//! that a program builds, and where it answers null, objc2 leaves out its own check that a class has the methods. The
//! model's tests check more: each declared method's encoding, on each class.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString, c_char, c_uint},
    ptr,
    sync::Mutex,
};

use objc2::{
    ffi::objc_method_description,
    runtime::{Bool, Sel},
};

use super::{
    class::{Described, Protocol, c_str, locked},
    class_calls::give,
    selector::Selector,
};

static PROTOCOLS: Mutex<BTreeMap<&'static CStr, &'static Protocol>> = Mutex::new(BTreeMap::new());

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_getProtocol(name: *const c_char) -> Option<&'static Protocol> {
    // SAFETY: the caller's promise.
    locked(&PROTOCOLS).get(unsafe { c_str(name) }).copied()
}

#[unsafe(no_mangle)]
extern "C" fn objc_copyProtocolList(count: Option<&mut c_uint>) -> *mut *const Protocol {
    let list: Vec<_> = locked(&PROTOCOLS).values().copied().collect();
    give(&list, count)
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_allocateProtocol(name: *const c_char) -> Option<&'static Protocol> {
    // SAFETY: the caller's promise.
    let name: CString = unsafe { c_str(name) }.to_owned();
    if locked(&PROTOCOLS).contains_key(name.as_c_str()) {
        return None;
    }
    let protocol = Protocol { name, parents: Mutex::default(), methods: Mutex::default() };
    Some(Box::leak(Box::new(protocol)))
}

#[unsafe(no_mangle)]
extern "C" fn objc_registerProtocol(protocol: &'static Protocol) {
    locked(&PROTOCOLS).insert(&protocol.name, protocol);
}

#[unsafe(no_mangle)]
extern "C" fn protocol_conformsToProtocol(protocol: Option<&Protocol>, other: Option<&Protocol>) -> Bool {
    Bool::new(protocol.zip(other).is_some_and(|(protocol, other)| protocol.conforms(other)))
}

#[unsafe(no_mangle)]
extern "C" fn protocol_isEqual(protocol: Option<&Protocol>, other: Option<&Protocol>) -> Bool {
    Bool::new(match (protocol, other) {
        (Some(protocol), Some(other)) => protocol.name == other.name,
        (None, None) => true,
        _ => false,
    })
}

#[unsafe(no_mangle)]
extern "C" fn protocol_getName(protocol: Option<&Protocol>) -> *const c_char {
    protocol.map_or(c"nil".as_ptr(), |protocol| protocol.name.as_ptr())
}

/// # Safety
/// `types` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn protocol_addMethodDescription(
    protocol: &Protocol,
    selector: Selector,
    types: *const c_char,
    required: Bool,
    instance: Bool,
) {
    // SAFETY: the caller's promise.
    let types = unsafe { c_str(types) }.to_owned();
    let (required, instance) = (required.as_bool(), instance.as_bool());
    locked(&protocol.methods).push(Described { selector, types, required, instance });
}

#[unsafe(no_mangle)]
extern "C" fn protocol_addProtocol(protocol: &Protocol, parent: &'static Protocol) {
    locked(&protocol.parents).push(parent);
}

#[unsafe(no_mangle)]
extern "C" fn protocol_copyProtocolList(protocol: &Protocol, count: Option<&mut c_uint>) -> *mut *const Protocol {
    give(&locked(&protocol.parents).clone(), count)
}

fn description(method: &Described) -> objc_method_description {
    // SAFETY: a selector is the address of a unique name, for objc2 as for this runtime.
    let name = unsafe { Sel::__internal_from_ptr(ptr::from_ref(method.selector.0).cast()) };
    objc_method_description { name: Some(name), types: method.types.as_ptr() }
}

#[unsafe(no_mangle)]
extern "C" fn protocol_getMethodDescription(
    protocol: &'static Protocol,
    selector: Selector,
    required: Bool,
    instance: Bool,
) -> objc_method_description {
    let kind = (required.as_bool(), instance.as_bool());
    let methods = locked(&protocol.methods);
    let found = methods.iter().find(|known| known.selector == selector && (known.required, known.instance) == kind);
    found.map_or(objc_method_description { name: None, types: ptr::null() }, description)
}

#[unsafe(no_mangle)]
extern "C" fn protocol_copyMethodDescriptionList(
    protocol: &'static Protocol,
    required: Bool,
    instance: Bool,
    count: Option<&mut c_uint>,
) -> *mut objc_method_description {
    let kind = (required.as_bool(), instance.as_bool());
    let methods = locked(&protocol.methods);
    let wanted = methods.iter().filter(|known| (known.required, known.instance) == kind);
    super::class_calls::give_values(wanted.map(description).collect(), count)
}
