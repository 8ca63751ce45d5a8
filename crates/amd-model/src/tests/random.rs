//! Random programs over two compute and two copy queues: what they make is what the same steps make one after the other, in
//! every order that the seed chooses; and with any one rule left out, some seed shows it.
//!
//! A program is a list of steps over a few buffers. Each queue has a word of its own, which rises with its steps; a step
//! waits for the last steps of other queues that wrote what it reads or touched what it writes, and for no more.

use super::kit::*;
use crate::rng::Rng;
use crate::{Machine, Step};
use std::sync::atomic::Ordering;

/// Words of a buffer.
const WORDS: usize = 192;
const BYTES: u64 = 4 * WORDS as u64;
const BUFFERS: usize = 5;
const STEPS: usize = 24;

/// The GPU's own memory without a window.
const HIDDEN: u32 = OWN & !crate::abi::FLAG_PUBLIC;

/// A rule that a program leaves out, everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// A compute queue does not wait for another's word.
    Wait,
    /// A copy queue does not wait for another's word.
    Poll,
    /// Nothing on a compute queue drops what was read before.
    Acquire,
    /// Nothing on a compute queue writes back before its word.
    Release,
    /// Packets of a compute queue do not wait for the ones before them.
    Barrier,
    /// A copy queue does not drop what it read before.
    CopyAcquire,
    /// A copy queue does not write back before its fence.
    CopyRelease,
}

/// One step of a program, on buffers by their numbers.
#[derive(Clone, Copy, Debug)]
enum Work {
    Iota { to: usize, start: u32 },
    Add { from: usize, to: usize },
    KernelCopy { from: usize, to: usize },
    Copy { from: usize, to: usize },
    Fill { to: usize, word: u32 },
}

impl Work {
    /// Works on the compute queues use small numbers as floats: denormals, whose sums are sums of their bits.
    fn random(rng: &mut Rng) -> Self {
        let from = rng.below(BUFFERS);
        let to = (from + 1 + rng.below(BUFFERS - 1)) % BUFFERS;
        match rng.below(6) {
            0 => Self::Iota { to, start: rng.below(1 << 12) as u32 },
            1 | 2 => Self::Add { from, to },
            3 => Self::KernelCopy { from, to },
            4 => Self::Copy { from, to },
            _ => Self::Fill { to, word: rng.below(1 << 12) as u32 },
        }
    }

    fn computes(self) -> bool {
        matches!(self, Self::Iota { .. } | Self::Add { .. } | Self::KernelCopy { .. })
    }

    /// What it reads and what it writes.
    fn touches(self) -> (Option<usize>, usize) {
        match self {
            Self::Iota { to, .. } | Self::Fill { to, .. } => (None, to),
            Self::Add { from, to } | Self::KernelCopy { from, to } | Self::Copy { from, to } => (Some(from), to),
        }
    }

    /// The same, at once, on plain memory.
    fn apply(self, buffers: &mut [Vec<u32>]) {
        match self {
            Self::Iota { to, start } => buffers[to] = (0..WORDS as u32).map(|i| start + i).collect(),
            Self::Fill { to, word } => buffers[to] = vec![word; WORDS],
            Self::KernelCopy { from, to } | Self::Copy { from, to } => buffers[to] = buffers[from].clone(),
            Self::Add { from, to } => {
                let other = buffers[from].clone();
                buffers[to].iter_mut().zip(other).for_each(|(word, other)| *word += other);
            }
        }
    }
}

/// A queue of either kind, its word, and the value of its last step.
enum Ring {
    Compute(Aql),
    Copy(Sdma),
}

struct Queue {
    ring: Ring,
    word: Mem,
    value: u64,
}

/// A program that is being written to its queues.
struct Program {
    driver: Driver,
    suite: Image,
    work: Image,
    queues: Vec<Queue>,
    buffers: Vec<Mem>,
    /// By buffer: the step that wrote it last, and those that have read it since, as queue and value.
    written: Vec<Option<(usize, u64)>>,
    read: Vec<Vec<(usize, u64)>>,
    without: Without,
}

impl Program {
    fn new(seed: u64, rng: &mut Rng, without: Without) -> Self {
        let driver = Driver::open(Machine::builder().seed(seed).held());
        let (suite, work) = (driver.suite(), driver.work());
        let mut queues = Vec::new();
        for n in 0..4 {
            let ring = if n < 2 { Ring::Compute(driver.aql_of(256)) } else { Ring::Copy(driver.sdma_of(8192)) };
            queues.push(Queue { ring, word: driver.zeroed(4096, SHARED), value: 0 });
        }
        let buffers = (0..BUFFERS)
            .map(|_| match rng.below(3) {
                0 => driver.alloc(4096, SHARED),
                1 => driver.alloc(4096, OWN),
                _ => driver.hidden(4096, HIDDEN),
            })
            .collect();
        let (written, read) = (vec![None; BUFFERS], vec![Vec::new(); BUFFERS]);
        Self { driver, suite, work, queues, buffers, written, read, without }
    }

    /// The steps of other queues that a step must come after.
    fn dependences(&self, queue: usize, work: Work) -> Vec<(usize, u64)> {
        let (from, to) = work.touches();
        let mut steps: Vec<_> = self.written[to].into_iter().chain(self.read[to].iter().copied()).collect();
        steps.extend(from.and_then(|from| self.written[from]));
        let mut last = Vec::new();
        for other in (0..self.queues.len()).filter(|&other| other != queue) {
            last.extend(steps.iter().filter(|step| step.0 == other).max().copied());
        }
        last
    }

    fn arguments(&self, work: Work) -> (u64, u64) {
        let mem = self.driver.zeroed(4096, SHARED);
        let at = |buffer: usize| self.buffers[buffer].va;
        let kernel = match work {
            Work::Iota { to, start } => {
                mem.word(0).store(at(to), Ordering::Relaxed);
                mem.half(8).store(WORDS as u32, Ordering::Relaxed);
                mem.half(12).store(start, Ordering::Relaxed);
                self.suite.kernel("iota")
            }
            Work::Add { from, to } => {
                mem.word(0).store(at(from), Ordering::Relaxed);
                mem.word(8).store(at(to), Ordering::Relaxed);
                mem.half(16).store(WORDS as u32, Ordering::Relaxed);
                self.suite.kernel("add")
            }
            Work::KernelCopy { from, to } => {
                mem.word(0).store(at(from), Ordering::Relaxed);
                mem.word(8).store(at(to), Ordering::Relaxed);
                mem.word(16).store(BYTES, Ordering::Relaxed);
                mem.half(24).store(128, Ordering::Relaxed);
                self.work.kernel("copy")
            }
            Work::Copy { .. } | Work::Fill { .. } => unreachable!("{work:?} is of the copy queues"),
        };
        (kernel, mem.va)
    }

    /// Writes a step to a queue, with its waits before it and its word after it.
    fn push(&mut self, queue: usize, work: Work) {
        let waits: Vec<(u64, u64)> = self
            .dependences(queue, work)
            .into_iter()
            .map(|(other, value)| (self.queues[other].word.va, value))
            .collect();
        // What overwrites a buffer comes after a dispatch whose stores nobody is to see.
        let mut launches = Vec::new();
        if let Work::Iota { to, .. } | Work::KernelCopy { to, .. } = work {
            let before = Work::Iota { to, start: 1 << 13 };
            launches.push((before, self.arguments(before)));
        }
        if work.computes() {
            launches.push((work, self.arguments(work)));
        }
        let value = self.queues[queue].value + 1;
        let (word, without, buffers) = (self.queues[queue].word.va, self.without, &self.buffers);
        match &mut self.queues[queue].ring {
            Ring::Compute(ring) => compute(ring, &launches, &waits, (word, value), without),
            Ring::Copy(ring) => copy(ring, buffers, work, &waits, (word, value), without),
        }
        self.queues[queue].value = value;
        let (from, to) = work.touches();
        self.written[to] = Some((queue, value));
        self.read[to].clear();
        if let Some(from) = from {
            self.read[from].push((queue, value));
        }
    }

    fn ring(&self, queue: usize) {
        match &self.queues[queue] {
            Queue { value: 0, .. } => {}
            Queue { ring: Ring::Compute(ring), .. } => ring.ring(),
            Queue { ring: Ring::Copy(ring), .. } => ring.ring(),
        }
    }
}

/// Writes dispatches: waits in indirect buffers, the packets, and the end of the pipe.
fn compute(
    ring: &mut Aql,
    launches: &[(Work, (u64, u64))],
    waits: &[(u64, u64)],
    (word, value): (u64, u64),
    without: Without,
) {
    // The scopes and the barrier bit of every packet, less what the program goes without.
    let header = |header: u16| match without {
        Without::Acquire => header & !(3 << 9),
        Without::Release => header & !(3 << 11),
        Without::Barrier => header & !(1 << 8),
        _ => header,
    };
    let buffer = |ring: &mut Aql, words: &[u32]| {
        let mut packet = ring.buffer(words);
        put(&mut packet, 0, &header(BUFFER).to_le_bytes());
        ring.push(&packet);
    };
    for &(word, value) in waits.iter().filter(|_| without != Without::Wait) {
        buffer(ring, &wait(word, value));
    }
    for &(work, (kernel, arguments)) in launches {
        let groups = if matches!(work, Work::KernelCopy { .. }) { 2 } else { 3 };
        let launch = Launch { header: header(DISPATCH), kernel, arguments, groups, threads: 64, group_bytes: 0 };
        ring.push(&launch.packet());
    }
    let mut words = release(word, value);
    match without {
        // The end of a pipe writes L2 back, and drops what caches hold.
        Without::Release => words[1] &= !(3 << 20),
        Without::Acquire => words[1] &= !(7 << 13 | 1 << 20),
        _ => {}
    }
    buffer(ring, &words);
}

/// Writes a copy or a fill: polls, what drops and writes back caches, and the fence.
fn copy(
    ring: &mut Sdma,
    buffers: &[Mem],
    work: Work,
    waits: &[(u64, u64)],
    (word, value): (u64, u64),
    without: Without,
) {
    for &(word, value) in waits.iter().filter(|_| without != Without::Poll) {
        ring.push(&sdma_poll(word, value as u32));
    }
    if without != Without::CopyAcquire {
        ring.push(&sdma_acquire());
    }
    match work {
        Work::Copy { from, to } => ring.push(&sdma_copy(buffers[from].va, buffers[to].va, BYTES)),
        Work::Fill { to, word } => ring.push(&sdma_fill(buffers[to].va, word, BYTES)),
        _ => unreachable!("{work:?} is of the compute queues"),
    }
    if without != Without::CopyRelease {
        ring.push(&sdma_release());
    }
    ring.push(&sdma_fence(word, value as u32));
}

/// Runs a random program; says whether memory holds what it should and the machine found nothing wrong.
fn runs(seed: u64, without: Without) -> Result<(), String> {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut program = Program::new(seed, &mut rng, without);
    let mut expected = vec![vec![0; WORDS]; BUFFERS];
    // Every buffer is written first.
    let first = (0..BUFFERS).map(|to| Work::Iota { to, start: 100 * to as u32 }).collect::<Vec<_>>();
    let rest = (0..STEPS).map(|_| Work::random(&mut rng)).collect::<Vec<_>>();
    for work in first.into_iter().chain(rest) {
        let queue = if work.computes() { rng.below(2) } else { 2 + rng.below(2) };
        program.push(queue, work);
        work.apply(&mut expected);
        // Doorbells ring now and then, and the machine moves meanwhile.
        if rng.below(3) == 0 {
            program.ring(rng.below(4));
        }
        (0..rng.below(6)).for_each(|_| {
            program.driver.machine.step();
        });
    }
    // What the host looks at in the end is copied to where it sees it.
    let seen: Vec<Mem> = (0..BUFFERS).map(|_| program.driver.zeroed(4096, SHARED)).collect();
    for (buffer, mem) in seen.iter().enumerate() {
        program.buffers.push(*mem);
        program.written.push(None);
        program.read.push(Vec::new());
        program.push(2 + rng.below(2), Work::Copy { from: buffer, to: BUFFERS + buffer });
    }
    let turn = rng.below(4);
    (0..4).for_each(|queue| program.ring((queue + turn) % 4));
    let end = program.driver.machine.run(1_000_000);
    let found = program.driver.machine.take_violations();
    if end != Step::Idle || !found.is_empty() {
        return Err(format!("{end:?}, {found:?}"));
    }
    match (0..BUFFERS).find(|&buffer| seen[buffer].words(WORDS) != expected[buffer]) {
        Some(buffer) => Err(format!("buffer {buffer} holds something else")),
        None => Ok(()),
    }
}

#[test]
fn random_programs_make_what_their_steps_make_one_after_the_other() {
    for seed in 0..60 {
        if let Err(why) = runs(seed, Without::Nothing) {
            panic!("seed {seed}: {why}");
        }
    }
}

#[test]
fn a_rule_that_is_left_out_shows_within_a_few_seeds() {
    for without in [
        Without::Wait,
        Without::Poll,
        Without::Acquire,
        Without::Release,
        Without::Barrier,
        Without::CopyAcquire,
        Without::CopyRelease,
    ] {
        let shown = (0..10).filter(|&seed| runs(seed, without).is_err()).count();
        println!("without {without:?}: {shown} of 10 seeds");
        assert!(shown > 0, "nothing shows that programs go without {without:?}");
    }
}
