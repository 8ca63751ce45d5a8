//! Autorelease pools: each thread's stack of objects to release later, and of the places where its pools begin.
//!
//! An object that is autoreleased where the thread has no pool is counted and leaks, as Apple's runtime warns that it
//! does. A pool that is not the innermost when it ends takes those within it along.

use std::{cell::UnsafeCell, ffi::c_void, ptr, sync::atomic::Ordering};

use super::{misuse, object::Object, object_calls::release};
use crate::live;

/// The pools of a thread. A pool's token is its place in `begins`, counted from one.
struct Pools {
    objects: Vec<Object>,
    begins: Vec<usize>,
}

impl Drop for Pools {
    /// The thread ends, and some pool of its did not: what it holds leaks.
    fn drop(&mut self) {
        live::UNPOOLED.fetch_add(self.objects.len(), Ordering::Relaxed);
    }
}

thread_local! {
    static POOLS: UnsafeCell<Pools> = const { UnsafeCell::new(Pools { objects: Vec::new(), begins: Vec::new() }) };
}

/// Does something to this thread's pools; nothing once they are gone, at the thread's end.
fn with<R>(action: impl FnOnce(&mut Pools) -> R) -> Option<R> {
    POOLS
        .try_with(|pools| {
            // SAFETY: only this thread reaches them, and no action of this module runs foreign code, so none is nested.
            action(unsafe { &mut *pools.get() })
        })
        .ok()
}

/// Releases the object when the innermost pool ends.
pub(crate) fn autorelease(object: Object) {
    let pooled = with(|pools| {
        if pools.begins.is_empty() {
            return false;
        }
        pools.objects.push(object);
        true
    });
    if pooled != Some(true) {
        live::UNPOOLED.fetch_add(1, Ordering::Relaxed);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_autoreleasePoolPush() -> *mut c_void {
    let token = with(|pools| {
        pools.begins.push(pools.objects.len());
        pools.begins.len()
    });
    ptr::without_provenance_mut(token.unwrap_or(usize::MAX))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_autoreleasePoolPop(token: *mut c_void) {
    let token = token.addr();
    let Some(depth) = with(|pools| pools.begins.len()) else { return };
    if token == 0 || token > depth {
        misuse(format_args!("the end of autorelease pool {token}, where the thread has {depth}"));
    }
    // What is autoreleased by what is released here belongs to the same pool.
    while let Some(object) = with(|pools| next(pools, token)).flatten() {
        release(object);
    }
}

/// The newest object of the pool, or of those within it. The pool ends where it has none.
fn next(pools: &mut Pools, token: usize) -> Option<Object> {
    let begin = *pools.begins.get(token - 1)?;
    if pools.objects.len() > begin {
        return pools.objects.pop();
    }
    pools.begins.truncate(token - 1);
    None
}
