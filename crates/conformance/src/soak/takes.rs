//! What the process takes, as the system tells it.

/// Bytes, files and threads; zeros where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Takes {
    pub bytes: u64,
    pub files: u64,
    pub threads: u64,
}

impl Takes {
    pub fn now() -> Takes {
        let count = |path: &str| std::fs::read_dir(path).map_or(0, |entries| entries.count() as u64);
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
        let bytes = pages * rig_edge::page_bytes() as u64;
        Takes { bytes, files: count("/proc/self/fd"), threads: count("/proc/self/task") }
    }

    /// Whether files and threads are as many.
    pub fn same_handles(self, other: Takes) -> bool {
        (self.files, self.threads) == (other.files, other.threads)
    }

    pub fn most(self, other: Takes) -> Takes {
        Takes {
            bytes: self.bytes.max(other.bytes),
            files: self.files.max(other.files),
            threads: self.threads.max(other.threads),
        }
    }
}
