//! The committed command buffers, in the order in which they were committed.
//!
//! Pure: an entry knows its command buffer by address alone. Metal keeps a committed command buffer alive until its handlers
//! have run, so of the entries that have not completed no two have one address.
//!
//! # Invariants
//!
//! 1. `uncompleted` is the number of entries that have not completed.
//! 2. An entry leaves at the front, and only once it has completed: so entries leave in the order of their commits,
//!    whatever the order in which handlers run.

use std::collections::VecDeque;

/// How many command buffers a device has at most: as many as its Metal queue holds.
pub(crate) const MOST: usize = 1024;

/// A committed command buffer.
pub(crate) struct Entry<T> {
    address: usize,
    completed: bool,
    /// What leaves with it.
    pub content: T,
}

/// The ring.
pub(crate) struct Ring<T> {
    entries: VecDeque<Entry<T>>,
    uncompleted: usize,
}

impl<T> Ring<T> {
    /// An empty ring with room for all that a queue holds.
    pub fn new() -> Ring<T> {
        Ring { entries: VecDeque::with_capacity(MOST), uncompleted: 0 }
    }

    /// How many have not completed.
    #[inline]
    pub fn uncompleted(&self) -> usize {
        self.uncompleted
    }

    /// Adds the command buffer at `address`, which is about to be committed.
    pub fn push(&mut self, address: usize, content: T) {
        self.entries.push_back(Entry { address, completed: false, content });
        self.uncompleted += 1;
    }

    /// Takes the newest entry back: its commit failed.
    pub fn take_back(&mut self) -> Option<T> {
        let entry = self.entries.pop_back()?;
        self.uncompleted -= usize::from(!entry.completed);
        Some(entry.content)
    }

    /// The command buffer at `address` has completed. None if there is none.
    pub fn complete(&mut self, address: usize) -> Option<&mut T> {
        let entry = self.entries.iter_mut().find(|entry| !entry.completed && entry.address == address)?;
        entry.completed = true;
        self.uncompleted -= 1;
        Some(&mut entry.content)
    }

    /// The oldest entry, if it has completed.
    pub fn pop(&mut self) -> Option<T> {
        if self.entries.front()?.completed { self.entries.pop_front().map(|entry| entry.content) } else { None }
    }

    /// Gives its memory back, after the last entry.
    pub fn release(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// The entries, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise M32.
    #[test]
    fn entries_leave_in_commit_order_whatever_the_order_of_the_handlers() {
        // All orders of five handlers.
        let orders = (0..5usize.pow(5)).filter_map(|code| {
            let order: Vec<usize> = (0..5).map(|digit| code / 5usize.pow(digit) % 5).collect();
            (0..5).all(|i| order.contains(&i)).then_some(order)
        });
        let mut seen = 0;
        for order in orders {
            let mut ring = Ring::new();
            (0..5).for_each(|i| ring.push(100 + i, i));
            let mut left = Vec::new();
            for (ran, &handler) in order.iter().enumerate() {
                assert_eq!(ring.complete(100 + handler), Some(&mut handler.clone()));
                assert_eq!(ring.complete(100 + handler), None, "a command buffer completes once");
                left.extend(std::iter::from_fn(|| ring.pop()));
                let due = (0..5).take_while(|i| order[..=ran].contains(i)).count();
                assert_eq!(left, (0..due).collect::<Vec<_>>(), "{order:?} after {ran}");
                assert_eq!(ring.uncompleted(), 4 - ran);
            }
            seen += 1;
        }
        assert_eq!(seen, 120);
    }

    #[test]
    fn an_address_that_comes_again_is_the_newer_command_buffers() {
        let mut ring = Ring::new();
        ring.push(1, 'a');
        ring.push(2, 'b');
        ring.complete(2);
        ring.push(2, 'c');
        assert_eq!(ring.complete(2), Some(&mut 'c'));
        assert_eq!(ring.iter().next(), Some(&'a'));
        ring.push(3, 'd');
        assert_eq!(ring.take_back(), Some('d'));
        assert_eq!(ring.uncompleted(), 1);
    }
}
