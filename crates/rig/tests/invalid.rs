//! Bad input: each gets the error of its kind, and nothing is lost, leaked or left locked.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails its test")]

use rig::{Buffer, Device, Error, Run, read, write};
use rig_conformance::NullOpener;

fn device(name: &str) -> Device {
    rig::open(NullOpener::new(name)).unwrap()
}

/// The sentence of an Invalid.
#[track_caller]
fn invalid<T: std::fmt::Debug>(result: rig::Result<T>) -> String {
    match result {
        Err(Error::Invalid(why)) => why,
        other => panic!("not Invalid: {other:?}"),
    }
}

fn run(device: &Device) -> Run {
    let add = device.load(b"").unwrap().function("add").unwrap();
    device.submission().launch(&add, [read(0), write(1)]).make().unwrap().take()
}

#[expect(unsafe_code, reason = "a launch")]
fn launch(run: &mut Run, buffers: &[&Buffer]) -> rig::Result<rig::Point> {
    // SAFETY: the null driver runs nothing.
    unsafe { run.launch(buffers) }
}

/// Promises C12, S12.
#[test]
fn a_bad_submit_is_invalid_and_takes_no_value() {
    let device = device("NULL-BAD-SUBMIT");
    let other = self::device("NULL-BAD-OTHER");
    let (x, y) = (device.buffer(64).unwrap(), device.buffer(64).unwrap());
    let foreign = other.buffer(64).unwrap();
    let mut run = run(&device);
    let first = launch(&mut run, &[&x, &y]).unwrap();

    assert!(invalid(launch(&mut run, &[&x])).contains("takes 2 buffers, not 1"));
    assert!(invalid(launch(&mut run, &[&x, &foreign])).contains("slot 1 is of NULL-BAD-OTHER"));
    run.part(0).set(8, 64_u64);
    assert!(invalid(launch(&mut run, &[&x, &y])).contains("offset 64 at its ref at 8, out of the 64 bytes"));
    run.part(0).set(8, 63_u64);
    launch(&mut run, &[&x, &y]).unwrap();
    run.part(0).groups([1, 0, 1]);
    assert!(invalid(launch(&mut run, &[&x, &y])).contains("every axis is at least 1"));
    run.part(0).groups([1, 1, 1]).threads([0, 1, 1]);
    assert!(invalid(launch(&mut run, &[&x, &y])).contains("every axis is at least 1"));
    run.part(0).threads([1, 1, 1]).set(16, 1_u32);
    assert!(invalid(launch(&mut run, &[&x, &y])).contains("4 bytes at 16 leave the 16 bytes"));
    assert!(invalid(run.submit(&[&x, &y])).contains("launch()"));

    let last = launch(&mut run, &[&x, &y]).unwrap();
    assert_eq!(last.value(), first.value() + 2, "the refused submits took no value");
    x.write(|bytes: &mut [u8]| bytes.fill(1)).unwrap();
}

/// Promise C12.
#[test]
fn a_bad_submission_is_invalid_when_it_is_made() {
    let device = device("NULL-BAD-MAKE");
    let other = self::device("NULL-BAD-MAKE-OTHER");
    let add = device.load(b"").unwrap().function("add").unwrap();
    let foreign = other.load(b"").unwrap().function("add").unwrap();
    let make = |refs: &[rig::RefSpec]| device.submission().launch(&add, refs.iter().copied()).make();

    assert!(invalid(make(&[read(0).at(4)])).contains("multiple of 8"));
    assert!(invalid(make(&[read(0).at(8), write(1).at(8)])).contains("two refs at 8"));
    assert!(invalid(make(&[read(0), write(2)])).contains("no part uses slot 1"));
    assert!(invalid(make(&[read(70_000)])).contains("slots go up to"));
    assert!(invalid(make(&[read(0).at(u32::MAX - 7)])).contains("beyond any parameters"));
    assert!(
        invalid(device.submission().launch(&add, [read(0).at(8)]).params(12).make()).contains("leaves the 12 bytes")
    );
    assert!(invalid(device.submission().params(8).make()).contains("there is none"));
    assert!(invalid(device.submission().copy(1, 1).make()).contains("to itself"));
    assert!(invalid(device.submission().launch(&foreign, [read(0)]).make()).contains("another device"));
    make(&[write(1).at(8), read(0).at(0)]).unwrap();
}

/// Promise C12.
#[test]
fn a_copy_of_other_lengths_or_onto_itself_is_invalid() {
    let device = device("NULL-BAD-COPY");
    let x = device.buffer(64).unwrap();
    let mut run = device.submission().copy(0, 1).make().unwrap().take();
    let (head, tail) = (x.view(0..32).unwrap(), x.view(32..64).unwrap());
    assert!(invalid(run.submit(&[&x, &tail])).contains("64 bytes of slot 0 to 32 of slot 1"));
    assert!(invalid(run.submit(&[&head, &x.view(31..63).unwrap()])).contains("onto bytes of itself"));
    run.submit(&[&head, &tail]).unwrap();
    assert!(invalid(head.copy_to(&x)).contains("the same length"));
}

/// Promises C04, C07.
#[test]
fn empty_buffers_work_and_views_keep_to_their_bounds() {
    let device = device("NULL-EMPTY");
    let empty = device.buffer(0).unwrap();
    assert_eq!(device.allocated() + device.cached(), 0, "no region was made");
    empty.read(|bytes: &[f32]| assert!(bytes.is_empty())).unwrap();
    empty.write(|bytes: &mut [f32]| assert!(bytes.is_empty())).unwrap();
    empty.copy_to(&device.buffer(0).unwrap()).unwrap();
    empty.memset(1).unwrap();
    launch(&mut run(&device), &[&empty, &empty]).unwrap();

    let x = device.buffer(64).unwrap();
    assert!(invalid(x.view(0..65)).contains("0..65 is not inside the 64 bytes"));
    #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake")]
    let reversed = x.view(9..8);
    assert!(invalid(reversed).contains("9..8"));
    let view = x.view(8..24).unwrap().view(8..16).unwrap();
    view.write(|bytes: &mut [u8]| bytes.fill(7)).unwrap();
    x.read(|bytes: &[u8]| {
        assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == if (16..24).contains(&at) { 7 } else { 0 }));
    })
    .unwrap();
}

/// Promise C05.
#[test]
fn slices_that_do_not_fit_the_bytes_are_invalid() {
    let device = device("NULL-SLICES");
    let x = device.buffer(62).unwrap();
    assert!(invalid(x.read(|_: &[f32]| ())).contains("no whole number of 4-byte elements"));
    assert!(invalid(x.view(2..6).unwrap().read(|_: &[f32]| ())).contains("off the 4 of its elements"));
    assert!(invalid(x.copy_from_slice(&[0_u8; 61])).contains("61 bytes does not fill the 62"));
    assert!(invalid(x.copy_to_slice(&mut [0_u8; 63])).contains("do not fill a slice of 63"));
    assert!(invalid(x.read(|_: &[()]| ())).contains("no bytes"));
    x.read(|_: &[u8]| ()).unwrap();
}

/// Promises C17, C18.
#[test]
fn more_than_the_budget_is_out_of_memory_with_the_bytes() {
    let device = device("NULL-BUDGET");
    device.set_budget(1 << 20);
    let half = device.buffer(1 << 19).unwrap();
    match device.buffer((1 << 19) + 1) {
        Err(Error::OutOfMemory { bytes }) => assert_eq!(bytes, (1 << 19) + 1),
        other => panic!("{other:?}"),
    }
    for huge in [usize::MAX, usize::MAX - 3, isize::MAX as usize] {
        assert!(matches!(device.buffer(huge), Err(Error::OutOfMemory { bytes }) if bytes == huge as u64));
    }
    drop(half);
    let whole = device.buffer(1 << 20).unwrap();
    assert_eq!((device.allocated(), device.cached()), (1 << 20, 0), "the cache went back for it");
    drop(whole);
    assert_eq!((device.allocated(), device.cached()), (0, 1 << 20));
    device.set_budget(0);
    assert_eq!(device.cached(), 0);
}

/// Promise C30.
#[test]
fn inside_a_closure_a_conflict_is_invalid_and_all_else_goes_on() {
    let device = device("NULL-CLOSURES");
    let (x, y) = (device.buffer(64).unwrap(), device.buffer(64).unwrap());
    let mut run = run(&device);
    x.read(|_: &[u8]| {
        x.read(|_: &[u8]| ()).unwrap();
        launch(&mut run, &[&x, &y]).unwrap().wait().unwrap();
        assert!(invalid(launch(&mut run, &[&y, &x])).contains("inside a closure"));
        assert!(invalid(x.write(|_: &mut [u8]| ())).contains("inside a closure"));
        y.write(|_: &mut [u8]| ()).unwrap();
        device.buffer(64).unwrap();
    })
    .unwrap();
    x.write(|_: &mut [u8]| {
        assert!(invalid(x.read(|_: &[u8]| ())).contains("inside a closure"));
        assert!(invalid(launch(&mut run, &[&x, &y])).contains("inside a closure"));
        assert!(invalid(x.memset(1)).contains("inside a closure"));
    })
    .unwrap();
    launch(&mut run, &[&y, &x]).unwrap().wait().unwrap();
}

/// Promise C23.
#[test]
fn a_panic_in_a_closure_ends_its_hold() {
    let device = device("NULL-PANIC");
    let x = device.buffer(64).unwrap();
    let panics = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_err();
    panics(&|| x.write(|_: &mut [u8]| panic!("in a write closure")).unwrap());
    panics(&|| x.read(|_: &[u8]| panic!("in a read closure")).unwrap());
    x.write(|bytes: &mut [u8]| bytes.fill(2)).unwrap();
    launch(&mut run(&device), &[&x, &x]).unwrap().wait().unwrap();
}

/// Promises C20, S11.
#[test]
fn every_call_on_a_closed_device_is_lost_with_the_first_reason() {
    let device = device("NULL-CLOSED");
    let (x, y) = (device.buffer(64).unwrap(), device.buffer(64).unwrap());
    let image = device.load(b"").unwrap();
    let submission = device.submission().copy(0, 1).make().unwrap();
    let point = submission.take().submit(&[&x, &y]).unwrap();
    device.close();
    device.close();
    let lost = |error: Error| match error {
        Error::Lost { device, why } => assert_eq!((device.as_str(), &*why), ("NULL-CLOSED", "it was closed")),
        other => panic!("{other}"),
    };
    lost(device.buffer(1).unwrap_err());
    lost(device.load(b"").unwrap_err());
    lost(image.function("add").unwrap_err());
    lost(device.submission().make().unwrap_err());
    lost(submission.take().submit(&[&x, &y]).unwrap_err());
    lost(x.read(|_: &[u8]| ()).unwrap_err());
    lost(x.write(|_: &mut [u8]| ()).unwrap_err());
    lost(x.copy_to(&y).unwrap_err());
    point.wait().unwrap();
    assert!(point.reached().unwrap(), "a point that was reached stays reached");
    let again = self::device("NULL-CLOSED");
    again.buffer(64).unwrap();
}

/// Promise C02.
#[test]
fn handles_drop_in_any_order_and_may_be_forgotten() {
    for order in 0..24 {
        let device = device("NULL-DROPS");
        let x = device.buffer(64).unwrap();
        let image = device.load(b"").unwrap();
        let submission = device.submission().copy(0, 1).make().unwrap();
        let y = x.view(0..32).unwrap();
        submission.take().submit(&[&y, &x.view(32..64).unwrap()]).unwrap();
        let mut handles: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(device), Box::new((x, y)), Box::new(image), Box::new(submission)];
        // The order-th permutation of the four.
        let mut index = order;
        for left in (1..=4).rev() {
            let handle = handles.remove(index % left);
            index /= left;
            if order == 7 && left == 2 {
                std::mem::forget(handle);
            } else {
                drop(handle);
            }
        }
    }
}

/// Promise C10.
#[test]
fn functions_are_found_once_and_prepare_reports_nothing() {
    let device = device("NULL-CODE");
    let image = device.load(b"anything").unwrap();
    image.prepare(&["a", "b"]);
    assert_eq!(image.function("a").unwrap().name(), "a");
    assert!(image.resolve("b").unwrap().is_some());
}

/// Promise E40.
#[test]
fn a_program_reads_the_facts_also_of_a_lost_device() {
    let device = device("NULL-FACTS");
    device.close();
    assert_eq!(device.facts().arch, "null");
    assert_eq!(device.to_string(), "NULL-FACTS");
    assert!(device.facts().kinds().launch);
}
