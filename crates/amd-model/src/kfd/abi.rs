//! The structs of the kernel's calls, as `linux/kfd_ioctl.h` lays them out, and its numbers and flags.
//!
//! Written from the header's layout by this crate's own hand, so that a driver's mistake and the model's do not agree by
//! descent. Each struct's size and the places of its fields are asserted when this compiles, and a test beside them
//! compares both with the header that the system has.

use core::mem::{offset_of, size_of};

macro_rules! wire {
    ($(#[$doc:meta])* $name:ident $size:literal { $($(#[$field_doc:meta])* $field:ident: $kind:ty = $at:literal,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind,)* }
        const _: () = assert!(size_of::<$name>() == $size);
        $(const _: () = assert!(offset_of!($name, $field) == $at);)*
        impl Wire for $name {}
    };
}

/// A struct of plain integers without padding: any bytes are a value of it.
pub trait Wire: Copy + Default {}

wire! {
    /// `kfd_ioctl_get_version_args`.
    GetVersion 8 {
        /// Out.
        major_version: u32 = 0,
        /// Out.
        minor_version: u32 = 4,
    }
}
wire! {
    /// `kfd_ioctl_create_queue_args`, with the engine id that 1.17 appended.
    CreateQueue 96 {
        /// In: the ring.
        ring_base_address: u64 = 0,
        /// In: the word that the driver raises.
        write_pointer_address: u64 = 8,
        /// In: the word that the device raises.
        read_pointer_address: u64 = 16,
        /// Out: the offset to map, and the doorbell's place in its low 13 bits.
        doorbell_offset: u64 = 24,
        /// In, bytes.
        ring_size: u32 = 32,
        /// In.
        gpu_id: u32 = 36,
        /// In: 1 SDMA, 2 AQL.
        queue_type: u32 = 40,
        /// In: 1 to 100.
        queue_percentage: u32 = 44,
        /// In: 0 to 15.
        queue_priority: u32 = 48,
        /// Out.
        queue_id: u32 = 52,
        /// In.
        eop_buffer_address: u64 = 56,
        /// In.
        eop_buffer_size: u64 = 64,
        /// In.
        ctx_save_restore_address: u64 = 72,
        /// In.
        ctx_save_restore_size: u32 = 80,
        /// In.
        ctl_stack_size: u32 = 84,
        /// In, since 1.17.
        sdma_engine_id: u32 = 88,
        /// Zero.
        pad: u32 = 92,
    }
}
/// The size of [`CreateQueue`] before version 1.17.
pub const CREATE_QUEUE_OLD: usize = 88;
wire! {
    /// `kfd_ioctl_destroy_queue_args`, and the three calls on an event that have its shape.
    Id 8 {
        /// In.
        id: u32 = 0,
        /// Zero.
        pad: u32 = 4,
    }
}
wire! {
    /// `kfd_ioctl_get_clock_counters_args`.
    GetClockCounters 40 {
        /// Out.
        gpu_clock_counter: u64 = 0,
        /// Out, nanoseconds.
        cpu_clock_counter: u64 = 8,
        /// Out.
        system_clock_counter: u64 = 16,
        /// Out, Hz.
        system_clock_freq: u64 = 24,
        /// In.
        gpu_id: u32 = 32,
        /// Zero.
        pad: u32 = 36,
    }
}
wire! {
    /// `kfd_process_device_apertures`.
    DeviceApertures 56 {
        /// Out.
        lds_base: u64 = 0,
        /// Out.
        lds_limit: u64 = 8,
        /// Out.
        scratch_base: u64 = 16,
        /// Out.
        scratch_limit: u64 = 24,
        /// Out.
        gpuvm_base: u64 = 32,
        /// Out.
        gpuvm_limit: u64 = 40,
        /// Out.
        gpu_id: u32 = 48,
        /// Zero.
        pad: u32 = 52,
    }
}
wire! {
    /// `kfd_ioctl_get_process_apertures_new_args`.
    GetProcessApertures 16 {
        /// In: where the entries go.
        process_device_apertures_ptr: u64 = 0,
        /// In and out.
        num_of_nodes: u32 = 8,
        /// Zero.
        pad: u32 = 12,
    }
}
wire! {
    /// `kfd_ioctl_create_event_args`.
    CreateEvent 32 {
        /// In for the first event: the handle of the event page's memory.
        event_page_offset: u64 = 0,
        /// Out.
        event_trigger_data: u32 = 8,
        /// In.
        event_type: u32 = 12,
        /// In.
        auto_reset: u32 = 16,
        /// In.
        node_id: u32 = 20,
        /// Out.
        event_id: u32 = 24,
        /// Out.
        event_slot_index: u32 = 28,
    }
}
wire! {
    /// `kfd_event_data`: a union of the two kinds of exception, as words, then the tail.
    EventData 48 {
        /// Memory: not present. Hardware: the kind of reset.
        data0: u32 = 0,
        /// Memory: read only. Hardware: the cause.
        data1: u32 = 4,
        /// Memory: no execute. Hardware: memory lost.
        data2: u32 = 8,
        /// Memory: imprecise. Hardware: the GPU's id.
        data3: u32 = 12,
        /// Memory: the address.
        va: u64 = 16,
        /// Memory: the GPU's id.
        gpu_id: u32 = 24,
        /// Memory: the kind of error.
        error_type: u32 = 28,
        /// Unused.
        extension: u64 = 32,
        /// In.
        event_id: u32 = 40,
        /// Zero.
        pad: u32 = 44,
    }
}
wire! {
    /// `kfd_ioctl_wait_events_args`.
    WaitEvents 24 {
        /// In: an array of [`EventData`].
        events_ptr: u64 = 0,
        /// In.
        num_events: u32 = 8,
        /// In.
        wait_for_all: u32 = 12,
        /// In, milliseconds; all ones is for ever.
        timeout: u32 = 16,
        /// Out.
        wait_result: u32 = 20,
    }
}
wire! {
    /// `kfd_ioctl_set_memory_policy_args`.
    SetMemoryPolicy 32 {
        /// In.
        alternate_aperture_base: u64 = 0,
        /// In.
        alternate_aperture_size: u64 = 8,
        /// In.
        gpu_id: u32 = 16,
        /// In.
        default_policy: u32 = 20,
        /// In.
        alternate_policy: u32 = 24,
        /// Zero.
        pad: u32 = 28,
    }
}
wire! {
    /// `kfd_ioctl_acquire_vm_args`.
    AcquireVm 8 {
        /// In: the render node.
        drm_fd: u32 = 0,
        /// In.
        gpu_id: u32 = 4,
    }
}
wire! {
    /// `kfd_ioctl_alloc_memory_of_gpu_args`.
    AllocMemory 40 {
        /// In: the address on every GPU.
        va_addr: u64 = 0,
        /// In, bytes.
        size: u64 = 8,
        /// Out.
        handle: u64 = 16,
        /// Out: the offset to map; in for host pages: their address.
        mmap_offset: u64 = 24,
        /// In.
        gpu_id: u32 = 32,
        /// In.
        flags: u32 = 36,
    }
}
wire! {
    /// `kfd_ioctl_free_memory_of_gpu_args`.
    FreeMemory 8 {
        /// In.
        handle: u64 = 0,
    }
}
wire! {
    /// `kfd_ioctl_map_memory_to_gpu_args`, and the call that takes it back.
    MapMemory 24 {
        /// In.
        handle: u64 = 0,
        /// In: an array of GPU ids.
        device_ids_array_ptr: u64 = 8,
        /// In.
        n_devices: u32 = 16,
        /// In and out: how many are done.
        n_success: u32 = 20,
    }
}
wire! {
    /// An entry of the array of GPUs that the two calls above name.
    GpuId 4 {
        /// In.
        gpu_id: u32 = 0,
    }
}
wire! {
    /// `kfd_ioctl_get_available_memory_args`.
    AvailableMemory 16 {
        /// Out, bytes.
        available: u64 = 0,
        /// In.
        gpu_id: u32 = 8,
        /// Zero.
        pad: u32 = 12,
    }
}
wire! {
    /// `kfd_ioctl_set_xnack_mode_args`.
    SetXnackMode 4 {
        /// In and out: 1 on, 0 off, negative asks.
        xnack_enabled: i32 = 0,
    }
}
wire! {
    /// `kfd_ioctl_export_dmabuf_args`.
    ExportDmabuf 16 {
        /// In.
        handle: u64 = 0,
        /// In: O_CLOEXEC and the access of `open`.
        flags: u32 = 8,
        /// Out.
        dmabuf_fd: u32 = 12,
    }
}
/// The flags that EXPORT_DMABUF takes: O_CLOEXEC and O_ACCMODE.
pub const EXPORT_FLAGS: u32 = 0o2_000_003;
wire! {
    /// `kfd_ioctl_runtime_enable_args`.
    RuntimeEnable 16 {
        /// In.
        r_debug: u64 = 0,
        /// In: 1 enables, 2 asks for time-to-live registers.
        mode_mask: u32 = 8,
        /// Out.
        capabilities_mask: u32 = 12,
    }
}

/// The memory is the GPU's own.
pub const FLAG_VRAM: u32 = 1;
/// The memory is the host's, of the driver.
pub const FLAG_GTT: u32 = 1 << 1;
/// The memory is the host's, of the caller.
pub const FLAG_USERPTR: u32 = 1 << 2;
/// The memory is doorbells.
pub const FLAG_DOORBELL: u32 = 1 << 3;
/// The memory is the page of registers that flush the window.
pub const FLAG_MMIO_REMAP: u32 = 1 << 4;
/// GPUs may write.
pub const FLAG_WRITABLE: u32 = 1 << 31;
/// GPUs may run it.
pub const FLAG_EXECUTABLE: u32 = 1 << 30;
/// The host may map it.
pub const FLAG_PUBLIC: u32 = 1 << 29;
/// No other kind of memory may serve.
pub const FLAG_NO_SUBSTITUTE: u32 = 1 << 28;
/// The ring of an old queue, mapped twice.
pub const FLAG_AQL_QUEUE_MEM: u32 = 1 << 27;
/// Caches of a GPU are bypassed.
pub const FLAG_COHERENT: u32 = 1 << 26;
/// Caches of a GPU are bypassed.
pub const FLAG_UNCACHED: u32 = 1 << 25;
/// Finer coherence, since 1.15.
pub const FLAG_EXT_COHERENT: u32 = 1 << 24;
/// Pages in one piece, since 1.16.
pub const FLAG_CONTIGUOUS: u32 = 1 << 23;
/// Every flag that the kernel knows.
pub const FLAGS: u32 = 0x1f | 0xff80_0000;

/// `KFD_IOC_QUEUE_TYPE_SDMA`.
pub const QUEUE_SDMA: u32 = 1;
/// `KFD_IOC_QUEUE_TYPE_COMPUTE_AQL`.
pub const QUEUE_AQL: u32 = 2;

/// An event that the GPU or the host signals.
pub const EVENT_SIGNAL: u32 = 0;
/// An event of a reset or a hang.
pub const EVENT_HW_EXCEPTION: u32 = 3;
/// An event of an access that no mapping allows.
pub const EVENT_MEMORY: u32 = 8;

/// A wait's result: all that was asked for came.
pub const WAIT_COMPLETE: u32 = 0;
/// A wait's result: the time is over.
pub const WAIT_TIMEOUT: u32 = 1;
/// A wait's result: an event is gone.
pub const WAIT_FAIL: u32 = 2;

/// The kind of mapping in an offset's top bits: doorbells.
pub const MMAP_DOORBELL: u64 = 3 << 62;
/// The kind of mapping in an offset's top bits: the page of events.
pub const MMAP_EVENTS: u64 = 2 << 62;
/// Where an offset holds the low 16 bits of a GPU's id.
pub const MMAP_GPU_SHIFT: u32 = 46;
/// Bytes of a process's doorbells on one GPU.
pub const DOORBELL_BYTES: usize = 8192;

/// The number in a request's low byte.
pub fn number(request: u32) -> u32 {
    request & 0xff
}

/// The bytes of a request's struct.
pub fn size(request: u32) -> usize {
    (request >> 16 & 0x3fff) as usize
}

/// The request of the kernel's family with this number, size and directions.
pub const fn request(direction: u32, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | (b'K' as u32) << 8 | number
}

/// The caller's struct goes in.
pub const IN: u32 = 1;
/// The kernel's answer comes out.
pub const OUT: u32 = 2;
/// Both.
pub const BOTH: u32 = 3;
