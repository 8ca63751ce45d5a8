//! The buffers that hold launches' parameters: the arena that is in use, one that a growth made for the next submission, and
//! those that old command buffers still use.
//!
//! # Invariants
//!
//! 1. Generations rise. `retired` holds arenas of generations below the current one's, in order, each until no command buffer
//!    that is open or in the ring has taken bytes of it.
//! 2. Launches take bytes of the current arena alone, in the hot calls.

use crate::arena::{Arena, Placing};
use crate::object::Held;
use crate::sys::MTLBuffer;

/// An arena with its memory.
pub(crate) struct Memory {
    pub buffer: Held<dyn MTLBuffer>,
    /// The host address of the first byte.
    pub host: *mut u8,
    pub arena: Arena,
}

// SAFETY: the address is of memory that the buffer keeps; who writes through it proves that nobody else uses the bytes.
#[expect(unsafe_code, reason = "an address is plain data")]
unsafe impl Send for Memory {}

/// All arenas of a device.
#[derive(Default)]
pub(crate) struct Params {
    generation: u64,
    current: Option<Memory>,
    grown: Option<Memory>,
    retired: Vec<(u64, Memory)>,
}

/// Bytes that a command buffer's launches took: those of its oldest arena's generation on, and of its newest arena all up to
/// `head`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub oldest: u64,
    newest: u64,
    head: u64,
}

impl Taken {
    /// What a command buffer took that took this after `before`.
    pub fn after(self, before: Option<Taken>) -> Taken {
        Taken { oldest: before.map_or(self.oldest, |before| before.oldest), ..self }
    }
}

/// What room says of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Now,
    Later,
    Grow,
}

impl Params {
    /// Takes up what a growth made. Before the hot calls look at the arena.
    fn adopt(&mut self) {
        let Some(grown) = self.grown.take() else { return };
        self.generation += 1;
        if let Some(old) = self.current.replace(grown)
            && !old.arena.is_empty()
        {
            self.retired.push((self.generation - 1, old));
        }
    }

    /// Whether blocks that take `need` bytes together fit, with the sizes of the single blocks; `placed` gets each offset.
    pub fn fit(
        &mut self,
        need: u64,
        blocks: impl Iterator<Item = u64>,
        mut placed: impl FnMut(usize, u64),
    ) -> (Fit, Placing) {
        self.adopt();
        let Some(Memory { arena, .. }) = self.current.as_ref().filter(|memory| memory.arena.capacity() >= need) else {
            return (Fit::Grow, Placing { start: 0, end: 0 });
        };
        let mut placing = arena.placing();
        for (index, bytes) in blocks.enumerate() {
            if bytes == 0 {
                continue;
            }
            match arena.place(&mut placing, bytes) {
                Some(offset) => placed(index, offset),
                None => return (Fit::Later, placing),
            }
        }
        (Fit::Now, placing)
    }

    /// Takes what was placed. Gives the current arena with it, which stays until the next `fit`, a hot call.
    pub fn take(&mut self, placing: Placing) -> Option<(Taken, &Memory)> {
        let current = self.current.as_mut()?;
        current.arena.take(placing);
        Some((Taken { oldest: self.generation, newest: self.generation, head: placing.end }, current))
    }

    /// Gives back what a command buffer took, which has completed, as have all before it.
    pub fn give_back(&mut self, taken: Taken) {
        if taken.newest == self.generation
            && let Some(current) = &mut self.current
        {
            current.arena.give_back(taken.head);
        }
    }

    /// Whether some arena waits for its last user.
    pub fn any_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Releases the arenas that nothing uses any more: those older than `oldest`, the oldest in use.
    pub fn release_before(&mut self, oldest: u64) {
        self.retired.retain(|(generation, _)| *generation >= oldest);
    }

    /// Whether an arena, in use or made for the next submission, holds `need` bytes already.
    pub fn holds(&self, need: u64) -> bool {
        let holds = |memory: &Option<Memory>| memory.as_ref().is_some_and(|memory| memory.arena.capacity() >= need);
        holds(&self.current) || holds(&self.grown)
    }

    /// Keeps what a growth made for the next submission, unless there is one as large. Gives back what is left over.
    pub fn offer(&mut self, memory: Memory) -> Option<Memory> {
        if self.holds(memory.arena.capacity()) { Some(memory) } else { self.grown.replace(memory) }
    }
}
