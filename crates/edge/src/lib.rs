//! What a driver of rig is.
//!
//! A driver crate depends on this crate and never on rig (promise E01). It gives an [`Opener`], whose
//! [`make`](Opener::make) opens a device, and implements [`Driver`] for that device: the facts that rig reads once,
//! memory, code, the three hot calls that run work, and stop. rig meets a driver only through this interface, erased
//! once per object by [`erased`], so each hot call is one virtual call on typed data.
//!
//! Numbers such as E01 and C12 are promises: docs/promises.md of the repository states each in full, with the tests that
//! show it. The null driver of the crate rig-conformance is the template of a new driver.
//!
//! # The words of the interface
//!
//! * **region**: memory that a driver made or mapped; rig places buffers in it by offsets.
//! * **value**: the number of one submit of a device; values rise by one.
//! * **word**: the 64 bits of memory that show which values have completed ([`Word`]).
//! * **slot**: a place of a submission that a buffer fills at each submit ([`Slot`] is what fills it).
//! * **part**: a launch, a copy, a memset or a fill ([`Part`]).
//! * **plan**: what all runs of one submission share in the driver, such as a graph ([`Driver::Plan`]).
//! * **counted call**: a call that never overlaps [`Driver::stop`]. All calls of [`Driver`] are counted unless their
//!   docs say otherwise.
//!
//! # What a driver owes
//!
//! 1. The work handed to each queue runs in order; a value's work starts only after the previous value's work has
//!    completed, on all queues (E18).
//! 2. The word shows completion, only ever rises, and only the driver writes it (E11). It shows a value only once the
//!    host and every queue that waits for the word see all that the value's work wrote.
//! 3. Once committed, a value completes whatever later values do (E42).
//! 4. A fault is told by every later [`Driver::sleep`] (E12), and by any other call that meets it.
//!
//! # What rig owes
//!
//! 1. `room`, `submit` and `commit` of one device run one at a time; other calls may run meanwhile (E17).
//! 2. Values reach `submit` in order and without a gap (E09).
//! 3. Memory, images and plans outlive the work that uses them: they are given back only once the word shows it done.
//! 4. No lock of rig's is held in any call but `locate`, `peer`, `signaled` and the hot calls (E16).
//!
//! # The examples
//!
//! Most of them are about one small device, `Device`, which works in the host's memory. What of it they do not show stands in
//! their hidden lines, the same in each.
//!
//! ```
#![doc = include_str!("example.txt")]
//! # whole!();
//! // As a test of a driver has its device, without rig: with a word that no other test takes.
//! let (device, word) = (open(7), Words::get().word(WordIndex::new(7)));
//! // SAFETY: work of no parts uses nothing, and no other call runs.
//! let submitted = unsafe { device.submit(1, &mut (), &[], &mut work(&[], &mut [])) };
//! assert_eq!((submitted, word.load()), (Submitted::Committed, 1));
//! device.stop(None)?;
//! # Ok::<(), Fault>(())
//! ```

pub mod callback;
#[cfg(rig_shuttle)]
pub mod clock;
mod code;
mod driver;
pub mod erased;
mod facts;
mod fault;
mod memory;
mod open;
mod primitive;
pub mod times;
mod word;
mod work;

pub use code::{Code, EntryAnswer, EntryFacts, Finish, ImageError, Place};
pub use driver::{Driver, Grown, PlanError, Sleep};
pub use facts::{Completion, Facts, Kinds, Queue, Reach, WaitFacts, WordSource};
pub use fault::Fault;
pub use memory::{Dma, Location, Mapping, Memory, WORD_BYTES, page_bytes};
pub use open::{Opener, Timeline};
pub use times::{PartSpan, Span, Times};
pub use word::{WORDS_MAX, Word, WordIndex, Words};
pub use work::{
    Access, Block, Copy, Fill, FillFn, Launch, Memset, Part, Ref, Room, Scratch, Slot, Submitted, Wait, Work,
};
