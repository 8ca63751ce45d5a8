//! What a driver is told of a run's slots: whether no two share an allocation.

use rig::{Buffer, read, write};
use rig_conformance::model::{Options, Pace};
use rig_edge::WaitFacts;

use crate::support::{Bench, LEN, launch};

/// Promise N05.
#[test]
fn slots_are_apart_where_no_two_share_an_allocation_and_only_there() {
    let mut bench = Bench::with("APART", Options::default().pace(Pace::AtOnce));
    let [x, y] = [bench.buffer(), bench.buffer()];
    let whole = bench.device.buffer(8 * LEN).unwrap();
    let views = [whole.view(0..4 * LEN).unwrap(), whole.view(4 * LEN..8 * LEN).unwrap()];
    for (from, to, apart) in [
        (&x, &y, true),
        (&y, &x, true),
        (&x, &x, false),
        (&x, &x.clone(), false),
        (&views[0], &views[1], false),
        (&views[1], &views[0], false),
        (&whole, &views[0], false),
        (&views[0], &x, true),
    ] {
        // What floats the buffers hold does not matter.
        bench.add(from, to).unwrap();
        assert_eq!(bench.control.apart(), apart, "{from:?} {to:?}");
    }
    bench.model.assert_clean();
}

/// Promises N05, C09.
#[test]
fn slots_that_borrow_one_allocation_are_not_apart() {
    let waits = WaitFacts { stores: true, hosts: true, most: 4 };
    let a = Bench::with("APART-BORROWED", Options::default().peers().waits(waits).pace(Pace::AtOnce));
    let mut b = Bench::of(&a.model);
    let [x, y] = [a.buffer(), a.buffer()];
    let [one, two] = [x.borrow(&b.device).unwrap(), x.borrow(&b.device).unwrap()];
    b.add(&one, &two).unwrap();
    assert!(!b.control.apart());
    b.add(&one, &y.borrow(&b.device).unwrap()).unwrap();
    assert!(b.control.apart());
    a.model.assert_clean();
}

/// Promise N05.
#[test]
fn slots_are_apart_or_not_however_many_there_are() {
    let bench = Bench::with("APART-MANY", Options::default().pace(Pace::AtOnce));
    let image = bench.device.load(&rig_conformance::model::image(&["add"])).unwrap();
    let add = image.function("add").unwrap();
    for pairs in [1_u32, 10, 30, 100] {
        let each = 0..pairs;
        let builder =
            each.fold(bench.device.submission(), |builder, i| builder.launch(&add, [read(2 * i), write(2 * i + 1)]));
        let mut run = builder.make().unwrap().take();
        for part in 0..pairs as usize {
            run.part(part).threads([LEN as u32, 1, 1]);
        }
        let mut buffers: Vec<Buffer> = (0..2 * pairs).map(|_| bench.buffer()).collect();
        launch(&mut run, &buffers.iter().collect::<Vec<_>>()).unwrap();
        assert!(bench.control.apart(), "{pairs}");
        // The first and the last share one.
        let last = buffers.len() - 1;
        buffers[last] = buffers[0].clone();
        launch(&mut run, &buffers.iter().collect::<Vec<_>>()).unwrap();
        assert!(!bench.control.apart(), "{pairs}");
    }
    bench.model.assert_clean();
}
