//! Locks and threads of the simulation: shuttle's where the schedule is to be replayed, else the standard library's.

use std::time::Duration;

#[cfg(not(rig_shuttle))]
mod imp {
    pub use std::sync::{Mutex, MutexGuard};
    pub use std::thread;

    pub fn block_on<F: Future>(future: F) -> F::Output {
        futures::executor::block_on(future)
    }
}

#[cfg(rig_shuttle)]
mod imp {
    pub use shuttle::future::block_on;
    pub use shuttle::sync::{Mutex, MutexGuard};
    pub use shuttle::thread;
}

pub use imp::{Mutex, MutexGuard, block_on, thread};

/// Takes a lock that guards plain bookkeeping.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// How much time has passed on the clock by which rig's waits give up. With real threads that is the system's, which tells no
/// seed apart: there hangs are not drawn.
pub fn passed() -> Duration {
    #[cfg(rig_shuttle)]
    return rig_edge::clock::passed();
    #[cfg(not(rig_shuttle))]
    Duration::ZERO
}

/// Lets time pass on that clock.
pub fn let_pass(time: Duration) {
    #[cfg(rig_shuttle)]
    rig_edge::clock::let_pass(time);
    #[cfg(not(rig_shuttle))]
    let _ = time;
}

/// Lets other threads go on: long enough that one of them may come in between.
pub fn pause() {
    for _ in 0..3 {
        thread::yield_now();
    }
}
