//! What the runtime promises to the crates above it.

mod classes;
mod foundation;
mod misuse;
mod threads;

use std::{
    cell::Cell,
    panic::AssertUnwindSafe,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use block2::{RcBlock, StackBlock};
use dispatch2::DispatchData;
use objc2::{
    AllocAnyThread, ClassType, DefinedClass, Message, define_class, msg_send,
    rc::{Allocated, Retained, Weak, autoreleasepool},
    runtime::{AnyClass, AnyObject, NSObject, NSObjectProtocol},
    sel,
};
use objc2_foundation::{NSCopying, NSException, NSString};

use super::exception;
use crate::live::{self, Tag};

/// Counts itself among the dropped when its variables are dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct State {
    value: Cell<u32>,
    _dropped: Option<Dropped>,
}

define_class!(
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "RigTestCounter"]
    #[ivars = State]
    struct Counter;

    unsafe impl NSObjectProtocol for Counter {}

    impl Counter {
        #[unsafe(method_id(init))]
        fn init(this: Allocated<Self>) -> Retained<Self> {
            let this = this.set_ivars(State { value: Cell::new(0), _dropped: None });
            // SAFETY: `init` of the root class.
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(add:))]
        fn add(&self, more: u32) -> u32 {
            self.ivars().value.set(self.ivars().value.get() + more);
            self.ivars().value.get()
        }

        #[unsafe(method(fail))]
        fn fail(&self) {
            panic!("the method's own panic");
        }

        #[unsafe(method(seven))]
        fn seven() -> u32 {
            7
        }

        #[unsafe(method_id(twin))]
        fn twin(&self) -> Retained<Self> {
            self.retain()
        }
    }
);

define_class!(
    // SAFETY: the class above may be subclassed; the class has no `Drop`.
    #[unsafe(super(Counter, NSObject))]
    #[name = "RigTestDoubler"]
    #[ivars = Cell<u32>]
    struct Doubler;

    impl Doubler {
        #[unsafe(method_id(init))]
        fn init(this: Allocated<Self>) -> Retained<Self> {
            let this = this.set_ivars(Cell::new(5));
            // SAFETY: `init` of the class above.
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(add:))]
        fn add(&self, more: u32) -> u32 {
            // SAFETY: the class above has this method.
            unsafe { msg_send![super(self), add: 2 * more + self.ivars().get()] }
        }
    }
);

impl Counter {
    /// What the sum is after adding `more`.
    fn sum(&self, more: u32) -> u32 {
        // SAFETY: the class has this method, with these types.
        unsafe { msg_send![self, add: more] }
    }

    fn new(dropped: &Arc<AtomicUsize>) -> Retained<Counter> {
        let this: Allocated<Counter> = Counter::alloc();
        let this = this.set_ivars(State { value: Cell::new(0), _dropped: Some(Dropped(Arc::clone(dropped))) });
        // SAFETY: `init` of the root class.
        unsafe { msg_send![super(this), init] }
    }
}

#[test]
fn a_defined_class_answers_messages_and_its_variables_are_dropped_with_it() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let counter = Counter::new(&dropped);
    // SAFETY: the class has this method, with this type.
    let seven: u32 = unsafe { msg_send![Counter::class(), seven] };
    let (one, three) = (counter.sum(1), counter.sum(2));
    assert_eq!((one, three, seven), (1, 3, 7));
    let other = counter.clone();
    assert_eq!(live::references(&other), 2);
    drop(counter);
    assert_eq!(dropped.load(Ordering::Relaxed), 0, "a reference is left");
    drop(other);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn a_class_below_calls_the_one_above_and_the_root_class_tells_them_apart() {
    autoreleasepool(|_| {
        let cls = Doubler::class();
        assert!(ptr::eq(cls.superclass().unwrap(), Counter::class()));
        // SAFETY: the class has this method, and `init` makes it whole.
        let doubler: Retained<Doubler> = unsafe { msg_send![cls, new] };
        let (one, two) = (doubler.sum(1), doubler.sum(2));
        assert_eq!((one, two), (7, 16));
        assert!(cls.responds_to(sel!(add:)) && cls.responds_to(sel!(twin)) && !cls.responds_to(sel!(subtract:)));
        let object = NSObject::new();
        assert!(object.isKindOfClass(NSObject::class()) && !object.isKindOfClass(cls));
        assert!(object.isEqual(Some(&object)) && !object.isEqual(Some(&NSObject::new())));
        assert!(format!("{object:?}").starts_with("<NSObject: 0x"), "{object:?}");
        assert!(AnyClass::get(c"RigTestDoubler").is_some() && AnyClass::get(c"RigNoSuchClass").is_none());
    });
}

#[test]
fn an_autoreleased_object_lives_until_its_pool_ends() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let early = Arc::new(AtomicUsize::new(0));
    autoreleasepool(|_| {
        let _ = Retained::autorelease_ptr(Counter::new(&early));
        autoreleasepool(|pool| {
            let counter = Counter::new(&dropped);
            // SAFETY: the reference does not leave the pool.
            let _ = unsafe { Retained::autorelease(counter, pool) };
            assert_eq!(dropped.load(Ordering::Relaxed), 0);
        });
        assert_eq!(early.load(Ordering::Relaxed), 0, "the outer pool has not ended");
        assert_eq!(dropped.load(Ordering::Relaxed), 1, "the inner pool has ended");
        let counter = Counter::new(&dropped);
        // SAFETY: the class has this method. It autoreleases what it returns.
        let twin: Retained<Counter> = unsafe { msg_send![&counter, twin] };
        drop((twin, counter));
        assert_eq!(dropped.load(Ordering::Relaxed), 1, "the pool holds what the method returned");
    });
    assert_eq!((dropped.load(Ordering::Relaxed), early.load(Ordering::Relaxed)), (2, 1));
}

#[test]
fn autorelease_without_a_pool_is_counted_and_leaks() {
    let before = live::unpooled();
    let dropped = Arc::new(AtomicUsize::new(0));
    let counter = Counter::new(&dropped);
    let pointer = Retained::autorelease_ptr(counter);
    assert!(live::unpooled() > before);
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    // SAFETY: the leaked reference is this test's, and ends here.
    drop(unsafe { Retained::from_raw(pointer) });
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn strings_keep_their_text() {
    for text in ["", "plain", "a\0b", "größer 🦀"] {
        let string = NSString::from_str(text);
        assert_eq!(string.to_string(), text);
        assert_eq!(string.len(), text.len());
        assert_eq!(string.len_utf16(), text.encode_utf16().count());
        assert_eq!(string, NSString::from_str(text));
        assert_eq!(NSObjectProtocol::hash(&*string), NSObjectProtocol::hash(&*NSString::from_str(text)));
        assert_eq!(*string.copy(), *string);
    }
    assert_ne!(NSString::from_str("a"), NSString::from_str("b"));
}

#[test]
fn a_block_is_called_from_another_thread_and_freed_once() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let sum = Arc::new(AtomicUsize::new(0));
    let held = Dropped(Arc::clone(&dropped));
    let total = Arc::clone(&sum);
    let block = RcBlock::new(move |more: usize| {
        let _ = &held;
        total.fetch_add(more, Ordering::Relaxed);
    });
    struct Sent(RcBlock<dyn Fn(usize)>);
    // SAFETY: what the closure holds may be used from any thread.
    unsafe impl Send for Sent {}
    let threads: Vec<_> = (1..=4)
        .map(|more| {
            let sent = Sent(block.clone());
            thread::spawn(move || {
                let sent = sent;
                sent.0.call((more,));
            })
        })
        .collect();
    drop(block);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(sum.load(Ordering::Relaxed), 10);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn a_block_on_the_stack_is_copied_to_the_heap() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let probe = Arc::clone(&dropped);
    let stack = StackBlock::new(move || probe.fetch_add(1, Ordering::Relaxed) as u32);
    let heap = stack.copy();
    drop(stack);
    assert_eq!((heap.call(()), heap.call(())), (0, 1));
    assert_eq!(Arc::strong_count(&dropped), 2, "the heap's closure holds one");
    drop(heap);
    assert_eq!(Arc::strong_count(&dropped), 1);
}

#[test]
fn dispatch_data_gives_its_bytes_and_calls_its_destructor() {
    assert_eq!(DispatchData::from_bytes(b"abc").to_vec(), b"abc");
    assert_eq!(DispatchData::from_static_bytes(b"defg").size(), 4);
    assert_eq!(DispatchData::empty().size(), 0);
    let dropped = Arc::new(AtomicUsize::new(0));
    let held = Dropped(Arc::clone(&dropped));
    let bytes = vec![1_u8, 2, 3];
    let first = ptr::NonNull::from(bytes.as_slice()).cast();
    let called = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&called);
    let destructor = RcBlock::new(move || {
        let _ = (&held, &bytes);
        calls.fetch_add(1, Ordering::Relaxed);
    });
    // SAFETY: the block holds the bytes.
    let data = unsafe { DispatchData::new(first, 3, None, RcBlock::as_ptr(&destructor)) };
    drop(destructor);
    let joined = data.concat(&DispatchData::from_bytes(b"\x04"));
    // SAFETY: both lie inside.
    let part = unsafe { joined.subrange(1, 3) };
    assert_eq!(super::dispatch::bytes(&data), [1, 2, 3]);
    assert_eq!(called.load(Ordering::Relaxed), 0, "a reference is left");
    drop(data);
    let ended = (called.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed));
    assert_eq!(ended, (1, 1), "the last reference is gone");
    drop(joined);
    assert_eq!(part.to_vec(), [2, 3, 4]);
}

#[test]
fn an_exception_is_caught_with_its_name_and_reason_and_a_panic_passes() {
    autoreleasepool(|_| {
        let caught = exception::catch(|| exception::raise("RigName", "the reason")).map(|_: ()| ());
        let caught = NSException::from_exception(caught.unwrap_err().unwrap()).unwrap();
        // SAFETY: an `NSException` has this method.
        let name: Retained<NSString> = unsafe { msg_send![&caught, name] };
        assert_eq!((name.to_string(), caught.reason().unwrap().to_string()), ("RigName".into(), "the reason".into()));
        assert_eq!(exception::catch(|| 5).unwrap(), 5);
        let panic = std::panic::catch_unwind(|| exception::catch(|| panic!("a panic")).map(|_: ()| ()));
        assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"a panic"));
    });
}

#[test]
fn a_panic_in_a_method_reaches_the_sender() {
    let counter = AssertUnwindSafe(Counter::new(&Arc::default()));
    let panic = std::panic::catch_unwind(|| {
        // SAFETY: the class has this method.
        let _: () = unsafe { msg_send![&**counter, fail] };
    });
    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"the method's own panic"));
}

#[test]
fn a_message_that_no_method_answers_throws() {
    autoreleasepool(|_| {
        let object = AssertUnwindSafe(NSObject::new());
        let caught = exception::catch(|| {
            let copied: *mut AnyObject = {
                // SAFETY: it throws, since the class has no `copyWithZone:`.
                unsafe { msg_send![&**object, copy] }
            };
            assert!(copied.is_null());
        });
        let text = caught.unwrap_err().unwrap().to_string();
        let pointer = Retained::as_ptr(&object);
        assert_eq!(text, format!("-[NSObject copyWithZone:]: unrecognized selector sent to instance {pointer:p}"));
    });
}

#[test]
fn a_weak_reference_is_null_when_its_object_is_gone() {
    let object = NSObject::new();
    let weak = Weak::from_retained(&object);
    let other = weak.clone();
    assert!(ptr::eq(&*weak.load().unwrap(), &*object));
    drop(object);
    assert!(weak.load().is_none() && other.load().is_none());
}

#[test]
fn a_tag_counts_its_objects_by_class_until_they_are_gone() {
    let tag = Tag::new();
    let (one, two, other) = (NSObject::new(), NSObject::new(), NSString::from_str("x"));
    tag.mark(&one);
    tag.mark(&two);
    tag.mark(&other);
    assert_eq!((tag.count("NSObject"), tag.count("NSString"), tag.total()), (2, 1, 3));
    drop((one, other));
    assert_eq!((tag.count("NSObject"), tag.total()), (1, 1));
    drop(two);
    tag.assert_gone();
}
