//! Whether the communicator lives: what each process tells of itself, and what follows when one dies, hangs or fails. Pure: a
//! process's watch feeds it what it hears and the time, and does what it answers.
//!
//! # Two steps of a failure
//!
//! A kernel of NCCL's that is ended early goes on to tell its neighbours that their data is there, and is not: their kernels
//! then end as if all were well, over memory with anything in it. So nothing is ended before every living process has lost its
//! devices, which makes each of their unreached points Lost for ever, whatever the GPU does later:
//!
//! 1. who sees a failure loses its own devices and tells process 0, which tells all; each loses its devices, and says so;
//! 2. once all that live have said so, process 0 has all end NCCL's work.
//!
//! # Bounds
//!
//! 1. Every process beats once a second, and four times in `silence`. One that is not heard of for `silence` has failed, and one that does not
//!    hear of process 0 for so long takes itself for cut off.
//! 2. So within `silence` of the last word between two processes both have lost their devices, and the second step comes after
//!    twice that where somebody does not answer: [`END_AFTER`] on process 0, and later on those that do not hear from it.
//!
//! A process that was stopped whole for that long (a debugger, a paused machine) is the one that these bounds cannot reach: its
//! GPU goes on, and ends work that the others have given up. It loses its devices as soon as its watch runs again.

use std::time::{Duration, Instant};

use crate::wire::{Count, Frame};

/// After how many times `silence` process 0 goes on to the second step without those that do not answer.
const END_AFTER: u32 = 2;
/// After how many times `silence` another process does without process 0.
const END_ALONE_AFTER: u32 = 3;
/// How many times a process beats at least in each of the bounds.
const BEATS: u32 = 4;
/// How long it is between two beats at most. TIMEOUT: a frame of a few dozen bytes a second costs nothing.
const BEAT_MOST: Duration = Duration::from_secs(1);

/// How long what may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// How long a process may say nothing.
    pub silence: Duration,
    /// How long an operation that was given to NCCL may take.
    pub stall: Duration,
}

/// What the watch is to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Lose the process's devices, with this reason.
    Lose(String),
    /// Say something to the process of this index.
    Send(usize, Frame),
    /// End NCCL's work.
    Abort,
}

/// A process at the other end of a connection.
#[derive(Debug)]
struct Other {
    name: String,
    /// Its first rank, for reasons.
    first: u32,
    heard: Instant,
    state: State,
    counts: Vec<Standing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Lives,
    /// Its devices are lost, or it said that they are.
    Lost,
    Left,
    Gone,
}

impl Other {
    /// Whether it hears what is said to it.
    fn listens(&self) -> bool {
        matches!(self.state, State::Lives | State::Lost)
    }
}

/// A rank's count, and since when it has had that many done.
#[derive(Clone, Copy, Debug)]
struct Standing {
    count: Count,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fine,
    /// Devices are lost, since then.
    Failing(Instant),
    Over,
}

/// One process's part in the communicator's life.
#[derive(Debug)]
pub(crate) struct Fate {
    bounds: Bounds,
    /// Whether this is process 0, which hears all others; they hear it alone.
    zero: bool,
    others: Vec<Other>,
    /// This process: its name and its first rank.
    me: (String, u32),
    mine: Vec<Standing>,
    stage: Stage,
    beaten: Option<Instant>,
}

/// How a process is named, and its first rank.
pub(crate) type Named = (String, u32);

impl Fate {
    pub fn new(bounds: Bounds, zero: bool, me: Named, devices: usize, others: Vec<Named>, now: Instant) -> Fate {
        let others = others.into_iter().map(|(name, first)| Other {
            name,
            first,
            heard: now,
            state: State::Lives,
            counts: Vec::new(),
        });
        let standing = Standing { count: Count::default(), since: now };
        Fate {
            bounds,
            zero,
            others: others.collect(),
            me,
            mine: vec![standing; devices],
            stage: Stage::Fine,
            beaten: None,
        }
    }

    /// How often the process says that it lives, and how far it is.
    pub fn beat(&self) -> Duration {
        (self.bounds.silence.min(self.bounds.stall) / BEATS).min(BEAT_MOST)
    }

    /// Whether nothing is left to watch.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether all is well.
    pub fn is_fine(&self) -> bool {
        self.stage == Stage::Fine
    }

    /// This process has seen a failure.
    pub fn fail(&mut self, why: &str, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.stage == Stage::Fine {
            self.stage = Stage::Failing(now);
            actions.push(Action::Lose(why.to_owned()));
            let living = self.others.iter().enumerate().filter(|(_, other)| other.listens());
            actions.extend(living.map(|(index, _)| Action::Send(index, Frame::Fail(why.to_owned()))));
        }
        actions.extend(self.end_if_all_know());
        actions
    }

    /// The process of this index has said something.
    pub fn heard(&mut self, index: usize, frame: &Frame, now: Instant) -> Vec<Action> {
        let other = &mut self.others[index];
        other.heard = now;
        match frame {
            Frame::Beat(counts) => {
                note(&mut other.counts, counts, now);
                Vec::new()
            }
            Frame::Fail(why) => {
                other.state = State::Lost;
                if !self.zero && self.stage == Stage::Fine {
                    self.stage = Stage::Failing(now);
                    return vec![Action::Lose(why.clone()), Action::Send(index, Frame::Lost)];
                }
                self.fail(why, now)
            }
            Frame::Lost => {
                other.state = State::Lost;
                self.end_if_all_know()
            }
            Frame::Abort if !self.zero && self.stage != Stage::Over => {
                let mut actions = Vec::new();
                if self.stage == Stage::Fine {
                    actions.push(Action::Lose(format!("{} ended the communicator", self.others[index].name)));
                }
                self.stage = Stage::Over;
                actions.push(Action::Abort);
                actions
            }
            Frame::Bye => {
                other.state = State::Left;
                self.end_if_all_know()
            }
            // The rest belongs to the meeting.
            _ => Vec::new(),
        }
    }

    /// The connection to the process of this index has ended.
    pub fn closed(&mut self, index: usize, why: &str, now: Instant) -> Vec<Action> {
        let other = &mut self.others[index];
        match other.state {
            State::Lives => {
                other.state = State::Gone;
                let why = format!("{} has ended or is cut off: {why}", other.name);
                return self.fail(&why, now);
            }
            State::Lost => other.state = State::Gone,
            // That it has left is remembered.
            State::Left | State::Gone => {}
        }
        self.end_if_all_know()
    }

    /// Time has passed, and this process's ranks are so far.
    pub fn tick(&mut self, counts: &[Count], now: Instant) -> Vec<Action> {
        note(&mut self.mine, counts, now);
        let mut actions = Vec::new();
        if self.stage == Stage::Fine
            && let Some(why) = self.wrong(now)
        {
            actions.extend(self.fail(&why, now));
        }
        if let Stage::Failing(since) = self.stage {
            let after = if self.zero { END_AFTER } else { END_ALONE_AFTER };
            if now - since >= self.bounds.silence * after {
                actions.extend(self.end());
            }
        }
        if self.beaten.is_none_or(|beaten| now - beaten >= self.beat()) {
            self.beaten = Some(now);
            let living = self.others.iter().enumerate();
            let living = living.filter(|(_, other)| other.listens());
            actions.extend(living.map(|(index, _)| Action::Send(index, Frame::Beat(counts.to_vec()))));
        }
        actions
    }

    /// What the passing of time has shown to be wrong.
    fn wrong(&self, now: Instant) -> Option<String> {
        let silent = |other: &&Other| other.state == State::Lives && now - other.heard > self.bounds.silence;
        if let Some(other) = self.others.iter().find(silent) {
            let seconds = (now - other.heard).as_secs_f64();
            return Some(format!(
                "{} has said nothing for {seconds:.1} s: it hangs, was stopped, or is cut off",
                other.name
            ));
        }
        // Process 0 sees all ranks; the others only look where somebody has left, since then nobody may see for them.
        let left = self.others.iter().find(|other| other.state == State::Left);
        let bound = if left.is_some() { self.bounds.silence.min(self.bounds.stall) } else { self.bounds.stall };
        if !self.zero && left.is_none() {
            return None;
        }
        let (rank, standing) = self
            .all()
            .find(|(_, standing)| standing.count.done < standing.count.queued && now - standing.since > bound)?;
        let number = standing.count.done + 1;
        let why = format!(
            "rank {rank} has stood at its operation {number} for {:.1} s",
            (now - standing.since).as_secs_f64()
        );
        Some(match left {
            Some(left) => format!("{why}, and {} has left", left.name),
            None => format!("{why}: {}", self.behind(rank, number)),
        })
    }

    /// Which ranks have been given fewer operations than `number`.
    fn behind(&self, stands: u32, number: u64) -> String {
        const NAMED: usize = 8;
        let behind = self.all().filter(|(rank, standing)| *rank != stands && standing.count.queued < number);
        let behind: Vec<String> =
            behind.map(|(rank, standing)| format!("rank {rank} was given {}", standing.count.queued)).collect();
        if behind.is_empty() {
            return "every rank was given as many; what they were given does not fit together, or a GPU hangs"
                .to_owned();
        }
        let more = behind.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{}{more}", behind[..behind.len().min(NAMED)].join(", "))
    }

    /// All ranks that this process knows of, with what each has done.
    fn all(&self) -> impl Iterator<Item = (u32, &Standing)> {
        let mine = (self.me.1..).zip(&self.mine);
        mine.chain(self.others.iter().flat_map(|other| (other.first..).zip(&other.counts)))
    }

    /// The second step, where process 0 has heard of all that live that their devices are lost.
    fn end_if_all_know(&mut self) -> Vec<Action> {
        let waits = self.others.iter().any(|other| other.state == State::Lives);
        if self.zero && !waits && matches!(self.stage, Stage::Failing(_)) { self.end() } else { Vec::new() }
    }

    fn end(&mut self) -> Vec<Action> {
        self.stage = Stage::Over;
        let mut actions = Vec::new();
        if self.zero {
            let there = self.others.iter().enumerate();
            let there = there.filter(|(_, other)| other.listens());
            actions.extend(there.map(|(index, _)| Action::Send(index, Frame::Abort)));
        }
        actions.push(Action::Abort);
        actions
    }

    /// This process, as reasons name it.
    pub fn name(&self) -> &str {
        &self.me.0
    }
}

/// Notes new counts, and since when what is done has stood: since the last that was done, or since the rank was idle.
fn note(standing: &mut Vec<Standing>, counts: &[Count], now: Instant) {
    standing.resize(counts.len(), Standing { count: Count::default(), since: now });
    for (standing, &count) in standing.iter_mut().zip(counts) {
        let idle = standing.count.done >= standing.count.queued;
        if idle || count.done != standing.count.done {
            standing.since = now;
        }
        standing.count = count;
    }
}

#[cfg(test)]
#[path = "fate_tests.rs"]
mod tests;
