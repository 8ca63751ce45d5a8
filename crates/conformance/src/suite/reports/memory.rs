//! Memory: very many tiny buffers, sizes that creep up to the budget, memory that two devices use, and very large buffers.

use rig::{Buffer, Error};

use super::super::Fixtures;
use super::super::kit::{Kit, invalid, launch, not_here, spun, words};

/// Promises C17, C18, C33.
pub fn millions_of_tiny_buffers_live_at_once<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let count: usize = if f.in_full() { 2_000_000 } else { 20_000 };
    kit.device.set_budget(u64::MAX);
    let before = kit.device.allocated();
    let buffers: Vec<Buffer> = (0..count).map(|i| kit.device.buffer(4 + i % 3).unwrap()).collect();
    // Some all over, with their neighbours, which nothing may touch.
    let some: Vec<usize> = (0..count - 1).step_by(count / 200).collect();
    for &i in &some {
        buffers[i + 1].memset(0x11).unwrap();
        kit.iota(&buffers[i], i as u32).unwrap();
    }
    for &i in &some {
        let first = |buffer: &Buffer| buffer.view(0..4).unwrap().read(|words: &[u32]| words[0]).unwrap();
        assert_eq!((first(&buffers[i]), first(&buffers[i + 1])), (i as u32, 0x1111_1111), "buffer {i}");
    }
    // And a row of them, each of which has bytes of its own.
    let row = &buffers[count / 2..count / 2 + 2048];
    row.iter().zip(0..).for_each(|(buffer, i)| buffer.memset(i as u8).unwrap());
    let own =
        |(buffer, i): (&Buffer, u32)| buffer.read(|bytes: &[u8]| bytes.iter().all(|&byte| byte == i as u8)).unwrap();
    assert!(row.iter().zip(0..).all(own), "two buffers share bytes");
    let live = kit.device.allocated();
    assert!(live >= before + 4 * count as u64, "{live} bytes for {count} buffers");
    drop(buffers);
    kit.device.reclaim();
    assert!(kit.device.allocated() <= before, "all of it is back");
    kit.device.set_budget(0);
    assert_eq!(kit.device.cached(), 0, "and a lower budget gives it to the driver");
}

/// What a region may be longer than its buffer, at most.
const SLACK: usize = 64 << 10;

/// Promises C16, C17, C18.
pub fn sizes_that_grow_by_a_hundredth_keep_the_budget_and_reach_it<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    // What the case stands on: its own code and staging, which are memory of the device too.
    kit.iota(&kit.device.buffer(4096).unwrap(), 1).unwrap().wait().unwrap();
    kit.device.set_budget(0);
    let most: usize = 64 << 20;
    let budget = kit.device.allocated() + kit.device.cached() + most as u64;
    kit.device.set_budget(budget);
    // One at a time up to the budget; then as a vector grows, the old one and the new one alive together.
    for alive in [1, 2] {
        let mut len = SLACK;
        let mut old: Option<Buffer> = None;
        while len * alive <= most - SLACK {
            let y = kit.device.buffer(len).unwrap_or_else(|why| panic!("{len} bytes of {most}: {why}"));
            // Its work still runs as the next is asked for.
            kit.iota(&y.view(len - 4096..len).unwrap(), len as u32).unwrap();
            // In this order: memory that comes back between the two is in neither, and not in both.
            let cached = kit.device.cached();
            let live = kit.device.allocated();
            assert!(cached + live <= budget, "{cached} cached and {live} live of {budget}, at {len} bytes");
            old = (alive == 2).then_some(y);
            len = (len + len / 100).next_multiple_of(64);
        }
        drop(old);
    }
    assert!(matches!(kit.device.buffer(most + SLACK), Err(Error::OutOfMemory { .. })), "and beyond it there is none");
}

/// The buffer as the other device reaches it; or says why it cannot.
fn borrowed<F: Fixtures>(x: &Buffer, by: &Kit<'_, F>) -> Option<Buffer> {
    match x.borrow(&by.device) {
        Ok(borrow) => Some(borrow),
        Err(Error::Refused(why)) => {
            not_here(&why);
            None
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Promises C09, C16.
pub fn memory_is_not_used_again_while_another_device_still_writes_it<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let rounds = f.spin_rounds() / 100 + 1;
    let host = one.device.facts().host_addresses;
    for round in 0..20 {
        let x = one.words(&[round; 1 << 14]);
        let Some(borrow) = borrowed(&x, &two) else { return };
        let held = f.hold(&two.device);
        let writes = two.spin(&borrow, if held.is_some() { 1 } else { rounds }).unwrap();
        drop((x, borrow));
        // What is taken now is other memory, or was waited for: the write that is to come may not reach it.
        let others: Vec<Buffer> = (0..3).map(|_| one.device.buffer(4 << 14).unwrap()).collect();
        for other in &others {
            if host {
                other.write(|words: &mut [u32]| words.fill(7)).unwrap();
            } else {
                one.iota(other, 7).unwrap();
            }
        }
        drop(held);
        writes.wait().unwrap();
        for other in &others {
            let right = |(at, word): (u32, &u32)| *word == if host { 7 } else { 7 + at };
            other
                .read(|words: &[u32]| assert!((0..).zip(words).all(right), "round {round}: written by work of before"))
                .unwrap();
        }
    }
}

/// Promises C09, C16, C18, E22.
pub fn memory_goes_back_to_the_driver_only_after_a_peers_pending_write<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let rounds = f.spin_rounds() / 1000 + 1;
    let y = two.words(&[5; 64]);
    for round in 0..6_u32 {
        one.device.reclaim();
        one.device.set_budget(0);
        let before = one.device.allocated() + one.device.cached();
        one.device.set_budget(u64::MAX);
        // Large enough that a region is its own, and that its pages go when it does.
        let x = one.words(&[round; 1 << 18]);
        let Some(borrow) = borrowed(&x, &two) else { return };
        let held = f.hold(&two.device);
        let writes = two.spin(&borrow, if held.is_some() { 1 } else { rounds }).unwrap();
        drop((x, borrow));
        // All that rig may give back goes to the driver now.
        one.device.reclaim();
        one.device.set_budget(0);
        one.device.set_budget(u64::MAX);
        two.spin(&y, 1).unwrap();
        drop(held);
        writes.wait().unwrap();
        assert_eq!(words(&y)[0], spun(5, round + 1), "the device works on");
        assert_eq!((one.device.lost(), two.device.lost()), (None, None));
        one.device.reclaim();
        one.device.set_budget(0);
        assert!(one.device.allocated() + one.device.cached() <= before, "round {round}: it went back after the write");
    }
}

/// Promises C04, C06, C07, C12.
pub fn buffers_and_offsets_past_four_gibibytes_work<F: Fixtures>(f: &F) {
    const FAR: usize = 1 << 32;
    let kit = Kit::new(f);
    kit.device.set_budget(u64::MAX);
    // Few of its pages are touched: no machine needs the memory.
    let x = match kit.device.buffer(FAR + (1 << 20)) {
        Ok(x) => x,
        Err(Error::OutOfMemory { bytes }) => return not_here(&format!("it has no {bytes} bytes")),
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(x.len(), FAR + (1 << 20));
    let at = |place: usize| x.view(place..place + 4096).unwrap();
    // The low places that an offset of 32 bits would reach instead.
    let lows: Vec<Buffer> = [0, 4096, 8192, 65_536, 1 << 19].map(at).into();
    lows.iter().for_each(|low| low.memset(0x22).unwrap());
    // Through a view, whose place is in the address; and by an offset in the parameters.
    kit.iota(&at(FAR + 4096), 5).unwrap();
    let mut run = kit.run(&kit.iota, 1024, 8);
    run.part(0).set(0, FAR as u64 + 8192).set(12, 900_u32);
    launch(&mut run, &[&x]).unwrap();
    assert_eq!(words(&at(FAR + 4096)), (5..1029).collect::<Vec<u32>>());
    assert_eq!(words(&at(FAR + 8192)), (900..1924).collect::<Vec<u32>>());
    // Copies from beyond to below and back, and a memset and a closure across the line.
    at(FAR + 8192).copy_to(&at(1 << 21)).unwrap();
    at(1 << 21).copy_to(&at(FAR + 65_536)).unwrap();
    assert_eq!(words(&at(FAR + 65_536)), (900..1924).collect::<Vec<u32>>());
    let across = at(FAR - 2048);
    across.memset(0x33).unwrap();
    kit.spin(&across, 1).unwrap();
    assert!(words(&across).iter().all(|&word| word == spun(0x3333_3333, 1)));
    across.write(|words: &mut [u32]| words.iter_mut().zip(0..).for_each(|(word, i)| *word = i)).unwrap();
    assert_eq!(words(&x.view(FAR - 4..FAR + 4).unwrap()), [511, 512]);
    for low in &lows {
        low.view(0..2048)
            .unwrap()
            .read(|words: &[u32]| assert!(words.iter().all(|&word| word == 0x2222_2222)))
            .unwrap();
    }
    // The end is where it is.
    invalid(x.view(FAR + (1 << 20)..FAR + (1 << 20) + 1));
    run.part(0).set(0, FAR as u64 + (1 << 20));
    invalid(launch(&mut run, &[&x]));
    run.part(0).set(0, u64::MAX);
    invalid(launch(&mut run, &[&x]));
}
