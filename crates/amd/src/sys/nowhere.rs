//! A system whose kernel drives no AMD GPU.

use super::{Errno, Fd, Place, Port, Protection};

/// The kernel of this machine, which has none of the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct This;

#[expect(unsafe_code, reason = "the system's calls")]
impl Port for This {
    fn open(&self, _: &str) -> Result<Fd, Errno> {
        Err(Errno::NOENT)
    }

    fn close(&self, _: Fd) {}

    unsafe fn ioctl(&self, _: Fd, _: u32, _: *mut u8) -> Result<i32, Errno> {
        Err(Errno::NODEV)
    }

    unsafe fn mmap(&self, _: Place, _: usize, _: Protection, _: Option<(Fd, u64)>) -> Result<usize, Errno> {
        Err(Errno::NOMEM)
    }

    unsafe fn munmap(&self, _: usize, _: usize) -> Result<(), Errno> {
        Err(Errno::INVAL)
    }

    fn read_text(&self, _: &str) -> Result<String, Errno> {
        Err(Errno::NOENT)
    }

    fn list(&self, _: &str) -> Result<Vec<String>, Errno> {
        Err(Errno::NOENT)
    }
}
