//! Whether this thread is inside a callback: a fill, or a kernel that the host runs.
//!
//! Drivers of the host mark the threads that run kernels, and rig marks a submit whose fills run inside its turn. Calls of
//! rig that could wait, take a turn or take stamps are Invalid there (C24).

use std::cell::Cell;
use std::marker::PhantomData;

#[cfg(not(rig_shuttle))]
std::thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

#[cfg(rig_shuttle)]
shuttle::thread_local! {
    static DEPTH: Cell<u32> = Cell::new(0);
}

/// Marks the thread as inside a callback until it is dropped.
#[derive(Debug)]
pub struct Guard {
    /// The mark is the thread's own: it is dropped where it was made.
    not_send: PhantomData<*const ()>,
}

/// Enters a callback. Callbacks nest.
#[inline]
pub fn enter() -> Guard {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    Guard { not_send: PhantomData }
}

/// Whether this thread is inside a callback.
#[inline]
pub fn inside() -> bool {
    DEPTH.with(|depth| depth.get() > 0)
}

impl Drop for Guard {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

#[cfg(all(test, not(rig_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn callbacks_nest_and_are_the_threads_own() {
        assert!(!inside());
        let outer = enter();
        drop(enter());
        assert!(inside());
        std::thread::spawn(|| assert!(!inside())).join().unwrap();
        drop(outer);
        assert!(!inside());
    }
}
