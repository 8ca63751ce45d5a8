//! What users of other runtimes reported, each as a case with the right result. `docs/proof.md` has the whole list, with
//! the tests that are no cases of the suite.

mod faults;
mod limits;
mod memory;
mod work;

pub use faults::{
    a_device_that_stops_answering_ends_waits_at_its_bound_and_drops_finish,
    a_fault_behind_the_programs_back_ends_the_next_read, a_fault_behind_the_programs_back_ends_the_next_submits,
    a_fault_behind_the_programs_back_ends_the_next_wait, a_process_ends_after_work_that_traps,
    a_process_ends_while_its_device_does_not_answer, a_wait_behind_a_lost_device_that_nobody_closes_names_it,
    the_loss_of_the_first_of_three_devices_reaches_the_last,
};
pub use limits::{
    a_step_beyond_a_limit_is_invalid_before_any_work, a_zero_along_any_axis_is_invalid_and_takes_no_value,
    work_on_no_bytes_is_defined_and_keeps_its_place,
};
pub use memory::{
    buffers_and_offsets_past_four_gibibytes_work, memory_goes_back_to_the_driver_only_after_a_peers_pending_write,
    memory_is_not_used_again_while_another_device_still_writes_it, millions_of_tiny_buffers_live_at_once,
    sizes_that_grow_by_a_hundredth_keep_the_budget_and_reach_it,
};
pub use work::{
    a_hundred_thousand_points_cost_no_kernel_objects, eight_threads_submit_while_one_waits,
    every_handle_but_a_clone_may_go_while_work_runs,
};
