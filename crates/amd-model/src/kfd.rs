//! The kernel's calls: what each reads, checks, does and answers.
//!
//! The checks are those of the kernel's driver (kfd_chardev.c, kfd_queue.c, amdgpu_amdkfd_gpuvm.c), and stricter where
//! the kernel lets pass what cannot be meant: flags that it ignores, structs of another size than its own. What a caller
//! may run into without a mistake (no memory, a GPU that another file is bound to) is an error alone; the rest is a
//! violation too.

pub mod abi;
mod event;
#[cfg(test)]
mod header_test;
mod memory;
mod queue;

use crate::errno;
use crate::machine::{Call, Machine};
use crate::raw;
use crate::state::{Core, File};
use crate::violation::Violation;
use abi::{BOTH, IN, OUT};

/// A call: its name, its number and what its request is made of.
struct Shape {
    call: Call,
    name: &'static str,
    direction: u32,
    number: u32,
    size: usize,
    /// The first minor version that has it.
    since: u32,
}

const fn shape<T>(call: Call, name: &'static str, direction: u32, number: u32, since: u32) -> Shape {
    Shape { call, name, direction, number, size: size_of::<T>(), since }
}

const SHAPES: [Shape; 20] = [
    shape::<abi::GetVersion>(Call::GetVersion, "GET_VERSION", OUT, 0x01, 0),
    shape::<abi::CreateQueue>(Call::CreateQueue, "CREATE_QUEUE", BOTH, 0x02, 0),
    shape::<abi::Id>(Call::DestroyQueue, "DESTROY_QUEUE", BOTH, 0x03, 0),
    shape::<abi::SetMemoryPolicy>(Call::SetMemoryPolicy, "SET_MEMORY_POLICY", IN, 0x04, 0),
    shape::<abi::GetClockCounters>(Call::GetClockCounters, "GET_CLOCK_COUNTERS", BOTH, 0x05, 0),
    shape::<abi::CreateEvent>(Call::CreateEvent, "CREATE_EVENT", BOTH, 0x08, 0),
    shape::<abi::Id>(Call::DestroyEvent, "DESTROY_EVENT", IN, 0x09, 0),
    shape::<abi::Id>(Call::SetEvent, "SET_EVENT", IN, 0x0a, 0),
    shape::<abi::Id>(Call::ResetEvent, "RESET_EVENT", IN, 0x0b, 0),
    shape::<abi::WaitEvents>(Call::WaitEvents, "WAIT_EVENTS", BOTH, 0x0c, 0),
    shape::<abi::GetProcessApertures>(Call::GetProcessApertures, "GET_PROCESS_APERTURES_NEW", BOTH, 0x14, 0),
    shape::<abi::AcquireVm>(Call::AcquireVm, "ACQUIRE_VM", IN, 0x15, 0),
    shape::<abi::AllocMemory>(Call::AllocMemory, "ALLOC_MEMORY_OF_GPU", BOTH, 0x16, 0),
    shape::<abi::FreeMemory>(Call::FreeMemory, "FREE_MEMORY_OF_GPU", IN, 0x17, 0),
    shape::<abi::MapMemory>(Call::MapMemory, "MAP_MEMORY_TO_GPU", BOTH, 0x18, 0),
    shape::<abi::MapMemory>(Call::UnmapMemory, "UNMAP_MEMORY_FROM_GPU", BOTH, 0x19, 0),
    shape::<abi::SetXnackMode>(Call::SetXnackMode, "SET_XNACK_MODE", BOTH, 0x21, 6),
    shape::<abi::AvailableMemory>(Call::AvailableMemory, "AVAILABLE_MEMORY", BOTH, 0x23, 9),
    shape::<abi::ExportDmabuf>(Call::ExportDmabuf, "EXPORT_DMABUF", BOTH, 0x24, 12),
    shape::<abi::RuntimeEnable>(Call::RuntimeEnable, "RUNTIME_ENABLE", BOTH, 0x25, 13),
];

/// What a call of the kernel's answers with: the result, or its number for an error.
type Answer = Result<(), i32>;

/// Serves one call.
///
/// # Safety
///
/// As of [`Machine::ioctl`].
#[expect(unsafe_code, reason = "the kernel's call reads and writes what the caller's pointer names")]
pub(crate) unsafe fn ioctl(machine: &Machine, fd: i32, request: u32, argument: *mut u8) -> Result<i32, i32> {
    let mut core = machine.core();
    if core.file(fd)? != File::Kfd {
        core.violate(Violation::UnknownCall { request });
        return Err(errno::ENOTTY);
    }
    let size = abi::size(request);
    let call = check(&mut core, request)?;
    core.faults.call(call)?;
    drop(core);
    // SAFETY: the caller's promise is this function's, and `size` is the one that the request names.
    unsafe { serve(machine, call, argument, size) }.map(|()| 0)
}

/// The call of a request, if it is one that the kernel knows, of the shape that the kernel's header makes.
fn check(core: &mut Core, request: u32) -> Result<Call, i32> {
    let number = abi::number(request);
    let minor = core.options.version.1;
    let found = SHAPES.iter().find(|shape| shape.number == number && shape.since <= minor);
    let Some(shape) = found.filter(|_| request >> 8 & 0xff == u32::from(b'K')) else {
        core.violate(Violation::UnknownCall { request });
        return Err(errno::ENOTTY);
    };
    let old = shape.call == Call::CreateQueue && minor < 17;
    let size = if old { abi::CREATE_QUEUE_OLD } else { shape.size };
    let wants = abi::request(shape.direction, shape.number, size);
    let older = abi::request(shape.direction, shape.number, abi::CREATE_QUEUE_OLD);
    // The kernel takes a struct of an older version, and fills the rest with zeros.
    if request != wants && !(shape.call == Call::CreateQueue && request == older) {
        core.violate(Violation::CallShape { call: shape.name, request, wants });
        return Err(errno::EINVAL);
    }
    Ok(shape.call)
}

/// # Safety
///
/// As of [`ioctl`]; `size` bytes are at `argument`.
#[expect(unsafe_code, reason = "the kernel's call reads and writes what the caller's pointer names")]
unsafe fn serve(machine: &Machine, call: Call, argument: *mut u8, size: usize) -> Answer {
    macro_rules! with {
        ($serve:expr) => {{
            // SAFETY: the caller's struct is there, and `size` bytes long.
            let mut value = unsafe { raw::take(argument.cast_const(), size) };
            let answer = $serve(&mut value);
            // SAFETY: the same.
            unsafe { raw::give(argument, size, &value) };
            answer
        }};
    }
    match call {
        Call::GetVersion => with!(|value: &mut abi::GetVersion| {
            (value.major_version, value.minor_version) = machine.core().options.version;
            Ok(())
        }),
        Call::CreateQueue => with!(|value: &mut abi::CreateQueue| queue::create(machine, value)),
        Call::DestroyQueue => with!(|value: &mut abi::Id| queue::destroy(machine, value)),
        Call::SetMemoryPolicy => with!(|value: &mut abi::SetMemoryPolicy| policy(&mut machine.core(), value)),
        Call::GetClockCounters => with!(|value: &mut abi::GetClockCounters| clocks(&mut machine.core(), value)),
        Call::CreateEvent => with!(|value: &mut abi::CreateEvent| event::create(&mut machine.core(), value)),
        Call::DestroyEvent => with!(|value: &mut abi::Id| event::destroy(machine, value)),
        Call::SetEvent => with!(|value: &mut abi::Id| event::set(machine, value)),
        Call::ResetEvent => with!(|value: &mut abi::Id| event::reset(&mut machine.core(), value)),
        // SAFETY: the arrays that these structs name are there, by the caller's promise.
        Call::WaitEvents => with!(|value: &mut abi::WaitEvents| unsafe { event::wait(machine, value) }),
        Call::GetProcessApertures => {
            // SAFETY: the same.
            with!(|value: &mut abi::GetProcessApertures| unsafe { apertures(&mut machine.core(), value) })
        }
        Call::AcquireVm => with!(|value: &mut abi::AcquireVm| memory::acquire(&mut machine.core(), value)),
        // SAFETY: pages that the struct names become memory, and stay until they are freed, by the caller's promise.
        Call::AllocMemory => with!(|value: &mut abi::AllocMemory| unsafe { memory::alloc(&mut machine.core(), value) }),
        Call::FreeMemory => with!(|value: &mut abi::FreeMemory| memory::free(&mut machine.core(), value)),
        // SAFETY: the array that the struct names is there, by the caller's promise.
        Call::MapMemory => with!(|value: &mut abi::MapMemory| unsafe { memory::map(&mut machine.core(), value) }),
        // SAFETY: the same.
        Call::UnmapMemory => with!(|value: &mut abi::MapMemory| unsafe { memory::unmap(&mut machine.core(), value) }),
        Call::SetXnackMode => with!(|value: &mut abi::SetXnackMode| xnack(value)),
        Call::AvailableMemory => with!(|value: &mut abi::AvailableMemory| available(&mut machine.core(), value)),
        Call::ExportDmabuf => with!(|value: &mut abi::ExportDmabuf| memory::export(&mut machine.core(), value)),
        Call::RuntimeEnable => with!(|value: &mut abi::RuntimeEnable| runtime(&mut machine.core(), value)),
        Call::Open | Call::Mmap => Err(errno::ENOTTY),
    }
}

impl Core {
    /// Refuses an argument: a violation, and the kernel's EINVAL.
    fn refuse<T>(
        &mut self,
        call: &'static str,
        field: &'static str,
        value: u64,
        wants: &'static str,
    ) -> Result<T, i32> {
        self.violate(Violation::Argument { call, field, value, wants });
        Err(errno::EINVAL)
    }

    /// The GPU that a call names.
    fn named(&mut self, call: &'static str, id: u32) -> Result<usize, i32> {
        match self.gpu(id) {
            Some(gpu) => Ok(gpu),
            None => self.refuse(call, "gpu_id", u64::from(id), "a GPU of the topology"),
        }
    }

    /// The GPU that a call names, which the process has an address space of.
    fn bound(&mut self, call: &'static str, id: u32) -> Result<usize, i32> {
        let gpu = self.named(call, id)?;
        if self.gpus[gpu].bound.is_none() {
            let value = u64::from(id);
            self.violate(Violation::Argument { call, field: "gpu_id", value, wants: "a GPU after ACQUIRE_VM" });
            return Err(errno::ESRCH);
        }
        Ok(gpu)
    }
}

fn policy(core: &mut Core, value: &abi::SetMemoryPolicy) -> Answer {
    core.bound("SET_MEMORY_POLICY", value.gpu_id)?;
    if value.default_policy > 1 || value.alternate_policy > 1 {
        return core.refuse("SET_MEMORY_POLICY", "default_policy", u64::from(value.default_policy), "0 or 1");
    }
    Ok(())
}

fn clocks(core: &mut Core, value: &mut abi::GetClockCounters) -> Answer {
    // The kernel answers for a GPU that it does not know too, without the GPU's clock.
    value.gpu_clock_counter = core.gpu(value.gpu_id).map_or(0, |_| core.clock());
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    value.cpu_clock_counter = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    value.system_clock_counter = value.cpu_clock_counter;
    value.system_clock_freq = 1_000_000_000;
    Ok(())
}

#[expect(unsafe_code, reason = "the kernel's call writes the array that the caller names")]
unsafe fn apertures(core: &mut Core, value: &mut abi::GetProcessApertures) -> Answer {
    let all = core.gpus.len();
    let asked = value.num_of_nodes as usize;
    value.num_of_nodes = all.min(if asked == 0 { all } else { asked }) as u32;
    for (place, gpu) in core.gpus.iter().enumerate().take(asked) {
        let entry = abi::DeviceApertures {
            lds_base: 1 << 48,
            lds_limit: (1 << 48) + 0xffff_ffff,
            scratch_base: 2 << 48,
            scratch_limit: (2 << 48) + 0xffff_ffff,
            gpuvm_base: 1 << 21,
            gpuvm_limit: (1 << 47) - 1,
            gpu_id: gpu.id,
            pad: 0,
        };
        let size = size_of::<abi::DeviceApertures>();
        let address = value.process_device_apertures_ptr as usize + place * size;
        // SAFETY: the caller has room for as many entries as it asked for.
        unsafe { raw::give(address as *mut u8, size, &entry) };
    }
    Ok(())
}

fn xnack(value: &mut abi::SetXnackMode) -> Answer {
    // gfx1100 cannot retry accesses that fault.
    if value.xnack_enabled > 0 {
        return Err(errno::EPERM);
    }
    value.xnack_enabled = 0;
    Ok(())
}

fn available(core: &mut Core, value: &mut abi::AvailableMemory) -> Answer {
    let gpu = core.bound("AVAILABLE_MEMORY", value.gpu_id)?;
    value.available = core.options.vram - core.space.bytes(gpu, abi::FLAG_VRAM);
    Ok(())
}

fn runtime(core: &mut Core, value: &mut abi::RuntimeEnable) -> Answer {
    if value.mode_mask & !3 != 0 {
        return core.refuse("RUNTIME_ENABLE", "mode_mask", u64::from(value.mode_mask), "the bits 0 and 1");
    }
    value.capabilities_mask = 0;
    Ok(())
}
