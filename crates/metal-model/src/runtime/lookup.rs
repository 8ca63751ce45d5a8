//! From a class and a selector to a method: the cache, and the walk when it misses.
//!
//! Threads: reading takes no lock. An entry's method and implementation are written before its selector is stored with
//! Release, and never again; a reader that loads the selector with Acquire therefore sees them whole. A full or outdated
//! cache is replaced by a new one and kept, since readers may be in it. Writers hold [`WRITERS`], so a walk that began
//! before a method changed cannot be stored after [`forget_all`].

use std::{
    ptr,
    sync::{
        Mutex,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
};

use objc2::runtime::Imp;

use super::{
    class::{self, Class, Method, locked},
    misuse,
    selector::{Name, Selector},
};

/// Places of the first cache of a class.
const FIRST: usize = 16;

/// The head of a cache; `mask + 1` entries follow it in memory.
#[repr(C, align(32))]
pub(crate) struct Cache {
    mask: usize,
    used: AtomicUsize,
}

#[repr(C, align(32))]
struct Entry {
    selector: AtomicPtr<Name>,
    implementation: AtomicPtr<()>,
    method: AtomicPtr<Method>,
}

impl Entry {
    const fn free() -> Entry {
        Entry {
            selector: AtomicPtr::new(ptr::null_mut()),
            implementation: AtomicPtr::new(ptr::null_mut()),
            method: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// The cache of a class that was never sent a message: one place, always free.
#[repr(C)]
struct Empty(Cache, Entry);

static EMPTY: Empty = Empty(Cache { mask: 0, used: AtomicUsize::new(0) }, Entry::free());

/// Held while caches change. What it holds are the caches that were replaced.
static WRITERS: Mutex<Vec<Retired>> = Mutex::new(Vec::new());

/// A cache that was replaced. Never freed: a reader may be in it.
struct Retired(#[expect(dead_code, reason = "held so that the memory is reachable, never read")] *const Cache);

// SAFETY: it is not read.
unsafe impl Send for Retired {}

impl Cache {
    /// The cache that has no entry.
    pub(crate) const fn empty() -> *mut Cache {
        ptr::addr_of!(EMPTY).cast::<Cache>().cast_mut()
    }

    /// A cache with so many free places, a power of two.
    fn new(places: usize) -> *mut Cache {
        debug_assert!(places.is_power_of_two(), "the mask needs a power of two");
        let mut memory: Vec<Entry> = (0..=places).map(|_| Entry::free()).collect();
        let head = memory.as_mut_ptr().cast::<Cache>();
        std::mem::forget(memory);
        // SAFETY: the first entry's place has the size and alignment of a head.
        unsafe { head.write(Cache { mask: places - 1, used: AtomicUsize::new(0) }) };
        head
    }

    /// The entry of this selector, or the free place where it would stand.
    #[inline(always)]
    fn place(cache: *const Cache, selector: Selector) -> &'static Entry {
        // SAFETY: a cache comes from `empty` or `new` and is never freed.
        let mask = unsafe { (*cache).mask };
        // The entries follow the head, which has an entry's size.
        let entries = cache.wrapping_add(1).cast::<Entry>();
        let mut at = (selector.address() >> 4) & mask;
        loop {
            // SAFETY: `at` is at most `mask`, and there are `mask + 1` entries.
            let entry = unsafe { &*entries.wrapping_add(at) };
            // ORDERING: Acquire pairs with the Release in `store`: the rest of the entry is seen whole.
            let found = entry.selector.load(Ordering::Acquire);
            if ptr::eq(found, selector.0) || found.is_null() {
                return entry;
            }
            at = (at + 1) & mask;
        }
    }
}

/// How the class answers the selector, if the cache knows. The hot path of every message.
#[inline(always)]
pub(crate) fn cached(class: &Class, selector: Selector) -> Option<Imp> {
    // ORDERING: Acquire pairs with the Release in `store` and `forget_all`: the cache's head and entries are seen whole.
    let entry = Cache::place(class.cache.load(Ordering::Acquire), selector);
    if entry.selector.load(Ordering::Relaxed).is_null() {
        return None;
    }
    // SAFETY: an entry with a selector has the `Imp` that `store` wrote.
    Some(unsafe { std::mem::transmute::<*mut (), Imp>(entry.implementation.load(Ordering::Relaxed)) })
}

/// The method with which instances of the class answer the selector. For freed objects the process ends here.
pub(crate) fn method(class: &'static Class, selector: Selector) -> Option<&'static Method> {
    let entry = Cache::place(class.cache.load(Ordering::Acquire), selector);
    if !entry.selector.load(Ordering::Relaxed).is_null() {
        // SAFETY: an entry with a selector has the method that `store` wrote, and methods live for ever.
        return Some(unsafe { &*entry.method.load(Ordering::Relaxed) });
    }
    if let Some(before) = class.before_freed() {
        misuse(format_args!("message to a freed object: -[{} {selector}]", before.title()));
    }
    class.realize();
    let mut retired = locked(&WRITERS);
    let found = class.chain().find_map(|class| class.own_method(selector))?;
    // A class that a program still builds may gain methods without notice: nothing of it is remembered.
    if class.is_realized() {
        store(class, selector, found, &mut retired);
    }
    Some(found)
}

/// Remembers the method. The caller holds the writers' lock.
fn store(class: &Class, selector: Selector, method: &'static Method, retired: &mut Vec<Retired>) {
    let mut cache = class.cache.load(Ordering::Acquire);
    // SAFETY: a cache is never freed.
    let head = unsafe { &*cache };
    let (places, used) = (head.mask + 1, head.used.load(Ordering::Relaxed));
    // A quarter stays free, so that a search ends soon; the empty cache keeps its one place free.
    if (used + 1) * 4 > places * 3 {
        let larger = Cache::new(if places == 1 { FIRST } else { places * 2 });
        for entry in entries(cache) {
            let known = entry.selector.load(Ordering::Relaxed);
            if !known.is_null() {
                // SAFETY: a stored selector is a unique name, which lives for ever.
                let known = Selector(unsafe { &*known });
                // SAFETY: an entry with a selector has a method, which lives for ever.
                write(larger, known, unsafe { &*entry.method.load(Ordering::Relaxed) });
            }
        }
        class.cache.store(larger, Ordering::Release);
        retired.push(Retired(cache));
        cache = larger;
    }
    write(cache, selector, method);
}

fn write(cache: *mut Cache, selector: Selector, method: &'static Method) {
    let entry = Cache::place(cache, selector);
    if !entry.selector.load(Ordering::Relaxed).is_null() {
        return;
    }
    entry.implementation.store(method.implementation() as *mut (), Ordering::Relaxed);
    entry.method.store(ptr::from_ref(method).cast_mut(), Ordering::Relaxed);
    entry.selector.store(ptr::from_ref(selector.0).cast_mut(), Ordering::Release);
    // SAFETY: a cache is never freed.
    unsafe { (*cache).used.fetch_add(1, Ordering::Relaxed) };
}

fn entries(cache: *const Cache) -> &'static [Entry] {
    // SAFETY: a cache is never freed.
    let places = unsafe { (*cache).mask + 1 };
    // The entries follow the head, which has an entry's size.
    let first = cache.wrapping_add(1).cast::<Entry>();
    // SAFETY: there are `mask + 1` entries, all written when the cache was made; they change through atomics alone.
    unsafe { std::slice::from_raw_parts(first, places) }
}

/// Empties every cache: a method has changed.
pub(crate) fn forget_all() {
    let classes = class::all();
    let mut retired = locked(&WRITERS);
    for class in classes.into_iter().flat_map(|class| [class, class.isa()]) {
        let old = class.cache.swap(Cache::empty(), Ordering::AcqRel);
        if !ptr::eq(old, Cache::empty()) {
            retired.push(Retired(old));
        }
    }
}
