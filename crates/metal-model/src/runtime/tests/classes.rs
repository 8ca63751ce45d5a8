//! Classes that a program builds by hand, protocols, weak and associated references, and methods that change.

use std::{
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

use objc2::{
    AllocAnyThread, ClassType, Message, ProtocolType, define_class, ffi, msg_send,
    rc::{Allocated, Retained, autoreleasepool},
    runtime::{
        AnyClass, AnyObject, AnyProtocol, Bool, ClassBuilder, Imp, NSObject, NSObjectProtocol, NSZone, ProtocolBuilder,
        Sel,
    },
    sel,
};
use objc2_foundation::{NSArray, NSFastEnumerationState, NSOperatingSystemVersion, NSProcessInfo, NSRange, NSString};

use crate::live;

extern "C-unwind" fn one(_: &NSObject, _: Sel) -> u32 {
    1
}

extern "C-unwind" fn two(_: &NSObject, _: Sel) -> u32 {
    2
}

fn number(object: &NSObject, selector: Sel) -> u32 {
    // SAFETY: the tests' classes have these methods, with this type.
    unsafe { objc2::runtime::MessageReceiver::send_message(object, selector, ()) }
}

fn instance(class: &AnyClass) -> Retained<NSObject> {
    // SAFETY: every class has this method of the root class.
    unsafe { msg_send![class, new] }
}

#[test]
fn a_class_built_by_hand_has_its_methods_variables_and_protocols() {
    let protocol = ProtocolBuilder::new(c"RigTestParent").unwrap().register();
    let mut child = ProtocolBuilder::new(c"RigTestChild").unwrap();
    child.add_protocol(protocol);
    child.add_method_description::<(), u32>(sel!(number), true);
    let child = child.register();
    assert!(child.conforms_to(protocol) && !protocol.conforms_to(child));
    assert!(ptr::eq(AnyProtocol::get(c"RigTestChild").unwrap(), child) && AnyProtocol::get(c"RigTestNone").is_none());

    let mut builder = ClassBuilder::new(c"RigTestByHand", NSObject::class()).unwrap();
    builder.add_ivar::<u8>(c"small");
    builder.add_ivar::<u64>(c"large");
    assert!(builder.add_protocol(child) && !builder.add_protocol(protocol), "the second follows from the first");
    let function: extern "C-unwind" fn(&'static NSObject, Sel) -> u32 = one;
    // SAFETY: the function has this type.
    unsafe { builder.add_method(sel!(number), function) };
    assert!(AnyClass::get(c"RigTestByHand").is_none(), "it is not registered yet");
    let class = builder.register();
    assert!(ptr::eq(AnyClass::get(c"RigTestByHand").unwrap(), class));
    assert!(ClassBuilder::new(c"RigTestByHand", NSObject::class()).is_none(), "the name is taken");
    assert_eq!(class.instance_variable(c"large").unwrap().offset(), 16);
    assert_eq!((class.instance_variables().len(), class.instance_methods().len()), (2, 1));
    assert!(class.conforms_to(child) && class.conforms_to(protocol) && !NSObject::class().conforms_to(protocol));
    assert!(AnyClass::classes().iter().any(|known| ptr::eq(*known, class)));
    let object = instance(class);
    assert_eq!(number(&object, sel!(number)), 1);
    assert!(object.conformsToProtocol(protocol) && class.conforms_to(<dyn NSObjectProtocol>::protocol().unwrap()));
    assert!(object.respondsToSelector(sel!(number)));
    let method = class.instance_method(sel!(number)).unwrap();
    assert_eq!((method.arguments_count(), &*method.return_type()), (2, c"I"));
    assert_eq!(method.argument_type(1).as_deref(), Some(c":"));
    assert!(method.argument_type(2).is_none());
}

#[test]
fn a_method_that_is_replaced_answers_anew_at_once() {
    let mut builder = ClassBuilder::new(c"RigTestReplaced", NSObject::class()).unwrap();
    let function: extern "C-unwind" fn(&'static NSObject, Sel) -> u32 = one;
    // SAFETY: the function has this type.
    unsafe { builder.add_method(sel!(number), function) };
    let above = builder.register();
    let below = ClassBuilder::new(c"RigTestReplacedBelow", above).unwrap().register();
    let object = instance(below);
    assert_eq!(number(&object, sel!(number)), 1);
    let function: extern "C-unwind" fn(&'static NSObject, Sel) -> u32 = two;
    // SAFETY: one function's pointer for another's; it is sent with its own type.
    let other = unsafe { std::mem::transmute::<extern "C-unwind" fn(&'static NSObject, Sel) -> u32, Imp>(function) };
    let method = above.instance_method(sel!(number)).unwrap();
    // SAFETY: the function has the method's type.
    let first = unsafe { method.set_implementation(other) };
    assert_eq!(number(&object, sel!(number)), 2);
    let class = ptr::from_ref(below).cast_mut();
    // SAFETY: the function has the type; the class inherits a method of this name and has none itself.
    let added = unsafe { ffi::class_addMethod(class, sel!(number), first, c"I@:".as_ptr()) };
    assert!(added.as_bool());
    assert_eq!((number(&object, sel!(number)), number(&instance(above), sel!(number))), (1, 2));
}

static RETAINS: AtomicUsize = AtomicUsize::new(0);
static RELEASES: AtomicUsize = AtomicUsize::new(0);

define_class!(
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "RigTestOwnCount"]
    struct OwnCount;

    impl OwnCount {
        #[unsafe(method(retain))]
        fn retain_counted(&self) -> *mut Self {
            RETAINS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the root class has this method.
            unsafe { msg_send![super(self), retain] }
        }

        #[unsafe(method(release))]
        fn release_counted(&self) {
            RELEASES.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the root class has this method.
            unsafe { msg_send![super(self), release] }
        }
    }
);

#[test]
fn a_class_with_its_own_retain_and_release_is_asked() {
    let this: Allocated<OwnCount> = OwnCount::alloc();
    // SAFETY: `init` of the root class.
    let object: Retained<OwnCount> = unsafe { msg_send![super(this.set_ivars(())), init] };
    let other = object.clone();
    autoreleasepool(|_| {
        let _ = Retained::autorelease_ptr(other);
    });
    drop(object);
    assert_eq!((RETAINS.load(Ordering::Relaxed), RELEASES.load(Ordering::Relaxed)), (1, 2));
}

#[test]
fn what_is_associated_with_an_object_goes_with_it() {
    let (object, value, key) = (NSObject::new(), NSObject::new(), 0_u8);
    let key: *const c_void = ptr::from_ref(&key).cast();
    let pointers =
        || (Retained::as_ptr(&object).cast_mut().cast::<AnyObject>(), Retained::as_ptr(&value).cast_mut().cast());
    let (owner, held) = pointers();
    // SAFETY: both are objects.
    unsafe { ffi::objc_setAssociatedObject(owner, key, held, ffi::OBJC_ASSOCIATION_RETAIN) };
    assert_eq!(live::references(&value), 2);
    // SAFETY: an object.
    assert_eq!(unsafe { ffi::objc_getAssociatedObject(owner, key) }, held.cast_const());
    drop(object);
    assert_eq!(live::references(&value), 1);
}

#[test]
fn more_objects_than_the_quarantine_holds_are_freed() {
    for _ in 0..=crate::runtime::QUARANTINE {
        drop(NSObject::new());
    }
    let object = NSObject::new();
    assert_eq!(live::references(&object), 1);
}

#[test]
fn foundation_s_methods_have_the_encodings_of_their_interface() {
    let string = NSString::class();
    string.verify_sel::<(), usize>(sel!(length)).unwrap();
    string.verify_sel::<(*const c_void, usize, i32), *mut AnyObject>(sel!(initWithBytes:length:encoding:)).unwrap();
    string.verify_sel::<(i32,), usize>(sel!(lengthOfBytesUsingEncoding:)).unwrap();
    string.verify_sel::<(*const AnyObject,), Bool>(sel!(isEqual:)).unwrap();
    string.verify_sel::<(*mut NSZone,), *mut AnyObject>(sel!(copyWithZone:)).unwrap();
    let array = <NSArray as ClassType>::class();
    array.verify_sel::<(*mut *mut AnyObject, usize), *mut AnyObject>(sel!(initWithObjects:count:)).unwrap();
    array.verify_sel::<(usize,), *mut AnyObject>(sel!(objectAtIndex:)).unwrap();
    array.verify_sel::<(*mut *mut AnyObject, NSRange), ()>(sel!(getObjects:range:)).unwrap();
    type Enumeration<'a> = (&'a NSFastEnumerationState, *mut *mut AnyObject, usize);
    array.verify_sel::<Enumeration<'_>, usize>(sel!(countByEnumeratingWithState:objects:count:)).unwrap();
    let process = NSProcessInfo::class();
    process.verify_sel::<(), NSOperatingSystemVersion>(sel!(operatingSystemVersion)).unwrap();
    process.verify_sel::<(NSOperatingSystemVersion,), Bool>(sel!(isOperatingSystemAtLeastVersion:)).unwrap();
    let root = NSObject::class();
    root.verify_sel::<(*const AnyClass,), Bool>(sel!(isKindOfClass:)).unwrap();
    root.verify_sel::<(Sel,), Bool>(sel!(respondsToSelector:)).unwrap();
    root.metaclass().verify_sel::<(), *mut AnyObject>(sel!(alloc)).unwrap();
    root.verify_sel::<(), u32>(sel!(length)).unwrap_err();
    let text: Retained<NSString> = NSString::from_str("x").retain();
    assert!(text.isKindOfClass(string));
}

#[test]
fn a_weak_place_is_null_once_its_object_is_gone() {
    let object = NSObject::new();
    let mut place: *mut AnyObject = ptr::null_mut();
    // SAFETY: the place is weak from here on, until it is destroyed below.
    unsafe { ffi::objc_initWeak(&raw mut place, Retained::as_ptr(&object).cast_mut().cast()) };
    assert!(ptr::eq(place, Retained::as_ptr(&object).cast()));
    drop(object);
    assert!(place.is_null());
    // SAFETY: a weak place.
    unsafe { ffi::objc_destroyWeak(&raw mut place) };
}

#[test]
fn a_class_that_has_instances_gains_no_variables() {
    let class = ClassBuilder::new(c"RigTestWhole", NSObject::class()).unwrap().register();
    let class = ptr::from_ref(class).cast_mut();
    // SAFETY: a class and C strings.
    let added = unsafe { ffi::class_addIvar(class, c"late".as_ptr(), 8, 3, c"Q".as_ptr()) };
    assert!(!added.as_bool());
}
