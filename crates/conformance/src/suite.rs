//! The suite: what any driver of rig must do, run from that driver's own tests.
//!
//! A driver crate gives [`Fixtures`] and writes one line; every case is then a test of its own:
//!
//! ```ignore
//! fn fixtures() -> MyFixtures { MyFixtures }
//!
//! rig_conformance::conformance! {
//!     fixtures = fixtures,
//!     skip = ["failure::a_lost_device_can_be_opened_again_at_once: the driver's process must end first"],
//! }
//! ```
//!
//! The suite sees a driver through rig's public interface, and, in [`direct`], through the driver's own. A skip names a
//! case and gives the reason; it is printed where the case would have run.
//!
//! # The kernels
//!
//! The fixtures' image holds these functions; refs stand at 0 and 8, scalars after them, and each thread looks whether its
//! number, counted along x, is below `n`:
//!
//! ```c
//! void add  (const float *x, float *y, uint32_t n);               // y[i] += x[i]
//! void scale(float *y, uint32_t n, float a);                      // y[i] *= a
//! void iota (uint32_t *y, uint32_t n, uint32_t start);            // y[i] = start + i
//! void spin (uint32_t *y, uint32_t n, uint32_t rounds);           // rounds times: y[i] = y[i] * 1664525 + 1013904223
//! ```

pub mod code;
pub mod direct;
pub mod failure;
mod fixtures;
pub mod growth;
pub(crate) mod kit;
pub mod launches;
pub mod memory;
pub mod order;
pub mod process;
pub mod reclamation;
pub mod reports;
pub mod sharing;
pub mod stop;
pub mod threads;

pub use fixtures::Fixtures;

/// Runs a case, or says why it is skipped.
#[doc(hidden)]
pub fn run(name: &str, skips: &[&str], case: impl FnOnce()) {
    match skips.iter().find_map(|skip| reason(skip, name)) {
        Some(reason) => println!("skipped {name}: {reason}"),
        None => case(),
    }
}

/// The reason in a skip, if it names the case.
fn reason<'a>(skip: &'a str, name: &str) -> Option<&'a str> {
    skip.strip_prefix(name)?.strip_prefix(':').map(str::trim)
}

/// Sees that each skip names a case and gives a reason.
///
/// # Panics
///
/// If one does not.
#[doc(hidden)]
pub fn check_skips(skips: &[&str]) {
    for skip in skips {
        let found = CASES.iter().find_map(|name| reason(skip, name));
        assert!(found.is_some_and(|reason| !reason.is_empty()), "the skip {skip:?} is not `group::case: reason`");
    }
}

/// Makes a test of each case of the suite.
///
/// `fixtures` is a path to a function without arguments that gives the [`Fixtures`](crate::suite::Fixtures); `skip` lists the
/// cases that do not run, each as `"group::case: reason"`.
#[macro_export]
macro_rules! conformance {
    (fixtures = $fixtures:path $(,)?) => {
        $crate::conformance! { fixtures = $fixtures, skip = [] }
    };
    (fixtures = $fixtures:path, skip = [$($skip:expr),* $(,)?] $(,)?) => {
        const CONFORMANCE_SKIPS: &[&str] = &[$($skip),*];

        #[test]
        fn every_skip_names_a_case_and_a_reason() {
            $crate::suite::check_skips(CONFORMANCE_SKIPS);
        }

        $crate::__conformance_cases! { __conformance_tests [$fixtures] }
    };
}

/// The tests of [`conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ([$fixtures:path] $($group:ident { $($case:ident)* })*) => {
        $(mod $group {
            #[allow(unused_imports, reason = "the fixtures' path may be absolute")]
            use super::*;

            $(#[test]
            fn $case() {
                let name = concat!(stringify!($group), "::", stringify!($case));
                let test = concat!(module_path!(), "::", stringify!($case));
                $crate::suite::run(name, CONFORMANCE_SKIPS, || {
                    $crate::suite::process::of_test(test, || $crate::suite::$group::$case(&$fixtures()));
                });
            })*
        })*
    };
}

/// The names of all cases, for the suite itself.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_names {
    ([] $($group:ident { $($case:ident)* })*) => {
        /// The names of all cases.
        pub const CASES: &[&str] = &[$($(concat!(stringify!($group), "::", stringify!($case)),)*)*];

        /// All cases by their names, for who runs them in another way than as tests.
        pub fn cases<F: Fixtures>() -> Vec<(&'static str, fn(&F))> {
            vec![$($((concat!(stringify!($group), "::", stringify!($case)), $group::$case::<F> as fn(&F)),)*)*]
        }
    };
}

/// All cases, given to the macro `then`.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ($then:ident [$($args:tt)*]) => {
        $crate::$then! { [$($args)*]
            memory {
                a_buffer_has_its_length_and_its_bytes_are_initialised
                a_buffer_of_no_bytes_works
                what_is_written_is_read_at_every_length
                bytes_that_a_closure_does_not_touch_stay
                views_share_the_bytes_and_keep_their_bounds
                copies_between_kinds_of_memory_keep_every_byte
                copies_between_devices_keep_every_byte
                copies_onto_themselves_are_as_if_through_a_second_buffer
                memset_sets_its_bytes_and_no_others
                neighbours_of_small_buffers_stay_as_they_were
            }
            code {
                functions_are_found_by_name_and_an_absent_one_lists_the_names
                a_binary_that_is_none_is_refused_with_a_reason_and_loses_nothing
                prepare_reports_nothing_and_changes_no_answer
                functions_and_work_outlive_the_images_handle
                images_load_and_go_many_times
            }
            launches {
                a_launch_touches_its_elements_and_no_others
                offsets_at_refs_move_where_the_function_works
                parameters_are_taken_when_the_work_is_submitted
                runs_of_one_submission_are_in_flight_together
                parts_run_in_their_order
                copies_and_memsets_are_parts
                one_buffer_fills_two_slots
                a_submission_of_nothing_is_reached
                wrong_launches_are_invalid_and_take_no_value
                groups_larger_than_the_function_allows_are_invalid
            }
            order {
                a_device_runs_its_values_one_after_the_other
                values_rise_by_one
                a_closure_waits_for_the_work_before_it
                work_waits_for_the_closures_before_it
                work_through_views_is_ordered_with_all_of_the_allocation
                work_follows_the_memory_from_device_to_device
                work_follows_the_points_that_it_names
                points_wait_alone_and_together
                a_committed_value_needs_no_later_one
                a_submit_inside_a_closure_over_its_buffer_is_invalid
            }
            growth {
                thousands_of_submits_need_no_wait_between_them
                thousands_of_launches_fit_one_submission
                submissions_grow_and_shrink_from_one_to_the_next
                large_parameters_fit
            }
            reclamation {
                a_buffer_may_be_dropped_while_work_uses_it
                memory_comes_back_while_a_program_goes_on
                memory_that_runs_out_is_an_error_and_loses_nothing
                allocated_and_cached_add_up
                live_buffers_of_many_sizes_keep_their_bytes
            }
            failure {
                a_panic_in_a_closure_leaves_the_buffer_whole
                a_lost_device_says_why_and_keeps_what_was_reached
                what_follows_a_lost_device_is_lost_and_others_go_on
                memory_of_a_lost_device_drops_at_any_time
                a_lost_device_can_be_opened_again_at_once
            }
            stop {
                close_waits_for_no_work_and_later_calls_say_so
                handles_drop_in_any_order
                a_device_opens_again_while_another_of_its_name_is_open
                devices_open_and_close_many_times
            }
            threads {
                threads_share_one_device
                threads_share_buffers_on_two_devices
                threads_allocate_and_drop
                threads_load_code_while_others_wait
                threads_open_and_close
            }
            sharing {
                host_memory_is_worked_in_where_it_is_and_its_owner_outlives_the_work
                host_memory_that_is_not_wrapped_comes_back_unharmed
                a_raw_wrapping_is_released_once_after_its_work
                a_wrapped_owner_comes_back_after_a_loss
                no_pci_function_reaches_what_is_not_the_devices_own
                a_borrow_is_the_same_memory_and_its_work_is_ordered_both_ways
                borrows_of_views_and_views_of_borrows_keep_their_bounds
                a_borrow_outlives_the_handles_that_it_was_made_from
                borrows_of_wrapped_memory_keep_its_owner_until_their_work_is_done
                work_through_a_borrow_needs_both_devices
                copies_between_devices_go_one_of_the_ways_and_say_which
                threads_borrow_and_work_at_once
                consume_gives_memory_only_where_nobody_else_sees_it
                a_kept_object_is_dropped_after_the_work
                points_are_awaited_by_any_executor
                typed_buffers_are_buffers_of_elements
                a_device_gives_its_record_to_its_own_drivers_type_alone
            }
            reports {
                a_fault_behind_the_programs_back_ends_the_next_wait
                a_fault_behind_the_programs_back_ends_the_next_submits
                a_fault_behind_the_programs_back_ends_the_next_read
                a_process_ends_after_work_that_traps
                a_device_that_stops_answering_ends_waits_at_its_bound_and_drops_finish
                a_process_ends_while_its_device_does_not_answer
                the_loss_of_the_first_of_three_devices_reaches_the_last
                a_wait_behind_a_lost_device_that_nobody_closes_names_it
                millions_of_tiny_buffers_live_at_once
                sizes_that_grow_by_a_hundredth_keep_the_budget_and_reach_it
                memory_is_not_used_again_while_another_device_still_writes_it
                memory_goes_back_to_the_driver_only_after_a_peers_pending_write
                buffers_and_offsets_past_four_gibibytes_work
                every_handle_but_a_clone_may_go_while_work_runs
                eight_threads_submit_while_one_waits
                a_zero_along_any_axis_is_invalid_and_takes_no_value
                work_on_no_bytes_is_defined_and_keeps_its_place
                a_step_beyond_a_limit_is_invalid_before_any_work
                a_hundred_thousand_points_cost_no_kernel_objects
            }
            direct {
                facts_are_sound_and_stay
                regions_are_aligned_and_fresh_ones_are_zero
                an_entry_is_made_once_and_an_absent_one_lists_names
                a_committed_value_completes_and_its_work_is_seen
                the_word_only_rises
                sleep_returns_when_the_word_moved_and_when_its_time_is_over
                stop_ends_the_word_and_memory_comes_back_after_it
                a_queue_wait_holds_work_until_the_word_shows_it
                two_devices_of_one_opener_are_their_own
                a_mapping_of_host_memory_is_whole_pages_and_reaches_their_last_word
                whether_devices_are_peers_is_the_same_before_and_after_a_stop
                memory_is_mapped_twice_for_a_peer_and_each_mapping_lasts_until_it_is_freed
                a_pci_function_is_told_how_it_reaches_memory_or_why_it_cannot
            }
        }
    };
}

crate::__conformance_cases! { __conformance_names [] }
