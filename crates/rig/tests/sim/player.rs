//! A thread of the program: takes its steps one after the other.

use std::sync::Arc;

use rig::Point;

use crate::log::{Key, Op, Outcome, Part, Place, Use};
use crate::plan::{Kind, Step};
use crate::work::Work;
use crate::world::{Dev, Handle, World};

/// More handles than these are more than a program needs to go wrong.
const HANDLES: usize = 20;

pub struct Player {
    pub world: Arc<World>,
    pub thread: usize,
    /// Submissions that were made, with a run of each.
    pub made: Vec<Work>,
}

/// A step's numbers, used up one by one.
pub struct Numbers<'a> {
    numbers: &'a [u32],
    at: usize,
}

impl<'a> Numbers<'a> {
    pub fn new(numbers: &'a [u32]) -> Numbers<'a> {
        Numbers { numbers, at: 0 }
    }

    pub fn next(&mut self) -> u32 {
        self.at += 1;
        // Used up, they go on as other numbers.
        let round = (self.at / self.numbers.len()) as u32;
        self.numbers[self.at % self.numbers.len()].rotate_left(7 * round) ^ round.wrapping_mul(0x9E37_79B9)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

impl Player {
    pub fn new(world: &Arc<World>, thread: usize) -> Player {
        Player { world: Arc::clone(world), thread, made: Vec::new() }
    }

    pub fn say(&self, text: &str) {
        self.world.log.say(self.thread, text);
    }

    pub fn play(&mut self, steps: &[Step]) {
        for step in steps {
            self.world.log.begin(self.thread, &format!("step {} {}", step.number, step.kind.name()));
            self.step(step.kind, &mut Numbers::new(&step.numbers));
            self.world.log.end(self.thread);
            self.world.check_budgets();
        }
    }

    pub fn step(&mut self, kind: Kind, n: &mut Numbers<'_>) {
        let outcome = match kind {
            Kind::Allocate => self.allocate(n),
            Kind::View => self.view(n),
            Kind::Drop => self.drop_some(n),
            Kind::Burst => self.burst(n),
            Kind::Reclaim => self.reclaim(n),
            Kind::SetBudget => self.set_budget(n),
            Kind::WriteSlice => self.write_slice(n),
            Kind::ReadSlice => self.read_slice(n),
            Kind::Read => self.read(n),
            Kind::Write => self.write(n),
            Kind::PanicInClosure => self.panic_in_closure(n),
            Kind::InClosure => self.in_closure(n),
            Kind::Copy => self.copy(n),
            Kind::CopyInside => self.copy_inside(n),
            Kind::Memset => self.memset(n),
            Kind::Launch => self.launch(n, 0),
            Kind::LaunchTwo => self.launch(n, 2),
            Kind::SubmitCopy => self.submit_copy(n),
            Kind::SubmitMemset => self.submit_memset(n),
            Kind::Fill => self.fill(n),
            Kind::Combination => self.combination(n),
            Kind::Wrong => self.wrong(n),
            Kind::Refused => self.refused(n),
            Kind::CallsInFill => self.calls_in_fill(n),
            Kind::Code => self.code(n),
            Kind::Wait => self.wait(n),
            Kind::WaitAll => self.wait_all(n),
            Kind::Reached => self.reached(n),
            Kind::Await => self.await_one(n),
            Kind::Select => self.select(n),
            Kind::Yield => self.let_time_pass(n),
            Kind::Profile => self.profile(n),
            Kind::Claim => self.claim(n),
            Kind::EndClaim => self.end_claim(n),
            Kind::Consume => self.consume(n),
            Kind::Borrow => self.borrow(n),
            Kind::FromHost => self.wrap_host(n),
            Kind::Fault => self.fault(n),
            Kind::FaultIn => self.fault_in(n),
            Kind::PanicIn => self.panic_in(n),
            Kind::KernelFault => self.kernel_fault(n),
            Kind::FillFault => self.fill_fault(n),
            Kind::Close => self.close(n),
            Kind::Reopen => self.reopen(n),
            Kind::Shortage => self.shortage(n),
            Kind::Busy => self.busy(n),
            Kind::Dma => self.dma(n),
            Kind::Function => self.function(n),
            Kind::Hang => self.hang(n),
            Kind::Slow => self.slow(n),
            Kind::Beside => self.beside(n),
            Kind::Lose => self.lose(n),
            Kind::LoseInClosure => self.lose_in_closure(n),
            Kind::LoseInWaker => self.lose_in_waker(n),
            Kind::LoseInDrop => self.lose_in_drop(n),
        };
        if let Some(outcome) = outcome {
            self.world.log.count(kind.name(), &outcome);
        }
    }

    /// Notes that an operation is called.
    pub fn begin(&self, what: String, devices: &[&Dev], uses: Vec<Use>) -> usize {
        let mut numbers: Vec<usize> = devices.iter().map(|dev| dev.number).collect();
        let mut inner = self.world.log.lock();
        numbers.extend(uses.iter().map(|of| inner.allocations[of.allocation].device));
        numbers.sort_unstable();
        numbers.dedup();
        // A use of no bytes is none: a copy of nothing waits for nobody.
        let meets = uses.iter().map(|of| of.allocation).collect();
        let uses = uses.into_iter().filter(|of| !of.empty).collect();
        inner.clock += 1;
        let call = inner.clock;
        inner.ops.push(Op {
            what,
            devices: numbers,
            uses,
            meets,
            parts: Vec::new(),
            after: Vec::new(),
            call,
            ret: u64::MAX,
            outcome: Outcome::Running,
            window: None,
            seen: Vec::new(),
            blind: false,
        });
        inner.ops.len() - 1
    }

    /// Notes how it ended.
    pub fn end(&self, op: usize, outcome: Outcome, change: impl FnOnce(&mut Op)) -> Outcome {
        let line = {
            let mut inner = self.world.log.lock();
            inner.clock += 1;
            let now = inner.clock;
            let of = &mut inner.ops[op];
            of.ret = now;
            of.outcome = outcome.clone();
            change(of);
            format!("#{op} {} -> {outcome} (called {})", of.what, of.call)
        };
        self.say(&line);
        if let Outcome::Lost { device, why } = &outcome {
            self.world.log.check_lost(device, why);
        }
        outcome
    }

    /// What a call came to that is no operation over memory.
    pub fn told<T>(&self, what: &str, result: &rig::Result<T>) -> Outcome {
        let outcome = result.as_ref().map_or_else(Outcome::of, |_| Outcome::Done);
        self.say(&format!("{what} -> {outcome}"));
        if let Outcome::Lost { device, why } = &outcome {
            self.world.log.check_lost(device, why);
        }
        outcome
    }

    /// An Invalid that nothing explains.
    pub fn not_invalid(&self, what: &str, outcome: &Outcome) {
        if let Outcome::Invalid(why) = outcome {
            self.world.log.broken("errors of the right kind", &format!("{what} is Invalid: {why}"));
        }
    }

    pub fn must_be_invalid(&self, promise: &str, what: &str, outcome: &Outcome) {
        if !matches!(outcome, Outcome::Invalid(_) | Outcome::Lost { .. }) {
            self.world.log.broken(promise, &format!("{what} should be Invalid, and is {outcome}"));
        }
    }

    pub fn outcome_of(&self, result: &rig::Result<Point>) -> Outcome {
        match result {
            Ok(point) => Outcome::Point(self.world.point(*point)),
            Err(error) => Outcome::of(error),
        }
    }

    /// A handle to memory that the device reaches; makes some where there is none.
    pub fn handle(&mut self, dev: &Arc<Dev>, n: &mut Numbers<'_>) -> Option<Handle> {
        if let Some(handle) = self.world.some(Some(dev), n.next()) {
            return Some(handle);
        }
        self.allocate_on(dev, 64 + n.below(64), n);
        self.world.some(Some(dev), n.next())
    }

    /// Drops handles of which there are too many.
    pub fn thin(&self, number: u32) {
        let many = crate::primitive::lock(&self.world.handles).len() > HANDLES;
        if many {
            drop(self.world.take(number));
        }
    }

    /// Points that the next work is to follow.
    pub fn some_points(&self, count: usize, n: &mut Numbers<'_>) -> (Vec<Point>, Vec<Key>) {
        (0..count).filter_map(|_| self.world.some_point(n.next())).unzip()
    }
}

/// A use of a handle.
pub fn uses(handle: &Handle, write: bool, whole: bool) -> Use {
    let (allocation, empty) = (handle.place.allocation, handle.len() == 0);
    Use { allocation, write, whole: write && whole && handle.is_whole(), empty }
}

/// A part that puts bytes.
pub fn put(to: &Place, bytes: Vec<u8>) -> Part {
    Part::Put { to: to.clone(), bytes }
}

/// Bytes that tell where they came from.
pub fn pattern(len: usize, seed: u32) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(31).wrapping_add(seed.wrapping_mul(0x9E37_79B9) >> 13) as u8).collect()
}
