//! Which values of one timeline failed, and why.
//!
//! Points outlive devices and may ask at any time, so nothing here is ever forgotten: a service that loses devices for years keeps
//! 48 bytes for each loss that failed anything. The texts are shared by all that have the same ([`Reasons`]).
//!
//! # Invariants
//!
//! 1. Ranges rise and do not overlap, so a value is found by halving, and one above all of them at once.
//! 2. A value that failed keeps its reason.
//! 3. Only the last range may be open: a loss leaves its end open (`u64::MAX`) until stop knows the last value.

use std::collections::HashSet;
use std::sync::Arc;

use super::Lost;

/// Values that failed for one reason.
#[derive(Debug)]
struct Failure {
    from: u64,
    to: u64,
    lost: Lost,
}

/// The failed values of one timeline.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<Failure>);

impl Failures {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Why the value failed, if it did.
    pub(super) fn of(&self, value: u64) -> Option<&Lost> {
        let at = self.0.partition_point(|failure| failure.to < value);
        self.0.get(at).filter(|failure| failure.from <= value).map(|failure| &failure.lost)
    }

    /// Fails one value. False if it had failed before.
    pub(super) fn fail(&mut self, value: u64, lost: Lost) -> bool {
        let at = self.0.partition_point(|failure| failure.to < value);
        if self.0.get(at).is_some_and(|failure| failure.from <= value) {
            return false;
        }
        // The values that wait for one lost device fail one after the other, for one reason.
        match self.0[..at].last_mut() {
            Some(before) if before.to + 1 == value && before.lost.is_same(&lost) => before.to = value,
            _ => self.0.insert(at, Failure { from: value, to: value, lost }),
        }
        true
    }

    /// Fails every value from `from` on, but those that have failed before.
    pub(super) fn fail_from(&mut self, from: u64, lost: &Lost) {
        let at = self.0.partition_point(|failure| failure.to < from);
        let mut next = from;
        for earlier in self.0.split_off(at) {
            if next < earlier.from {
                self.0.push(Failure { from: next, to: earlier.from - 1, lost: lost.clone() });
            }
            let to = earlier.to;
            self.0.push(earlier);
            if to == u64::MAX {
                return;
            }
            next = to + 1;
        }
        self.0.push(Failure { from: next, to: u64::MAX, lost: lost.clone() });
    }

    /// Ends the open range at its last value, and has its texts kept where it has any.
    pub(super) fn end(&mut self, last: u64, kept: impl FnOnce(&Lost) -> Lost) {
        let Some(open) = self.0.last_mut().filter(|failure| failure.to == u64::MAX) else { return };
        if open.from > last {
            self.0.pop();
        } else {
            open.to = last;
            open.lost = kept(&open.lost);
        }
    }
}

/// The texts of all failures, each once: devices of one name are mostly lost for one of a few reasons.
#[derive(Debug, Default)]
pub(super) struct Reasons(HashSet<Lost>);

impl Reasons {
    /// The same texts, in the memory that all failures of them share.
    pub(super) fn kept(&mut self, lost: &Lost) -> Lost {
        if let Some(kept) = self.0.get(lost) {
            return kept.clone();
        }
        // A copy: the device's own name may lie among memory that goes when the device does, and would hold its page.
        let kept = Lost { device: Arc::from(&*lost.device), why: Arc::from(&*lost.why) };
        self.0.insert(kept.clone());
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(why: &str) -> Lost {
        Lost { device: "A".into(), why: why.into() }
    }

    /// Why each value from 0 to 12 failed.
    fn told(failures: &Failures) -> String {
        (0..=12).map(|value| failures.of(value).map_or("-".into(), |lost| lost.why.to_string())).collect()
    }

    #[test]
    fn a_loss_fails_what_has_not_failed_before_and_ends_at_the_last_value() {
        let mut failures = Failures::default();
        assert!(failures.fail(7, lost("b")) && failures.fail(5, lost("a")) && failures.fail(6, lost("a")));
        assert!(!failures.fail(6, lost("c")), "it has failed");
        failures.fail_from(4, &lost("d"));
        assert_eq!(told(&failures), "----daabddddd");
        failures.fail_from(2, &lost("e"));
        assert_eq!(told(&failures), "--eedaabddddd", "each keeps its reason");
        failures.end(10, Lost::clone);
        failures.end(9, Lost::clone);
        assert_eq!(told(&failures), "--eedaabddd--", "an end is the first that was told");
    }

    #[test]
    fn a_device_that_closes_in_peace_leaves_nothing() {
        let mut failures = Failures::default();
        failures.fail_from(5, &lost("a"));
        failures.end(4, |_| unreachable!("nothing has failed"));
        assert!(failures.is_empty());
    }

    #[test]
    fn values_that_fail_one_after_the_other_for_one_reason_are_one_range() {
        let (mut failures, why) = (Failures::default(), lost("a"));
        (3..1000).for_each(|value| assert!(failures.fail(value, why.clone())));
        assert_eq!(failures.0.len(), 1);
    }

    #[test]
    fn equal_texts_are_kept_once() {
        let mut reasons = Reasons::default();
        let (first, again) = (reasons.kept(&lost("a")), reasons.kept(&lost("a")));
        assert!(first.is_same(&again) && !first.is_same(&lost("a")));
    }
}
