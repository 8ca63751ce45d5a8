//! Linux's calls.

use std::ffi::c_void;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use rustix::mm::{MapFlags, ProtFlags};

use super::{Errno, Fd, Place, Port, Protection};

/// The kernel of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct This;

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        Errno(errno.raw_os_error())
    }
}

fn of_std(error: &std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::IO.0))
}

/// A request whose argument is a struct of the kernel's.
struct Request {
    code: u32,
    argument: *mut u8,
}

// SAFETY: who makes a Request promises that the argument is what the code names; the output is the kernel's answer alone.
#[expect(unsafe_code, reason = "an ioctl is as safe as its caller says")]
unsafe impl Ioctl for Request {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.code as Opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument.cast()
    }

    unsafe fn output_from_ptr(answer: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(answer)
    }
}

/// The file of a number that the caller holds open.
#[expect(unsafe_code, reason = "names a file by its number")]
fn borrow(fd: &Fd) -> BorrowedFd<'_> {
    // SAFETY: a caller of a Port passes only files that it got from `open` and has not closed.
    unsafe { BorrowedFd::borrow_raw(fd.0) }
}

#[expect(unsafe_code, reason = "the system's calls")]
impl Port for This {
    fn open(&self, path: &str) -> Result<Fd, Errno> {
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Fd(file.into_raw_fd()))
    }

    fn close(&self, fd: Fd) {
        // SAFETY: the caller got it from `open`, and closes it once.
        drop(unsafe { OwnedFd::from_raw_fd(fd.0) });
    }

    unsafe fn ioctl(&self, fd: Fd, code: u32, argument: *mut u8) -> Result<i32, Errno> {
        // SAFETY: the caller's promise.
        Ok(unsafe { rustix::ioctl::ioctl(borrow(&fd), Request { code, argument }) }?)
    }

    unsafe fn mmap(
        &self,
        place: Place,
        len: usize,
        protection: Protection,
        file: Option<(Fd, u64)>,
    ) -> Result<usize, Errno> {
        let (address, fixed) = match place {
            Place::Anywhere => (0, MapFlags::empty()),
            Place::Over(address) => (address, MapFlags::FIXED),
        };
        let protection = match protection {
            Protection::None => ProtFlags::empty(),
            Protection::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let at = std::ptr::without_provenance_mut(address);
        let mapped = match file {
            Some((fd, offset)) => {
                // SAFETY: the caller's promise; what is mapped is the driver's, and reached through raw addresses alone.
                unsafe { rustix::mm::mmap(at, len, protection, fixed | MapFlags::SHARED, borrow(&fd), offset) }
            }
            None => {
                let flags = fixed | MapFlags::PRIVATE | MapFlags::NORESERVE;
                // SAFETY: as above.
                unsafe { rustix::mm::mmap_anonymous(at, len, protection, flags) }
            }
        }?;
        Ok(mapped.expose_provenance())
    }

    unsafe fn munmap(&self, address: usize, len: usize) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        Ok(unsafe { rustix::mm::munmap(std::ptr::with_exposed_provenance_mut(address), len) }?)
    }

    fn read_text(&self, path: &str) -> Result<String, Errno> {
        std::fs::read_to_string(path).map_err(|error| of_std(&error))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Errno> {
        let entries = std::fs::read_dir(path).map_err(|error| of_std(&error))?;
        Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }
}
