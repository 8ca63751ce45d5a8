//! A stream of items through three devices, which can only end if the devices are at work at the same time: their kernels meet.
//!
//! Turn t has item t in the first stage, item t − 1 in the second and item t − 2 in the third, and the kernels of a turn end only
//! once all of them have begun. So each full turn has an instant at which all three devices are at work, whatever the machine is
//! busy with. A second stage's kernel also waits for the first stage's next turn: so between the turns too some device is at work.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use rig::{Buffer, Device, Interval, Profile, Run, ValueSpan, write};
use rig_host::Kernels;
use serde_json::Value;

pub const ITEMS: u32 = 8;
pub const STAGES: [&str; 3] = ["deliver", "transform", "store"];
/// The numbers of an item.
pub const LEN: usize = 64;

/// Where the kernels meet.
#[derive(Default)]
struct Meeting {
    /// How many items each stage has begun.
    begun: Mutex<[u32; 3]>,
    moved: Condvar,
}

impl Meeting {
    /// Blocks until `met` of what has begun.
    fn until(&self, begun: MutexGuard<'_, [u32; 3]>, met: impl Fn(&[u32; 3]) -> bool) {
        // TIMEOUT: devices that are not at work at once never meet: then the kernel fails, and with it the test.
        const MOST: Duration = Duration::from_secs(60);
        let start = Instant::now();
        let mut begun = begun;
        while !met(&begun) {
            let left = MOST.checked_sub(start.elapsed()).expect("the kernels of a turn meet");
            begun = self.moved.wait_timeout(begun, left).unwrap().0;
        }
    }

    /// The kernel of a stage for an item.
    fn work(&self, stage: usize, item: u32) {
        let turn = item + stage as u32;
        let mut begun = self.begun.lock().unwrap();
        assert_eq!(begun[stage], item, "items come in their order");
        begun[stage] += 1;
        self.moved.notify_all();
        self.until(begun, |begun| {
            // Each stage that has an item in this turn has begun it.
            (0..3).all(|other| match turn.checked_sub(other) {
                Some(item) if item < ITEMS => begun[other as usize] > item,
                _ => true,
            })
        });
        if stage == 1 {
            let next = (turn + 1).min(ITEMS - 1);
            self.until(self.begun.lock().unwrap(), |begun| begun[0] > next);
        }
    }
}

/// What each stage does to a number.
fn change(stage: usize, item: u32, number: u32) -> u32 {
    match stage {
        0 => item,
        1 => 3 * number + 1,
        _ => number ^ 0xff,
    }
}

fn stage(device: &Device, at: usize, meeting: &Arc<Meeting>) -> Run {
    let meeting = Arc::clone(meeting);
    let kernels = Kernels::new().group(STAGES[at], 12, move |params, _| {
        let item = params.get::<u32>(8);
        #[expect(unsafe_code, reason = "a kernel works on what its launch named")]
        // SAFETY: slot 0 holds an item, and the launch has one group.
        let numbers = unsafe { params.slice_mut::<u32>(0, 0, LEN) };
        numbers.iter_mut().for_each(|number| *number = change(at, item, *number));
        meeting.work(at, item);
    });
    let function = device.load(&kernels.image()).unwrap().function(STAGES[at]).unwrap();
    device.submission().launch(&function, [write(0)]).make().unwrap().take()
}

/// Takes the items through the stages, and a profile of it.
fn stream() -> (Profile, Vec<Vec<u32>>) {
    let one = || rig::open(rig_host::cores().threads(std::num::NonZero::<u32>::MIN)).unwrap();
    let devices = [one(), one(), rig::open(rig_host::memory()).unwrap()];
    let meeting = Arc::new(Meeting::default());
    let mut runs: Vec<Run> = devices.iter().zip(0..).map(|(device, at)| stage(device, at, &meeting)).collect();
    let buffers = |_| {
        let first = devices[0].buffer(4 * LEN).unwrap();
        devices.each_ref().map(|device| first.borrow(device).unwrap())
    };
    let items: Vec<[Buffer; 3]> = (0..ITEMS).map(buffers).collect();
    let ((), profile) = Profile::take(|| {
        for turn in 0..ITEMS + 2 {
            for (at, run) in runs.iter_mut().enumerate() {
                let Some(item) = turn.checked_sub(at as u32).filter(|&item| item < ITEMS) else { continue };
                run.part(0).set(8, item);
                #[expect(unsafe_code, reason = "launches a kernel")]
                // SAFETY: a stage's kernel works on the item of slot 0.
                unsafe { run.launch(&[&items[item as usize][at]]) }.unwrap();
            }
        }
    })
    .unwrap();
    let numbers = items.iter().map(|item| item[0].read(|numbers: &[u32]| numbers.to_vec()).unwrap());
    (profile, numbers.collect())
}

/// One stream for all tests of the process: a profile sees what every thread does.
pub fn streamed() -> &'static (Profile, Vec<Vec<u32>>) {
    static STREAMED: OnceLock<(Profile, Vec<Vec<u32>>)> = OnceLock::new();
    STREAMED.get_or_init(stream)
}

/// The profile with an arrow for each step of an item, also where the work before was over when the next was submitted.
pub fn with_all_arrows() -> Profile {
    let mut profile = streamed().0.clone();
    let [deliver, transform, _] = stages(&profile)
        .map(|values| -> Vec<(u32, u64)> { values.into_iter().map(|value| (value.timeline, value.value)).collect() });
    for (name, before) in [(STAGES[1], deliver), (STAGES[2], transform)] {
        let of = |value: &&mut ValueSpan| &*value.parts[0].name == name;
        for (value, before) in profile.values.iter_mut().filter(of).zip(before) {
            value.follows = vec![before];
        }
    }
    profile
}

/// The values of each stage, by their items.
fn stages(profile: &Profile) -> [Vec<&ValueSpan>; 3] {
    STAGES.map(|name| {
        let of = |value: &&ValueSpan| &*value.parts[0].name == name;
        let values: Vec<&ValueSpan> = profile.values.iter().filter(of).collect();
        assert_eq!(values.len(), ITEMS as usize, "{name}");
        values
    })
}

fn ran(value: &ValueSpan) -> Interval {
    value.ran.unwrap()
}

/// Promise C22.
#[test]
fn three_devices_are_at_work_at_the_same_time_and_their_spans_overlap() {
    let (profile, numbers) = streamed();
    for (item, numbers) in (0..).zip(numbers) {
        let due = (0..3).fold(0, |number, stage| change(stage, item, number));
        assert!(numbers.iter().all(|&number| number == due), "item {item}: {numbers:?}");
    }
    let [deliver, transform, store] = stages(profile);
    let devices = [deliver[0].timeline, transform[0].timeline, store[0].timeline];
    assert!(devices[0] != devices[1] && devices[1] != devices[2] && devices[0] != devices[2]);
    for turn in 2..ITEMS as usize {
        let at_once = [ran(deliver[turn]), ran(transform[turn - 1]), ran(store[turn - 2])];
        let start = at_once.iter().map(|span| span.start).max();
        let end = at_once.iter().map(|span| span.end).min();
        assert!(start < end, "three items at once in turn {turn}: {at_once:?}");
    }
}

/// Promise C22.
#[test]
fn no_span_starts_before_what_it_waited_for_has_ended() {
    let (profile, _) = streamed();
    let [deliver, transform, store] = stages(profile);
    for (first, then) in deliver.iter().zip(&transform).chain(transform.iter().zip(&store)) {
        assert!(ran(first).end <= ran(then).start, "{first:?} then {then:?}");
        // What was over before the submit is not waited for.
        let only = |&followed: &(u32, u64)| followed == (first.timeline, first.value);
        assert!(then.follows.iter().all(only), "{then:?} follows {first:?} alone");
    }
    assert!(deliver.iter().all(|value| value.follows.is_empty()));
    for values in [deliver, transform, store] {
        assert!(
            values.windows(2).all(|pair| ran(pair[0]).end <= ran(pair[1]).start),
            "one after the other: {values:?}"
        );
        assert!(values.iter().all(|value| value.submit.start <= ran(value).start));
    }
}

/// Promise C22.
#[test]
fn while_the_pipeline_is_full_the_devices_are_busy_for_longer_than_it_takes() {
    let (profile, _) = streamed();
    let [deliver, transform, store] = stages(profile);
    // From the first delivery to the end of the last.
    let (start, end) = (ran(deliver[0]).start, ran(deliver[ITEMS as usize - 1]).end);
    let within = |value: &&ValueSpan| ran(value).end.min(end).saturating_sub(ran(value).start.max(start));
    let busy: Duration = [deliver, transform, store].iter().flatten().map(within).sum();
    assert!(busy > end - start, "busy for {busy:?} in {:?}", end - start);
}

/// Promise C22.
#[test]
fn the_trace_has_an_arrow_from_each_value_that_was_waited_for() {
    let (profile, _) = streamed();
    let mut bytes = Vec::new();
    profile.write_chrome_trace(&mut bytes).unwrap();
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let ends = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<&Value>>();
    let (starts, finishes) = (ends("s"), ends("f"));
    let waited: usize = profile.values.iter().map(|value| value.follows.len()).sum();
    assert_eq!((starts.len(), finishes.len()), (waited, waited));
    for (start, finish) in starts.iter().zip(&finishes) {
        assert_eq!(start["id"], finish["id"]);
        assert!(start["ts"].as_f64() <= finish["ts"].as_f64() && start["pid"] != finish["pid"]);
    }
}
