//! The kernel driver's calls, with their structs filled in and their answers checked.
//!
//! Calls that give the kernel an address are safe where the address is one of the driver's own making, since the kernel
//! checks what it maps; the places that hand the host's memory over are unsafe and say what they owe.

use std::sync::Arc;

use crate::abi::{self, EventData, Request};
use crate::sys::{Errno, Fd, Place, Port, Protection};

/// The device file.
const PATH: &str = "/dev/kfd";
/// The oldest version of the interface: the one that sizes and checks queues as this driver does.
const VERSION_LEAST: (u32, u32) = (1, 6);
/// From this minor version on, memory is given out as dma-bufs.
const DMABUF_MINOR: u32 = 12;
/// From this minor version on, processes say that their work begins.
const RUNTIME_MINOR: u32 = 14;

/// A call that did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What was asked.
    pub call: &'static str,
    /// The answer.
    pub errno: Errno,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} answered: {}", self.call, self.errno)
    }
}

/// The answer of a call.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The kernel driver, open.
pub(crate) struct Kfd {
    port: Arc<dyn Port>,
    fd: Fd,
    minor: u32,
}

/// Memory, by the kernel driver's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub u64);

/// A wait for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// Some event is set.
    Set,
    /// The time is over.
    TimedOut,
    /// An event is gone.
    Gone,
}

impl Kfd {
    /// Opens the kernel driver. The error is the reason, in words for a user.
    pub fn open(port: Arc<dyn Port>) -> std::result::Result<Kfd, String> {
        let fd = port.open(PATH).map_err(|errno| match errno {
            Errno::NOENT => {
                format!("this machine has no {PATH}: the kernel's driver for AMD's GPUs (amdgpu) is not loaded")
            }
            Errno::ACCES | Errno::PERM => {
                format!("no access to {PATH}: add the user to the group that owns it, often render")
            }
            other => format!("{PATH} does not open: {other}"),
        })?;
        let mut kfd = Kfd { port, fd, minor: 0 };
        let mut version = abi::GetVersion::default();
        // SAFETY: the struct holds no address.
        #[expect(unsafe_code, reason = "asks the kernel")]
        unsafe { kfd.call(&mut version) }.map_err(|failure| failure.to_string())?;
        let is = (version.major_version, version.minor_version);
        if is.0 != VERSION_LEAST.0 || is < VERSION_LEAST {
            let (major, minor) = VERSION_LEAST;
            return Err(format!(
                "the kernel's driver for AMD's GPUs speaks version {}.{}: version {major}.{minor} or later of {major} is needed",
                is.0, is.1
            ));
        }
        kfd.minor = is.1;
        if kfd.minor >= RUNTIME_MINOR {
            // For debuggers alone: without it work runs as well.
            // SAFETY: the struct holds no address.
            #[expect(unsafe_code, reason = "asks the kernel")]
            let _ = unsafe { kfd.call(&mut abi::RuntimeEnable::default()) };
        }
        Ok(kfd)
    }

    pub fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// Whether memory can be given out as dma-bufs.
    pub fn exports(&self) -> bool {
        self.minor >= DMABUF_MINOR
    }

    /// Asks the kernel, again where a signal cut the call short.
    ///
    /// # Safety
    ///
    /// Every address and length in the struct is one that the request may use so.
    #[expect(unsafe_code, reason = "asks the kernel")]
    unsafe fn call<R: Request>(&self, argument: &mut R) -> Result<()> {
        loop {
            // SAFETY: the struct is the one that the code names; the rest is the caller's promise.
            match unsafe { self.port.ioctl(self.fd, R::CODE, std::ptr::from_mut(argument).cast()) } {
                // TIMEOUT: none of its own: each round ends by a signal, and the call goes on where it was.
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure { call: R::NAME, errno }),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Binds a render node's address space to the process's work on the GPU.
    pub fn acquire_vm(&self, render: Fd, gpu_id: u32) -> Result<()> {
        // SAFETY: the struct holds no address.
        #[expect(unsafe_code, reason = "asks the kernel")]
        unsafe {
            self.call(&mut abi::AcquireVm { drm_fd: render.0 as u32, gpu_id })
        }
    }

    /// Makes memory at `address`. Gives its handle, and where a file maps it.
    ///
    /// # Safety
    ///
    /// The addresses are the caller's to give; for memory of the host (`USERPTR`), `user` starts `len` bytes that stay until
    /// the handle is freed.
    #[expect(unsafe_code, reason = "the kernel maps what it is told")]
    pub unsafe fn alloc(&self, gpu_id: u32, address: u64, len: u64, flags: u32, user: u64) -> Result<(Handle, u64)> {
        let mut args = abi::AllocMemory { va_addr: address, size: len, handle: 0, mmap_offset: user, gpu_id, flags };
        // SAFETY: the caller's promise.
        unsafe { self.call(&mut args) }?;
        Ok((Handle(args.handle), args.mmap_offset))
    }

    /// Gives memory back.
    ///
    /// # Safety
    ///
    /// Nothing uses it, on any GPU.
    #[expect(unsafe_code, reason = "the kernel unmaps what it is told")]
    pub unsafe fn free(&self, handle: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.call(&mut abi::FreeMemory { handle: handle.0 }) }
    }

    /// Maps memory for a GPU.
    pub fn map(&self, handle: Handle, gpu_id: u32) -> Result<()> {
        let ids = [gpu_id];
        let mut args = abi::MapMemory {
            handle: handle.0,
            device_ids_array_ptr: ids.as_ptr().expose_provenance() as u64,
            n_devices: 1,
            n_success: 0,
        };
        // SAFETY: the array outlives the call and has one number.
        #[expect(unsafe_code, reason = "asks the kernel")]
        unsafe { self.call(&mut args) }?;
        if args.n_success == 1 { Ok(()) } else { Err(Failure { call: "MapMemory", errno: Errno::NOMEM }) }
    }

    /// Takes memory from a GPU.
    ///
    /// # Safety
    ///
    /// No work of the GPU uses it.
    #[expect(unsafe_code, reason = "the kernel unmaps what it is told")]
    pub unsafe fn unmap(&self, handle: Handle, gpu_id: u32) -> Result<()> {
        let ids = [gpu_id];
        let mut args = abi::UnmapMemory {
            handle: handle.0,
            device_ids_array_ptr: ids.as_ptr().expose_provenance() as u64,
            n_devices: 1,
            n_success: 0,
        };
        // SAFETY: the array outlives the call and has one number; the rest is the caller's promise.
        unsafe { self.call(&mut args) }
    }

    /// Makes a queue of what the struct says, and fills in its number and its doorbell.
    ///
    /// # Safety
    ///
    /// The memory that the struct names is the queue's own, of the sizes that it names, until the queue is destroyed.
    #[expect(unsafe_code, reason = "the GPU reads and writes what it is told")]
    pub unsafe fn create_queue(&self, args: &mut abi::CreateQueue) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.call(args) }
    }

    /// Ends a queue and what runs on it: once it has returned, nothing of it runs.
    pub fn destroy_queue(&self, queue_id: u32) -> Result<()> {
        // SAFETY: the struct holds no address.
        #[expect(unsafe_code, reason = "asks the kernel")]
        unsafe {
            self.call(&mut abi::DestroyQueue { queue_id, pad: 0 })
        }
    }

    /// The clock of a GPU, now.
    pub fn clock(&self, gpu_id: u32) -> Result<u64> {
        let mut args = abi::GetClockCounters { gpu_id, ..abi::GetClockCounters::default() };
        // SAFETY: the struct holds no address.
        #[expect(unsafe_code, reason = "asks the kernel")]
        unsafe { self.call(&mut args) }?;
        Ok(args.gpu_clock_counter)
    }

    /// Makes an event that takes itself back when a wait has seen it; `page` is the handle of the page of slots, for the
    /// first of the process. Gives its number and its slot.
    pub fn create_event(&self, event_type: u32, page: Option<Handle>) -> Result<(u32, u32)> {
        let mut args = abi::CreateEvent {
            event_page_offset: page.map_or(0, |handle| handle.0),
            event_type,
            auto_reset: 1,
            ..abi::CreateEvent::default()
        };
        // SAFETY: the page is memory by its handle, which the kernel keeps.
        #[expect(unsafe_code, reason = "asks the kernel")]
        unsafe { self.call(&mut args) }?;
        Ok((args.event_id, args.event_slot_index))
    }

    /// Ends an event. Waits for it end.
    pub fn destroy_event(&self, event_id: u32) -> Result<()> {
        // SAFETY: the struct holds no address.
        #[expect(unsafe_code, reason = "asks the kernel")]
        unsafe {
            self.call(&mut abi::DestroyEvent { event_id, pad: 0 })
        }
    }

    /// Waits until one of the events is set, at most for `timeout_ms`.
    pub fn wait_events(&self, events: &mut [EventData], timeout_ms: u32) -> Result<Waited> {
        let mut args = abi::WaitEvents {
            events_ptr: events.as_mut_ptr().expose_provenance() as u64,
            num_events: events.len() as u32,
            wait_for_all: 0,
            timeout: timeout_ms,
            wait_result: 0,
        };
        // SAFETY: the events outlive the call, and there are that many.
        #[expect(unsafe_code, reason = "asks the kernel")]
        unsafe { self.call(&mut args) }?;
        Ok(match args.wait_result {
            0 => Waited::Set,
            1 => Waited::TimedOut,
            _ => Waited::Gone,
        })
    }

    /// Gives memory out as a dma-buf.
    pub fn export(&self, handle: Handle) -> Result<i32> {
        const CLOSE_ON_EXEC_READ_WRITE: u32 = 0o2_000_000 | 2;
        let mut args = abi::ExportDmabuf { handle: handle.0, flags: CLOSE_ON_EXEC_READ_WRITE, dmabuf_fd: 0 };
        // SAFETY: the struct holds no address.
        #[expect(unsafe_code, reason = "asks the kernel")]
        unsafe { self.call(&mut args) }?;
        Ok(args.dmabuf_fd as i32)
    }

    /// Keeps `len` bytes of addresses that hold no memory.
    pub fn reserve(&self, len: usize) -> Result<usize> {
        // SAFETY: no place is given.
        #[expect(unsafe_code, reason = "maps addresses")]
        let mapped = unsafe { self.port.mmap(Place::Anywhere, len, Protection::None, None) };
        mapped.map_err(|errno| Failure { call: "mmap", errno })
    }

    /// Gives addresses back, and what is mapped there.
    ///
    /// # Safety
    ///
    /// `reserve` gave them, and nothing uses them.
    #[expect(unsafe_code, reason = "unmaps addresses")]
    pub unsafe fn release(&self, address: usize, len: usize) {
        // SAFETY: the caller's promise. An error leaves addresses taken, and no more.
        let _ = unsafe { self.port.munmap(address, len) };
    }

    /// Maps `len` bytes of a file for the host, over addresses that `reserve` gave or anywhere.
    ///
    /// # Safety
    ///
    /// A place that is given is the caller's, and nothing uses what is mapped there.
    #[expect(unsafe_code, reason = "maps memory")]
    pub unsafe fn map_file(&self, place: Place, len: usize, file: Fd, offset: u64) -> Result<usize> {
        // SAFETY: the caller's promise.
        let mapped = unsafe { self.port.mmap(place, len, Protection::ReadWrite, Some((file, offset))) };
        mapped.map_err(|errno| Failure { call: "mmap", errno })
    }

    /// The device file, to map doorbells and registers of.
    pub fn fd(&self) -> Fd {
        self.fd
    }
}

impl Drop for Kfd {
    fn drop(&mut self) {
        self.port.close(self.fd);
    }
}
