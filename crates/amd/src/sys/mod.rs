//! The system's calls, one trait wide: everything above is the code that ships, whether the kernel stands below or the
//! software GPU.
//!
//! # Threads
//!
//! Every call may come from any thread.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(target_os = "linux", feature = "model"))]
mod model;
#[cfg(not(target_os = "linux"))]
mod nowhere;
#[cfg(any(test, feature = "fuzz"))]
mod played;

use std::fmt;

#[cfg(target_os = "linux")]
pub(crate) use linux::This;
#[cfg(all(target_os = "linux", feature = "model"))]
pub(crate) use model::Model;
#[cfg(not(target_os = "linux"))]
pub(crate) use nowhere::This;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use played::Played;

/// A file that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fd(pub i32);

/// Why the system did not do what it was asked: one of the numbers that Linux has for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub i32);

impl Errno {
    pub const PERM: Errno = Errno(1);
    pub const NOENT: Errno = Errno(2);
    pub const INTR: Errno = Errno(4);
    pub const IO: Errno = Errno(5);
    pub const AGAIN: Errno = Errno(11);
    pub const NOMEM: Errno = Errno(12);
    pub const ACCES: Errno = Errno(13);
    pub const FAULT: Errno = Errno(14);
    pub const BUSY: Errno = Errno(16);
    pub const NODEV: Errno = Errno(19);
    pub const INVAL: Errno = Errno(22);
    pub const NOSPC: Errno = Errno(28);

    /// What the number means, and its name.
    fn words(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Errno::PERM => ("not permitted", "EPERM"),
            Errno::NOENT => ("there is no such thing", "ENOENT"),
            Errno::INTR => ("interrupted", "EINTR"),
            Errno::IO => ("the device did not answer", "EIO"),
            Errno::AGAIN => ("not now", "EAGAIN"),
            Errno::NOMEM => ("no memory", "ENOMEM"),
            Errno::ACCES => ("no access", "EACCES"),
            Errno::FAULT => ("a bad address", "EFAULT"),
            Errno::BUSY => ("busy", "EBUSY"),
            Errno::NODEV => ("there is no such device", "ENODEV"),
            Errno::INVAL => ("the kernel takes no such request", "EINVAL"),
            Errno::NOSPC => ("no room left", "ENOSPC"),
            _ => return None,
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            Some((meaning, name)) => write!(f, "{meaning} ({name})"),
            None => write!(f, "error {} of the system", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How memory may be touched by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Not at all: addresses that are kept free.
    None,
    /// Read and written.
    ReadWrite,
}

/// Where a mapping goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where the system finds room.
    Anywhere,
    /// Here, over what the process itself mapped here.
    Over(usize),
}

/// The system's calls.
#[expect(unsafe_code, reason = "the caller of the unsafe calls owes what their docs state")]
pub(crate) trait Port: Send + Sync {
    /// Opens a file to read and write.
    fn open(&self, path: &str) -> Result<Fd, Errno>;

    /// Closes a file.
    fn close(&self, fd: Fd);

    /// Asks a driver of the kernel.
    ///
    /// # Safety
    ///
    /// `argument` is the struct that the request names, and every address and length in it is one that the request may use
    /// so.
    unsafe fn ioctl(&self, fd: Fd, request: u32, argument: *mut u8) -> Result<i32, Errno>;

    /// Maps `len` bytes: of a file from `offset` on, or, without one, addresses that hold no memory.
    ///
    /// # Safety
    ///
    /// A place that is given was mapped by the caller, and nothing uses what was there.
    unsafe fn mmap(
        &self,
        place: Place,
        len: usize,
        protection: Protection,
        file: Option<(Fd, u64)>,
    ) -> Result<usize, Errno>;

    /// Ends a mapping.
    ///
    /// # Safety
    ///
    /// The caller mapped it, and nothing uses it.
    unsafe fn munmap(&self, address: usize, len: usize) -> Result<(), Errno>;

    /// The text of a small file.
    fn read_text(&self, path: &str) -> Result<String, Errno>;

    /// The names in a folder, in any order.
    fn list(&self, path: &str) -> Result<Vec<String>, Errno>;
}
