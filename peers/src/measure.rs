//! How a figure is taken.
//!
//! A round of a line runs a block of the work again and again for a while, times each block, and gives the median of the
//! blocks. Rounds of all peers alternate, each time beginning with another, so that whatever else the machine does hits all
//! alike. A figure is the median of a peer's rounds; beside it stand the rounds between which half of them lie.

use std::time::{Duration, Instant};

use crate::machine;
use crate::peer::{LARGE, Line, PAIRS, Peer, Result, SMALL};

/// How long a peer is left alone before its round: threads of another that still look for work have gone to sleep by then.
const SETTLE: Duration = Duration::from_millis(15);

/// Round trips and allocations of a block: enough that the clock costs nothing beside them.
const BLOCK: usize = 20;

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Rounds of each line.
    pub rounds: usize,
    /// How long a round lasts, at least.
    pub round: Duration,
    /// How long to wait for a quiet moment before each line, at most.
    pub wait: Duration,
}

/// A figure with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The median of the rounds.
    pub median: f64,
    /// A quarter of the rounds lie below.
    pub low: f64,
    /// A quarter of the rounds lie above.
    pub high: f64,
}

/// A line of the table.
pub struct Row {
    /// Which.
    pub line: Line,
    /// A figure for each peer that has one.
    pub figures: Vec<Option<Figure>>,
    /// How many cores could be had, about.
    pub cores: f64,
}

/// A peer, and how often it has run what its buffers then show.
struct Measured<'a> {
    peer: &'a mut dyn Peer,
    batches: usize,
    round_trips: usize,
    adds: usize,
}

/// Memory of the program's that is copied, and that is copied to.
struct Host {
    from: Vec<f32>,
    to: Vec<f32>,
}

/// Measures every line with every peer; says on standard error how far it is.
pub fn all(peers: &mut [Box<dyn Peer>], effort: Effort) -> Result<Vec<Row>> {
    let measured = |peer| Measured { peer, batches: 0, round_trips: 0, adds: 0 };
    let mut peers: Vec<Measured> = peers.iter_mut().map(|peer| measured(&mut **peer)).collect();
    let mut host = Host { from: (0..LARGE).map(|index| index as f32).collect(), to: vec![0.0; LARGE] };
    let mut rows = Vec::new();
    for line in Line::ALL {
        rows.push(row(line, &mut peers, &mut host, effort)?);
        if line == Line::Add {
            // Before copies write over it.
            peers.iter_mut().try_for_each(|peer| peer.check_sums(&mut host.to))?;
        }
    }
    Ok(rows)
}

/// Measures a line.
fn row(line: Line, peers: &mut [Measured], host: &mut Host, effort: Effort) -> Result<Row> {
    let before = machine::wait_for_quiet(effort.wait);
    let mut rounds: Vec<Vec<f64>> = peers.iter().map(|_| Vec::new()).collect();
    // The first round warms caches and threads up, and is left out.
    for round in 0..=effort.rounds {
        for turn in 0..peers.len() {
            let at = (round + turn) % peers.len();
            if peers[at].peer.has(line) {
                std::thread::sleep(SETTLE);
                let figure = peers[at].round(line, host, effort.round)?;
                rounds[at].extend((round > 0).then_some(figure));
            }
        }
    }
    let cores = (before + machine::cores_had()) / 2.0;
    eprintln!("{}: with {cores:.1} of {} cores", line.title(), machine::cores());
    Ok(Row { line, figures: rounds.into_iter().map(figure).collect(), cores })
}

/// The median and quartiles of rounds; `None` of none.
fn figure(mut rounds: Vec<f64>) -> Option<Figure> {
    rounds.sort_by(f64::total_cmp);
    let last = rounds.len().checked_sub(1)?;
    Some(Figure { median: rounds[last / 2], low: rounds[last / 4], high: rounds[(3 * last).div_ceil(4)] })
}

/// Runs blocks for a while; gives the median of what they answer.
fn median(time: Duration, mut block: impl FnMut() -> Result<f64>) -> Result<f64> {
    let start = Instant::now();
    let mut answers = vec![block()?];
    while start.elapsed() < time {
        answers.push(block()?);
    }
    answers.sort_by(f64::total_cmp);
    Ok(answers[answers.len() / 2])
}

/// The time that `code` takes, in seconds.
fn seconds(code: impl FnOnce() -> Result) -> Result<f64> {
    let start = Instant::now();
    code()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Gigabytes a second.
fn rate(bytes: usize, seconds: f64) -> f64 {
    bytes as f64 / seconds / 1e9
}

impl Measured<'_> {
    /// One round of a line.
    fn round(&mut self, line: Line, host: &mut Host, time: Duration) -> Result<f64> {
        let Measured { peer, batches, round_trips, adds } = self;
        let each = |count: usize, seconds: f64| 1e6 * seconds / count as f64;
        match line {
            Line::Submit | Line::Batch => median(time, || {
                *batches += 1;
                let start = machine::thread_time();
                let mut end = start;
                let mut submitted = || end = machine::thread_time();
                match line {
                    Line::Submit => peer.singles(&mut submitted)?,
                    _ => peer.batch(&mut submitted)?,
                }
                Ok(each(PAIRS, end - start))
            }),
            Line::BatchDone => median(time, || {
                *batches += 1;
                Ok(each(PAIRS, seconds(|| peer.batch(&mut || {}))?))
            }),
            Line::RoundTrip => median(time, || {
                *round_trips += BLOCK;
                Ok(each(BLOCK, seconds(|| (0..BLOCK).try_for_each(|_| peer.round_trip()))?))
            }),
            Line::Add => median(time, || {
                *adds += 1;
                Ok(rate(12 * LARGE, seconds(|| peer.add())?))
            }),
            Line::Allocate => {
                median(time, || Ok(each(BLOCK, seconds(|| (0..BLOCK).try_for_each(|_| peer.allocate()))?)))
            }
            Line::Write => median(time, || Ok(rate(4 * LARGE, seconds(|| peer.write(&host.from))?))),
            Line::Read => {
                // What is read is compared, so that no copy is left out.
                host.to.fill(0.0);
                let rate = median(time, || Ok(rate(4 * LARGE, seconds(|| peer.read(&mut host.to))?)))?;
                let same = host.from == host.to;
                same.then_some(rate).ok_or_else(|| format!("{} does not read what it wrote", peer.name()))
            }
        }
    }

    /// Whether every launch that was measured has run, once.
    fn check_sums(&mut self, floats: &mut [f32]) -> Result {
        let wrong = |what: &str, name: &str, floats: &[f32], want: usize| {
            let wrong = floats.iter().position(|&float| float != want as f32);
            wrong.map_or(Ok(()), |at| {
                Err(format!("{name} has {} at {at} of {what}, where {want} adds make {want}", floats[at]))
            })
        };
        let name = self.peer.name();
        for pair in 0..PAIRS {
            let adds = self.batches + if pair == 0 { self.round_trips } else { 0 };
            let small = self.peer.small(pair)?;
            assert_eq!(small.len(), SMALL, "a small buffer is read whole");
            wrong("a small buffer", name, &small, adds)?;
        }
        self.peer.read(floats)?;
        wrong("the large buffer", name, floats, self.adds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that does the work on the spot, or leaves some of it out.
    struct Mock {
        small: Vec<f32>,
        large: Vec<f32>,
        forgets_one: bool,
    }

    impl Peer for Mock {
        fn name(&self) -> &'static str {
            "mock"
        }

        fn about(&self) -> String {
            String::new()
        }

        fn has(&self, line: Line) -> bool {
            line != Line::Allocate
        }

        fn singles(&mut self, submitted: &mut dyn FnMut()) -> Result {
            self.small.iter_mut().for_each(|float| *float += 1.0);
            submitted();
            Ok(())
        }

        fn batch(&mut self, submitted: &mut dyn FnMut()) -> Result {
            self.singles(submitted)
        }

        fn round_trip(&mut self) -> Result {
            self.small[0] += 1.0;
            Ok(())
        }

        fn add(&mut self) -> Result {
            let first = usize::from(std::mem::take(&mut self.forgets_one));
            self.large[first..].iter_mut().for_each(|float| *float += 1.0);
            Ok(())
        }

        fn allocate(&mut self) -> Result {
            Err("there is no memory".to_owned())
        }

        fn write(&mut self, from: &[f32]) -> Result {
            self.large.copy_from_slice(from);
            Ok(())
        }

        fn read(&mut self, to: &mut [f32]) -> Result {
            to.copy_from_slice(&self.large);
            Ok(())
        }

        fn small(&mut self, pair: usize) -> Result<Vec<f32>> {
            Ok(vec![self.small[pair]; SMALL])
        }
    }

    fn measure(forgets_one: bool) -> Result<Vec<Row>> {
        let mock = Mock { small: vec![0.0; PAIRS], large: vec![0.0; LARGE], forgets_one };
        let effort = Effort { rounds: 2, round: Duration::ZERO, wait: Duration::ZERO };
        all(&mut [Box::new(mock)], effort)
    }

    #[test]
    fn every_line_that_a_peer_has_gets_a_figure() {
        let rows = measure(false).unwrap();
        assert_eq!(rows.len(), Line::ALL.len());
        assert!(rows.iter().all(|row| row.figures[0].is_some() == (row.line != Line::Allocate)));
    }

    #[test]
    fn a_peer_that_leaves_work_out_is_found() {
        let why = measure(true).err().unwrap();
        assert!(why.starts_with("mock has ") && why.contains(" at 0 of the large buffer"), "{why}");
    }

    #[test]
    fn a_figure_is_the_median_between_its_quartiles() {
        assert_eq!(figure(vec![]), None);
        assert_eq!(figure(vec![5.0, 1.0, 2.0, 4.0, 3.0]), Some(Figure { median: 3.0, low: 2.0, high: 4.0 }));
        assert_eq!(figure(vec![3.0, 1.0, 2.0]), Some(Figure { median: 2.0, low: 1.0, high: 3.0 }));
    }
}
