//! The claims of `abi` against the kernel's own header, by the C compiler.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

/// The header, where Linux's are installed.
const HEADER: &str = "/usr/include/linux/kfd_ioctl.h";

/// A C file that compiles if the claims are true.
fn claims() -> String {
    let mut text = "#include <stddef.h>\n#include <linux/kfd_ioctl.h>\n".to_string();
    for (name, size, fields) in [
        GetVersion::CLAIMS,
        CreateQueue::CLAIMS,
        DestroyQueue::CLAIMS,
        GetClockCounters::CLAIMS,
        CreateEvent::CLAIMS,
        DestroyEvent::CLAIMS,
        WaitEvents::CLAIMS,
        AcquireVm::CLAIMS,
        AllocMemory::CLAIMS,
        FreeMemory::CLAIMS,
        MapMemory::CLAIMS,
        UnmapMemory::CLAIMS,
    ] {
        // Newer headers make some structs longer; never shorter.
        writeln!(text, "_Static_assert(sizeof({name}) >= {size}, \"size\");").unwrap();
        for (field, at) in fields {
            writeln!(text, "_Static_assert(offsetof({name}, {field}) == {at}, \"{field}\");").unwrap();
        }
    }
    numbers(&mut text);
    text
}

/// The claims of the numbers of requests and flags, and of the union of faults.
fn numbers(text: &mut String) {
    for (name, code) in [
        ("AMDKFD_IOC_GET_VERSION", GetVersion::CODE),
        ("AMDKFD_IOC_DESTROY_QUEUE", DestroyQueue::CODE),
        ("AMDKFD_IOC_GET_CLOCK_COUNTERS", GetClockCounters::CODE),
        ("AMDKFD_IOC_CREATE_EVENT", CreateEvent::CODE),
        ("AMDKFD_IOC_DESTROY_EVENT", DestroyEvent::CODE),
        ("AMDKFD_IOC_WAIT_EVENTS", WaitEvents::CODE),
        ("AMDKFD_IOC_ACQUIRE_VM", AcquireVm::CODE),
        ("AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", AllocMemory::CODE),
        ("AMDKFD_IOC_FREE_MEMORY_OF_GPU", FreeMemory::CODE),
        ("AMDKFD_IOC_MAP_MEMORY_TO_GPU", MapMemory::CODE),
        ("AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU", UnmapMemory::CODE),
    ] {
        writeln!(text, "_Static_assert({name} == {code}u, \"{name}\");").unwrap();
    }
    // The request that makes a queue grew with its struct: all but the size stays.
    let size = 0x3fff << 16;
    writeln!(
        text,
        "_Static_assert((AMDKFD_IOC_CREATE_QUEUE & ~{size}u) == {}u, \"queue\");",
        CreateQueue::CODE & !size
    )
    .unwrap();
    for (name, value) in [
        ("KFD_IOC_QUEUE_TYPE_SDMA", queue_type::SDMA),
        ("KFD_IOC_QUEUE_TYPE_COMPUTE_AQL", queue_type::COMPUTE_AQL),
        ("KFD_IOC_EVENT_SIGNAL", event_type::SIGNAL),
        ("KFD_IOC_EVENT_HW_EXCEPTION", event_type::HW_EXCEPTION),
        ("KFD_IOC_EVENT_MEMORY", event_type::MEMORY),
        ("KFD_SIGNAL_EVENT_LIMIT", EVENT_SLOTS as u32),
        ("KFD_IOC_ALLOC_MEM_FLAGS_VRAM", memory_flag::VRAM),
        ("KFD_IOC_ALLOC_MEM_FLAGS_GTT", memory_flag::GTT),
        ("KFD_IOC_ALLOC_MEM_FLAGS_USERPTR", memory_flag::USERPTR),
        ("KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP", memory_flag::MMIO_REMAP),
        ("KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED", memory_flag::UNCACHED),
        ("KFD_IOC_ALLOC_MEM_FLAGS_COHERENT", memory_flag::COHERENT),
        ("KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE", memory_flag::NO_SUBSTITUTE),
        ("KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC", memory_flag::PUBLIC),
        ("KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE", memory_flag::EXECUTABLE),
        ("KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE", memory_flag::WRITABLE),
    ] {
        writeln!(text, "_Static_assert((unsigned)({name}) == {value}u, \"{name}\");").unwrap();
    }
    for (field, at) in [("event_id", 40), ("memory_exception_data", 0), ("hw_exception_data", 0)] {
        writeln!(text, "_Static_assert(offsetof(struct kfd_event_data, {field}) == {at}, \"{field}\");").unwrap();
    }
    for (field, at) in [("failure", 0), ("va", 16), ("gpu_id", 24), ("ErrorType", 28)] {
        writeln!(text, "_Static_assert(offsetof(struct kfd_hsa_memory_exception_data, {field}) == {at}, \"{field}\");")
            .unwrap();
    }
    for (field, at) in [("reset_type", 0), ("reset_cause", 4), ("memory_lost", 8), ("gpu_id", 12)] {
        writeln!(text, "_Static_assert(offsetof(struct kfd_hsa_hw_exception_data, {field}) == {at}, \"{field}\");")
            .unwrap();
    }
}

/// Whether the C compiler takes the text; what it says where it does not.
fn compiles(text: &str) -> Result<(), String> {
    // The header includes one of the DRM's, for types alone, which is often not installed.
    let folder = std::env::temp_dir().join(format!("rig-amd-abi-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("drm")).unwrap();
    std::fs::write(folder.join("drm/drm.h"), "#include <linux/types.h>\n").unwrap();
    let mut child = Command::new("cc")
        .args(["-x", "c", "-std=c11", "-fsyntax-only", "-idirafter"])
        .arg(&folder)
        .arg("-")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn structs_and_numbers_are_those_of_the_kernels_header() {
    if !Path::new(HEADER).exists() || Command::new("cc").arg("--version").output().is_err() {
        println!("nothing to compare with: {HEADER} or a C compiler is missing");
        return;
    }
    compiles(&claims()).unwrap();
    let wrong = claims().replace("gpu_id) == 36", "gpu_id) == 37");
    assert!(compiles(&wrong).is_err(), "a wrong claim is seen");
}

#[test]
fn faults_are_read_from_the_union_by_their_types() {
    let mut event = EventData::of(9);
    event.data = [u64::from_ne_bytes([1, 0, 0, 0, 1, 0, 0, 0]), 0, 0x7f00_dead_b000, u64::from(77_u32.to_le())];
    let fault = event.memory();
    assert!(fault.not_present && fault.read_only && !fault.no_execute && !fault.imprecise);
    assert_eq!((fault.va, fault.gpu_id, fault.error_type), (0x7f00_dead_b000, 77, 0));
    event.data = [u64::from_ne_bytes([0, 0, 0, 0, 1, 0, 0, 0]), u64::from_ne_bytes([1, 0, 0, 0, 77, 0, 0, 0]), 0, 0];
    assert_eq!(event.hardware(), HwException { reset_type: 0, reset_cause: 1, memory_lost: 1, gpu_id: 77 });
}
