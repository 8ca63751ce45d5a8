//! Opening: which machines a device opens on, what it says of itself, and why it does not open.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use rig_edge::{Completion, Driver, Facts, Kinds, Opener, Reach, Timeline, WaitFacts, WordIndex, WordSource};
use rig_metal::Metal;
use rig_metal_model::machine::{Builder, Machine, What};
use rig_metal_model::protocol::MTLGPUFamily;

use kit::direct::Direct;
use kit::machine::Mac;

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

fn machine() -> Builder {
    Machine::builder()
}

fn make(builder: Builder) -> (Mac, Result<Metal, String>) {
    let mac = Mac::of(builder);
    let made = rig_metal::gpu(0).make(Timeline::new(WordIndex::new(3000)));
    (mac, made)
}

#[track_caller]
fn refused(builder: Builder) -> String {
    make(builder).1.err().unwrap()
}

/// Promise M01.
#[test]
fn one_gpu_is_counted_where_there_is_one_though_it_may_not_open() {
    let count = |builder: Builder| {
        let _mac = Mac::of(builder);
        rig_metal::count()
    };
    assert_eq!(count(machine()), Ok(1));
    assert_eq!(count(machine().gpu(false)), Ok(0));
    assert_eq!(count(machine().macos(12, 0, 0)), Ok(1), "counted, and does not open");
}

/// Promises M02, M04.
#[test]
fn what_is_missing_is_the_reason() {
    assert!(refused(machine().gpu(false)).contains("there is no GPU 0: Metal offers 0"));
    let why = refused(machine().macos(14, 6, 1));
    assert!(why.contains("macOS 14.6") && why.contains("macOS 15"), "{why}");
    let why = refused(machine().families(&[MTLGPUFamily::Metal3]).name("Odd GPU"));
    assert!(why.contains("Odd GPU") && why.contains("family"), "{why}");
    let mac = Mac::new();
    let why = rig_metal::gpu(1).make(Timeline::new(WordIndex::new(3001))).err().unwrap();
    assert!(why.contains("there is no GPU 1: Metal offers 1"), "{why}");
    match rig::open(rig_metal::gpu(7)) {
        Err(rig::Error::Refused(why)) => assert!(why.contains("GPU 7"), "{why}"),
        other => panic!("{other:?}"),
    }
    mac.open().buffer(4).unwrap();
}

/// Promise M04.
#[test]
fn a_device_without_a_queue_a_fence_or_a_residency_set_does_not_open_and_leaves_nothing_behind() {
    for (what, word) in [(What::Queue, "queue"), (What::Fence, "fence"), (What::ResidencySet, "residency set")] {
        for throws in [false, true] {
            let mac = Mac::new();
            let faults = mac.machine.faults();
            if throws {
                faults.throw(what, 1)
            } else {
                faults.refuse(what, 1)
            };
            let why = rig_metal::gpu(0).make(Timeline::new(WordIndex::new(3002))).err().unwrap();
            assert!(why.contains(if throws { "exception" } else { word }), "{why}");
            for class in ["Queue", "Fence", "Residency"] {
                assert_eq!(mac.live(class), 0, "{class} after {what:?}");
            }
            drop(mac.open());
        }
    }
}

/// Promise M03.
#[test]
fn each_make_is_a_device_of_its_own_while_others_work() {
    let mac = Mac::new();
    let mut one = Direct::new();
    mac.machine.hold();
    let mut step = one.iota(1);
    one.submit(&mut step);
    one.driver.commit(one.last).unwrap();
    let mut two = Direct::new();
    let record = |direct: &Direct| std::ptr::from_ref(direct.driver.capability().unwrap()).addr();
    assert_ne!(record(&one), record(&two));
    assert_eq!(mac.live("Queue"), 2);
    two.submit(&mut two.iota(5));
    two.driver.commit(two.last).unwrap();
    assert_eq!((one.shown(), two.shown()), (0, 0));
    mac.machine.release();
    one.wait(1);
    two.wait(1);
    assert_eq!((one.words()[3], two.words()[3]), (4, 8));
    one.close();
    two.close();
}

fn facts_of(builder: Builder) -> Facts {
    make(builder).1.unwrap().facts().clone()
}

/// Promise M06.
#[test]
fn the_architecture_is_the_highest_apple_family_and_the_budget_is_metals() {
    let facts = facts_of(machine().recommended_max_working_set_size(123 << 20));
    assert_eq!((facts.arch.as_str(), facts.budget), ("Apple7", 123 << 20));
    assert_eq!(facts_of(machine().families(&[MTLGPUFamily::Apple9, MTLGPUFamily::Mac2])).arch, "Apple9");
    assert_eq!(facts_of(machine().families(&[MTLGPUFamily::Mac2])).arch, "Mac2");
}

/// Promise M07.
#[test]
fn the_facts_are_those_of_the_document() {
    let facts = facts_of(machine());
    let [queue] = &facts.queues[..] else { panic!("one queue") };
    assert_eq!(queue.name, "COMPUTE:0");
    assert_eq!(queue.kinds, Kinds { launch: true, copy: false, memset: false, fill: true });
    assert_eq!(facts.copy_engine, None);
    assert_eq!(facts.completion, Completion::Host);
    assert_eq!(facts.waits, WaitFacts::NONE);
    assert!(facts.may_block && facts.maps_host && facts.host_addresses);
    assert_eq!(facts.hang, None);
    assert_eq!(facts.alignment, 256);
    assert_eq!((facts.cache_bytes, facts.bus.clone()), (None, None));
    assert_eq!((facts.word, facts.reach), (WordSource::Given, Reach::Device));
    assert!(facts.spin < Duration::from_millis(1));
}

/// Promise M07.
#[test]
fn the_host_copies_and_sets_bytes_and_a_submission_of_them_is_invalid() {
    let mac = Mac::new();
    let device = mac.open();
    assert!(matches!(device.submission().memset(0, 1).make(), Err(rig::Error::Invalid(_))));
    let (x, y) = (device.buffer(100).unwrap(), device.buffer(100).unwrap());
    x.memset(7).unwrap();
    x.copy_to(&y).unwrap();
    assert!(y.read(|bytes: &[u8]| bytes.iter().all(|&byte| byte == 7)).unwrap());
    assert_eq!(mac.machine.counts().command_buffers, 0, "no queue had a part in it");
}

/// Promise M08.
#[test]
fn values_start_after_what_the_word_held() {
    let _mac = Mac::new();
    let index = WordIndex::new(3100);
    Timeline::new(index).word().raise(41);
    let driver = rig_metal::gpu(0).make(Timeline::new(index)).unwrap();
    assert_eq!(Timeline::new(index).word().load(), 41, "an open writes nothing");
    driver.stop(None).unwrap();
    assert_eq!(Timeline::new(index).word().load(), 41);
}

/// Promise M09.
#[test]
fn the_capabilitys_alignment_is_4_on_apples_gpus_and_256_on_others() {
    let alignment = |builder: Builder| make(builder).1.unwrap().capability().unwrap().alignment();
    assert_eq!(alignment(machine()), 4);
    assert_eq!(alignment(machine().families(&[MTLGPUFamily::Mac2])), 256);
}

/// Promise M03.
#[test]
fn a_device_that_is_dropped_without_a_stop_leaves_nothing() {
    let mac = Mac::new();
    drop(make(machine()).1.unwrap());
    let direct = Direct::bare();
    drop(direct);
    mac.ends();
}
