//! Caches.

#[derive(Debug, Default)]
pub(crate) struct GpuCaches {}
