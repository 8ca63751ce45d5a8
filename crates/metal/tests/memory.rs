//! Memory: shared buffers, residency, wrapped pages, and what Metal does not give.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use rig::{Error, HostMemory};
use rig_edge::{Driver, Location, Mapping, Memory, page_bytes};
use rig_metal::sys::{MTLBuffer, MTLResource, MTLStorageMode};
use rig_metal_model::machine::{Machine, What};

use kit::direct::Direct;
use kit::machine::Mac;
use kit::{Kernels, lost, words};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

/// The buffer of a place.
#[expect(unsafe_code, reason = "the handle is the buffer's address")]
fn buffer(at: &Location) -> &objc2::runtime::ProtocolObject<dyn MTLBuffer> {
    // SAFETY: the driver says that the handle is its MTLBuffer, which lives as long as the region.
    unsafe { &*at.handle.cast() }
}

fn free(direct: &Direct, region: rig_metal::Region) {
    // SAFETY: no work uses it.
    #[expect(unsafe_code, reason = "calls the driver as rig does")]
    unsafe { direct.driver.free(region) }.unwrap();
}

/// Promises M10, M14.
#[test]
fn every_kind_is_a_shared_buffer_that_gpu_and_host_address() {
    let _mac = Mac::new();
    let direct = Direct::new();
    for memory in [Memory::Device, Memory::Pinned, Memory::Mapped] {
        for len in [4, 256, 4096, 100_000] {
            let region = direct.driver.alloc(memory, len).unwrap().unwrap();
            let at = direct.driver.locate(&region);
            let buffer = buffer(&at);
            assert_eq!(buffer.storageMode(), MTLStorageMode::Shared);
            assert_eq!(buffer.length(), len);
            assert_eq!(at.device, buffer.gpuAddress());
            assert_eq!(at.host.cast(), buffer.contents().as_ptr());
            assert_ne!(at.device, at.host.addr() as u64, "the GPU's address is not the host's");
            free(&direct, region);
        }
    }
    direct.close();
}

/// Promises M11, M15.
#[test]
fn a_region_is_resident_from_its_alloc_until_it_is_freed() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    assert_eq!(mac.machine.counts().resident, 1);
    // The model ends a command buffer that reaches memory which is not resident.
    direct.submit(&mut direct.iota(3));
    direct.driver.commit(direct.last).unwrap();
    direct.wait(1);
    let region = direct.driver.alloc(Memory::Device, 4096).unwrap().unwrap();
    assert_eq!(mac.machine.counts().resident, 2);
    let buffers = mac.live("Buffer");
    free(&direct, region);
    assert_eq!(mac.machine.counts().resident, 1);
    assert_eq!(mac.live("Buffer"), buffers - 1, "free releases the buffer");
    // After the stop there is no residency set to take it out of.
    let region = direct.driver.alloc(Memory::Device, 4096).unwrap().unwrap();
    direct.driver.stop(None).unwrap();
    free(&direct, region);
    direct.give_back();
    drop(direct);
    mac.ends();
}

/// Promise M11.
#[test]
fn work_that_is_encoded_already_does_not_keep_new_memory_from_being_resident() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    mac.machine.hold();
    let mut buffers = Vec::new();
    for i in 0..6 {
        // Larger than what rig places together.
        let y = kernels.device.buffer(1 << 20).unwrap();
        kernels.iota(&y, i).unwrap();
        buffers.push(y);
    }
    mac.machine.release();
    for (i, y) in buffers.iter().enumerate() {
        assert_eq!(words(y)[100], 100 + i as u32);
    }
}

/// Promises M12, M18.
#[test]
fn a_misplaced_buffer_faults_the_device_and_is_lost_to_its_users() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(400).unwrap();
    kernels.iota(&y, 1).unwrap().wait().unwrap();
    mac.machine.faults().misalign_buffers(true);
    let why = lost(kernels.device.buffer(64 << 20));
    assert!(why.contains("256") && why.contains("0x"), "{why}");
    mac.machine.faults().misalign_buffers(false);
    assert_eq!(lost(kernels.device.buffer(4)), why, "not OutOfMemory, and for ever");
    assert_eq!(lost(y.read(|_: &[u8]| ())), why);
    assert_eq!(lost(kernels.iota(&y, 1)), why);
}

/// Promise M12.
#[test]
fn a_misplaced_buffer_is_released_and_the_fault_stays() {
    let mac = Mac::new();
    let direct = Direct::new();
    let buffers = mac.live("Buffer");
    mac.machine.faults().misalign_buffers(true);
    let fault = direct.driver.alloc(Memory::Device, 4096).unwrap_err();
    assert_eq!(mac.live("Buffer"), buffers);
    let sleep = rig_edge::Sleep {
        seen: direct.word().load(),
        until: direct.last + 1,
        still: std::time::Duration::from_secs(60),
        help: false,
    };
    assert_eq!(direct.driver.sleep(sleep).unwrap_err(), fault);
    direct.close();
}

/// Promise M13.
#[test]
fn less_than_a_byte_is_invalid_and_no_memory_is_none() {
    let mac = Mac::of(Machine::builder().memory(8 << 20).max_buffer_length(4 << 20));
    let direct = Direct::new();
    assert!(direct.driver.alloc(Memory::Device, 0).unwrap_err().reason.contains("invalid"));
    #[expect(unsafe_code, reason = "calls the driver as rig does")]
    // SAFETY: no byte is named.
    let mapped = unsafe { direct.driver.map_host(std::ptr::without_provenance_mut(page_bytes()), 0) }.unwrap();
    assert!(matches!(mapped, Mapping::Never(_)));
    assert!(direct.driver.alloc(Memory::Device, 5 << 20).unwrap().is_none(), "longer than a buffer may be");
    let large = direct.driver.alloc(Memory::Device, 4 << 20).unwrap().unwrap();
    let more = direct.driver.alloc(Memory::Device, 3 << 20).unwrap().unwrap();
    assert!(direct.driver.alloc(Memory::Device, 3 << 20).unwrap().is_none(), "more than there is");
    mac.machine.faults().refuse(What::Buffer, 1);
    assert!(direct.driver.alloc(Memory::Device, 4).unwrap().is_none());
    assert!(
        direct
            .driver
            .sleep(rig_edge::Sleep {
                seen: direct.word().load() + 1,
                until: 0,
                still: std::time::Duration::ZERO,
                help: false
            })
            .is_ok(),
        "none of this is the device's failure"
    );
    free(&direct, large);
    free(&direct, more);
    direct.close();
}

/// Promise M13.
#[test]
fn memory_that_runs_out_is_an_error_and_an_exception_of_metals_a_loss() {
    let mac = Mac::of(Machine::builder().memory(64 << 20));
    let device = mac.open();
    match device.buffer(100 << 20) {
        Err(Error::OutOfMemory { bytes }) => assert!(bytes >= 100 << 20),
        other => panic!("{other:?}"),
    }
    device.buffer(1 << 20).unwrap();
    mac.machine.faults().throw(What::Buffer, 1..);
    let why = lost(device.buffer(32 << 20));
    assert!(why.contains("exception") && why.contains("asked to throw"), "{why}");
}

/// Promise M11.
#[test]
fn an_exception_while_memory_is_made_resident_is_the_devices_failure() {
    let mac = Mac::new();
    let direct = Direct::new();
    mac.machine.faults().throw(What::CommitResidency, 1);
    let fault = direct.driver.alloc(Memory::Device, 4096).unwrap_err();
    assert!(fault.reason.contains("exception"), "{fault}");
    direct.close();
}

/// Promise M16.
#[test]
fn host_pages_are_wrapped_whole_and_without_a_copy() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    let page = page_bytes();
    let mut memory = HostMemory::zeroed(3 * page).unwrap();
    let pages = memory.as_mut_ptr();
    let map = |address: *mut u8, len: usize| {
        // SAFETY: the pages stay until the mapping is freed.
        #[expect(unsafe_code, reason = "calls the driver as rig does")]
        match unsafe { direct.driver.map_host(address, len) }.unwrap() {
            Mapping::Mapped(region) => region,
            other => panic!("{other:?}"),
        }
    };
    for (offset, len, start, whole) in [(0, 4, 0, 1), (page, page + 1, 1, 2), (100, page, 0, 2), (page + 8, 1, 1, 1)] {
        let region = map(pages.wrapping_add(offset), len);
        let at = direct.driver.locate(&region);
        assert_eq!(at.host, pages.wrapping_add(start * page), "{offset} {len}");
        assert_eq!(buffer(&at).length(), whole * page, "{offset} {len}");
        free(&direct, region);
    }
    let region = map(pages, 3 * page);
    let own = std::mem::replace(&mut direct.at, direct.driver.locate(&region));
    direct.submit(&mut direct.iota(9));
    direct.driver.commit(direct.last).unwrap();
    direct.wait(1);
    direct.at = own;
    free(&direct, region);
    let seen: Vec<u32> = memory[..16].chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
    assert_eq!(seen, [9, 10, 11, 12], "the work wrote the host's own pages");
    direct.close();
    drop(mac);
}

/// Promise M16.
#[test]
fn what_metal_does_not_wrap_is_never_mapped_and_its_owner_comes_back() {
    let mac = Mac::new();
    let device = mac.open();
    for throws in [false, true] {
        let faults = mac.machine.faults();
        if throws {
            faults.throw(What::HostBuffer, 1)
        } else {
            faults.refuse(What::HostBuffer, 1)
        };
        let memory = HostMemory::zeroed(page_bytes()).unwrap();
        let address = memory.as_ptr();
        let refused = rig::Buffer::from_host(&device, memory).map(drop).unwrap_err();
        assert_eq!(refused.memory.as_ptr(), address);
        assert!(refused.error.to_string().contains("wrap"), "{}", refused.error);
    }
    rig::Buffer::from_host(&device, HostMemory::zeroed(page_bytes()).unwrap()).map(drop).unwrap();
}

/// Promise M17.
#[test]
fn no_peer_maps_the_memory_and_no_function_reaches_it() {
    let _mac = Mac::new();
    let (one, two) = (Direct::new(), Direct::new());
    assert!(!one.driver.peer(&two.driver));
    #[expect(unsafe_code, reason = "calls the driver as rig does")]
    // SAFETY: nothing is mapped.
    let mapped = unsafe { two.driver.map_peer(&one.driver, one.region.as_ref().unwrap()) }.unwrap();
    assert!(matches!(mapped, Mapping::Never(_)));
    let why = one.driver.dma(one.region.as_ref().unwrap(), "0000:41:00.0").unwrap().unwrap_err();
    assert!(why.contains("0000:41:00.0") && why.contains("DMA"), "{why}");
    one.close();
    two.close();
}

/// Promise M11.
#[test]
fn a_pointer_to_memory_that_is_not_the_devices_ends_the_work() {
    let mac = Mac::new();
    let device = mac.open();
    let test = device.load(&kit::library("test")).unwrap();
    let words = test.function("words").unwrap();
    // Parameters that no ref fills in: the kernel finds an address of nothing there.
    let step = device.submission().launch(&words, []).params(16).make().unwrap();
    let mut run = step.take();
    run.part(0).groups([1; 3]).threads([1; 3]).set(0, 0x4000_0000_0000u64).set(8, 3u32);
    let point = kit::launch(&mut run, &[]).unwrap();
    let why = lost(point.wait());
    assert!(why.starts_with("the GPU's work failed: "), "{why}");
    assert!(why.contains("words") && why.contains("0x4000"), "the kernel and the address: {why}");
}
