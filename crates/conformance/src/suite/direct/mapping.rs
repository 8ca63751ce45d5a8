//! Memory that others reach, by the driver's own interface: the host's pages, a peer's regions, and a PCI function.
#![expect(unsafe_code, reason = "the suite calls a driver as rig does")]

use rig::HostMemory;
use rig_edge::{Dma, Driver, Fault, Location, Mapping, Memory, Opener};

use super::super::Fixtures;
use super::super::kit::{not_here, pattern};
use super::{BYTES, Direct, ELEMENTS, Iota};

/// Host memory that ends a page, whatever of the usual sizes the pages have.
const PAGES: usize = 128 << 10;

/// A PCI function that there is on no machine: it is not even a bus address.
const NO_FUNCTION: &str = "no function at all";

/// The mapping, which may have no memory for a moment: rig asks as often. Or why there can be none.
fn mapping<R>(ask: impl Fn() -> Result<Mapping<R>, Fault>) -> Result<R, String> {
    for _ in 0..4 {
        match ask().unwrap() {
            Mapping::Mapped(region) => return Ok(region),
            Mapping::Never(why) => {
                assert!(why.len() > 5, "{why:?} is no reason");
                return Err(why);
            }
            Mapping::NoMemory => {}
        }
    }
    panic!("no memory for a mapping");
}

impl<D: Driver> Direct<D> {
    /// Runs the iota from `start` on memory at `at`, and waits for it.
    fn iota_at(&self, iota: &mut Iota<D>, at: Location, start: u32) {
        let own = std::mem::replace(&mut iota.at, at);
        let (value, committed) = self.submit(iota, start);
        if !committed {
            self.driver.commit(value).unwrap();
        }
        self.wait(value);
        iota.at = own;
    }

    fn free(&self, region: D::Region) {
        // SAFETY: the case has waited for all work, and holds no slice over the memory.
        unsafe { self.driver.free(region) }.unwrap();
    }
}

/// The place `bytes` after `at`.
fn after(at: Location, bytes: usize) -> Location {
    let host = if at.host.is_null() { at.host } else { at.host.wrapping_add(bytes) };
    Location { device: at.device + bytes as u64, host, ..at }
}

/// What `iota` writes from `start`.
fn iota_bytes(start: u32) -> Vec<u8> {
    (start..start + ELEMENTS).flat_map(u32::to_ne_bytes).collect()
}

/// Promises E14, E26, E27, H05.
pub fn a_mapping_of_host_memory_is_whole_pages_and_reaches_their_last_word<F: Fixtures>(f: &F) {
    let direct = Direct::open(&f.opener());
    if !direct.driver.facts().maps_host {
        direct.close(None);
        return not_here("it maps no host memory");
    }
    let Some(mut iota) = direct.iota(f) else { return direct.close(None) };
    let mut memory = HostMemory::zeroed(PAGES).unwrap();
    let mut expected = pattern(PAGES, 1);
    memory.copy_from_slice(&expected);
    let (pages, end) = (memory.as_mut_ptr(), PAGES - BYTES);
    let map = || {
        // SAFETY: the memory starts a page, and stays until the mapping is freed. It is named to within its last page alone.
        mapping(|| unsafe { direct.driver.map_host(pages, end + 4) })
    };
    // SAFETY: the memory has these bytes, and no work of the device runs when they are looked at.
    let seen = || unsafe { std::slice::from_raw_parts(pages, PAGES) }.to_vec();
    for round in 0..2 {
        let region = match map() {
            Ok(region) => region,
            Err(why) => {
                direct.close(Some(iota));
                return not_here(&why);
            }
        };
        let at = direct.driver.locate(&region);
        assert!(at.device != 0, "work reaches the mapping by an address");
        for (offset, start) in [(end, 7 + round), (0, 1000 + round)] {
            direct.iota_at(&mut iota, after(at, offset), start);
            expected[offset..offset + BYTES].copy_from_slice(&iota_bytes(start));
        }
        assert!(seen() == expected, "the work wrote its own bytes, where they are, and no others");
        if round == 0 {
            direct.free(region);
            assert!(seen() == expected, "the pages stay when their mapping goes");
        } else {
            close_with(direct, iota, vec![region]);
            assert!(seen() == expected);
            return;
        }
    }
}

/// Closes the device, and frees the mappings only after its stop.
fn close_with<D: Driver>(mut direct: Direct<D>, iota: Iota<D>, mappings: Vec<D::Region>) {
    let Iota { image, parts, plan, region, code, .. } = iota;
    direct.stop();
    drop((parts, plan));
    // SAFETY: the word shows the end, so that no work runs; the entries are dropped.
    unsafe { direct.driver.unload(image) }.unwrap();
    for region in mappings.into_iter().chain([region]).chain(code) {
        direct.free(region);
    }
    if direct.driver.facts().word == rig_edge::WordSource::Own {
        direct.driver.free_word();
    }
}

/// Whether each is the other's peer.
fn answer<D: Driver>(one: &Direct<D>, two: &Direct<D>) -> (bool, bool) {
    (one.driver.peer(&two.driver), two.driver.peer(&one.driver))
}

/// Promise E24.
pub fn whether_devices_are_peers_is_the_same_before_and_after_a_stop<F: Fixtures>(f: &F) {
    let (mut one, mut two) = (Direct::open(&f.opener()), Direct::open(&f.second()));
    let before = answer(&one, &two);
    assert_eq!(answer(&one, &two), before);
    // What either learns later changes nothing.
    let three = Direct::open(&f.second());
    one.free(one.alloc(Memory::Device, 4096));
    assert_eq!(answer(&one, &two), before);
    one.stop();
    assert_eq!(answer(&one, &two), before, "after the stop of one");
    two.stop();
    assert_eq!(answer(&one, &two), before, "after the stop of both");
    for direct in [&one, &two] {
        if direct.driver.facts().word == rig_edge::WordSource::Own {
            direct.driver.free_word();
        }
    }
    three.close(None);
}

/// Promises E25, E27.
pub fn memory_is_mapped_twice_for_a_peer_and_each_mapping_lasts_until_it_is_freed<F: Fixtures>(f: &F) {
    let (one, two) = (Direct::open(&f.opener()), Direct::open(&f.second()));
    if !two.driver.peer(&one.driver) {
        one.close(None);
        two.close(None);
        return not_here("its devices map no memory of one another");
    }
    let Some(mut iota) = two.iota(f) else {
        one.close(None);
        return two.close(None);
    };
    let region = one.alloc(Memory::Device, BYTES);
    let home = one.driver.locate(&region);
    // SAFETY: the region is freed after its mappings.
    let map = || mapping(|| unsafe { two.driver.map_peer(&one.driver, &region) });
    let mut kept = Vec::new();
    for (round, later_first) in [(0, false), (100, true)] {
        let (first, second) = match (map(), map()) {
            (Ok(first), Ok(second)) => (first, second),
            (first, second) => {
                [first, second].into_iter().flatten().for_each(|mapping| two.free(mapping));
                close_with(two, iota, kept);
                one.free(region);
                one.close(None);
                return not_here("it does not map this memory of its peer");
            }
        };
        let (goes, stays) = if later_first { (second, first) } else { (first, second) };
        for (mapping, start) in [(&goes, round + 1), (&stays, round + 2)] {
            two.iota_at(&mut iota, two.driver.locate(mapping), start);
            sees(home, start);
        }
        two.free(goes);
        two.iota_at(&mut iota, two.driver.locate(&stays), round + 3);
        sees(home, round + 3);
        kept.push(stays);
    }
    close_with(two, iota, kept);
    one.free(region);
    one.close(None);
}

/// Sees that memory that the host addresses holds what `iota` wrote from `start`.
fn sees(at: Location, start: u32) {
    if !at.host.is_null() {
        // SAFETY: the region has these bytes, and the work that wrote them is done.
        let bytes = unsafe { std::slice::from_raw_parts(at.host, BYTES) };
        assert!(bytes == iota_bytes(start), "the peer's work is in the memory, from {start}");
    }
}

/// Promises E34, E36.
pub fn a_pci_function_is_told_how_it_reaches_memory_or_why_it_cannot<F: Fixtures>(f: &F) {
    let direct = Direct::open(&f.opener());
    let len = 3 << 16;
    let region = direct.alloc(Memory::Device, len);
    let why = direct.driver.dma(&region, NO_FUNCTION).unwrap().expect_err("there is no such function");
    assert!(why.contains(NO_FUNCTION), "{why:?} does not name the cause");
    let answer = f.dma_function().map(|function| direct.driver.dma(&region, &function).unwrap());
    match answer {
        Some(Ok(Dma::Bus(ranges))) => {
            assert_eq!(ranges.iter().map(|(_, bytes)| bytes).sum::<u64>(), len as u64, "all bytes, and no more");
            for (i, (a, n)) in ranges.iter().enumerate() {
                let apart = |(b, m): &(u64, u64)| a + n <= *b || b + m <= *a;
                assert!(*n > 0 && ranges[..i].iter().all(apart), "{ranges:x?}");
            }
            // The region is the function's until the process ends: nothing frees it, and nothing opens the hardware.
            let index = rig_edge::WordIndex::new(direct.index.get());
            std::mem::forget(region);
            direct.close(None);
            let again = f.second().make(rig_edge::Timeline::new(index));
            let why = again.err().expect("the hardware does not open again in this process");
            assert!(why.len() > 10, "{why:?} is no reason");
            return;
        }
        Some(Ok(Dma::DmaBuf { descriptor, offset })) => {
            assert!(descriptor >= 0, "the descriptor {descriptor}, offset {offset}");
            #[cfg(unix)]
            // SAFETY: the caller of dma owns the descriptor.
            drop(unsafe { <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(descriptor) });
        }
        Some(Ok(other)) => panic!("{other:?}"),
        Some(Err(why)) => assert!(why.len() > 10, "{why:?} is no cause"),
        None => not_here("its fixtures name no PCI function"),
    }
    direct.free(region);
    direct.close(None);
}
