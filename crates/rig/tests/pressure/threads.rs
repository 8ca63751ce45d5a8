//! Several threads at once: each asks for no more than its share of the budget, so none may fail, whatever the others do.

use std::sync::Barrier;

use rig::Buffer;
use rig_conformance::model::{Model, Options, Pace};

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
