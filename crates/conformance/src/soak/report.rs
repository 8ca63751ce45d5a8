//! What ran and what was seen, as text, and whether it is as it should be.

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::takes::Takes;
use super::watch::Looked;
use super::{Common, Kind, LOSS_BYTES, MARGIN_BYTES, THREADS};

/// How many of something a driver, or what stands under it, has at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    what: String,
    now: u64,
    margin: u64,
}

impl Count {
    /// So many, and never more at a later moment.
    pub fn exact(what: &str, now: u64) -> Count {
        Count::within(what, now, 0)
    }

    /// So many, and at a later moment at most by `margin` more. A margin is a figure that follows from how the driver works, and
    /// stands with its reason where the count is made.
    pub fn within(what: &str, now: u64, margin: u64) -> Count {
        Count { what: what.to_owned(), now, margin }
    }
}

/// What is more than before, if anything is. What was not counted before was none.
pub(super) fn more(before: &[Count], now: &[Count]) -> Option<String> {
    let had = |what: &str| before.iter().find(|count| count.what == what).map_or(0, |count| count.now);
    let grown = now.iter().filter(|count| count.now > had(&count.what) + count.margin);
    let told: Vec<String> =
        grown.map(|count| format!("{}: {}, and {} before", count.what, count.now, had(&count.what))).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// What the load did.
pub(super) struct Tally {
    devices: Vec<String>,
    ended: Vec<(Kind, u64)>,
    left_out: Vec<(Kind, String)>,
    copies: Vec<String>,
    timed: Vec<String>,
}

impl Tally {
    pub fn of(common: &Common) -> Tally {
        let ended = |&kind: &Kind| (kind, common.ended[kind as usize].load(Ordering::Relaxed));
        let copies = common.copies.lock().unwrap_or_else(PoisonError::into_inner);
        Tally {
            devices: common.shared.iter().map(|(device, _)| device.name().to_owned()).collect(),
            ended: common.kinds.iter().map(ended).collect(),
            left_out: common.left_out.clone(),
            copies: copies.iter().map(|(path, count)| format!("{count} {path:?}")).collect(),
            timed: common.timed.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn episodes(&self) -> u64 {
        self.ended.iter().map(|(_, count)| count).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let ended: Vec<String> = self.ended.iter().map(|(kind, count)| format!("{count} {}", kind.name())).collect();
        writeln!(
            f,
            "{} episodes of {THREADS} threads on {}: {}",
            self.episodes(),
            names(&self.devices),
            ended.join(", ")
        )?;
        for (kind, why) in &self.left_out {
            writeln!(f, "left out {}: {why}", kind.name())?;
        }
        writeln!(
            f,
            "copies by their ways: {}; devices whose times were in profiles: {}",
            names(&self.copies),
            names(&self.timed)
        )
    }
}

/// All of one soak.
pub(super) struct Report<'s> {
    pub name: &'s str,
    pub time: Duration,
    /// By how much files and threads may be more than in the warm-up.
    pub handles: u64,
    pub tally: Tally,
    /// Before the first device was opened.
    pub before: (Takes, Vec<Count>),
    pub looked: Looked,
    /// After the last was closed.
    pub after: (Takes, Vec<Count>),
}

impl Report<'_> {
    /// By how many bytes resident memory may be more than in the warm-up.
    fn margin(&self) -> u64 {
        MARGIN_BYTES + LOSS_BYTES * self.looked.losses
    }

    /// Prints it, and fails where it is not as it should be.
    pub fn judge(self) -> Result<(), String> {
        println!("{self}");
        let Report { handles, tally, looked, before, after, .. } = &self;
        let (warm, most) = (looked.warm, looked.most);
        let never = tally.ended.iter().find(|(_, count)| *count == 0);
        let told = [
            never.map(|(kind, _)| format!("{}: none ran", kind.name())),
            more(&looked.first, &looked.last).map(|what| format!("more at a later rest than at the first: {what}")),
            (most.bytes > warm.bytes + self.margin()).then(|| format!("memory grew: {warm:?}, then {most:?}")),
            (most.files > warm.files + handles).then(|| format!("files grew: {warm:?}, then {most:?}")),
            (most.threads > warm.threads + handles).then(|| format!("threads grew: {warm:?}, then {most:?}")),
            more(&before.1, &after.1).map(|what| format!("more after the last device than before the first: {what}")),
            (after.0.files > before.0.files)
                .then(|| format!("files were left open: {:?}, then {:?}", before.0, after.0)),
            (after.0.threads > before.0.threads)
                .then(|| format!("threads were left: {:?}, then {:?}", before.0, after.0)),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        if told.is_empty() { Ok(()) } else { Err(told.join("\n")) }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { name, time, tally, before, looked, after, .. } = self;
        write!(f, "soak of {name}, {} s: {tally}", time.as_secs())?;
        let mib = |bytes: &u64| (bytes >> 20).to_string();
        let rests: Vec<String> = looked.rests.iter().map(mib).collect();
        let (warm, most, rests) = (mib(&looked.warm.bytes), mib(&looked.most.bytes), rests.join(", "));
        writeln!(f, "resident: {warm} MiB in the warm-up, {most} at most after it; at the rests {rests}")?;
        let three = |of: fn(&Takes) -> u64| format!("{}, {}, {}", of(&before.0), of(&looked.most), of(&after.0));
        let (files, threads) = (three(|takes| takes.files), three(|takes| takes.threads));
        writeln!(f, "before the first device, at most, after the last: files {files}; threads {threads}")?;
        let counts: Vec<String> = looked.last.iter().map(|count| format!("{} {}", count.now, count.what)).collect();
        writeln!(
            f,
            "counted at the last rest: {}",
            if counts.is_empty() { "nothing".into() } else { counts.join(", ") }
        )?;
        let shows = self.margin().div_ceil(looked.episodes.max(1));
        write!(f, "memory that leaked would have shown from {shows} bytes an episode on")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_never_ran_fails_the_soak_and_is_named() {
        let report = |borrows: u64| {
            let ended = vec![(Kind::Words, 7), (Kind::Borrows, borrows)];
            let tally =
                Tally { devices: Vec::new(), ended, left_out: Vec::new(), copies: Vec::new(), timed: Vec::new() };
            let (warm, most, first, last) = (Takes::default(), Takes::default(), Vec::new(), Vec::new());
            let looked = Looked { warm, most, rests: Vec::new(), first, last, episodes: 1, losses: 0 };
            let (before, after) = ((Takes::default(), Vec::new()), (Takes::default(), Vec::new()));
            Report { name: "a test", time: Duration::ZERO, handles: 0, tally, before, looked, after }
        };
        assert_eq!(report(1).judge(), Ok(()));
        assert_eq!(report(0).judge(), Err("borrows: none ran".to_owned()));
    }

    #[test]
    fn a_count_may_grow_by_its_margin_and_what_is_new_counts_from_none() {
        let before = [Count::within("bytes", 100, 8), Count::exact("queues", 2)];
        assert_eq!(more(&before, &[Count::within("bytes", 108, 8), Count::exact("queues", 1)]), None);
        let grown = [Count::within("bytes", 109, 8), Count::exact("events", 1), Count::exact("queues", 2)];
        assert_eq!(more(&before, &grown).as_deref(), Some("bytes: 109, and 100 before; events: 1, and 0 before"));
    }
}
