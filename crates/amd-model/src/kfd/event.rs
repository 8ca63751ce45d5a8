//! The calls on events.

use super::abi::{self, CreateEvent, EventData, Id, WaitEvents};
use crate::errno;
use crate::events::{Look, SIGNALS};
use crate::machine::Machine;
use crate::raw;
use crate::state::Core;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Events that one wait may name.
const WANTED_MAX: u32 = 4096;

pub(super) fn create(core: &mut Core, value: &mut CreateEvent) -> super::Answer {
    let call = "CREATE_EVENT";
    if !matches!(value.event_type, abi::EVENT_SIGNAL | abi::EVENT_HW_EXCEPTION | abi::EVENT_MEMORY) {
        return core.refuse(call, "event_type", u64::from(value.event_type), "SIGNAL, HW_EXCEPTION or MEMORY");
    }
    if value.event_page_offset != 0 {
        give_page(core, value.event_page_offset)?;
    }
    core.events.create(value)
}

/// The first event may bring the memory that holds the slots.
fn give_page(core: &mut Core, handle: u64) -> super::Answer {
    let call = "CREATE_EVENT";
    if core.events.has_page() {
        return core.refuse(call, "event_page_offset", handle, "0: the page is set");
    }
    let bytes = u64::from(SIGNALS) * 8;
    let (gtt, fits, raw) = match core.space.get(handle) {
        Some(memory) => (memory.flags & abi::FLAG_GTT != 0, memory.size >= bytes, memory.raw()),
        None => return core.refuse(call, "event_page_offset", handle, "the handle of a memory"),
    };
    match raw.filter(|_| gtt && fits) {
        Some(raw) => raw.fill(0xff),
        None => return core.refuse(call, "event_page_offset", handle, "the host's memory (GTT) of 32768 bytes"),
    }
    core.events.give_page(handle);
    if let Some(memory) = core.space.get_mut(handle) {
        memory.used += 1;
    }
    Ok(())
}

pub(super) fn destroy(machine: &Machine, value: &Id) -> super::Answer {
    let mut core = machine.core();
    if !core.events.destroy(value.id) {
        return core.refuse("DESTROY_EVENT", "event_id", u64::from(value.id), "an event");
    }
    machine.shared().changed.notify_all();
    Ok(())
}

pub(super) fn set(machine: &Machine, value: &Id) -> super::Answer {
    let mut core = machine.core();
    if !core.events.set(value.id) {
        return core.refuse("SET_EVENT", "event_id", u64::from(value.id), "an event that a signal sets");
    }
    machine.shared().changed.notify_all();
    Ok(())
}

pub(super) fn reset(core: &mut Core, value: &Id) -> super::Answer {
    if !core.events.reset(value.id) {
        return core.refuse("RESET_EVENT", "event_id", u64::from(value.id), "an event that a signal sets");
    }
    Ok(())
}

/// # Safety
///
/// The array of events that the struct names is readable and writable.
#[expect(unsafe_code, reason = "the kernel's call reads and writes the array that the caller names")]
pub(super) unsafe fn wait(machine: &Machine, value: &mut WaitEvents) -> super::Answer {
    let size = size_of::<EventData>();
    let mut core = machine.core();
    if value.num_events > WANTED_MAX {
        return core.refuse("WAIT_EVENTS", "num_events", u64::from(value.num_events), "4096 or fewer");
    }
    let place = |at: usize| (value.events_ptr as usize + at * size) as *mut u8;
    let mut wanted: Vec<EventData> = (0..value.num_events as usize)
        // SAFETY: the caller's array has `num_events` entries.
        .map(|at| unsafe { raw::take(place(at).cast_const(), size) })
        .collect();
    let forever = value.timeout == u32::MAX;
    let end = Instant::now() + Duration::from_millis(u64::from(value.timeout));
    loop {
        match core.events.look(&mut wanted, value.wait_for_all != 0) {
            Look::Gone => {
                value.wait_result = abi::WAIT_FAIL;
                return Err(errno::EINVAL);
            }
            Look::Complete => break,
            Look::Nothing => {}
        }
        let left = end.saturating_duration_since(Instant::now());
        if !forever && left.is_zero() {
            value.wait_result = abi::WAIT_TIMEOUT;
            return Ok(());
        }
        let slice = if forever { Duration::from_secs(3600) } else { left };
        let waited = machine.shared().changed.wait_timeout(core, slice).unwrap_or_else(PoisonError::into_inner);
        core = waited.0;
    }
    for (at, data) in wanted.iter().enumerate() {
        // SAFETY: the caller's array has `num_events` entries.
        unsafe { raw::give(place(at), size, data) };
    }
    value.wait_result = abi::WAIT_COMPLETE;
    Ok(())
}
