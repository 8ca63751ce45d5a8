//! What lives as long as work needs it, and no longer: donated memory, kept objects, futures; and typed buffers.

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::{Buffer, Point, TypedBuffer, write};
use rig_edge::Opener;

use super::super::Fixtures;
use super::super::kit::{Kit, all_are, block_on, invalid, launch, lost, params_of, spun, words};
use super::host_memory::dropped_after;
use crate::NullDriver;
use crate::model::ModelDriver;

/// The buffer back from a donation that must fail.
#[track_caller]
fn kept(buffer: Buffer) -> Buffer {
    buffer.consume().expect_err("somebody else sees the memory")
}

/// Promise C19.
pub fn consume_gives_memory_only_where_nobody_else_sees_it<F: Fixtures>(f: &F) {
    let (kit, other) = (Kit::new(f), Kit::second(f));
    let y = kit.words(&[7; 1000]);
    let twin = y.clone();
    let y = kept(y);
    drop(twin);
    let view = y.view(0..4).unwrap();
    let (y, view) = (kept(y), kept(view));
    drop(view);
    let claim = y.claim();
    let mut y = kept(y);
    drop(claim);
    if let Ok(borrow) = y.borrow(&other.device) {
        y = kept(y);
        drop(borrow);
    }
    let (inner, y) = (y.clone(), y);
    let y = inner.read(|_: &[u32]| kept(y)).unwrap();
    drop(inner);
    // Work under way is no other who sees it, and what is written in place comes after that work.
    let sum = kit.words(&[0; 1000]);
    kit.busy();
    kit.spin(&y, f.spin_rounds()).unwrap();
    y.copy_to(&sum).unwrap();
    let y = y.consume().expect("nobody else sees it");
    let at = y.len();
    kit.iota(&y, 3).unwrap();
    assert!(words(&sum).iter().all(|&y| y == spun(7, f.spin_rounds())));
    assert_eq!((words(&y)[999], at), (1002, 4000));
    // A view is the whole that is left of its allocation: nobody else sees it either.
    let view = y.view(400..800).unwrap();
    drop(y);
    assert_eq!(words(&view.consume().expect("nobody else sees it"))[0], 103);
}

/// Counts its drops.
struct Kept(Arc<AtomicUsize>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Promise C21.
pub fn a_kept_object_is_dropped_after_the_work<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let spin = kit.image.function("spin").unwrap();
    let keeping = |dropped: &Arc<AtomicUsize>| {
        let builder = kit.device.submission().launch(&spin, [write(0)]).params(params_of(&spin, 16));
        builder.keep(Kept(Arc::clone(dropped))).make().unwrap()
    };
    for submits in [0, 1, 3] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let submission = keeping(&dropped);
        let mut run = kit.run(&submission, 1000, 8);
        run.part(0).set(12, f.spin_rounds());
        let buffers: Vec<Buffer> = (0..submits).map(|_| kit.device.buffer(4000).unwrap()).collect();
        let points: Vec<Point> = buffers.iter().map(|y| launch(&mut run, &[y]).unwrap()).collect();
        kit.device.reclaim();
        assert_eq!(dropped.load(Ordering::SeqCst), 0, "the submission lives");
        drop(submission);
        drop(run);
        match points.last() {
            Some(&last) => dropped_after(last, &kit.device, &dropped),
            None => {
                kit.device.reclaim();
                assert_eq!(dropped.load(Ordering::SeqCst), 1);
            }
        }
    }
    // Also where the work can no longer run.
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut run = kit.run(&keeping(&dropped), 1000, 8);
    run.part(0).set(12, f.spin_rounds());
    let y = kit.device.buffer(4000).unwrap();
    kit.busy();
    let point = launch(&mut run, &[&y]).unwrap();
    kit.device.close();
    drop(run);
    dropped_after(point, &kit.device, &dropped);
}

/// Promise C15.
pub fn points_are_awaited_by_any_executor<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let y = one.words(&[1; 1000]);
    for _ in 0..5 {
        let point = one.spin(&y, f.spin_rounds()).unwrap();
        block_on(point).unwrap();
        assert!(point.reached().unwrap());
        block_on(point).unwrap();
    }
    // Of several devices, with a value that follows another device's, and with waits that are given up.
    let (answer, after) = block_on(async {
        let first = one.busy();
        let mut run = two.run(&two.iota, 100, 8);
        run.part(0).set(12, 5_u32);
        let out = two.device.buffer(400).unwrap();
        let after = launch(run.after(&[first]), &[&out]).unwrap();
        drop(std::future::IntoFuture::into_future(first));
        let given_up = std::pin::pin!(std::future::IntoFuture::into_future(two.busy()));
        let mut given_up = Some(given_up);
        std::future::poll_fn(|context| {
            if let Some(mut wait) = given_up.take() {
                let _ = wait.as_mut().poll(context);
            }
            std::task::Poll::Ready(())
        })
        .await;
        after.await.unwrap();
        assert!(first.reached().unwrap(), "the value that it follows");
        (words(&out), after)
    });
    assert_eq!(answer, (5..105).collect::<Vec<u32>>());
    block_on(after).unwrap();
    // A wait on another thread, and a device that is closed under it.
    for _ in 0..10 {
        one.spin(&y, f.spin_rounds()).unwrap();
    }
    let last = one.spin(&y, f.spin_rounds()).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || block_on(last));
        one.device.close();
        match waits.join().unwrap() {
            Ok(()) => assert!(last.reached().unwrap(), "it was reached before the close"),
            answer => drop(lost(answer)),
        }
    });
}

/// Promises C04, C07, C25.
pub fn typed_buffers_are_buffers_of_elements<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let x = kit.device.from_slice(&[1.5_f32; 300]).unwrap();
    let y: TypedBuffer<f32> = kit.device.typed(300).unwrap();
    y.copy_from_slice(&[0.0_f32; 300]).unwrap();
    let mut run = kit.run(&kit.add, 300, 16);
    launch(&mut run, &[&x, &y]).unwrap();
    assert_eq!((y.len(), y.to_vec().unwrap()), (300, vec![1.5; 300]));
    y.write(|y| y[299] = 9.0).unwrap();
    assert_eq!(y.view(298..300).unwrap().to_vec().unwrap(), [1.5, 9.0]);
    assert_eq!(y.read(|y| y.len()).unwrap(), 300);
    invalid(y.view(1..301));
    let bytes = y.into_buffer();
    assert_eq!(bytes.len(), 1200);
    invalid(kit.device.buffer(6).unwrap().typed::<u32>());
    invalid(bytes.view(2..10).unwrap().typed::<u32>());
    invalid(bytes.clone().typed::<()>());
    let again: TypedBuffer<f32> = bytes.typed().unwrap();
    let again = again.consume().expect("nobody else sees it");
    again.write(|y| y.fill(2.0)).unwrap();
    all_are(&again, 2.0);
    assert!(kit.device.typed::<u64>(0).unwrap().is_empty());
    let submission = kit.device.submission().copy(0, 1).make();
    if let Ok(submission) = submission {
        submission.take().submit(&[&again, &x]).unwrap();
        all_are(&x, 2.0);
    }
}

/// Promise C29.
pub fn a_device_gives_its_record_to_its_own_drivers_type_alone<F: Fixtures>(f: &F) {
    type Own<F> = <<F as Fixtures>::Opener as Opener>::Driver;
    let device = rig::open(f.opener()).unwrap();
    let record = || device.capability::<Own<F>>().map(|record| std::ptr::from_ref(record).addr());
    let before = record();
    assert_eq!(record(), before);
    let own = TypeId::of::<Own<F>>();
    assert!(own == TypeId::of::<ModelDriver>() || device.capability::<ModelDriver>().is_none());
    assert!(own == TypeId::of::<NullDriver>() || device.capability::<NullDriver>().is_none());
    device.close();
    assert_eq!(record(), before, "the same once the device is lost");
}
