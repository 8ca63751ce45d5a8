//! Sharing: memory of the host's and of other devices that is worked in where it is, copies between devices, donation, kept
//! objects, futures, typed buffers.

mod borrows;
mod host_memory;
mod lifetimes;

pub use borrows::{
    a_borrow_is_the_same_memory_and_its_work_is_ordered_both_ways, a_borrow_outlives_the_handles_that_it_was_made_from,
    borrows_of_views_and_views_of_borrows_keep_their_bounds,
    borrows_of_wrapped_memory_keep_its_owner_until_their_work_is_done,
    copies_between_devices_go_one_of_the_ways_and_say_which, threads_borrow_and_work_at_once,
    work_through_a_borrow_needs_both_devices,
};
pub use host_memory::{
    a_raw_wrapping_is_released_once_after_its_work, a_wrapped_owner_comes_back_after_a_loss,
    host_memory_is_worked_in_where_it_is_and_its_owner_outlives_the_work,
    host_memory_that_is_not_wrapped_comes_back_unharmed, no_pci_function_reaches_what_is_not_the_devices_own,
};
pub use lifetimes::{
    a_device_gives_its_record_to_its_own_drivers_type_alone, a_kept_object_is_dropped_after_the_work,
    consume_gives_memory_only_where_nobody_else_sees_it, points_are_awaited_by_any_executor,
    typed_buffers_are_buffers_of_elements,
};
