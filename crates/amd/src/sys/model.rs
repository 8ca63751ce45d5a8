//! The software GPU's calls.

use rig_amd_model::Machine;

use super::{Errno, Fd, Place, Port, Protection};

/// `PROT_READ | PROT_WRITE`, and the flags of mmap, as Linux numbers them.
const READ_WRITE: i32 = 1 | 2;
const SHARED: i32 = 1;
const PRIVATE: i32 = 2;
const FIXED: i32 = 0x10;
const ANONYMOUS: i32 = 0x20;
const NORESERVE: i32 = 0x4000;

/// A machine with software GPUs.
pub(crate) struct Model(pub Machine);

#[expect(unsafe_code, reason = "the system's calls")]
impl Port for Model {
    fn open(&self, path: &str) -> Result<Fd, Errno> {
        self.0.open(path).map(Fd).map_err(Errno)
    }

    fn close(&self, fd: Fd) {
        self.0.close(fd.0);
    }

    unsafe fn ioctl(&self, fd: Fd, request: u32, argument: *mut u8) -> Result<i32, Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.0.ioctl(fd.0, request, argument) }.map_err(Errno)
    }

    unsafe fn mmap(
        &self,
        place: Place,
        len: usize,
        protection: Protection,
        file: Option<(Fd, u64)>,
    ) -> Result<usize, Errno> {
        let (address, fixed) = match place {
            Place::Anywhere => (0, 0),
            Place::Over(address) => (address, FIXED),
        };
        let protection = if protection == Protection::None { 0 } else { READ_WRITE };
        let flags = fixed | if file.is_some() { SHARED } else { PRIVATE | ANONYMOUS | NORESERVE };
        let (fd, offset) = file.map_or((None, 0), |(fd, offset)| (Some(fd.0), offset));
        // SAFETY: the caller's promise.
        unsafe { self.0.mmap(address, len, protection, flags, fd, offset) }.map_err(Errno)
    }

    unsafe fn munmap(&self, address: usize, len: usize) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.0.munmap(address, len) }.map_err(Errno)
    }

    fn read_text(&self, path: &str) -> Result<String, Errno> {
        self.0.read_text(path).map_err(Errno)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Errno> {
        self.0.list(path).map_err(Errno)
    }
}
