//! The part of Foundation that Metal's interface uses: strings, errors, exceptions, collections, the process.
//!
//! Each class is an ordinary one, built by `define_class!` under its real name and exported under the symbol by which
//! objc2-foundation names it. Its methods are those of Apple's interface that objc2-foundation calls, and the few that
//! programs call besides.

mod array;
mod dictionary;
mod error;
mod exception;
mod process;
mod string;

pub use error::error;
pub use exception::exception;
pub(crate) use process::uptime;
pub use process::version_comes_from;

use objc2::{msg_send, rc::Retained, runtime::AnyObject};
use objc2_foundation::NSString;

/// Whether an object calls the other its equal.
fn equal(one: &AnyObject, other: &AnyObject) -> bool {
    // SAFETY: every object answers this, with these types.
    unsafe { msg_send![one, isEqual: other] }
}

fn hashed(object: &AnyObject) -> usize {
    // SAFETY: every object answers this, with this type.
    unsafe { msg_send![object, hash] }
}

/// A copy, as a dictionary makes of its keys.
fn copied(object: &AnyObject) -> Retained<AnyObject> {
    // SAFETY: every object answers this, with this type; one whose class cannot copy throws.
    unsafe { msg_send![object, copy] }
}

/// What an object says of itself.
fn description(object: &AnyObject) -> Retained<NSString> {
    // SAFETY: every object answers this, with this type.
    unsafe { msg_send![object, description] }
}
