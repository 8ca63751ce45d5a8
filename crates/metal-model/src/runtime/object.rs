//! Objects: how they are made, counted, freed, and kept from being used when they are freed.
//!
//! Before each object stands a [`Header`]. The count of references in it is the object's life: it begins at one; the
//! release of the last sets [`DYING`], sends `dealloc`, and `dealloc` of the root class ends in [`Object::dispose`].
//!
//! A freed object is not given back at once. Its class becomes one that answers no selector ([`Class::of_freed`]), its
//! variables are overwritten, and it waits in a ring until [`QUARANTINE`] others have been freed. So a late message, retain or release
//! finds a header that tells what the object was.
//!
//! Threads: the count is atomic. The last release synchronizes with all before it, as an `Arc` does.

use std::{
    alloc::{self, Layout},
    ffi::CStr,
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
};

use objc2::runtime::AnyObject;

use super::{
    block,
    class::{BLOCK, CONSTANT, Class, META, OWN_COUNT, SPECIAL},
    misuse,
};
use crate::live;

/// Freed objects whose memory is kept.
pub const QUARANTINE: usize = 1 << 15;

/// Set while `dealloc` runs.
const DYING: usize = 1 << 63;
/// Some weak reference was made.
pub(crate) const WEAK: usize = 1 << 62;
/// Something is associated with it.
pub(crate) const ASSOCIATED: usize = 1 << 61;
/// The bits of the count itself.
const COUNT: usize = ASSOCIATED - 1;

/// What freed memory is overwritten with.
const FREED: u8 = 0xdb;

/// What stands before an object.
#[repr(C, align(16))]
pub(crate) struct Header {
    /// The count, with the bits above it. Zero when the object is freed.
    references: AtomicUsize,
    /// Who counts it, an `Arc` in raw form.
    tag: AtomicPtr<live::Counts>,
    /// Bytes of the whole, the header included.
    bytes: usize,
}

const HEADER: usize = size_of::<Header>();

/// A pointer to an object of this runtime: one that lives, or that is in quarantine.
///
/// The C functions receive it from callers who promise that much. A pointer to anything else is beyond detection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Object(NonNull<AnyObject>);

// SAFETY: the pointer is only a name; whoever uses the object across threads answers for it, as with every object.
unsafe impl Send for Object {}

/// Freed objects, oldest overwritten first.
static RING: [AtomicPtr<u8>; QUARANTINE] = [const { AtomicPtr::new(ptr::null_mut()) }; QUARANTINE];
static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Object {
    /// The object that a reference is to.
    pub(crate) fn of(object: &AnyObject) -> Object {
        Object(NonNull::from(object))
    }

    pub(crate) fn class_object(class: &'static Class) -> Object {
        Object(NonNull::from(class).cast())
    }

    pub(crate) fn pointer(self) -> *mut AnyObject {
        self.0.as_ptr()
    }

    pub(crate) fn address(self) -> usize {
        self.0.addr().get()
    }

    fn isa(self) -> &'static AtomicPtr<Class> {
        // SAFETY: `Object`: every object begins with the pointer to its class.
        unsafe { self.0.cast::<AtomicPtr<Class>>().as_ref() }
    }

    /// Its class. A freed object's is the zombies'.
    #[inline(always)]
    pub(crate) fn class(self) -> &'static Class {
        // SAFETY: the pointer is to a class (invariant 1 of the runtime: for ever).
        unsafe { &*self.isa().load(Ordering::Relaxed) }
    }

    pub(crate) fn set_class(self, class: &'static Class) -> &'static Class {
        let old = self.class();
        self.isa().store(ptr::from_ref(class).cast_mut(), Ordering::Relaxed);
        old
    }

    /// The class that this object is, if it is one.
    pub(crate) fn as_class(self) -> Option<&'static Class> {
        // SAFETY: an object whose class is the class of a class is a class.
        self.class().is_meta().then(|| unsafe { self.0.cast::<Class>().as_ref() })
    }

    /// The class it had, if it has been freed.
    pub(crate) fn freed(self) -> Option<&'static Class> {
        self.class().before_freed()
    }

    fn header(self) -> &'static Header {
        let header = self.0.as_ptr().cast::<Header>().wrapping_sub(1);
        // SAFETY: invariant 2 of the runtime; callers have looked at the class's flags, and zombies have one too.
        unsafe { &*header }
    }

    /// A new object with one reference, its variables zero.
    pub(crate) fn create(class: &'static Class, extra: usize) -> Object {
        class.realize();
        let bytes = HEADER + class.size.load(Ordering::Relaxed) + extra;
        let layout = Layout::from_size_align(bytes, align_of::<Header>()).expect("an instance is smaller than memory");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        let Some(header) = NonNull::new(memory.cast::<Header>()) else { alloc::handle_alloc_error(layout) };
        let new = Header { references: AtomicUsize::new(1), tag: AtomicPtr::new(ptr::null_mut()), bytes };
        // SAFETY: the memory is new, and large and aligned enough.
        unsafe { header.write(new) };
        // SAFETY: the object follows the header in the same allocation.
        let object = Object(unsafe { header.add(1) }.cast());
        object.isa().store(ptr::from_ref(class).cast_mut(), Ordering::Relaxed);
        class.live.fetch_add(1, Ordering::Relaxed);
        object
    }

    /// How many references it has.
    pub(crate) fn references(self) -> usize {
        if self.class().flagged(SPECIAL & !OWN_COUNT) {
            return usize::MAX;
        }
        self.header().references.load(Ordering::Relaxed) & COUNT
    }

    /// Adds a reference.
    #[inline]
    pub(crate) fn retain(self) -> Object {
        if self.class().flagged(META | BLOCK | CONSTANT) {
            return self.retain_special();
        }
        // A new reference is made from one that its owner holds, so nothing needs to be ordered by it.
        let before = self.header().references.fetch_add(1, Ordering::Relaxed);
        if before & !(WEAK | ASSOCIATED) == 0 {
            self.used_after_free("retain");
        }
        self
    }

    fn retain_special(self) -> Object {
        if self.class().flagged(BLOCK) {
            let copy = block::copy(self.0.cast());
            return Object(copy.cast());
        }
        self
    }

    /// Adds a reference, unless the object is being freed or has been.
    pub(crate) fn try_retain(self) -> bool {
        let next = |now: usize| (now & DYING == 0 && now & COUNT != 0).then_some(now + 1);
        self.header().references.fetch_update(Ordering::Acquire, Ordering::Relaxed, next).is_ok()
    }

    /// Gives a reference back; the last one frees the object.
    #[inline]
    pub(crate) fn release(self) {
        if self.class().flagged(META | BLOCK | CONSTANT) {
            if self.class().flagged(BLOCK) {
                block::release(self.0.cast());
            }
            return;
        }
        // ORDERING: Release, and the Acquire below: what every holder did to the object happens before it is freed.
        let before = self.header().references.fetch_sub(1, Ordering::Release);
        if before & COUNT == 1 && before & DYING == 0 {
            self.header().references.fetch_or(DYING, Ordering::Acquire);
            super::message::dealloc(self);
        } else if before & COUNT == 0 {
            self.used_after_free("release");
        }
    }

    #[cold]
    fn used_after_free(self, what: &str) -> ! {
        match self.freed() {
            Some(class) => misuse(format_args!("{what} of a freed {} at {:p}", class.title(), self.0)),
            None => {
                misuse(format_args!("{what} of a {} at {:p} that has no reference left", self.class().title(), self.0))
            }
        }
    }

    /// Marks the header with a bit of what else is known of the object.
    pub(crate) fn mark(self, bit: usize) {
        self.header().references.fetch_or(bit, Ordering::Relaxed);
    }

    /// Whether a header could be marked.
    pub(crate) fn has_header(self) -> bool {
        !self.class().flagged(META | BLOCK | CONSTANT)
    }

    /// Counts the object under a tag.
    pub(crate) fn tag(self, tag: Arc<live::Counts>) {
        assert!(self.has_header(), "a {} bears no tag", self.class().title());
        tag.add(self.class(), 1);
        let tag = Arc::into_raw(tag).cast_mut();
        let before = self.header().tag.swap(tag, Ordering::AcqRel);
        assert!(before.is_null(), "the {} bears a tag already", self.class().title());
    }

    /// The end of `dealloc`: the object is gone.
    pub(crate) fn dispose(self) {
        let class = self.class();
        if let Some(class) = self.freed() {
            misuse(format_args!("second dealloc of a {} at {:p}", class.title(), self.0));
        }
        let header = self.header();
        let state = header.references.load(Ordering::Relaxed);
        if state & (WEAK | ASSOCIATED) != 0 {
            super::weak::forget(self);
        }
        let tag = header.tag.swap(ptr::null_mut(), Ordering::AcqRel);
        if !tag.is_null() {
            // SAFETY: `tag` stored what `into_raw` gave, and the swap took it.
            unsafe { Arc::from_raw(tag) }.add(class, -1);
        }
        class.live.fetch_sub(1, Ordering::Relaxed);
        let isa = size_of::<*const Class>();
        let variables = self.0.as_ptr().cast::<u8>().wrapping_add(isa);
        // SAFETY: the variables follow the class pointer, up to the end of the allocation.
        unsafe { variables.write_bytes(FREED, header.bytes - HEADER - isa) };
        self.set_class(class.of_freed());
        header.references.store(0, Ordering::Release);
        self.quarantine();
    }

    fn quarantine(self) {
        let place = NEXT.fetch_add(1, Ordering::Relaxed) % QUARANTINE;
        let base = ptr::from_ref(self.header()).cast_mut().cast::<u8>();
        let oldest = RING[place].swap(base, Ordering::AcqRel);
        let Some(oldest) = NonNull::new(oldest) else { return };
        // SAFETY: the ring holds the bases of disposed objects, each once; the swap took it out.
        let bytes = unsafe { oldest.cast::<Header>().as_ref() }.bytes;
        let layout = Layout::from_size_align(bytes, align_of::<Header>()).expect("`create` made it");
        // SAFETY: `create` allocated it with this layout.
        unsafe { alloc::dealloc(oldest.as_ptr(), layout) };
    }

    /// `-[Class selector]` of a message to it, for people.
    pub(crate) fn title(self, selector: &CStr) -> String {
        let (sign, class) = self.as_class().map_or(('-', self.class()), |class| ('+', class));
        format!("{sign}[{} {}]", class.title(), selector.to_string_lossy())
    }
}
