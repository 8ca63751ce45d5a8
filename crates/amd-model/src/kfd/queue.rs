//! The calls on queues, with the checks of what they stand on.

use super::Answer;
use super::abi::{self, CreateQueue, Id};
use crate::aql::AqlState;
use crate::errno;
use crate::machine::Machine;
use crate::queue::{Processor, Queue};
use crate::raw::PAGE;
use crate::sdma::SdmaState;
use crate::state::{Core, SILENT};
use crate::topology::{self, EOP_BYTES};
use crate::violation::{QueueMemory, Violation};
use std::sync::atomic::Ordering;

const CALL: &str = "CREATE_QUEUE";

/// Queues of a process.
const QUEUES_MAX: usize = 127;

pub(super) fn create(machine: &Machine, value: &mut CreateQueue) -> Answer {
    let core = &mut *machine.core();
    let gpu = core.bound(CALL, value.gpu_id)?;
    let aql = arguments(core, value)?;
    if core.queues.len() >= QUEUES_MAX {
        return Err(errno::ENOSPC);
    }
    let mut wants = vec![
        (QueueMemory::Ring, value.ring_base_address, u64::from(value.ring_size)),
        (QueueMemory::WritePointer, value.write_pointer_address, PAGE),
        (QueueMemory::ReadPointer, value.read_pointer_address, PAGE),
    ];
    if aql {
        areas(core, value)?;
        let areas = topology::areas();
        let save = (u64::from(value.ctx_save_restore_size) + u64::from(areas.debug)).next_multiple_of(PAGE);
        wants.push((QueueMemory::EndOfPipe, value.eop_buffer_address, value.eop_buffer_size));
        wants.push((QueueMemory::SaveArea, value.ctx_save_restore_address, save));
    }
    let mut stands_on = Vec::new();
    for (memory, va, size) in wants {
        stands_on.push(stand(core, gpu, memory, va, size)?);
    }
    for handle in &stands_on {
        if let Some(memory) = core.space.get_mut(*handle) {
            memory.used += 1;
        }
    }
    let slots = &mut core.gpus[gpu].slots;
    let Some(slot) = slots.iter().position(Option::is_none) else { return Err(errno::ENOSPC) };
    let id = core.next_queue;
    core.next_queue += 1;
    slots[slot] = Some(id);
    core.gpus[gpu].doorbells.raw().u64(slot * 8).store(SILENT, Ordering::Release);
    value.queue_id = id;
    let gpu_id = u64::from(value.gpu_id);
    value.doorbell_offset = abi::MMAP_DOORBELL | gpu_id << abi::MMAP_GPU_SHIFT | (slot as u64 * 8);
    let processor = if aql { Processor::Aql(AqlState::default()) } else { Processor::Sdma(SdmaState::default()) };
    core.queues.insert(
        id,
        Queue {
            id,
            gpu,
            ring: value.ring_base_address,
            size: u64::from(value.ring_size),
            read_pointer: value.read_pointer_address,
            write_pointer: value.write_pointer_address,
            slot,
            rung: 0,
            read: 0,
            at: 0,
            written: 0,
            // The kernel makes it, and does not let it run.
            stopped: core.gpus[gpu].evicted,
            delay: 0,
            stands_on,
            processor,
        },
    );
    if aql {
        machine.trap(core, value.ring_base_address as usize, value.ring_size as usize);
    }
    machine.shared().wake();
    Ok(())
}

/// The arguments that name no memory. Whether the queue is one of AQL.
fn arguments(core: &mut Core, value: &CreateQueue) -> Result<bool, i32> {
    let aql = match value.queue_type {
        abi::QUEUE_AQL => true,
        abi::QUEUE_SDMA => false,
        kind => return core.refuse(CALL, "queue_type", u64::from(kind), "SDMA (1) or COMPUTE_AQL (2)"),
    };
    if value.queue_percentage == 0 || value.queue_percentage > 100 {
        return core.refuse(CALL, "queue_percentage", u64::from(value.queue_percentage), "1 to 100");
    }
    if value.queue_priority > 15 {
        return core.refuse(CALL, "queue_priority", u64::from(value.queue_priority), "0 to 15");
    }
    if !value.ring_size.is_power_of_two() || value.ring_size < 1024 {
        return core.refuse(CALL, "ring_size", u64::from(value.ring_size), "a power of two, at least 1024");
    }
    if !value.ring_base_address.is_multiple_of(256) || value.ring_base_address == 0 {
        return core.refuse(CALL, "ring_base_address", value.ring_base_address, "a multiple of 256");
    }
    for (field, word) in
        [("write_pointer_address", value.write_pointer_address), ("read_pointer_address", value.read_pointer_address)]
    {
        if !word.is_multiple_of(8) || word == 0 {
            return core.refuse(CALL, field, word, "the address of a word of 8 bytes");
        }
    }
    if value.write_pointer_address == value.read_pointer_address {
        return core.refuse(CALL, "read_pointer_address", value.read_pointer_address, "a word of its own");
    }
    Ok(aql)
}

/// The sizes of the areas that a compute queue's waves need.
fn areas(core: &mut Core, value: &CreateQueue) -> Answer {
    let areas = topology::areas();
    if value.eop_buffer_size != u64::from(EOP_BYTES) {
        return core.refuse(CALL, "eop_buffer_size", value.eop_buffer_size, "4096");
    }
    if value.ctl_stack_size != areas.control_stack {
        return core.refuse(CALL, "ctl_stack_size", u64::from(value.ctl_stack_size), "the GPU's control stack");
    }
    if value.ctx_save_restore_size < areas.save {
        return core.refuse(
            CALL,
            "ctx_save_restore_size",
            u64::from(value.ctx_save_restore_size),
            "the GPU's save area",
        );
    }
    Ok(())
}

/// The handle of the mapping that is exactly this memory of a queue's.
fn stand(core: &mut Core, gpu: usize, memory: QueueMemory, va: u64, size: u64) -> Result<u64, i32> {
    let found = core.space.at(va).filter(|found| found.mapped.contains(&gpu));
    let Some(found) = found else {
        core.violate(Violation::QueueUnmapped { memory, va });
        return Err(errno::EINVAL);
    };
    // The kernel compares pages: a word may be anywhere in the first page of its mapping.
    let same_page = va / PAGE == found.va / PAGE;
    let (start, mapped, handle) = (found.va, found.size, found.handle);
    if !same_page || mapped != size.next_multiple_of(PAGE) {
        core.violate(Violation::QueueSize { memory, va, start, mapped, wants: size });
        return Err(errno::EINVAL);
    }
    Ok(handle)
}

pub(super) fn destroy(machine: &Machine, value: &Id) -> Answer {
    let mut core = machine.core();
    let Some(queue) = core.queues.remove(&value.id) else {
        return core.refuse("DESTROY_QUEUE", "queue_id", u64::from(value.id), "a queue");
    };
    core.gpus[queue.gpu].slots[queue.slot] = None;
    for handle in &queue.stands_on {
        if let Some(memory) = core.space.get_mut(*handle) {
            memory.used -= 1;
        }
    }
    if core.options.trapping {
        crate::trap::forget(queue.ring as usize, queue.size as usize);
        crate::trap::open(queue.ring as usize, queue.size as usize);
    }
    // What its shaders stored and did not release is lost: a queue that is destroyed at work is preempted for good.
    machine.shared().changed.notify_all();
    Ok(())
}
