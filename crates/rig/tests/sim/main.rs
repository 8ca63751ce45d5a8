//! The simulation: one seed drives several model devices and a program of several threads, drawn at random, and checkers look
//! at all that happened.
//!
//! # Why shuttle
//!
//! A seed must replay exactly, with several threads that share devices. So all locks, atomics and threads of rig and of the model
//! are shuttle's (`--cfg rig_shuttle`, as in tests/shuttle.rs), and a scheduler of ours, in [`schedule`], decides from the seed
//! who goes on at each of them. Nothing else is left to chance: times are never branched on, and each seed runs in a process of
//! its own, so that addresses, by which rig orders allocations, have the same order every time. What shuttle's atomics do not
//! show, reordering weaker than sequential consistency, the thread sanitizer looks for.
//!
//! Without shuttle the same programs run over real threads: not replayed exactly, but all the checkers hold there too.
//!
//! # What is drawn
//!
//! One or two models, one to four devices (pace, queue waits, depth, Encoded, Later, growths, shortages, peers, host mappings, host
//! addresses, own words, code that is placed, work that outlives stop), one to four threads, and the steps of [`plan::Kind`].
//!
//! # What is checked
//!
//! [`check`]: order and bytes, by a sequential walk. [`losses`]: who is Lost, who is not, donations. [`finish`]: budgets, what
//! OutOfMemory may say, that every wait ends and everything comes back. Beside these the model's own checks of the driver
//! interface (`rig_conformance::model::Violation`), and in the steps themselves errors of the right kind, closures that nobody
//! disturbs, points whose answers stay, profiles that are causal.
//!
//! Some seeds draw more beside ([`plan::Extras`]), by numbers of their own, so that the others are the plans that they would be
//! without: [`functions`], PCI functions that read and write memory on their own; [`hang`], devices that stop answering, slow
//! work, and time that passes; [`beside`], losses in the middle of a submit that follows what is lost; [`lose`], losses for a
//! reason of the program's own, in some seeds the only ones.
//!
//! Not drawn: buffers beyond what a replay can hold; hangs of a device whose submits may block, which would block there for
//! ever; and, over real threads, hangs at all, whose bound would be of real time.
//!
//! # Use
//!
//! `cargo xtask sim --seed S --minutes N` runs seeds from S on; a failure prints its seed, the steps up to it and the promise, and
//! is made smaller. `cargo xtask sim --seed S` alone replays S with each step as it comes.

mod beside;
mod check;
mod finish;
mod functions;
mod hang;
mod host;
mod log;
mod lose;
mod losses;
mod plan;
mod player;
mod primitive;
mod random;
mod runner;
#[cfg(rig_shuttle)]
mod schedule;
mod share;
mod trouble;
mod waits;
mod work;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::log::Log;
use crate::plan::{Plan, Without};
use crate::player::Player;
use crate::primitive::thread;
use crate::world::World;

/// More points than this no run needs: a thread that spins without an end meets it.
#[cfg(rig_shuttle)]
const POINTS: usize = 30_000_000;

fn main() -> std::process::ExitCode {
    runner::main()
}

/// Runs a seed's program, and checks it.
pub fn play(seed: u64, schedule: u64, without: &Without, trace: bool) {
    let plan = Arc::new(Plan::new(seed, without));
    let reach_all = plan.models.iter().any(|model| model.reach_all);
    let log = Log::new(seed, trace, reach_all);
    fail_on_panic(&log);
    if trace {
        describe(&plan);
    }
    let (played, told) = (Arc::clone(&plan), Arc::clone(&log));
    run(schedule, move || program(&played, &told));
    check::check(&log);
    log.print_counts();
}

#[cfg(rig_shuttle)]
fn run(seed: u64, program: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.failure_persistence = shuttle::FailurePersistence::None;
    config.max_steps = shuttle::MaxSteps::FailAfter(POINTS);
    config.silence_warnings = true;
    shuttle::Runner::new(schedule::Seeded::new(seed), config).run(program);
}

#[cfg(not(rig_shuttle))]
fn run(_seed: u64, program: impl Fn() + Send + Sync + 'static) {
    program();
}

/// A panic that nobody asked for is a failure of the run, wherever it is caught.
fn fail_on_panic(log: &Arc<Log>) {
    let log = Arc::clone(log);
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        if text.contains("was told to panic") || text.starts_with("a fault in Room") {
            return;
        }
        let at = info.location().map(ToString::to_string).unwrap_or_default();
        log.broken("no panic", &format!("{text} ({at})"));
    }));
}

fn describe(plan: &Plan) {
    for (index, model) in plan.models.iter().enumerate() {
        println!("model {index}: {}", model.what);
    }
    println!("devices of models {:?}, losses {}, shortages {}", plan.seats, plan.loses, plan.short);
    println!("{} threads, {} steps", plan.threads.len(), plan.steps());
}

fn program(plan: &Arc<Plan>, log: &Arc<Log>) {
    let world = World::new(plan, log);
    let over = Arc::new(AtomicBool::new(false));
    let completer = {
        let (world, over) = (Arc::clone(&world), Arc::clone(&over));
        thread::spawn(move || world.complete(&over))
    };
    world.open_all(plan);
    let players = (0..plan.threads.len()).map(|number| {
        let (world, plan) = (Arc::clone(&world), Arc::clone(plan));
        thread::spawn(move || Player::new(&world, number).play(&plan.threads[number]))
    });
    let players: Vec<_> = players.collect();
    for player in players {
        player.join().expect("a player's panic ends the run");
    }
    world.finish();
    over.store(true, Ordering::SeqCst);
    completer.join().expect("a panic ends the run");
}
