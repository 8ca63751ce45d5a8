//! One device with nothing in flight: every count is exact at every step.

use rig_conformance::model::{Options, Pace};

use crate::player::Player;
use crate::trace::{Sizes, traces};

fn play(sizes: Sizes, steps: usize) {
    for (seed, steps) in traces(steps) {
        let mut player = Player::new(&format!("{sizes:?}"), seed, Options::default().pace(Pace::AtOnce));
        for n in 0..steps as u64 {
            player.step(sizes, n);
            player.check();
        }
        let report = player.finish(&format!("{sizes:?}"));
        assert!(report.refused > 0, "the trace never met the budget");
    }
}

/// Promises C17, C18.
#[test]
fn powers_of_two_fail_only_where_the_oracle_agrees() {
    play(Sizes::Powers, 10_000);
}

/// Promises C17, C18.
#[test]
fn uniform_sizes_fail_only_where_the_oracle_agrees() {
    play(Sizes::Uniform, 5000);
}

/// Promises C17, C18.
#[test]
fn sizes_of_every_magnitude_fail_only_where_the_oracle_agrees() {
    play(Sizes::Logarithmic, 10_000);
}

/// Promises C17, C18.
#[test]
fn a_programs_few_sizes_fail_only_where_the_oracle_agrees() {
    play(Sizes::Program, 10_000);
}

/// Promises C17, C18.
#[test]
fn growing_sizes_strand_no_memory_in_the_cache() {
    play(Sizes::Growing, 5000);
}
