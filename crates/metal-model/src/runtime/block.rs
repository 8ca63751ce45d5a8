//! Blocks: closures that C interfaces pass around, counted by themselves.
//!
//! A block begins on its maker's stack; `_Block_copy` moves it to the heap and from then on counts in its header. The
//! layout and the flags are those of the block ABI (clang's document "Block Implementation Specification").
//!
//! A freed block is kept for a while and what it calls is replaced, so that the call of a freed block, a copy or a release
//! of it is found.
//!
//! Threads: the count is atomic; the last release synchronizes with all before it.

use std::{
    alloc::{self, Layout},
    ffi::{c_int, c_ulong, c_void},
    ptr::{self, NonNull},
    sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering},
};

use objc2::{
    ClassType,
    runtime::{ClassBuilder, NSObject},
};

use super::{
    class::{self, Class},
    misuse,
    object::Object,
    object_calls,
};
use crate::live::BLOCKS;

const NEEDS_FREE: c_int = 1 << 24;
const HAS_COPY_DISPOSE: c_int = 1 << 25;
const IS_GLOBAL: c_int = 1 << 28;

/// What a captured variable is, as the copy helpers of C compilers say it.
const FIELD_IS_OBJECT: c_int = 3;
const FIELD_IS_BLOCK: c_int = 7;

/// Freed blocks whose memory is kept.
const KEPT: usize = 1 << 10;

/// What every block begins with.
#[repr(C)]
struct Header {
    isa: *const Class,
    flags: c_int,
    /// References, of a block on the heap. Zero when it is freed.
    references: AtomicI32,
    invoke: AtomicPtr<c_void>,
    descriptor: *const Descriptor,
}

/// What the maker says of every block.
#[repr(C)]
struct Descriptor {
    reserved: c_ulong,
    size: c_ulong,
}

/// What the maker says of a block with [`HAS_COPY_DISPOSE`]: the descriptor of any other ends before the helpers.
#[repr(C)]
struct WithHelpers {
    descriptor: Descriptor,
    copy: Option<unsafe extern "C-unwind" fn(*mut c_void, *const c_void)>,
    dispose: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
}

/// Memory of blocks begins as aligned as `malloc`'s.
const ALIGN: usize = 16;

/// Freed blocks, oldest overwritten first.
static RING: [AtomicPtr<Header>; KEPT] = [const { AtomicPtr::new(ptr::null_mut()) }; KEPT];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Says to the crates what kind of block a header is of.
macro_rules! block_class {
    ($symbol:ident, $meta:ident, $name:literal, $define:path) => {
        static $meta: Class = Class::meta($name, &$symbol, $define);
        #[unsafe(no_mangle)]
        static $symbol: Class = Class::headless($name, &$meta, class::BLOCK, $define);
    };
}
block_class!(_NSConcreteStackBlock, STACK_META, c"__NSStackBlock__", define);
block_class!(_NSConcreteGlobalBlock, GLOBAL_META, c"__NSGlobalBlock__", define);
block_class!(_NSConcreteMallocBlock, MALLOC_META, c"__NSMallocBlock__", define);

/// Registers the three classes.
fn define() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for class in [&_NSConcreteStackBlock, &_NSConcreteGlobalBlock, &_NSConcreteMallocBlock] {
            class::announce(class);
            if let Some(builder) = ClassBuilder::new(class.name(), NSObject::class()) {
                builder.register();
            }
        }
    });
}

impl Header {
    /// What copies and drops what the block holds, if it holds anything that needs it.
    fn helpers(&self) -> Option<&'static WithHelpers> {
        let helpers = self.descriptor.cast::<WithHelpers>();
        // SAFETY: the flag says that the descriptor, a constant of the maker's, has them.
        (self.flags & HAS_COPY_DISPOSE != 0).then(|| unsafe { &*helpers })
    }

    /// Bytes of the block.
    fn bytes(&self) -> usize {
        // SAFETY: a block has a descriptor, a constant of the maker's.
        let size = unsafe { &*self.descriptor }.size;
        usize::try_from(size).expect("a block fits memory")
    }
}

fn header(block: NonNull<c_void>) -> NonNull<Header> {
    block.cast()
}

/// A reference to the block that outlives its maker's stack.
pub(crate) fn copy(block: NonNull<c_void>) -> NonNull<c_void> {
    // SAFETY: the caller has a block.
    let source = unsafe { header(block).as_ref() };
    if source.flags & IS_GLOBAL != 0 {
        return block;
    }
    if source.flags & NEEDS_FREE != 0 {
        if source.references.fetch_add(1, Ordering::Relaxed) <= 0 {
            misuse(format_args!("copy of a freed block at {block:p}"));
        }
        return block;
    }
    let bytes = source.bytes();
    let layout = Layout::from_size_align(bytes, ALIGN).expect("a block fits memory");
    // SAFETY: a block is at least a header.
    let memory = unsafe { alloc::alloc(layout) };
    let Some(copy) = NonNull::new(memory.cast::<c_void>()) else { alloc::handle_alloc_error(layout) };
    // SAFETY: the block has this many bytes, and the memory is new.
    unsafe { memory.copy_from_nonoverlapping(block.cast().as_ptr(), bytes) };
    // SAFETY: the bytes of the header were just written, and nobody else knows it yet.
    let new = unsafe { header(copy).as_mut() };
    new.isa = &raw const _NSConcreteMallocBlock;
    new.flags |= NEEDS_FREE;
    new.references = AtomicI32::new(1);
    if let Some(helper) = source.helpers().and_then(|helpers| helpers.copy) {
        // SAFETY: the maker's helper, called as the ABI says: the new block, then the old.
        unsafe { helper(copy.as_ptr(), block.as_ptr()) };
    }
    BLOCKS.fetch_add(1, Ordering::Relaxed);
    copy
}

/// Gives a reference back; the last one of a block on the heap frees it.
pub(crate) fn release(block: NonNull<c_void>) {
    // SAFETY: the caller has a block.
    let old = unsafe { header(block).as_ref() };
    if old.flags & NEEDS_FREE == 0 {
        return;
    }
    // ORDERING: Release, and the Acquire below (a load, since ThreadSanitizer does not know fences): every call of the block happens before what it holds is dropped.
    match old.references.fetch_sub(1, Ordering::Release) {
        1 => {}
        ..1 => misuse(format_args!("release of a freed block at {block:p}")),
        _ => return,
    }
    old.references.load(Ordering::Acquire);
    if let Some(helper) = old.helpers().and_then(|helpers| helpers.dispose) {
        // SAFETY: the maker's helper, called once, by the last holder.
        unsafe { helper(block.as_ptr()) };
    }
    BLOCKS.fetch_sub(1, Ordering::Relaxed);
    let called: extern "C-unwind" fn(*const c_void) -> ! = freed_block_called;
    old.invoke.store(called as *mut c_void, Ordering::Relaxed);
    keep(header(block));
}

fn keep(block: NonNull<Header>) {
    let place = NEXT.fetch_add(1, Ordering::Relaxed) % KEPT;
    let Some(oldest) = NonNull::new(RING[place].swap(block.as_ptr(), Ordering::AcqRel)) else { return };
    // SAFETY: the ring holds freed blocks of the heap, each once; the swap took it out.
    let bytes = unsafe { oldest.as_ref() }.bytes();
    let layout = Layout::from_size_align(bytes, ALIGN).expect("`copy` allocated it");
    // SAFETY: `copy` allocated it with this layout.
    unsafe { alloc::dealloc(oldest.cast().as_ptr(), layout) };
}

/// What a freed block calls.
extern "C-unwind" fn freed_block_called(block: *const c_void) -> ! {
    misuse(format_args!("call of a freed block at {block:p}"))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _Block_copy(block: Option<NonNull<c_void>>) -> Option<NonNull<c_void>> {
    block.map(copy)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _Block_release(block: Option<NonNull<c_void>>) {
    if let Some(block) = block {
        release(block);
    }
}

/// # Safety
/// `to` has room for a pointer; the object is of the kind that the flags say.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _Block_object_assign(to: *mut Option<Object>, object: Option<Object>, flags: c_int) {
    let held = match flags {
        FIELD_IS_OBJECT => object.map(object_calls::retain),
        FIELD_IS_BLOCK => object.map(Object::retain),
        _ => misuse(format_args!("a block captures a variable of kind {flags}, which Rust cannot make")),
    };
    // SAFETY: the caller's promise.
    unsafe { to.write(held) };
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _Block_object_dispose(object: Option<Object>, flags: c_int) {
    match (flags, object) {
        (FIELD_IS_OBJECT, Some(object)) => object_calls::release(object),
        (FIELD_IS_BLOCK, Some(object)) => object.release(),
        (_, None) => {}
        _ => misuse(format_args!("a block captures a variable of kind {flags}, which Rust cannot make")),
    }
}
