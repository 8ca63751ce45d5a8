//! Order: nothing in these cases names an event, but for the points of the case that is about them.

use rig::Point;

use super::Fixtures;
use super::kit::{Kit, all_are, floats, invalid, spun, words};

/// Promises C14, E18.
pub fn a_device_runs_its_values_one_after_the_other<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let (x, y) = (kit.floats(&[1.0; 777]), kit.floats(&[3.0; 777]));
    for _ in 0..200 {
        kit.add(&x, &y).unwrap();
        kit.scale(&y, 0.5).unwrap();
    }
    // y becomes (y + 1) / 2 each time, and comes to stand at 1.
    all_are(&y, 1.0);
    for _ in 0..10 {
        kit.scale(&y, 2.0).unwrap();
        kit.add(&x, &y).unwrap();
    }
    all_are(&y, 2047.0);
}

/// Promises C13, E09.
pub fn values_rise_by_one<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let y = kit.device.buffer(4).unwrap();
    let first = kit.iota(&y, 0).unwrap().value();
    for i in 1..100 {
        assert_eq!(kit.iota(&y, i).unwrap().value(), first + u64::from(i));
    }
}

/// Promises C14, C25, C05.
pub fn a_closure_waits_for_the_work_before_it<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let rounds = f.spin_rounds();
    let y = kit.words(&(0..1000).collect::<Vec<u32>>());
    kit.spin(&y, rounds).unwrap();
    assert!(words(&y).iter().zip(0..).all(|(&y, i)| y == spun(i, rounds)), "a read waits for the last write");
    let (x, sum) = (kit.floats(&[1.0; 1000]), kit.floats(&[0.0; 1000]));
    kit.busy();
    kit.add(&x, &sum).unwrap();
    x.write(|x: &mut [f32]| x.fill(100.0)).unwrap();
    all_are(&sum, 1.0);
}

/// Promise C14.
pub fn work_waits_for_the_closures_before_it<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let (x, y) = (kit.floats(&[0.0; 1000]), kit.floats(&[0.0; 1000]));
    for i in 0..50 {
        x.write(|x: &mut [f32]| x.fill(i as f32)).unwrap();
        kit.add(&x, &y).unwrap();
    }
    all_are(&y, 1225.0);
}

/// Promises C07, C14.
pub fn work_through_views_is_ordered_with_all_of_the_allocation<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let whole = kit.floats(&[1.0; 512]);
    let (low, high) = (whole.view(0..1024).unwrap(), whole.view(1024..2048).unwrap());
    for _ in 0..10 {
        // Each doubles what the other left.
        kit.add(&low, &high).unwrap();
        kit.add(&high, &low).unwrap();
    }
    let (mut a, mut b) = (1.0_f32, 1.0_f32);
    for _ in 0..10 {
        b += a;
        a += b;
    }
    all_are(&low, a);
    assert_eq!(floats(&whole)[256..], [b; 256]);
}

/// Promises C14, S03.
pub fn work_follows_the_memory_from_device_to_device<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let x = one.floats(&[1.0; 1000]);
    let y = two.floats(&[0.0; 1000]);
    let x_there = two.device.buffer(4000).unwrap();
    for _ in 0..20 {
        one.busy();
        one.scale(&x, 2.0).unwrap();
        x.copy_to(&x_there).unwrap();
        two.add(&x_there, &y).unwrap();
        // Written while the other device may still read what was copied from it.
        two.scale(&x_there, 0.0).unwrap();
        y.copy_to(&x).unwrap();
        one.scale(&x, 0.25).unwrap();
    }
    let (mut a, mut b) = (1.0_f32, 0.0_f32);
    for _ in 0..20 {
        b += a * 2.0;
        a = b * 0.25;
    }
    all_are(&y, b);
    all_are(&x, a);
}

/// Promise C14.
pub fn work_follows_the_points_that_it_names<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let y = two.device.buffer(4).unwrap();
    for i in 0..5 {
        let before = one.busy();
        let mut run = two.run(&two.iota, 1, 8);
        run.part(0).set(12, i);
        run.after(&[before]);
        let point = super::kit::launch(&mut run, &[&y]).unwrap();
        point.wait().unwrap();
        assert!(before.reached().unwrap());
    }
}

/// Promise C15.
pub fn points_wait_alone_and_together<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let points: Vec<Point> = (0..6).map(|i| if i % 2 == 0 { one.busy() } else { two.busy() }).collect();
    Point::wait_all(&points).unwrap();
    for point in &points {
        assert!(point.reached().unwrap());
        point.wait().unwrap();
    }
    Point::wait_all(&[]).unwrap();
    // The first of many: what it waits for is no more than that.
    let first = one.busy();
    let last = one.busy();
    first.wait().unwrap();
    last.wait().unwrap();
}

/// Promises E42, S07.
pub fn a_committed_value_needs_no_later_one<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let y = kit.device.buffer(4).unwrap();
    for i in 0..50 {
        let point = kit.iota(&y, i).unwrap();
        // Nothing follows before the wait ends.
        point.wait().unwrap();
        assert!(point.reached().unwrap());
    }
}

/// Promise C30.
pub fn a_submit_inside_a_closure_over_its_buffer_is_invalid<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let (x, y) = (kit.floats(&[1.0; 64]), kit.floats(&[0.0; 64]));
    x.read(|_: &[f32]| {
        kit.add(&x, &y).expect("work may read what the host reads");
        invalid(kit.scale(&x, 2.0));
        invalid(x.write(|_: &mut [f32]| ()));
    })
    .unwrap();
    y.write(|_: &mut [f32]| {
        invalid(kit.add(&x, &y));
        invalid(y.read(|_: &[f32]| ()));
    })
    .unwrap();
    kit.add(&x, &y).unwrap();
    all_are(&y, 2.0);
}
