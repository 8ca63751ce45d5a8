//! The scheduler of a seed: which thread goes on at each point where they may change.
//!
//! Three habits, of which the seed picks one. Any thread at any point finds what needs many small preemptions; a thread that
//! goes on for long, and then another, finds what needs whole calls inside others; priorities that change at a few points find
//! what needs one thread to starve (as in Burckhardt and others, "A randomized scheduler with probabilistic guarantees", 2010).

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

use crate::random::Random;

pub struct Seeded {
    random: Random,
    habit: Habit,
    begun: bool,
    seed: u64,
}

enum Habit {
    Any,
    /// Stays with a thread but once in so many points.
    Stays(usize),
    /// The priorities of the threads, by number, and how many points lie between two changes.
    Priorities(Vec<u64>, usize),
}

impl Seeded {
    pub fn new(seed: u64) -> Seeded {
        let mut random = Random::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
        let habit = match random.below(5) {
            0 => Habit::Any,
            1 | 2 => Habit::Stays(random.of(&[4, 16, 64])),
            _ => Habit::Priorities(Vec::new(), random.of(&[40, 250, 1500])),
        };
        Seeded { random, habit, begun: false, seed }
    }
}

impl Scheduler for Seeded {
    fn new_execution(&mut self) -> Option<Schedule> {
        if std::mem::replace(&mut self.begun, true) {
            return None;
        }
        Some(Schedule::new(self.seed))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        let still = current.filter(|current| !is_yielding && runnable.iter().any(|task| task.id() == *current));
        match &mut self.habit {
            Habit::Any => {}
            Habit::Stays(points) => {
                if let Some(current) = still
                    && !self.random.one_in(*points)
                {
                    return Some(current);
                }
            }
            Habit::Priorities(priorities, points) => {
                let number = |id: TaskId| usize::from(id);
                let most = runnable.iter().map(|task| number(task.id())).chain(current.map(number)).max().unwrap_or(0);
                while priorities.len() <= most {
                    priorities.push((1 << 32) + self.random.next() % (1 << 32));
                }
                if let Some(current) = current
                    && (is_yielding || self.random.one_in(*points))
                {
                    let least = priorities.iter().min().copied().unwrap_or(1);
                    priorities[number(current)] = least.saturating_sub(1);
                }
                // A thread that was passed over for long comes up again, or one that spins would starve all.
                if self.random.one_in(64) {
                    let up = runnable[self.random.below(runnable.len())].id();
                    priorities[number(up)] = (1 << 32) + self.random.next() % (1 << 32);
                }
                return runnable.iter().map(|task| task.id()).max_by_key(|id| priorities[number(*id)]);
            }
        }
        let others: Vec<TaskId> =
            runnable.iter().map(|task| task.id()).filter(|id| !is_yielding || Some(*id) != current).collect();
        Some(if others.is_empty() { runnable[0].id() } else { others[self.random.below(others.len())] })
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next()
    }
}
