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
///
/// ```
/// use rig_edge::callback;
///
/// /// A driver of the host marks its thread for as long as a kernel runs on it.
/// fn run(kernel: impl FnOnce()) {
///     let _guard = callback::enter();
///     kernel();
/// }
/// run(|| assert!(callback::inside()));
/// assert!(!callback::inside());
/// ```
#[derive(Debug)]
pub struct Guard {
    /// The mark is the thread's own: it is dropped where it was made.
    not_send: PhantomData<*const ()>,
}

/// Enters a callback. Callbacks nest.
///
/// ```
/// use rig_edge::callback::{enter, inside};
///
/// let outer = enter();
/// drop(enter());
/// assert!(inside(), "the outer one goes on");
/// drop(outer);
/// assert!(!inside());
/// ```
#[inline]
pub fn enter() -> Guard {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    Guard { not_send: PhantomData }
}

/// Whether this thread is inside a callback.
///
/// ```
/// use rig_edge::callback::{enter, inside};
///
/// /// A call of a driver's own that waits for its device.
/// fn flush() -> Result<(), String> {
///     if inside() {
///         return Err("flush waits: call it from no kernel and no fill".into());
///     }
///     Ok(())
/// }
/// assert_eq!(flush(), Ok(()));
/// let _guard = enter();
/// assert!(flush().is_err());
/// ```
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
