//! The threads that run kernels.

use std::sync::Arc;

/// A pool of threads that run the groups of dispatches. A clone is another handle to the same pool.
#[derive(Clone, Debug)]
pub struct Workers(Arc<usize>);

impl Workers {
    /// A pool of `threads` threads, at least one. They end with the last handle.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self(Arc::new(threads.max(1)))
    }

    /// How many threads it has.
    #[must_use]
    pub fn threads(&self) -> usize {
        *self.0
    }
}
