//! What many threads do at once. These are the tests to run under ThreadSanitizer.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use objc2::{
    ClassType, Message, ffi, msg_send,
    rc::{Retained, Weak, autoreleasepool},
    runtime::{ClassBuilder, Imp, MessageReceiver, NSObject, Sel},
    sel,
};
use objc2_foundation::{NSArray, NSDictionary, NSError, NSMutableArray, NSString};

use super::{Counter, misuse::in_a_child};
use crate::live::{self, Snapshot, Tag};

const THREADS: usize = 8;

/// An object that is used from many threads.
struct Shared(Retained<NSObject>);
// SAFETY: the tests' objects may be used from any thread.
unsafe impl Send for Shared {}

/// Runs the action on eight threads that begin together.
fn together(action: impl Fn(usize) + Send + Sync + 'static) {
    let (action, barrier) = (Arc::new(action), Arc::new(Barrier::new(THREADS)));
    let run = |number| {
        let (action, barrier) = (Arc::clone(&action), Arc::clone(&barrier));
        thread::spawn(move || {
            barrier.wait();
            action(number);
        })
    };
    let threads: Vec<_> = (0..THREADS).map(run).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn eight_threads_that_share_objects_end_with_none() {
    let tag = Tag::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    let shared = NSObject::new();
    tag.mark(&shared);
    let (own_tag, own_dropped) = (tag.clone(), Arc::clone(&dropped));
    let handed: Vec<_> = (0..THREADS).map(|_| std::sync::Mutex::new(Some(Shared(shared.clone())))).collect();
    together(move |number| {
        let shared = handed[number].lock().unwrap().take().unwrap();
        for round in 0..500 {
            autoreleasepool(|_| {
                let counter = Counter::new(&own_dropped);
                own_tag.mark(&counter);
                let more = u32::try_from(round + number).unwrap();
                assert_eq!(counter.sum(more), more);
                let again = shared.0.clone();
                assert_eq!(again, shared.0);
                let _ = Retained::autorelease_ptr(counter);
            });
        }
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 500 * THREADS);
    assert_eq!(tag.total(), 1);
    drop(shared);
    tag.assert_gone();
}

#[test]
fn classes_that_eight_threads_use_first_are_built_once() {
    in_a_child("threads::classes_that_eight_threads_use_first_are_built_once", || {
        together(|number| {
            let text = NSString::from_str("text");
            let array = NSArray::from_retained_slice(std::slice::from_ref(&text));
            let error = NSError::new(isize::try_from(number).unwrap(), &text);
            let dictionary = NSDictionary::from_slices(&[&*text], &[&*error]);
            assert_eq!((array.count(), dictionary.count()), (1, 1));
            assert_eq!(NSMutableArray::<NSString>::new().count(), 0);
        });
    });
}

#[test]
fn a_name_is_one_selector_for_every_thread() {
    let found = Arc::new(std::sync::Mutex::new(Vec::new()));
    let all = Arc::clone(&found);
    together(move |_| {
        let mine: Vec<_> = (0..600)
            .map(|number| Sel::register(&std::ffi::CString::new(format!("rigTest{number}")).unwrap()))
            .collect();
        all.lock().unwrap().push(mine);
    });
    let found = found.lock().unwrap();
    assert!(found.iter().all(|selectors| selectors == &found[0]));
    assert_eq!(
        found[0].iter().map(|selector| format!("{selector:p}")).collect::<std::collections::BTreeSet<_>>().len(),
        600
    );
}

extern "C-unwind" fn one(_: &NSObject, _: Sel) -> usize {
    1
}

extern "C-unwind" fn two(_: &NSObject, _: Sel) -> usize {
    2
}

#[test]
fn caches_grow_and_are_emptied_under_their_readers() {
    type Function = extern "C-unwind" fn(&'static NSObject, Sel) -> usize;
    let mut builder = ClassBuilder::new(c"RigTestManyMethods", NSObject::class()).unwrap();
    let selectors: Vec<_> =
        (0..200).map(|number| Sel::register(&std::ffi::CString::new(format!("rigMany{number}")).unwrap())).collect();
    for selector in &selectors {
        // SAFETY: the function has this type.
        unsafe { builder.add_method(*selector, one as Function) };
    }
    let class = builder.register();
    let changing = class.instance_method(selectors[7]).unwrap();
    together(move |number| {
        // SAFETY: every class has this method of the root class.
        let object: Retained<NSObject> = unsafe { msg_send![class, new] };
        for round in 0..20 {
            if number == 0 {
                let other: Function = if round % 2 == 0 { two } else { one };
                // SAFETY: one function's pointer for another's; it is sent with its own type.
                let other = unsafe { std::mem::transmute::<Function, Imp>(other) };
                // SAFETY: the function has the method's type.
                unsafe { changing.set_implementation(other) };
            }
            for (place, selector) in selectors.iter().enumerate() {
                // SAFETY: the class has this method, with this type.
                let answer: usize = unsafe { object.send_message(*selector, ()) };
                assert!(answer == 1 || (place == 7 && answer == 2), "{selector} answered {answer}");
            }
        }
    });
}

#[test]
fn a_weak_reference_gives_the_whole_object_or_none_while_it_is_freed() {
    for _ in 0..50 {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counter = Counter::new(&dropped);
        let weak: Vec<_> = (0..THREADS).map(|_| Weak::from_retained(&counter)).collect();
        struct Sent(Vec<Weak<Counter>>, std::sync::Mutex<Option<Retained<Counter>>>);
        // SAFETY: the counter is added to by one thread at a time, through the lock.
        unsafe impl Send for Sent {}
        // SAFETY: as above.
        unsafe impl Sync for Sent {}
        let sent = Sent(weak, std::sync::Mutex::new(Some(counter)));
        let gone = AtomicBool::new(false);
        together(move |number| {
            let sent = &sent;
            if number == 0 {
                drop(sent.1.lock().unwrap().take());
                gone.store(true, Ordering::Release);
            }
            while let Some(counter) = sent.0[number].load() {
                assert!(counter.retain().class().responds_to(sel!(add:)));
                if gone.load(Ordering::Acquire) && number == 0 {
                    break;
                }
            }
        });
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn a_pool_that_does_not_end_before_its_thread_leaks_what_it_holds() {
    in_a_child("threads::a_pool_that_does_not_end_before_its_thread_leaks_what_it_holds", || {
        let leaving = thread::spawn(|| {
            // SAFETY: the pool does not end: that is what is tested.
            unsafe { ffi::objc_autoreleasePoolPush() };
            Retained::autorelease_ptr(NSObject::new()).expose_provenance()
        });
        let leaked: *mut NSObject = std::ptr::with_exposed_provenance_mut(leaving.join().unwrap());
        assert_eq!(live::unpooled(), 1);
        assert_eq!(live::objects(), [("NSObject".to_owned(), 1)].into());
        // SAFETY: the leaked reference is this test's, and ends here.
        drop(unsafe { Retained::from_raw(leaked) });
    });
}

#[test]
fn a_snapshot_tells_what_has_come_since() {
    in_a_child("threads::a_snapshot_tells_what_has_come_since", || {
        let _warm = (NSObject::new(), NSString::from_str("x"), block2::RcBlock::new(|| {}));
        let before = Snapshot::take();
        let kept = (NSObject::new(), NSString::from_str("y"));
        let block = block2::RcBlock::new(|| {});
        let leaked = Retained::autorelease_ptr(NSObject::new());
        let change = before.since();
        let expected = [("NSObject", 2), ("NSString", 1), ("(blocks)", 1), ("(autoreleased without a pool)", 1)];
        assert_eq!(change, expected.map(|(name, count)| (name.to_owned(), count)).into());
        drop((kept, block));
        assert_eq!(before.since().len(), 2, "the leaked object, and that it leaked");
        // SAFETY: the leaked reference is this test's, and ends here.
        drop(unsafe { Retained::from_raw(leaked) });
        assert_eq!(before.since().len(), 1, "that it leaked");
    });
}
