//! When values ran, while a profile is taken.

use std::sync::Arc;

use crate::state::Shared;

/// When a value's work ran on the GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// The value.
    pub value: u64,
    /// When its first command buffer started, in seconds of the host's clock since the system started.
    pub start: f64,
    /// When its last command buffer ended.
    pub end: f64,
}

/// A profile that is being taken, until it is dropped: each value's work has command buffers of its own, which are committed
/// at once, so it costs the device its batching.
pub struct Profile {
    shared: Arc<Shared>,
}

impl Profile {
    /// Starts one, unless another is being taken.
    pub(crate) fn start(shared: &Arc<Shared>) -> Option<Profile> {
        let mut state = shared.lock();
        if state.profile.is_some() {
            return None;
        }
        state.profile = Some(Vec::new());
        Some(Profile { shared: Arc::clone(shared) })
    }

    /// The times of the values that have completed since the last call. A value's times are there before its point is reached.
    pub fn take(&self) -> Vec<Times> {
        self.shared.lock().profile.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        self.shared.lock().profile = None;
    }
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Profile")
    }
}
