//! Classes: their methods, instance variables and protocols, the cache of methods, and the table of names.
//!
//! A class is one of two kinds. A class that a program builds (`objc_allocateClassPair`) is made on the heap and never
//! freed. A class that crates name by a link symbol is a static of this crate, made by `export_class!`; it is *realized*,
//! given its methods, when it is first used, by the function that it carries.
//!
//! Threads: the lists of a class are behind its own lock, the table of names behind another; never hold the first while
//! taking the second. The cache is read without a lock: see `Cache`.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString, c_char},
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicIsize, AtomicPtr, AtomicU32, AtomicUsize, Ordering},
    },
};

use objc2::runtime::Imp;

use super::{lookup::Cache, selector::Selector};

/// The class of classes.
pub(crate) const META: u32 = 1;
/// Its objects are blocks: they carry their count themselves.
pub(crate) const BLOCK: u32 = 2;
/// Its objects are constants: they have no count and live for ever.
pub(crate) const CONSTANT: u32 = 4;
/// Its methods are there.
const REALIZED: u32 = 8;
/// It, or a class above it, has its own `retain`, `release` or `autorelease`.
pub(crate) const OWN_COUNT: u32 = 16;
/// Its objects are freed ones of the class that `instance` is.
pub(crate) const FREED: u32 = 32;
/// Its definition has ended: what defines it in Rust knows where its variables lie, too.
const DEFINED: u32 = 64;
/// Its objects cannot be counted in the header before them.
pub(crate) const SPECIAL: u32 = META | BLOCK | CONSTANT | OWN_COUNT;

/// A class, or the class of a class.
///
/// The address of the static is what the symbol `._OBJC_CLASS_NAME` means to the crates that name it.
#[repr(C)]
pub struct Class {
    /// Its own class. First, as in every object.
    isa: AtomicPtr<Class>,
    /// The methods that were sent before.
    pub(crate) cache: AtomicPtr<Cache>,
    pub(crate) flags: AtomicU32,
    /// Its number among all classes, in the order of registration; 0 is none.
    pub(crate) index: AtomicU32,
    /// Bytes of an instance, its class pointer included.
    pub(crate) size: AtomicUsize,
    /// Instances that live.
    pub(crate) live: AtomicIsize,
    superclass: AtomicPtr<Class>,
    name: &'static CStr,
    /// For the class of a class, that class; for the class of freed objects, the class that they had.
    instance: AtomicPtr<Class>,
    /// The class of its freed objects, once there was one.
    freed: AtomicPtr<Class>,
    /// Gives an exported class its methods.
    define: Option<fn()>,
    /// The thread that builds it, by an address of its own. Zero before.
    builder: AtomicUsize,
    members: Mutex<Members>,
}

/// What a class was built from.
pub(crate) struct Members {
    pub(crate) methods: Vec<&'static Method>,
    pub(crate) variables: Vec<&'static Variable>,
    pub(crate) protocols: Vec<&'static Protocol>,
}

/// A method of a class.
pub(crate) struct Method {
    pub(crate) selector: Selector,
    /// An [`Imp`], which tests and programs may exchange.
    implementation: AtomicPtr<()>,
    pub(crate) types: CString,
}

impl Method {
    pub(crate) fn implementation(&self) -> Imp {
        let address = self.implementation.load(Ordering::Acquire);
        // SAFETY: only `set` and `new` store here, and both store an `Imp`.
        unsafe { std::mem::transmute::<*mut (), Imp>(address) }
    }

    /// Replaces the implementation, also in every cache.
    pub(crate) fn set(&self, new: Imp) -> Imp {
        let old = self.implementation();
        self.implementation.store(new as *mut (), Ordering::Release);
        super::lookup::forget_all();
        old
    }
}

/// An instance variable.
pub(crate) struct Variable {
    pub(crate) name: CString,
    pub(crate) types: CString,
    pub(crate) offset: usize,
}

/// A protocol: here a name, with the protocols and the methods that a program has given it.
pub(crate) struct Protocol {
    pub(crate) name: CString,
    pub(crate) parents: Mutex<Vec<&'static Protocol>>,
    pub(crate) methods: Mutex<Vec<Described>>,
}

/// A method that a protocol describes.
pub(crate) struct Described {
    pub(crate) selector: Selector,
    pub(crate) types: CString,
    pub(crate) required: bool,
    pub(crate) instance: bool,
}

impl Protocol {
    /// Whether it is `other`, or has it among its parents.
    pub(crate) fn conforms(&self, other: &Protocol) -> bool {
        self.name == other.name || locked(&self.parents).iter().any(|parent| parent.conforms(other))
    }
}

/// A number of this thread's own.
fn this_thread() -> usize {
    thread_local!(static OWN: u8 = const { 0 });
    OWN.with(|own| ptr::from_ref(own).addr())
}

/// The lock's content. A panic under it leaves nothing half done, so its poison means nothing.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Class {
    const fn new(
        name: &'static CStr,
        isa: *const Class,
        instance: *const Class,
        flags: u32,
        define: Option<fn()>,
    ) -> Class {
        Class {
            isa: AtomicPtr::new(isa.cast_mut()),
            cache: AtomicPtr::new(Cache::empty()),
            flags: AtomicU32::new(flags),
            index: AtomicU32::new(0),
            size: AtomicUsize::new(size_of::<*const Class>()),
            live: AtomicIsize::new(0),
            superclass: AtomicPtr::new(ptr::null_mut()),
            name,
            instance: AtomicPtr::new(instance.cast_mut()),
            freed: AtomicPtr::new(ptr::null_mut()),
            define,
            builder: AtomicUsize::new(0),
            members: Mutex::new(Members { methods: Vec::new(), variables: Vec::new(), protocols: Vec::new() }),
        }
    }

    /// An exported class; `define` builds it through `objc_allocateClassPair`.
    pub const fn exported(name: &'static CStr, meta: &'static Class, define: fn()) -> Class {
        Class::new(name, meta, ptr::null(), 0, Some(define))
    }

    /// An exported class whose instances are blocks or constants: they have no header.
    pub(crate) const fn headless(name: &'static CStr, meta: &'static Class, flags: u32, define: fn()) -> Class {
        Class::new(name, meta, ptr::null(), flags, Some(define))
    }

    /// The class of the exported class `instance`.
    pub const fn meta(name: &'static CStr, instance: &'static Class, define: fn()) -> Class {
        Class::new(name, ptr::null(), instance, META, Some(define))
    }

    /// Its name.
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// Its name, for people.
    pub(crate) fn title(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    pub(crate) fn flagged(&self, flags: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flags != 0
    }

    pub(crate) fn is_meta(&self) -> bool {
        self.flagged(META)
    }

    /// Its class.
    pub(crate) fn isa(&self) -> &'static Class {
        // SAFETY: every class that is reachable has a class, and invariant 1 of the runtime: it lives for ever.
        unsafe { &*self.isa.load(Ordering::Acquire) }
    }

    pub(crate) fn superclass(&self) -> Option<&'static Class> {
        let pointer = self.superclass.load(Ordering::Acquire);
        // SAFETY: null, or a class; invariant 1 of the runtime: it lives for ever.
        unsafe { pointer.as_ref() }
    }

    /// It and the classes above it.
    pub(crate) fn chain(&'static self) -> impl Iterator<Item = &'static Class> {
        std::iter::successors(Some(self), |class| class.superclass())
    }

    /// Whether it is `other` or stands below it.
    pub(crate) fn descends(&'static self, other: &Class) -> bool {
        self.chain().any(|class| ptr::eq(class, other))
    }

    pub(crate) fn members(&self) -> MutexGuard<'_, Members> {
        locked(&self.members)
    }

    /// The class of its freed objects. It has no methods, so every message to one takes the slow path, which looks for it.
    pub(crate) fn of_freed(&'static self) -> &'static Class {
        // ORDERING: Acquire pairs with the Release below: the class is seen whole.
        let known = self.freed.load(Ordering::Acquire);
        // SAFETY: null, or a class; invariant 1 of the runtime: it lives for ever.
        if let Some(known) = unsafe { known.as_ref() } {
            return known;
        }
        let made = Box::into_raw(Box::new(Class::new(self.name, self.isa(), self, FREED, None)));
        match self.freed.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: made above, and given to nothing that frees it.
            Ok(_) => unsafe { &*made },
            Err(others) => {
                // SAFETY: made above, and seen by nobody: another thread's is the one.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: it lives for ever too.
                unsafe { &*others }
            }
        }
    }

    /// The class that objects of this class had before they were freed, if that is what this class is for.
    pub(crate) fn before_freed(&self) -> Option<&'static Class> {
        // SAFETY: `of_freed` made it with the class that it is for; invariant 1 of the runtime.
        self.flagged(FREED).then(|| unsafe { &*self.instance.load(Ordering::Acquire) })
    }

    /// Gives an exported class its methods, if it has none yet.
    #[inline]
    pub(crate) fn realize(&self) {
        if self.flags.load(Ordering::Acquire) & DEFINED == 0 {
            self.realize_now();
        }
    }

    #[cold]
    fn realize_now(&self) {
        // Its builder asks of it too, and must not be made to wait for itself. What has no `define` is used as it stands.
        if let Some(define) = self.define.filter(|_| self.builder.load(Ordering::Relaxed) != this_thread()) {
            // Waits where another thread is at it: a class has its name before its definition has ended.
            define();
            self.flags.fetch_or(DEFINED, Ordering::Release);
        }
    }

    /// Whether it has been registered.
    pub(crate) fn is_realized(&self) -> bool {
        self.flags.load(Ordering::Acquire) & REALIZED != 0
    }

    /// Adds a method, unless the class itself has it.
    pub(crate) fn add_method(&self, selector: Selector, implementation: Imp, types: &CStr) -> bool {
        let mut members = self.members();
        if members.methods.iter().any(|known| known.selector == selector) {
            return false;
        }
        members.methods.push(Box::leak(Box::new(Method {
            selector,
            implementation: AtomicPtr::new(implementation as *mut ()),
            types: types.to_owned(),
        })));
        drop(members);
        let counts = matches!(selector.name().to_bytes(), b"retain" | b"release" | b"autorelease");
        // The methods of `NSObject` do what the functions do that look at this flag.
        if counts && self.name != c"NSObject" {
            self.flags.fetch_or(OWN_COUNT, Ordering::Relaxed);
        }
        if self.is_realized() {
            super::lookup::forget_all();
        }
        true
    }

    /// The class's own method of this selector.
    pub(crate) fn own_method(&self, selector: Selector) -> Option<&'static Method> {
        self.members().methods.iter().copied().find(|method| method.selector == selector)
    }

    /// The instance variable of this name, here or above.
    pub(crate) fn variable(&'static self, name: &CStr) -> Option<&'static Variable> {
        let own = |class: &Class| class.members().variables.iter().copied().find(|known| known.name.as_c_str() == name);
        self.realize();
        self.chain().find_map(own)
    }
}

/// The classes by name.
pub(crate) struct Names {
    /// Those that are registered, in order.
    registered: Vec<&'static Class>,
    by_name: BTreeMap<&'static CStr, &'static Class>,
    /// Those that have a symbol, registered or not.
    exported: BTreeMap<&'static CStr, &'static Class>,
}

static NAMES: Mutex<Names> =
    Mutex::new(Names { registered: Vec::new(), by_name: BTreeMap::new(), exported: BTreeMap::new() });

/// Makes an exported class known by name. Called once a class, before `main`.
pub fn announce(class: &'static Class) {
    locked(&NAMES).exported.insert(class.name, class);
}

/// The registered classes.
pub(crate) fn all() -> Vec<&'static Class> {
    locked(&NAMES).registered.clone()
}

/// The class of this name, realized.
pub(crate) fn find(name: &CStr) -> Option<&'static Class> {
    let names = locked(&NAMES);
    let class = names.by_name.get(name).or_else(|| names.exported.get(name)).copied();
    drop(names);
    class.inspect(|class| class.realize())
}

/// A class under `superclass` for a program to build; none where the name is taken.
pub(crate) fn allocate(superclass: Option<&'static Class>, name: &CStr) -> Option<&'static Class> {
    if let Some(above) = superclass {
        above.realize();
    }
    let names = locked(&NAMES);
    if names.by_name.contains_key(name) {
        return None;
    }
    let class = match names.exported.get(name) {
        Some(class) => *class,
        None => fresh(name),
    };
    drop(names);
    let meta = class.isa();
    let address = |class: &Class| ptr::from_ref(class).cast_mut();
    // The class of every class of a class is that of the root; a root's own is itself, and stands below the root.
    let root = superclass.and_then(|above| above.chain().last()).unwrap_or(class);
    meta.isa.store(address(root.isa()), Ordering::Release);
    meta.superclass.store(address(superclass.map_or(class, Class::isa)), Ordering::Release);
    if let Some(above) = superclass {
        class.superclass.store(address(above), Ordering::Release);
        class.size.store(above.size.load(Ordering::Relaxed), Ordering::Relaxed);
        let inherited = above.flags.load(Ordering::Relaxed) & (OWN_COUNT | BLOCK | CONSTANT);
        class.flags.fetch_or(inherited, Ordering::Relaxed);
    }
    for class in [class, meta] {
        class.builder.store(this_thread(), Ordering::Relaxed);
    }
    Some(class)
}

/// A class of its own and its class, on the heap.
fn fresh(name: &CStr) -> &'static Class {
    let name: &'static CStr = Box::leak(name.to_owned().into_boxed_c_str());
    let meta: &'static Class = Box::leak(Box::new(Class::new(name, ptr::null(), ptr::null(), META, None)));
    let class: &'static Class = Box::leak(Box::new(Class::new(name, meta, ptr::null(), 0, None)));
    meta.instance.store(ptr::from_ref(class).cast_mut(), Ordering::Release);
    class
}

/// Ends the building of a class: it has a name from here on.
pub(crate) fn register(class: &'static Class) {
    let mut names = locked(&NAMES);
    names.registered.push(class);
    let index = u32::try_from(names.registered.len()).unwrap_or(u32::MAX);
    class.index.store(index, Ordering::Relaxed);
    names.by_name.insert(class.name, class);
    for class in [class.isa(), class] {
        let defined = if class.define.is_none() { DEFINED } else { 0 };
        class.flags.fetch_or(REALIZED | defined, Ordering::Release);
    }
}

/// Takes the name from a class that a program gives up. Its memory stays (invariant 1).
pub(crate) fn dispose(class: &'static Class) {
    let mut names = locked(&NAMES);
    names.registered.retain(|known| !ptr::eq(*known, class));
    if names.by_name.get(class.name).is_some_and(|known| ptr::eq(*known, class)) {
        names.by_name.remove(class.name);
    }
}

/// A C string of a caller.
///
/// # Safety
/// `text` is a C string that lives as long as the result is used.
pub(crate) unsafe fn c_str<'a>(text: *const c_char) -> &'a CStr {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }
}

/// Exports a class under the symbol by which crates name it, and makes it known by name before `main`.
///
/// `$define` is a path to a `fn()` that builds the class, through `objc_allocateClassPair`: for a type of
/// `define_class!` with the same name, `|| { Type::class(); }`.
macro_rules! export_class {
    ($name:literal, $define:expr) => {
        $crate::runtime::class::export_class!($name, 0, $define);
    };
    ($name:literal, $flags:expr, $define:expr) => {
        const _: () = {
            const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("the name of a class has no zero"),
            };
            static META: $crate::runtime::class::Class = $crate::runtime::class::Class::meta(NAME, &CLASS, $define);
            #[unsafe(export_name = concat!("._OBJC_CLASS_", $name))]
            static CLASS: $crate::runtime::class::Class =
                $crate::runtime::class::Class::headless(NAME, &META, $flags, $define);
            extern "C" fn announce() {
                $crate::runtime::class::announce(&CLASS);
            }
            #[used]
            #[unsafe(link_section = ".init_array")]
            static ANNOUNCE: extern "C" fn() = announce;
        };
    };
}
pub(crate) use export_class;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Barrier, Once};
    use std::time::Duration;

    use objc2::ClassType as _;
    use objc2::runtime::{ClassBuilder, NSObject};

    use super::*;

    static SLOW: Class = Class::exported(c"SlowlyDefined", &META_OF_SLOW, define);
    static META_OF_SLOW: Class = Class::meta(c"SlowlyDefined", &SLOW, define);
    static REGISTERED: Barrier = Barrier::new(2);
    static ENDED: AtomicBool = AtomicBool::new(false);

    /// As what objc2 makes of a definition: once registered, it looks where the class's variables lie, and keeps that.
    fn define() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            announce(&SLOW);
            SLOW.isa.store(ptr::from_ref(&META_OF_SLOW).cast_mut(), Ordering::Release);
            ClassBuilder::new(SLOW.name(), NSObject::class()).unwrap().register();
            assert!(SLOW.variable(c"none").is_none(), "its builder may ask of it");
            REGISTERED.wait();
            // TIMEOUT: time for the other thread to do what it must not; nothing waits for it.
            std::thread::sleep(Duration::from_millis(50));
            ENDED.store(true, Ordering::Release);
        });
    }

    #[test]
    fn a_class_is_used_only_once_its_definition_has_ended_whichever_thread_is_at_it() {
        std::thread::scope(|scope| {
            scope.spawn(|| SLOW.realize());
            REGISTERED.wait();
            SLOW.realize();
            assert!(ENDED.load(Ordering::Acquire));
        });
    }
}
