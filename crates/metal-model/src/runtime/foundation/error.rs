//! `NSError`: where something failed, by which number, and in words.

use objc2::{
    AllocAnyThread, ClassType, DefinedClass, Message, define_class, msg_send,
    rc::{Allocated, Retained},
    runtime::{AnyObject, NSObject, NSObjectProtocol, NSZone},
};
use objc2_foundation::{NSError, NSString};

use super::dictionary::{self, Dictionary};
use crate::runtime::class::export_class;

export_class!("NSError", || {
    Failure::class();
});

pub(super) struct State {
    domain: Retained<NSString>,
    code: isize,
    info: Option<Retained<AnyObject>>,
    /// In words, where the information does not say it.
    description: Option<Retained<NSString>>,
}

define_class!(
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "NSError"]
    #[ivars = State]
    pub(super) struct Failure;

    unsafe impl NSObjectProtocol for Failure {}

    impl Failure {
        #[unsafe(method_id(initWithDomain:code:userInfo:))]
        fn init(this: Allocated<Self>, domain: &NSString, code: isize, info: Option<&AnyObject>) -> Retained<Self> {
            finish(this, domain, code, info, None)
        }

        #[unsafe(method_id(errorWithDomain:code:userInfo:))]
        fn with(domain: &NSString, code: isize, info: Option<&AnyObject>) -> Retained<Self> {
            finish(Failure::alloc(), domain, code, info, None)
        }

        #[unsafe(method_id(domain))]
        fn domain(&self) -> Retained<NSString> {
            self.ivars().domain.clone()
        }

        #[unsafe(method(code))]
        fn code(&self) -> isize {
            self.ivars().code
        }

        #[unsafe(method_id(userInfo))]
        fn info(&self) -> Retained<AnyObject> {
            self.ivars().info.clone().unwrap_or_else(|| dictionary::empty().into())
        }

        #[unsafe(method_id(localizedDescription))]
        fn description_for_people(&self) -> Retained<NSString> {
            self.words()
        }

        #[unsafe(method_id(description))]
        fn description(&self) -> Retained<NSString> {
            let State { domain, code, .. } = self.ivars();
            NSString::from_str(&format!("Error Domain={domain} Code={code} \"{}\"", self.words()))
        }

        #[unsafe(method(isEqual:))]
        fn is_equal(&self, other: Option<&AnyObject>) -> bool {
            let other = other.filter(|other| std::ptr::eq(other.class(), Failure::class()));
            other.is_some_and(|other| {
                // SAFETY: its class is this one.
                let other = unsafe { &*std::ptr::from_ref(other).cast::<Failure>() };
                other.ivars().code == self.ivars().code && other.ivars().domain == self.ivars().domain
            })
        }

        #[unsafe(method(hash))]
        fn hash(&self) -> usize {
            self.ivars().code.unsigned_abs()
        }

        #[unsafe(method(copyWithZone:))]
        fn copy(&self, _zone: *mut NSZone) -> *mut Self {
            Retained::into_raw(self.retain())
        }
    }
);

// SAFETY: an error never changes.
unsafe impl Send for Failure {}
// SAFETY: an error never changes.
unsafe impl Sync for Failure {}

impl Failure {
    fn words(&self) -> Retained<NSString> {
        let State { domain, code, description, info } = self.ivars();
        let info = info.as_deref().and_then(Dictionary::of);
        if let Some(words) = info.and_then(|info| info.get(NSError::NSLocalizedDescriptionKey())) {
            // SAFETY: the interface says that this key leads to a string.
            return unsafe { Retained::cast_unchecked(words) };
        }
        let plain =
            || NSString::from_str(&format!("The operation couldn\u{2019}t be completed. ({domain} error {code}.)"));
        description.clone().unwrap_or_else(plain)
    }
}

fn finish(
    this: Allocated<Failure>,
    domain: &NSString,
    code: isize,
    info: Option<&AnyObject>,
    description: Option<Retained<NSString>>,
) -> Retained<Failure> {
    let this = this.set_ivars(State { domain: domain.retain(), code, info: info.map(Message::retain), description });
    // SAFETY: `init` of the root class takes nothing and returns its receiver.
    unsafe { msg_send![super(this), init] }
}

/// An error that says `why` to people.
pub fn error(domain: &str, code: isize, why: &str) -> Retained<NSError> {
    let failure = finish(Failure::alloc(), &NSString::from_str(domain), code, None, Some(NSString::from_str(why)));
    // SAFETY: this class is the one that is known as `NSError`.
    unsafe { Retained::cast_unchecked(failure) }
}
