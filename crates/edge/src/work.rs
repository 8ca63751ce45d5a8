//! Work as rig hands it to a driver: parts made once, and what each submit changes.
//!
//! A submission's [`Part`]s are made once and never change. A [`Work`] is one submit of them: the grids and parameters
//! of the run, the memory that fills the slots, and the waits. Everything in a `Work` is lent for the call alone: a
//! driver copies what it needs later, since the run is used again at once.

use std::ffi::c_void;
use std::sync::Arc;

use crate::{Driver, Fault, Times, WordIndex};

/// Whether a part reads or writes a slot.
///
/// ```
/// use rig_edge::{Access, Ref};
///
/// /// Whether two parts must run one after the other: one writes a slot that the other uses.
/// fn conflict(one: &[Ref], other: &[Ref]) -> bool {
///     let meet = |a: &Ref, b: &Ref| a.slot == b.slot && [a.access, b.access].contains(&Access::Write);
///     one.iter().any(|a| other.iter().any(|b| meet(a, b)))
/// }
/// let of = |access| [Ref { slot: 0, at: 0, access }];
/// assert!(!conflict(&of(Access::Read), &of(Access::Read)));
/// assert!(conflict(&of(Access::Read), &of(Access::Write)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads and never writes.
    Read,
    /// Writes, and may also read (C27).
    Write,
}

/// A place in a launch's parameters where the kernel finds the address of a slot's memory (C12).
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// /// What a driver does with the parameters of each launch: at a ref stands an offset, and the kernel is to find an address.
/// fn resolve(params: &mut [u8], refs: &[Ref], slots: &[Slot]) {
///     for each in refs {
///         let field = &mut params[each.at as usize..][..8];
///         let offset = field.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
///         field.copy_from_slice(&(slots[each.slot as usize].device + offset).to_le_bytes());
///     }
/// }
/// let at = Location { device: 0x4000, host: std::ptr::null_mut(), handle: std::ptr::null() };
/// let mut params = [0x20, 0, 0, 0, 0, 0, 0, 0];
/// resolve(&mut params, &[Ref { slot: 0, at: 0, access: Access::Read }], &[slot(at, 64)]);
/// assert_eq!(params, 0x4020_u64.to_le_bytes());
/// ```
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
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// /// The queue that runs a part, of a device with a copy engine.
/// fn queue(part: &Part<Device>) -> &'static str {
///     match part {
///         Part::Launch(_) | Part::Fill(_) => "COMPUTE:0",
///         Part::Copy(_) | Part::Memset(_) => "COPY:0",
///     }
/// }
/// assert_eq!(queue(&Part::Copy(Copy { from: 0, to: 1 })), "COPY:0");
/// ```
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
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// let device = open(7);
/// let image = Image(vec!["reverse".into()]);
/// let EntryAnswer::Entry(entry, _) = device.entry(&image, "reverse")? else { panic!("it is there") };
/// // The address of slot 0 stands at the parameters' first byte, and the kernel writes there.
/// let launch = Launch { entry, refs: [Ref { slot: 0, at: 0, access: Access::Write }].into() };
/// let mut x = [1, 2, 3];
/// let at = Location { device: 0, host: x.as_mut_ptr(), handle: std::ptr::null() };
/// device.run(&Part::Launch(launch), &[slot(at, 3)])?;
/// assert_eq!(x, [3, 2, 1]);
/// # Ok::<(), Fault>(())
/// ```
#[derive(Debug)]
pub struct Launch<E> {
    /// What the driver's `entry` made for the function. Lives until the submission's last value is reached.
    pub entry: E,
    /// The refs, at rising and disjoint places.
    pub refs: Box<[Ref]>,
}

/// A copy between two slots. Zero bytes are a copy that does nothing and keeps its place in the order.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// let (mut x, mut y) = ([1, 2, 3], [0; 3]);
/// let of = |host| slot(Location { device: 0, host, handle: std::ptr::null() }, 3);
/// let slots = [of(x.as_mut_ptr()), of(y.as_mut_ptr())];
/// // Slots of one length that do not overlap: rig has seen to it.
/// open(7).run(&Part::Copy(Copy { from: 0, to: 1 }), &slots)?;
/// assert_eq!(y, [1, 2, 3]);
/// # Ok::<(), Fault>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The slot that is read.
    pub from: u32,
    /// The slot that is written.
    pub to: u32,
}

/// Sets each byte of a slot to `byte`.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// let mut x = [1, 2, 3];
/// let slots = [slot(Location { device: 0, host: x.as_mut_ptr(), handle: std::ptr::null() }, 3)];
/// open(7).run(&Part::Memset(Memset { slot: 0, byte: 7 }), &slots)?;
/// assert_eq!(x, [7; 3]);
/// # Ok::<(), Fault>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memset {
    /// The slot that is written.
    pub slot: u32,
    /// The value of each byte.
    pub byte: u8,
}

/// A fill's code: gets the driver's encoder and the slots' memory; an error is the failure of the submit.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// // A program's code, with the driver's own encoder. What fails here fails the submit, and its text is the reason.
/// let code: Box<FillFn<Device>> = Box::new(|encoder, slots| {
///     let [slot] = slots else { return Err(format!("one slot, and there are {}", slots.len())) };
///     encoder.set(slot, 1);
///     Ok(())
/// });
/// assert_eq!(code(&mut Encoder::default(), &[]), Err("one slot, and there are 0".into()));
/// ```
pub type FillFn<D> =
    dyn for<'e> Fn(&mut <D as Driver>::Encoder<'e>, &[Slot]) -> Result<(), String> + Send + Sync + 'static;

/// A fill, called once in each submit, in the place of its part.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// let fill: Fill<Device> = Fill {
///     code: Box::new(|encoder, slots| {
///         slots.iter().for_each(|slot| encoder.set(slot, 6));
///         Ok(())
///     }),
/// };
/// let mut x = [1, 2, 3];
/// let slots = [slot(Location { device: 0, host: x.as_mut_ptr(), handle: std::ptr::null() }, 3)];
/// // In its part's place, the driver calls the code, and runs what that encoded.
/// open(7).run(&Part::Fill(fill), &slots)?;
/// assert_eq!(x, [6; 3]);
/// # Ok::<(), Fault>(())
/// ```
pub struct Fill<D: Driver> {
    /// The code.
    pub code: Box<FillFn<D>>,
}

/// What a run says of one part; for a part that is no launch, it is unused.
///
/// ```
/// use rig_edge::Block;
///
/// /// How a launch goes beyond a device of 1024 threads a group, and of 48 KiB of group memory.
/// fn beyond(block: &Block) -> Option<&'static str> {
///     match block {
///         Block { threads: [x, y, z], .. } if x * y * z > 1024 => Some("more than 1024 threads in a group"),
///         Block { group_bytes: 49_153.., .. } => Some("more than 48 KiB of group memory"),
///         _ => None,
///     }
/// }
/// let block = Block { groups: [64, 1, 1], threads: [32, 32, 1], group_bytes: 0, params_at: 0, params_len: 24 };
/// assert_eq!(beyond(&block), None);
/// assert!(beyond(&Block { threads: [64, 32, 1], ..block }).is_some());
/// ```
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
///
/// ```
/// use rig_edge::{Location, Slot};
///
/// /// The slot that a buffer fills which lies `offset` bytes into a region.
/// fn slot(region: Location, offset: usize, len: usize) -> Slot {
///     let host = if region.host.is_null() { region.host } else { region.host.wrapping_add(offset) };
///     let (device, len) = (region.device + offset as u64, len as u64);
///     Slot { device, host, len, handle: region.handle, handle_offset: offset as u64 }
/// }
/// let region = Location { device: 0x4000, host: std::ptr::null_mut(), handle: std::ptr::null() };
/// assert_eq!(slot(region, 0x100, 64).device, 0x4100);
/// ```
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
///
/// ```
/// use rig_edge::{Wait, Word, Words};
///
/// /// A packet that waits: the address to read, and the value to wait for.
/// fn packet(wait: &Wait) -> [u64; 2] {
///     [Words::get().word(wait.word).address().expose_provenance() as u64, wait.value]
/// }
/// # use rig_edge::WordIndex;
/// let waits = [7, 8].map(|word| packet(&Wait { word: WordIndex::new(word), value: 3 }));
/// assert_eq!(waits[1][0] - waits[0][0], size_of::<Word>() as u64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The other device's word.
    pub word: WordIndex,
    /// The value.
    pub value: u64,
}

/// Memory of the driver's for each part of a run: written by `room` or `submit`, kept until the run's next submit, zero
/// in a new run.
///
/// ```
/// use rig_edge::Scratch;
///
/// // `room` decides which queue runs a part, and `submit` goes by what it finds.
/// let mut scratch: Scratch = [0; 4];
/// scratch[0] = 1; // the copy queue
/// assert_eq!(scratch, [1, 0, 0, 0]);
/// ```
pub type Scratch = [u64; 4];

/// One submit, as `room` and `submit` get it.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// /// The packets that work takes of a ring: one a part, one a wait, and a stamp at both ends if it is timed.
/// fn packets(work: &Work<'_>) -> usize {
///     work.blocks.len() + work.waits.len() + if work.times.is_some() { 2 } else { 0 }
/// }
/// let mut scratch = [[0; 4]; 3];
/// let work = work(&[], &mut scratch);
/// assert_eq!(packets(&work), 3);
/// let waits = [Wait { word: WordIndex::new(7), value: 1 }];
/// assert_eq!(packets(&Work { waits: &waits, ..work }), 4);
/// ```
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
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let params = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0];
    /// let second = Block { params_at: 8, params_len: 4, ..BLOCK };
    /// let work = Work { params: &params, blocks: &[BLOCK, second], ..work(&[], &mut []) };
    /// // The second launch's own bytes, which its driver copies to where the kernel reads them.
    /// assert_eq!(work.params_of(&work.blocks[1]), [2, 0, 0, 0]);
    /// ```
    #[inline]
    pub fn params_of(&self, block: &Block) -> &'a [u8] {
        let at = block.params_at as usize;
        &self.params[at..at + block.params_len as usize]
    }
}

/// The answer of `room` (E08).
///
/// ```
/// use rig_edge::Room;
///
/// /// The answer for work of so many packets, on a ring of which some are free.
/// fn room(packets: usize, free: usize, ring: usize) -> Room {
///     if packets > ring {
///         return Room::Refused(format!("{packets} packets in a ring of {ring}: submit it in parts"));
///     }
///     if packets > free { Room::Later } else { Room::Ok }
/// }
/// assert_eq!((room(3, 8, 64), room(9, 8, 64)), (Room::Ok, Room::Later));
/// assert!(matches!(room(65, 64, 64), Room::Refused(_)));
/// ```
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
///
/// ```
/// use rig_edge::{Fault, Submitted};
///
/// /// A driver that hands work to its device once eight values wait for it, or when rig commits.
/// fn submitted(value: u64, encoded: Result<(), Fault>) -> Submitted {
///     match encoded {
///         Err(fault) => Submitted::Failed(fault),
///         Ok(()) if value.is_multiple_of(8) => Submitted::Committed,
///         Ok(()) => Submitted::Encoded,
///     }
/// }
/// assert_eq!((submitted(7, Ok(())), submitted(8, Ok(()))), (Submitted::Encoded, Submitted::Committed));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// Every value up to this one runs without further calls.
    Committed,
    /// The work runs once it is committed.
    Encoded,
    /// The submit failed, and the device with it.
    Failed(Fault),
}
