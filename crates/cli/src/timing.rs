//! The median and the spread of the times of several runs.

use std::time::Duration;

use serde::Serialize;

/// The times of the runs, each from the launch to the end of the wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// How many runs there were.
    pub runs: usize,
    /// The shortest, in nanoseconds.
    pub least_ns: u64,
    /// A quarter of the runs took no longer.
    pub quarter_ns: u64,
    /// Half of the runs took no longer.
    pub median_ns: u64,
    /// Three quarters of the runs took no longer.
    pub three_quarters_ns: u64,
    /// The longest.
    pub most_ns: u64,
}

impl Timing {
    /// Of the times of the runs; `None` if there are none.
    pub fn of(mut times: Vec<Duration>) -> Option<Timing> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        // The nearest rank: always a time that was measured. 2^64 ns are 584 years.
        let at = |quarters: usize| times[(quarters * last).div_ceil(4)].as_nanos() as u64;
        Some(Timing {
            runs: times.len(),
            least_ns: at(0),
            quarter_ns: at(1),
            median_ns: at(2),
            three_quarters_ns: at(3),
            most_ns: at(4),
        })
    }
}

/// A time with three digits or so and its unit.
pub fn human(ns: u64) -> String {
    format!("{:.2?}", Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_quarters_are_times_that_were_measured() {
        let of = |times: &[u64]| Timing::of(times.iter().map(|&ns| Duration::from_nanos(ns)).collect());
        assert_eq!(of(&[]), None);
        let one = of(&[7]).unwrap();
        assert_eq!((one.runs, one.least_ns, one.median_ns, one.most_ns), (1, 7, 7, 7));
        let five = of(&[50, 10, 40, 20, 30]).unwrap();
        assert_eq!((five.least_ns, five.quarter_ns, five.median_ns), (10, 20, 30));
        assert_eq!((five.three_quarters_ns, five.most_ns), (40, 50));
        assert_eq!(human(1_234_567), "1.23ms");
    }
}
