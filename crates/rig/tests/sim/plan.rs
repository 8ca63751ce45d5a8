//! What a seed decides before anything runs: the models, their devices, and what each thread will ask for.
//!
//! A step is a kind and some numbers, which are taken modulo what there is when the step runs. So a plan with steps left out
//! is a plan too, which is how a failure is made smaller.

use std::time::Duration;

use rig_conformance::model::{Options, Pace, Tells};
use rig_edge::{Completion, Kinds, Memory, Reach, WaitFacts};

use crate::random::Random;

macro_rules! kinds {
    ($($variant:ident $name:literal $weight:literal $group:ident),* $(,)?) => {
        /// What a step asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($variant),* }

        impl Kind {
            /// Every kind, with how often it is drawn beside the others, and what it belongs to.
            pub const ALL: &'static [(Kind, usize, Group)] = &[$((Kind::$variant, $weight, Group::$group)),*];

            pub fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name),* }
            }
        }
    };
}

/// What kinds belong to, by which a seed leans one way or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Memory,
    Host,
    Work,
    Wait,
    Share,
    /// What may lose a device.
    Loss,
    /// What the driver lacks.
    Short,
    /// What a PCI function does.
    Function,
    /// Devices that stop answering.
    Hang,
    /// Work that takes its time.
    Slow,
    /// Losses in a submit that follows what is lost.
    Beside,
    /// Losses for a reason of the program's own.
    Lose,
}

kinds! {
    Allocate "allocate" 10 Memory,
    View "view" 4 Memory,
    Drop "drop" 9 Memory,
    Burst "allocate and drop many" 2 Memory,
    Reclaim "reclaim" 2 Memory,
    SetBudget "set_budget" 2 Memory,
    WriteSlice "copy_from_slice" 7 Host,
    ReadSlice "copy_to_slice" 5 Host,
    Read "read" 5 Host,
    Write "write" 5 Host,
    PanicInClosure "panic in a closure" 1 Host,
    InClosure "calls in a closure" 2 Host,
    Copy "copy_to" 7 Work,
    CopyInside "copy_to of one allocation" 2 Work,
    Memset "memset" 4 Work,
    Launch "launch" 16 Work,
    LaunchTwo "launch over two devices' points" 5 Work,
    SubmitCopy "submit of a copy" 4 Work,
    SubmitMemset "submit of a memset" 3 Work,
    Fill "submit of a fill" 4 Work,
    Combination "submit of four parts" 4 Work,
    Wrong "submit that is Invalid" 4 Work,
    Refused "submit that the driver refuses" 3 Work,
    CallsInFill "calls in a fill" 1 Work,
    Code "load, prepare, resolve" 2 Work,
    Wait "wait" 5 Wait,
    WaitAll "wait for several" 2 Wait,
    Reached "reached" 4 Wait,
    Await "await" 4 Wait,
    Select "await one of two" 3 Wait,
    Yield "let time pass" 3 Wait,
    Profile "profile" 2 Wait,
    Claim "claim" 3 Share,
    EndClaim "end of a claim" 2 Share,
    Consume "consume" 5 Share,
    Borrow "borrow" 7 Share,
    FromHost "from_host" 4 Share,
    Fault "fault" 2 Loss,
    FaultIn "fault in a call" 2 Loss,
    PanicIn "panic in a call" 1 Loss,
    KernelFault "kernel that faults" 1 Loss,
    FillFault "fill that fails" 1 Loss,
    Close "close" 1 Loss,
    Reopen "open again" 4 Loss,
    Shortage "shortage" 4 Short,
    Busy "later, grow" 4 Memory,
    Dma "dma" 8 Function,
    Function "accesses of a function's own" 8 Function,
    Hang "device that stops answering" 3 Hang,
    Slow "work that is slow" 6 Slow,
    Beside "loss in a submit that follows" 6 Beside,
    Lose "lose" 4 Lose,
    LoseInClosure "lose in a closure" 1 Lose,
    LoseInWaker "lose in a waker" 2 Lose,
    LoseInDrop "lose in a drop" 2 Lose,
}

/// What a seed draws beside all else, each decided by numbers of its own: a seed without any is the plan that it would be if
/// there were none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// PCI functions.
    pub functions: bool,
    /// Hang bounds, slow work, and, where devices may be lost, devices that stop answering.
    pub hangs: bool,
    /// Losses while a submit that follows what is lost stands before its last look.
    pub beside: bool,
    /// Losses for a reason of the program's own: beside others, or alone.
    pub gives_up: bool,
    /// With hangs: nobody closes what is lost where all stand still, so that waits behind it must end by themselves.
    pub leaves: bool,
}

impl Extras {
    fn draw(random: &mut Random, loses: bool) -> Extras {
        // A bound is of time, which only the clock of a schedule that replays can let pass.
        let (functions, hangs) = (random.one_in(4), random.one_in(8) && cfg!(rig_shuttle));
        Extras { functions, hangs, beside: random.one_in(3) && loses, gives_up: false, leaves: false }
    }
}

/// The hang bound of the devices that have one.
pub const BOUND: Duration = Duration::from_secs(10);

/// One thing that a thread asks for.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its number in the whole plan.
    pub number: usize,
    pub kind: Kind,
    pub numbers: [u32; 6],
}

/// One model.
#[derive(Clone, Debug)]
pub struct ModelPlan {
    pub options: Options,
    /// Whether its devices answer Encoded.
    pub encodes: bool,
    pub budget: u64,
    pub hides: bool,
    pub seeded: bool,
    pub peers: bool,
    pub placed: bool,
    /// Whether a fault reaches all devices of the driver.
    pub reach_all: bool,
    pub copies: bool,
    /// Whether memory or mappings may run short by the driver's own will.
    pub short: bool,
    /// Whether a submit may block.
    pub blocks: bool,
    /// How a device answers `dma`.
    pub dma: Answers,
    /// Whether there is a hang bound.
    pub bound: bool,
    pub what: String,
}

/// What access a device gives to PCI functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    None,
    Bus,
    Buf,
}

/// All that a seed decides.
pub struct Plan {
    pub models: Vec<ModelPlan>,
    /// The model of each device.
    pub seats: Vec<usize>,
    pub threads: Vec<Vec<Step>>,
    /// Whether devices may be lost.
    pub loses: bool,
    /// Whether they may be for a fault.
    pub faults: bool,
    /// Whether scripted shortages are drawn.
    pub short: bool,
    /// Whether work that is stepped runs only once all threads wait: then much of it is in flight.
    pub lazy: bool,
    pub extras: Extras,
}

/// What the reader of a failure, or its shrinking, leaves out.
#[derive(Clone, Debug, Default)]
pub struct Without {
    pub steps: Vec<usize>,
    pub threads: Vec<usize>,
    pub seats: usize,
}

impl Plan {
    pub fn new(seed: u64, without: &Without) -> Plan {
        let mut random = Random::new(seed);
        let faults = random.below(5) < 2;
        let short = random.one_in(3);
        // Where devices are lost, mostly what follows other devices' work and shares their memory.
        let mut chains = faults && random.one_in(2);
        let lean = random.of(&[Group::Work, Group::Work, Group::Memory, Group::Share, Group::Host, Group::Wait]);
        let lazy = random.one_in(2);
        let reach = if faults && random.one_in(4) { Reach::Driver } else { Reach::Device };
        let models = 1 + random.below(2);
        let mut models: Vec<ModelPlan> = (0..models).map(|_| draw_model(&mut random, reach, short)).collect();
        let mut apart = Random::new(seed.rotate_left(32) ^ 0xE34);
        let mut extras = Extras::draw(&mut apart, faults);
        models.iter_mut().for_each(|model| draw_extras(&mut apart, model, extras));
        let mut apart = Random::new(seed.rotate_left(32) ^ 0xC20);
        extras.gives_up = apart.one_in(6);
        extras.leaves = extras.hangs && apart.one_in(2);
        let alone = extras.gives_up && !faults;
        chains |= alone && apart.one_in(2);
        let widely = alone && apart.one_in(2);
        models.iter_mut().filter(|_| widely).for_each(reach_all_but_for_the_program);
        let seats = 1 + random.below(4);
        let mut seats: Vec<usize> = (0..seats).map(|_| random.below(models.len())).collect();
        let threads = 1 + random.below(4);
        let length = random.of(&[10, 25, 50, 90]);
        let mut number = 0;
        let threads = (0..threads).map(|_| {
            let steps = 1 + random.below(length);
            let mut step = |random: &mut Random| {
                number += 1;
                let kind = draw_kind(random, (lean, chains), faults, short, extras);
                let numbers = std::array::from_fn(|_| random.next() as u32);
                Step { number: number - 1, kind, numbers }
            };
            std::iter::repeat_with(|| step(&mut random)).take(steps).collect::<Vec<_>>()
        });
        let mut threads: Vec<Vec<Step>> = threads.collect();
        for thread in &mut threads {
            thread.retain(|step| !without.steps.contains(&step.number));
        }
        let mut index = 0;
        threads.retain(|_| {
            index += 1;
            !without.threads.contains(&(index - 1))
        });
        seats.truncate(seats.len().saturating_sub(without.seats).max(1));
        Plan { models, seats, threads, loses: faults || extras.gives_up, faults, short, lazy, extras }
    }

    pub fn steps(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }
}

fn draw_kind(random: &mut Random, (lean, chains): (Group, bool), faults: bool, short: bool, extras: Extras) -> Kind {
    let weight = |kind: Kind, weight: usize, group: Group| match (kind, group) {
        (_, Group::Lose) if !extras.gives_up => 0,
        (Kind::Reopen, _) if extras.gives_up => weight,
        (_, Group::Loss) if !faults => 0,
        (_, Group::Short) if !short => 0,
        (_, Group::Function) if !extras.functions => 0,
        (_, Group::Hang) if !extras.hangs || !faults => 0,
        (_, Group::Slow) if !extras.hangs => 0,
        (_, Group::Beside) if !extras.beside => 0,
        (Kind::LaunchTwo, _) if chains => 8 * weight,
        (Kind::Borrow | Kind::Launch | Kind::Fault | Kind::Close, _) if chains => 2 * weight,
        _ if group == lean && !chains => 3 * weight,
        _ => weight,
    };
    let all = Kind::ALL.iter().map(|&(kind, w, group)| weight(kind, w, group)).sum();
    let mut at = random.below(all);
    for &(kind, w, group) in Kind::ALL {
        let weight = weight(kind, w, group);
        if at < weight {
            return kind;
        }
        at -= weight;
    }
    Kind::Yield
}

fn draw_model(random: &mut Random, reach: Reach, short: bool) -> ModelPlan {
    let mut what = Vec::new();
    let mut options = Options::default().reach(reach);
    let mut say = |text: String| what.push(text);
    let pace = random.of(&[Pace::AtOnce, Pace::Stepped, Pace::Stepped, Pace::Slept, Pace::Slept, Pace::Seeded]);
    let shortages = short && random.one_in(2);
    options = if pace == Pace::Seeded { options.seed(random.next()) } else { options.pace(pace) };
    say(format!("{pace:?}"));
    if shortages && pace == Pace::Seeded {
        options = options.shortages();
        say("shortages".into());
    }
    let (waits, completion) = draw_waits(random);
    options = options.waits(waits).completion(completion);
    say(format!("waits {}{} of {}, completion {completion:?}", waits.stores, waits.hosts, waits.most));
    let budget = random.of(&[1 << 19, 1 << 19, 1 << 20, 1 << 22]);
    options = options.budget(budget).alignment(random.of(&[64, 256, 4096]));
    say(format!("budget {budget}"));
    let (hides, no_copies) = (random.one_in(4), random.one_in(5));
    if hides {
        options = options.no_host_addresses();
        say("no host addresses".into());
    } else if no_copies {
        options = options.queues(&[("MODEL:0", Kinds { copy: false, memset: false, ..Kinds::ALL })]);
        say("queues that do not copy".into());
    }
    if random.one_in(2) {
        options = options.maps_host();
        say("maps host memory".into());
    }
    let peers = random.below(12);
    match peers {
        // A device whose queues run no copies cannot try its peers, and is believed.
        0 if hides || !no_copies => options = options.peers_lose_reads(),
        1 if hides || !no_copies => options = options.peers_lose_writes(),
        0..=7 => options = options.peers(),
        _ => {}
    }
    let encodes = random.one_in(3);
    let (mut options, placed, blocks) = draw_habits(random, options, pace, encodes, &mut say);
    options = options.tells(draw_tells(random));
    if encodes {
        say("encodes".into());
    }
    let short = shortages && pace == Pace::Seeded;
    let (seeded, peers, reach_all) = (pace == Pace::Seeded, peers < 8, reach == Reach::Driver);
    ModelPlan {
        options,
        reach_all,
        encodes,
        budget,
        hides,
        seeded,
        peers,
        placed,
        copies: hides || !no_copies,
        short,
        blocks,
        dma: Answers::None,
        bound: false,
        what: what.join(", "),
    }
}

/// What else a driver does: how deep its queue is, whose word it is, where code goes, what outlives a stop.
fn draw_habits(
    random: &mut Random,
    mut options: Options,
    pace: Pace,
    encodes: bool,
    say: &mut impl FnMut(String),
) -> (Options, bool, bool) {
    let mut blocks = false;
    if random.one_in(2) {
        let depth = 1 + random.below(4);
        options = options.depth(depth);
        say(format!("depth {depth}"));
        // A driver that blocks must itself see to it that what was encoded runs.
        if pace != Pace::Seeded && !encodes && random.one_in(3) {
            options = options.may_block();
            blocks = true;
            say("may block".into());
        }
    }
    if random.one_in(6) {
        options = options.own_word(random.next() % 1000);
        say("own word".into());
    }
    let placed = random.one_in(4);
    if placed {
        options = options.placed_code_in(random.of(&[Memory::Device, Memory::Pinned]));
        say("placed code".into());
    }
    if random.one_in(6) {
        options = options.lingers();
        say("lingers".into());
    }
    (options, placed, blocks)
}

/// What a model has of what the seed draws beside all else.
fn draw_extras(random: &mut Random, model: &mut ModelPlan, extras: Extras) {
    let (dma, bound) = (random.below(6), random.one_in(2));
    let mut options = model.options.clone();
    if extras.functions {
        model.dma = [Answers::Bus, Answers::Bus, Answers::Bus, Answers::Buf, Answers::Buf, Answers::None][dma];
        options = match model.dma {
            Answers::None => options,
            Answers::Bus => options.dma_bus(),
            Answers::Buf => options.dma_buf(),
        };
        model.what.push_str(&format!(", gives functions {:?}", model.dma));
    }
    if extras.hangs && bound {
        model.bound = true;
        options = options.hang(BOUND);
        model.what.push_str(&format!(", a hang bound of {BOUND:?}"));
    }
    model.options = options;
}

/// A driver's faults reach all its devices, and none comes: what the program itself loses is lost alone.
fn reach_all_but_for_the_program(model: &mut ModelPlan) {
    model.options = model.options.clone().reach(Reach::Driver);
    model.what.push_str(", faults would reach all");
}

fn draw_waits(random: &mut Random) -> (WaitFacts, Completion) {
    let most = 1 + random.below(4);
    let waits = match random.below(4) {
        0 => WaitFacts::NONE,
        1 => WaitFacts { stores: true, hosts: false, most },
        _ => WaitFacts { stores: true, hosts: true, most },
    };
    (waits, random.of(&[Completion::Store, Completion::Host]))
}

fn draw_tells(random: &mut Random) -> Tells {
    let by = Duration::from_millis(1 + random.next() % 1000);
    random.of(&[Tells::Parts, Tells::Settled, Tells::Ahead(by), Tells::Behind(by), Tells::Nothing])
}
