//! What the kernel driver for AMD's GPUs and the GPU itself read and write: `linux/kfd_ioctl.h` as Rust sees it, and the page
//! of an AQL queue.
//!
//! # Invariants
//!
//! 1. Every struct has the size and the places of the fields that the kernel's header gives them; the assertions here say so,
//!    and a test compiles the same claims against the header where it is installed.
//! 2. The kernel takes a struct shorter than its own and reads zeros past the end, so these are the oldest forms that hold
//!    what the driver needs.

mod event;
pub(crate) mod queue_page;

pub(crate) use event::{EventData, HwException, MemoryException};

/// A struct of the kernel's with its request: one field a line, at the place that the kernel gives it.
macro_rules! request {
    (
        $(#[$doc:meta])*
        $name:ident = $c:literal, $number:literal, $direction:ident, $size:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $at:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(std::mem::offset_of!($name, $field) == $at);)*
        };

        impl Request for $name {
            const CODE: u32 = code(Direction::$direction, $number, $size);
            const NAME: &'static str = stringify!($name);
        }

        #[cfg(test)]
        impl $name {
            /// The claims of this file, for the C compiler: the struct's name, its size, its fields and their places.
            pub(crate) const CLAIMS: (&'static str, usize, &'static [(&'static str, usize)]) =
                ($c, $size, &[$((stringify!($field), $at)),*]);
        }
    };
}

/// A call of `/dev/kfd` that is named by the struct which it reads and writes.
pub(crate) trait Request: Default {
    /// The number of the request, as `ioctl` takes it.
    const CODE: u32;
    /// For messages.
    const NAME: &'static str;
}

/// Which way a request's struct goes.
enum Direction {
    Read,
    Write,
    Both,
}

/// A request as Linux numbers them: direction, size, `K`, number.
const fn code(direction: Direction, number: u32, size: u32) -> u32 {
    let direction = match direction {
        Direction::Write => 1,
        Direction::Read => 2,
        Direction::Both => 3,
    };
    direction << 30 | size << 16 | (b'K' as u32) << 8 | number
}

request! {
    /// The interface's version.
    GetVersion = "struct kfd_ioctl_get_version_args", 0x01, Read, 8 {
        major_version: u32 = 0,
        minor_version: u32 = 4,
    }
}

request! {
    /// Makes a queue.
    CreateQueue = "struct kfd_ioctl_create_queue_args", 0x02, Both, 88 {
        ring_base_address: u64 = 0,
        write_pointer_address: u64 = 8,
        read_pointer_address: u64 = 16,
        doorbell_offset: u64 = 24,
        ring_size: u32 = 32,
        gpu_id: u32 = 36,
        queue_type: u32 = 40,
        queue_percentage: u32 = 44,
        queue_priority: u32 = 48,
        queue_id: u32 = 52,
        eop_buffer_address: u64 = 56,
        eop_buffer_size: u64 = 64,
        ctx_save_restore_address: u64 = 72,
        ctx_save_restore_size: u32 = 80,
        ctl_stack_size: u32 = 84,
    }
}

/// The kinds of queue.
pub(crate) mod queue_type {
    pub const SDMA: u32 = 1;
    pub const COMPUTE_AQL: u32 = 2;
}

request! {
    /// Ends a queue and what runs on it.
    DestroyQueue = "struct kfd_ioctl_destroy_queue_args", 0x03, Both, 8 {
        queue_id: u32 = 0,
        pad: u32 = 4,
    }
}

request! {
    /// Reads the clocks of a GPU and of the host.
    GetClockCounters = "struct kfd_ioctl_get_clock_counters_args", 0x05, Both, 40 {
        gpu_clock_counter: u64 = 0,
        cpu_clock_counter: u64 = 8,
        system_clock_counter: u64 = 16,
        system_clock_freq: u64 = 24,
        gpu_id: u32 = 32,
        pad: u32 = 36,
    }
}

request! {
    /// Makes an event. `event_page_offset` goes to the kernel as the handle of the page of slots, the first time.
    CreateEvent = "struct kfd_ioctl_create_event_args", 0x08, Both, 32 {
        event_page_offset: u64 = 0,
        event_trigger_data: u32 = 8,
        event_type: u32 = 12,
        auto_reset: u32 = 16,
        node_id: u32 = 20,
        event_id: u32 = 24,
        event_slot_index: u32 = 28,
    }
}

/// The kinds of event.
pub(crate) mod event_type {
    pub const SIGNAL: u32 = 0;
    pub const HW_EXCEPTION: u32 = 3;
    pub const MEMORY: u32 = 8;
}

/// How many slots the page of events has, of 8 bytes each.
pub(crate) const EVENT_SLOTS: usize = 4096;

request! {
    /// Ends an event.
    DestroyEvent = "struct kfd_ioctl_destroy_event_args", 0x09, Write, 8 {
        event_id: u32 = 0,
        pad: u32 = 4,
    }
}

request! {
    /// Sleeps until an event is set, or for `timeout` milliseconds.
    WaitEvents = "struct kfd_ioctl_wait_events_args", 0x0C, Both, 24 {
        events_ptr: u64 = 0,
        num_events: u32 = 8,
        wait_for_all: u32 = 12,
        timeout: u32 = 16,
        wait_result: u32 = 20,
    }
}

request! {
    /// Binds the address space of a render node to the process's work on a GPU.
    AcquireVm = "struct kfd_ioctl_acquire_vm_args", 0x15, Write, 8 {
        drm_fd: u32 = 0,
        gpu_id: u32 = 4,
    }
}

request! {
    /// Makes memory at an address of the process.
    AllocMemory = "struct kfd_ioctl_alloc_memory_of_gpu_args", 0x16, Both, 40 {
        va_addr: u64 = 0,
        size: u64 = 8,
        handle: u64 = 16,
        mmap_offset: u64 = 24,
        gpu_id: u32 = 32,
        flags: u32 = 36,
    }
}

/// The flags of memory.
pub(crate) mod memory_flag {
    pub const VRAM: u32 = 1 << 0;
    pub const GTT: u32 = 1 << 1;
    pub const USERPTR: u32 = 1 << 2;
    pub const MMIO_REMAP: u32 = 1 << 4;
    pub const UNCACHED: u32 = 1 << 25;
    pub const COHERENT: u32 = 1 << 26;
    pub const NO_SUBSTITUTE: u32 = 1 << 28;
    pub const PUBLIC: u32 = 1 << 29;
    pub const EXECUTABLE: u32 = 1 << 30;
    pub const WRITABLE: u32 = 1 << 31;
}

request! {
    /// Gives memory back.
    FreeMemory = "struct kfd_ioctl_free_memory_of_gpu_args", 0x17, Write, 8 {
        handle: u64 = 0,
    }
}

request! {
    /// Maps memory for GPUs.
    MapMemory = "struct kfd_ioctl_map_memory_to_gpu_args", 0x18, Both, 24 {
        handle: u64 = 0,
        device_ids_array_ptr: u64 = 8,
        n_devices: u32 = 16,
        n_success: u32 = 20,
    }
}

request! {
    /// Takes memory from GPUs.
    UnmapMemory = "struct kfd_ioctl_unmap_memory_from_gpu_args", 0x19, Both, 24 {
        handle: u64 = 0,
        device_ids_array_ptr: u64 = 8,
        n_devices: u32 = 16,
        n_success: u32 = 20,
    }
}

/// Gives memory out as a dma-buf: from version 1.12 of the interface on, which newer headers name
/// `struct kfd_ioctl_export_dmabuf_args`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ExportDmabuf {
    pub handle: u64,
    pub flags: u32,
    pub dmabuf_fd: u32,
}

const _: () = assert!(size_of::<ExportDmabuf>() == 16);

impl Request for ExportDmabuf {
    const CODE: u32 = code(Direction::Both, 0x24, 16);
    const NAME: &'static str = "ExportDmabuf";
}

/// Says that the process's work begins, for debuggers: from version 1.14 of the interface on, which newer headers name
/// `struct kfd_ioctl_runtime_enable_args`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RuntimeEnable {
    pub r_debug: u64,
    pub mode_mask: u32,
    pub capabilities_mask: u32,
}

const _: () = assert!(size_of::<RuntimeEnable>() == 16);

impl Request for RuntimeEnable {
    const CODE: u32 = code(Direction::Both, 0x25, 16);
    const NAME: &'static str = "RuntimeEnable";
}

#[cfg(test)]
mod tests;
