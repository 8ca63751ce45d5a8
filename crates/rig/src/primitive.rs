//! Locks, atomics and threads: the standard library's, or shuttle's in the protocol's tests.
//!
//! Locks here have no poison: a panic under one is either caught and loses a device, or is a bug of rig's own that leaves
//! plain bookkeeping behind.

use std::time::{Duration, Instant};

#[cfg(not(rig_shuttle))]
mod imp {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub(crate) use std::thread;
}

#[cfg(rig_shuttle)]
mod imp {
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub(crate) use shuttle::thread;
}

pub(crate) use imp::{atomic, thread};

/// A mutex without poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

pub(crate) type MutexGuard<'a, T> = imp::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// A condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Condvar(imp::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Condvar {
        Condvar(imp::Condvar::new())
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(|poison| poison.into_inner())
    }

    /// Waits until notified, at the latest for `limit`. Shuttle has no time: there it waits until notified.
    pub(crate) fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout(guard, limit);
        waited.unwrap_or_else(|poison| poison.into_inner()).0
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock of one byte with no guard, so that a submit can hold as many as its run has buffers without allocating.
#[cfg(not(rig_shuttle))]
pub(crate) struct RawLock(parking_lot::RawMutex);

#[cfg(not(rig_shuttle))]
impl RawLock {
    pub(crate) const fn new() -> RawLock {
        RawLock(<parking_lot::RawMutex as parking_lot::lock_api::RawMutex>::INIT)
    }

    #[inline]
    pub(crate) fn lock(&self) {
        // The guard state says only that a lock stays on its thread, which `unlock` demands of its caller.
        let _ = parking_lot::lock_api::RawMutex::lock(&self.0);
    }

    /// Takes the lock if nobody holds it.
    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        parking_lot::lock_api::RawMutex::try_lock(&self.0).is_some()
    }

    /// # Safety
    ///
    /// The calling thread holds the lock.
    #[inline]
    #[expect(unsafe_code, reason = "the lock has no guard")]
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock, taken on this thread by `lock`, whose state was this empty mark.
        unsafe { parking_lot::lock_api::RawMutex::unlock(&self.0, parking_lot::lock_api::GuardNoSend::new()) };
    }
}

#[cfg(rig_shuttle)]
pub(crate) struct RawLock(Mutex<bool>, Condvar);

#[cfg(rig_shuttle)]
impl RawLock {
    pub(crate) const fn new() -> RawLock {
        RawLock(Mutex::new(false), Condvar::new())
    }

    pub(crate) fn lock(&self) {
        let mut held = self.0.lock();
        while *held {
            held = self.1.wait(held);
        }
        *held = true;
    }

    pub(crate) fn try_lock(&self) -> bool {
        !std::mem::replace(&mut *self.0.lock(), true)
    }

    /// # Safety
    ///
    /// The calling thread holds the lock.
    #[expect(unsafe_code, reason = "the same contract as the real lock's")]
    pub(crate) unsafe fn unlock(&self) {
        *self.0.lock() = false;
        self.1.notify_all();
    }
}

/// The clock by which waits give up. Shuttle has no time: there only what its test lets pass passes, so that it replays.
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(not(rig_shuttle))]
    return Instant::now();
    #[cfg(rig_shuttle)]
    rig_edge::clock::now()
}

/// Lets another thread go on: a hint to the core, or a step of shuttle's scheduler.
#[inline]
pub(crate) fn spin_loop() {
    #[cfg(not(rig_shuttle))]
    std::hint::spin_loop();
    #[cfg(rig_shuttle)]
    shuttle::hint::spin_loop();
}

/// A process-wide value, made at its first use; in shuttle's tests, one for each execution.
#[cfg(not(rig_shuttle))]
macro_rules! process_wide {
    ($(#[$doc:meta])* $vis:vis fn $name:ident() -> $type:ty { $init:expr }) => {
        $(#[$doc])*
        #[inline]
        $vis fn $name() -> &'static $type {
            static VALUE: std::sync::LazyLock<$type> = std::sync::LazyLock::new(|| $init);
            &VALUE
        }
    };
}

#[cfg(rig_shuttle)]
macro_rules! process_wide {
    ($(#[$doc:meta])* $vis:vis fn $name:ident() -> $type:ty { $init:expr }) => {
        $(#[$doc])*
        $vis fn $name() -> &'static $type {
            shuttle::lazy_static! { static ref VALUE: $type = $init; }
            &VALUE
        }
    };
}

/// A thread's own cell.
#[cfg(not(rig_shuttle))]
macro_rules! thread_own {
    ($(#[$doc:meta])* static $name:ident: $type:ty = $init:expr;) => {
        std::thread_local! { $(#[$doc])* static $name: $type = const { $init }; }
    };
}

#[cfg(rig_shuttle)]
macro_rules! thread_own {
    ($(#[$doc:meta])* static $name:ident: $type:ty = $init:expr;) => {
        shuttle::thread_local! { $(#[$doc])* static $name: $type = $init; }
    };
}

pub(crate) use {process_wide, thread_own};
