//! The machine: the kernel's calls as methods, and the thread that runs the queues.
//!
//! # Invariants
//!
//! 1. All state is behind one lock, [`Core`]. The engine's thread takes it for a bounded number of steps at a time; a call
//!    of the host's takes it once.
//! 2. The thread runs from the first to the last handle of the machine, and looks at the doorbells while any queue stands.
//! 3. Nothing is read from a caller's memory but what the call that is served names, and what is mapped for a GPU.

use crate::errno;
use crate::options::{Builder, Options};
use crate::raw::{self, Place};
use crate::state::Core;
use crate::topology;
use crate::trap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A computer with software GPUs: a handle, which clones share.
#[derive(Clone, Debug)]
pub struct Machine {
    owner: Arc<Owner>,
}

#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the handles and the engine's thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Callers that wait for the lock: the engine lets them in between two batches.
    callers: AtomicUsize,
    /// Something changed for a caller that waits: an event, or progress.
    pub(crate) changed: Condvar,
    /// Something changed for the engine: a queue, the end of a hold, the end.
    wake: Condvar,
}

/// The calls that a fault can be planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the kernel's call of that name")]
#[non_exhaustive]
pub enum Call {
    Open,
    Mmap,
    GetVersion,
    CreateQueue,
    DestroyQueue,
    SetMemoryPolicy,
    GetClockCounters,
    CreateEvent,
    DestroyEvent,
    SetEvent,
    ResetEvent,
    WaitEvents,
    GetProcessApertures,
    AcquireVm,
    AllocMemory,
    FreeMemory,
    MapMemory,
    UnmapMemory,
    SetXnackMode,
    AvailableMemory,
    ExportDmabuf,
    RuntimeEnable,
}

impl Machine {
    /// A machine to be made: one gfx1100 GPU, unless told otherwise.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(options: Options) -> Self {
        let shared = Arc::new(Shared {
            core: Mutex::new(Core::new(options)),
            callers: AtomicUsize::new(0),
            changed: Condvar::new(),
            wake: Condvar::new(),
        });
        let engine = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("rig-amd-model".to_owned()).spawn(move || engine.run());
        let thread = Mutex::new(Some(thread.expect("the system has a thread for the engine")));
        Self { owner: Arc::new(Owner { shared, thread }) }
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.owner.shared.enter()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// open(2) of /dev/kfd or of a render node.
    ///
    /// # Errors
    ///
    /// The kernel's number: ENOENT for any other path, and what a test asked for.
    pub fn open(&self, path: &str) -> Result<i32, i32> {
        let mut core = self.core();
        core.faults.call(Call::Open)?;
        core.open(path)
    }

    /// close(2). A file that is not open is a violation.
    pub fn close(&self, fd: i32) {
        self.core().close(fd);
    }

    /// ioctl(2).
    ///
    /// # Errors
    ///
    /// The kernel's number.
    ///
    /// # Safety
    ///
    /// `argument` is the address of the struct that the request names, with the arrays that it names; pages of the caller's
    /// that become memory (USERPTR) stay mapped, readable and writable until they are freed.
    #[expect(unsafe_code, reason = "the kernel's call reads and writes what the caller's pointer names")]
    pub unsafe fn ioctl(&self, fd: i32, request: u32, argument: *mut u8) -> Result<i32, i32> {
        // SAFETY: the caller's promise is this function's.
        unsafe { crate::kfd::ioctl(self, fd, request, argument) }
    }

    /// mmap(2): of no file (a reservation), of a render node (a memory) or of /dev/kfd (doorbells, the page of events).
    ///
    /// # Errors
    ///
    /// The kernel's number.
    ///
    /// # Safety
    ///
    /// As of the kernel's mmap: with MAP_FIXED the caller owns what is replaced.
    #[expect(unsafe_code, reason = "it maps what the caller names")]
    pub unsafe fn mmap(
        &self,
        address: usize,
        len: usize,
        protection: i32,
        flags: i32,
        fd: Option<i32>,
        offset: u64,
    ) -> Result<usize, i32> {
        let mut core = self.core();
        core.faults.call(Call::Mmap)?;
        let place = Place { address, len, protection, flags };
        let mapped = match fd {
            // SAFETY: the caller's promise is that of mmap.
            None => unsafe { raw::map_anonymous(&place) }?,
            // SAFETY: the same.
            Some(fd) => unsafe { core.map_file(fd, &place, offset) }?,
        };
        core.host.insert(mapped, len);
        if let Some(gpu) = core.new_doorbells.take() {
            core.gpus[gpu].doorbells_at.push(mapped);
            self.trap(&core, mapped, len);
        }
        Ok(mapped)
    }

    /// munmap(2).
    ///
    /// # Errors
    ///
    /// The kernel's number; EINVAL and a violation for addresses that were not mapped here.
    ///
    /// # Safety
    ///
    /// As of the kernel's munmap: nothing uses the addresses any more.
    #[expect(unsafe_code, reason = "it unmaps what the caller names")]
    pub unsafe fn munmap(&self, address: usize, len: usize) -> Result<(), i32> {
        let mut core = self.core();
        if !core.host.remove(address, len) {
            core.violate(crate::Violation::UnmappedHost { address, len });
            return Err(errno::EINVAL);
        }
        trap::forget(address, len);
        // SAFETY: the caller's promise is that of munmap; the addresses were mapped through this machine.
        unsafe { raw::unmap(address, len) }
    }

    /// Lets the host's stores to pages trap, where the builder asked for that.
    pub(crate) fn trap(&self, core: &Core, address: usize, len: usize) {
        if core.options.trapping && core.host.holds(address, len) {
            trap::set(address, len, self.shared());
        }
    }

    /// The text of a file of sysfs.
    ///
    /// # Errors
    ///
    /// ENOENT for a path that the kernel's driver does not make.
    pub fn read_text(&self, path: &str) -> Result<String, i32> {
        topology::read(&self.core(), path)
    }

    /// The names in a directory of sysfs or of /dev/dri.
    ///
    /// # Errors
    ///
    /// ENOENT for a path that the kernel's driver does not make.
    pub fn list(&self, path: &str) -> Result<Vec<String>, i32> {
        topology::list(&self.core(), path)
    }
}

/// Steps of the engine under one taking of the lock: few enough that a call waits for microseconds.
const BATCH: usize = 32;

/// Rounds without work that the engine only yields in, before it sleeps between two looks at the doorbells.
const EAGER: u32 = 300;

/// The longest sleep between two looks at the doorbells.
const DOZE: Duration = Duration::from_micros(400);

impl Shared {
    fn enter(&self) -> MutexGuard<'_, Core> {
        self.callers.fetch_add(1, Ordering::Relaxed);
        let core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        self.callers.fetch_sub(1, Ordering::Relaxed);
        core
    }

    /// The host is about to store at an address of pages that trap.
    pub(crate) fn trapped(&self, address: usize) {
        self.enter().trapped(address);
        self.changed.notify_all();
    }

    /// The engine may have something to do.
    pub(crate) fn wake(&self) {
        self.wake.notify_all();
    }

    fn run(&self) {
        let mut idle = 0u32;
        loop {
            let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
            while !core.stop && !core.runs() {
                core = self.wake.wait(core).unwrap_or_else(PoisonError::into_inner);
            }
            if core.stop {
                return;
            }
            let batch = AssertUnwindSafe(|| (0..BATCH).take_while(|_| core.step()).count());
            let worked = catch_unwind(batch).unwrap_or_else(|panic| {
                core.broken(crate::state::panic_text(&*panic));
                0
            });
            if worked == 0 && core.options.watchful {
                core.watch();
            }
            let (changed, watchful) = (core.take_changed(), core.options.watchful);
            drop(core);
            if changed {
                self.changed.notify_all();
            }
            idle = if worked > 0 || watchful { 0 } else { idle.saturating_add(1) };
            self.rest(idle);
        }
    }

    /// Lets callers in, and the processor go while there is nothing to do.
    fn rest(&self, idle: u32) {
        while self.callers.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        if idle > EAGER {
            std::thread::sleep(DOZE.min(Duration::from_micros(u64::from(idle - EAGER))));
        } else if idle > 0 {
            std::thread::yield_now();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.enter().stop = true;
        self.shared.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic of the engine's was kept as a violation; there is nothing more to learn from it.
            let _ = thread.join();
        }
    }
}
