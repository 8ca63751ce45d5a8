//! Borrows: one device's memory that another works in, and how the mappings behind it come and go.

use rig::{CopyPath, Error, write};
use rig_conformance::NullOpener;
use rig_conformance::model::{Call, Options, Pace};
use rig_edge::WaitFacts;

use crate::support::{Bench, LEN, counted, invalid, launch, lost, values};

const WAITS: WaitFacts = WaitFacts { stores: true, hosts: true, most: 4 };

fn two(name: &str, options: Options) -> (Bench, Bench) {
    let a = Bench::with(name, options);
    let b = Bench::of(&a.model);
    (a, b)
}

/// Two devices that are each other's peers, and have used one another already: the bytes of the first use were moved.
fn peers(name: &str) -> (Bench, Bench) {
    let (a, b) = two(name, Options::default().peers().waits(WAITS).pace(Pace::AtOnce));
    a.buffer().borrow(&b.device).unwrap();
    b.buffer().borrow(&a.device).unwrap();
    for bench in [&a, &b] {
        bench.control.pace(Pace::Stepped);
    }
    (a, b)
}

/// Promises C09, C14.
#[test]
fn work_through_a_borrow_is_ordered_with_all_work_of_the_allocation() {
    let (mut a, mut b) = peers("PEERS");
    let (x, y) = (a.buffer(), b.buffer());
    let borrowed = x.borrow(&b.device).unwrap();
    assert_eq!((borrowed.device(), x.device(), borrowed.len()), (b.device.clone(), a.device.clone(), 4 * LEN));
    y.write(|y: &mut [f32]| y.fill(1.0)).unwrap();
    // A writes, B reads what A wrote, A writes again, only after B has read.
    let first = a.iota(&x, 0).unwrap();
    let second = b.add(&borrowed, &y).unwrap();
    let third = a.iota(&x, 100).unwrap();
    assert!(b.control.step().is_err(), "B's work waits for A's write");
    assert_eq!(a.control.step().unwrap(), first.value());
    assert!(a.control.step().is_err(), "A's second write waits for B's read");
    assert_eq!(b.control.step().unwrap(), second.value());
    assert_eq!(a.control.step().unwrap(), third.value());
    assert_eq!(values(&borrowed).unwrap(), counted(100), "the host reads through either");
    // And a write of B's is seen by A.
    b.iota(&borrowed, 7).unwrap();
    b.control.complete_all();
    assert_eq!(values(&x).unwrap(), counted(7));
    a.model.assert_clean();
}

/// Promise C09.
#[test]
fn a_mapping_is_made_once_a_region_and_the_first_use_of_two_devices_moves_bytes() {
    let (a, b) = two("FIRST-USE", Options::default().peers().pace(Pace::AtOnce));
    let big = a.device.buffer(1 << 20).unwrap();
    let submitted = b.control.submitted();
    let borrowed = big.borrow(&b.device).unwrap();
    assert_eq!(b.control.calls().map_peer, 2, "one of the trial, one of the buffer's region");
    assert!(b.control.submitted() > submitted, "the trial ran copies");
    let after = b.control.submitted();
    for _ in 0..10 {
        drop(big.borrow(&b.device).unwrap());
    }
    drop(borrowed);
    // A buffer that gets the region from the cache gets its mapping too.
    drop(big);
    let again = a.device.buffer(1 << 20).unwrap();
    again.borrow(&b.device).unwrap();
    assert_eq!((b.control.calls().map_peer, b.control.submitted()), (2, after));
    // Small buffers of one region share its mapping.
    let small: Vec<_> = (0..100).map(|_| a.device.buffer(64).unwrap()).collect();
    let borrows: Vec<_> = small.iter().map(|small| small.borrow(&b.device).unwrap()).collect();
    assert!(b.control.calls().map_peer <= 4);
    for (i, (small, borrow)) in small.iter().zip(&borrows).enumerate() {
        borrow.memset(i as u8).unwrap();
        assert_eq!(small.read(|bytes: &[u8]| bytes.to_vec()).unwrap(), [i as u8; 64]);
    }
    a.model.assert_clean();
}

/// Promise C09.
#[test]
fn memory_that_the_host_addresses_is_borrowed_by_devices_that_map_host_memory() {
    let a = Bench::new("HOME");
    let mut b = Bench::with("MAPS-HOST", Options::default().maps_host().pace(Pace::AtOnce));
    for len in [4 * LEN, 5000, 1 << 20] {
        let x = a.device.buffer(len).unwrap();
        let view = x.view(len - 4 * LEN..len).unwrap();
        b.iota(&view.borrow(&b.device).unwrap(), 5).unwrap();
        assert_eq!(values(&view).unwrap(), counted(5));
    }
    assert_eq!(b.control.calls().map_peer, 0);
    assert!(b.control.calls().map_host > 0);
    a.model.assert_clean();
    b.model.assert_clean();
}

/// Promise C09.
#[test]
fn a_borrow_that_no_driver_can_serve_says_why() {
    let (a, b) = two("STRANGERS", Options::default());
    let refused = |result: rig::Result<rig::Buffer>| match result {
        Err(Error::Refused(why)) => why,
        other => panic!("not Refused: {other:?}"),
    };
    let why = refused(a.buffer().borrow(&b.device));
    assert!(why.contains("no peer") && why.contains("maps no host memory") && why.contains("copy_to"), "{why}");
    let hidden = Bench::with("HIDDEN", Options::default().no_host_addresses());
    let maps = Bench::with("MAPS", Options::default().maps_host());
    let why = refused(hidden.buffer().borrow(&maps.device));
    assert!(why.contains("the host does not address it"), "{why}");
    let null = rig::open(NullOpener::new("NULL-BORROW")).unwrap();
    refused(null.buffer(64).unwrap().borrow(&a.device));
    // Of one's own device it is another handle, and of no bytes nothing needs a mapping.
    let x = a.buffer();
    assert_eq!(x.borrow(&a.device).unwrap().device(), a.device);
    assert!(a.device.buffer(0).unwrap().borrow(&b.device).unwrap().is_empty());
    a.model.assert_clean();
}

/// Promise C09.
#[test]
fn memory_off_the_borrowing_devices_alignment_is_refused() {
    let home = Bench::with("FINE", Options::default().alignment(64).pace(Pace::AtOnce));
    let coarse = Bench::with("COARSE", Options::default().alignment(4096).maps_host());
    let small: Vec<_> = (0..3).map(|_| home.device.buffer(64).unwrap()).collect();
    // They lie 64 bytes apart, so at most one of them starts a page.
    let refused: Vec<_> = small.iter().filter_map(|small| small.borrow(&coarse.device).err()).collect();
    assert!(refused.len() >= 2, "{refused:?}");
    assert!(refused.iter().all(|why| why.to_string().contains("alignment of 4096")), "{refused:?}");
}

/// Promises C07, C09.
#[test]
fn borrows_are_buffers_of_the_device_that_borrows() {
    let (mut a, mut b) = peers("OF-B");
    let x = a.device.buffer(8 * LEN).unwrap();
    let borrowed = x.borrow(&b.device).unwrap();
    let why = invalid(a.iota(&borrowed, 1));
    assert!(why.contains("give a buffer of the submission's device"), "{why}");
    let half = borrowed.view(4 * LEN..8 * LEN).unwrap();
    assert_eq!(half.device(), b.device);
    b.iota(&half, 3).unwrap();
    b.control.complete_all();
    assert_eq!(values(&x.view(4 * LEN..8 * LEN).unwrap()).unwrap(), counted(3));
    // Borrowed back, it is the memory's own device's again.
    let back = half.borrow(&a.device).unwrap();
    assert_eq!(back.device(), a.device);
    a.iota(&back, 4).unwrap();
    a.control.complete_all();
    assert_eq!(values(&half).unwrap(), counted(4));
    a.model.assert_clean();
}

/// Promises C06, C09.
#[test]
fn copies_between_peers_run_on_a_queue_and_are_ordered_as_all_work() {
    let (mut a, mut b) = peers("COPY");
    let (x, y) = (a.buffer(), b.buffer());
    a.iota(&x, 1).unwrap();
    let copied = x.copy_to(&y).unwrap();
    let Some(point) = copied.point else { panic!("{copied:?}") };
    assert_eq!(copied.path, CopyPath::Peer);
    assert!(!point.reached().unwrap(), "the copy waits for the write");
    a.iota(&x, 50).unwrap();
    assert!(b.control.step().is_err());
    a.model.complete_all();
    assert_eq!(values(&y).unwrap(), counted(1), "and the next write waited for the copy");
    b.iota(&y, 9).unwrap();
    assert_eq!(y.copy_to(&x).unwrap().path, CopyPath::Peer);
    a.model.complete_all();
    assert_eq!(values(&x).unwrap(), counted(9));
    a.model.assert_clean();
}

/// Promises C09, E25, E27.
#[test]
fn a_mapping_goes_before_its_region_and_each_once() {
    let (mut a, mut b) = peers("FREED");
    // What the trial of the pair left in the cache goes.
    a.device.set_budget(0);
    a.device.set_budget(1 << 30);
    let mapped = b.control.regions();
    let x = a.device.buffer(1 << 20).unwrap();
    let borrowed = x.borrow(&b.device).unwrap();
    assert_eq!(b.control.regions(), mapped + 1);
    a.iota(&x.view(0..4 * LEN).unwrap(), 1).unwrap();
    b.iota(&borrowed.view(0..4 * LEN).unwrap(), 2).unwrap();
    drop((x, borrowed));
    a.device.set_budget(0);
    assert_eq!(b.control.regions(), mapped + 1, "its work still runs");
    a.model.complete_all();
    a.device.reclaim();
    a.device.set_budget(0);
    assert_eq!(b.control.regions(), mapped, "the mapping went with its region");
    a.model.assert_clean();
    drop((a, b));
}

/// Promises C02, C09.
#[test]
fn the_memory_lives_as_long_as_the_borrow_and_its_device_too() {
    let (mut a, mut b) = peers("OUTLIVES");
    let x = a.buffer();
    a.iota(&x, 1).unwrap();
    a.control.complete_all();
    let borrowed = x.borrow(&b.device).unwrap();
    let (control, model) = (a.control.clone(), a.model.clone());
    drop((x, a));
    assert!(!control.is_stopped(), "the borrow keeps the device open");
    assert_eq!(values(&borrowed).unwrap(), counted(1));
    b.iota(&borrowed, 2).unwrap();
    b.control.complete_all();
    assert_eq!(values(&borrowed).unwrap(), counted(2));
    drop(borrowed);
    assert!(control.is_stopped(), "and nothing else does");
    while control.regions() > 0 {
        std::thread::yield_now();
    }
    drop(b);
    model.assert_clean();
}

/// Promises C02, C09, E22.
#[test]
fn a_device_that_closes_gives_its_mappings_back_and_the_memory_goes_on() {
    let (mut a, b) = peers("B-CLOSES");
    let x = a.device.buffer(1 << 20).unwrap();
    let borrowed = x.borrow(&b.device).unwrap();
    b.device.close();
    assert!(b.control.is_stopped());
    lost(borrowed.read(|_: &[u8]| ()));
    lost(x.borrow(&b.device));
    drop(b.add);
    drop(b.iota);
    while b.control.regions() > 0 {
        std::thread::yield_now();
    }
    a.iota(&x.view(0..4 * LEN).unwrap(), 3).unwrap();
    a.control.complete_all();
    assert_eq!(values(&x.view(0..4 * LEN).unwrap()).unwrap(), counted(3));
    // Another device takes its place.
    let again = Bench::of(&a.model);
    again.control.pace(Pace::AtOnce);
    a.control.pace(Pace::AtOnce);
    x.borrow(&again.device).unwrap().memset(8).unwrap();
    assert!(x.read(|bytes: &[u8]| bytes.iter().all(|b| *b == 8)).unwrap());
    drop((x, borrowed));
    a.model.assert_clean();
}

/// Promises C20, C31, E22.
#[test]
fn memory_that_a_lost_device_maps_waits_for_that_devices_word() {
    let (a, mut b) = peers("LOST");
    a.model.device(1).lingers(true);
    let x = a.device.buffer(1 << 20).unwrap();
    let borrowed = x.borrow(&b.device).unwrap();
    let point = b.iota(&borrowed.view(0..4 * LEN).unwrap(), 1).unwrap();
    b.control.fault("it melted");
    assert_eq!(lost(point.wait()), "it melted");
    assert_eq!(lost(values(&x.view(0..4 * LEN).unwrap())), "it melted", "what it wrote is lost");
    drop((x, borrowed));
    a.device.set_budget(0);
    assert!(a.control.regions() > 0, "the lost device may still write the memory");
    b.device.close();
    a.device.reclaim();
    a.device.set_budget(0);
    assert!(a.control.live_bytes() >= 1 << 20, "its work lingers");
    b.control.end_work();
    while a.control.live_bytes() >= 1 << 20 {
        a.device.reclaim();
        a.device.set_budget(0);
        std::thread::yield_now();
    }
    a.model.assert_clean();
}

/// Promise C20.
#[test]
fn a_borrow_of_a_lost_devices_memory_is_lost() {
    let (mut a, mut b) = peers("HOME-LOST");
    // No work of the lost device stands on x: it is the memory that is gone.
    let (x, other) = (a.buffer(), a.buffer());
    let borrowed = x.borrow(&b.device).unwrap();
    let pending = a.iota(&other, 1).unwrap();
    a.control.fault("gone");
    lost(pending.wait());
    let submitted = b.control.submitted();
    assert_eq!(lost(b.iota(&borrowed, 1)), "gone");
    assert_eq!(lost(values(&borrowed)), "gone");
    assert_eq!(b.control.submitted(), submitted);
    let own = b.buffer();
    b.iota(&own, 1).unwrap();
    b.control.complete_all();
    assert_eq!(values(&own).unwrap(), counted(1), "the other device goes on");
    a.model.assert_clean();
}

/// Promises C03, C09.
#[test]
fn threads_borrow_the_same_memory_at_once_and_one_mapping_is_left() {
    let (a, b) = two("AT-ONCE", Options::default().peers().pace(Pace::AtOnce));
    a.buffer().borrow(&b.device).unwrap();
    let before = b.control.regions();
    for _ in 0..20 {
        let x = a.device.buffer(1 << 20).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| x.borrow(&b.device).unwrap().memset(3).unwrap());
            }
        });
        assert!(x.read(|bytes: &[u8]| bytes.iter().all(|b| *b == 3)).unwrap());
    }
    assert_eq!(b.control.regions(), before + 1, "one of the megabyte that goes round");
    a.model.assert_clean();
}

/// Promises C09, C24.
#[test]
fn a_fill_borrows_nothing_and_sees_the_borrowing_devices_memory() {
    let (a, b) = peers("FILL");
    let x = a.buffer();
    let borrowed = x.borrow(&b.device).unwrap();
    let (inner, device) = (x.clone(), b.device.clone());
    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let out = seen.clone();
    let submission = b
        .device
        .submission()
        .fill::<rig_conformance::model::ModelDriver>([write(0)], move |_, slots| {
            *out.lock().map_err(|_| "poison")? = Some((slots[0].device, inner.borrow(&device).is_err()));
            Ok(())
        })
        .make()
        .unwrap();
    launch(&mut submission.take(), &[&borrowed]).unwrap();
    let (at, refused) = seen.lock().unwrap().unwrap();
    assert!(refused && at != 0);
    b.control.complete_all();
    a.model.assert_clean();
}

/// Promise C09.
#[test]
fn peers_between_which_bytes_get_lost_are_refused_and_copies_go_another_way() {
    for (options, what) in
        [(Options::default().peers_lose_reads(), "reads"), (Options::default().peers_lose_writes(), "writes")]
    {
        let (a, b) = two("LOSSY", options.peers().pace(Pace::AtOnce));
        let (x, y) = (a.device.buffer(1 << 16).unwrap(), b.device.buffer(1 << 16).unwrap());
        x.memset(5).unwrap();
        for _ in 0..2 {
            let why = x.borrow(&b.device).unwrap_err().to_string();
            assert!(why.contains(what) && why.contains("do not arrive") && why.contains("IOMMU"), "{why}");
        }
        assert_eq!(b.control.calls().map_peer, 1, "what was found is remembered");
        assert_eq!(x.copy_to(&y).unwrap().path, CopyPath::Host);
        assert!(y.read(|bytes: &[u8]| bytes.iter().all(|b| *b == 5)).unwrap());
        a.model.assert_clean();
    }
}

/// Promise C09.
#[test]
fn a_mapping_that_only_the_trial_of_a_pair_made_serves_no_later_buffer() {
    // With lines this wide the trial's buffer shares its region with any small one.
    let options = Options::default().peers_lose_reads().alignment(4096).pace(Pace::AtOnce);
    let (a, b) = two("TRIAL", options);
    let (x, y) = (a.device.buffer(4096).unwrap(), b.device.buffer(4096).unwrap());
    x.memset(5).unwrap();
    for _ in 0..2 {
        x.borrow(&b.device).unwrap_err();
        assert_eq!(x.copy_to(&y).unwrap().path, CopyPath::Host);
        assert!(y.read(|bytes: &[u8]| bytes.iter().all(|b| *b == 5)).unwrap());
    }
    a.model.assert_clean();
}

/// Promises C06, C09.
#[test]
fn ranges_that_overlap_are_copied_where_one_is_a_borrow_and_the_host_addresses_neither() {
    let (a, b) = two("ACROSS", Options::default().peers().no_host_addresses().pace(Pace::AtOnce));
    let x = a.device.buffer(8).unwrap();
    x.copy_from_slice(&[1_u8, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let borrowed = x.borrow(&b.device).unwrap();
    let copied = x.view(0..6).unwrap().copy_to(&borrowed.view(2..8).unwrap()).unwrap();
    assert_eq!(copied.path, CopyPath::Staging);
    assert_eq!(x.read(|bytes: &[u8]| bytes.to_vec()).unwrap(), [1, 2, 1, 2, 3, 4, 5, 6]);
    a.model.assert_clean();
}

/// Promises C02, C31, E27.
#[test]
fn a_closed_devices_memory_that_a_lost_borrower_may_use_comes_back_once_that_one_is_stopped() {
    let a = Bench::with("CLOSED-HOME", Options::default().pace(Pace::AtOnce));
    let mut b = Bench::with("LOST-BORROWER", Options::default().maps_host());
    let x = a.device.buffer(1 << 16).unwrap();
    let borrowed = x.borrow(&b.device).unwrap();
    let point = b.iota(&borrowed, 1).unwrap();
    // Closed and done with, but for the memory that the program still holds.
    a.device.close();
    b.control.fault("burned");
    lost(point.wait());
    let (model, control) = (a.model.clone(), a.control.clone());
    drop((x, borrowed, a));
    assert!(control.is_stopped() && !control.is_dropped() && control.regions() == 1, "the borrower may still use it");
    b.device.close();
    while !control.is_dropped() {
        std::thread::yield_now();
    }
    model.assert_empty();
    b.model.assert_clean();
}

/// Promises C09, C17, E14.
#[test]
fn a_mapping_that_finds_no_memory_makes_rounds_and_one_that_cannot_be_says_why() {
    let a = Bench::new("NO-ROOM-HOME");
    let b = Bench::with("NO-ROOM", Options::default().maps_host());
    let x = a.device.buffer(1 << 16).unwrap();
    b.control.map_no_memory_next(Call::MapHost, 3);
    x.borrow(&b.device).unwrap();
    assert_eq!(b.control.calls().map_host, 4);
    let y = a.device.buffer(1 << 16).unwrap();
    b.control.map_no_memory_next(Call::MapHost, 4);
    assert!(matches!(y.borrow(&b.device), Err(Error::OutOfMemory { bytes: 65536 })));
    b.control.map_never_next(Call::MapHost, "the moon is full");
    let why = y.borrow(&b.device).unwrap_err().to_string();
    assert!(why.contains("the moon is full"), "{why}");
    y.borrow(&b.device).unwrap();
    b.control.fault_in(Call::MapHost, "a table burned");
    let z = a.device.buffer(1 << 16).unwrap();
    assert_eq!(lost(z.borrow(&b.device)), "a table burned");
    assert_eq!(a.device.lost(), None);
    b.model.assert_clean();
    a.model.assert_clean();
}

/// Promises C09, C31, E23.
#[test]
fn memory_borrowed_by_a_device_with_a_word_of_its_own_comes_back_by_that_word() {
    let a = Bench::new("WORD-HOME");
    let mut b = Bench::with("WORD-OWN", Options::default().maps_host().own_word(5));
    let x = a.device.buffer(1 << 20).unwrap();
    let borrowed = x.borrow(&b.device).unwrap();
    b.iota(&borrowed.view(0..4 * LEN).unwrap(), 1).unwrap();
    drop((x, borrowed));
    a.device.reclaim();
    assert!(a.device.allocated() >= 1 << 20, "its work still runs");
    b.control.complete_all();
    a.device.reclaim();
    assert!(a.device.allocated() < 1 << 20);
    b.model.assert_clean();
}
