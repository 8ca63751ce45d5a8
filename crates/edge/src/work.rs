//! Work as rig hands it to a driver: parts made once, and what each submit changes.
//!
//! A submission's [`Part`]s are made once and never change. A [`Work`] is one submit of them: the grids and parameters
//! of the run, the memory that fills the slots, and the waits. Everything in a `Work` is lent for the call alone: a
//! driver copies what it needs later, since the run is used again at once.

use std::ffi::c_void;
use std::sync::Arc;

use crate::{Driver, Fault, Times, WordIndex};

/// Whether a part reads or writes a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads and never writes.
    Read,
    /// Writes, and may also read (C27).
    Write,
}

/// A place in a launch's parameters where the kernel finds the address of a slot's memory (C12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ref {
    /// The slot.
    pub slot: u32,
    /// Where the 8 bytes stand in the parameters. They hold an offset in native byte order; the kernel reads there the
    /// device address of the slot's first byte plus that offset.
    pub at: u32,
    /// What the kernel does with the memory.
    pub access: Access,
}

/// One part of a submission.
pub enum Part<D: Driver> {
    /// Runs a function over a grid.
    Launch(Launch<D::Entry>),
    /// Copies the bytes of one slot to another of the same length. The ranges do not overlap.
    Copy(Copy),
    /// Sets each byte of a slot.
    Memset(Memset),
    /// Host code that encodes commands of the driver's own.
    Fill(Fill<D>),
}

/// A launch: everything of it that no run changes. Grid and parameters stand in the run's [`Block`].
#[derive(Debug)]
pub struct Launch<E> {
    /// What the driver's `entry` made for the function. Lives until the submission's last value is reached.
    pub entry: E,
    /// The refs, at rising and disjoint places.
    pub refs: Box<[Ref]>,
}

/// A copy between two slots. Zero bytes are a copy that does nothing and keeps its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The slot that is read.
    pub from: u32,
    /// The slot that is written.
    pub to: u32,
}

/// Sets each byte of a slot to `byte`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memset {
    /// The slot that is written.
    pub slot: u32,
    /// The value of each byte.
    pub byte: u8,
}

/// A fill's code: gets the driver's encoder and the slots' memory; an error is the failure of the submit.
pub type FillFn<D> =
    dyn for<'e> Fn(&mut <D as Driver>::Encoder<'e>, &[Slot]) -> Result<(), String> + Send + Sync + 'static;

/// A fill, called once in each submit, in the place of its part.
pub struct Fill<D: Driver> {
    /// The code.
    pub code: Box<FillFn<D>>,
}

/// What a run says of one part; for a part that is no launch, it is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Groups along x, y, z.
    pub groups: [u32; 3],
    /// Threads of a group along x, y, z.
    pub threads: [u32; 3],
    /// The bytes of group memory that the launch asks for beside what its function declares.
    pub group_bytes: u32,
    /// Where the launch's parameters start in [`Work::params`]; a multiple of 8.
    pub params_at: u32,
    /// The bytes of the launch's parameters.
    pub params_len: u32,
}

/// The memory that fills a slot in one submit.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The device address of the first byte.
    pub device: u64,
    /// The host address of the first byte, or null.
    pub host: *mut u8,
    /// The bytes.
    pub len: u64,
    /// The vendor's object of the region, or null; the slot starts `handle_offset` bytes into it. Both are filled in only
    /// for a submission with a fill, which alone looks at them.
    pub handle: *const c_void,
    /// Where in the vendor's object the slot starts, in bytes.
    pub handle_offset: u64,
}

// SAFETY: a Slot is addresses and lengths, plain data: nothing is read through them by this type. Whoever dereferences
// one proves it there.
#[expect(unsafe_code, reason = "raw addresses are plain data")]
unsafe impl Send for Slot {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "raw addresses are plain data")]
unsafe impl Sync for Slot {}

/// A queue wait: the work starts only once the word at `word` shows `value` or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The other device's word.
    pub word: WordIndex,
    /// The value.
    pub value: u64,
}

/// Memory of the driver's for each part of a run: written by `room` or `submit`, kept until the run's next submit, zero
/// in a new run.
pub type Scratch = [u64; 4];

/// One submit, as `room` and `submit` get it.
#[derive(Debug)]
pub struct Work<'a> {
    /// One block a part.
    pub blocks: &'a [Block],
    /// The parameters of all launches; the blocks say where each stands. The first byte is on 8 bytes.
    pub params: &'a [u8],
    /// The memory of each slot.
    pub slots: &'a [Slot],
    /// Whether no two slots share an allocation. Parts that share no slot which one of them writes then share no memory
    /// that one of them writes, and a driver may run them at once; else it runs all parts one after the other.
    pub apart: bool,
    /// The waits for other devices' words; at most `facts.waits.most`.
    pub waits: &'a [Wait],
    /// One scratch a part: `submit` gets the one that its `room` wrote (E37).
    pub scratch: &'a mut [Scratch],
    /// Where the driver notes when the work ran, while somebody takes a profile; it keeps a clone where it notes later. What
    /// it notes before it raises the word is seen with the word (E38).
    pub times: Option<&'a Arc<Times>>,
}

impl<'a> Work<'a> {
    /// The parameters of the launch with `block`.
    #[inline]
    pub fn params_of(&self, block: &Block) -> &'a [u8] {
        let at = block.params_at as usize;
        &self.params[at..at + block.params_len as usize]
    }
}

/// The answer of `room` (E08).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is room now.
    Ok,
    /// There will be, once earlier work that is in flight has completed.
    Later,
    /// There will be, once [`Driver::grow`] has run.
    Grow,
    /// There can never be, and why.
    Refused(String),
}

/// The answer of `submit` (E10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// Every value up to this one runs without further calls.
    Committed,
    /// The work runs once it is committed.
    Encoded,
    /// The submit failed, and the device with it.
    Failed(Fault),
}
