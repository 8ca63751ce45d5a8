//! Memory that others reach: right callers, and what the model sees of wrong ones.
#![expect(unsafe_code, reason = "the tests call the interface itself, and break its contracts on purpose")]

use rig_edge::Dma;

use super::*;

const FUNCTION: &str = "0000:41:00.0";

fn bus(driver: &ModelDriver, region: &ModelRegion) -> Vec<(u64, u64)> {
    match driver.dma(region, FUNCTION).unwrap().unwrap() {
        Dma::Bus(ranges) => ranges,
        other => panic!("{other:?}"),
    }
}

fn mapped(mapping: Result<Mapping<ModelRegion>, rig_edge::Fault>) -> ModelRegion {
    match mapping {
        Ok(Mapping::Mapped(region)) => region,
        other => panic!("{other:?}"),
    }
}

fn map_peer(by: &Caller, of: &Caller) -> Result<Mapping<ModelRegion>, rig_edge::Fault> {
    // SAFETY: the model checks what a test gets wrong, and relies on none of it.
    unsafe { by.driver.map_peer(&of.driver, of.region.as_ref().unwrap()) }
}

/// Gives all back but the region, whose bus addresses a function has.
fn leave(mut caller: Caller) {
    caller.device.complete_all();
    caller.plan = None;
    caller.driver.stop(None).unwrap();
    caller.region = None;
    caller.unload();
}

/// Promises E34, E35.
#[test]
fn a_function_with_bus_addresses_sees_what_a_value_wrote_and_later_work_what_it_wrote() {
    let model = Model::with("MODEL", Model::options().dma_bus());
    let mut caller = Caller::new(&model);
    let ranges = bus(&caller.driver, caller.region.as_ref().unwrap());
    assert_eq!(bus(&caller.driver, caller.region.as_ref().unwrap()), ranges, "asked again, they are the same");
    let [(at, len)] = ranges[..] else { panic!("{ranges:?}") };
    assert_eq!(len, BYTES as u64);
    assert_eq!(caller.device.dma_read(at, BYTES), [0; BYTES]);
    caller.submit();
    caller.device.step().unwrap();
    let words: Vec<u8> = (5_u32..21).flat_map(u32::to_ne_bytes).collect();
    assert_eq!(caller.device.dma_read(at, BYTES), words);
    caller.device.dma_write(at + 4, &7_u32.to_ne_bytes());
    assert_eq!(caller.bytes()[..3], [5, 7, 7]);
    let device = caller.device.clone();
    leave(caller);
    model.assert_empty();
    assert_eq!(device.dma_read(at + 4, 4), 7_u32.to_ne_bytes(), "the memory stays after its device");
}

/// Promise E34.
#[test]
fn bus_addresses_come_in_ranges_that_do_not_follow_one_another_and_cover_every_byte() {
    let model = Model::with("MODEL", Model::options().dma_bus());
    let caller = Caller::new(&model);
    let regions = [4100, 3 * 4096].map(|len| caller.driver.alloc(Memory::Device, len).unwrap().unwrap());
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (region, len) in regions.iter().zip([4100, 3 * 4096]) {
        let ranges = bus(&caller.driver, region);
        assert!(ranges.len() > 1 && ranges.iter().map(|(_, len)| len).sum::<u64>() == len, "{ranges:?}");
        assert!(ranges.windows(2).all(|two| two[0].0 + two[0].1 != two[1].0), "{ranges:?}");
        assert!(ranges.iter().all(|a| all.iter().all(|b| a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0)), "{ranges:?} {all:?}");
        all.extend(&ranges);
        // The ranges stand in the order of the region's bytes.
        caller.device.dma_write(ranges[0].0 + ranges[0].1 - 2, &[1, 2]);
        caller.device.dma_write(ranges[1].0, &[3, 4]);
        let bytes = super::bytes::Span::of_host(caller.driver.locate(region).host, len as usize).read();
        assert_eq!(bytes[4094..4098], [1, 2, 3, 4]);
    }
    caller.close();
    model.assert_empty();
}

/// Promise E36.
#[test]
fn after_a_bus_answer_nothing_opens_the_hardware_and_after_any_other_it_opens() {
    for (options, opens) in
        [(Model::options().dma_bus(), false), (Model::options().dma_buf(), true), (Model::options(), true)]
    {
        let model = Model::with("MODEL", options);
        let caller = Caller::new(&model);
        if let Ok(Dma::DmaBuf { descriptor, .. }) =
            caller.driver.dma(caller.region.as_ref().unwrap(), FUNCTION).unwrap()
        {
            close(descriptor);
        }
        let again = model.opener().make(Timeline::new(caller.index));
        match again {
            Err(why) => assert!(!opens && why.contains(FUNCTION), "{why}"),
            Ok(again) => {
                assert!(opens);
                again.stop(None).unwrap();
            }
        }
        if opens {
            caller.close()
        } else {
            leave(caller)
        }
        let other = Model::new("MODEL:1");
        Caller::new(&other).close();
    }
}

#[cfg(target_os = "linux")]
fn file(descriptor: i32) -> std::fs::File {
    // SAFETY: the driver gave the descriptor away.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(descriptor) }
}

fn close(descriptor: i32) {
    #[cfg(target_os = "linux")]
    drop(file(descriptor));
    let _ = descriptor;
}

/// Promises E34, E35.
#[cfg(target_os = "linux")]
#[test]
fn a_dma_buf_holds_the_regions_bytes_also_after_the_region_is_freed() {
    use std::os::unix::fs::FileExt;
    let model = Model::with("MODEL", Model::options().dma_buf());
    let mut caller = Caller::new(&model);
    let answer = caller.driver.dma(caller.region.as_ref().unwrap(), FUNCTION).unwrap().unwrap();
    let Dma::DmaBuf { descriptor, offset } = answer else { panic!("{answer:?}") };
    let file = file(descriptor);
    caller.submit();
    caller.device.step().unwrap();
    let mut bytes = [0; BYTES];
    file.read_exact_at(&mut bytes, offset).unwrap();
    assert_eq!(bytes.to_vec(), (5_u32..21).flat_map(u32::to_ne_bytes).collect::<Vec<u8>>());
    file.write_all_at(&9_u32.to_ne_bytes(), offset + 4).unwrap();
    assert_eq!(caller.bytes()[..3], [5, 9, 7]);
    caller.close();
    model.assert_empty();
    file.read_exact_at(&mut bytes, offset).unwrap();
    assert_eq!(bytes[4..8], 9_u32.to_ne_bytes());
}

/// Promise E34.
#[test]
fn what_no_function_can_reach_is_refused_with_the_cause() {
    for options in [Model::options(), Model::options().dma_bus(), Model::options().dma_buf()] {
        let model = Model::with("MODEL", options);
        let caller = Caller::new(&model);
        for wrong in ["", "gpu", "41:00.0", "0000:41:00", "0000:41:00.8", "0000:4g:00.0", "0000:41:00.00"] {
            let why = caller.driver.dma(caller.region.as_ref().unwrap(), wrong).unwrap().unwrap_err();
            assert!(why.contains("bus address"), "{why}");
        }
        caller.close();
        model.assert_empty();
    }
    let model = Model::new("MODEL");
    let caller = Caller::new(&model);
    let why = caller.driver.dma(caller.region.as_ref().unwrap(), FUNCTION).unwrap().unwrap_err();
    assert!(why.contains(FUNCTION), "{why}");
    caller.close();
}

/// Promise E36.
#[test]
fn sees_a_region_freed_whose_bus_addresses_a_function_has() {
    let violation = caught_with(Model::options().dma_bus(), |caller| {
        bus(&caller.driver, caller.region.as_ref().unwrap());
        caller.free();
    });
    assert!(matches!(violation, Violation::FreeExported { .. }));
}

/// Promise E34.
#[test]
fn sees_dma_of_mappings_of_others_regions_and_of_freed_ones() {
    let model = Model::with("MODEL", Model::options().dma_bus().peers());
    let (first, mut second) = (Caller::new(&model), Caller::new(&model));
    let mapping = mapped(map_peer(&first, &second));
    assert!(first.driver.dma(&mapping, FUNCTION).is_err());
    assert!(matches!(seen(&model), Violation::DmaOfMapping { device: 0, .. }));
    assert!(first.driver.dma(second.region.as_ref().unwrap(), FUNCTION).is_err());
    assert!(matches!(seen(&model), Violation::RegionOfOther { device: 0, owner: 1, call: Call::Dma }));
    // SAFETY: no work uses it.
    unsafe { first.driver.free(mapping) }.unwrap();
    let twin = second.region.as_ref().unwrap();
    let twin = ModelRegion { device: twin.device, at: twin.at, location: twin.location };
    second.free();
    assert!(second.driver.dma(&twin, FUNCTION).is_err());
    assert!(matches!(seen(&model), Violation::UseAfterFree { call: Call::Dma, .. }));
    first.abandon(&model);
    second.abandon(&model);
}

/// Promise E25.
#[test]
fn memory_is_mapped_twice_and_the_mappings_go_in_either_order() {
    for later_first in [false, true] {
        let model = Model::with("MODEL", Model::options().peers());
        let (first, second) = (Caller::new(&model), Caller::new(&model));
        let mut mappings = [mapped(map_peer(&second, &first)), mapped(map_peer(&second, &first))];
        assert_ne!(mappings[0].at, mappings[1].at);
        if later_first {
            mappings.reverse();
        }
        for mapping in mappings {
            // SAFETY: no work uses it.
            unsafe { second.driver.free(mapping) }.unwrap();
        }
        first.close();
        second.close();
        model.assert_empty();
    }
}

#[test]
fn sees_a_mapping_freed_under_unfinished_work() {
    let model = Model::with("MODEL", Model::options().peers());
    let (first, mut second) = (Caller::new(&model), Caller::new(&model));
    let own = second.region.replace(mapped(map_peer(&second, &first)));
    second.submit();
    second.free();
    assert!(matches!(seen(&model), Violation::FreeInUse { device: 1, .. }));
    // The work still runs, in memory that is still there.
    second.device.step().unwrap();
    assert_eq!(first.bytes()[0], 5);
    second.region = own;
    first.close();
    second.close();
}

#[test]
fn peers_between_which_bytes_get_lost_map_and_work_as_if_they_did_not() {
    let (all, none) = ((5..21).collect::<Vec<u32>>(), vec![0; 16]);
    for (options, expected) in [
        (Model::options().peers(), &all),
        (Model::options().peers_lose_reads(), &all),
        (Model::options().peers_lose_writes(), &none),
        (Model::options().peers_lose_bytes(), &none),
    ] {
        let reads = options.peers_lose.reads;
        let model = Model::with("MODEL", options);
        let (first, mut second) = (Caller::new(&model), Caller::new(&model));
        let own = second.region.replace(mapped(map_peer(&second, &first)));
        assert_eq!(second.submit(), Submitted::Committed);
        second.device.step().unwrap();
        assert_eq!(first.bytes(), *expected);
        let there = second.slot();
        let seen = model.lock().devices[1].region_at(there.device, 4).unwrap().1.span().unwrap().read();
        assert_eq!(seen[0], if reads { 0xFF } else { expected[0] as u8 });
        second.free();
        second.region = own;
        first.close();
        second.close();
        model.assert_empty();
    }
}

/// Promise E14.
#[test]
fn maps_answer_what_the_test_says_and_then_map() {
    let model = Model::with("MODEL", Model::options().peers().maps_host());
    let (first, second) = (Caller::new(&model), Caller::new(&model));
    second.device.map_no_memory_next(Call::MapPeer, 2);
    second.device.map_never_next(Call::MapHost, "not today");
    let map_host = || {
        // SAFETY: the model touches no byte of it.
        unsafe { second.driver.map_host(std::ptr::without_provenance_mut(4096), 4) }
    };
    assert!(matches!(map_host(), Ok(Mapping::Never(why)) if why == "not today"));
    assert!(matches!(map_peer(&second, &first), Ok(Mapping::NoMemory)));
    assert!(matches!(map_peer(&second, &first), Ok(Mapping::NoMemory)));
    for mapping in [mapped(map_peer(&second, &first)), mapped(map_host())] {
        // SAFETY: no work uses it.
        unsafe { second.driver.free(mapping) }.unwrap();
    }
    first.close();
    second.close();
    model.assert_empty();
}

/// Promise E14.
#[test]
fn sees_a_map_of_what_is_no_peer() {
    let model = Model::new("MODEL");
    let (first, second) = (Caller::new(&model), Caller::new(&model));
    assert!(map_peer(&second, &first).is_err());
    assert!(matches!(seen(&model), Violation::NoPeer { device: 1, other: 0 }));
    let other = Model::with("MODEL:1", Model::options().peers());
    let third = Caller::new(&other);
    assert!(map_peer(&third, &first).is_err());
    assert!(matches!(seen(&other), Violation::NoPeer { .. }));
    first.close();
    second.close();
    third.close();
}

/// Promise E24.
#[test]
fn whether_devices_are_peers_is_the_same_after_a_loss() {
    let model = Model::with("MODEL", Model::options().peers());
    let (first, second) = (Caller::new(&model), Caller::new(&model));
    let both = || (first.driver.peer(&second.driver), second.driver.peer(&first.driver));
    assert_eq!(both(), (true, true));
    first.device.fault("it burned");
    assert_eq!(both(), (true, true));
    first.driver.stop(Some("it burned")).unwrap_or_default();
    assert_eq!(both(), (true, true));
    model.violations();
    first.abandon_quietly(&model);
    second.abandon(&model);
}
