//! The core on the model device: hostile schedules, faults and shortages, each decided by the test.

mod close;
mod code;
mod fill;
mod loss;
mod order;
mod reclaim;
mod support;
