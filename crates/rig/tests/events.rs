//! What a program's log is told, on the model device.
#![cfg(feature = "tracing")]
#![expect(clippy::unwrap_used, reason = "a helper of tests fails its test")]

use std::fmt;
use std::sync::{Arc, Mutex};

use rig::{Device, write};
use rig_conformance::model::{Call, Model, ModelDevice, Options, Pace, image};
use tracing::field::{Field, Visit};
use tracing::subscriber::with_default;
use tracing::{Event, Level, Metadata, Subscriber, span};

/// A log: its lines, and what is done at each.
#[derive(Clone, Default)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    at_each: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Log {
    fn doing(at_each: impl Fn() + Send + Sync + 'static) -> Log {
        Log { lines: Arc::default(), at_each: Some(Arc::new(at_each)) }
    }

    /// Runs with the log as this thread's subscriber, and gives the lines.
    fn of(&self, program: impl FnOnce()) -> Vec<String> {
        with_default(self.clone(), program);
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

/// A line under way.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.0.push_str(&format!(": {value:?}")),
            name => self.0.push_str(&format!(" {name}={value:?}")),
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "rig"
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
        if let Some(at_each) = &self.at_each {
            at_each();
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn open(name: &str, options: Options) -> (Device, ModelDevice) {
    let model = Model::with(name, options);
    let device = rig::open(model.opener()).unwrap();
    (device, model.device(0))
}

/// The one line that says `words`.
#[track_caller]
fn only<'a>(lines: &'a [String], words: &str) -> &'a str {
    let with: Vec<_> = lines.iter().filter(|line| line.contains(words)).collect();
    assert_eq!(with.len(), 1, "{words}: {lines:#?}");
    with[0]
}

#[test]
fn an_open_a_close_and_a_refused_open_are_told_with_their_reasons() {
    let lines = Log::default().of(|| {
        let (device, _) = open("EVENTS-OPEN", Options::default().budget(1 << 20));
        device.close();
        let model = Model::new("EVENTS-REFUSED");
        model.refuse_open("its fan is loose");
        rig::open(model.opener()).unwrap_err();
    });
    let open = only(&lines, "a device is open");
    assert!(open.starts_with("INFO") && open.contains("device=\"EVENTS-OPEN\" driver=\"rig_conformance::model::"));
    assert!(open.ends_with("budget=1048576"), "{open}");
    let closed = only(&lines, "a device is closed");
    assert!(closed.starts_with("INFO") && closed.ends_with("device=\"EVENTS-OPEN\" why=\"it was closed\""), "{closed}");
    assert!(only(&lines, "a device is stopped").starts_with("DEBUG"));
    let refused = only(&lines, "could not be opened");
    assert!(refused.starts_with("WARN") && refused.ends_with("why=\"its fan is loose\""), "{refused}");
}

#[test]
fn a_loss_is_told_once_with_the_first_reason() {
    let lines = Log::default().of(|| {
        let (device, control) = open("EVENTS-LOSS", Options::default());
        control.fault_in(Call::Alloc, "a wire came off");
        device.buffer(64).unwrap_err();
        device.buffer(64).unwrap_err();
    });
    let lost = only(&lines, "a device is lost");
    assert!(lost.starts_with("ERROR") && lost.ends_with("device=\"EVENTS-LOSS\" why=\"a wire came off\""), "{lost}");
}

#[test]
fn memory_that_runs_short_is_told_round_by_round() {
    let lines = Log::default().of(|| {
        let (device, _) = open("EVENTS-SHORT", Options::default().budget(1 << 20));
        let _all = device.buffer(1 << 20).unwrap();
        device.buffer(1 << 20).unwrap_err();
    });
    let rounds: Vec<_> = lines.iter().filter(|line| line.contains("a round of reclamation is over")).collect();
    assert_eq!(rounds.len(), 2, "those that take back and wait: {lines:#?}");
    assert!(rounds[0].starts_with("DEBUG") && rounds[0].ends_with("round=1 in_use=1048576 cached=0 budget=1048576"));
    let short = only(&lines, "an allocation found no memory");
    assert!(short.starts_with("WARN") && short.ends_with("bytes=1048576 in_use=1048576 cached=0 budget=1048576"));
    let made = only(&lines, "a driver made memory");
    assert!(made.starts_with("TRACE") && made.ends_with("memory=\"device\" bytes=1048576"), "{made}");
}

/// A submit, with a buffer of its own.
fn submits(device: &Device, times: usize) {
    let iota = device.load(&image(&["iota"])).unwrap().function("iota").unwrap();
    let mut run = device.submission().launch(&iota, [write(0)]).params(16).make().unwrap().take();
    run.part(0).set(8, 16_u32);
    let y = device.buffer(64).unwrap();
    for _ in 0..times {
        // SAFETY: the model's kernels check every access against the slots.
        #[expect(unsafe_code, reason = "a launch")]
        let point = unsafe { run.launch(&[&y]) };
        point.unwrap().wait().unwrap();
    }
}

#[test]
fn a_growth_is_told_and_a_submit_is_not() {
    let lines = Log::default().of(|| {
        let (device, control) = open("EVENTS-GROW", Options::default().pace(Pace::AtOnce));
        control.grow_next(1);
        submits(&device, 100);
    });
    let grown = only(&lines, "a driver grew for a submit");
    assert!(grown.starts_with("DEBUG") && grown.ends_with("device=\"EVENTS-GROW\" growths=1"), "{grown}");
    assert!(lines.len() < 10, "nothing of the hundred submits: {lines:#?}");
}

#[test]
fn a_subscriber_may_use_rig_at_every_event() {
    static DEVICE: Mutex<Option<Device>> = Mutex::new(None);
    let (other, _) = open("EVENTS-OTHER", Options::default().budget(1 << 20).pace(Pace::AtOnce));
    *DEVICE.lock().unwrap() = Some(other);
    let log = Log::doing(|| {
        let device = DEVICE.lock().unwrap().clone().unwrap();
        // Each of these takes a lock of the device's.
        assert!(device.allocated() + device.cached() <= device.budget());
        device.reclaim();
        device.lost();
        drop(device.buffer(256));
        Model::new("EVENTS-MANY").opener();
    });
    let lines = log.of(|| {
        let device = DEVICE.lock().unwrap().clone().unwrap();
        let _most = device.buffer(900 << 10).unwrap();
        device.buffer(1 << 20).unwrap_err();
        submits(&device, 2);
        device.close();
        device.close();
    });
    only(&lines, "an allocation found no memory");
    only(&lines, "a device is closed");
}

#[test]
fn a_subscribers_panic_leaves_what_it_was_told_of_whole() {
    let log = Log::doing(|| panic!("the disk of the log is full"));
    let lines = log.of(|| {
        let (device, _) = open("EVENTS-PANIC", Options::default().budget(1 << 20).pace(Pace::AtOnce));
        let all = device.buffer(1 << 20).unwrap();
        device.buffer(1 << 20).unwrap_err();
        drop(all);
        submits(&device, 1);
        device.close();
        assert!(device.buffer(64).unwrap_err().to_string().contains("it was closed"));
    });
    only(&lines, "a device is open");
    only(&lines, "a device is stopped");
    assert_eq!(lines.iter().filter(|line| line.starts_with(Level::WARN.as_str())).count(), 1, "{lines:#?}");
}
