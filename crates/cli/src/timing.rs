//! The median and the spread of the times of several runs.
//!
//! The spread is the distance of the quarters and not a standard deviation: one run that the system held up moves that
//! by any amount, and times are not spread evenly around their middle, which two quarters show and one number does not.

use std::time::Duration;

use serde::Serialize;

use crate::size::bytes;

/// The times of the runs, each from the launch to the end of the wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// How many runs there were.
    pub runs: usize,
    /// The first, in nanoseconds.
    pub first_ns: u64,
    /// The shortest.
    pub least_ns: u64,
    /// A quarter of the runs took less.
    pub quarter_ns: u64,
    /// Half of the runs took less.
    pub median_ns: u64,
    /// Three quarters of the runs took less.
    pub three_quarters_ns: u64,
    /// The longest.
    pub most_ns: u64,
    /// From the quarter to the three quarters.
    pub spread_ns: u64,
    /// The bytes of all buffers.
    pub buffer_bytes: u64,
    /// Those over the median; none where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
}

impl Timing {
    /// Of the times of the runs in their order, over so many bytes of buffers; `None` if there are no runs.
    pub fn of(mut times: Vec<Duration>, buffer_bytes: u64) -> Option<Timing> {
        // 2^64 ns are 584 years.
        let first_ns = times.first()?.as_nanos() as u64;
        times.sort_unstable();
        let median_ns = at(&times, 2);
        let (quarter_ns, three_quarters_ns) = (at(&times, 1), at(&times, 3));
        Some(Timing {
            runs: times.len(),
            first_ns,
            least_ns: at(&times, 0),
            quarter_ns,
            median_ns,
            three_quarters_ns,
            most_ns: at(&times, 4),
            spread_ns: three_quarters_ns - quarter_ns,
            buffer_bytes,
            bytes_per_second: (buffer_bytes > 0 && median_ns > 0)
                .then(|| buffer_bytes as f64 / Duration::from_nanos(median_ns).as_secs_f64()),
        })
    }
}

/// The time below which so many quarters of the sorted times lie, interpolated between the two nearest as numpy's
/// `percentile` does by default, and R's `quantile` (type 7).
fn at(sorted: &[Duration], quarters: usize) -> u64 {
    let steps = quarters * (sorted.len() - 1);
    let (below, above) = (sorted[steps / 4], sorted[steps.div_ceil(4)]);
    let part = (above - below).as_nanos() * (steps % 4) as u128;
    // To the nearest nanosecond.
    (below.as_nanos() + (part + 2) / 4) as u64
}

impl std::fmt::Display for Timing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.runs == 1 {
            write!(f, "1 run: {}", human(self.first_ns))?;
        } else {
            write!(
                f,
                "{} runs: median {}, half of them {} to {} (spread {}), all {} to {}, the first {}",
                self.runs,
                human(self.median_ns),
                human(self.quarter_ns),
                human(self.three_quarters_ns),
                human(self.spread_ns),
                human(self.least_ns),
                human(self.most_ns),
                human(self.first_ns)
            )?;
        }
        match self.bytes_per_second {
            Some(rate) => {
                write!(f, "\n{} of buffers, each byte counted once: {}", bytes(self.buffer_bytes), per_second(rate))
            }
            None => Ok(()),
        }
    }
}

/// A time with three digits or so and its unit.
fn human(ns: u64) -> String {
    // There is no part of a nanosecond to show.
    if ns < 1000 { format!("{ns}ns") } else { format!("{:.2?}", Duration::from_nanos(ns)) }
}

/// A rate with three digits or so, in the powers of ten in which vendors state it.
fn per_second(rate: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
    match UNITS.iter().find(|&&(_, one)| rate >= one) {
        Some((unit, one)) => format!("{:.2} {unit}", rate / one),
        None => format!("{rate:.2} B/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[u64], bytes: u64) -> Option<Timing> {
        Timing::of(times.iter().map(|&ns| Duration::from_nanos(ns)).collect(), bytes)
    }

    #[test]
    fn the_median_and_the_quarters_are_those_of_numpy() {
        let quarters = |times: &[u64]| {
            let timing = of(times, 0).unwrap();
            assert_eq!(timing.spread_ns, timing.three_quarters_ns - timing.quarter_ns);
            (timing.least_ns, timing.quarter_ns, timing.median_ns, timing.three_quarters_ns, timing.most_ns)
        };
        // numpy.percentile(times, [0, 25, 50, 75, 100]), rounded.
        assert_eq!(quarters(&[7]), (7, 7, 7, 7, 7));
        assert_eq!(quarters(&[20, 10]), (10, 13, 15, 18, 20));
        assert_eq!(quarters(&[160, 40, 120, 80]), (40, 70, 100, 130, 160));
        assert_eq!(quarters(&[50, 10, 40, 20, 30]), (10, 20, 30, 40, 50));
        assert_eq!(quarters(&[3, 1, 4, 1, 5, 9, 2, 6, 5, 3]), (1, 2, 4, 5, 9));
        assert_eq!(quarters(&[3001, 1000, 4000, 1000, 5000, 9000]), (1000, 1500, 3501, 4750, 9000));
    }

    #[test]
    fn one_run_that_was_held_up_moves_the_most_and_not_the_spread() {
        let calm = of(&[100, 101, 102, 103, 104, 105, 106, 107, 108], 0).unwrap();
        let held_up = of(&[100, 101, 102, 103, 104, 105, 106, 107, 1_000_000], 0).unwrap();
        assert_eq!((calm.median_ns, calm.spread_ns), (104, 4));
        assert_eq!((held_up.median_ns, held_up.spread_ns, held_up.most_ns), (104, 4, 1_000_000));
    }

    #[test]
    fn the_first_run_is_the_first_that_ran() {
        assert_eq!(of(&[], 0), None);
        assert_eq!(of(&[50, 10, 40], 0).unwrap().first_ns, 50);
    }

    #[test]
    fn the_rate_is_the_bytes_of_the_buffers_over_the_median() {
        assert_eq!(of(&[1000, 2000, 9000], 4096).unwrap().bytes_per_second, Some(2.048e9));
        assert_eq!(of(&[1000], 0).unwrap().bytes_per_second, None);
        // No number, and JSON has no other.
        assert_eq!(of(&[0], 4096).unwrap().bytes_per_second, None);
        assert_eq!(per_second(2.048e9), "2.05 GB/s");
        assert_eq!((per_second(999.0), per_second(1e3)), ("999.00 B/s".into(), "1.00 kB/s".into()));
    }

    #[test]
    fn it_is_shown_with_its_units() {
        let timing = of(&[1_234_567, 1_000_000, 2_000_000, 1_500_000, 1_100_000], 8 << 20).unwrap();
        assert_eq!(
            timing.to_string(),
            "5 runs: median 1.23ms, half of them 1.10ms to 1.50ms (spread 400.00µs), all 1.00ms to 2.00ms, the first \
             1.23ms\n8 MiB of buffers, each byte counted once: 6.79 GB/s"
        );
        assert_eq!(of(&[1500], 0).unwrap().to_string(), "1 run: 1.50µs");
        assert_eq!(of(&[999], 0).unwrap().to_string(), "1 run: 999ns");
    }
}
