//! Several threads at once: each asks for no more than its share of the budget, so none may fail, whatever the others do.

use std::sync::{Barrier, mpsc};

use rig::{Buffer, Device};
use rig_conformance::model::{Call, Model, Options, Pace};

use crate::trace::{BUDGET, Random, logarithmic, traces};

const THREADS: u64 = 4;

/// What a thread may ask for: of its quarter, what a sixteenth more for each buffer leaves.
const SHARE: u64 = BUDGET / THREADS / 17 * 16;

/// Promises C17, C18, C28.
#[test]
fn threads_that_keep_to_their_shares_never_fail() {
    for (seed, steps) in traces(2000) {
        let options = Options::default().pace(Pace::AtOnce).budget(BUDGET).capacity(BUDGET);
        let model = Model::with(&format!("SHARES-{seed}"), options);
        let device = rig::open(model.opener()).unwrap();
        let start = Barrier::new(THREADS as usize);
        let play = |thread: u64| {
            let mut random = Random::new(seed * THREADS + thread);
            let (mut held, mut asked): (Vec<Buffer>, u64) = (Vec::new(), 0);
            start.wait();
            for _ in 0..steps {
                let len = (4100 + logarithmic(&mut random, SHARE as usize / 2)).next_multiple_of(4);
                while asked + len as u64 > SHARE {
                    asked -= held.swap_remove(random.below(held.len())).len() as u64;
                }
                held.push(device.buffer(len).unwrap());
                asked += len as u64;
            }
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || play(thread)))));
        assert_eq!(device.allocated(), 0);
        assert_eq!(model.device(0).live_bytes(), device.cached());
        model.assert_clean();
    }
}

/// Tells that it was dropped.
struct Tells(mpsc::Sender<()>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
    }
}

/// A buffer for which memory is on its way. An allocation waits for that, but no longer than some seconds: on a machine that is
/// busy enough it fails then, and is made again.
fn patiently(device: &Device, len: usize) -> Buffer {
    loop {
        let start = std::time::Instant::now();
        match device.buffer(len) {
            Ok(buffer) => return buffer,
            Err(why) => assert!(start.elapsed() >= std::time::Duration::from_secs(2), "it does not wait: {why}"),
        }
    }
}

/// Promises C17, C18, C28.
#[test]
fn an_allocation_waits_for_what_another_thread_gives_to_the_driver() {
    let model = Model::with("GOING", Options::default().pace(Pace::AtOnce).budget(BUDGET));
    let device = rig::open(model.opener()).unwrap();
    let control = model.device(0);
    drop(device.buffer(BUDGET as usize / 4 * 3).unwrap());
    let held = control.hold(Call::Free);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| device.buffer(BUDGET as usize / 2).unwrap());
        control.wait_calls(Call::Free, 1);
        // The rounds of the second drop what this keeps, so that it is known to be beyond the first of them.
        let (tell, told) = mpsc::channel();
        drop(device.submission().memset(0, 1).keep(Tells(tell)).make().unwrap());
        let second = scope.spawn(|| patiently(&device, BUDGET as usize / 2));
        told.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        // It would fail now if it were to; whether it gets this far before the free ends changes no result.
        (0..1000).for_each(|_| std::thread::yield_now());
        assert!(control.live_bytes() <= BUDGET);
        drop(held);
        let both = (first.join().unwrap(), second.join().unwrap());
        assert_eq!(device.allocated(), BUDGET);
        drop(both);
    });
    model.assert_clean();
}

/// Promises C17, C18, C28.
#[test]
fn what_makes_room_for_one_allocation_is_taken_by_no_other() {
    let model = Model::with("TAKEN", Options::default().pace(Pace::AtOnce).budget(BUDGET).capacity(BUDGET));
    let device = rig::open(model.opener()).unwrap();
    let control = model.device(0);
    drop(device.buffer(BUDGET as usize).unwrap());
    let held = control.hold(Call::Free);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| device.buffer(BUDGET as usize / 2).unwrap());
        control.wait_calls(Call::Free, 1);
        let other = device.buffer(BUDGET as usize / 4 * 3);
        assert!(matches!(other, Err(rig::Error::OutOfMemory { .. })), "half is the first one's");
        drop(held);
        first.join().unwrap();
    });
    model.assert_clean();
}
