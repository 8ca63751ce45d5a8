//! Code: libraries, pipelines, entries, and function constants in names.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Barrier;

use rig::{Error, write};
use rig_edge::{Code, Driver, EntryAnswer, EntryFacts, ImageError};
use rig_metal::Metal;
use rig_metal::sys::MTLComputePipelineState;
use rig_metal_model::machine::{Machine, What};

use kit::direct::Direct;
use kit::machine::{Mac, until};
use kit::{alone, grid, invalid, launch, library};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

fn facts(direct: &Direct, image: &rig_metal::Image, name: &str) -> EntryFacts {
    match direct.driver.entry(image, name).unwrap() {
        EntryAnswer::Entry(_, facts) => facts,
        other => panic!("{other:?}"),
    }
}

fn reason(direct: &Direct, image: &rig_metal::Image, name: &str) -> String {
    match direct.driver.entry(image, name).unwrap() {
        EntryAnswer::Invalid(why) => why,
        other => panic!("{other:?}"),
    }
}

/// Promise M20.
#[test]
fn a_load_compiles_nothing_and_a_bad_one_says_why() {
    let mac = Mac::new();
    let direct = Direct::bare();
    let image = direct.load("test");
    assert_eq!(mac.machine.counts().compiled, 0);
    let refused = |binary: &[u8]| match direct.driver.image(binary) {
        Err(ImageError::Refused(why)) => why,
        Ok(Code::Loaded(_) | Code::Place(_)) => panic!("a refusal was due"),
        Err(other) => panic!("{other:?}"),
    };
    let why = refused(&library("vertex"));
    assert!(why.contains("corner") && why.contains("vertex function"), "{why}");
    let whole = library("test");
    for cut in [0, 1, 3, 4, 40, 87, 88, 200, whole.len() - 1] {
        assert!(refused(&whole[..cut]).starts_with("Metal cannot load the library: "), "{cut} bytes");
    }
    for throws in [false, true] {
        let faults = mac.machine.faults();
        if throws {
            faults.throw(What::Library, 1)
        } else {
            faults.refuse(What::Library, 1)
        };
        let why = refused(&whole);
        assert!(why.contains("Metal"), "{why}");
    }
    direct.unload(image);
    direct.close();
    mac.ends();
}

/// Promise M21.
#[test]
fn functions_that_are_prepared_together_compile_at_once_and_for_indirect_command_buffers_too() {
    let mac = Mac::new();
    let direct = Direct::bare();
    let image = direct.load("suite");
    mac.machine.hold_compiles();
    mac.waits_for_no_compile("a prepare", || {
        for name in ["add", "scale", "iota", "spin"] {
            direct.driver.prepare(&image, name);
        }
    });
    until("compiles of all four at once", || mac.machine.counts().compiling == 4);
    assert_eq!(mac.machine.counts().compiled, 0);
    mac.machine.release_compiles();
    let entry = direct.entry(&image, "spin");
    assert!(entry.pipeline().supportIndirectCommandBuffers());
    for name in ["add", "scale", "iota"] {
        direct.entry(&image, name);
    }
    assert_eq!(mac.machine.counts().compiled, 4);
    direct.unload(image);
    direct.close();
}

/// Promises M22, M26.
#[test]
fn threads_that_ask_for_one_function_get_one_pipeline() {
    let mac = Mac::new();
    let direct = Direct::bare();
    let image = direct.load("suite");
    let gate = Barrier::new(8);
    mac.machine.hold_compiles();
    let codes: Vec<usize> = std::thread::scope(|scope| {
        let ask = |thread: usize| {
            let (direct, image, gate) = (&direct, &image, &gate);
            scope.spawn(move || {
                gate.wait();
                if thread.is_multiple_of(2) {
                    direct.driver.prepare(image, "add");
                }
                direct.entry(image, "add").code().addr()
            })
        };
        let threads: Vec<_> = (0..8).map(ask).collect();
        // All of them have passed the barrier, and no pipeline is there yet.
        until("a compile", || mac.machine.counts().compiling > 0);
        mac.machine.release_compiles();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(codes.iter().all(|&code| code == codes[0]), "{codes:?}");
    assert_eq!(mac.machine.counts().compiled, 1);
    direct.driver.prepare(&image, "add");
    assert_eq!(direct.entry(&image, "add").code().addr(), codes[0]);
    assert_eq!(mac.machine.counts().compiled, 1, "a prepare of what is made starts nothing");
    direct.unload(image);
    direct.close();
}

/// Promise M26.
#[test]
fn prepare_reports_nothing_and_a_second_one_starts_nothing() {
    let mac = Mac::new();
    let direct = Direct::bare();
    let image = direct.load("suite");
    // No second one finds the pipeline made.
    mac.machine.hold_compiles();
    mac.waits_for_no_compile("a prepare", || {
        for name in ["add", "add", "absent", "add{", "add{no=1u32}"] {
            direct.driver.prepare(&image, name);
        }
    });
    mac.machine.release_compiles();
    direct.entry(&image, "add");
    mac.machine.settle();
    assert_eq!(mac.machine.counts().compiled, 1);
    direct.unload(image);
    direct.close();
}

/// Promise M23.
#[test]
fn an_entry_knows_its_threads_and_its_parameters() {
    let _mac = Mac::new();
    let direct = Direct::bare();
    let (suite, test) = (direct.load("suite"), direct.load("test"));
    let known = |params, threads| EntryFacts { params, threads: Some(threads) };
    assert_eq!(facts(&direct, &suite, "add"), known(Some(24), 1024), "the padding at the end counts");
    assert_eq!(facts(&direct, &suite, "scale"), known(Some(16), 1024));
    assert_eq!(facts(&direct, &test, "nothing"), known(Some(0), 1024), "no buffer 0");
    assert_eq!(facts(&direct, &test, "words"), known(None, 1024), "words, which state no length");
    assert_eq!(facts(&direct, &test, "place"), known(None, 1024));
    assert_eq!(facts(&direct, &test, "limited"), known(Some(8), 96), "the pipeline's own bound");
    direct.unload(suite);
    direct.unload(test);
    direct.close();

    let _narrow = Mac::of(Machine::builder().max_threads_per_threadgroup([1024, 512, 64]));
    let direct = Direct::bare();
    let test = direct.load("test");
    assert_eq!(facts(&direct, &test, "turn").threads, Some(64), "the least of the axes");
    direct.unload(test);
    direct.close();
}

/// Promise M24.
#[test]
fn an_absent_function_is_absent_and_the_names_are_listed() {
    let mac = Mac::new();
    let device = mac.open();
    let image = device.load(&library("suite")).unwrap();
    assert!(image.resolve("subtract").unwrap().is_none());
    assert!(image.resolve("").unwrap().is_none());
    assert!(image.resolve("subtract{a=1u32}").unwrap().is_none());
    let why = image.function("subtract").map(drop).unwrap_err().to_string();
    for name in ["add", "scale", "iota", "spin"] {
        assert!(why.contains(name), "{why}");
    }
}

/// Promise M25.
#[test]
fn a_pipeline_that_cannot_be_made_is_invalid_with_metals_reason_and_is_asked_for_anew() {
    let mac = Mac::new();
    let device = mac.open();
    let large = device.load(&library("large")).unwrap();
    let why = invalid(large.function("large"));
    assert!(why.contains("large") && why.contains("65536"), "too much threadgroup memory: {why}");
    let image = device.load(&library("suite")).unwrap();
    mac.machine.faults().throw(What::Function, 1);
    assert!(invalid(image.function("add")).contains("exception"));
    mac.machine.faults().refuse(What::Pipeline, 1);
    let why = invalid(image.function("add"));
    assert!(why.contains("add") && why.len() > 30, "{why}");
    mac.machine.faults().refuse(What::Pipeline, 1);
    image.prepare(&["add"]);
    assert_eq!(invalid(image.function("add")), why, "what prepare met, the next entry tells");
    image.function("add").unwrap();
    assert!(device.lost().is_none());
}

/// Promise M27.
#[test]
fn calls_for_an_image_wait_while_a_thread_waits_for_one_of_its_pipelines_and_others_go_on() {
    let mac = Mac::new();
    let direct = Direct::bare();
    let (one, two) = (direct.load("suite"), direct.load("suite"));
    mac.machine.hold_compiles();
    let asks = Barrier::new(2);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| direct.entry(&one, "add"));
        until("the compile that it waits for", || mac.machine.counts().compiling == 1);
        mac.waits_for_no_compile("a prepare of another image", || direct.driver.prepare(&two, "add"));
        until("the compile of the other image", || mac.machine.counts().compiling == 2);
        scope.spawn(|| {
            asks.wait();
            direct.driver.prepare(&one, "iota");
        });
        asks.wait();
        // The thread has begun. That it waits can only be seen by what does not happen, so that is given every chance to.
        (0..20_000).for_each(|_| std::thread::yield_now());
        assert!(!first.is_finished());
        mac.machine.release_compiles();
    });
    direct.entry(&one, "iota");
    let counts = mac.machine.counts();
    assert_eq!(
        (counts.compiled, counts.compiling_most),
        (3, 2),
        "the prepare started nothing before the entry was made"
    );
    direct.unload(one);
    direct.unload(two);
    direct.close();
}

/// Promise M28.
#[test]
fn unload_waits_for_no_compile_and_what_it_makes_later_is_released() {
    let mac = Mac::new();
    let direct = Direct::bare();
    let image = direct.load("suite");
    mac.machine.hold_compiles();
    mac.waits_for_no_compile("a prepare", || direct.driver.prepare(&image, "add"));
    until("the compile", || mac.machine.counts().compiling == 1);
    mac.waits_for_no_compile("an unload", || direct.unload(image));
    mac.machine.release_compiles();
    mac.machine.settle();
    assert_eq!(mac.machine.counts().compiled, 1);
    until("the release of the pipeline", || mac.live("Pipeline") == 0);
    until("the release of the library", || mac.live("Library") == 0 && mac.live("Function") == 0);
    direct.close();
    mac.ends();
}

/// Promises M22, M29.
#[test]
fn an_entry_gives_its_pipeline_and_its_limits_to_fills() {
    let mac = Mac::new();
    let device = mac.open();
    let image = device.load(&library("test")).unwrap();
    let function = image.function("holds").unwrap();
    let entry = function.entry::<Metal>().unwrap();
    assert_eq!(entry.code().addr(), std::ptr::from_ref(entry.pipeline()).addr());
    #[expect(unsafe_code, reason = "reads what compiled code reads")]
    // SAFETY: the function keeps its entry.
    let limits = unsafe { *entry.launch() };
    assert_eq!(limits.pipeline, entry.code());
    assert_eq!((limits.threads, limits.group_bytes), (1024, 20480));
    let again = image.function("holds").unwrap();
    assert_eq!(again.entry::<Metal>().unwrap().launch(), entry.launch(), "the same entry");
}

#[test]
fn function_constants_stand_in_the_name_and_each_spelling_is_a_function() {
    let mac = Mac::new();
    let device = mac.open();
    let image = device.load(&library("test")).unwrap();
    let y = device.buffer(4 * 64).unwrap();
    let run = |name: &str| {
        let mut run = alone(&device, &image.function(name).unwrap(), [write(0)]).take();
        grid(&mut run, 0, 64);
        launch(&mut run, &[&y]).unwrap();
        y.read(|y: &[f32]| y[63]).unwrap()
    };
    assert_eq!(run("chosen{twice=false, by=3u32, factor=0.5f32}"), 1.5);
    assert_eq!(run("chosen{0=true,10=3u32,11=0.5f32}"), 3.0, "by index");
    assert_eq!(run("  chosen { twice = true , 10 = 0x10u32, factor = -1.0f32, } "), -32.0);
    let compiled = mac.machine.counts().compiled;
    assert_eq!(compiled, 3);
    run("chosen{0=true,10=3u32,11=0.5f32}");
    assert_eq!(mac.machine.counts().compiled, compiled, "a spelling that was made is not made again");
}

#[test]
fn a_bad_constant_is_invalid_and_says_what_is_wrong() {
    let mac = Mac::new();
    let direct = Direct::bare();
    let image = direct.load("test");
    for (name, parts) in [
        ("chosen{by=3u32", &["end with }"][..]),
        ("chosen{by=3}", &["suffix", "u32"]),
        ("chosen{why=3u32}", &["no function constant why", "twice (index 0)", "by (index 10)", "factor (index 11)"]),
        ("chosen{12=3u32}", &["no function constant 12"]),
        ("chosen{twice=true, by=3i32, factor=1.0f32}", &["by", "i32", "u32"]),
        ("chosen{twice=1u8, by=3u32, factor=1.0f32}", &["twice", "u8", "bool"]),
        ("nothing{a=true}", &["no function constant a", "none"]),
        ("chosen{twice=true}", &["by"]),
        ("chosen", &["twice"]),
    ] {
        let why = reason(&direct, &image, name);
        for part in parts {
            assert!(why.contains(part), "{name}: {why}");
        }
    }
    direct.unload(image);
    direct.close();
    drop(mac);
}

/// Promise M20.
#[test]
fn a_library_that_rig_refuses_is_refused_with_the_reason() {
    let mac = Mac::new();
    let device = mac.open();
    match device.load(b"MTLB, but no more than that") {
        Err(Error::Refused(why)) => assert!(why.contains("Metal cannot load the library"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(device.lost().is_none());
}
