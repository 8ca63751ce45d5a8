//! Faults on demand: what a test plans to go wrong.

use crate::machine::Call;
use std::collections::BTreeMap;

/// A call that is to fail.
#[derive(Clone, Copy, Debug)]
struct Planned {
    /// How many calls of its kind still go well before it.
    after: u64,
    /// How many calls fail then.
    times: u64,
    errno: i32,
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    planned: Vec<(Call, Planned)>,
    /// How many calls of each kind there were.
    pub(crate) calls: BTreeMap<Call, u64>,
    /// Doorbells to lose.
    pub(crate) lose_doorbells: u64,
    /// Interrupts to lose.
    pub(crate) lose_interrupts: u64,
    /// Steps that each packet is delayed by, at most.
    pub(crate) delay: u64,
    /// Queues do not advance, and nobody is told.
    pub(crate) hung: bool,
    /// Accesses of engines until one is to fault.
    pub(crate) access: Option<u64>,
}

impl Faults {
    pub(crate) fn plan(&mut self, call: Call, after: u64, times: u64, errno: i32) {
        self.planned.push((call, Planned { after, times, errno }));
    }

    /// Counts a call, and fails it if that was planned.
    pub(crate) fn call(&mut self, call: Call) -> Result<(), i32> {
        *self.calls.entry(call).or_default() += 1;
        let mut failed = None;
        for (_, planned) in self.planned.iter_mut().filter(|(planned, _)| *planned == call) {
            if planned.after > 0 {
                planned.after -= 1;
            } else if planned.times > 0 && failed.is_none() {
                planned.times -= 1;
                failed = Some(planned.errno);
            }
        }
        self.planned.retain(|(_, planned)| planned.times > 0);
        failed.map_or(Ok(()), Err)
    }
}
