//! Nothing at all, and a step beyond what there is.

use rig::{Buffer, Error};

use super::super::Fixtures;
use super::super::kit::{Kit, invalid, launch, not_here, params_of, spun, words};

/// Promises C12, C13, S12.
pub fn a_zero_along_any_axis_is_invalid_and_takes_no_value<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let y = kit.words(&[1; 64]);
    let before = kit.iota(&y, 0).unwrap();
    for axis in 0..3 {
        let mut axes = [1; 3];
        axes[axis] = 0;
        let mut run = kit.run(&kit.iota, 64, 8);
        run.part(0).groups(axes);
        invalid(launch(&mut run, &[&y]));
        let mut run = kit.run(&kit.iota, 64, 8);
        run.part(0).threads(axes);
        invalid(launch(&mut run, &[&y]));
        let mut run = kit.run(&kit.iota, 64, 8);
        run.part(0).groups(axes).threads(axes);
        invalid(launch(&mut run, &[&y]));
    }
    let after = kit.iota(&y, 100).unwrap();
    assert_eq!(after.value(), before.value() + 1);
    assert_eq!(words(&y)[63], 163);
}

/// Promises C04, C06, C11, C14.
pub fn work_on_no_bytes_is_defined_and_keeps_its_place<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let rounds = f.spin_rounds();
    let y = kit.words(&[3; 1000]);
    let empties = [kit.device.buffer(0).unwrap(), y.view(0..0).unwrap(), y.view(4000..4000).unwrap()];
    let kinds = kit.device.facts().kinds();
    let mut nothings = vec![kit.device.submission().make().unwrap().take()];
    if kinds.copy && kinds.memset {
        nothings.push(kit.device.submission().copy(0, 1).memset(1, 9).copy(1, 0).make().unwrap().take());
    }
    for (round, mut nothing) in (1..).zip(nothings) {
        let held = f.hold(&kit.device);
        let work = kit.spin(&y, rounds).unwrap();
        let slots = if round == 1 { vec![] } else { vec![&empties[0], &empties[2]] };
        let after = nothing.submit(&slots).unwrap();
        // A launch over no elements, into a buffer of no bytes.
        let mut run = kit.run(&kit.iota, 0, 8);
        let last = launch(&mut run, &[&empties[0]]).unwrap();
        assert_eq!((after.value(), last.value()), (work.value() + 1, work.value() + 2), "nothing is a value too");
        if held.is_some() {
            assert!(!after.reached().unwrap() && !last.reached().unwrap(), "it comes after the work before it");
        }
        drop(held);
        last.wait().unwrap();
        assert!(work.reached().unwrap() && after.reached().unwrap());
        let due = (0..round).fold(3, |y, _| spun(y, rounds));
        assert!(words(&y).iter().all(|&y| y == due), "nothing changed no byte");
    }
    for (from, to) in empties.iter().zip(empties.iter().rev()) {
        from.memset(7).unwrap();
        let copied = from.copy_to(to).unwrap();
        copied.point.map_or(Ok(()), |point| point.wait()).unwrap();
        assert_eq!(from.read(|bytes: &[u8]| bytes.len()).unwrap(), 0);
        from.write(|bytes: &mut [u8]| assert!(bytes.is_empty())).unwrap();
    }
    invalid(empties[0].copy_to(&y));
}

/// Whether a launch with so many threads and bytes of group memory is taken; then it must have run.
fn taken<F: Fixtures>(kit: &Kit<'_, F>, y: &Buffer, threads: u32, group_bytes: u32) -> bool {
    let start = threads ^ group_bytes;
    let mut run = kit.run(&kit.iota, 100, 8);
    run.part(0).groups([100_u32.div_ceil(threads), 1, 1]).threads([threads, 1, 1]);
    run.part(0).group_bytes(group_bytes).set(12, start);
    match launch(&mut run, &[y]) {
        Ok(point) => {
            point.wait().unwrap();
            assert_eq!(words(y)[99], start.wrapping_add(99), "{threads} threads and {group_bytes} bytes: silence");
            true
        }
        Err(Error::Invalid(why)) => {
            assert!(why.len() > 10, "Invalid says only {why:?}");
            false
        }
        Err(other) => panic!("{threads} threads and {group_bytes} bytes: {other:?}"),
    }
}

/// The last number that is taken, where small ones are and some large one is not.
fn limit(is_taken: impl Fn(u32) -> bool) -> Option<u32> {
    if is_taken(u32::MAX) {
        return None;
    }
    let (mut low, mut high) = (1, u32::MAX);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_taken(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// Promises C12, C13, E08, S12.
pub fn a_step_beyond_a_limit_is_invalid_before_any_work<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let y = kit.words(&[1; 100]);
    let iota = kit.image.function("iota").unwrap();
    let threads = limit(|threads| taken(&kit, &y, threads, 0));
    match threads {
        None => not_here("its groups have no bound"),
        Some(most) => {
            assert_eq!(iota.threads().unwrap_or(most), most, "what the function says is what is taken");
            assert_eq!([most - 1, most, most + 1].map(|n| taken(&kit, &y, n, 0)), [true, true, false]);
            // The product counts, however it is spread; and one that wraps in 32 or 64 bits is no small one.
            for threads in [[most, 2, 1], [1, most, 2], [1 << 16, 1 << 16, 1], [u32::MAX; 3], [1 << 31, 1 << 31, 4]] {
                let mut run = kit.run(&kit.iota, 100, 8);
                run.part(0).threads(threads);
                invalid(launch(&mut run, &[&y]));
            }
        }
    }
    match limit(|bytes| taken(&kit, &y, 50, bytes)) {
        None => not_here("its group memory has no bound"),
        Some(most) => assert_eq!([most - 1, most, most + 1].map(|n| taken(&kit, &y, 50, n)), [true, true, false]),
    }
    // Parameters: where the function states them they are that long, and a scalar ends inside them.
    let params = params_of(&iota, 16);
    let make = |bytes| kit.device.submission().launch(&iota, [rig::write(0)]).params(bytes).make();
    if iota.params().is_some() {
        [params - 1, params + 1].into_iter().for_each(|bytes| invalid(make(bytes)));
    }
    let mut run = make(params).unwrap().take();
    kit.set(&mut run, 0, 100, 8);
    let before = kit.iota(&y, 1).unwrap();
    for at in [params - 3, params, usize::MAX] {
        run.part(0).set(at, 1_u32);
        invalid(launch(&mut run, &[&y]));
    }
    run.part(0).set(params - 4, 7_u32);
    assert_eq!(launch(&mut run, &[&y]).unwrap().value(), before.value() + 1, "what was refused took no value");
}
