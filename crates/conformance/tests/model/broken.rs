//! The suite on devices that are broken in one way each: a case that cannot fail shows nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rig_conformance::NullOpener;
use rig_conformance::model::{Model, Options, Pace};
use rig_conformance::suite::{Fixtures, cases};
use rig_edge::WaitFacts;

use super::Models;

/// Whether the case passes, and leaves fixtures that have nothing to say against it.
fn passes<F: Fixtures>(name: &str, fixtures: F) -> bool {
    let (_, case) = cases::<F>().into_iter().find(|(of, _)| *of == name).unwrap();
    catch_unwind(AssertUnwindSafe(move || case(&fixtures))).is_ok()
}

/// Promise E42.
#[test]
fn a_device_whose_committed_values_need_a_later_one_is_found() {
    // The hang bound ends the wait that such a device never would.
    let shape = || Options::default().pace(Pace::AtOnce).breaks_committed().hang(Duration::from_millis(200));
    assert!(!passes("order::a_committed_value_needs_no_later_one", Models::new(shape)));
    assert!(!passes("order::a_closure_waits_for_the_work_before_it", Models::new(shape)));
}

/// Promises C14, S03.
#[test]
fn queues_that_do_not_wait_are_found() {
    fn shape() -> Options {
        Options::default().pace(Pace::Slept).waits(WaitFacts { stores: true, hosts: true, most: 2 })
    }
    let name = "direct::a_queue_wait_holds_work_until_the_word_shows_it";
    assert!(passes(name, Models::new(shape)));
    assert!(!passes(name, Models::new(|| shape().ignores_waits())));
}

/// Promise C12.
#[test]
fn a_kernel_that_touches_one_element_too_many_is_found() {
    let fixtures = || {
        Models::changed(
            || Options::default().pace(Pace::AtOnce),
            |model: &Model| {
                model.kernel("add", |args| {
                    let n = args.count(16) + 1;
                    let x: Vec<f32> = args.read(0, n)?;
                    let mut y: Vec<f32> = args.read(1, n)?;
                    y.iter_mut().zip(&x).for_each(|(y, x)| *y += x);
                    args.write(1, &y)
                });
            },
        )
    };
    assert!(!passes("launches::a_launch_touches_its_elements_and_no_others", fixtures()));
    assert!(!passes("launches::offsets_at_refs_move_where_the_function_works", fixtures()));
}

/// Null devices, which do no work at all.
struct Null;

impl Fixtures for Null {
    type Opener = NullOpener;

    fn opener(&self) -> NullOpener {
        NullOpener::new("NULL")
    }

    fn image(&self) -> Vec<u8> {
        vec![1]
    }

    fn bad_images(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}

/// The cases that a device passes which does no work: those that look at no result of any.
const NEED_NO_WORK: &[&str] = &[
    "memory::a_buffer_has_its_length_and_its_bytes_are_initialised",
    "memory::a_buffer_of_no_bytes_works",
    "memory::what_is_written_is_read_at_every_length",
    "memory::bytes_that_a_closure_does_not_touch_stay",
    "memory::views_share_the_bytes_and_keep_their_bounds",
    "memory::copies_between_devices_keep_every_byte",
    "memory::copies_onto_themselves_are_as_if_through_a_second_buffer",
    "launches::a_submission_of_nothing_is_reached",
    "launches::groups_larger_than_the_function_allows_are_invalid",
    "order::values_rise_by_one",
    "order::work_follows_the_points_that_it_names",
    "order::points_wait_alone_and_together",
    "order::a_committed_value_needs_no_later_one",
    "reclamation::memory_comes_back_while_a_program_goes_on",
    "reclamation::allocated_and_cached_add_up",
    "reclamation::live_buffers_of_many_sizes_keep_their_bytes",
    "failure::a_lost_device_says_why_and_keeps_what_was_reached",
    "failure::what_follows_a_lost_device_is_lost_and_others_go_on",
    "failure::memory_of_a_lost_device_drops_at_any_time",
    "failure::a_lost_device_can_be_opened_again_at_once",
    "stop::close_waits_for_no_work_and_later_calls_say_so",
    "stop::handles_drop_in_any_order",
    "threads::threads_allocate_and_drop",
    "threads::threads_load_code_while_others_wait",
    "direct::facts_are_sound_and_stay",
    "direct::regions_are_aligned_and_fresh_ones_are_zero",
    "direct::the_word_only_rises",
    "direct::sleep_returns_when_the_word_moved_and_when_its_time_is_over",
    "direct::stop_ends_the_word_and_memory_comes_back_after_it",
    "direct::a_queue_wait_holds_work_until_the_word_shows_it",
    "direct::two_devices_of_one_opener_are_their_own",
];

/// Promise E15.
#[test]
fn a_device_that_does_no_work_passes_only_the_cases_that_look_at_none() {
    let passed: Vec<&str> =
        cases::<Null>().into_iter().map(|(name, _)| name).filter(|name| passes(name, Null)).collect();
    assert_eq!(passed, NEED_NO_WORK);
}
