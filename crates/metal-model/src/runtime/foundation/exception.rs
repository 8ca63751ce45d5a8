//! `NSException`: what is thrown, with its name and its reason.

use objc2::{
    AllocAnyThread, ClassType, DefinedClass, Message, define_class, msg_send,
    rc::{Allocated, Retained},
    runtime::{AnyObject, NSObject, NSObjectProtocol, NSZone},
};
use objc2_foundation::{NSException, NSString};

use crate::runtime::{class::export_class, exception};

export_class!("NSException", || {
    Raised::class();
});

pub(super) struct State {
    name: Retained<NSString>,
    reason: Option<Retained<NSString>>,
    info: Option<Retained<AnyObject>>,
}

define_class!(
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "NSException"]
    #[ivars = State]
    pub(super) struct Raised;

    unsafe impl NSObjectProtocol for Raised {}

    impl Raised {
        #[unsafe(method_id(initWithName:reason:userInfo:))]
        fn init(
            this: Allocated<Self>,
            name: &NSString,
            reason: Option<&NSString>,
            info: Option<&AnyObject>,
        ) -> Retained<Self> {
            finish(this, name, reason, info)
        }

        #[unsafe(method_id(exceptionWithName:reason:userInfo:))]
        fn with(name: &NSString, reason: Option<&NSString>, info: Option<&AnyObject>) -> Retained<Self> {
            finish(Raised::alloc(), name, reason, info)
        }

        #[unsafe(method_id(name))]
        fn name(&self) -> Retained<NSString> {
            self.ivars().name.clone()
        }

        #[unsafe(method_id(reason))]
        fn reason(&self) -> Option<Retained<NSString>> {
            self.ivars().reason.clone()
        }

        #[unsafe(method_id(userInfo))]
        fn info(&self) -> Option<Retained<AnyObject>> {
            self.ivars().info.clone()
        }

        #[unsafe(method_id(description))]
        fn description(&self) -> Retained<NSString> {
            self.ivars().reason.clone().unwrap_or_else(|| self.ivars().name.clone())
        }

        #[unsafe(method(raise))]
        fn raise(&self) {
            // SAFETY: this class is the one that is known as `NSException`.
            let raised = unsafe { Retained::cast_unchecked::<NSException>(self.retain()) };
            exception::throw(NSException::into_exception(raised))
        }

        #[unsafe(method(copyWithZone:))]
        fn copy(&self, _zone: *mut NSZone) -> *mut Self {
            Retained::into_raw(self.retain())
        }
    }
);

fn finish(
    this: Allocated<Raised>,
    name: &NSString,
    reason: Option<&NSString>,
    info: Option<&AnyObject>,
) -> Retained<Raised> {
    let (reason, info) = (reason.map(Message::retain), info.map(Message::retain));
    let this = this.set_ivars(State { name: name.retain(), reason, info });
    // SAFETY: `init` of the root class takes nothing and returns its receiver.
    unsafe { msg_send![super(this), init] }
}

/// An `NSException`, not thrown yet.
pub fn exception(name: &str, reason: &str) -> Retained<NSException> {
    let raised = finish(Raised::alloc(), &NSString::from_str(name), Some(&NSString::from_str(reason)), None);
    // SAFETY: this class is the one that is known as `NSException`.
    unsafe { Retained::cast_unchecked(raised) }
}
