//! Memory that is dropped while work on it is in flight: an allocation waits for it where it must, and takes it only then.

use rig::{Run, read, write};
use rig_conformance::model::{Options, Pace, image};

use crate::player::{Held, Player};
use crate::trace::{BUDGET, Sizes, traces};

/// Runs that set every byte of a buffer, by the byte.
pub struct Setters(Vec<Run>);

impl Setters {
    pub fn new(device: &rig::Device) -> Setters {
        let setter = |byte| device.submission().memset(0, byte).make().unwrap().take();
        Setters((0..8).map(setter).collect())
    }

    /// Starts to set every byte of the buffer, reached by the setters' device.
    pub fn start(&mut self, buffer: &rig::Buffer, held_tag: &mut u8, random: u64) {
        let byte = random % 8;
        self.0[byte as usize].submit(&[buffer]).unwrap();
        *held_tag = byte as u8;
    }
}

/// Drops one, mostly with no look at its bytes, which would wait for its work.
pub fn drop_in_flight(player: &mut Player) {
    if player.random.one_in(4) {
        player.drop_one();
        return;
    }
    let index = player.random.below(player.held.len());
    let held = player.held.swap_remove(index);
    player.oracle.dropped(held.buffer.len());
}

fn play(sizes: Sizes, options: Options, steps: usize) {
    for (seed, steps) in traces(steps) {
        // The driver has no more than the budget either, as on a real device.
        let mut player = Player::new(&format!("FLIGHT-{sizes:?}"), seed, options.clone().capacity(BUDGET));
        player.control.encode_only(true);
        let mut setters = Setters::new(&player.device);
        for n in 0..steps as u64 {
            let burst = player.random.one_in(32);
            let left = (BUDGET - player.oracle.asked) as usize;
            let len = if burst { left / 2 + player.random.below(left) } else { sizes.pick(&mut player.random, n) };
            while !burst && player.oracle.asked + len as u64 > BUDGET / 10 * 9 {
                drop_in_flight(&mut player);
            }
            let random = player.random.next();
            if let Some(Held { buffer, tag }) = player.allocate(len)
                && random.is_multiple_of(2)
            {
                setters.start(buffer, tag, random >> 1);
            }
            while player.oracle.asked > BUDGET / 10 * 9 {
                drop_in_flight(&mut player);
            }
            assert!(player.control.live_bytes() <= BUDGET, "the driver holds more than the budget");
            if n.is_multiple_of(64) {
                let (live, cached) = (player.device.allocated(), player.device.cached());
                assert_eq!(player.control.live_bytes(), live + cached);
                assert!(live >= player.oracle.least);
            }
        }
        let report = player.finish(&format!("in flight, {sizes:?}"));
        assert!(report.refused > 0, "the trace never met the budget");
    }
}

/// Promises C16, C17, C18.
#[test]
fn work_in_flight_on_dropped_memory_fails_no_allocation_and_writes_none_of_it() {
    for sizes in [Sizes::Logarithmic, Sizes::Program, Sizes::Growing] {
        play(sizes, Options::default().pace(Pace::Slept), 2000);
    }
}

/// Promises C16, C17, C18, E12.
#[test]
fn a_queue_that_takes_few_values_at_a_time_changes_nothing() {
    play(Sizes::Program, Options::default().pace(Pace::Slept).depth(5), 2000);
}

/// Promises C16, C17.
#[test]
fn work_that_completes_at_any_time_fails_no_allocation() {
    for (seed, _) in traces(1) {
        play(Sizes::Logarithmic, Options::default().seed(seed + 1), 2000);
    }
}

/// Promises C17, C21.
#[test]
fn an_allocation_waits_for_a_dropped_submission_that_keeps_the_memory_it_needs() {
    let player = Player::new("KEEPS", 0, Options::default().pace(Pace::Slept));
    player.control.encode_only(true);
    let device = &player.device;
    let kept = device.buffer(BUDGET as usize / 2).unwrap();
    let used = device.buffer(BUDGET as usize / 4).unwrap();
    let submission = device.submission().memset(0, 1).keep(kept).make().unwrap();
    submission.take().submit(&[&used]).unwrap();
    drop(submission);
    let needs = device.buffer(BUDGET as usize / 4 * 3).unwrap();
    drop((needs, used));
    player.finish("what a submission keeps");
}

/// Promises C17, E05, E30.
#[test]
fn a_functions_own_memory_makes_the_cache_and_dropped_work_give_way() {
    let player = Player::new("ENTRIES", 0, Options::default().pace(Pace::Slept).capacity(BUDGET));
    player.control.encode_only(true);
    let device = &player.device;
    let mut setters = Setters::new(device);
    let loaded = device.load(&image(&["add memory=9000000", "iota"])).unwrap();
    let buffer = device.buffer(BUDGET as usize / 8 * 7).unwrap();
    setters.start(&buffer, &mut 0, 0);
    drop(buffer);
    let add = loaded.function("add").unwrap();
    assert!(player.control.live_bytes() >= 9_000_000, "the function takes its memory");
    let (x, y) = (device.buffer(64).unwrap(), device.buffer(64).unwrap());
    device.submission().launch(&add, [read(0), write(1)]).make().unwrap();
    assert!(matches!(device.buffer(BUDGET as usize / 2), Err(rig::Error::OutOfMemory { .. })));
    drop((add, loaded, x, y));
    device.buffer(BUDGET as usize / 2).unwrap();
    player.model.assert_clean();
}
