//! What is measured, and what a peer does for it.
//!
//! The work is the same for all. There are [`PAIRS`] pairs of small buffers of [`SMALL`] floats, and one pair of large ones
//! of [`LARGE`] floats. A launch adds the first buffer of a pair to the second. The launches of a batch are over pairs of their
//! own, so that a peer may run them in any order or at the same time.

/// What every step answers: nothing, or why it cannot be.
pub type Result<T = ()> = std::result::Result<T, String>;

/// The pairs of small buffers, and so the launches of a batch.
pub const PAIRS: usize = 100;
/// The floats of a small buffer.
pub const SMALL: usize = 1024;
/// The threads of a group of a small launch: the most that every peer takes.
pub const GROUP: usize = 256;
/// The floats of a large buffer: 64 MiB.
pub const LARGE: usize = 16 << 20;
/// The bytes of an allocation that is made and dropped.
pub const ALLOCATION: usize = 1 << 20;

/// One figure of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// The caller's processor time for a submit of one launch.
    Submit,
    /// The caller's processor time for each launch of a batch.
    Batch,
    /// The time from the submit of a batch until it is done, for each launch.
    BatchDone,
    /// The time of a launch and the wait for it.
    RoundTrip,
    /// Floats added, by the bytes that an add reads and writes.
    Add,
    /// The time to create a buffer and drop it.
    Allocate,
    /// Copies from the program's memory to a buffer.
    Write,
    /// Copies from a buffer to the program's memory.
    Read,
}

impl Line {
    /// Every line, as the table has them.
    pub const ALL: [Line; 8] = [
        Line::Submit,
        Line::Batch,
        Line::BatchDone,
        Line::RoundTrip,
        Line::Add,
        Line::Allocate,
        Line::Write,
        Line::Read,
    ];

    /// What a reader sees of it.
    pub fn title(self) -> &'static str {
        match self {
            Line::Submit => "submit of one launch, processor time of the caller",
            Line::Batch => "each launch in a batch of 100, processor time of the caller",
            Line::BatchDone => "each launch in a batch of 100, until all are done",
            Line::RoundTrip => "one small launch, from its submit to the end of the wait",
            Line::Add => "add over 16 Mi floats",
            Line::Allocate => "create a buffer of 1 MiB and drop it",
            Line::Write => "copy of 64 MiB from the program to a buffer",
            Line::Read => "copy of 64 MiB from a buffer to the program",
        }
    }

    /// The unit of its figures.
    pub fn unit(self) -> &'static str {
        if self.is_rate() { "GB/s" } else { "us" }
    }

    /// Whether more is better.
    pub fn is_rate(self) -> bool {
        matches!(self, Line::Add | Line::Write | Line::Read)
    }
}

/// One way to run the work.
pub trait Peer {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// Its version, and what it runs on.
    fn about(&self) -> String;

    /// Whether it has anything of the kind.
    fn has(&self, _line: Line) -> bool {
        true
    }

    /// Launches once over each small pair, each time by a submit of its own; calls `submitted` when all are submitted, and
    /// returns when all are done.
    fn singles(&mut self, submitted: &mut dyn FnMut()) -> Result;

    /// As [`singles`](Peer::singles), by as few submits as the peer needs for it.
    fn batch(&mut self, submitted: &mut dyn FnMut()) -> Result;

    /// Launches over the first small pair, and waits for it.
    fn round_trip(&mut self) -> Result;

    /// Adds the large pair, and waits for it.
    fn add(&mut self) -> Result;

    /// Creates a buffer of [`ALLOCATION`] bytes, and drops it.
    fn allocate(&mut self) -> Result;

    /// Writes the second buffer of the large pair.
    fn write(&mut self, from: &[f32]) -> Result;

    /// Reads the second buffer of the large pair.
    fn read(&mut self, to: &mut [f32]) -> Result;

    /// What the second buffer of a small pair holds.
    fn small(&mut self, pair: usize) -> Result<Vec<f32>>;
}
