//! What ends the process. Each case runs in a child process: this test binary again, told by a variable to do the deed.

use std::{
    env,
    panic::AssertUnwindSafe,
    process::{Command, Output},
};

use block2::{Block, RcBlock};
use objc2::{
    ffi, msg_send,
    rc::{Retained, autoreleasepool},
    runtime::NSObject,
};

use crate::runtime::exception;

const DEED: &str = "RIG_RUNTIME_MISUSE";

/// The child's part of a test, and the parent's: what the deed must have said before it aborted.
fn aborts(name: &str, deed: impl FnOnce(), said: &[&str]) {
    if env::var_os(DEED).is_some() {
        // What aborts must not be taken for a panic.
        let _ = std::panic::catch_unwind(AssertUnwindSafe(deed));
        return;
    }
    let Output { status, stderr, .. } = child(&format!("misuse::{name}"));
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(std::os::unix::process::ExitStatusExt::signal(&status) == Some(6), "no abort: {status}, {stderr}");
    for part in said {
        assert!(stderr.contains(part), "{part:?} was not said: {stderr}");
    }
}

/// Runs a test's body where nothing has run before it: in a child process.
pub(super) fn in_a_child(name: &str, body: impl FnOnce()) {
    if env::var_os(DEED).is_some() {
        return body();
    }
    let output = child(name);
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// This program again, with one test of the runtime's to run.
fn child(name: &str) -> Output {
    let tests = module_path!().split_once("::").unwrap().1.rsplit_once("::").unwrap().0;
    let mut child = Command::new(env::current_exe().unwrap());
    child.args([&format!("{tests}::{name}"), "--exact", "--nocapture", "--test-threads=1"]);
    child.env(DEED, "1").env("RUST_BACKTRACE", "0").output().unwrap()
}

fn freed() -> *mut NSObject {
    let object = NSObject::new();
    let pointer = Retained::as_ptr(&object).cast_mut();
    drop(object);
    pointer
}

#[test]
fn a_message_to_a_freed_object_names_class_and_selector() {
    let deed = || {
        // SAFETY: none: the object is freed. The runtime keeps its memory and ends the process.
        let _: usize = unsafe { msg_send![freed(), hash] };
    };
    aborts(
        "a_message_to_a_freed_object_names_class_and_selector",
        deed,
        &["message to a freed object: -[NSObject hash]"],
    );
}

#[test]
fn one_release_too_many_names_the_class() {
    let deed = || {
        // SAFETY: none, as above.
        unsafe { ffi::objc_release(freed().cast()) };
    };
    aborts("one_release_too_many_names_the_class", deed, &["release of a freed NSObject"]);
}

#[test]
fn a_retain_of_a_freed_object_names_the_class() {
    let deed = || {
        // SAFETY: none, as above.
        unsafe { ffi::objc_retain(freed().cast()) };
    };
    aborts("a_retain_of_a_freed_object_names_the_class", deed, &["retain of a freed NSObject"]);
}

#[test]
fn an_object_released_once_too_often_in_a_pool_is_found_when_the_pool_ends() {
    let deed = || {
        autoreleasepool(|_| {
            let object = NSObject::new();
            let pointer = Retained::as_ptr(&object).cast_mut();
            // SAFETY: none: the reference is given to the pool and dropped besides.
            unsafe { ffi::objc_autorelease(pointer.cast()) };
        });
    };
    let name = "an_object_released_once_too_often_in_a_pool_is_found_when_the_pool_ends";
    aborts(name, deed, &["release of a freed NSObject"]);
}

#[test]
fn the_call_of_a_freed_block_is_found() {
    let deed = || {
        let block = RcBlock::new(|| {});
        let pointer: *mut Block<dyn Fn()> = RcBlock::as_ptr(&block);
        drop(block);
        // SAFETY: none: the block is freed.
        unsafe { (*pointer).call(()) };
    };
    aborts("the_call_of_a_freed_block_is_found", deed, &["call of a freed block"]);
}

#[test]
fn one_release_of_a_block_too_many_is_found() {
    let deed = || {
        let block = RcBlock::new(|| {});
        // SAFETY: none: the reference is given back twice.
        drop(unsafe { RcBlock::from_raw(RcBlock::as_ptr(&block)) });
    };
    aborts("one_release_of_a_block_too_many_is_found", deed, &["release of a freed block"]);
}

#[test]
fn an_exception_that_nobody_catches_says_what_it_is() {
    let deed = || exception::raise("RigName", "a reason");
    aborts("an_exception_that_nobody_catches_says_what_it_is", deed, &["uncaught exception", "RigName", "a reason"]);
}

#[test]
fn a_pool_that_ended_before_cannot_end_again() {
    let deed = || {
        // SAFETY: the pool ends in the next line.
        let pool = unsafe { ffi::objc_autoreleasePoolPush() };
        // SAFETY: the pool of the line above.
        unsafe { ffi::objc_autoreleasePoolPop(pool) };
        // SAFETY: none: it has ended.
        unsafe { ffi::objc_autoreleasePoolPop(pool) };
    };
    aborts("a_pool_that_ended_before_cannot_end_again", deed, &["the end of autorelease pool 1"]);
}
