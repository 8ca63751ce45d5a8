//! `NSObject`, the root class: what every object and every class answers.
//!
//! A class answers the root's instance methods too, as in every Objective-C runtime: the class of the root class stands
//! below the root class.

use std::ptr::NonNull;

use objc2::{
    rc::Retained,
    runtime::{AnyClass, AnyObject, AnyProtocol, Bool, ClassBuilder, NSObject, NSZone, ProtocolBuilder, Sel},
    sel,
};
use objc2_foundation::NSString;

use super::{
    class::{Class, Protocol, export_class},
    class_calls, lookup, message,
    object::Object,
    pool,
    selector::Selector,
};

export_class!("NSObject", define);

/// Builds the class, once.
fn define() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        extern "C-unwind" fn initialize(_: &AnyClass, _: Sel) {}
        let builder = ClassBuilder::root(c"NSObject", initialize as extern "C-unwind" fn(_, _));
        let mut builder = builder.expect("the root class is built once");
        class_methods(&mut builder);
        life(&mut builder);
        questions(&mut builder);
        let protocol = ProtocolBuilder::new(c"NSObject").expect("it is built once").register();
        builder.add_protocol(protocol);
        builder.register();
    });
}

/// Adds methods, each a function under its selector.
macro_rules! methods {
    ($builder:expr, $add:ident, $($selector:expr => $function:ident($($argument:tt),*) $(-> $return:tt)?;)*) => {$(
        // SAFETY: the function has the types that the selector has in Apple's interface.
        unsafe { $builder.$add($selector, $function as extern "C-unwind" fn(_, _ $(, $argument)*) $(-> $return)?) };
    )*};
}

fn class_methods(builder: &mut ClassBuilder) {
    methods!(builder, add_class_method,
        sel!(alloc) => alloc() -> _;
        sel!(allocWithZone:) => alloc_with_zone(_) -> _;
        sel!(new) => new() -> _;
        sel!(class) => class_itself() -> _;
        sel!(superclass) => class_above() -> _;
        sel!(isSubclassOfClass:) => is_subclass(_) -> _;
        sel!(instancesRespondToSelector:) => instances_respond(_) -> _;
        sel!(conformsToProtocol:) => class_conforms(_) -> _;
        sel!(description) => class_description() -> _;
    );
}

fn life(builder: &mut ClassBuilder) {
    methods!(builder, add_method,
        sel!(init) => init() -> _;
        sel!(dealloc) => dealloc();
        sel!(retain) => retain() -> _;
        sel!(release) => release();
        sel!(autorelease) => autorelease() -> _;
        sel!(retainCount) => retain_count() -> _;
        sel!(copy) => copy() -> _;
        sel!(mutableCopy) => mutable_copy() -> _;
    );
}

fn questions(builder: &mut ClassBuilder) {
    methods!(builder, add_method,
        sel!(self) => itself() -> _;
        sel!(class) => class() -> _;
        sel!(superclass) => superclass() -> _;
        sel!(isEqual:) => is_equal(_) -> _;
        sel!(hash) => hash() -> _;
        sel!(isKindOfClass:) => is_kind(_) -> _;
        sel!(isMemberOfClass:) => is_member(_) -> _;
        sel!(respondsToSelector:) => responds(_) -> _;
        sel!(conformsToProtocol:) => conforms(_) -> _;
        sel!(description) => description() -> _;
        sel!(debugDescription) => debug_description() -> _;
        sel!(isProxy) => is_proxy() -> _;
        sel!(doesNotRecognizeSelector:) => does_not_recognize(_);
    );
}

/// The runtime's own view of a class that objc2 hands over.
fn own(class: &AnyClass) -> &'static Class {
    // SAFETY: every class is a class of this runtime, and lives for ever.
    unsafe { NonNull::from(class).cast::<Class>().as_ref() }
}

fn own_selector(selector: Sel) -> Selector {
    // SAFETY: a selector is the address of a unique name, for objc2 as for this runtime.
    unsafe { std::mem::transmute::<Sel, Selector>(selector) }
}

fn own_protocol(protocol: &AnyProtocol) -> &'static Protocol {
    // SAFETY: every protocol is a protocol of this runtime, and lives for ever.
    unsafe { NonNull::from(protocol).cast::<Protocol>().as_ref() }
}

fn any(class: Option<&'static Class>) -> Option<&'static AnyClass> {
    // SAFETY: an `AnyClass` is what this runtime's classes are to objc2.
    class.map(|class| unsafe { NonNull::from(class).cast::<AnyClass>().as_ref() })
}

/// A class that has its own `allocWithZone:` is asked.
extern "C-unwind" fn alloc(class: &AnyClass, _: Sel) -> *mut AnyObject {
    let class = Object::class_object(own(class));
    message::with_zone(class, own_selector(sel!(allocWithZone:))).map_or(std::ptr::null_mut(), Object::pointer)
}

extern "C-unwind" fn alloc_with_zone(class: &AnyClass, _: Sel, _zone: *mut NSZone) -> *mut AnyObject {
    Object::create(own(class), 0).pointer()
}

extern "C-unwind" fn new(class: &AnyClass, _: Sel) -> *mut AnyObject {
    let class = Object::class_object(own(class));
    let object = message::send(class, own_selector(sel!(alloc)));
    let object = object.and_then(|object| message::send(object, own_selector(sel!(init))));
    object.map_or(std::ptr::null_mut(), Object::pointer)
}

extern "C-unwind" fn class_itself(class: &AnyClass, _: Sel) -> *const AnyClass {
    class
}

extern "C-unwind" fn class_above(class: &AnyClass, _: Sel) -> Option<&'static AnyClass> {
    own(class).realize();
    any(own(class).superclass())
}

extern "C-unwind" fn is_subclass(class: &AnyClass, _: Sel, other: &AnyClass) -> Bool {
    own(class).realize();
    Bool::new(own(class).descends(own(other)))
}

extern "C-unwind" fn instances_respond(class: &AnyClass, _: Sel, selector: Sel) -> Bool {
    Bool::new(lookup::method(own(class), own_selector(selector)).is_some())
}

extern "C-unwind" fn class_conforms(class: &AnyClass, _: Sel, protocol: &AnyProtocol) -> Bool {
    Bool::new(class_calls::conforms(own(class), own_protocol(protocol)))
}

extern "C-unwind" fn class_description(class: &AnyClass, _: Sel) -> *mut NSString {
    Retained::autorelease_return(NSString::from_str(&own(class).title()))
}

extern "C-unwind" fn init(object: *mut NSObject, _: Sel) -> *mut NSObject {
    object
}

extern "C-unwind" fn dealloc(object: &NSObject, _: Sel) {
    Object::of(object).dispose();
}

extern "C-unwind" fn retain(object: &NSObject, _: Sel) -> *mut AnyObject {
    Object::of(object).retain().pointer()
}

extern "C-unwind" fn release(object: &NSObject, _: Sel) {
    Object::of(object).release();
}

extern "C-unwind" fn autorelease(object: &NSObject, _: Sel) -> *mut AnyObject {
    pool::autorelease(Object::of(object));
    Object::of(object).pointer()
}

extern "C-unwind" fn retain_count(object: &NSObject, _: Sel) -> usize {
    Object::of(object).references()
}

/// A block is copied by its own rules; any other object by its class's `copyWithZone:`.
fn copy_by(object: &NSObject, selector: Sel) -> *mut AnyObject {
    let object = Object::of(object);
    if object.class().flagged(super::class::BLOCK) {
        return object.retain().pointer();
    }
    message::with_zone(object, own_selector(selector)).map_or(std::ptr::null_mut(), Object::pointer)
}

extern "C-unwind" fn copy(object: &NSObject, _: Sel) -> *mut AnyObject {
    copy_by(object, sel!(copyWithZone:))
}

extern "C-unwind" fn mutable_copy(object: &NSObject, _: Sel) -> *mut AnyObject {
    copy_by(object, sel!(mutableCopyWithZone:))
}

extern "C-unwind" fn itself(object: *mut NSObject, _: Sel) -> *mut NSObject {
    object
}

extern "C-unwind" fn class(object: &NSObject, _: Sel) -> Option<&'static AnyClass> {
    any(Some(Object::of(object).class()))
}

extern "C-unwind" fn superclass(object: &NSObject, _: Sel) -> Option<&'static AnyClass> {
    any(Object::of(object).class().superclass())
}

extern "C-unwind" fn is_equal(object: *mut NSObject, _: Sel, other: *mut AnyObject) -> Bool {
    Bool::new(object.cast::<AnyObject>() == other)
}

extern "C-unwind" fn hash(object: &NSObject, _: Sel) -> usize {
    std::ptr::from_ref(object).addr() >> 4
}

extern "C-unwind" fn is_kind(object: &NSObject, _: Sel, class: &AnyClass) -> Bool {
    let own_class = Object::of(object).class();
    own_class.realize();
    Bool::new(own_class.descends(own(class)))
}

extern "C-unwind" fn is_member(object: &NSObject, _: Sel, class: &AnyClass) -> Bool {
    Bool::new(std::ptr::eq(Object::of(object).class(), own(class)))
}

extern "C-unwind" fn responds(object: &NSObject, _: Sel, selector: Sel) -> Bool {
    Bool::new(lookup::method(Object::of(object).class(), own_selector(selector)).is_some())
}

extern "C-unwind" fn conforms(object: &NSObject, _: Sel, protocol: &AnyProtocol) -> Bool {
    Bool::new(class_calls::conforms(Object::of(object).class(), own_protocol(protocol)))
}

extern "C-unwind" fn description(object: &NSObject, _: Sel) -> *mut NSString {
    let text = format!("<{}: {object:p}>", Object::of(object).class().title(), object = std::ptr::from_ref(object));
    Retained::autorelease_return(NSString::from_str(&text))
}

extern "C-unwind" fn debug_description(object: &NSObject, _: Sel) -> *mut AnyObject {
    let text = message::send(Object::of(object), own_selector(sel!(description)));
    text.map_or(std::ptr::null_mut(), Object::pointer)
}

extern "C-unwind" fn is_proxy(_: &NSObject, _: Sel) -> Bool {
    Bool::NO
}

extern "C-unwind" fn does_not_recognize(object: &NSObject, _: Sel, selector: Sel) {
    message::not_recognized(Object::of(object), own_selector(selector))
}
