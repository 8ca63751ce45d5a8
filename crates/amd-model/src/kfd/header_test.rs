//! The structs against the kernel's own header, by its C compiler: sizes, places of fields, and requests.

use super::abi::{self, *};
use std::mem::{offset_of, size_of};
use std::process::Command;

/// A line of C that prints a number, and the number that it is to print.
type Line = (String, usize);

macro_rules! fields {
    ($lines:ident, $kind:ty, $c:literal, $($field:ident $($inner:literal)?),*) => {
        $({
            let name = [$($inner,)? stringify!($field)][0];
            $lines.push((format!("offsetof(struct {}, {name})", $c), offset_of!($kind, $field)));
        })*
    };
}

fn calls() -> Vec<Line> {
    let mut lines = Vec::new();
    fields!(lines, GetVersion, "kfd_ioctl_get_version_args", major_version, minor_version);
    fields!(lines, CreateQueue, "kfd_ioctl_create_queue_args", ring_base_address, write_pointer_address);
    fields!(
        lines,
        CreateQueue,
        "kfd_ioctl_create_queue_args",
        read_pointer_address,
        doorbell_offset,
        ring_size,
        gpu_id
    );
    fields!(lines, CreateQueue, "kfd_ioctl_create_queue_args", queue_type, queue_percentage, queue_priority, queue_id);
    fields!(lines, CreateQueue, "kfd_ioctl_create_queue_args", eop_buffer_address, eop_buffer_size);
    fields!(lines, CreateQueue, "kfd_ioctl_create_queue_args", ctx_save_restore_address, ctx_save_restore_size);
    fields!(lines, CreateQueue, "kfd_ioctl_create_queue_args", ctl_stack_size);
    fields!(lines, Id, "kfd_ioctl_destroy_queue_args", id "queue_id");
    fields!(lines, Id, "kfd_ioctl_destroy_event_args", id "event_id");
    fields!(lines, Id, "kfd_ioctl_set_event_args", id "event_id");
    fields!(lines, Id, "kfd_ioctl_reset_event_args", id "event_id");
    fields!(lines, GetClockCounters, "kfd_ioctl_get_clock_counters_args", gpu_clock_counter, cpu_clock_counter);
    fields!(
        lines,
        GetClockCounters,
        "kfd_ioctl_get_clock_counters_args",
        system_clock_counter,
        system_clock_freq,
        gpu_id
    );
    fields!(lines, DeviceApertures, "kfd_process_device_apertures", lds_base, lds_limit, scratch_base, scratch_limit);
    fields!(lines, DeviceApertures, "kfd_process_device_apertures", gpuvm_base, gpuvm_limit, gpu_id);
    fields!(lines, GetProcessApertures, "kfd_ioctl_get_process_apertures_new_args", num_of_nodes);
    fields!(
        lines,
        SetMemoryPolicy,
        "kfd_ioctl_set_memory_policy_args",
        alternate_aperture_base,
        gpu_id,
        default_policy
    );
    fields!(lines, AcquireVm, "kfd_ioctl_acquire_vm_args", drm_fd, gpu_id);
    fields!(
        lines,
        AllocMemory,
        "kfd_ioctl_alloc_memory_of_gpu_args",
        va_addr,
        size,
        handle,
        mmap_offset,
        gpu_id,
        flags
    );
    fields!(lines, FreeMemory, "kfd_ioctl_free_memory_of_gpu_args", handle);
    fields!(lines, MapMemory, "kfd_ioctl_map_memory_to_gpu_args", handle, device_ids_array_ptr, n_devices, n_success);
    fields!(
        lines,
        MapMemory,
        "kfd_ioctl_unmap_memory_from_gpu_args",
        handle,
        device_ids_array_ptr,
        n_devices,
        n_success
    );
    fields!(lines, AvailableMemory, "kfd_ioctl_get_available_memory_args", available, gpu_id);
    fields!(lines, SetXnackMode, "kfd_ioctl_set_xnack_mode_args", xnack_enabled);
    lines
}

fn events() -> Vec<Line> {
    let mut lines = Vec::new();
    fields!(lines, CreateEvent, "kfd_ioctl_create_event_args", event_page_offset, event_trigger_data, event_type);
    fields!(lines, CreateEvent, "kfd_ioctl_create_event_args", auto_reset, node_id, event_id, event_slot_index);
    fields!(lines, EventData, "kfd_event_data", data0 "memory_exception_data.failure.NotPresent");
    fields!(lines, EventData, "kfd_event_data", data1 "memory_exception_data.failure.ReadOnly");
    fields!(lines, EventData, "kfd_event_data", data2 "memory_exception_data.failure.NoExecute");
    fields!(lines, EventData, "kfd_event_data", data3 "memory_exception_data.failure.imprecise");
    fields!(lines, EventData, "kfd_event_data", va "memory_exception_data.va", gpu_id "memory_exception_data.gpu_id");
    fields!(lines, EventData, "kfd_event_data", data0 "hw_exception_data.reset_type");
    fields!(lines, EventData, "kfd_event_data", data1 "hw_exception_data.reset_cause");
    fields!(lines, EventData, "kfd_event_data", data2 "hw_exception_data.memory_lost", data3 "hw_exception_data.gpu_id");
    fields!(lines, EventData, "kfd_event_data", extension "kfd_event_data_ext", event_id);
    fields!(
        lines,
        WaitEvents,
        "kfd_ioctl_wait_events_args",
        events_ptr,
        num_events,
        wait_for_all,
        timeout,
        wait_result
    );
    lines
}

/// The requests, which hold directions, numbers and sizes; and the flags and kinds.
fn numbers() -> Vec<Line> {
    let request = |name: &str, direction, number, size| {
        (format!("(size_t)AMDKFD_IOC_{name}"), abi::request(direction, number, size) as usize)
    };
    let mut lines = vec![request("CREATE_QUEUE", BOTH, 2, CREATE_QUEUE_OLD)];
    // Two are newer than headers that are still in use.
    let newer = ["CREATE_QUEUE", "EXPORT_DMABUF", "RUNTIME_ENABLE"];
    let known = super::SHAPES.iter().filter(|shape| !newer.contains(&shape.name));
    lines.extend(known.map(|shape| request(shape.name, shape.direction, shape.number, shape.size)));
    let flags = [
        ("VRAM", FLAG_VRAM),
        ("GTT", FLAG_GTT),
        ("USERPTR", FLAG_USERPTR),
        ("DOORBELL", FLAG_DOORBELL),
        ("MMIO_REMAP", FLAG_MMIO_REMAP),
        ("WRITABLE", FLAG_WRITABLE),
        ("EXECUTABLE", FLAG_EXECUTABLE),
        ("PUBLIC", FLAG_PUBLIC),
        ("NO_SUBSTITUTE", FLAG_NO_SUBSTITUTE),
        ("AQL_QUEUE_MEM", FLAG_AQL_QUEUE_MEM),
        ("COHERENT", FLAG_COHERENT),
        ("UNCACHED", FLAG_UNCACHED),
    ];
    lines.extend(flags.map(|(name, flag)| (format!("(uint32_t)KFD_IOC_ALLOC_MEM_FLAGS_{name}"), flag as usize)));
    let kinds = [
        ("QUEUE_TYPE_SDMA", QUEUE_SDMA),
        ("QUEUE_TYPE_COMPUTE_AQL", QUEUE_AQL),
        ("EVENT_SIGNAL", EVENT_SIGNAL),
        ("EVENT_HW_EXCEPTION", EVENT_HW_EXCEPTION),
        ("EVENT_MEMORY", EVENT_MEMORY),
        ("WAIT_RESULT_COMPLETE", WAIT_COMPLETE),
        ("WAIT_RESULT_TIMEOUT", WAIT_TIMEOUT),
        ("WAIT_RESULT_FAIL", WAIT_FAIL),
    ];
    lines.extend(kinds.map(|(name, kind)| (format!("KFD_IOC_{name}"), kind as usize)));
    lines.push(("sizeof(struct kfd_event_data)".to_owned(), size_of::<EventData>()));
    lines
}

#[test]
fn structs_requests_and_flags_are_those_of_the_kernels_header() {
    if !std::path::Path::new("/usr/include/linux/kfd_ioctl.h").exists() {
        eprintln!("there is no kernel header here to compare with");
        return;
    }
    let lines: Vec<Line> = calls().into_iter().chain(events()).chain(numbers()).collect();
    let asserts = lines.iter().map(|(c, number)| format!("_Static_assert(({c}) == {number}u, \"\");\n"));
    let program = format!(
        "#include <stddef.h>\n#include <stdint.h>\n#include <linux/kfd_ioctl.h>\n{}",
        asserts.collect::<String>()
    );
    let folder = std::env::temp_dir().join(format!("rig-amd-model-header-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("drm")).unwrap();
    // The header includes it for its integers alone, and it comes with another package.
    std::fs::write(folder.join("drm/drm.h"), "#include <linux/types.h>\n").unwrap();
    std::fs::write(folder.join("all.c"), program).unwrap();
    let output = ["clang-19", "clang", "cc"].iter().find_map(|compiler| {
        let arguments = ["-fsyntax-only", "-I", ".", "all.c"];
        Command::new(compiler).args(arguments).current_dir(&folder).output().ok()
    });
    std::fs::remove_dir_all(&folder).unwrap();
    let output = output.expect("a C compiler is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(lines.len() > 100);
}
