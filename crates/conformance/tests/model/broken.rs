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

/// The cases of shared memory that look at what work did in it.
const LOOK_AT_WORK: &[&str] = &[
    "sharing::host_memory_is_worked_in_where_it_is_and_its_owner_outlives_the_work",
    "sharing::a_raw_wrapping_is_released_once_after_its_work",
    "sharing::a_wrapped_owner_comes_back_after_a_loss",
    "sharing::no_pci_function_reaches_what_is_not_the_devices_own",
    "sharing::a_borrow_is_the_same_memory_and_its_work_is_ordered_both_ways",
    "sharing::borrows_of_views_and_views_of_borrows_keep_their_bounds",
    "sharing::a_borrow_outlives_the_handles_that_it_was_made_from",
    "sharing::borrows_of_wrapped_memory_keep_its_owner_until_their_work_is_done",
    "sharing::work_through_a_borrow_needs_both_devices",
    "sharing::threads_borrow_and_work_at_once",
    "sharing::consume_gives_memory_only_where_nobody_else_sees_it",
    "sharing::points_are_awaited_by_any_executor",
    "sharing::typed_buffers_are_buffers_of_elements",
    "direct::a_mapping_of_host_memory_is_whole_pages_and_reaches_their_last_word",
    "direct::memory_is_mapped_twice_for_a_peer_and_each_mapping_lasts_until_it_is_freed",
];

/// Promises C08, C09, E25, E26.
#[test]
fn a_device_that_maps_memory_and_does_no_work_in_it_is_found_by_every_case_that_looks() {
    let sharing = || Options::default().pace(Pace::AtOnce).peers().maps_host();
    for name in LOOK_AT_WORK {
        assert!(passes(name, Models::new(sharing)), "{name}");
        let idle = |model: &Model| {
            ["add", "iota", "spin"].into_iter().for_each(|kernel| model.kernel(kernel, |_| Ok(())));
        };
        assert!(!passes(name, Models::changed(sharing, idle)), "{name} needs no work");
    }
}

/// Promises C09, E25.
#[test]
fn peers_between_which_bytes_get_lost_are_found() {
    fn shape() -> Options {
        Options::default().pace(Pace::AtOnce)
    }
    let name = "direct::memory_is_mapped_twice_for_a_peer_and_each_mapping_lasts_until_it_is_freed";
    assert!(passes(name, Models::new(|| shape().peers())));
    assert!(!passes(name, Models::new(|| shape().peers_lose_writes())));
    // rig finds them itself, and borrows no memory by such a way.
    for lossy in [|| shape().peers_lose_reads(), || shape().peers_lose_writes()] {
        for name in LOOK_AT_WORK.iter().filter(|name| name.contains("borrow")) {
            assert!(passes(name, Models::new(lossy)), "{name}");
        }
        assert!(passes("sharing::copies_between_devices_go_one_of_the_ways_and_say_which", Models::new(lossy)));
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
    "sharing::host_memory_is_worked_in_where_it_is_and_its_owner_outlives_the_work",
    "sharing::host_memory_that_is_not_wrapped_comes_back_unharmed",
    "sharing::a_raw_wrapping_is_released_once_after_its_work",
    "sharing::a_wrapped_owner_comes_back_after_a_loss",
    "sharing::a_borrow_is_the_same_memory_and_its_work_is_ordered_both_ways",
    "sharing::borrows_of_views_and_views_of_borrows_keep_their_bounds",
    "sharing::a_borrow_outlives_the_handles_that_it_was_made_from",
    "sharing::borrows_of_wrapped_memory_keep_its_owner_until_their_work_is_done",
    "sharing::work_through_a_borrow_needs_both_devices",
    "sharing::copies_between_devices_go_one_of_the_ways_and_say_which",
    "sharing::threads_borrow_and_work_at_once",
    "sharing::a_kept_object_is_dropped_after_the_work",
    "sharing::a_device_gives_its_record_to_its_own_drivers_type_alone",
    "reports::a_fault_behind_the_programs_back_ends_the_next_wait",
    "reports::a_fault_behind_the_programs_back_ends_the_next_submits",
    "reports::a_fault_behind_the_programs_back_ends_the_next_read",
    "reports::a_process_ends_after_work_that_traps",
    "reports::a_device_that_stops_answering_ends_waits_at_its_bound_and_drops_finish",
    "reports::a_process_ends_while_its_device_does_not_answer",
    "reports::the_loss_of_the_first_of_three_devices_reaches_the_last",
    "reports::a_wait_behind_a_lost_device_that_nobody_closes_names_it",
    "reports::sizes_that_grow_by_a_hundredth_keep_the_budget_and_reach_it",
    "reports::memory_is_not_used_again_while_another_device_still_writes_it",
    "reports::memory_goes_back_to_the_driver_only_after_a_peers_pending_write",
    "reports::a_hundred_thousand_points_cost_no_kernel_objects",
    "direct::facts_are_sound_and_stay",
    "direct::regions_are_aligned_and_fresh_ones_are_zero",
    "direct::the_word_only_rises",
    "direct::sleep_returns_when_the_word_moved_and_when_its_time_is_over",
    "direct::stop_ends_the_word_and_memory_comes_back_after_it",
    "direct::a_queue_wait_holds_work_until_the_word_shows_it",
    "direct::two_devices_of_one_opener_are_their_own",
    "direct::a_mapping_of_host_memory_is_whole_pages_and_reaches_their_last_word",
    "direct::whether_devices_are_peers_is_the_same_before_and_after_a_stop",
    "direct::memory_is_mapped_twice_for_a_peer_and_each_mapping_lasts_until_it_is_freed",
    "direct::a_pci_function_is_told_how_it_reaches_memory_or_why_it_cannot",
];

/// Promise E15.
#[test]
fn a_device_that_does_no_work_passes_only_the_cases_that_look_at_none() {
    let passed: Vec<&str> =
        cases::<Null>().into_iter().map(|(name, _)| name).filter(|name| passes(name, Null)).collect();
    assert_eq!(passed, NEED_NO_WORK);
}
