//! The test's hand on a model and its devices.

use std::sync::Arc;
use std::time::Duration;

use super::driver::ModelOpener;
use super::kernel::{Args, Kernel};
use super::options::{Options, Pace};
use super::running::{Blocked, Ran};
use super::state::{Device, Hold, Shared, State};
use super::{Call, Calls, Violation};
use crate::primitive::{Condvar, Mutex, MutexGuard};

/// How long one wait for a change lasts before it looks again. TIMEOUT: every change is told, so this only bounds how late
/// a test that hangs says so.
pub(crate) const LIMIT: Duration = Duration::from_millis(500);

/// How many such waits a test waits for what another thread must do. TIMEOUT: half a minute is far beyond what any
/// schedule of a loaded machine needs, and a test that hangs is worse than one that fails.
const LIMITS: u32 = 60;

/// A model: opens devices, and decides what they do. Clones are further handles.
#[derive(Clone)]
pub struct Model {
    control: Arc<Control>,
}

/// Dropped with the last handle of the test's: then what was done wrong must have been looked at.
struct Control {
    shared: Arc<Shared>,
}

impl Drop for Control {
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.shared.lock().violations);
        if !left.is_empty() && !std::thread::panicking() {
            panic!("{}", listed(&self.shared.name, &left));
        }
    }
}

fn listed(name: &str, violations: &[Violation]) -> String {
    let lines: Vec<String> = violations.iter().map(|violation| format!("  {violation}")).collect();
    format!("the caller of {name} broke its promises:\n{}", lines.join("\n"))
}

impl Model {
    /// A model whose work runs when it is stepped.
    pub fn new(name: &str) -> Model {
        Model::with(name, Options::default())
    }

    /// A model whose work runs as soon as it may.
    pub fn at_once(name: &str) -> Model {
        Model::with(name, Options::default().pace(Pace::AtOnce))
    }

    /// A model that does everything from one seed.
    pub fn seeded(name: &str, seed: u64) -> Model {
        Model::with(name, Options::default().seed(seed))
    }

    /// A model with these options.
    pub fn with(name: &str, options: Options) -> Model {
        let shared = Shared { name: name.into(), state: Mutex::new(State::new(options)), moved: Condvar::new() };
        Model { control: Arc::new(Control { shared: Arc::new(shared) }) }
    }

    /// The options to begin from.
    pub fn options() -> Options {
        Options::default()
    }

    /// Opens a new device of the model at each make.
    pub fn opener(&self) -> ModelOpener {
        ModelOpener { shared: Arc::clone(&self.control.shared) }
    }

    /// The device that was opened as number `index`, from 0.
    ///
    /// # Panics
    ///
    /// If fewer were opened.
    pub fn device(&self, index: usize) -> ModelDevice {
        let opened = self.opened();
        assert!(index < opened, "device {index} of {opened} that were opened");
        ModelDevice { model: self.clone(), id: index }
    }

    /// How many devices were opened.
    pub fn opened(&self) -> usize {
        self.lock().devices.len()
    }

    /// Makes the next open fail, for this reason.
    pub fn refuse_open(&self, why: &str) {
        self.lock().refuse_open.push_back(why.into());
    }

    /// Gives the model a kernel beside those that it has.
    pub fn kernel(&self, name: &str, code: impl Fn(&mut Args<'_>) -> Result<(), String> + Send + Sync + 'static) {
        self.lock().kernels.insert(name.into(), Kernel { code: Arc::new(code) });
    }

    /// Tells of each value's work as it begins, and as it ends well, before the word shows it: with no lock of the model's
    /// held, on the thread that runs the work.
    pub fn watch(&self, told: impl Fn(Ran) + Send + Sync + 'static) {
        self.lock().watch = Some(Arc::new(told));
    }

    /// Runs the next value of a device that the seed picks among those that can run; gives device and value.
    pub fn step_any(&self) -> Option<(usize, u64)> {
        let (state, stepped) = self.shared().step_any(self.lock());
        drop(self.shared().pump(state));
        stepped
    }

    /// Runs all work of all devices that can run, until none can.
    pub fn complete_all(&self) {
        while self.step_any().is_some() {}
    }

    /// What was done wrong so far. What is taken here is not told again.
    pub fn violations(&self) -> Vec<Violation> {
        std::mem::take(&mut self.lock().violations)
    }

    /// Panics with what was done wrong, if anything was.
    ///
    /// # Panics
    ///
    /// If the caller of any device broke a promise.
    pub fn assert_clean(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "{}", listed(&self.control.shared.name, &violations));
    }

    /// Panics unless nothing was done wrong and every device was given back: stopped, with no region, image or plan left.
    ///
    /// # Panics
    ///
    /// If something is left.
    pub fn assert_empty(&self) {
        self.assert_clean();
        for index in 0..self.opened() {
            let device = self.device(index);
            let (regions, images, plans) = (device.regions(), device.images(), device.plans());
            assert!(device.is_stopped(), "device {index} is not stopped");
            assert_eq!((regions, images, plans), (0, 0, 0), "device {index} has regions, images, plans left");
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.control.shared
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared().lock()
    }
}

/// One device of a model. Its driver may be gone: what it was can still be asked.
#[derive(Clone)]
pub struct ModelDevice {
    pub(super) model: Model,
    pub(super) id: usize,
}

impl ModelDevice {
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Device) -> R) -> R {
        let mut state = self.model.lock();
        let result = f(&mut state.devices[self.id]);
        self.model.shared().moved.notify_all();
        result
    }

    fn pumped<R>(&self, f: impl FnOnce(&mut Device) -> R) -> R {
        let mut state = self.model.lock();
        let result = f(&mut state.devices[self.id]);
        self.model.shared().moved.notify_all();
        drop(self.model.shared().pump(state));
        result
    }

    // ---- running work ----

    /// When the device's work runs from now on.
    pub fn pace(&self, pace: Pace) {
        self.pumped(|device| device.script.pace = pace);
    }

    /// Runs work as soon as it may, or when it is stepped.
    pub fn auto(&self, auto: bool) {
        self.pace(if auto { Pace::AtOnce } else { Pace::Stepped });
    }

    /// Runs the next value, and gives it.
    ///
    /// # Errors
    ///
    /// What keeps it from running.
    pub fn step(&self) -> Result<u64, Blocked> {
        let shared = self.model.shared();
        let (state, ran) = shared.run_next(shared.lock(), self.id);
        drop(shared.pump(state));
        ran
    }

    /// Runs the values up to `value`.
    ///
    /// # Errors
    ///
    /// What keeps the next of them from running.
    pub fn complete(&self, value: u64) -> Result<(), Blocked> {
        while self.with(|device| device.jobs.front().is_some_and(|job| job.value <= value)) {
            self.step()?;
        }
        Ok(())
    }

    /// Runs all that can run now, and gives how many values that were.
    pub fn complete_all(&self) -> usize {
        std::iter::from_fn(|| self.step().ok()).count()
    }

    /// What keeps the next value from running; `None` if nothing does.
    pub fn blocked(&self) -> Option<Blocked> {
        self.with(|device| device.blocked().err())
    }

    /// Commits all that was submitted, as a driver may on its own.
    pub fn commit_now(&self) {
        self.pumped(|device| device.committed = device.submitted);
    }

    /// After stop: the work that lingered is gone, and the word shows the last value.
    pub fn end_work(&self) {
        self.pumped(|device| {
            assert!(device.phase == super::state::Phase::Stopped, "end_work before stop");
            device.jobs.clear();
            device.end_if_stopped();
        });
    }

    // ---- what the device answers ----

    /// Whether submit answers Encoded: then work runs once it is committed.
    pub fn encode_only(&self, encode: bool) {
        self.with(|device| device.script.encode_only = encode);
    }

    /// Whether the device's queue runs work without its waits, as a broken one would.
    pub fn ignore_waits(&self, ignore: bool) {
        self.pumped(|device| device.script.ignore_waits = ignore);
    }

    /// Breaks E42: a committed value completes only once a later one was submitted.
    pub fn break_committed(&self, broken: bool) {
        self.pumped(|device| device.script.break_committed = broken);
    }

    /// Whether committed work outlives stop.
    pub fn lingers(&self, lingers: bool) {
        self.with(|device| device.script.lingers = lingers);
    }

    /// The device faults now: none of its work completes any more, and every sleep, commit and submit says why.
    pub fn fault(&self, reason: &str) {
        self.with(|device| {
            device.fault.get_or_insert_with(|| reason.into());
        });
    }

    /// Whether the device has stopped answering: then none of its work runs, whatever the pace, and no call says why. A wait
    /// can only find out by the hang bound. A submit that may block may block for ever.
    pub fn hang(&self, hung: bool) {
        self.pumped(|device| device.script.hung = hung);
    }

    /// The next call of this kind answers this fault, and the device has faulted. A `room` panics, which is how it tells.
    pub fn fault_in(&self, call: Call, reason: &str) {
        self.with(|device| device.script.faults.push((call, reason.into())));
    }

    /// After so many calls of any kind, counted from the opening, the next call that can fail faults or panics: for a test
    /// that fails at each call in turn.
    pub fn fault_after(&self, calls: u64, panics: bool) {
        self.with(|device| device.script.last_good = Some((calls, panics)));
    }

    /// Whether what [`fault_after`](ModelDevice::fault_after) asked for is still to come.
    pub fn is_to_fault(&self) -> bool {
        self.with(|device| device.script.last_good.is_some())
    }

    /// The next submit fails with this reason.
    pub fn fail_next_submit(&self, reason: &str) {
        self.fault_in(Call::Submit, reason);
    }

    /// The next call of this kind panics.
    pub fn panic_in(&self, call: Call) {
        self.with(|device| device.script.panics.push(call));
    }

    /// The next submit panics.
    pub fn panic_next_submit(&self) {
        self.panic_in(Call::Submit);
    }

    /// The next `n` rooms answer Later, also with nothing in flight.
    pub fn later_next(&self, n: u32) {
        self.with(|device| device.script.later = n);
    }

    /// The next `n` rooms answer Grow.
    pub fn grow_next(&self, n: u32) {
        self.with(|device| device.script.grow = n);
    }

    /// The next `n` growths are short.
    pub fn short_next(&self, n: u32) {
        self.with(|device| device.script.short = n);
    }

    /// The next room answers Refused with this reason.
    pub fn refuse_next(&self, reason: &str) {
        self.with(|device| device.script.refuse.push_back(reason.into()));
    }

    /// The next `n` entries answer that there is no memory.
    pub fn no_memory_next(&self, n: u32) {
        self.with(|device| device.script.no_memory = n);
    }

    /// The next `n` plans answer that there is no memory.
    pub fn plan_no_memory_next(&self, n: u32) {
        self.with(|device| device.script.plan_no_memory = n);
    }

    /// The next `n` images answer that there is no memory.
    pub fn image_no_memory_next(&self, n: u32) {
        self.with(|device| device.script.image_no_memory = n);
    }

    /// The next `n` allocs answer that there is no memory.
    pub fn alloc_fail_next(&self, n: u32) {
        self.with(|device| device.script.alloc_fail = n);
    }

    /// Runs the test's code in every call of this kind, with no lock of the model's held.
    pub fn on(&self, call: Call, hook: impl Fn() + Send + Sync + 'static) {
        self.with(|device| device.script.hooks.push((call, Arc::new(hook))));
    }

    // ---- ordering a test's threads ----

    /// Makes calls of this kind stand still until the answer is released or dropped.
    pub fn hold(&self, call: Call) -> Held {
        let id = self.with(|device| {
            let id = device.id();
            device.script.holds.push(Hold { id, call, inside: 0 });
            id
        });
        Held { device: self.clone(), id }
    }

    /// Waits until the device was called `n` times in this way: how a test waits for another of its threads.
    ///
    /// # Panics
    ///
    /// If that does not happen within half a minute.
    pub fn wait_calls(&self, call: Call, n: u64) {
        self.until(&format!("{n} calls of {call:?}"), |device| device.calls.of(call) >= n);
    }

    /// Waits until values up to `value` were given to submit.
    ///
    /// # Panics
    ///
    /// If that does not happen within half a minute.
    pub fn wait_submitted(&self, value: u64) {
        self.until(&format!("the submit of {value}"), |device| device.submitted >= value);
    }

    fn until(&self, what: &str, done: impl Fn(&Device) -> bool) {
        let shared = self.model.shared();
        let mut state = shared.lock();
        let mut limits = 0;
        while !done(&state.devices[self.id]) {
            // Notices come oftener than the limit, so that it counts at most that many waits without one.
            assert!(limits < LIMITS || cfg!(rig_shuttle), "device {} still waits for {what}", self.id);
            let start = std::time::Instant::now();
            state = shared.moved.wait_timeout(state, LIMIT);
            limits += u32::from(start.elapsed() >= LIMIT);
        }
    }

    // ---- what happened ----

    /// Whether the slots of the last submit were said to be apart.
    pub fn apart(&self) -> bool {
        self.with(|device| device.apart)
    }

    /// How often each call came.
    pub fn calls(&self) -> Calls {
        self.with(|device| device.calls)
    }

    /// How many regions are not freed, mappings included. Those whose bus addresses were given are never freed, and do not
    /// count.
    pub fn regions(&self) -> usize {
        self.with(|device| device.memory.values().filter(|region| region.is_owed()).count())
    }

    /// How many images are not unloaded.
    pub fn images(&self) -> usize {
        self.with(|device| device.images.len())
    }

    /// How many plans are not dropped.
    pub fn plans(&self) -> usize {
        self.with(|device| device.plans.len())
    }

    /// The bytes of memory that alloc and entries took and that are not back.
    pub fn live_bytes(&self) -> u64 {
        self.with(|device| device.live_bytes)
    }

    /// The bytes of regions whose bus addresses were given: never freed, they stay among the live ones.
    pub fn exported_bytes(&self) -> u64 {
        self.with(|device| device.memory.values().filter(|region| !region.bus.is_empty()).map(|r| r.len as u64).sum())
    }

    /// How many values were given to submit and are not complete.
    pub fn unfinished(&self) -> usize {
        self.with(|device| device.jobs.len())
    }

    /// The value that the word held when the device opened: its values start after it.
    pub fn start(&self) -> u64 {
        self.with(|device| device.start)
    }

    /// The last value given to submit.
    pub fn submitted(&self) -> u64 {
        self.with(|device| device.submitted)
    }

    /// The last value that runs without further calls.
    pub fn committed(&self) -> u64 {
        self.with(|device| device.committed)
    }

    /// What the word shows.
    pub fn shown(&self) -> u64 {
        self.with(|device| device.shown())
    }

    /// How many queue waits the unfinished value has; `None` if it is not unfinished.
    pub fn waits_of(&self, value: u64) -> Option<usize> {
        self.with(|device| device.jobs.iter().find(|job| job.value == value).map(|job| job.waits.len()))
    }

    /// Whether stop has run.
    pub fn is_stopped(&self) -> bool {
        self.with(|device| device.phase == super::state::Phase::Stopped)
    }

    /// What stop was told, once it has run: the reason of a fault, or none.
    pub fn stopped_with(&self) -> Option<Option<String>> {
        self.with(|device| device.stopped_with.clone())
    }

    /// Whether the driver itself was dropped.
    pub fn is_dropped(&self) -> bool {
        self.with(|device| device.dropped)
    }
}

/// Calls of one kind that stand still. Dropping it lets them go.
pub struct Held {
    device: ModelDevice,
    id: u64,
}

impl Held {
    /// Waits until `n` calls have come to stand still here.
    ///
    /// # Panics
    ///
    /// If that does not happen within half a minute.
    pub fn wait_inside(&self, n: u32) {
        let inside = |device: &Device| device.script.holds.iter().any(|hold| hold.id == self.id && hold.inside >= n);
        self.device.until(&format!("{n} held calls"), inside);
    }

    /// Lets the calls go.
    pub fn release(self) {}
}

impl Drop for Held {
    fn drop(&mut self) {
        self.device.with(|device| device.script.holds.retain(|hold| hold.id != self.id));
    }
}
