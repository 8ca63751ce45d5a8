//! The model against callers that are right, and against callers that are wrong in one way each.
#![cfg(not(rig_shuttle))]
#![expect(unsafe_code, reason = "the tests call the interface itself, and break its contracts on purpose")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rig_edge::{
    Access, Block, Code, Driver, EntryAnswer, Grown, Launch, Mapping, Memory, Opener, Part, Ref, Room, Scratch, Sleep,
    Slot, Submitted, Timeline, Wait, WaitFacts, WordIndex, WordSource, Words, Work,
};

use super::check::ModelPart;
use super::*;

mod sharing;
mod wrong;

/// The words of these tests: below the end of the table, where no device of rig's own comes.
static NEXT_WORD: AtomicUsize = AtomicUsize::new(3000);

/// A caller of one device, which does all as it should unless a test makes it not.
struct Caller {
    driver: ModelDriver,
    device: ModelDevice,
    index: WordIndex,
    image: Option<ModelImage>,
    parts: Vec<ModelPart>,
    plan: Option<ModelPlan>,
    region: Option<ModelRegion>,
    blocks: Vec<Block>,
    params: Vec<u64>,
    scratch: Vec<Scratch>,
    waits: Vec<Wait>,
    value: u64,
}

const BYTES: usize = 64;

fn new_word() -> WordIndex {
    WordIndex::new(NEXT_WORD.fetch_add(1, Ordering::Relaxed))
}

impl Caller {
    fn new(model: &Model) -> Caller {
        Caller::at(model, new_word())
    }

    fn at(model: &Model, index: WordIndex) -> Caller {
        let driver = model.opener().make(Timeline::new(index)).unwrap();
        let device = model.device(model.opened() - 1);
        let value = device.start();
        let mut caller = Caller {
            driver,
            device,
            index,
            image: None,
            parts: Vec::new(),
            plan: None,
            region: None,
            blocks: Vec::new(),
            params: vec![0, u64::from(BYTES as u32 / 4) | 5 << 32],
            scratch: vec![[0; 4]],
            waits: Vec::new(),
            value,
        };
        let Ok(Code::Loaded(loaded)) = caller.driver.image(&image(&["iota"])) else { panic!("no image") };
        let entry = caller.entry(&loaded);
        caller.image = Some(loaded);
        let refs = vec![Ref { slot: 0, at: 0, access: Access::Write }].into();
        caller.parts.push(Part::Launch(Launch { entry, refs }));
        caller.plan = Some(caller.driver.plan(&caller.parts).unwrap());
        caller.region = Some(caller.driver.alloc(Memory::Device, BYTES).unwrap().unwrap());
        caller.blocks.push(Block { groups: [1; 3], threads: [16, 1, 1], group_bytes: 0, params_at: 0, params_len: 16 });
        caller
    }

    fn entry(&self, image: &ModelImage) -> ModelEntry {
        let EntryAnswer::Entry(entry, _) = self.driver.entry(image, "iota").unwrap() else { panic!("no entry") };
        entry
    }

    fn slot(&self) -> Slot {
        let at = self.driver.locate(self.region.as_ref().unwrap());
        Slot { device: at.device, host: at.host, len: BYTES as u64, handle: std::ptr::null(), handle_offset: 0 }
    }

    fn with_slot<R>(
        &mut self,
        slot: Slot,
        f: impl FnOnce(&ModelDriver, &mut ModelPlan, &[ModelPart], &mut Work<'_>) -> R,
    ) -> R {
        let slots = [slot];
        let mut work = Work {
            blocks: &self.blocks,
            params: bytemuck::cast_slice(&self.params),
            slots: &slots,
            apart: true,
            waits: &self.waits,
            scratch: &mut self.scratch,
            times: None,
        };
        f(&self.driver, self.plan.as_mut().unwrap(), &self.parts, &mut work)
    }

    fn room(&mut self) -> Room {
        let slot = self.slot();
        // SAFETY: the model checks what a test gets wrong, and relies on none of it.
        self.with_slot(slot, |driver, plan, parts, work| unsafe { driver.room(plan, parts, work) })
    }

    fn submit_as(&mut self, value: u64) -> Submitted {
        let slot = self.slot();
        self.value = value;
        // SAFETY: as for room.
        self.with_slot(slot, |driver, plan, parts, work| unsafe { driver.submit(value, plan, parts, work) })
    }

    fn submit(&mut self) -> Submitted {
        assert_eq!(self.room(), Room::Ok);
        self.submit_as(self.value + 1)
    }

    fn bytes(&self) -> Vec<u32> {
        let at = self.driver.locate(self.region.as_ref().unwrap());
        let span = super::bytes::Span::of_host(at.host, BYTES);
        span.read().chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    fn free(&mut self) {
        let region = self.region.take().unwrap();
        // SAFETY: as for room.
        let _ = unsafe { self.driver.free(region) };
    }

    fn unload(&mut self) {
        let image = self.image.take().unwrap();
        // SAFETY: as for room.
        let _ = unsafe { self.driver.unload(image) };
    }

    /// Gives all back, in the right order.
    fn close(mut self) {
        self.device.complete_all();
        self.plan = None;
        self.driver.stop(None).unwrap();
        self.free();
        self.unload();
        if self.driver.facts().word == WordSource::Own {
            self.driver.free_word();
        }
    }

    /// Leaves without giving anything back; what is only left behind is not told.
    fn abandon(self, model: &Model) {
        drop(self);
        let left = model.violations();
        assert!(left.iter().all(|v| matches!(v, Violation::Dropped { .. })), "also {left:?}");
    }
}

/// What one wrong caller is seen for, first.
fn seen(model: &Model) -> Violation {
    let violations = model.violations();
    assert!(!violations.is_empty(), "nothing was seen");
    violations[0].clone()
}

fn caught(wrong: impl FnOnce(&mut Caller)) -> Violation {
    caught_with(Model::options(), wrong)
}

fn caught_with(options: Options, wrong: impl FnOnce(&mut Caller)) -> Violation {
    let model = Model::with("MODEL", options);
    let mut caller = Caller::new(&model);
    wrong(&mut caller);
    let violation = seen(&model);
    caller.abandon_quietly(&model);
    violation
}

impl Caller {
    fn abandon_quietly(self, model: &Model) {
        drop(self);
        model.violations();
    }
}

#[test]
fn a_right_caller_is_told_nothing_and_its_work_is_done() {
    let model = Model::new("MODEL");
    let mut caller = Caller::new(&model);
    assert_eq!(caller.submit(), Submitted::Committed);
    assert_eq!(caller.bytes(), [0; 16]);
    assert_eq!(caller.device.step(), Ok(caller.value));
    assert_eq!(caller.bytes(), (5..21).collect::<Vec<u32>>());
    assert_eq!(caller.device.shown(), caller.value);
    assert_eq!(caller.device.step(), Err(Blocked::Idle));
    let device = caller.device.clone();
    caller.close();
    model.assert_empty();
    assert_eq!(device.calls().submit, 1);
    assert_eq!(device.stopped_with(), Some(None));
}

#[test]
fn encoded_work_runs_once_it_is_committed() {
    let model = Model::at_once("MODEL");
    let mut caller = Caller::new(&model);
    caller.device.encode_only(true);
    assert_eq!(caller.submit(), Submitted::Encoded);
    assert_eq!(caller.device.blocked(), Some(Blocked::Uncommitted(caller.value)));
    caller.driver.commit(caller.value).unwrap();
    assert_eq!(caller.device.shown(), caller.value);
    caller.close();
    model.assert_empty();
}

#[test]
fn a_queue_wait_holds_work_until_the_word_shows_it_unless_the_test_breaks_the_queue() {
    let waits = WaitFacts { stores: true, hosts: true, most: 4 };
    let model = Model::with("MODEL", Model::options().waits(waits));
    let (mut first, mut second) = (Caller::new(&model), Caller::new(&model));
    first.submit();
    second.waits.push(Wait { word: first.index, value: first.value });
    second.submit();
    assert_eq!(second.device.step(), Err(Blocked::Waits(second.waits[0])));
    first.device.step().unwrap();
    second.device.step().unwrap();
    first.submit();
    second.waits[0].value = first.value;
    second.submit();
    second.device.ignore_waits(true);
    second.device.step().unwrap();
    first.close();
    second.close();
    model.assert_empty();
}

#[test]
fn a_queue_wait_for_a_value_from_before_a_device_had_its_word_is_not_for_that_device() {
    // Nobody waits on a queue for a device with a word of its own.
    let waits = WaitFacts { stores: true, hosts: true, most: 4 };
    let model = Model::with("MODEL", Model::options().waits(waits).own_word(7));
    let first = Caller::new(&model);
    Words::get().word(first.index).raise(7);
    runs_past(&model, Wait { word: first.index, value: 7 }, first);
}

#[test]
fn a_queue_wait_is_not_for_a_device_whose_own_word_begins_below_the_one_that_it_was_offered() {
    let waits = WaitFacts { stores: true, hosts: true, most: 4 };
    let model = Model::with("MODEL", Model::options().waits(waits).own_word(7));
    let word = new_word();
    Words::get().word(word).raise(9);
    let first = Caller::at(&model, word);
    runs_past(&model, Wait { word, value: 9 }, first);
}

/// Sees that another device's work with a wait that its word shows runs, whatever `first` would allow of waits for itself.
fn runs_past(model: &Model, wait: Wait, first: Caller) {
    let mut second = Caller::new(model);
    second.waits.push(wait);
    second.submit();
    second.device.step().unwrap();
    first.close();
    second.close();
    model.assert_empty();
}

#[test]
fn a_broken_device_completes_a_committed_value_only_after_a_later_one() {
    let model = Model::at_once("MODEL");
    let mut caller = Caller::new(&model);
    caller.device.break_committed(true);
    caller.submit();
    let first = caller.value;
    assert_eq!(caller.device.blocked(), Some(Blocked::NeedsLater(first)));
    caller.submit();
    assert_eq!(caller.device.shown(), first);
    caller.device.break_committed(false);
    caller.close();
    model.assert_empty();
}

#[test]
fn room_answers_as_the_test_says_and_growth_follows_grow() {
    let model = Model::new("MODEL");
    let mut caller = Caller::new(&model);
    caller.device.later_next(1);
    assert_eq!(caller.room(), Room::Later);
    caller.device.grow_next(1);
    assert_eq!(caller.room(), Room::Grow);
    caller.device.short_next(1);
    assert!(matches!(caller.driver.grow(), Ok(Grown::Short(_))));
    caller.device.grow_next(1);
    assert_eq!(caller.room(), Room::Grow);
    assert_eq!(caller.driver.grow(), Ok(Grown::Grown));
    caller.device.refuse_next("no");
    assert_eq!(caller.room(), Room::Refused("no".into()));
    caller.submit();
    caller.close();
    model.assert_empty();
}

#[test]
fn a_full_device_answers_later_until_work_completes() {
    let model = Model::with("MODEL", Model::options().depth(1));
    let mut caller = Caller::new(&model);
    caller.submit();
    assert_eq!(caller.room(), Room::Later);
    caller.device.step().unwrap();
    caller.submit();
    caller.close();
    model.assert_empty();
}

#[test]
fn a_fault_is_told_by_every_sleep_and_stop_ends_the_work() {
    let model = Model::new("MODEL");
    let mut caller = Caller::new(&model);
    caller.submit();
    caller.device.fault("it burned");
    let sleep = Sleep { seen: 0, until: caller.value, still: Duration::from_secs(60), help: true };
    for _ in 0..2 {
        assert_eq!(caller.driver.sleep(sleep).unwrap_err().reason, "it burned");
    }
    assert!(caller.device.shown() < caller.value);
    caller.driver.stop(Some("it burned")).unwrap();
    assert_eq!(caller.device.shown(), caller.value);
    assert_eq!(caller.device.stopped_with(), Some(Some("it burned".into())));
    caller.plan = None;
    caller.free();
    caller.unload();
    drop(caller);
    model.assert_empty();
}

#[test]
fn work_that_lingers_keeps_the_word_from_its_end_until_the_test_ends_it() {
    let model = Model::with("MODEL", Model::options().lingers());
    let mut caller = Caller::new(&model);
    caller.submit();
    caller.submit();
    caller.device.fault("it burned");
    let sleep = Sleep { seen: 0, until: caller.value, still: Duration::from_secs(60), help: true };
    caller.driver.sleep(sleep).unwrap_err();
    caller.driver.stop(Some("it burned")).unwrap();
    assert!(caller.device.shown() < caller.value);
    caller.device.end_work();
    assert_eq!(caller.device.shown(), caller.value);
    caller.plan = None;
    caller.free();
    caller.unload();
    drop(caller);
    model.assert_empty();
}

#[test]
fn a_sleep_returns_once_the_word_moves_and_runs_work_where_it_helps() {
    let model = Model::with("MODEL", Model::options().pace(Pace::Slept));
    let mut caller = Caller::new(&model);
    caller.submit();
    caller.submit();
    let seen = caller.device.shown();
    let sleep = Sleep { seen, until: seen + 1, still: Duration::from_secs(60), help: true };
    caller.driver.sleep(sleep).unwrap();
    assert_eq!(caller.device.shown(), seen + 1);
    caller.close();
    model.assert_empty();
}

#[test]
fn one_seed_gives_one_run() {
    let run = |seed| {
        let model = Model::seeded("MODEL", seed);
        let mut caller = Caller::new(&model);
        let start = caller.value;
        let mut answers = Vec::new();
        while caller.value < start + 20 {
            match caller.room() {
                Room::Ok => {
                    let value = caller.value + 1;
                    answers.push(format!("{:?}", caller.submit_as(value)));
                }
                Room::Later => caller.driver.commit(caller.value).unwrap(),
                Room::Grow => drop(caller.driver.grow().unwrap()),
                refused => panic!("{refused:?}"),
            }
            answers.push(format!("{}", caller.device.shown() - start));
        }
        caller.driver.commit(caller.value).unwrap();
        caller.close();
        model.assert_empty();
        answers
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn memory_ends_where_the_test_says() {
    let model = Model::with("MODEL", Model::options().capacity(100));
    let mut caller = Caller::new(&model);
    assert!(caller.driver.alloc(Memory::Device, 40).unwrap().is_none());
    caller.free();
    caller.region = caller.driver.alloc(Memory::Device, 40).unwrap();
    assert!(caller.region.is_some());
    caller.device.alloc_fail_next(1);
    assert!(caller.driver.alloc(Memory::Device, 4).unwrap().is_none());
    caller.close();
    model.assert_empty();
}

#[test]
fn device_memory_has_no_host_address_where_the_options_say_so() {
    let model = Model::with("MODEL", Model::options().no_host_addresses());
    let caller = Caller::new(&model);
    assert!(caller.slot().host.is_null());
    let pinned = caller.driver.alloc(Memory::Pinned, 4).unwrap().unwrap();
    assert!(!caller.driver.locate(&pinned).host.is_null());
    // SAFETY: no work uses it.
    unsafe { caller.driver.free(pinned) }.unwrap();
    caller.close();
    model.assert_empty();
}

#[test]
fn placed_code_must_be_stored_where_it_was_placed() {
    let model = Model::with("MODEL", Model::options().placed_code());
    let index = WordIndex::new(NEXT_WORD.fetch_add(1, Ordering::Relaxed));
    let driver = model.opener().make(Timeline::new(index)).unwrap();
    let Ok(Code::Place(place)) = driver.image(&image(&["iota"])) else { panic!("it was loaded") };
    let region = driver.alloc(place.memory, place.len.next_multiple_of(4)).unwrap().unwrap();
    let (bytes, loaded) = (place.finish)(driver.locate(&region)).unwrap();
    let EntryAnswer::Entry(made, _) = driver.entry(&loaded, "iota").unwrap() else { panic!("no entry") };
    let check = |made: &ModelEntry| driver.shared.lock().devices[0].entry(Call::Submit, made);
    assert!(matches!(check(&made), Err(Violation::CodeNotStored { .. })));
    super::bytes::Span::of_host(driver.locate(&region).host, bytes.len()).write(&bytes);
    assert_eq!(check(&made), Ok(()));
    // SAFETY: the model checks it, and must see that the image stands there.
    let _ = unsafe { driver.free(region) };
    assert!(matches!(seen(&model), Violation::FreeUnder { .. }));
    // SAFETY: no work runs it.
    unsafe { driver.unload(loaded) }.unwrap();
    driver.stop(None).unwrap();
}

#[test]
fn calls_stand_still_while_the_test_holds_them() {
    let model = Model::new("MODEL");
    let caller = Caller::new(&model);
    let held = caller.device.hold(Call::Alloc);
    let region = std::thread::scope(|scope| {
        let alloc = scope.spawn(|| caller.driver.alloc(Memory::Device, 4).unwrap().unwrap());
        held.wait_inside(1);
        assert!(!alloc.is_finished());
        held.release();
        alloc.join().unwrap()
    });
    // SAFETY: no work uses it.
    unsafe { caller.driver.free(region) }.unwrap();
    caller.close();
    model.assert_empty();
}

#[test]
fn an_image_that_is_none_is_refused_with_a_reason() {
    let model = Model::new("MODEL");
    let caller = Caller::new(&model);
    let refused = |bytes: &[u8]| match caller.driver.image(bytes) {
        Err(rig_edge::ImageError::Refused(why)) => why,
        _ => panic!("it was not refused"),
    };
    assert!(refused(b"\xff\xfe").contains("not an image"));
    assert!(refused(b"").contains("not an image"));
    assert!(refused(&image(&["iota", "add"])[..30]).contains("truncated"));
    assert!(refused(&image(&["no_such"])).contains("no_such"));
    assert!(refused(&image(&["add params=x"])).contains("no number"));
    caller.close();
    model.assert_empty();
}
