//! Profiles: what is in them, when times are read, and that they are causal whatever a device's clock says.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rig::{HostWork, Point, Profile, ValueSpan};
use rig_conformance::model::{Model, Options, Pace, Tells};
use rig_edge::WaitFacts;

use crate::support::Bench;

/// Values that ran as they must: each after its submit began, after the one before it and after what it followed.
#[track_caller]
fn assert_causal(profile: &Profile) {
    let ran = |value: &ValueSpan| value.ran.unwrap();
    for (at, value) in profile.values.iter().enumerate() {
        assert!(value.submit.start <= value.submit.end);
        let of = ran(value);
        assert!(of.start <= of.end && of.end <= profile.took, "{value:?}");
        assert!(value.submit.start <= of.start, "{value:?}");
        for part in value.parts.iter().filter_map(|part| part.ran) {
            assert!(of.start <= part.start && part.start <= part.end && part.end <= of.end, "{value:?}");
        }
        let device = |other: &&ValueSpan| other.timeline == value.timeline;
        if let Some(before) = profile.values[..at].iter().rfind(device) {
            assert!(ran(before).end <= of.start, "{before:?} then {value:?}");
        }
        for &(timeline, followed) in &value.follows {
            let before = profile.values.iter().find(|other| (other.timeline, other.value) == (timeline, followed));
            assert!(before.is_none_or(|before| ran(before).end <= of.start), "{before:?} then {value:?}");
        }
    }
}

/// Two devices of one name, which no other test's devices have.
fn two(options: Options) -> (Bench, Bench) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let waits = WaitFacts { stores: true, hosts: true, most: 4 };
    let model = Model::with(&format!("PROFILED-{number}"), options.pace(Pace::AtOnce).waits(waits));
    (Bench::of(&model), Bench::of(&model))
}

/// A profile, less what other tests do meanwhile.
fn take<R>(name: &str, closure: impl FnOnce() -> R) -> (R, Profile) {
    let (answer, mut profile) = Profile::take(closure).unwrap();
    profile.values.retain(|value| &*value.device == name);
    profile.host.retain(|span| &*span.device == name);
    (answer, profile)
}

/// Promise C22.
#[test]
fn a_profile_names_each_devices_values_their_parts_bytes_and_times() {
    let (mut a, mut b) = two(Options::default());
    let (x, y, z) = (a.buffer(), a.buffer(), b.buffer());
    a.iota(&y, 7).unwrap();
    let device = a.device.clone();
    let name = device.name();
    let ((points, copied), profile) = take(name, || {
        let points = [a.add(&x, &y).unwrap(), a.iota(&x, 1).unwrap(), b.iota(&z, 2).unwrap()];
        (points, y.copy_to(&z).unwrap())
    });
    assert!(points.iter().all(|point| point.reached().unwrap()), "a profile ends once its work has");
    let names: Vec<&str> = profile.values.iter().flat_map(|value| &value.parts).map(|part| &*part.name).collect();
    assert_eq!(names, ["add", "iota", "iota"], "what was submitted before is left out");
    assert!(copied.point.is_none());
    let first = &profile.values[0];
    assert_eq!((&*first.device, first.value), (a.device.name(), points[0].value()));
    assert_eq!(first.parts[0].bytes, 128, "the bytes of both buffers");
    assert!(first.parts[0].ran.is_some() && !first.lost && first.error == Duration::ZERO);
    assert_eq!(profile.of(name).count(), 3);
    let works: Vec<HostWork> = profile.host.iter().map(|span| span.work).collect();
    assert_eq!(works.iter().filter(|work| **work == HostWork::Submit).count(), 3);
    assert!(works.iter().any(|work| matches!(work, HostWork::Copy(_))), "{works:?}");
    assert_causal(&profile);
}

/// Promise C06.
#[test]
fn the_path_of_a_copy_stands_in_the_profile() {
    let (a, b) = two(Options::default());
    let (x, y) = (a.buffer(), b.buffer());
    let (copied, profile) = take(a.device.name(), || x.copy_to(&y).unwrap());
    let told = profile.host.iter().find(|span| span.work == HostWork::Copy(copied.path)).unwrap();
    assert_eq!((told.bytes, &*told.device), (64, b.device.name()));
}

#[test]
fn what_a_queue_waits_for_stands_before_what_waits() {
    let (mut a, mut b) = two(Options::default());
    a.control.pace(Pace::Stepped);
    let (x, y) = (a.buffer(), b.buffer());
    let name = a.device.clone();
    let ((), profile) = take(name.name(), || {
        let first = a.iota(&x, 1).unwrap();
        b.iota.after(&[first]);
        let second = b.iota(&y, 2).unwrap();
        assert!(!second.reached().unwrap());
        a.control.complete_all();
    });
    let [first, second] = &profile.values[..] else { panic!("{profile:?}") };
    assert_eq!(second.follows, [(first.timeline, first.value)]);
    assert_causal(&profile);
}

/// Promise E38.
#[test]
fn times_are_read_after_the_word_or_after_a_settle() {
    for tells in [Tells::Parts, Tells::Settled] {
        let (mut a, _) = two(Options::default().tells(tells));
        let x = a.buffer();
        let device = a.device.clone();
        let ((), profile) = take(device.name(), || {
            (0..50).for_each(|at| {
                a.iota(&x, at).unwrap();
            });
        });
        assert_eq!(profile.values.len(), 50);
        assert!(profile.values.iter().all(|value| value.ran.is_some()), "{tells:?}");
        assert_causal(&profile);
    }
}

#[test]
fn a_clock_that_is_off_gives_causal_times_and_a_stated_error() {
    let off = Duration::from_millis(3);
    for tells in [Tells::Ahead(off), Tells::Behind(off)] {
        let (mut a, mut b) = two(Options::default().tells(tells));
        let x = a.buffer();
        let y = x.borrow(&b.device).unwrap_or_else(|_| b.buffer());
        let device = a.device.clone();
        let ((), profile) = take(device.name(), || {
            for at in 0..20 {
                let point = a.iota(&x, at).unwrap();
                b.iota.after(&[point]);
                b.iota(&y, at).unwrap();
            }
        });
        assert!(profile.values.iter().all(|value| value.error == off));
        assert_causal(&profile);
    }
}

#[test]
fn a_device_that_tells_nothing_has_values_without_times() {
    let (mut a, _) = two(Options::default().tells(Tells::Nothing));
    let x = a.buffer();
    let device = a.device.clone();
    let (_, profile) = take(device.name(), || a.iota(&x, 1).unwrap());
    assert_eq!((profile.values.len(), profile.values[0].ran), (1, None));
    assert!(profile.to_string().contains("1 values"), "{profile}");
}

#[test]
fn lost_work_is_in_the_profile_as_lost() {
    let (mut a, _) = two(Options::default());
    a.control.pace(Pace::Stepped);
    let x = a.buffer();
    let device = a.device.clone();
    let (point, profile) = take(device.name(), || {
        let point = a.iota(&x, 1).unwrap();
        a.control.fault("a planted fault");
        point
    });
    assert!(point.wait().is_err());
    assert!(profile.values[0].lost && profile.values[0].ran.is_none(), "{profile:?}");
}

#[test]
fn a_profile_is_refused_inside_a_fill_and_ends_with_a_panic_of_its_closure() {
    let (mut a, _) = two(Options::default());
    let x = a.buffer();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = Profile::take(|| panic!("of the closure"));
    }));
    assert!(panicked.is_err());
    let device = a.device.clone();
    let (_, outer) = take(device.name(), || {
        let (_, inner) = take(device.name(), || a.iota(&x, 1).unwrap());
        assert_eq!(inner.values.len(), 1);
        a.iota(&x, 2).unwrap()
    });
    assert_eq!(outer.values.len(), 2, "a profile around another sees its work too");
    let point: Point = a.iota(&x, 3).unwrap();
    assert!(outer.values.iter().all(|value| value.value < point.value()));
}

#[test]
fn a_profile_inside_a_fill_is_invalid() {
    let (a, _) = two(Options::default());
    let y = a.buffer();
    let code = |_: &mut rig_conformance::model::Encoder<'_>, _: &[rig_edge::Slot]| match Profile::take(|| ()) {
        Err(rig::Error::Invalid(why)) if why.contains("takes no profile") => Ok(()),
        other => Err(format!("{other:?}")),
    };
    let fill = a.device.submission().fill::<rig_conformance::model::ModelDriver>([rig::write(0)], code).make().unwrap();
    crate::support::launch(&mut fill.take(), &[&y]).unwrap().wait().unwrap();
}
