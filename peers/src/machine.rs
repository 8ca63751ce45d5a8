//! The machine: clocks, how much of the cores this process can have, and what to say of it.

use std::time::{Duration, Instant};

/// How long threads spin to learn how much of the cores they get: a few of the system's time slices.
const SPIN: Duration = Duration::from_millis(60);
/// How long to wait between two looks for a quiet moment.
const LOOK_PERIOD: Duration = Duration::from_millis(300);
/// The share of all cores from which on a moment counts as quiet.
const QUIET: f64 = 0.95;

/// The processor time of this thread, in seconds.
pub fn thread_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is one of the system's, and `time` is where it writes.
    #[expect(unsafe_code, reason = "asks the C library")]
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(answer, 0, "the system has a clock of each thread's processor time");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many cores this process gets now, by a thread on each that spins.
pub fn cores_had() -> f64 {
    let spin = || {
        let (start, time) = (Instant::now(), thread_time());
        while start.elapsed() < SPIN {
            std::hint::spin_loop();
        }
        (thread_time() - time) / start.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores()).map(|_| scope.spawn(spin)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}

/// Waits until nearly all of the cores can be had, for at most `bound`; gives how many can.
pub fn wait_for_quiet(bound: Duration) -> f64 {
    let start = Instant::now();
    loop {
        let had = cores_had();
        if had >= QUIET * cores() as f64 || start.elapsed() >= bound {
            return had;
        }
        std::thread::sleep(LOOK_PERIOD);
    }
}

/// The processor's name, where the system tells it.
pub fn processor() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// Today, as 2026-11-30.
pub fn today() -> String {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let (year, month, day) = date((since.as_secs() / 86_400) as i64);
    format!("{year}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days after 1970-01-01. Years are counted from March, so that a leap day ends one, and
/// in eras of 400 years, which all have the same days.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_787), (2026, 11, 30));
        assert_eq!(date(20_788), (2026, 12, 1));
    }
}
