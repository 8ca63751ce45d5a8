//! A GPU as the process shares it: its address space, the range of its own memory, its doorbells and its registers.
//!
//! # Invariants
//!
//! 1. A GPU is opened once in a system's handle and kept as long as the handle lives: the kernel binds a process's addresses to
//!    the first render node that it names, for as long as the process lives.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rig_edge::{Fault, page_bytes};

use crate::abi::memory_flag as flag;
use crate::hal::{self, Chip};
use crate::kfd::{Failure, Handle, Kfd, Result};
use crate::raw::Raw;
use crate::spans::Spans;
use crate::sys::{Errno, Fd, Place};
use crate::topology::Node;

/// How many times its memory a GPU's range of addresses is, so that large buffers find room between others.
const RANGE_TIMES: u64 = 4;
/// What a range's length is rounded to, and its least.
const RANGE_STEP: u64 = 1 << 30;
/// The bytes of a process's doorbells on a GPU: 1024 of 8 bytes, which are mapped together.
const DOORBELLS_BYTES: usize = 8192;
/// The bits of a doorbell's offset that are its place among them.
const DOORBELL_PLACE: u64 = DOORBELLS_BYTES as u64 - 1;

/// A GPU, open.
pub(crate) struct Gpu {
    kfd: Arc<Kfd>,
    render: Fd,
    node: Node,
    chip: &'static dyn Chip,
    /// Where its own memory lies.
    range: (u64, u64),
    /// All addresses of the range, as they were reserved.
    reserved: (usize, usize),
    spans: Mutex<Spans>,
    doorbells: Mutex<Option<usize>>,
    /// The page of registers that flush the host's writes through the window.
    flush: OnceLock<(Handle, usize)>,
    /// Why the kernel runs nothing of this process on the GPU any more.
    lost: OnceLock<String>,
}

impl Gpu {
    /// Opens a GPU. The error is the reason, in words for a user.
    pub fn open(kfd: Arc<Kfd>, node: Node) -> std::result::Result<Gpu, String> {
        let chip = hal::chip(node.gfx_target_version).map_err(|name| {
            format!("the GPU is a {name}: this driver knows gfx1100, and others are not written yet")
        })?;
        let path = format!("/dev/dri/renderD{}", node.drm_render_minor);
        let render = kfd.port().open(&path).map_err(|errno| match errno {
            Errno::ACCES | Errno::PERM => {
                format!("no access to {path}: add the user to the group that owns it, often render")
            }
            other => format!("{path} does not open: {other}"),
        })?;
        let len = (node.vram.saturating_mul(RANGE_TIMES)).next_multiple_of(RANGE_STEP).max(RANGE_STEP);
        let reserved = kfd
            .reserve(len as usize)
            .map_err(|failure| failure.to_string())
            .inspect_err(|_| kfd.port().close(render))?;
        let gpu = Gpu {
            kfd,
            render,
            node,
            chip,
            range: (reserved as u64, reserved as u64 + len),
            reserved: (reserved, len as usize),
            spans: Mutex::new(Spans::new(reserved as u64, len)),
            doorbells: Mutex::new(None),
            flush: OnceLock::new(),
            lost: OnceLock::new(),
        };
        gpu.kfd.acquire_vm(render, gpu.id()).map_err(|failure| match failure.errno {
            Errno::BUSY => {
                "another part of this process has the GPU, such as HIP: a GPU has one user in a process".to_string()
            }
            _ => format!("the GPU's address space: {failure}"),
        })?;
        if gpu.node.window {
            // Without the page of registers, Mapped memory is the host's.
            let _ = gpu.map_flush();
        }
        Ok(gpu)
    }

    /// Maps the page of registers that flush the host's writes through the window.
    fn map_flush(&self) -> Result<()> {
        let len = page_bytes();
        let address = self.kfd.reserve(len)?;
        let flags = flag::MMIO_REMAP | flag::WRITABLE | flag::COHERENT;
        // SAFETY: the addresses were just reserved for it.
        #[expect(unsafe_code, reason = "the kernel gives the page of registers")]
        let made = unsafe { self.kfd.alloc(self.id(), address as u64, len as u64, flags, 0) };
        let mapped = made.and_then(|(handle, offset)| {
            // SAFETY: as above; the page of registers is mapped through the device file.
            #[expect(unsafe_code, reason = "maps the page of registers")]
            let mapped = unsafe { self.kfd.map_file(Place::Over(address), len, self.kfd.fd(), offset) };
            // SAFETY: nobody knows of it.
            #[expect(unsafe_code, reason = "gives the page back")]
            mapped.map(|address| (handle, address)).inspect_err(|_| drop(unsafe { self.kfd.free(handle) }))
        });
        // SAFETY: reserved above, and nothing is mapped there.
        #[expect(unsafe_code, reason = "gives addresses back")]
        let page = mapped.inspect_err(|_| unsafe { self.kfd.release(address, len) })?;
        let _ = self.flush.set(page);
        Ok(())
    }

    /// Gives the GPU the host's pages from `host` on, at `address`.
    ///
    /// # Safety
    ///
    /// `len` bytes of pages stay there until the handle is freed, and the addresses are the caller's.
    #[expect(unsafe_code, reason = "the GPU gets the host's pages")]
    pub unsafe fn wrap_at(&self, address: u64, host: *mut u8, len: usize) -> Result<Handle> {
        let flags = flag::USERPTR | flag::WRITABLE | flag::COHERENT | flag::NO_SUBSTITUTE;
        let user = host.expose_provenance() as u64;
        // SAFETY: the caller's promise.
        let (handle, _) = unsafe { self.kfd.alloc(self.id(), address, len as u64, flags, user) }?;
        self.kfd.map(handle, self.id()).inspect_err(|_| {
            // SAFETY: nobody knows of it.
            let _ = unsafe { self.kfd.free(handle) };
        })?;
        Ok(handle)
    }

    pub fn kfd(&self) -> &Arc<Kfd> {
        &self.kfd
    }

    pub fn render(&self) -> Fd {
        self.render
    }

    /// The kernel driver's number for it.
    pub fn id(&self) -> u32 {
        self.node.gpu_id
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    pub fn chip(&self) -> &'static dyn Chip {
        self.chip
    }

    /// The free addresses of its own memory.
    pub fn spans(&self) -> &Mutex<Spans> {
        &self.spans
    }

    /// Where its own memory lies: first address, and the one after the last.
    pub fn range(&self) -> (u64, u64) {
        self.range
    }

    /// Whether the host addresses memory of the GPU's, and can flush what it writes there.
    pub fn has_window(&self) -> bool {
        self.flush.get().is_some()
    }

    /// The register that flushes the host's writes through the window.
    pub fn flush_register(&self) -> Option<Raw> {
        let &(_, address) = self.flush.get()?;
        // SAFETY: the page of registers stays mapped as long as the GPU is open, and its system keeps it open.
        #[expect(unsafe_code, reason = "a register")]
        Some(unsafe { Raw::new(std::ptr::with_exposed_provenance_mut(address), 4) })
    }

    /// The address of a doorbell, whose page is mapped at the first.
    pub fn doorbell(&self, offset: u64) -> Result<usize> {
        let mut doorbells = self.doorbells.lock();
        let base = match *doorbells {
            Some(base) => base,
            None => {
                let (file, offset) = (self.kfd.fd(), offset & !DOORBELL_PLACE);
                // SAFETY: no place is given.
                #[expect(unsafe_code, reason = "maps the doorbells")]
                let base = unsafe { self.kfd.map_file(Place::Anywhere, DOORBELLS_BYTES, file, offset) }?;
                *doorbells.insert(base)
            }
        };
        Ok(base + (offset & DOORBELL_PLACE) as usize)
    }

    /// Whether this GPU's work can reach the memory of `other`.
    pub fn reaches(&self, other: &Gpu) -> bool {
        Arc::ptr_eq(&self.kfd, &other.kfd) && (self.id() == other.id() || self.node.links.contains(&other.node.number))
    }

    /// Notes that the kernel runs nothing of this process here any more; gives the reason that was first.
    pub fn lose(&self, why: String) -> &str {
        self.lost.get_or_init(|| why)
    }

    /// Why the kernel runs nothing of this process here any more, if so.
    pub fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// A call that failed, as a fault: for the reason that the GPU is lost, if it is.
    pub fn fault(&self, failure: &Failure) -> Fault {
        self.lost().map_or_else(|| Fault::new(failure.to_string()), Fault::new)
    }
}

#[expect(unsafe_code, reason = "gives back what the GPU had of the process")]
impl Drop for Gpu {
    fn drop(&mut self) {
        let kfd = &self.kfd;
        if let Some(&(handle, address)) = self.flush.get() {
            // SAFETY: no device of the GPU is left, which alone write the register.
            unsafe { kfd.release(address, page_bytes()) };
            // SAFETY: as above.
            let _ = unsafe { kfd.free(handle) };
        }
        if let Some(address) = *self.doorbells.get_mut() {
            // SAFETY: no queue of the GPU is left.
            unsafe { kfd.release(address, DOORBELLS_BYTES) };
        }
        // SAFETY: no memory of the GPU is left.
        unsafe { kfd.release(self.reserved.0, self.reserved.1) };
        kfd.port().close(self.render);
    }
}
