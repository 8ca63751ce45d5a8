//! Code: images, functions, prepare.

use rig::Error;

use super::Fixtures;
use super::kit::{Kit, invalid, words};

/// Promises C10, E06.
pub fn functions_are_found_by_name_and_an_absent_one_lists_the_names<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    for name in ["add", "scale", "iota", "spin", "add"] {
        assert_eq!(kit.image.resolve(name).unwrap().unwrap().name(), name);
    }
    assert!(kit.image.resolve("no_such_function").unwrap().is_none());
    assert!(kit.image.resolve("").unwrap().is_none());
    match kit.image.function("no_such_function") {
        Err(Error::Invalid(why)) => assert!(why.contains("no_such_function") && why.contains("iota"), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// Promises C10, E05.
pub fn a_binary_that_is_none_is_refused_with_a_reason_and_loses_nothing<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let mut bad = f.bad_images();
    bad.push(("no bytes".into(), Vec::new()));
    bad.push(("noise".into(), super::kit::pattern(1000, 5)));
    for (what, binary) in bad {
        match kit.device.load(&binary) {
            Err(Error::Refused(why)) => assert!(why.len() > 10, "{what}: {why:?} is no reason"),
            Err(other) => panic!("{what}: Refused was due, not {other:?}"),
            Ok(_) => panic!("{what} was loaded"),
        }
    }
    let y = kit.device.buffer(40).unwrap();
    kit.iota(&y, 1).unwrap();
    assert_eq!(words(&y), (1..11).collect::<Vec<u32>>());
}

/// Promises C10, E07, E31.
pub fn prepare_reports_nothing_and_changes_no_answer<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    let image = device.load(&f.image()).unwrap();
    image.prepare(&["add", "iota", "no_such_function"]);
    image.prepare(&["iota"]);
    image.prepare(&[]);
    assert!(image.resolve("no_such_function").unwrap().is_none());
    image.function("iota").unwrap();
    image.prepare(&["iota"]);
    image.function("add").unwrap();
    // Prepared and never asked for: the image goes with its start still under way.
    let image = device.load(&f.image()).unwrap();
    image.prepare(&["add", "scale", "iota", "spin"]);
    drop(image);
    drop(device);
}

/// Promises C02, E32.
pub fn functions_and_work_outlive_the_images_handle<F: Fixtures>(f: &F) {
    let Kit { f, image, add, scale, iota, spin, device } = Kit::new(f);
    drop((add, scale, spin));
    let mut run = iota.take();
    let (groups, threads) = f.grid(1000);
    run.part(0).groups(groups).threads(threads).set(8, 1000_u32).set(12, 3_u32);
    drop(image);
    drop(iota);
    let y = device.buffer(4000).unwrap();
    super::kit::launch(&mut run, &[&y]).unwrap();
    drop(run);
    assert_eq!(words(&y)[999], 1002);
}

/// Promises C10, E32.
pub fn images_load_and_go_many_times<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    let before = device.allocated();
    for round in 0..20 {
        let kit = Kit::of(f, device.clone());
        let y = device.buffer(64).unwrap();
        kit.iota(&y, round).unwrap();
        assert_eq!(words(&y)[15], round + 15);
    }
    invalid(device.load(&f.image()).unwrap().function("no_such_function"));
    // Images whose work is done give their memory back, here at the latest.
    drop(device.submission().make());
    assert!(device.allocated() <= before + (1 << 20), "{} bytes of code stay", device.allocated() - before);
}
