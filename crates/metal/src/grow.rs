//! Growth: a larger arena for launches' parameters.
//!
//! `room` notes for the thread what its parts need; `grow`, which follows on that thread, makes the arena and offers it; the
//! next `room` takes it up. So a growth touches nothing that hot calls of other submissions read meanwhile.

use std::cell::Cell;

use objc2::rc::autoreleasepool;
use rig_edge::{Fault, Grown};

use crate::arena::{Arena, capacity_for};
use crate::driver::Metal;
use crate::memory::located;
use crate::object::Held;
use crate::params::Memory;
use crate::sys::{MTLDevice, MTLResourceOptions, guard};

std::thread_local! {
    /// What the parts need whose `room` last answered Grow on this thread.
    static NEED: Cell<u64> = const { Cell::new(0) };
}

/// Notes what the thread's next growth is for.
pub(crate) fn ask(need: u64) {
    NEED.set(need);
}

impl Metal {
    /// Makes an arena that holds what the thread's parts need.
    pub(crate) fn grow_arena(&self) -> Result<Grown, Fault> {
        let need = NEED.get();
        // Another thread's growth may do: a growth is asked for outside the turn.
        if self.shared.lock().params.holds(need) {
            return Ok(Grown::Grown);
        }
        let capacity = capacity_for(need, self.limits.buffer_bytes);
        autoreleasepool(|_| {
            let options = MTLResourceOptions::StorageModeShared;
            let made = guard(|| self.gpu.newBufferWithLength_options(capacity as usize, options));
            let Some(buffer) = made.map_err(|why| self.shared.fault(why))? else { return Ok(Grown::Short(capacity)) };
            let buffer = Held::from(buffer);
            let location = located(&buffer).map_err(|why| self.shared.fault(why))?;
            let memory = Memory { buffer, host: location.host, arena: Arena::new(capacity) };
            let left = self.shared.lock().params.offer(memory);
            drop(left);
            Ok(Grown::Grown)
        })
    }
}
