//! What is measured on a device, and how.

use std::time::{Duration, Instant};

use rig::{Buffer, Device, Run, write};
use serde::Serialize;

use super::kernels::{FUNCTION, THREADS, image};
use crate::error::Result;

/// How long a device is measured, and what it copies.
pub struct Plan {
    /// About how long it takes.
    pub takes: Duration,
    /// The bytes of the copies.
    pub copies: &'static [usize],
}

/// The bytes of the allocations.
const ALLOCATIONS: [usize; 2] = [256, 1 << 20];
/// The launches of a round, where several are in flight: fewer than any driver's queue holds.
const LAUNCHES: u32 = 64;
/// The least time of a round of cheap calls: what reading the clock takes is a thousandth of it.
const ROUND: Duration = Duration::from_micros(100);
/// The most calls of a round.
const CALLS_MOST: u32 = 1 << 14;
/// The least and the most rounds of a measure. The least are taken even where they take longer than their share.
const ROUNDS: (usize, usize) = (7, 501);

/// What a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A launch, to its return.
    Launch,
    /// A launch among 64 that follow one another, to the end of the last one's work.
    LaunchInARow,
    /// A launch and the wait for it.
    RoundTrip,
    /// A buffer from the cache, and its drop.
    Cached,
    /// A copy from the host's memory to the device's.
    ToDevice,
    /// One from the device's memory to the host's.
    ToHost,
    /// One within the device's memory.
    Within,
}

impl What {
    /// In words, of so many bytes.
    pub fn words(self) -> &'static str {
        match self {
            What::Launch => "launch",
            What::LaunchInARow => "launch in a row",
            What::RoundTrip => "launch and wait",
            What::Cached => "cached buffer",
            What::ToDevice => "host to device",
            What::ToHost => "device to host",
            What::Within => "within the device",
        }
    }

    /// Whether it is a rate of bytes, and not a time.
    pub fn is_copy(self) -> bool {
        matches!(self, What::ToDevice | What::ToHost | What::Within)
    }
}

/// A number: the median of rounds, and its quarters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// What it is of.
    pub what: What,
    /// Of so many bytes, where it is of any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// How many rounds there were.
    pub rounds: usize,
    /// A quarter of the rounds took less, in nanoseconds.
    pub quarter_ns: f64,
    /// Half of them.
    pub median_ns: f64,
    /// Three quarters.
    pub three_quarters_ns: f64,
    /// The bytes over the median, of a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
}

impl Measured {
    fn new(what: What, bytes: Option<usize>, mut rounds: Vec<f64>) -> Measured {
        rounds.sort_unstable_by(f64::total_cmp);
        let median_ns = at(&rounds, 2);
        let bytes_per_second =
            bytes.filter(|_| what.is_copy() && median_ns > 0.0).map(|bytes| bytes as f64 * 1e9 / median_ns);
        let (quarter_ns, three_quarters_ns) = (at(&rounds, 1), at(&rounds, 3));
        Measured { what, bytes, rounds: rounds.len(), quarter_ns, median_ns, three_quarters_ns, bytes_per_second }
    }

    /// How far the quarters are apart, as a part of the median.
    pub fn spread(&self) -> f64 {
        if self.median_ns > 0.0 { (self.three_quarters_ns - self.quarter_ns) / self.median_ns } else { 0.0 }
    }
}

/// The time below which so many quarters of the sorted times lie, as `rig run --repeat` has it.
fn at(sorted: &[f64], quarters: usize) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let steps = quarters * last;
    let (below, above) = (sorted[steps / 4], sorted[steps.div_ceil(4)]);
    below + (above - below) * (steps % 4) as f64 / 4.0
}

/// Measures everything; gives the numbers, and why others are left out.
pub fn all(driver: &str, device: &Device, plan: &Plan) -> Result<(Vec<Measured>, Vec<String>)> {
    let (mut measured, mut left_out) = (Vec::new(), Vec::new());
    let copies: Vec<usize> = plan.copies.iter().copied().filter(|&bytes| fits(device, bytes)).collect();
    if copies.len() < plan.copies.len() {
        left_out.push(format!("copies of more than the device has room for, {} bytes", device.budget()));
    }
    let measures = 3 + ALLOCATIONS.len() + 3 * copies.len();
    let share = plan.takes / measures as u32;
    match Counter::new(driver, device) {
        Ok(mut counter) => {
            measured.extend(counter.launches(share)?);
            left_out.extend(counter.wrong()?);
        }
        // A device that takes no kernel of ours still has memory.
        Err(why) => left_out.push(format!("launches, since the kernel for them is refused: {why}")),
    }
    for bytes in ALLOCATIONS {
        let rounds = rounds(share, |times| repeated(times, || device.buffer(bytes).map(drop)))?;
        measured.push(Measured::new(What::Cached, Some(bytes), rounds));
    }
    for &bytes in &copies {
        measured.extend(copied(device, bytes, share)?);
    }
    measured.sort_by_key(|measured| measured.what.is_copy().then_some(measured.what as u8));
    Ok((measured, left_out))
}

/// Whether two buffers and what stages their copies fit the device.
fn fits(device: &Device, bytes: usize) -> bool {
    device.budget() / 4 >= bytes as u64
}

/// The copies of so many bytes, each to its end.
fn copied(device: &Device, bytes: usize, share: Duration) -> Result<[Measured; 3]> {
    let (one, other) = (device.buffer(bytes)?, device.buffer(bytes)?);
    let mut host: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
    one.copy_from_slice(&host)?;
    let to_device = rounds(share, |times| repeated(times, || one.copy_from_slice(&host)))?;
    let within = rounds(share, |times| {
        repeated(times, || match one.copy_to(&other)?.point {
            Some(point) => point.wait(),
            None => Ok(()),
        })
    })?;
    let to_host = rounds(share, |times| repeated(times, || other.copy_to_slice(&mut host)))?;
    let of = |what, rounds| Measured::new(what, Some(bytes), rounds);
    Ok([of(What::ToDevice, to_device), of(What::ToHost, to_host), of(What::Within, within)])
}

/// The kernel that counts, with its run and its numbers.
struct Counter {
    run: Run,
    numbers: Buffer,
    /// How often it was launched.
    launched: u32,
}

impl Counter {
    fn new(driver: &str, device: &Device) -> rig::Result<Counter> {
        let function = device.load(&image(driver))?.function(FUNCTION)?;
        let mut run = device.submission().launch(&function, [write(0)]).make()?.take();
        run.part(0).groups([1, 1, 1]).threads([THREADS as u32, 1, 1]);
        let numbers = device.buffer(size_of::<u32>() * THREADS)?;
        numbers.copy_from_slice(&[0_u32; THREADS])?;
        let mut counter = Counter { run, numbers, launched: 0 };
        // The first does what only the first does, such as compiling.
        counter.launch()?.wait()?;
        Ok(counter)
    }

    fn launch(&mut self) -> rig::Result<rig::Point> {
        self.launched = self.launched.wrapping_add(1);
        // SAFETY: the kernel writes the 64 numbers of slot 0, and the launch has as many threads.
        #[expect(unsafe_code, reason = "runs the bench's own kernel")]
        unsafe {
            self.run.launch(&[&self.numbers])
        }
    }

    /// A launch by itself, in a row, and waited for.
    fn launches(&mut self, share: Duration) -> Result<[Measured; 3]> {
        let (mut in_a_row, mut alone) = (Vec::new(), Vec::new());
        // Both are read off the same rounds, which have two measures' time.
        rounds(2 * share, |_| {
            let (returned, ended) = row(LAUNCHES, || self.launch(), |last| last.wait())?;
            alone.push(per(returned, LAUNCHES));
            in_a_row.push(per(ended, LAUNCHES));
            Ok((ended, 1))
        })?;
        let round_trip = rounds(share, |times| repeated(times, || self.launch()?.wait()))?;
        Ok([
            Measured::new(What::Launch, None, alone),
            Measured::new(What::LaunchInARow, None, in_a_row),
            Measured::new(What::RoundTrip, None, round_trip),
        ])
    }

    /// What is wrong where the launches have not all run.
    fn wrong(&self) -> Result<Option<String>> {
        let mut numbers = [0_u32; THREADS];
        self.numbers.copy_to_slice(&mut numbers)?;
        let right = numbers.iter().all(|&number| number == self.launched);
        let launched = self.launched;
        Ok((!right).then(|| {
            format!("nothing of the launches is to be trusted: after {launched} of them the numbers are {numbers:?}")
        }))
    }
}

/// The time of each of so many calls, in nanoseconds.
fn per(took: Duration, calls: u32) -> f64 {
    took.as_nanos() as f64 / f64::from(calls)
}

/// Launches so often and waits for the last: when the last launch returned, and when its work had ended.
fn row<P, E>(
    launches: u32,
    mut launch: impl FnMut() -> std::result::Result<P, E>,
    wait: impl FnOnce(P) -> std::result::Result<(), E>,
) -> std::result::Result<(Duration, Duration), E> {
    let begin = Instant::now();
    let mut last = launch()?;
    for _ in 1..launches {
        last = launch()?;
    }
    let returned = begin.elapsed();
    wait(last)?;
    Ok((returned, begin.elapsed()))
}

/// Calls so many times; gives how long it took and how many it were.
fn repeated(times: u32, mut call: impl FnMut() -> rig::Result<()>) -> rig::Result<(Duration, u32)> {
    let begin = Instant::now();
    for _ in 0..times {
        call()?;
    }
    Ok((begin.elapsed(), times))
}

/// Rounds over a share of time, each of as many calls as make it long enough for the clock: the time of a call in each.
fn rounds(share: Duration, mut round: impl FnMut(u32) -> rig::Result<(Duration, u32)>) -> Result<Vec<f64>> {
    let begin = Instant::now();
    let mut times = 1;
    // What comes first is not counted: pages are touched, caches filled, sizes found.
    while round(times)?.0 < ROUND && times < CALLS_MOST {
        times *= 2;
    }
    let mut rounds = Vec::new();
    while rounds.len() < ROUNDS.0 || (rounds.len() < ROUNDS.1 && begin.elapsed() < share) {
        let (took, calls) = round(times)?;
        rounds.push(per(took, calls));
    }
    Ok(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_median_of_its_rounds_with_their_quarters() {
        let measured = Measured::new(What::ToDevice, Some(4000), vec![40.0, 10.0, 30.0, 20.0, 1000.0]);
        assert_eq!((measured.quarter_ns, measured.median_ns, measured.three_quarters_ns), (20.0, 30.0, 40.0));
        assert_eq!(measured.bytes_per_second, Some(4000e9 / 30.0));
        assert!((measured.spread() - 20.0 / 30.0).abs() < 1e-12);
        let time = Measured::new(What::Cached, Some(256), vec![7.0]);
        assert_eq!((time.median_ns, time.bytes_per_second), (7.0, None), "an allocation has no rate");
        assert_eq!(at(&[1.0, 2.0], 1), 1.25);
    }

    #[test]
    fn a_round_is_long_enough_for_the_clock_and_a_share_has_several() {
        let mut asked = Vec::new();
        let rounds = rounds(Duration::ZERO, |times| {
            asked.push(times);
            // As if a call took 30 microseconds.
            Ok((Duration::from_micros(30) * times, times))
        });
        assert_eq!(rounds.unwrap(), vec![30_000.0; ROUNDS.0]);
        assert_eq!(asked[..4], [1, 2, 4, 4]);
    }

    #[test]
    fn a_launch_does_not_wait_for_its_work_and_a_row_does() {
        let work = Duration::from_millis(20);
        let mut launched = 0;
        let launch = || {
            launched += 1;
            Ok::<_, ()>(launched)
        };
        let wait = |last| {
            assert_eq!(last, 4, "the last of the row is waited for");
            // TIMEOUT: the work's; the result holds however much longer a sleep takes.
            std::thread::sleep(work);
            Ok(())
        };
        let (returned, ended) = row(4, launch, wait).unwrap();
        assert!(ended >= returned + work, "{returned:?} and {ended:?}");
    }

    #[cfg(feature = "host")]
    #[test]
    fn launches_that_did_not_all_run_are_told() {
        let device = rig::open(rig_host::memory()).unwrap();
        let mut counter = Counter::new("host", &device).unwrap();
        assert_eq!(counter.wrong().unwrap(), None);
        counter.launched += 1;
        assert!(counter.wrong().unwrap().unwrap().contains("after 2 of them"));
    }
}
