//! Launches and the other parts of a submission.

use rig::{read, write};

use super::Fixtures;
use super::kit::{Kit, all_are, bytes, floats, invalid, launch, not_here, params_of, pattern, words};

/// Promises C12, C25.
pub fn a_launch_touches_its_elements_and_no_others<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    for n in [1, 2, 31, 63, 64, 65, 255, 1000, 4096, 100_001] {
        let x: Vec<f32> = (0..n + 8).map(|i| (i % 1000) as f32).collect();
        let y: Vec<f32> = (0..n + 8).map(|i| 0.5 * (i % 77) as f32).collect();
        let (a, b) = (kit.floats(&x), kit.floats(&y));
        let mut run = kit.run(&kit.add, n, 16);
        launch(&mut run, &[&a, &b]).unwrap();
        let expected = |i: usize| if i < n { x[i] + y[i] } else { y[i] };
        assert!(floats(&b).iter().enumerate().all(|(i, &y)| y == expected(i)), "{n} elements");
        assert!(floats(&a) == x, "{n} elements: what is read stays");
    }
}

/// Promise C12.
pub fn offsets_at_refs_move_where_the_function_works<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let x = kit.floats(&(0..64).map(|i| i as f32).collect::<Vec<_>>());
    let y = kit.floats(&[0.0; 64]);
    let mut run = kit.run(&kit.add, 8, 16);
    run.part(0).set(0, 64_u64).set(8, 128_u64);
    launch(&mut run, &[&x, &y]).unwrap();
    let expected: Vec<f32> = (0..64).map(|i| if (32..40).contains(&i) { i as f32 - 16.0 } else { 0.0 }).collect();
    assert_eq!(floats(&y), expected);
    // The same through views, whose offsets add to those in the parameters.
    let (from, to) = (x.view(32..256).unwrap(), y.view(128..256).unwrap());
    run.part(0).set(0, 32_u64).set(8, 0_u64);
    launch(&mut run, &[&from, &to]).unwrap();
    assert_eq!(floats(&y)[32..40], (0..8).map(|i| 32.0 + 2.0 * i as f32).collect::<Vec<f32>>());
}

/// Promise C11.
pub fn parameters_are_taken_when_the_work_is_submitted<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let y = kit.words(&[0; 100]);
    let outs: Vec<_> = (0..50).map(|_| kit.device.buffer(400).unwrap()).collect();
    kit.spin(&y, f.spin_rounds()).unwrap();
    let mut run = kit.run(&kit.iota, 100, 8);
    for (i, out) in outs.iter().enumerate() {
        // The run is set anew while the work before it cannot have run.
        run.part(0).set(12, i as u32);
        launch(&mut run, &[out]).unwrap();
    }
    run.part(0).set(12, u32::MAX);
    for (i, out) in outs.iter().enumerate() {
        assert_eq!(words(out)[99], i as u32 + 99);
    }
}

/// Promise C11.
pub fn runs_of_one_submission_are_in_flight_together<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let mut runs: Vec<_> = (0..8).map(|_| kit.run(&kit.iota, 64, 8)).collect();
    let outs: Vec<_> = runs.iter().map(|_| kit.device.buffer(256).unwrap()).collect();
    for round in 0..10 {
        for (i, (run, out)) in runs.iter_mut().zip(&outs).enumerate() {
            run.part(0).set(12, 100 * round + i as u32);
            launch(run, &[out]).unwrap();
        }
    }
    for (i, out) in outs.iter().enumerate() {
        assert_eq!(words(out)[63], 900 + i as u32 + 63);
    }
}

/// Promise C14.
pub fn parts_run_in_their_order<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let (add, scale) = (kit.image.function("add").unwrap(), kit.image.function("scale").unwrap());
    let mut builder = kit.device.submission();
    for _ in 0..10 {
        builder = builder.launch(&add, [read(0), write(1)]).params(params_of(&add, 24));
        builder = builder.launch(&scale, [write(1)]).params(params_of(&scale, 16));
    }
    let mut run = builder.make().unwrap().take();
    for part in 0..10 {
        kit.set(&mut run, 2 * part, 300, 16);
        kit.set(&mut run, 2 * part + 1, 300, 8);
        run.part(2 * part + 1).set(12, 0.5_f32);
    }
    let (x, y) = (kit.floats(&[1.0; 300]), kit.floats(&[3.0; 300]));
    launch(&mut run, &[&x, &y]).unwrap();
    // y becomes (y + 1) / 2 ten times: exact in float32.
    all_are(&y, 1.0 + 2.0 / 1024.0);
}

/// Promises C11, C14.
pub fn copies_and_memsets_are_parts<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    let kinds = device.facts().kinds();
    if !kinds.copy || !kinds.memset {
        invalid(device.submission().copy(0, 1).memset(1, 1).make());
        return not_here("no queue of it runs copies and memsets");
    }
    let step = device.submission().copy(0, 1).memset(0, 7).copy(0, 2).make().unwrap();
    for len in [0, 1, 3, 4, 1000, 4097] {
        let buffers: Vec<_> = (0..3).map(|_| device.buffer(len).unwrap()).collect();
        let expected = pattern(len, 6);
        buffers[0].copy_from_slice(&expected).unwrap();
        // Safe: no part runs code of the caller's.
        let point = step.take().submit(&[&buffers[0], &buffers[1], &buffers[2]]).unwrap();
        point.wait().unwrap();
        assert_eq!(bytes(&buffers[1]), expected, "{len}");
        assert_eq!(bytes(&buffers[0]), vec![7; len], "{len}");
        assert_eq!(bytes(&buffers[2]), vec![7; len], "{len}");
    }
}

/// Promise C27.
pub fn one_buffer_fills_two_slots<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let y = kit.floats(&(0..500).map(|i| i as f32).collect::<Vec<_>>());
    for _ in 0..3 {
        kit.add(&y, &y).unwrap();
    }
    assert!(floats(&y).iter().enumerate().all(|(i, &y)| y == 8.0 * i as f32));
}

/// Promises C13, C14.
pub fn a_submission_of_nothing_is_reached<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let y = kit.words(&[0; 100]);
    let nothing = kit.device.submission().make().unwrap();
    let first = kit.spin(&y, f.spin_rounds()).unwrap();
    let point = nothing.take().submit(&[]).unwrap();
    assert_eq!(point.value(), first.value() + 1);
    point.wait().unwrap();
    assert!(first.reached().unwrap(), "device order gives the work before it");
}

/// Promises C12, C13, S12.
pub fn wrong_launches_are_invalid_and_take_no_value<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let (x, y) = (kit.floats(&[1.0; 64]), kit.floats(&[0.0; 64]));
    let before = kit.add(&x, &y).unwrap();
    let mut run = kit.run(&kit.add, 64, 16);
    invalid(launch(&mut run, &[&x]));
    invalid(launch(&mut run, &[&x, &y, &y]));
    invalid(run.submit(&[&x, &y]));
    run.part(0).groups([0, 1, 1]);
    invalid(launch(&mut run, &[&x, &y]));
    kit.set(&mut run, 0, 64, 16);
    run.part(0).threads([64, 0, 1]);
    invalid(launch(&mut run, &[&x, &y]));
    kit.set(&mut run, 0, 64, 16);
    run.part(0).set(0, 256_u64);
    invalid(launch(&mut run, &[&x, &y]));
    run.part(0).set(0, 0_u64);
    let other = Kit::second(f);
    invalid(launch(&mut run, &[&other.floats(&[0.0; 64]), &y]));
    invalid(kit.device.submission().launch(&other.image.function("add").unwrap(), [read(0), write(1)]).make());
    let add = kit.image.function("add").unwrap();
    invalid(kit.device.submission().launch(&add, [read(0).at(0), write(1).at(4)]).params(24).make());
    invalid(kit.device.submission().launch(&add, [read(0), write(1).at(1000)]).params(24).make());
    if let Some(known) = add.params() {
        invalid(kit.device.submission().launch(&add, [read(0), write(1)]).params(known + 8).make());
    }
    let after = launch(&mut run, &[&x, &y]).unwrap();
    assert_eq!(after.value(), before.value() + 1);
    all_are(&y, 2.0);
}

/// Promise E08.
pub fn groups_larger_than_the_function_allows_are_invalid<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let Some(threads) = kit.image.function("iota").unwrap().threads() else {
        return not_here("its functions state no bound");
    };
    let Some(many) = threads.checked_add(1) else { return not_here("its functions take any group") };
    let y = kit.device.buffer(400).unwrap();
    let mut run = kit.run(&kit.iota, 100, 8);
    run.part(0).groups([1; 3]).threads([many, 1, 1]);
    invalid(launch(&mut run, &[&y]));
    run.part(0).set(12, 5_u32).groups([100_u32.div_ceil(threads.min(100)), 1, 1]).threads([threads.min(100), 1, 1]);
    launch(&mut run, &[&y]).unwrap();
    assert_eq!(words(&y)[99], 104);
}
