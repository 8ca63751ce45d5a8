//! The calls on addresses and memory.

use super::Answer;
use super::abi::{self, AcquireVm, AllocMemory, ExportDmabuf, FreeMemory, MapMemory};
use crate::errno;
use crate::memory::{Backing, Memory, Window};
use crate::raw::{self, PAGE, Pages, Raw};
use crate::state::{Core, File};
use crate::violation::Violation;

/// Addresses that GPUs reach: 47 bits, as much as the host's.
const VA_LIMIT: u64 = 1 << 47;

pub(super) fn acquire(core: &mut Core, value: &AcquireVm) -> Answer {
    let gpu = core.named("ACQUIRE_VM", value.gpu_id)?;
    let fd = value.drm_fd as i32;
    if core.file(fd) != Ok(File::Render(gpu)) {
        return core.refuse("ACQUIRE_VM", "drm_fd", u64::from(value.drm_fd), "an open render node of this GPU");
    }
    match core.gpus[gpu].bound {
        // The process's addresses hang on the file that was named first, also after it is closed.
        Some(bound) if bound != fd => Err(errno::EBUSY),
        _ => {
            core.gpus[gpu].bound = Some(fd);
            Ok(())
        }
    }
}

/// What the flags of an allocation contradict, if anything.
fn contradiction(flags: u32) -> Option<&'static str> {
    let kinds = [abi::FLAG_VRAM, abi::FLAG_GTT, abi::FLAG_USERPTR, abi::FLAG_DOORBELL, abi::FLAG_MMIO_REMAP];
    if flags & !abi::FLAGS != 0 {
        Some("bits that the kernel does not know")
    } else if kinds.iter().filter(|&&kind| flags & kind != 0).count() != 1 {
        Some("not one kind of memory")
    } else if flags & abi::FLAG_AQL_QUEUE_MEM != 0 {
        Some("a ring that is mapped twice is for gfx7 and gfx8")
    } else {
        None
    }
}

/// # Safety
///
/// As of [`crate::Machine::ioctl`]: pages of the caller's that become memory stay until they are freed.
#[expect(unsafe_code, reason = "pages of the caller's become memory")]
pub(super) unsafe fn alloc(core: &mut Core, value: &mut AllocMemory) -> Answer {
    let call = "ALLOC_MEMORY_OF_GPU";
    let gpu = core.bound(call, value.gpu_id)?;
    let AllocMemory { va_addr: va, size, flags, .. } = *value;
    if let Some(why) = contradiction(flags) {
        core.violate(Violation::Flags { call, flags, why });
        return Err(errno::EINVAL);
    }
    if size == 0 || !size.is_multiple_of(PAGE) {
        return core.refuse(call, "size", size, "whole pages, at least one");
    }
    if va == 0 || !va.is_multiple_of(PAGE) || va.checked_add(size).is_none_or(|end| end > VA_LIMIT) {
        return core.refuse(call, "va_addr", va, "a page's address below 2^47");
    }
    if core.space.overlaps(va, size) {
        return core.refuse(call, "va_addr", va, "addresses that no memory has");
    }
    let limit = |flag, most: u64| flags & flag != 0 && core.space.bytes(gpu, flag) + size > most;
    if limit(abi::FLAG_VRAM, core.options.vram) || limit(abi::FLAG_GTT, core.options.gtt) {
        return Err(errno::ENOMEM);
    }
    let backing = if flags & abi::FLAG_USERPTR != 0 {
        if !value.mmap_offset.is_multiple_of(PAGE) || value.mmap_offset == 0 {
            return core.refuse(call, "mmap_offset", value.mmap_offset, "the address of the caller's first page");
        }
        // SAFETY: the caller's pages stay readable and writable until they are freed, by its promise.
        Backing::Host(unsafe { Raw::new(value.mmap_offset as usize, size as usize) })
    } else if flags & abi::FLAG_DOORBELL != 0 {
        if size != abi::DOORBELL_BYTES as u64 {
            return core.refuse(call, "size", size, "all doorbells of a GPU: 8192 bytes");
        }
        Backing::Doorbells
    } else if flags & abi::FLAG_MMIO_REMAP != 0 {
        if size != PAGE {
            return core.refuse(call, "size", size, "one page of registers");
        }
        Backing::Registers
    } else {
        Backing::Pages(Pages::new(size as usize)?)
    };
    let hidden = flags & abi::FLAG_VRAM == 0 || flags & abi::FLAG_PUBLIC == 0;
    let window = if hidden { None } else { Some(Window::new(size)?) };
    value.handle = u64::from(value.gpu_id) << 32 | core.next_handle;
    core.next_handle += 1;
    let offset = core.next_offset;
    core.next_offset += size;
    let of_gpu = u64::from(value.gpu_id & 0xffff) << abi::MMAP_GPU_SHIFT;
    match backing {
        Backing::Pages(_) => value.mmap_offset = offset,
        Backing::Host(_) => {}
        Backing::Doorbells => value.mmap_offset = abi::MMAP_DOORBELL | of_gpu,
        Backing::Registers => value.mmap_offset = of_gpu,
    }
    let (handle, mapped) = (value.handle, Vec::new());
    let memory = Memory { handle, va, size, gpu, flags, backing, mapped, used: 0, offset, window };
    if flags & abi::FLAG_VRAM != 0 {
        // The kernel clears the host's pages, and promises nothing of the GPU's.
        memory.fill(&core.rng.next().to_le_bytes(), SCRUBBED);
    }
    core.space.insert(memory);
    Ok(())
}

/// Bytes of a new memory of the GPU's that are not left zero.
const SCRUBBED: usize = 64 * 1024;

pub(super) fn free(core: &mut Core, value: &FreeMemory) -> Answer {
    let call = "FREE_MEMORY_OF_GPU";
    let Some(memory) = core.space.get(value.handle) else {
        return core.refuse(call, "handle", value.handle, "the handle of a memory");
    };
    let (va, used, mapped) = (memory.va, memory.used > 0, !memory.mapped.is_empty());
    if mapped {
        core.violate(Violation::FreedMapped { handle: value.handle, va });
        return Err(errno::EBUSY);
    }
    if core.events.given_page() == Some(value.handle) {
        // The kernel keeps the page of events until the process ends.
        core.violate(Violation::Argument {
            call,
            field: "handle",
            value: value.handle,
            wants: "not the page of events",
        });
        return Err(errno::EPERM);
    }
    if used {
        core.violate(Violation::UnmappedUsed { handle: value.handle, va });
        return Err(errno::EBUSY);
    }
    core.space.remove(value.handle);
    Ok(())
}

/// The GPUs that a call names from `n_success` on.
///
/// # Safety
///
/// The array that the struct names is readable.
#[expect(unsafe_code, reason = "the kernel's call reads the array that the caller names")]
unsafe fn named(core: &mut Core, call: &'static str, value: &MapMemory) -> Result<Vec<usize>, i32> {
    if value.n_devices == 0 {
        return core.refuse(call, "n_devices", 0, "at least one GPU");
    }
    if value.n_success > value.n_devices {
        return core.refuse(call, "n_success", u64::from(value.n_success), "at most n_devices");
    }
    if core.space.get(value.handle).is_none() {
        return core.refuse(call, "handle", value.handle, "the handle of a memory");
    }
    (value.n_success..value.n_devices)
        .map(|at| {
            let address = value.device_ids_array_ptr as usize + at as usize * 4;
            // SAFETY: the caller's array has `n_devices` ids.
            let id: abi::GpuId = unsafe { raw::take(address as *const u8, 4) };
            core.bound(call, id.gpu_id)
        })
        .collect()
}

/// # Safety
///
/// The array that the struct names is readable.
#[expect(unsafe_code, reason = "the kernel's call reads the array that the caller names")]
pub(super) unsafe fn map(core: &mut Core, value: &mut MapMemory) -> Answer {
    // SAFETY: the caller's promise.
    let gpus = unsafe { named(core, "MAP_MEMORY_TO_GPU", value) }?;
    let Some(memory) = core.space.get_mut(value.handle) else { return Err(errno::EINVAL) };
    for gpu in gpus {
        if !memory.mapped.contains(&gpu) {
            memory.mapped.push(gpu);
        }
        value.n_success += 1;
    }
    Ok(())
}

/// # Safety
///
/// The array that the struct names is readable.
#[expect(unsafe_code, reason = "the kernel's call reads the array that the caller names")]
pub(super) unsafe fn unmap(core: &mut Core, value: &mut MapMemory) -> Answer {
    // SAFETY: the caller's promise.
    let gpus = unsafe { named(core, "UNMAP_MEMORY_FROM_GPU", value) }?;
    let Some(memory) = core.space.get_mut(value.handle) else { return Err(errno::EINVAL) };
    let (va, size) = (memory.va, memory.size);
    if memory.used > 0 && core.events.given_page() != Some(value.handle) {
        core.violate(Violation::UnmappedUsed { handle: value.handle, va });
        return Err(errno::EBUSY);
    }
    for gpu in gpus {
        core.leave(gpu, va, size);
        if let Some(memory) = core.space.get_mut(value.handle) {
            memory.mapped.retain(|&mapped| mapped != gpu);
        }
        value.n_success += 1;
    }
    Ok(())
}

/// Gives a memory out as a file, which the caller owns, and which keeps the memory's bytes.
pub(super) fn export(core: &mut Core, value: &mut ExportDmabuf) -> Answer {
    let call = "EXPORT_DMABUF";
    if value.flags & !abi::EXPORT_FLAGS != 0 {
        core.violate(Violation::Flags { call, flags: value.flags, why: "O_CLOEXEC and an access are possible" });
        return Err(errno::EINVAL);
    }
    let file = match core.space.get(value.handle).map(|memory| &memory.backing) {
        Some(Backing::Pages(pages)) => pages.file(),
        _ => return core.refuse(call, "handle", value.handle, "the handle of a memory of pages of its own"),
    };
    value.dmabuf_fd = file.map_err(|_| errno::ENOMEM)? as u32;
    Ok(())
}
