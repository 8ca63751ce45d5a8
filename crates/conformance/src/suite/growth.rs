//! Growth: more work, more launches and more parameters than a driver has room for at first.

use rig::{Submission, read, write};

use super::Fixtures;
use super::kit::{Kit, all_are, launch, params_of, words};

/// A submission of `launches` adds of slot 0 to slot 1, and its grids set in a run.
fn adds<F: Fixtures>(kit: &Kit<'_, F>, launches: usize) -> (Submission, rig::Run) {
    let add = kit.image.function("add").unwrap();
    let mut builder = kit.device.submission();
    for _ in 0..launches {
        builder = builder.launch(&add, [read(0), write(1)]).params(params_of(&add, 24));
    }
    let submission = builder.make().unwrap();
    let mut run = submission.take();
    for part in 0..launches {
        kit.set(&mut run, part, 16, 16);
    }
    (submission, run)
}

/// Promises E08, E37, S04, S10.
pub fn thousands_of_submits_need_no_wait_between_them<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let (x, y) = (kit.floats(&[1.0; 16]), kit.floats(&[0.0; 16]));
    let (_, mut run) = adds(&kit, 2);
    for _ in 0..10_000 {
        launch(&mut run, &[&x, &y]).unwrap();
    }
    all_are(&y, 20_000.0);
}

/// Promises E08, E28.
pub fn thousands_of_launches_fit_one_submission<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let (x, y) = (kit.floats(&[1.0; 16]), kit.floats(&[0.0; 16]));
    let (_, mut run) = adds(&kit, 3000);
    for _ in 0..3 {
        launch(&mut run, &[&x, &y]).unwrap();
    }
    all_are(&y, 9000.0);
}

/// Promises E28, C11.
pub fn submissions_grow_and_shrink_from_one_to_the_next<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let (x, y) = (kit.floats(&[1.0; 16]), kit.floats(&[0.0; 16]));
    let mut runs: Vec<_> = (0..11).map(|power| adds(&kit, 1 << power)).collect();
    for _ in 0..4 {
        for (_, run) in &mut runs {
            launch(run, &[&x, &y]).unwrap();
        }
        for (_, run) in runs.iter_mut().rev() {
            launch(run, &[&x, &y]).unwrap();
        }
    }
    all_are(&y, 8.0 * 2047.0);
}

/// Promise C12.
pub fn large_parameters_fit<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let iota = kit.image.function("iota").unwrap();
    if iota.params().is_some() {
        return super::kit::not_here("its functions state the bytes of their parameters");
    }
    let y = kit.device.buffer(64).unwrap();
    for params in [64, 1000, 4000] {
        let step = kit.device.submission().launch(&iota, [write(0)]).params(params).make().unwrap();
        let mut run = kit.run(&step, 16, 8);
        run.part(0).set(12, params as u32);
        for _ in 0..200 {
            launch(&mut run, &[&y]).unwrap();
        }
        assert_eq!(words(&y)[15], params as u32 + 15);
    }
}
