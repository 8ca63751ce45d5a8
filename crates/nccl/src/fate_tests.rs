//! The two steps of a failure, and the bounds, over a time that the tests set.

use super::*;

const SILENCE: Duration = Duration::from_secs(8);
const STALL: Duration = Duration::from_secs(60);
/// Between two ticks: more than the distance of beats.
const BEAT: Duration = Duration::from_secs(2);

/// Fates of some processes with one rank each, and what is on its way between them.
struct Run {
    now: Instant,
    fates: Vec<Fate>,
    /// What each process did, in order.
    did: Vec<Vec<Action>>,
    counts: Vec<Count>,
    /// Processes that neither hear nor say anything.
    cut: Vec<bool>,
}

fn name(process: usize) -> String {
    format!("process {process}")
}

impl Run {
    fn new(processes: usize) -> Run {
        let now = Instant::now();
        let bounds = Bounds { silence: SILENCE, stall: STALL };
        let fates = (0..processes).map(|process| {
            let others: Vec<usize> = if process == 0 { (1..processes).collect() } else { vec![0] };
            let others = others.into_iter().map(|other| (name(other), other as u32)).collect();
            Fate::new(bounds, process == 0, (name(process), process as u32), 1, others, now)
        });
        Run {
            now,
            fates: fates.collect(),
            did: vec![Vec::new(); processes],
            counts: vec![Count::default(); processes],
            cut: vec![false; processes],
        }
    }

    /// Notes what a process does, and brings what it says to whom it says it.
    fn act(&mut self, process: usize, actions: Vec<Action>) {
        for action in actions {
            if let Action::Send(index, frame) = &action {
                let (to, from) = if process == 0 { (index + 1, 0) } else { (0, process - 1) };
                if !self.cut[process] && !self.cut[to] {
                    let answers = self.fates[to].heard(from, frame, self.now);
                    self.act(to, answers);
                }
            } else {
                self.did[process].push(action);
            }
        }
    }

    fn tick(&mut self, passes: Duration) {
        self.now += passes;
        for process in 0..self.fates.len() {
            let actions = self.fates[process].tick(&[self.counts[process]], self.now);
            self.act(process, actions);
        }
    }

    /// A process's connections end.
    fn dies(&mut self, process: usize) {
        self.cut[process] = true;
        let ends: Vec<(usize, usize)> = match process {
            0 => (1..self.fates.len()).map(|other| (other, 0)).collect(),
            other => vec![(0, other - 1)],
        };
        for (at, index) in ends {
            let actions = self.fates[at].closed(index, "reset", self.now);
            self.act(at, actions);
        }
    }

    /// The reason with which a process lost its devices.
    #[track_caller]
    fn reason(&self, process: usize) -> &str {
        match self.did[process].first() {
            Some(Action::Lose(why)) => why,
            other => panic!("process {process} did {other:?} first"),
        }
    }

    fn has_ended(&self, process: usize) -> bool {
        self.did[process].last() == Some(&Action::Abort)
    }
}

#[test]
fn a_process_that_dies_ends_everyone_at_once_with_its_name() {
    for dead in [1, 2] {
        let mut run = Run::new(4);
        run.tick(BEAT);
        run.dies(dead);
        for process in (0..4).filter(|&process| process != dead) {
            assert!(run.reason(process).starts_with(&name(dead)), "{}", run.reason(process));
            assert_eq!(run.did[process].len(), 2, "devices are lost once, and work is ended once");
            assert!(run.has_ended(process) && run.fates[process].is_over());
        }
    }
}

#[test]
fn without_process_0_each_loses_its_devices_at_once_and_ends_its_work_after_its_own_bound() {
    let mut run = Run::new(3);
    run.dies(0);
    for process in [1, 2] {
        assert!(run.reason(process).starts_with("process 0"));
        assert!(!run.has_ended(process));
    }
    run.tick(SILENCE * END_ALONE_AFTER - BEAT);
    assert!(!run.has_ended(1));
    run.tick(BEAT);
    assert!(run.has_ended(1) && run.has_ended(2));
}

#[test]
fn nothing_is_ended_before_every_living_process_has_lost_its_devices() {
    let mut run = Run::new(3);
    run.tick(BEAT);
    // Process 2 lives and does not answer yet.
    run.cut[2] = true;
    let (now, why) = (run.now, "rank 1: NCCL: internal error");
    let actions = run.fates[1].fail(why, now);
    run.act(1, actions);
    assert_eq!((run.reason(0), run.reason(1)), (why, why));
    assert!(!run.has_ended(0) && !run.has_ended(1), "process 2 may still take for done what an end would spoil");
    // Its answer comes.
    run.cut[2] = false;
    let actions = run.fates[2].heard(0, &Frame::Fail(why.into()), run.now);
    assert_eq!(actions[0], Action::Lose(why.into()), "its devices are lost before it says so");
    run.act(2, actions);
    assert!((0..3).all(|process| run.has_ended(process)));
}

#[test]
fn a_process_that_is_cut_off_loses_its_devices_before_the_others_end_their_work() {
    let mut run = Run::new(3);
    run.tick(BEAT);
    run.cut[2] = true;
    let (mut lost, mut ended) = (None, None);
    for _ in 0..80 {
        run.tick(BEAT / 4);
        lost = lost.or((!run.did[2].is_empty()).then_some(run.now));
        ended = ended.or((run.has_ended(0) || run.has_ended(1)).then_some(run.now));
    }
    assert!(run.reason(2).starts_with("process 0 has said nothing for"), "{}", run.reason(2));
    assert!(run.reason(0).starts_with("process 2 has said nothing for"), "{}", run.reason(0));
    assert!(run.reason(1) == run.reason(0));
    assert!(lost.unwrap() < ended.unwrap(), "{:?} before", ended.unwrap() - lost.unwrap());
}

#[test]
fn an_operation_that_stands_names_the_ranks_that_were_not_given_it() {
    let mut run = Run::new(3);
    run.counts = vec![Count { queued: 5, done: 4 }, Count { queued: 4, done: 4 }, Count { queued: 5, done: 4 }];
    for _ in 0..STALL.as_secs() / BEAT.as_secs() {
        run.tick(BEAT);
    }
    assert!(run.fates[0].is_fine(), "not before the bound");
    run.tick(BEAT);
    run.tick(BEAT);
    let why = run.reason(2);
    assert!(why.contains("has stood at its operation 5 for 6") && why.ends_with("rank 1 was given 4"), "{why}");
    assert!((0..3).all(|process| run.has_ended(process)));
}

#[test]
fn work_that_goes_on_stands_nowhere_however_long_it_takes() {
    let mut run = Run::new(2);
    for step in 0..10 {
        run.counts = vec![Count { queued: step + 3, done: step }; 2];
        for _ in 0..STALL.as_secs() / BEAT.as_secs() / 2 {
            run.tick(BEAT);
        }
    }
    assert!(run.fates[0].is_fine() && run.fates[1].is_fine());
}

#[test]
fn who_leaves_in_good_order_is_no_failure_until_work_stands_for_it() {
    let mut run = Run::new(3);
    run.counts = vec![Count { queued: 4, done: 4 }; 3];
    run.tick(BEAT);
    let actions = run.fates[0].heard(0, &Frame::Bye, run.now);
    run.act(0, actions);
    run.dies(1);
    for _ in 0..10 {
        run.tick(BEAT);
    }
    assert!(run.fates[0].is_fine() && run.fates[2].is_fine(), "process 1 said that it leaves");
    run.counts[2].queued = 5;
    for _ in 0..6 {
        run.tick(BEAT);
    }
    assert!(run.reason(0).contains("and process 1 has left"), "{}", run.reason(0));
    assert!(run.has_ended(0) && run.has_ended(2));
}

#[test]
fn a_process_by_itself_ends_its_own_work_at_once() {
    let mut run = Run::new(1);
    let actions = run.fates[0].fail("rank 0: NCCL: unhandled cuda error", run.now);
    run.act(0, actions);
    assert!(run.has_ended(0) && run.did[0].len() == 2);
}

#[test]
fn one_failure_follows_whatever_else_fails_after_it() {
    let mut run = Run::new(3);
    run.dies(2);
    let done = run.did.clone();
    let actions = run.fates[1].fail("a second", run.now);
    run.act(1, actions);
    run.dies(1);
    for _ in 0..20 {
        run.tick(BEAT);
    }
    assert_eq!((&run.did[0], &run.did[1]), (&done[0], &done[1]));
}
