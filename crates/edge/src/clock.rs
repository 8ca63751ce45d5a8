//! The clock by which waits give up under shuttle, which has no time: there only what a test lets pass passes, so that a
//! schedule replays.
//!
//! # Threads
//!
//! One sum for the process, of the standard library's: reading it is no point at which shuttle changes threads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static PASSED_NS: AtomicU64 = AtomicU64::new(0);

/// What the clock shows.
pub fn now() -> Instant {
    static ANCHOR: OnceLock<Instant> = OnceLock::new();
    *ANCHOR.get_or_init(Instant::now) + passed()
}

/// All the time that was let pass so far.
pub fn passed() -> Duration {
    Duration::from_nanos(PASSED_NS.load(Ordering::SeqCst))
}

/// Lets time pass.
pub fn let_pass(time: Duration) {
    // 2^64 nanoseconds are 584 years.
    PASSED_NS.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
}
