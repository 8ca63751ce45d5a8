//! Locks, atomics and threads: the standard library's, or shuttle's in the protocol's tests.
//!
//! Locks here have no poison: what they guard is plain bookkeeping, and a panic of a test's is told by the test.

use std::time::Duration;

#[cfg(not(rig_shuttle))]
mod imp {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread;
}

#[cfg(rig_shuttle)]
mod imp {
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread;
}

pub(crate) use imp::thread;

/// A mutex without poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

pub(crate) type MutexGuard<'a, T> = imp::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
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
    pub(crate) fn new() -> Condvar {
        Condvar(imp::Condvar::new())
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
