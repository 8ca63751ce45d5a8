//! Sleep: waiting for the word without the processor.
//!
//! Each value ends with an interrupt that sets an event of the device's. It takes itself back when one wait has seen it, so
//! one sleeper at a time waits in the kernel, for all: when its wait ends, every sleeper looks at the word again, and one
//! of them waits next. So no value is missed, whatever their number.
//!
//! # Invariants
//!
//! 1. A sleeper looks at the word after it was chosen to wait, and before it does: an event that came earlier is still set.
//! 2. A fault is noted before any sleeper goes on.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rig_edge::{Fault, Sleep};

use crate::Amd;
use crate::abi::EventData;
use crate::fault::{of_hardware, of_memory};
use crate::kfd::Waited;

/// The longest wait in the kernel. TIMEOUT: an interrupt that is lost delays a wait by this much, and ten looks a second cost
/// a tenth of a millisecond.
const LOOK: Duration = Duration::from_millis(100);

/// The events of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Events {
    /// Set by each value's end on the compute queue.
    pub computed: u32,
    /// Set by each value's end on the copy queue.
    pub copied: u32,
    /// Set by faults of memory, of any GPU of the process.
    pub memory: u32,
    /// Set by resets, of any GPU.
    pub hardware: u32,
}

impl Events {
    /// Their numbers: those of values, then memory's and the hardware's.
    pub fn all(&self) -> [u32; 4] {
        [self.computed, self.copied, self.memory, self.hardware]
    }
}

/// Who waits in the kernel.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    someone: Mutex<bool>,
    changed: Condvar,
}

impl Amd {
    /// Sleeps until the word moves.
    pub(crate) fn doze(&self, sleep: Sleep) -> Result<(), Fault> {
        let end = Instant::now() + sleep.still;
        loop {
            let mut someone = self.sleepers.someone.lock();
            self.faulted()?;
            let left = end.saturating_duration_since(Instant::now());
            if self.word.load() != sleep.seen {
                return Ok(());
            }
            if *someone {
                if left.is_zero() {
                    return Ok(());
                }
                self.sleepers.changed.wait_for(&mut someone, left);
                continue;
            }
            *someone = true;
            drop(someone);
            let looked = self.look(left.min(LOOK));
            *self.sleepers.someone.lock() = false;
            self.sleepers.changed.notify_all();
            looked?;
            if left.is_zero() {
                return self.faulted();
            }
        }
    }

    /// The fault, if there was one.
    fn faulted(&self) -> Result<(), Fault> {
        self.fault.get().cloned().map_or(Ok(()), Err)
    }

    /// Waits in the kernel for an event, and notes a fault.
    fn look(&self, most: Duration) -> Result<(), Fault> {
        let mut events = self.events.all().map(EventData::of);
        let timeout = most.as_micros().div_ceil(1000) as u32;
        match self.gpu.kfd().wait_events(&mut events, timeout) {
            Ok(Waited::Set) => {}
            Ok(Waited::TimedOut) => return Ok(()),
            Ok(Waited::Gone) => return Err(self.lose("the kernel has taken the device's events away".into())),
            Err(failure) => return Err(self.lose(failure.to_string())),
        }
        let (memory, hardware) = (events[2].memory(), events[3].hardware());
        if memory.gpu_id == self.gpu.id() {
            return Err(self.lose(of_memory(&memory)));
        }
        if hardware.gpu_id == self.gpu.id() {
            return Err(self.lose(of_hardware(&hardware)));
        }
        Ok(())
    }

    /// Notes that the device has faulted, and with it the GPU for this process.
    fn lose(&self, why: String) -> Fault {
        let why = self.gpu.lose(why).to_string();
        self.fault.get_or_init(|| Fault::new(why)).clone()
    }
}
