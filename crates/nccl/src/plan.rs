//! Who gets which ranks, and whether the processes fit one another. Pure.

use std::ops::Range;

use crate::sys::dotted;
use crate::wire::Hello;

/// A process as reasons name it.
pub(crate) fn name(process: u32, host: &str, pid: u32) -> String {
    format!("process {process} ({host}, pid {pid})")
}

impl Hello {
    /// The process as reasons name it.
    pub fn name(&self) -> String {
        name(self.process, &self.host, self.pid)
    }
}

/// What becomes of a hello that came to process 0.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is one of the run's.
    Yes,
    /// It is no process of this run: sent away, and the meeting goes on.
    Stranger(String),
    /// The run was started wrong, and why.
    Wrong(String),
}

/// Whether a process that came fits those that are there, of which the first is process 0.
pub(crate) fn fit(there: &[Hello], new: &Hello) -> Fit {
    let Some(zero) = there.first() else { return Fit::Yes };
    if new.job != zero.job {
        return Fit::Stranger(format!(
            "{} is of the run {:?}, and this is the run {:?}",
            new.name(),
            new.job,
            zero.job
        ));
    }
    let wrong = if new.processes != zero.processes {
        format!("{} is one of {} processes, and {} one of {}", new.name(), new.processes, zero.name(), zero.processes)
    } else if new.process >= zero.processes {
        format!("{} is no process of {}", new.name(), zero.processes)
    } else if let Some(twin) = there.iter().find(|hello| hello.process == new.process) {
        format!("{} has come, and {} is there already: each has a number of its own", new.name(), twin.name())
    } else if new.nccl != zero.nccl {
        let versions = [new.nccl, zero.nccl].map(|version| dotted(version as i32));
        format!(
            "{} has NCCL {}, and {} has {}: use one version on all machines",
            new.name(),
            versions[0],
            zero.name(),
            versions[1]
        )
    } else if new.devices.is_empty() {
        format!("{} has no device", new.name())
    } else if let Some(why) = shared(there, new) {
        why
    } else {
        return Fit::Yes;
    };
    Fit::Wrong(wrong)
}

/// Two ranks on one piece of hardware, which NCCL does not connect.
fn shared(there: &[Hello], new: &Hello) -> Option<String> {
    for (index, device) in new.devices.iter().enumerate() {
        if new.devices[..index].contains(device) {
            return Some(format!("{} has two ranks on the GPU {device}: one device a GPU takes part", new.name()));
        }
        let other = there.iter().find(|hello| hello.machine == new.machine && hello.devices.contains(device));
        if let Some(other) = other {
            return Some(format!(
                "{} and {} both have a rank on the GPU {device}: give each process GPUs of its own",
                new.name(),
                other.name()
            ));
        }
    }
    None
}

/// The ranks of each process, by rising number of the process, and how many there are. The hellos are of all processes, in any
/// order.
pub(crate) fn ranks(hellos: &[Hello]) -> (Vec<Range<u32>>, u32) {
    let mut devices = vec![0; hellos.len()];
    for hello in hellos {
        devices[hello.process as usize] = hello.devices.len() as u32;
    }
    let mut end = 0;
    let ranges = devices.into_iter().map(|devices| {
        let first = end;
        end += devices;
        first..end
    });
    let ranges = ranges.collect();
    (ranges, end)
}

/// Who has not come, for a reason: the first of them, and how many more.
pub(crate) fn missing(there: &[Hello], processes: u32) -> String {
    const NAMED: usize = 8;
    let is_there = |process: &u32| there.iter().any(|hello| hello.process == *process);
    let missing: Vec<u32> = (0..processes).filter(|process| !is_there(process)).collect();
    let named: Vec<String> = missing.iter().take(NAMED).map(ToString::to_string).collect();
    let more = missing.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("process{} {}{more}", if missing.len() == 1 { "" } else { "es" }, named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::hello;

    #[test]
    fn ranks_follow_the_processes_however_they_came_and_however_many_devices_each_has() {
        let hellos = [hello(0, 3, &["a"]), hello(2, 3, &["a", "b", "c"]), hello(1, 3, &["a", "b"])];
        assert_eq!(ranks(&hellos), (vec![0..1, 1..3, 3..6], 6));
        assert_eq!(ranks(&hellos[..1]).1, 1);
    }

    #[test]
    fn a_process_of_another_run_is_sent_away_and_the_meeting_goes_on() {
        let new = Hello { job: "other".into(), ..hello(1, 2, &["a"]) };
        let Fit::Stranger(why) = fit(&[hello(0, 2, &["a"])], &new) else { panic!("a stranger") };
        assert!(why.contains("\"other\"") && why.contains("\"job\""), "{why}");
    }

    #[test]
    fn processes_that_do_not_fit_are_named_with_what_to_mend() {
        let zero = hello(0, 3, &["a"]);
        let one = hello(1, 3, &["a"]);
        let machine = zero.machine.clone();
        let cases = [
            (
                hello(1, 2, &["a"]),
                "process 1 (host1, pid 101) is one of 2 processes, and process 0 (host0, pid 100) one of 3",
            ),
            (hello(7, 3, &["a"]), "no process of 3"),
            (hello(1, 3, &["b"]), "process 1 (host1, pid 101) is there already"),
            (
                Hello { nccl: 22_809, ..hello(2, 3, &["a"]) },
                "has NCCL 2.28.9, and process 0 (host0, pid 100) has 2.27.3",
            ),
            (hello(2, 3, &[]), "has no device"),
            (hello(2, 3, &["b", "b"]), "two ranks on the GPU b"),
            (Hello { machine, ..hello(2, 3, &["a"]) }, "both have a rank on the GPU a"),
        ];
        for (new, says) in cases {
            let Fit::Wrong(why) = fit(&[zero.clone(), one.clone()], &new) else { panic!("{says}") };
            assert!(why.contains(says), "{why}");
        }
        assert_eq!(fit(&[zero, one], &hello(2, 3, &["a", "b"])), Fit::Yes);
    }

    #[test]
    fn who_has_not_come_is_named() {
        let there = [hello(0, 3, &["a"]), hello(2, 3, &["a"])];
        assert_eq!(missing(&there, 3), "process 1");
        assert_eq!(missing(&there, 12), "processes 1, 3, 4, 5, 6, 7, 8, 9 and 2 more");
    }
}
