//! What becomes of the others when a process dies, hangs, errs, or leaves: on the stand-in library, which ends an operation
//! that is cut off as NCCL does, with garbage and as if all were well.
#![expect(clippy::unwrap_used, reason = "tests")]

mod processes;

use std::ffi::c_void;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use processes::{Cores, Seat, child_of, connect, devices, finish, launch, meeting, options, start};
use rig::{Buffer, Device, Error};
use rig_nccl::{Communicator, Lane, Options, Place, Rank, Reduce, Type, World};

/// The process that fails, where a test does not say otherwise.
const VICTIM: &str = "RIG_NCCL_VICTIM";
/// Where those that are left meet again.
const AGAIN: &str = "RIG_NCCL_AGAIN";

/// TIMEOUT: bounds that no test reaches: what a test sees before them it sees for another reason.
const FAR: Duration = Duration::from_secs(90);
/// TIMEOUT: a bound that a test waits for.
const NEAR: Duration = Duration::from_secs(3);
/// TIMEOUT: what is seen at once is seen by then, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// TIMEOUT: how often a test looks at what it waits for.
const LOOK: Duration = Duration::from_millis(2);
/// TIMEOUT: without process 0, the end of NCCL's work is three times this away: short, and longer than a closed connection takes
/// to be seen.
const SHORT: Duration = Duration::from_secs(8);

/// The stand-in's groups of operations of a rank before a test's own: one of each kind, and the pairs.
const WARM: u32 = 5;

fn far() -> Options {
    options().silence(FAR).stall(FAR)
}

/// The part that a child process runs.
#[test]
fn child() {
    let Some(part) = child_of() else { return };
    let bounds = match &*part {
        "dies" => far().silence(SHORT),
        "stopped" => far().silence(NEAR),
        "idle" => far().stall(NEAR),
        "leaves" => far().silence(NEAR),
        _ => far(),
    };
    match &*part {
        "hangs_in_connect" => return never_connected(options().connect(NEAR)),
        "dies_in_connect" => return dies_in_connect(),
        _ => {}
    }
    let devices = devices(1);
    let communicator = connect(&devices, bounds);
    let mut step = Step::new(&communicator, &devices[0]);
    step.go().unwrap();
    let victim = is_victim();
    if victim {
        // Once the second is done, everyone has done the first.
        step.go().unwrap();
    }
    match &*part {
        "dies" if victim => std::process::exit(3),
        "stopped" if victim => stop_self(),
        "idle" if victim => return wait_for_failure(&communicator),
        "lost" if victim => devices[0].lose("the program said so"),
        "panics" if victim => panic!("the program is wrong"),
        "leaves" if victim => return communicator.close(),
        _ => {}
    }
    if victim && part != "stopped" {
        // What it does here is no matter: a call that errs, or a device that is lost.
        let _ = step.go();
        return wait_for_failure(&communicator);
    }
    let start = Instant::now();
    let why = std::thread::scope(|scope| {
        scope.spawn(|| {
            let why = wait_for_loss(&devices[0]);
            println!("lost after {} ms: {why}", start.elapsed().as_millis());
        });
        // On the host's cores a wait helps: this thread is inside the operation, until it is ended. The second may still
        // be well.
        let end = step.go().and_then(|()| step.go());
        lost(end)
    });
    assert_eq!(lost(step.read()), why, "nobody reads what a cut-off operation left");
    assert_eq!(communicator.failure().as_deref(), Some(&*why));
    assert_eq!(lost(step.go()), why, "and nothing goes on");
    drop(communicator);
    if !victim {
        again();
    }
}

/// An all-reduce of one device, over and over.
struct Step {
    rank: Rank<Cores>,
    run: rig::Run,
    x: Buffer,
}

impl Step {
    fn new(communicator: &Communicator<Cores>, device: &Device) -> Step {
        let rank = communicator.rank(0);
        let submission = rank.all_reduce(device.submission(), 0, 0, Type::F32, Reduce::Sum).make().unwrap();
        let x = device.buffer(4).unwrap();
        x.copy_from_slice(&[1.0_f32]).unwrap();
        Step { rank, run: submission.take(), x }
    }

    /// Submits it and waits.
    fn go(&mut self) -> rig::Result<()> {
        launch(&mut self.run, &[&self.x])?.wait()
    }

    fn read(&self) -> rig::Result<f32> {
        self.x.read(|x: &[f32]| x[0])
    }
}

fn is_victim() -> bool {
    std::env::var(VICTIM).is_ok_and(|victim| victim == std::env::var("RIG_NCCL_PROCESS").unwrap())
}

#[track_caller]
fn lost<T>(answer: rig::Result<T>) -> String {
    match answer {
        Err(Error::Lost { why, .. }) => why.to_string(),
        Err(other) => panic!("Lost was due, not {other:?}"),
        Ok(_) => panic!("Lost was due, not an answer"),
    }
}

/// Stops the whole process, until somebody has it go on.
fn stop_self() {
    assert!(Command::new("kill").args(["-STOP", &std::process::id().to_string()]).status().unwrap().success());
}

fn wait_for_failure(communicator: &Communicator<Cores>) {
    while communicator.failure().is_none() {
        std::thread::sleep(LOOK);
    }
}

fn wait_for_loss(device: &Device) -> Arc<str> {
    loop {
        if let Some(why) = device.lost() {
            return why;
        }
        std::thread::sleep(LOOK);
    }
}

/// Those that are left meet again, with new devices and a new communicator.
fn again() {
    let Ok(place) = std::env::var(AGAIN) else { return };
    let world = World::from_env().unwrap();
    let victim: u32 = std::env::var(VICTIM).unwrap().parse().unwrap();
    let process = world.process() - u32::from(world.process() > victim);
    let world = World::new(process, world.processes() - 1, place.parse::<Place>().unwrap()).unwrap();
    let devices = devices(1);
    let communicator = rig_nccl::connect_on::<Cores>(&world, &devices, far()).unwrap();
    let mut step = Step::new(&communicator, &devices[0]);
    step.go().unwrap();
    assert_eq!((step.read().unwrap(), step.rank.ranks()), (2.0, 2));
    println!("again");
}

/// Whose seat's first use ends the process.
struct Fragile;

impl Lane for Fragile {
    type Driver = rig_host::Host;
    type Seat = Seat;

    fn hardware(device: &Device) -> String {
        Cores::hardware(device)
    }

    fn seat(device: &Device) -> Result<Seat, String> {
        Cores::seat(device)
    }

    fn within<T>(_: &Seat, call: impl FnOnce() -> T) -> Result<T, String> {
        if is_victim() {
            std::process::exit(3);
        }
        Ok(call())
    }

    fn put(
        seat: &Arc<Seat>,
        encoder: &mut rig_host::Encoder<'_>,
        value: u64,
        work: impl FnOnce(*mut c_void) -> Result<(), String> + Send + 'static,
    ) -> Result<(), String> {
        Cores::put(seat, encoder, value, work)
    }

    fn done(seat: &Seat) -> u64 {
        Cores::done(seat)
    }
}

/// After the meeting, one process ends while NCCL connects the ranks.
fn dies_in_connect() {
    let start = Instant::now();
    let made = rig_nccl::connect_on::<Fragile>(&World::from_env().unwrap(), &devices(1), far());
    println!("lost after {} ms: {}", start.elapsed().as_millis(), made.unwrap_err());
}

/// NCCL's calls never connect the ranks.
fn never_connected(options: Options) {
    let start = Instant::now();
    let made = rig_nccl::connect_on::<Cores>(&World::from_env().unwrap(), &devices(1), options);
    println!("lost after {} ms: {}", start.elapsed().as_millis(), made.unwrap_err());
    // The thread that connects is NCCL's for good: leave without it, as a program would.
    println!("test result: ok");
    std::process::exit(0);
}

/// After how long a child's device was lost, and why.
fn told(text: &str) -> (Duration, &str) {
    let (_, rest) = text.split_once("lost after ").unwrap_or_else(|| panic!("no loss in:\n{text}"));
    let (time, rest) = rest.split_once(" ms: ").unwrap();
    (Duration::from_millis(time.parse().unwrap()), rest.lines().next().unwrap())
}

/// Runs a part over three processes, of which one fails: what the others say.
fn others(part: &str, victim: usize, dead: bool, more: impl Fn(usize, &mut Command)) -> Vec<(Duration, String)> {
    let again = meeting("again");
    let processes = start(part, 3, |process, command| {
        command.env(VICTIM, victim.to_string());
        if dead {
            command.env(AGAIN, &again);
        }
        more(process, command);
    });
    let texts = finish(processes, &[victim]);
    let others = texts.iter().enumerate().filter(|(process, _)| *process != victim);
    let others = others.map(|(_, text)| {
        assert!(!dead || text.contains("again"), "those that are left make a new communicator:\n{text}");
        let (time, why) = told(text);
        println!("{part}: {time:?}: {why}");
        (time, why.to_owned())
    });
    others.collect()
}

#[test]
fn a_process_that_dies_loses_every_other_ranks_device_at_once_with_its_name_and_the_rest_make_a_new_communicator() {
    for victim in [0, 1] {
        for (_, why) in others("dies", victim, true, |_, _| {}) {
            // At once, and not once it has said nothing for so long: that is another reason.
            assert!(why.contains(&format!("process {victim} (")) && why.contains("ended"), "{why}");
        }
    }
}

#[test]
fn a_process_that_is_stopped_is_found_by_its_silence_and_is_lost_itself_once_it_goes_on() {
    let mut processes = start("stopped", 3, |_, command| {
        command.env(VICTIM, "2");
    });
    let stopped = processes.0.pop().unwrap();
    let pid = stopped.id().to_string();
    for text in finish(processes, &[]) {
        let (time, why) = told(&text);
        assert!(why.contains("process 2 (") && why.contains("has said nothing for"), "{why}");
        assert!(time < NEAR + SOON, "{time:?}");
    }
    assert!(Command::new("kill").args(["-CONT", &pid]).status().unwrap().success());
    let (well, text) = processes::output(stopped);
    assert!(well, "{text}");
    let (_, why) = told(&text);
    assert!(why.contains("process"), "{why}");
}

#[test]
fn a_rank_that_is_not_given_an_operation_is_named_once_the_others_have_stood_at_it_for_the_bound() {
    for (time, why) in others("idle", 1, false, |_, _| {}) {
        assert!(why.contains("has stood at its operation 8") && why.contains("rank 1 was given 7"), "{why}");
        assert!(time < NEAR + SOON, "{time:?}");
    }
}

#[test]
fn what_nccl_answers_or_reports_on_one_rank_is_everyones_reason() {
    for (fault, says) in [("error", "internal error"), ("async", "unhandled system error")] {
        let set = |process: usize, command: &mut Command| {
            if process == 1 {
                command.env("RIG_NCCL_MODEL_FAULT", format!("{fault}:{}", WARM + 3));
            }
        };
        for (time, why) in others("errs", 1, false, set) {
            assert!(why.contains("rank 1: NCCL: ") && why.contains(says), "{why}");
            assert!(time < SOON, "{time:?}");
        }
    }
}

#[test]
fn a_device_that_is_lost_and_a_panic_are_everyones_reason() {
    for (part, says) in [("lost", "the device of rank 1 was lost: the program said so"), ("panics", "panicked")] {
        for (_, why) in others(part, 1, false, |_, _| {}) {
            assert!(why.contains(says), "{why}");
        }
    }
}

#[test]
fn a_process_that_leaves_in_good_order_is_named_where_the_others_go_on_without_it() {
    for (time, why) in others("leaves", 1, false, |_, _| {}) {
        assert!(
            why.contains("has stood at its operation") && why.contains("process 1 (") && why.contains("left"),
            "{why}"
        );
        assert!(time < SOON, "{time:?}");
    }
}

#[test]
fn a_process_that_dies_while_the_ranks_are_connected_is_the_others_error() {
    for (time, why) in others("dies_in_connect", 1, false, |_, _| {}) {
        assert!(why.contains("the ranks were not connected") && why.contains("process 1 ("), "{why}");
        assert!(time < SOON, "{time:?}");
    }
}

#[test]
fn ranks_that_nccl_does_not_connect_are_an_error_at_the_bound() {
    let fault = |_: usize, command: &mut Command| {
        command.env("RIG_NCCL_MODEL_FAULT", "init");
    };
    for text in finish(start("hangs_in_connect", 2, fault), &[]) {
        let (time, why) = told(&text);
        assert!(why.contains("did not connect the ranks within"), "{why}");
        assert!(time >= NEAR / 2 && time < SOON, "{time:?}");
    }
}

#[test]
fn nccl_that_would_make_connections_at_first_use_is_refused_with_what_to_set() {
    let lazy = |_: usize, command: &mut Command| {
        command.env_remove("NCCL_RUNTIME_CONNECT");
    };
    for text in finish(start("hangs_in_connect", 2, lazy), &[]) {
        let (_, why) = told(&text);
        assert!(why.contains("NCCL_RUNTIME_CONNECT=0") && why.contains("rig_nccl::prepare"), "{why}");
    }
}
