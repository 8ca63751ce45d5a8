//! Dispatch data: bytes that are shared by reference, with what is to happen when the last reference goes.
//!
//! Data is an object of the class `OS_dispatch_data`, so it may be retained, released and counted as every object. It is
//! contiguous always: joining two copies them.
//!
//! Threads: data never changes; its destructor runs on the thread that gives the last reference back.

use std::{
    ffi::c_void,
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicPtr, Ordering},
};

use block2::{Block, DynBlock, RcBlock};
use objc2::{
    AllocAnyThread, ClassType, DefinedClass, define_class, msg_send,
    rc::{Allocated, Retained},
    runtime::{NSObject, NSObjectProtocol},
};

use super::{
    class::{self, Class, export_class},
    misuse,
    object::Object,
    object_calls,
};

export_class!("OS_dispatch_data", || {
    Data::class();
});

/// A function that a program calls with a context.
type Function = extern "C" fn(*mut c_void);

pub(crate) struct State {
    bytes: Bytes,
    context: AtomicPtr<c_void>,
    /// A [`Function`], or null.
    finalizer: AtomicPtr<c_void>,
}

/// Where the bytes are.
enum Bytes {
    Own(Box<[u8]>),
    /// The program's, until the block is called.
    Lent {
        first: NonNull<u8>,
        length: usize,
        destructor: RcBlock<dyn Fn()>,
    },
    /// Part of another.
    Part {
        whole: Retained<Data>,
        offset: usize,
        length: usize,
    },
}

impl Drop for State {
    fn drop(&mut self) {
        if let Bytes::Lent { destructor, .. } = &self.bytes {
            destructor.call(());
        }
        let context = *self.context.get_mut();
        let finalizer = *self.finalizer.get_mut();
        if !finalizer.is_null() && !context.is_null() {
            // SAFETY: `dispatch_set_finalizer_f` stored a function of this type.
            let finalizer = unsafe { std::mem::transmute::<*mut c_void, Function>(finalizer) };
            finalizer(context);
        }
    }
}

define_class!(
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "OS_dispatch_data"]
    #[ivars = State]
    pub(crate) struct Data;

    unsafe impl NSObjectProtocol for Data {}
);

impl Data {
    fn new(bytes: Bytes) -> Retained<Data> {
        let none = || AtomicPtr::new(ptr::null_mut());
        let this: Allocated<Data> = Data::alloc();
        let this = this.set_ivars(State { bytes, context: none(), finalizer: none() });
        // SAFETY: `init` of the root class takes nothing and returns its receiver.
        unsafe { msg_send![super(this), init] }
    }

    /// The data of an interface that takes some; none where it is the empty one.
    fn of(object: Object) -> Option<&'static Data> {
        let is_data = object.class().descends(own());
        // SAFETY: it is an object of this class; the caller holds a reference for as long as the call lasts.
        is_data.then(|| unsafe { &*object.pointer().cast::<Data>() })
    }

    fn bytes(&self) -> &[u8] {
        match &self.ivars().bytes {
            Bytes::Own(bytes) => bytes,
            // SAFETY: the program lent them until the destructor is called, which is when this object is freed.
            Bytes::Lent { first, length, .. } => unsafe { slice::from_raw_parts(first.as_ptr(), *length) },
            Bytes::Part { whole, offset, length } => whole.bytes().get(*offset..*offset + *length).unwrap_or_default(),
        }
    }
}

/// The class of data.
fn own() -> &'static Class {
    // SAFETY: every class is a class of this runtime, and lives for ever.
    unsafe { NonNull::from(Data::class()).cast::<Class>().as_ref() }
}

/// The bytes of a dispatch data object.
pub fn bytes(data: &dispatch2::DispatchData) -> &[u8] {
    contents(Object::of(data.as_ref()))
}

fn contents<'a>(object: Object) -> &'a [u8] {
    Data::of(object).map(Data::bytes).unwrap_or_default()
}

/// The data that has no bytes: a constant.
#[repr(C)]
pub struct Constant {
    isa: &'static Class,
}

static EMPTY_CLASS: Class = Class::headless(c"OS_dispatch_data_empty", &EMPTY_META, class::CONSTANT, define_empty);
static EMPTY_META: Class = Class::meta(c"OS_dispatch_data_empty", &EMPTY_CLASS, define_empty);

#[unsafe(no_mangle)]
static _dispatch_data_empty: Constant = Constant { isa: &EMPTY_CLASS };

fn define_empty() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        class::announce(&EMPTY_CLASS);
        if let Some(builder) = objc2::runtime::ClassBuilder::new(EMPTY_CLASS.name(), NSObject::class()) {
            builder.register();
        }
    });
}

/// The address of a destructor that C's `free` is meant by.
#[repr(transparent)]
pub struct Destructor(*const c_void);
// SAFETY: it is an address that is compared, never read.
unsafe impl Sync for Destructor {}
static FREE: u8 = 0;

#[unsafe(no_mangle)]
static _dispatch_data_destructor_free: Destructor = Destructor((&raw const FREE).cast());

unsafe extern "C" {
    fn free(memory: *mut c_void);
}

/// Data of the bytes: a copy where there is no destructor, else those of the caller until the destructor is called.
///
/// # Safety
/// There are `size` bytes; with a destructor they stay and do not change until it is called.
#[unsafe(no_mangle)]
unsafe extern "C" fn dispatch_data_create(
    first: NonNull<u8>,
    size: usize,
    _queue: *const c_void,
    destructor: *mut DynBlock<dyn Fn()>,
) -> NonNull<c_void> {
    let bytes = if destructor.is_null() {
        // SAFETY: the caller's promise.
        Bytes::Own(unsafe { slice::from_raw_parts(first.as_ptr(), size) }.into())
    } else if destructor.cast_const().cast::<c_void>() == _dispatch_data_destructor_free.0 {
        let memory = first.addr();
        // SAFETY: the caller gives memory of `malloc` away.
        let destructor = RcBlock::new(move || unsafe { free(ptr::with_exposed_provenance_mut(memory.get())) });
        first.as_ptr().expose_provenance();
        Bytes::Lent { first, length: size, destructor }
    } else {
        // SAFETY: the caller has a block.
        let destructor = unsafe { RcBlock::copy(destructor.cast::<Block<dyn Fn()>>()) };
        let destructor = destructor.unwrap_or_else(|| misuse("a destructor that is no block"));
        Bytes::Lent { first, length: size, destructor }
    };
    given(Data::new(bytes))
}

/// A reference for the caller.
fn given(data: Retained<Data>) -> NonNull<c_void> {
    let pointer = NonNull::new(Retained::into_raw(data)).expect("a reference is not null");
    pointer.cast()
}

#[unsafe(no_mangle)]
extern "C" fn dispatch_data_get_size(data: Object) -> usize {
    contents(data).len()
}

/// # Safety
/// The pointers are null or have room for their value.
#[unsafe(no_mangle)]
unsafe extern "C" fn dispatch_data_create_map(data: Object, first: *mut *const u8, size: *mut usize) -> Object {
    let bytes = contents(data);
    if !first.is_null() {
        // SAFETY: the caller's promise.
        unsafe { first.write(bytes.as_ptr()) };
    }
    if !size.is_null() {
        // SAFETY: the caller's promise.
        unsafe { size.write(bytes.len()) };
    }
    object_calls::retain(data)
}

/// # Safety
/// The block takes the data, an offset, a pointer and a size, and answers whether to go on.
#[unsafe(no_mangle)]
unsafe extern "C" fn dispatch_data_apply(
    data: Object,
    block: &Block<dyn Fn(*mut c_void, usize, *const c_void, usize) -> u8>,
) -> bool {
    let bytes = contents(data);
    bytes.is_empty() || block.call((data.pointer().cast(), 0, bytes.as_ptr().cast(), bytes.len())) != 0
}

#[unsafe(no_mangle)]
extern "C" fn dispatch_data_create_concat(one: Object, other: Object) -> NonNull<c_void> {
    given(Data::new(Bytes::Own([contents(one), contents(other)].concat().into())))
}

#[unsafe(no_mangle)]
extern "C" fn dispatch_data_create_subrange(data: Object, offset: usize, length: usize) -> NonNull<c_void> {
    let offset = offset.min(contents(data).len());
    let length = length.min(contents(data).len() - offset);
    let bytes = match Data::of(data) {
        Some(whole) => Bytes::Part { whole: objc2::Message::retain(whole), offset, length },
        None => Bytes::Own(Box::default()),
    };
    given(Data::new(bytes))
}

#[unsafe(no_mangle)]
extern "C" fn dispatch_data_copy_region(data: Object, _location: usize, offset: &mut usize) -> Object {
    *offset = 0;
    object_calls::retain(data)
}

#[unsafe(no_mangle)]
extern "C" fn dispatch_retain(object: Object) {
    object_calls::retain(object);
}

#[unsafe(no_mangle)]
extern "C" fn dispatch_release(object: Object) {
    object_calls::release(object);
}

#[unsafe(no_mangle)]
extern "C" fn dispatch_get_context(object: Object) -> *mut c_void {
    Data::of(object).map_or(ptr::null_mut(), |data| data.ivars().context.load(Ordering::Acquire))
}

#[unsafe(no_mangle)]
extern "C" fn dispatch_set_context(object: Object, context: *mut c_void) {
    if let Some(data) = Data::of(object) {
        data.ivars().context.store(context, Ordering::Release);
    }
}

#[unsafe(no_mangle)]
extern "C" fn dispatch_set_finalizer_f(object: Object, finalizer: Option<Function>) {
    if let Some(data) = Data::of(object) {
        let address = finalizer.map_or(ptr::null_mut(), |finalizer| finalizer as *mut c_void);
        data.ivars().finalizer.store(address, Ordering::Release);
    }
}
