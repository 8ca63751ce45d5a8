//! Calls of the kernel: the first group of violations, and what the kernel answers without one.

use super::kit::*;
use crate::{Call, Group, Machine, QueueMemory, Violation, abi, errno};

pub(super) fn driver() -> Driver {
    Driver::held(0)
}

/// The only violation that there is, of the group of calls.
pub(super) fn found(driver: &Driver) -> Violation {
    let mut found = driver.machine.assert_found(Group::Calls);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

pub(super) fn field(violation: &Violation) -> &'static str {
    match violation {
        Violation::Argument { field, .. } => field,
        other => panic!("not an argument: {other:?}"),
    }
}

#[test]
fn versions_and_the_topology_name_a_gfx1100() {
    let driver = Driver::open(Machine::builder().gpus(2).kfd_version(1, 14));
    let mut version = abi::GetVersion::default();
    driver.call(abi::OUT, 0x01, &mut version).unwrap();
    assert_eq!((version.major_version, version.minor_version), (1, 14));
    let root = "/sys/devices/virtual/kfd/kfd/topology/nodes";
    assert_eq!(driver.machine.list(root).unwrap(), ["0", "1", "2"]);
    let read = |path: &str| driver.machine.read_text(&format!("{root}/{path}")).unwrap();
    assert_eq!(read("0/gpu_id"), "0\n");
    assert_eq!(read("1/gpu_id"), format!("{}\n", driver.gpu_id));
    assert!(read("1/properties").contains("gfx_target_version 110000\n"));
    assert!(read("2/properties").contains("drm_render_minor 129\n"));
    assert_eq!(driver.machine.list(&format!("{root}/2/p2p_links")).unwrap(), ["0"]);
    assert!(read("2/p2p_links/0/properties").contains("node_to 1\n"));
    assert!(read("2/io_links/0/properties").contains("node_to 0\n"));
    assert!(read("0/io_links/1/properties").contains("node_to 2\n"));
    assert!(read("1/mem_banks/0/properties").contains("heap_type 1\n"));
    assert_eq!(driver.machine.read_text(&format!("{root}/3/gpu_id")), Err(errno::ENOENT));
    assert_eq!(driver.machine.open("/dev/nothing"), Err(errno::ENOENT));
    driver.machine.assert_clean();
}

#[test]
fn a_request_that_is_none_and_one_of_another_size_are_refused() {
    let driver = driver();
    let mut bytes = [0u64; 16];
    let mut call = |request| {
        // SAFETY: the struct is longer than any request's.
        unsafe { driver.machine.ioctl(driver.kfd, request, bytes.as_mut_ptr().cast()) }
    };
    assert_eq!(call(abi::request(abi::BOTH, 0x7f, 8)), Err(errno::ENOTTY));
    assert!(matches!(found(&driver), Violation::UnknownCall { .. }));
    for request in [abi::request(abi::BOTH, 0x16, 48), abi::request(abi::IN, 0x16, 40)] {
        assert_eq!(call(request), Err(errno::EINVAL));
        assert!(matches!(found(&driver), Violation::CallShape { call: "ALLOC_MEMORY_OF_GPU", .. }));
    }
    assert_eq!(call(abi::request(abi::OUT, 0x01, 8)), Ok(0));
    driver.machine.assert_clean();
}

#[test]
fn an_older_kernel_has_neither_later_calls_nor_later_fields() {
    let driver = Driver::open(Machine::builder().held().kfd_version(1, 11));
    let mut value = abi::RuntimeEnable::default();
    assert_eq!(driver.call(abi::BOTH, 0x25, &mut value), Err(errno::ENOTTY));
    assert!(matches!(found(&driver), Violation::UnknownCall { .. }));
    let (mut value, ..) = driver.sdma_plan(4096);
    assert_eq!(driver.create_queue(&mut value), Err(errno::EINVAL));
    assert!(matches!(found(&driver), Violation::CallShape { call: "CREATE_QUEUE", .. }));
    let request = abi::request(abi::BOTH, 0x02, abi::CREATE_QUEUE_OLD);
    // SAFETY: the struct is longer than the request's.
    let made = unsafe { driver.machine.ioctl(driver.kfd, request, (&raw mut value).cast()) };
    assert_eq!(made, Ok(0));
    driver.machine.assert_clean();
}

#[test]
fn a_file_that_is_not_open_is_a_violation() {
    let driver = driver();
    driver.machine.close(driver.render);
    driver.machine.close(driver.render);
    assert_eq!(found(&driver), Violation::NoFile { fd: driver.render });
}

#[test]
fn a_gpu_is_bound_to_one_file_until_the_process_ends() {
    let driver = driver();
    let second = driver.machine.open("/dev/dri/renderD128").unwrap();
    let mut acquire = abi::AcquireVm { drm_fd: driver.render as u32, gpu_id: driver.gpu_id };
    assert_eq!(driver.call(abi::IN, 0x15, &mut acquire), Ok(()), "the same again");
    acquire.drm_fd = second as u32;
    driver.machine.close(driver.render);
    assert_eq!(driver.call(abi::IN, 0x15, &mut acquire), Err(errno::EBUSY));
    driver.machine.assert_clean();
    acquire.drm_fd = driver.kfd as u32;
    assert_eq!(driver.call(abi::IN, 0x15, &mut acquire), Err(errno::EINVAL));
    assert_eq!(field(&found(&driver)), "drm_fd");
}

#[test]
fn memory_of_a_gpu_without_addresses_is_refused() {
    let machine = Machine::builder().held().build();
    let (kfd, gpu_id) = (machine.open("/dev/kfd").unwrap(), machine.gpu_id(0));
    let mut value = abi::AllocMemory { va_addr: 1 << 30, size: 4096, gpu_id, flags: SHARED, ..Default::default() };
    // SAFETY: `value` is the struct that the request names.
    let mut alloc =
        || unsafe { machine.ioctl(kfd, request::<abi::AllocMemory>(abi::BOTH, 0x16), (&raw mut value).cast()) };
    assert_eq!(alloc(), Err(errno::ESRCH));
    assert_eq!(field(&machine.assert_found(Group::Calls)[0]), "gpu_id");
}

#[test]
fn flags_that_the_kernel_does_not_know_or_that_contradict_are_violations() {
    let driver = driver();
    let va = driver.reserve(4096);
    let both = SHARED | abi::FLAG_VRAM;
    let kindless = SHARED & !abi::FLAG_GTT;
    for flags in [SHARED | 1 << 10, both, kindless, OWN | abi::FLAG_AQL_QUEUE_MEM] {
        assert_eq!(driver.try_alloc(va, 4096, flags).unwrap_err(), errno::EINVAL);
        assert!(matches!(found(&driver), Violation::Flags { .. }), "{flags:#x}");
    }
    driver.try_alloc(va, 4096, SHARED).unwrap();
    driver.machine.assert_clean();
}

#[test]
fn sizes_and_addresses_are_whole_pages_of_ones_own() {
    let driver = driver();
    let va = driver.reserve(16384);
    for (va, len, named) in [(va, 0, "size"), (va, 100, "size"), (va + 8, 4096, "va_addr"), (1 << 47, 4096, "va_addr")]
    {
        assert_eq!(driver.try_alloc(va, len, SHARED).unwrap_err(), errno::EINVAL);
        assert_eq!(field(&found(&driver)), named);
    }
    driver.try_alloc(va, 8192, SHARED).unwrap();
    assert_eq!(driver.try_alloc(va + 4096, 8192, SHARED).unwrap_err(), errno::EINVAL);
    assert_eq!(field(&found(&driver)), "va_addr");
    driver.try_alloc(va + 8192, 8192, SHARED).unwrap();
    driver.machine.assert_clean();
}

#[test]
fn memory_ends_without_a_violation() {
    let driver = Driver::open(Machine::builder().held().vram(1 << 20));
    let va = driver.reserve(2 << 20);
    assert_eq!(driver.try_alloc(va, 2 << 20, OWN).unwrap_err(), errno::ENOMEM);
    let made = driver.try_alloc(va, 1 << 20, OWN).unwrap();
    let mut value = abi::AvailableMemory { gpu_id: driver.gpu_id, ..Default::default() };
    driver.call(abi::BOTH, 0x23, &mut value).unwrap();
    assert_eq!(value.available, 0);
    driver.free(Mem { va, len: 1 << 20, handle: made.handle }).unwrap();
    driver.try_alloc(va, 1 << 20, OWN).unwrap();
    driver.machine.assert_clean();
}

#[test]
fn what_is_mapped_is_not_freed() {
    let driver = driver();
    let mem = driver.alloc(4096, SHARED);
    assert_eq!(driver.free(mem), Err(errno::EBUSY));
    assert_eq!(found(&driver), Violation::FreedMapped { handle: mem.handle, va: mem.va });
    driver.unmap(mem).unwrap();
    driver.free(mem).unwrap();
    driver.machine.assert_clean();
    assert_eq!(driver.free(mem), Err(errno::EINVAL));
    assert_eq!(field(&found(&driver)), "handle");
}

#[test]
fn what_a_queue_stands_on_is_neither_unmapped_nor_freed() {
    let driver = driver();
    let queue = driver.sdma();
    assert_eq!(driver.unmap(queue.ring), Err(errno::EBUSY));
    assert_eq!(found(&driver), Violation::UnmappedUsed { handle: queue.ring.handle, va: queue.ring.va });
    driver.call(abi::BOTH, 0x03, &mut abi::Id { id: queue.id, pad: 0 }).unwrap();
    driver.unmap(queue.ring).unwrap();
    driver.free(queue.ring).unwrap();
    driver.machine.assert_clean();
    assert_eq!(driver.call(abi::BOTH, 0x03, &mut abi::Id { id: queue.id, pad: 0 }), Err(errno::EINVAL));
    assert_eq!(field(&found(&driver)), "queue_id");
}

#[test]
fn the_host_does_not_map_what_is_hidden_or_longer_than_it_is() {
    let driver = driver();
    let map = |value: &abi::AllocMemory, len: usize| {
        // SAFETY: MAP_SHARED at an address that the kernel chooses replaces nothing.
        unsafe { driver.machine.mmap(0, len, 3, 1, Some(driver.render), value.mmap_offset) }
    };
    let hidden = driver.try_alloc(driver.reserve(4096), 4096, OWN & !abi::FLAG_PUBLIC).unwrap();
    assert_eq!(map(&hidden, 4096), Err(errno::EPERM));
    assert!(matches!(found(&driver), Violation::Flags { call: "mmap", .. }));
    let value = driver.try_alloc(driver.reserve(4096), 4096, SHARED).unwrap();
    assert_eq!(map(&value, 8192), Err(errno::EINVAL));
    assert_eq!(field(&found(&driver)), "length");
    assert_eq!(map(&abi::AllocMemory::default(), 4096), Err(errno::EINVAL));
    assert_eq!(field(&found(&driver)), "offset");
    let at = map(&value, 4096).unwrap();
    // SAFETY: nothing uses the mapping.
    unsafe { driver.machine.munmap(at, 4096) }.unwrap();
    driver.machine.assert_clean();
    // SAFETY: the machine refuses, and unmaps nothing.
    assert_eq!(unsafe { driver.machine.munmap(at, 4096) }, Err(errno::EINVAL));
    assert_eq!(found(&driver), Violation::UnmappedHost { address: at, len: 4096 });
}

#[test]
fn a_compute_queue_needs_every_memory_mapped_at_its_size() {
    let driver = driver();
    let (plan, ..) = driver.aql_plan(64);
    let other = driver.alloc(16384, SHARED).va;
    let unmapped = driver.unmapped(4096, SHARED).va;
    type Spoil = fn(&mut abi::CreateQueue, u64);
    let spoils: [(QueueMemory, Spoil); 5] = [
        (QueueMemory::Ring, |plan, va| plan.ring_base_address = va),
        (QueueMemory::WritePointer, |plan, va| plan.write_pointer_address = va + 0x38),
        (QueueMemory::ReadPointer, |plan, va| plan.read_pointer_address = va + 0x80),
        (QueueMemory::EndOfPipe, |plan, va| plan.eop_buffer_address = va),
        (QueueMemory::SaveArea, |plan, va| plan.ctx_save_restore_address = va),
    ];
    for (memory, spoil) in spoils {
        let mut spoiled = plan;
        spoil(&mut spoiled, unmapped);
        assert_eq!(driver.create_queue(&mut spoiled), Err(errno::EINVAL));
        assert!(matches!(found(&driver), Violation::QueueUnmapped { memory: named, .. } if named == memory));
        let mut spoiled = plan;
        spoil(&mut spoiled, other);
        assert_eq!(driver.create_queue(&mut spoiled), Err(errno::EINVAL));
        assert!(matches!(found(&driver), Violation::QueueSize { memory: named, .. } if named == memory));
    }
    driver.create_queue(&mut plan.clone()).unwrap();
    driver.machine.assert_clean();
}

#[test]
fn a_queue_is_refused_for_each_number_that_the_kernel_checks() {
    let driver = driver();
    let (plan, ..) = driver.aql_plan(64);
    type Spoil = fn(&mut abi::CreateQueue);
    let spoils: [(&str, Spoil); 11] = [
        ("queue_type", |plan| plan.queue_type = 7),
        ("queue_percentage", |plan| plan.queue_percentage = 101),
        ("queue_priority", |plan| plan.queue_priority = 16),
        ("ring_size", |plan| plan.ring_size = 3000),
        ("ring_size", |plan| plan.ring_size = 512),
        ("ring_base_address", |plan| plan.ring_base_address += 8),
        ("read_pointer_address", |plan| plan.read_pointer_address += 4),
        ("eop_buffer_size", |plan| plan.eop_buffer_size = 2048),
        ("ctl_stack_size", |plan| plan.ctl_stack_size += 4096),
        ("ctx_save_restore_size", |plan| plan.ctx_save_restore_size -= 4096),
        ("gpu_id", |plan| plan.gpu_id += 1),
    ];
    for (named, spoil) in spoils {
        let mut spoiled = plan;
        spoil(&mut spoiled);
        assert_eq!(driver.create_queue(&mut spoiled), Err(errno::EINVAL));
        assert_eq!(field(&found(&driver)), named);
    }
    driver.create_queue(&mut plan.clone()).unwrap();
    driver.machine.assert_clean();
}

#[test]
fn doorbells_are_mapped_whole() {
    let driver = driver();
    let (mut value, ..) = driver.sdma_plan(4096);
    driver.create_queue(&mut value).unwrap();
    // SAFETY: MAP_SHARED at an address that the kernel chooses replaces nothing.
    let map = |len| unsafe { driver.machine.mmap(0, len, 3, 1, Some(driver.kfd), value.doorbell_offset & !0x1fff) };
    assert_eq!(map(4096), Err(errno::EINVAL));
    assert_eq!(field(&found(&driver)), "length");
    map(8192).unwrap();
    driver.machine.assert_clean();
}

#[test]
fn a_planned_call_fails_and_does_nothing() {
    let driver = driver();
    driver.machine.fail(Call::AllocMemory, 1, 2, errno::ENOMEM);
    let alloc = || driver.try_alloc(driver.reserve(4096), 4096, SHARED).map(|_| ());
    let before = driver.machine.counts().memories;
    assert_eq!([alloc(), alloc(), alloc(), alloc()], [Ok(()), Err(errno::ENOMEM), Err(errno::ENOMEM), Ok(())]);
    assert_eq!(driver.machine.counts().memories, before + 2);
    driver.machine.assert_clean();
}

#[test]
fn clocks_of_the_host_and_the_gpu_advance_together() {
    let driver = driver();
    let mut clocks = abi::GetClockCounters { gpu_id: driver.gpu_id, ..Default::default() };
    driver.call(abi::BOTH, 0x05, &mut clocks).unwrap();
    let (mut compute, mut copies, words) = (driver.aql(), driver.sdma(), driver.zeroed(4096, SHARED));
    let mut stamp = release(words.va, 0);
    stamp[2] = 3 << 29;
    compute.push_buffer(&stamp);
    let second = words.va + 32;
    copies.push(&[13 | 2 << 8, second as u32, (second >> 32) as u32]);
    compute.ring();
    copies.ring();
    driver.finish();
    let mut later = clocks;
    driver.call(abi::BOTH, 0x05, &mut later).unwrap();
    assert!(later.cpu_clock_counter > clocks.cpu_clock_counter);
    for at in [0, 32] {
        let stamp = words.word(at).load(std::sync::atomic::Ordering::Acquire);
        assert!((clocks.gpu_clock_counter..=later.gpu_clock_counter).contains(&stamp));
    }
    // 100 MHz beside nanoseconds.
    let (gpu, cpu) =
        (later.gpu_clock_counter - clocks.gpu_clock_counter, later.cpu_clock_counter - clocks.cpu_clock_counter);
    assert!(gpu * 10 <= cpu + 10_000_000 && cpu <= gpu * 10 + 10_000_000, "{gpu} {cpu}");
}

#[test]
fn the_calls_that_only_tell_or_set_answer() {
    let driver = driver();
    let mut entries = [abi::DeviceApertures::default(); 2];
    let process_device_apertures_ptr = entries.as_mut_ptr() as u64;
    let mut value = abi::GetProcessApertures { process_device_apertures_ptr, num_of_nodes: 2, pad: 0 };
    driver.call(abi::BOTH, 0x14, &mut value).unwrap();
    assert_eq!((value.num_of_nodes, entries[0].gpu_id), (1, driver.gpu_id));
    let mut xnack = abi::SetXnackMode { xnack_enabled: -1 };
    driver.call(abi::BOTH, 0x21, &mut xnack).unwrap();
    assert_eq!(xnack.xnack_enabled, 0);
    xnack.xnack_enabled = 1;
    assert_eq!(driver.call(abi::BOTH, 0x21, &mut xnack), Err(errno::EPERM));
    let mut policy = abi::SetMemoryPolicy { gpu_id: driver.gpu_id, ..Default::default() };
    driver.call(abi::IN, 0x04, &mut policy).unwrap();
    driver.call(abi::BOTH, 0x25, &mut abi::RuntimeEnable { mode_mask: 1, ..Default::default() }).unwrap();
    driver.machine.assert_clean();
    policy.default_policy = 9;
    assert_eq!(driver.call(abi::IN, 0x04, &mut policy), Err(errno::EINVAL));
    assert_eq!(field(&found(&driver)), "default_policy");
    let mut runtime = abi::RuntimeEnable { mode_mask: 8, ..Default::default() };
    assert_eq!(driver.call(abi::BOTH, 0x25, &mut runtime), Err(errno::EINVAL));
    assert_eq!(field(&found(&driver)), "mode_mask");
}

#[test]
fn host_pages_become_memory_of_the_gpu() {
    let driver = driver();
    let pages: Vec<u8> = vec![5; 8192];
    let at = (pages.as_ptr() as u64).next_multiple_of(4096);
    let flags = abi::FLAG_USERPTR | abi::FLAG_WRITABLE | abi::FLAG_COHERENT;
    let va = driver.reserve(4096);
    let mut value =
        abi::AllocMemory { va_addr: va, size: 4096, mmap_offset: at, gpu_id: driver.gpu_id, flags, handle: 0 };
    driver.call(abi::BOTH, 0x16, &mut value).unwrap();
    let wrapped = Mem { va, len: 4096, handle: value.handle };
    driver.map(wrapped).unwrap();
    let (mut queue, y) = (driver.sdma(), driver.zeroed(4096, SHARED));
    queue.push(&sdma_copy(va, y.va, 4096));
    queue.ring();
    driver.finish();
    assert_eq!(y.get(0, 4096), [5; 4096]);
    driver.unmap(wrapped).unwrap();
    driver.free(wrapped).unwrap();
    value.mmap_offset += 8;
    assert_eq!(driver.call(abi::BOTH, 0x16, &mut value), Err(errno::EINVAL));
    assert_eq!(field(&found(&driver)), "mmap_offset");
}
