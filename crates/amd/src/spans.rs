//! Which addresses of a range are free: first fit, with neighbours joined.
//!
//! The GPU's own memory is placed in one range of the process's addresses, so that an address alone tells whether it is the
//! GPU's own. Chosen before a binary buddy, which would waste half of a large buffer's addresses: calls are rare and each has
//! a call of the kernel beside it.
//!
//! # Invariants
//!
//! 1. Free spans are disjoint, not empty, and no two of them touch.

use std::collections::BTreeMap;

/// The free addresses of a range.
#[derive(Debug)]
pub(crate) struct Spans {
    /// Length by start.
    free: BTreeMap<u64, u64>,
}

impl Spans {
    /// All `len` bytes at `start` are free.
    pub fn new(start: u64, len: u64) -> Spans {
        Spans { free: BTreeMap::from([(start, len)]) }
    }

    /// Takes `len` bytes on `align`, a power of two.
    pub fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        let (start, span, at) = self.free.iter().find_map(|(&start, &span)| {
            let at = start.checked_next_multiple_of(align)?;
            let fits = at.checked_add(len)? <= start + span;
            fits.then_some((start, span, at))
        })?;
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        if at + len < start + span {
            self.free.insert(at + len, start + span - at - len);
        }
        Some(at)
    }

    /// Gives back what `take` gave.
    pub fn give(&mut self, at: u64, len: u64) {
        let (mut start, mut end) = (at, at + len);
        if let Some((&before, &span)) = self.free.range(..at).next_back()
            && before + span == at
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(span) = self.free.remove(&end) {
            end += span;
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_on_its_alignment_apart_from_all_else_and_comes_back_whole() {
        let mut seed = 11_u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let (base, size) = (3 << 12, 64 << 12);
        let mut spans = Spans::new(base, size);
        let mut held: Vec<(u64, u64)> = Vec::new();
        for _ in 0..20_000 {
            if random(2) == 0 && !held.is_empty() {
                let (at, len) = held.swap_remove(random(held.len() as u64) as usize);
                spans.give(at, len);
            } else {
                let (len, align) = ((1 + random(9)) << 12, 1 << (12 + random(4)));
                match spans.take(len, align) {
                    Some(at) => {
                        assert!(at.is_multiple_of(align) && at >= base && at + len <= base + size);
                        assert!(held.iter().all(|&(other, n)| at + len <= other || other + n <= at));
                        held.push((at, len));
                    }
                    None => {
                        // The oracle: no start in the range is free for all of its bytes.
                        let mut starts = (base..base + size).step_by(1 << 12).filter(|at| at.is_multiple_of(align));
                        let free = |at: u64| {
                            at + len <= base + size && held.iter().all(|&(o, n)| at + len <= o || o + n <= at)
                        };
                        assert!(!starts.any(free), "{len} on {align} fits");
                    }
                }
            }
        }
        held.drain(..).for_each(|(at, len)| spans.give(at, len));
        assert_eq!(spans.free, BTreeMap::from([(base, size)]));
    }

    #[test]
    fn lengths_that_wrap_are_not_to_be_had() {
        let mut spans = Spans::new(1 << 40, 1 << 20);
        assert_eq!(spans.take(u64::MAX - 5, 1 << 12), None);
        assert_eq!(spans.take(1 << 20, 1 << 21), Some(1 << 40));
    }
}
