//! The suite's shorter cases from many seeds. A failure names its seed, which runs it again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rig_conformance::model::Options;
use rig_conformance::suite::cases;
use rig_edge::WaitFacts;

use super::Models;

/// How many seeds each run takes. TIMEOUT: a seed of the cases below takes some tenths of a second in a debug build.
const SEEDS: u64 = 24;

/// The groups whose every case is short.
const GROUPS: [&str; 5] = ["order::", "launches::", "stop::", "failure::", "sharing::"];

fn all_seeds(shape: fn(u64) -> Options) {
    for seed in 0..SEEDS {
        for (name, case) in cases::<Models>() {
            if GROUPS.iter().any(|group| name.starts_with(group)) {
                let fixtures = Models::new(move || shape(seed));
                let passed = catch_unwind(AssertUnwindSafe(move || case(&fixtures)));
                assert!(passed.is_ok(), "{name} fails from seed {seed}");
            }
        }
    }
}

/// Promises C14, C32, E09, E37, S04, S10.
#[test]
fn the_short_cases_pass_from_every_seed() {
    all_seeds(|seed| {
        let waits = WaitFacts { stores: true, hosts: true, most: 1 + seed as usize % 3 };
        let options = Options::default().seed(seed).waits(waits).depth(1 + seed as usize % 5);
        match seed % 4 {
            0 => options.no_host_addresses(),
            1 => options.peers(),
            2 => options.no_host_addresses().peers().maps_host(),
            _ => options.maps_host(),
        }
    });
}

/// Promises C17, E29, E30.
#[test]
fn the_short_cases_pass_from_every_seed_with_shortages() {
    all_seeds(|seed| {
        let options = Options::default().seed(1000 + seed).shortages().own_word(seed);
        if seed % 2 == 0 { options.peers() } else { options.maps_host() }
    });
}
