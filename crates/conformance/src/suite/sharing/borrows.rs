//! Memory of one device that another works in.

use rig::{Buffer, CopyPath, Device, Error, Memory};

use super::super::Fixtures;
use super::super::kit::{Kit, all_are, bytes, lost, not_here, pattern, spun, words};
use super::host_memory::{dropped_after, owner, wrapped};

/// The buffer as the other device reaches it; or says why it cannot.
fn borrowed(buffer: &Buffer, device: &Device) -> Option<Buffer> {
    match buffer.borrow(device) {
        Ok(borrow) => {
            assert_eq!((borrow.len(), borrow.device() == *device), (buffer.len(), true));
            Some(borrow)
        }
        Err(Error::Refused(why)) => {
            assert!(why.len() > 10, "{why:?} is no reason");
            not_here(&why);
            None
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Promises C09, C14, S03.
pub fn a_borrow_is_the_same_memory_and_its_work_is_ordered_both_ways<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    // Small ones, which share a region, and large ones.
    for (n, memory) in [(1000, Memory::Device), (1 << 14, Memory::Device), (1 << 14, Memory::Mapped)] {
        let x = one.device.buffer_in(memory, 4 * n).unwrap();
        let Some(borrow) = borrowed(&x, &two.device) else { continue };
        assert!(x.borrow(&one.device).unwrap().device() == one.device, "a device's own memory is its own");
        let again = borrow.borrow(&two.device).unwrap();
        let mut due: Vec<u32> = (7..7 + n as u32).collect();
        one.iota(&x, 7).unwrap();
        for i in 0..10 {
            // Each writes what the other reads: out of order they would leave something else.
            one.spin(&x, 1).unwrap();
            two.spin(if i % 2 == 0 { &borrow } else { &again }, 2).unwrap();
            due.iter_mut().for_each(|y| *y = spun(*y, 3));
        }
        assert!(words(&x) == due, "{n} words of {memory:?}");
        assert!(words(&borrow) == due);
        // The host's closures are ordered with the work of both, through either handle.
        one.busy();
        one.iota(&x, 1).unwrap();
        borrow.write(|words: &mut [u32]| words.iter_mut().for_each(|y| *y *= 2)).unwrap();
        two.spin(&borrow, f.spin_rounds()).unwrap();
        let places = x.read(|words: &[u32]| (words.as_ptr(), words[4])).unwrap();
        assert_eq!(places.1, spun(10, f.spin_rounds()));
        if memory == Memory::Mapped {
            let there = borrow.read(|words: &[u32]| words.as_ptr()).unwrap();
            assert!(std::ptr::eq(places.0, there), "there is one copy of the bytes");
        }
    }
}

/// Promises C07, C09.
pub fn borrows_of_views_and_views_of_borrows_keep_their_bounds<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let x = one.device.buffer(1 << 16).unwrap();
    one.iota(&x, 0).unwrap();
    let Some(borrow) = borrowed(&x, &two.device) else { return };
    let Some(of_view) = borrowed(&x.view(4096..8192).unwrap(), &two.device) else { return };
    let view_of = borrow.view(8192..8192 + 256).unwrap();
    two.iota(&of_view, 50_000).unwrap();
    two.iota(&view_of, 90_000).unwrap();
    one.spin(&x.view(0..4096).unwrap(), 1).unwrap();
    let due = |i: u32| match i {
        0..1024 => spun(i, 1),
        1024..2048 => 50_000 + i - 1024,
        2048..2112 => 90_000 + i - 2048,
        _ => i,
    };
    assert!(words(&x).iter().zip(0..).all(|(&y, i)| y == due(i)));
    assert_eq!(words(&view_of), (90_000..90_064).collect::<Vec<u32>>());
    super::super::kit::invalid(view_of.view(0..257));
}

/// Promises C02, C09.
pub fn a_borrow_outlives_the_handles_that_it_was_made_from<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let x = one.device.buffer(1 << 16).unwrap();
    let expected = pattern(1 << 16, 20);
    x.copy_from_slice(&expected).unwrap();
    one.spin(&x, 2).unwrap();
    let Some(borrow) = borrowed(&x, &two.device) else { return };
    drop(x);
    // What takes the memory would write over it.
    let other = one.device.buffer(1 << 16).unwrap();
    other.memset(0xEE).unwrap();
    let point = two.spin(&borrow, 3).unwrap();
    drop(one);
    let view = borrow.view(0..1 << 15).unwrap();
    drop(borrow);
    point.wait().unwrap();
    let due = expected.chunks_exact(4).map(|word| spun(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]), 5));
    assert!(words(&view).into_iter().zip(due).all(|(y, due)| y == due));
}

/// Promises C08, C09.
pub fn borrows_of_wrapped_memory_keep_its_owner_until_their_work_is_done<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let (memory, at, dropped) = owner(&pattern(1 << 16, 21));
    let Some(x) = wrapped(&one.device, memory) else { return };
    let Some(borrow) = borrowed(&x, &two.device) else { return };
    one.iota(&x, 5).unwrap();
    two.spin(&borrow, 1).unwrap();
    borrow.read(|words: &[u32]| assert_eq!((words.as_ptr().addr(), words[3]), (at, spun(8, 1)))).unwrap();
    drop(x);
    let point = two.spin(&borrow, f.spin_rounds()).unwrap();
    one.device.reclaim();
    drop(borrow);
    dropped_after(point, &one.device, &dropped);
}

/// Promises C09, C20.
pub fn work_through_a_borrow_needs_both_devices<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let x = one.device.buffer(1 << 16).unwrap();
    let Some(borrow) = borrowed(&x, &two.device) else { return };
    two.iota(&borrow, 1).unwrap().wait().unwrap();
    two.device.close();
    lost(borrow.read(|_: &[u8]| ()));
    lost(x.borrow(&two.device));
    // The owner goes on with its memory.
    one.spin(&x, 1).unwrap();
    assert_eq!(words(&x)[2], spun(3, 1));
    let three = Kit::second(f);
    let Some(borrow) = borrowed(&x, &three.device) else { return };
    three.spin(&borrow, 1).unwrap().wait().unwrap();
    one.device.close();
    lost(three.iota(&borrow, 1));
    lost(borrow.read(|_: &[u8]| ()));
    lost(borrow.borrow(&three.device));
    let y = three.device.buffer(400).unwrap();
    three.iota(&y, 1).unwrap();
    assert_eq!(words(&y)[99], 100);
}

/// Promise C06.
pub fn copies_between_devices_go_one_of_the_ways_and_say_which<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let mut peers = Vec::new();
    for len in [4, 4100, 1 << 20] {
        let expected = pattern(len, 22);
        let (x, y, near) =
            (one.device.buffer(len).unwrap(), two.device.buffer(len).unwrap(), one.device.buffer(len).unwrap());
        x.copy_from_slice(&expected).unwrap();
        one.busy();
        let there = x.copy_to(&y).unwrap();
        let back = y.copy_to(&near).unwrap();
        assert!(bytes(&near) == expected && bytes(&y) == expected, "{len} bytes by {:?}, {:?}", there.path, back.path);
        for copied in [there, back] {
            match copied.path {
                CopyPath::Peer => copied.point.expect("a queue runs it").wait().unwrap(),
                CopyPath::Host => assert!(host_sees(&one.device) && host_sees(&two.device)),
                CopyPath::Staging => assert!(!host_sees(&one.device) || !host_sees(&two.device)),
                other => panic!("{other:?} between devices"),
            }
            assert_eq!(copied.point.is_some(), copied.path == CopyPath::Peer);
            peers.push(copied.path == CopyPath::Peer);
        }
        let same = x.copy_to(&near).unwrap();
        assert_eq!(same.path == CopyPath::Queue, one.device.facts().kinds().copy);
        assert_eq!(same.point.is_some(), same.path == CopyPath::Queue);
    }
    assert!(peers.windows(2).all(|two| two[0] == two[1]), "the devices are peers or not: {peers:?}");
    let (nothing, here) = (two.device.buffer(0).unwrap(), one.device.buffer(0).unwrap());
    assert_eq!(nothing.copy_to(&here).unwrap().path, CopyPath::Nothing);
}

fn host_sees(device: &Device) -> bool {
    device.facts().host_addresses
}

/// Promises C03, C09.
pub fn threads_borrow_and_work_at_once<F: Fixtures>(f: &F) {
    let kits = [Kit::new(f), Kit::second(f)];
    let (ones, sum) = (kits[0].floats(&[1.0; 3000]), kits[0].floats(&[0.0; 3000]));
    if borrowed(&sum, &kits[1].device).is_none() {
        return;
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (kits, ones, sum) = (&kits, &ones, &sum);
            scope.spawn(move || {
                for i in 0..30 {
                    let kit = &kits[(thread + i) % 2];
                    // A region that no thread has mapped yet, now and then.
                    let own = kits[0].floats(&[2.0; 3000]);
                    let x = if i % 3 == 0 { &own } else { ones };
                    let (x, sum) = (x.borrow(&kit.device).unwrap(), sum.borrow(&kit.device).unwrap());
                    drop(own);
                    kit.add(&x, &sum).unwrap();
                }
            });
        }
    });
    all_are(&sum, 4.0 * 40.0);
}
