//! Images, functions, and what a device needs for them.

use rig::{Error, write};
use rig_conformance::model::{Call, Options, Pace, image};

use crate::support::{Bench, invalid, launch};

/// Promises C10, E05, E06.
#[test]
fn a_bad_image_is_refused_and_a_missing_function_named_with_those_that_there_are() {
    let a = Bench::new("A");
    match a.device.load(b"nonsense") {
        Err(Error::Refused(why)) => assert!(why.contains("refuses the image"), "{why}"),
        other => panic!("{other:?}"),
    }
    let image = a.device.load(&image(&["add", "scale invalid=needs_more_group_memory"])).unwrap();
    let why = invalid(image.function("nope"));
    assert!(why.contains("no function nope") && why.contains("add"), "{why}");
    assert!(image.resolve("nope").unwrap().is_none());
    assert!(invalid(image.resolve("scale")).contains("needs_more_group_memory"));
    let calls = a.control.calls().entry;
    image.function("add").unwrap();
    image.function("add").unwrap();
    assert_eq!(a.control.calls().entry, calls + 1, "an entry is made once");
    a.model.assert_clean();
}

/// What a fill launches by its vendor's calls.
#[test]
fn a_functions_entry_is_given_by_its_drivers_type_alone() {
    let a = Bench::new("A");
    let add = a.device.load(&image(&["add"])).unwrap().function("add").unwrap();
    assert!(add.entry::<rig_conformance::model::ModelDriver>().is_some());
    assert!(add.entry::<rig_host::Host>().is_none());
    assert!(add.entry::<rig_conformance::NullDriver>().is_none());
}

/// Promise E05.
#[test]
fn placed_code_lies_in_device_memory_that_is_freed_after_the_image() {
    let mut a = Bench::with("A", Options::default().placed_code());
    a.control.auto(true);
    let code = a.device.allocated();
    assert!(code > 0, "the code counts in the budget");
    let y = a.buffer();
    a.iota(&y, 1).unwrap().wait().unwrap();
    let (control, model) = (a.control.clone(), a.model.clone());
    drop((y, a));
    while control.regions() + control.images() > 0 {
        std::thread::yield_now();
    }
    model.assert_empty();
}

/// Promises E06, E30.
#[test]
fn an_entry_without_memory_is_asked_again_after_each_round_and_then_out_of_memory() {
    let a = Bench::new("A");
    let image = a.device.load(&image(&["add", "scale memory=64"])).unwrap();
    a.control.no_memory_next(3);
    image.function("add").unwrap();
    a.control.no_memory_next(4);
    assert!(matches!(image.function("scale"), Err(Error::OutOfMemory { .. })));
    a.control.no_memory_next(0);
    image.function("scale").unwrap();
    a.model.assert_clean();
}

/// Promises C10, E07, E31.
#[test]
fn prepare_starts_and_returns_and_entry_answers_after_it() {
    let a = Bench::new("A");
    let image = a.device.load(&image(&["add", "scale"])).unwrap();
    image.prepare(&["add", "scale", "nope"]);
    assert_eq!(a.control.calls().prepare, 3);
    image.function("add").unwrap();
    assert!(image.resolve("nope").unwrap().is_none());
    a.model.assert_clean();
}

/// Promises C28, E16.
#[test]
fn other_threads_calls_go_on_while_one_resolves() {
    let mut a = Bench::new("A");
    a.control.auto(true);
    let y = a.buffer();
    let slow = a.device.load(&image(&["scale"])).unwrap();
    std::thread::scope(|scope| {
        let inside = a.control.hold(Call::Entry);
        let resolving = scope.spawn(|| slow.function("scale").map(|f| f.name().to_string()));
        inside.wait_inside(1);
        a.iota(&y, 1).unwrap().wait().unwrap();
        drop(a.device.buffer(1 << 17).unwrap());
        y.read(|_: &[u8]| ()).unwrap();
        inside.release();
        assert_eq!(resolving.join().unwrap().unwrap(), "scale");
    });
    a.model.assert_clean();
}

/// Promises C12, C27.
#[test]
fn parameters_are_zero_until_stored_and_of_the_functions_known_size() {
    let a = Bench::new("A");
    a.control.auto(true);
    let (seen, keep) = (std::sync::Arc::new(std::sync::Mutex::new(Vec::new())), a.buffer());
    let told = seen.clone();
    a.model.kernel("tell", move |args| {
        told.lock().unwrap().push((args.params().to_vec(), args.grid()));
        Ok(())
    });
    let tell = a.device.load(&image(&["tell params=32 threads=64"])).unwrap().function("tell").unwrap();
    assert_eq!((tell.params(), tell.threads()), (Some(32), Some(64)));
    assert!(invalid(a.device.submission().launch(&tell, [write(0)]).params(24).make()).contains("it has 32"));
    let submission = a.device.submission().launch(&tell, [write(0).at(8)]).make().unwrap();
    let mut run = submission.take();
    launch(&mut run, &[&keep]).unwrap();
    run.part(0).set(0, 7_u32).set(8, 12_u64).bytes(31, &[9]).groups([2, 3, 4]).threads([5, 6, 1]).group_bytes(128);
    launch(&mut run, &[&keep]).unwrap().wait().unwrap();
    let mut fresh = submission.take();
    launch(&mut fresh, &[&keep]).unwrap().wait().unwrap();
    let seen = seen.lock().unwrap();
    let address = |at: usize| u64::from_ne_bytes(seen[at].0[8..16].try_into().unwrap());
    assert_eq!(address(1), address(0) + 12, "the offset is added to the buffer's address");
    assert_eq!(seen[0].0[16..], [0; 16]);
    assert_eq!((seen[1].0[0], seen[1].0[31]), (7, 9));
    assert_eq!((seen[1].1.groups, seen[1].1.threads, seen[1].1.group_bytes), ([2, 3, 4], [5, 6, 1], 128));
    assert_eq!(seen[2].0, seen[0].0, "a new run begins with zeros");
}

/// Promise C11.
#[test]
fn several_runs_of_one_submission_are_in_flight_and_each_is_used_again() {
    let mut a = Bench::new("A");
    let buffers: Vec<_> = (0..4).map(|_| a.buffer()).collect();
    let iota = a.device.load(&image(&["iota"])).unwrap().function("iota").unwrap();
    let submission = a.device.submission().launch(&iota, [write(0)]).params(16).make().unwrap();
    let mut runs = [submission.take(), submission.take()];
    drop(submission);
    for (index, buffer) in buffers.iter().enumerate() {
        let run = &mut runs[index % 2];
        run.part(0).set(8, 16_u32).set(12, index as u32 * 100);
        launch(run, &[buffer]).unwrap();
    }
    drop(runs);
    assert_eq!(a.control.unfinished(), 4);
    a.control.complete_all();
    for (index, buffer) in buffers.iter().enumerate() {
        buffer.read(|values: &[u32]| assert_eq!(values[1], index as u32 * 100 + 1)).unwrap();
    }
    let y = a.buffer();
    a.iota(&y, 1).unwrap();
    a.model.assert_clean();
}

/// Promise E05.
#[test]
fn code_is_placed_by_the_queue_where_the_host_does_not_address_it() {
    let mut a = Bench::with("A", Options::default().placed_code().no_host_addresses().pace(Pace::Slept));
    let y = a.buffer();
    a.iota(&y, 4).unwrap();
    assert_eq!(crate::support::values(&y).unwrap(), crate::support::counted(4));
    let (control, model) = (a.control.clone(), a.model.clone());
    drop((y, a));
    while control.regions() + control.images() > 0 {
        std::thread::yield_now();
    }
    model.assert_empty();
}
