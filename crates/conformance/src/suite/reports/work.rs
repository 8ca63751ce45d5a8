//! Work in flight: handles that go, threads that wait beside threads that submit, and very many points.

use std::task::{Context, Poll, Waker};

use rig::{Buffer, Device, Point, write};

use super::super::Fixtures;
use super::super::kit::{Kit, all_are, launch, params_of, spun, words};
use super::super::process::in_child;

/// Promises C02, C16, C22.
pub fn every_handle_but_a_clone_may_go_while_work_runs<F: Fixtures>(f: &F) {
    let rounds = f.spin_rounds();
    for _ in 0..3 {
        let kit = Kit::new(f);
        let (y, sum) = (kit.words(&[3; 1000]), kit.floats(&[1.0; 1000]));
        let ones = kit.floats(&[1.0; 1000]);
        let (y_kept, sum_kept) = (y.clone(), sum.view(0..sum.len()).unwrap());
        // Of an image, a function and a submission that nobody else holds either.
        let image = kit.device.load(&f.image()).unwrap();
        let function = image.function("spin").unwrap();
        let params = params_of(&function, 16);
        let step = kit.device.submission().launch(&function, [write(0)]).params(params).make().unwrap();
        let mut run = kit.run(&step, 1000, 8);
        run.part(0).set(12, rounds);
        let held = f.hold(&kit.device);
        launch(&mut run, &[&y]).unwrap();
        drop((run, step, function, image, y));
        kit.add(&ones, &sum).unwrap();
        drop((ones, sum));
        // What took the place of memory that went, too early, would write what the work is to read.
        let others: Vec<Buffer> = (0..4).map(|_| kit.device.buffer(4000).unwrap()).collect();
        for other in &others {
            if kit.device.facts().host_addresses {
                other.write(|words: &mut [u32]| (9..).zip(words).for_each(|(i, word)| *word = i)).unwrap();
            } else {
                kit.iota(other, 9).unwrap();
            }
        }
        drop(kit);
        drop(held);
        assert!(words(&y_kept).iter().all(|&y| y == spun(3, rounds)));
        all_are(&sum_kept, 2.0);
        others.iter().for_each(|other| assert_eq!(words(other)[999], 1008));
    }
}

/// Promises C03, C15.
pub fn eight_threads_submit_while_one_waits<F: Fixtures>(f: &F) {
    const SUBMITTERS: u32 = 8;
    const EACH: u32 = 12;
    let kit = Kit::new(f);
    let y = kit.words(&[3; 1000]);
    let outs: Vec<Buffer> = (0..SUBMITTERS).map(|_| kit.device.buffer(256).unwrap()).collect();
    let held = f.hold(&kit.device);
    let is_held = held.is_some();
    let rounds = if is_held { 1 } else { f.spin_rounds() };
    let first = kit.spin(&y, rounds).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || first.wait());
        let submitters: Vec<_> = (0..SUBMITTERS)
            .map(|thread| {
                let (kit, out) = (&kit, &outs[thread as usize]);
                scope.spawn(move || {
                    let values = (0..EACH).map(|i| kit.iota(out, 1000 * thread + i).unwrap().value());
                    values.collect::<Vec<u64>>()
                })
            })
            .collect();
        let mut values: Vec<u64> = submitters.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len() as u32, SUBMITTERS * EACH);
        // While the work is held the waiter waits on, and yet every submit has come back.
        if is_held {
            assert!(!first.reached().unwrap() && !waiter.is_finished());
        }
        drop(held);
        waiter.join().unwrap().unwrap();
    });
    assert!(words(&y).iter().all(|&y| y == spun(3, rounds)));
    for (thread, out) in (0..).zip(&outs) {
        assert_eq!(words(out)[63], 1000 * thread + EACH - 1 + 63);
    }
}

/// What the process has of the kernel's objects: descriptors and threads. None where no system file says.
fn kernel_objects() -> Option<[usize; 2]> {
    let entries = |folder: &str| Some(std::fs::read_dir(folder).ok()?.count());
    Some([entries("/proc/self/fd")?, entries("/proc/self/task")?])
}

/// Submits so often, and waits for none.
fn points(device: &Device, count: usize) -> Vec<Point> {
    let mut nothing = device.submission().make().unwrap().take();
    (0..count).map(|_| nothing.submit(&[]).unwrap()).collect()
}

/// Promises C13, C15, S04.
pub fn a_hundred_thousand_points_cost_no_kernel_objects<F: Fixtures>(f: &F) {
    let count = if f.in_full() { 100_000 } else { 2000 };
    in_child(|| {
        let device = rig::open(f.opener()).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        // What the first work makes once: threads, rings, events.
        Point::wait_all(&points(&device, 500)).unwrap();
        drop(points(&device, 1).into_iter().next().map(|point| std::pin::pin!(point.into_future()).poll(&mut context)));
        let Some(before) = kernel_objects() else { return println!("no system file counts the objects") };
        let points = points(&device, count);
        let during = kernel_objects().unwrap();
        let mut futures: Vec<_> = points.iter().map(|point| Box::pin(point.into_future())).collect();
        let polled = futures.iter_mut().map(|future| future.as_mut().poll(&mut context));
        polled.for_each(|answer| assert!(!matches!(answer, Poll::Ready(Err(_)))));
        let awaited = kernel_objects().unwrap();
        Point::wait_all(&points).unwrap();
        println!(
            "descriptors and threads: {before:?} before, {during:?} with {count} points, {awaited:?} with futures"
        );
        for (before, with) in before.into_iter().zip(during).chain(before.into_iter().zip(awaited)) {
            assert!(with <= before + 2, "{with} objects where {before} were before {count} points");
        }
    });
}
