//! Selectors: names made unique, so that two selectors are equal when their addresses are.
//!
//! They stand side by side in blocks that are never freed. A method cache takes its index from the address, so selectors
//! that were registered together never share a place in a small cache.
//!
//! Threads: the table is behind a lock; a selector itself never changes.

use std::{
    collections::BTreeMap,
    ffi::{CStr, c_char},
    fmt,
    slice::IterMut,
    sync::{Mutex, PoisonError},
};

use objc2::runtime::Bool;

/// Selectors of one block.
const BLOCK: usize = 512;

/// A unique name. Sixteen bytes, so that the address over sixteen numbers the selectors of a block.
#[repr(C, align(16))]
pub(crate) struct Name {
    name: &'static CStr,
}

const _: () = assert!(size_of::<Name>() == 16);

/// A selector: the address of a unique name.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Selector(pub(crate) &'static Name);

impl Selector {
    /// The selector of this name.
    pub(crate) fn of(name: &CStr) -> Selector {
        TABLE.lock().unwrap_or_else(PoisonError::into_inner).of(name)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static CStr {
        self.0.name
    }

    /// What identifies it.
    pub(crate) fn address(self) -> usize {
        std::ptr::from_ref(self.0).addr()
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name().to_string_lossy())
    }
}

/// Every selector there is.
struct Table {
    by_name: BTreeMap<&'static CStr, Selector>,
    /// What is left of the newest block.
    free: Option<IterMut<'static, Name>>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { by_name: BTreeMap::new(), free: None });

impl Table {
    fn of(&mut self, name: &CStr) -> Selector {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let name: &'static CStr = Box::leak(name.to_owned().into_boxed_c_str());
        let first = self.free.as_mut().and_then(Iterator::next).unwrap_or_else(|| {
            let mut block = Vec::leak((0..BLOCK).map(|_| Name { name: c"" }).collect()).iter_mut();
            let first = block.next().expect("a block holds more than one selector");
            self.free = Some(block);
            first
        });
        first.name = name;
        let selector = Selector(first);
        self.by_name.insert(name, selector);
        selector
    }
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn sel_registerName(name: *const c_char) -> Option<Selector> {
    // SAFETY: the caller's promise.
    Some(Selector::of(unsafe { CStr::from_ptr(name) }))
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn sel_getUid(name: *const c_char) -> Option<Selector> {
    // SAFETY: the caller's promise.
    Some(Selector::of(unsafe { CStr::from_ptr(name) }))
}

#[unsafe(no_mangle)]
extern "C" fn sel_getName(selector: Option<Selector>) -> *const c_char {
    selector.map_or(c"<null selector>", Selector::name).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn sel_isEqual(one: Option<Selector>, other: Option<Selector>) -> Bool {
    Bool::new(one == other)
}

impl fmt::Debug for Selector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

// `Selector` compares addresses.
impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Name {}
