//! `NSString`: immutable text, kept as UTF-8.

use std::{
    ffi::{CStr, c_char, c_void},
    hash::{DefaultHasher, Hash, Hasher},
    ptr::{self, NonNull},
    slice,
};

use objc2::{
    AllocAnyThread, ClassType, DefinedClass, define_class, msg_send,
    rc::{Allocated, Retained},
    runtime::{AnyObject, ClassBuilder, NSObject, NSObjectProtocol, NSZone},
};

use crate::runtime::{
    class::{self, Class, export_class},
    exception,
};

/// `NSUTF8StringEncoding`, in the width that objc2 sends it in.
const UTF8: i32 = 4;
/// `NSASCIIStringEncoding`.
const ASCII: i32 = 1;

export_class!("NSString", || {
    Text::class();
});

/// UTF-8 with a zero behind it, which does not count. In a fixed layout, so that constants can be statics.
#[repr(C)]
pub(crate) struct Bytes {
    first: NonNull<u8>,
    length: usize,
}

impl Bytes {
    fn new(text: &[u8]) -> Bytes {
        let ended: Box<[u8]> = text.iter().copied().chain([0]).collect();
        let first = NonNull::from(Box::leak(ended)).cast();
        Bytes { first, length: text.len() }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        let ended = NonNull::slice_from_raw_parts(self.first, self.length + 1);
        // SAFETY: `new` leaked a box of this length. A constant is never dropped.
        drop(unsafe { Box::from_raw(ended.as_ptr()) });
    }
}

define_class!(
    /// The text, with a zero behind it that does not belong to it.
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "NSString"]
    #[ivars = Bytes]
    pub(crate) struct Text;

    unsafe impl NSObjectProtocol for Text {}

    impl Text {
        #[unsafe(method_id(init))]
        fn init(this: Allocated<Self>) -> Retained<Self> {
            finish(this, b"")
        }

        #[unsafe(method_id(initWithBytes:length:encoding:))]
        fn init_bytes(this: Allocated<Self>, bytes: *const c_void, length: usize, encoding: i32) -> Option<Retained<Self>> {
            let bytes = match length {
                0 => b"".as_slice(),
                // SAFETY: the caller's promise.
                _ => unsafe { slice::from_raw_parts(bytes.cast::<u8>(), length) },
            };
            let valid = match encoding {
                UTF8 => str::from_utf8(bytes).is_ok(),
                ASCII => bytes.is_ascii(),
                _ => exception::raise("NSInvalidArgumentException", &format!("no encoding {encoding} here")),
            };
            valid.then(|| finish(this, bytes))
        }

        #[unsafe(method_id(initWithUTF8String:))]
        fn init_utf8(this: Allocated<Self>, text: *const c_char) -> Option<Retained<Self>> {
            // SAFETY: the caller's promise.
            let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
            str::from_utf8(bytes).is_ok().then(|| finish(this, bytes))
        }

        #[unsafe(method_id(stringWithUTF8String:))]
        fn with_utf8(text: *const c_char) -> Option<Retained<Self>> {
            // SAFETY: the caller's promise.
            let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
            str::from_utf8(bytes).is_ok().then(|| finish(Text::alloc(), bytes))
        }

        #[unsafe(method_id(string))]
        fn empty() -> Retained<Self> {
            finish(Text::alloc(), b"")
        }

        #[unsafe(method(lengthOfBytesUsingEncoding:))]
        fn bytes_in(&self, encoding: i32) -> usize {
            match encoding {
                UTF8 => self.text().len(),
                ASCII if self.text().is_ascii() => self.text().len(),
                _ => 0,
            }
        }

        #[unsafe(method(UTF8String))]
        fn utf8(&self) -> *const c_char {
            self.ivars().first.as_ptr().cast()
        }

        #[unsafe(method(length))]
        fn length(&self) -> usize {
            self.text().encode_utf16().count()
        }

        #[unsafe(method(characterAtIndex:))]
        fn character(&self, index: usize) -> u16 {
            let unit = self.text().encode_utf16().nth(index);
            unit.unwrap_or_else(|| exception::raise("NSRangeException", &format!("no character {index}")))
        }

        #[unsafe(method(isEqualToString:))]
        fn is_equal_text(&self, other: Option<&Text>) -> bool {
            other.is_some_and(|other| other.text() == self.text())
        }

        #[unsafe(method(isEqual:))]
        fn is_equal(&self, other: Option<&AnyObject>) -> bool {
            other.and_then(Text::of).is_some_and(|other| other.text() == self.text())
        }

        #[unsafe(method(hash))]
        fn hash(&self) -> usize {
            let mut hasher = DefaultHasher::new();
            self.text().hash(&mut hasher);
            hasher.finish() as usize
        }

        #[unsafe(method(compare:))]
        fn compare(&self, other: &Text) -> isize {
            self.text().encode_utf16().cmp(other.text().encode_utf16()) as isize
        }

        #[unsafe(method(hasPrefix:))]
        fn has_prefix(&self, other: &Text) -> bool {
            self.text().starts_with(other.text())
        }

        #[unsafe(method(hasSuffix:))]
        fn has_suffix(&self, other: &Text) -> bool {
            self.text().ends_with(other.text())
        }

        #[unsafe(method_id(stringByAppendingString:))]
        fn appending(&self, other: &Text) -> Retained<Self> {
            finish(Text::alloc(), [self.text(), other.text()].concat().as_bytes())
        }

        #[unsafe(method(copyWithZone:))]
        fn copy(&self, _zone: *mut NSZone) -> *mut Self {
            Retained::into_raw(objc2::Message::retain(self))
        }

        #[unsafe(method_id(description))]
        fn description(&self) -> Retained<Self> {
            objc2::Message::retain(self)
        }
    }
);

// SAFETY: the text never changes.
unsafe impl Send for Text {}
// SAFETY: the text never changes.
unsafe impl Sync for Text {}

fn finish(this: Allocated<Text>, bytes: &[u8]) -> Retained<Text> {
    let this = this.set_ivars(Bytes::new(bytes));
    // SAFETY: `init` of the root class takes nothing and returns its receiver.
    unsafe { msg_send![super(this), init] }
}

impl Text {
    /// The text that an object is, if it is one.
    pub(crate) fn of(object: &AnyObject) -> Option<&Text> {
        let text = object.class().superclass().is_some() && is_text(object);
        // SAFETY: the object's class is this one or one below it.
        text.then(|| unsafe { &*ptr::from_ref(object).cast::<Text>() })
    }

    /// What it says.
    pub(crate) fn text(&self) -> &str {
        let Bytes { first, length } = self.ivars();
        // SAFETY: the bytes are this object's, and never change.
        let bytes = unsafe { slice::from_raw_parts(first.as_ptr(), *length) };
        // SAFETY: every `init` has checked it.
        unsafe { str::from_utf8_unchecked(bytes) }
    }
}

fn is_text(object: &AnyObject) -> bool {
    std::iter::successors(Some(object.class()), |class| class.superclass()).any(|class| ptr::eq(class, Text::class()))
}

/// A string that is a static. Laid out as `define_class!` lays out an object of [`Text`] (a test compares), and counted by
/// nobody.
#[repr(C)]
pub struct Constant {
    isa: &'static Class,
    bytes: Bytes,
    /// What objc2 writes behind the variables of an object that is whole.
    whole: u8,
}

// SAFETY: it never changes.
unsafe impl Sync for Constant {}

static CONSTANT: Class = Class::headless(c"NSConstantString", &CONSTANT_META, class::CONSTANT, define_constant);
static CONSTANT_META: Class = Class::meta(c"NSConstantString", &CONSTANT, define_constant);

fn define_constant() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        class::announce(&CONSTANT);
        if let Some(builder) = ClassBuilder::new(CONSTANT.name(), Text::class()) {
            builder.register();
        }
    });
}

/// Defines the strings that Foundation and Metal export: each a symbol that holds the address of a constant.
macro_rules! constants {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        static $name: &Constant = {
            const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(text) => text,
                Err(_) => panic!("a name has no zero"),
            };
            static OBJECT: Constant = Constant {
                isa: &CONSTANT,
                // A static is not dropped, so nobody frees these.
                bytes: Bytes { first: NonNull::from_ref(TEXT).cast(), length: TEXT.count_bytes() },
                whole: 0xff,
            };
            &OBJECT
        };
    )*};
}
constants!(
    NSCocoaErrorDomain,
    NSPOSIXErrorDomain,
    NSOSStatusErrorDomain,
    NSMachErrorDomain,
    NSUnderlyingErrorKey,
    NSLocalizedDescriptionKey,
    NSLocalizedFailureReasonErrorKey,
    NSLocalizedRecoverySuggestionErrorKey,
    NSDebugDescriptionErrorKey,
    NSGenericException,
    NSRangeException,
    NSInvalidArgumentException,
    NSInternalInconsistencyException,
    NSMallocException,
    MTLCommandBufferErrorDomain,
    MTLLibraryErrorDomain
);

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use objc2::ClassType;

    use super::{Constant, Text};

    #[test]
    fn a_constant_string_is_laid_out_as_every_string() {
        let offset = |name| Text::class().instance_variable(name).map(|variable| variable.offset().cast_unsigned());
        assert_eq!(offset(c"NSString_ivars"), Some(offset_of!(Constant, bytes)));
        assert_eq!(offset(c"NSString_drop_flag"), Some(offset_of!(Constant, whole)));
    }
}
