//! The stamps of an allocation: the points of its last writes and uses.
//!
//! # Invariants
//!
//! 1. `write` is the last work that wrote; `read` and `more` are uses since then that a later write must follow, at most
//!    one a slot: a device runs its values in order, so its last one stands for all.
//! 2. Once the words show every stamp, no work touches the memory: a stamp is dropped only when its word shows it, or
//!    when a later stamp of the same slot takes its place (C31).
//!
//! Invariant 2 is why a write keeps the stamps of other devices that it only waits for on a queue: if the writing device
//! is lost, its word passes the write while their work still runs.

use crate::timeline::{NO_SLOT, Stamp, word_shows};

/// The stamps of one allocation. 32 bytes: an allocation's hot part is to fit a line and a half.
#[derive(Debug)]
pub(crate) struct Stamps {
    write_slot: u32,
    read_slot: u32,
    write_value: u64,
    read_value: u64,
    /// Uses by further devices. Boxed because hardly any allocation has them.
    #[expect(clippy::box_collection, reason = "8 bytes in each of millions of allocations, instead of 24")]
    more: Option<Box<Vec<Stamp>>>,
}

impl Stamps {
    pub(crate) const fn new() -> Stamps {
        Stamps { write_slot: NO_SLOT, read_slot: NO_SLOT, write_value: 0, read_value: 0, more: None }
    }

    /// The last write.
    #[inline]
    pub(crate) fn write(&self) -> Option<Stamp> {
        (self.write_slot != NO_SLOT).then_some(Stamp { slot: self.write_slot, value: self.write_value })
    }

    /// The uses since the last write.
    pub(crate) fn reads(&self) -> impl Iterator<Item = Stamp> + '_ {
        let first = (self.read_slot != NO_SLOT).then_some(Stamp { slot: self.read_slot, value: self.read_value });
        first.into_iter().chain(self.more.iter().flat_map(|more| more.iter().copied()))
    }

    /// Runs `f` on each use since the last write. For the hot path, where the iterator's chain costs more than its items.
    #[inline]
    pub(crate) fn each_read(&self, mut f: impl FnMut(Stamp)) {
        if self.read_slot != NO_SLOT {
            f(Stamp { slot: self.read_slot, value: self.read_value });
        }
        if let Some(more) = &self.more {
            more.iter().copied().for_each(f);
        }
    }

    /// Every stamp.
    pub(crate) fn all(&self) -> impl Iterator<Item = Stamp> + '_ {
        self.write().into_iter().chain(self.reads())
    }

    /// Adds a read.
    #[inline]
    pub(crate) fn add_read(&mut self, stamp: Stamp) {
        if self.read_slot == stamp.slot || self.read_slot == NO_SLOT {
            (self.read_slot, self.read_value) = (stamp.slot, stamp.value);
        } else {
            self.add_more(stamp);
        }
    }

    #[cold]
    fn add_more(&mut self, stamp: Stamp) {
        let more = self.more.get_or_insert_default();
        if let Some(same) = more.iter_mut().find(|s| s.slot == stamp.slot) {
            *same = stamp;
            return;
        }
        more.retain(|s| !word_shows(*s));
        more.push(stamp);
    }

    /// Adds a write, which follows every use so far.
    #[inline]
    pub(crate) fn add_write(&mut self, stamp: Stamp) {
        let own = |slot| slot == stamp.slot || slot == NO_SLOT;
        if own(self.write_slot) && own(self.read_slot) && self.more.is_none() {
            self.read_slot = NO_SLOT;
        } else {
            self.keep_unreached(stamp.slot);
        }
        (self.write_slot, self.write_value) = (stamp.slot, stamp.value);
    }

    /// Keeps, as uses, the stamps of other slots than `own` whose words do not show them (invariant 2).
    #[cold]
    fn keep_unreached(&mut self, own: u32) {
        let write = self.write();
        let read = (self.read_slot != NO_SLOT).then_some(Stamp { slot: self.read_slot, value: self.read_value });
        self.read_slot = NO_SLOT;
        if let Some(more) = &mut self.more {
            more.retain(|s| s.slot != own && !word_shows(*s));
        }
        for stamp in write.into_iter().chain(read).filter(|s| s.slot != own && !word_shows(*s)) {
            self.raise_read(stamp);
        }
    }

    /// As [`add_read`](Stamps::add_read), but never lowers a slot's value.
    fn raise_read(&mut self, stamp: Stamp) {
        let known = self.reads().find(|s| s.slot == stamp.slot);
        if known.is_none_or(|s| s.value < stamp.value) {
            self.add_read(stamp);
        }
    }

    /// Forgets the last write: the host has written everything anew, after every use was done.
    pub(crate) fn forget_write(&mut self) {
        self.write_slot = NO_SLOT;
    }

    /// Whether the words show every stamp: then no work touches the memory.
    pub(crate) fn all_shown(&self) -> bool {
        self.all().all(word_shows)
    }
}

#[cfg(all(test, not(rig_shuttle)))]
mod tests {
    use super::*;
    use rig_edge::{WordIndex, Words};

    fn stamp(slot: u32, value: u64) -> Stamp {
        Stamp { slot, value }
    }

    #[test]
    fn a_write_takes_the_place_of_its_own_devices_uses() {
        let mut stamps = Stamps::new();
        stamps.add_read(stamp(900, 1));
        stamps.add_read(stamp(900, 2));
        assert_eq!(stamps.reads().collect::<Vec<_>>(), [stamp(900, 2)]);
        stamps.add_write(stamp(900, 3));
        assert_eq!(stamps.all().collect::<Vec<_>>(), [stamp(900, 3)]);
    }

    #[test]
    fn a_write_keeps_what_other_devices_words_do_not_show_yet() {
        let mut stamps = Stamps::new();
        stamps.add_write(stamp(901, 1));
        stamps.add_read(stamp(902, 1));
        stamps.add_read(stamp(903, 1));
        Words::get().word(WordIndex::new(902)).raise(1);
        stamps.add_write(stamp(904, 1));
        assert_eq!(stamps.write(), Some(stamp(904, 1)));
        let mut kept: Vec<_> = stamps.reads().collect();
        kept.sort_by_key(|s| s.slot);
        assert_eq!(kept, [stamp(901, 1), stamp(903, 1)]);
        assert!(!stamps.all_shown());
        for slot in [901, 903, 904] {
            Words::get().word(WordIndex::new(slot)).raise(1);
        }
        assert!(stamps.all_shown());
    }
}
