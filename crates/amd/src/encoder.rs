//! What a fill encodes with: launches, copies, memsets and packets of its own, in the device's order.
//!
//! # Room
//!
//! A fill's code runs in `submit`, after `room` has answered. So `room` counts an [`Allowance`] for each fill, whatever it
//! will place, and the encoder refuses what goes beyond. Where a fill leaves the line of work is stated too: both walks go on
//! behind it as from work on the compute queue.
//!
//! # Invariants
//!
//! 1. A fill takes no more of any ring than its allowance: each command is counted by the walk that places it, before it does.

use rig_edge::{Block, Fill, Work};

use crate::Amd;
use crate::aql;
use crate::code::Entry;
use crate::limits::Limits;
use crate::order::{Engine, Line, Sink, Walk};
use crate::work::{Count, Place};

/// The most packets of the compute queue, bytes of the copy queue, and bytes of arguments that a fill may take, with what its
/// end takes: so that fifteen fills fit a submission.
const PACKETS_MOST: u64 = 1024;
const COPIER_MOST: u64 = 64 << 10;
const ARGUMENTS_MOST: u64 = 256 << 10;
/// What is kept for the end of a fill: a mark and a wait.
const END_PACKETS: u64 = 2;
const END_BYTES: u64 = 128;
/// The most words of a packet of the fill's own on each queue: 64 bytes stand beside a slot of the compute ring.
const COMMANDS_MOST: usize = aql::BYTES as usize / 4;
pub(crate) const PACKET_MOST: usize = 64;

/// What a fill may take of the rings, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub compute: u64,
    pub copier: u64,
    pub arguments: u64,
}

impl Allowance {
    /// Of one fill.
    pub const FILL: Allowance =
        Allowance { compute: PACKETS_MOST * aql::BYTES, copier: COPIER_MOST, arguments: ARGUMENTS_MOST };

    /// What is left after a command, which keeps what the end takes.
    fn after(self, taken: Allowance) -> Option<Allowance> {
        let left = Allowance {
            compute: self.compute.checked_sub(taken.compute)?,
            copier: self.copier.checked_sub(taken.copier)?,
            arguments: self.arguments.checked_sub(taken.arguments)?,
        };
        (left.compute >= END_PACKETS * aql::BYTES && left.copier >= END_BYTES).then_some(left)
    }
}

/// A command of a fill.
enum Command<'a> {
    Launch { entry: &'a Entry, block: Block, params: &'a [u8] },
    Copy { from: u64, to: u64, len: u64 },
    Memset { at: u64, byte: u8, len: u64 },
    Compute(&'a [u32]),
    Copier(&'a [u32]),
}

impl<S: Sink> Walk<'_, S> {
    /// Places a command of a fill.
    fn command(&mut self, command: &Command<'_>) {
        match *command {
            Command::Launch { entry, block, params } => self.dispatch(entry, &block, params, &[], &[]),
            Command::Copy { from, to, len } => self.copy_bytes(from, to, len),
            Command::Memset { at, byte, len } => self.set_bytes(at, byte, len),
            Command::Compute(words) => {
                self.enter(Engine::Compute);
                self.sink.commands(words);
                self.placed();
            }
            Command::Copier(words) => {
                self.enter_copier();
                self.sink.copier(words);
                self.placed();
            }
        }
    }
}

impl Line {
    /// The line behind a fill, whatever it placed: as behind work on the compute queue.
    fn after_fill(&mut self) {
        self.engine = Engine::Compute;
        self.sign = None;
        self.waited = false;
        self.afresh = true;
    }
}

impl Walk<'_, Count<'_>> {
    /// Counts a fill.
    pub(crate) fn count_fill(&mut self) {
        self.sink.allow(Allowance::FILL);
        self.line.after_fill();
    }
}

impl Walk<'_, Place<'_>> {
    /// Runs a fill's code, and ends what it placed.
    pub(crate) fn run_fill(&mut self, fill: &Fill<Amd>, work: &Work<'_>) -> Result<(), String> {
        (fill.code)(&mut Encoder { left: Allowance::FILL, walk: self }, work.slots)?;
        self.enter(Engine::Compute);
        self.line.after_fill();
        Ok(())
    }
}

/// The walk that a fill places commands by.
trait Placing {
    /// What the command takes of the rings, at most.
    fn takes(&self, command: &Command<'_>) -> Allowance;
    /// Places it.
    fn place(&mut self, command: &Command<'_>);
    fn value(&self) -> u64;
    fn limits(&self) -> &Limits;
}

impl Placing for Walk<'_, Place<'_>> {
    fn takes(&self, command: &Command<'_>) -> Allowance {
        let mut sink = Count::new(self.sink.queues, self.sink.scratch);
        sink.stale = self.sink.looked;
        let start = [sink.compute, sink.copier, sink.arguments];
        let mut walk = Walk { line: self.line, places: self.places, sink };
        walk.command(command);
        let Count { compute, copier, arguments, .. } = walk.sink;
        let [compute, copier, arguments] = [(compute, start[0]), (copier, start[1]), (arguments, start[2])]
            .map(|(end, start)| end.bytes - start.bytes);
        Allowance { compute, copier, arguments }
    }

    fn place(&mut self, command: &Command<'_>) {
        self.command(command);
    }

    fn value(&self) -> u64 {
        self.sink.value
    }

    fn limits(&self) -> &Limits {
        self.sink.limits
    }
}

/// What a fill encodes with: the device's two queues, in the place of the fill's part.
///
/// What it places runs one after the other, after all work before the fill and before all work after it, whichever queue each
/// command is for. A fill may place some thousand packets, 64 KiB of copy packets and 256 KiB of arguments: a command that goes
/// beyond is an error, has placed nothing, and is the fill's to return or to answer in another way.
///
/// ```
#[doc = include_str!("example.txt")]
/// use rig_amd::{Amd, Encoder};
///
/// let device = rig::open(gpu(0))?;
/// let step = device.submission().memset(0, 1).fill::<Amd>([rig::write(0)], |encoder: &mut Encoder<'_>, slots| {
///     let slot = &slots[0];
///     // Behind the memset: the first 16 bytes are set, and then copied to the next.
///     // SAFETY: the slot has 64 bytes.
///     unsafe { encoder.memset(slot.device, 2, 16)? };
///     // SAFETY: as above.
///     unsafe { encoder.copy(slot.device, slot.device + 16, 16) }
/// });
/// let (step, x) = (step.make()?, device.buffer(64)?);
/// // SAFETY: the fill does no more to the slots than its refs say.
/// unsafe { step.take().launch(&[&x])? };
/// assert_eq!(x.read(|x: &[u8]| [x[0], x[31], x[32]])?, [2, 2, 1]);
/// # Ok(())
/// # }
/// ```
pub struct Encoder<'e> {
    left: Allowance,
    walk: &'e mut dyn Placing,
}

#[expect(unsafe_code, reason = "the GPU does what it is told")]
impl Encoder<'_> {
    /// The value that the fill's submit has.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use rig_amd::Amd;
    ///
    /// # let device = rig::open(gpu(0))?;
    /// static LOGGED: AtomicU64 = AtomicU64::new(0);
    /// let step = device.submission().fill::<Amd>([rig::write(0)], |encoder, _| {
    ///     LOGGED.store(encoder.value(), Ordering::Relaxed);
    ///     Ok(())
    /// });
    /// let (step, x) = (step.make()?, device.buffer(64)?);
    /// // SAFETY: the fill does nothing to its slot.
    /// let point = unsafe { step.take().launch(&[&x])? };
    /// assert_eq!(LOGGED.load(Ordering::Relaxed), point.value());
    /// # Ok(())
    /// # }
    /// ```
    pub fn value(&self) -> u64 {
        self.walk.value()
    }

    /// Launches a function that rig has resolved on this device: `Function::entry` of rig gives its entry. `params` are the
    /// bytes of its parameters, with the addresses that the kernel is to find there.
    ///
    /// # Errors
    ///
    /// If the GPU or the function cannot run such a launch, or the fill has placed too much.
    ///
    /// # Safety
    ///
    /// The entry is of a function of this device. The kernel does no more to memory than the fill's refs say. That memory
    /// outlives the work, and so does the function's image.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use rig_amd::Amd;
    ///
    /// # let device = rig::open(gpu(0))?;
    /// let copy = device.load(&std::fs::read("kernels/copy.co")?)?.function("rig_copy")?;
    /// let entry = copy.entry::<Amd>().ok_or("the function is another driver's")?.clone();
    /// let step = device.submission().fill::<Amd>([rig::read(0), rig::write(1)], move |encoder, slots| {
    ///     // From, to, pieces of 16 bytes, threads, and the bytes behind the last piece.
    ///     let mut params = [slots[0].device, slots[1].device, 256].map(u64::to_le_bytes).concat();
    ///     params.extend([256, 0].map(u32::to_le_bytes).concat());
    ///     // SAFETY: rig_copy reads 4 KiB of slot 0 and writes 4 KiB of slot 1.
    ///     unsafe { encoder.launch(&entry, [1, 1, 1], [256, 1, 1], 0, &params) }
    /// });
    /// let (step, x, y) = (step.make()?, device.from_slice(&[7_u32; 1024])?, device.buffer(4096)?);
    /// // SAFETY: the fill does no more to the slots than its refs say.
    /// unsafe { step.take().launch(&[&x, &y])? };
    /// assert_eq!(y.read(|y: &[u32]| y[1023])?, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn launch(
        &mut self,
        entry: &Entry,
        groups: [u32; 3],
        threads: [u32; 3],
        group_bytes: u32,
        params: &[u8],
    ) -> Result<(), String> {
        let params_len = u32::try_from(params.len()).map_err(|_| "more than 4 GiB of parameters".to_string())?;
        let block = Block { groups, threads, group_bytes, params_at: 0, params_len };
        if let Some(why) = self.walk.limits().refuse(entry, &block) {
            return Err(format!("the launch asks for {why}"));
        }
        self.place(&Command::Launch { entry, block, params })
    }

    /// Copies `len` bytes. The ranges do not overlap.
    ///
    /// # Errors
    ///
    /// If the fill has placed too much.
    ///
    /// # Safety
    ///
    /// The memory is what the fill's refs say, and outlives the work.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use rig_amd::Amd;
    ///
    /// # let device = rig::open(gpu(0))?;
    /// let step = device.submission().fill::<Amd>([rig::write(0)], |encoder, slots| {
    ///     // SAFETY: the slot has 8 bytes, and its halves do not overlap.
    ///     unsafe { encoder.copy(slots[0].device, slots[0].device + 4, 4) }
    /// });
    /// let (step, x) = (step.make()?, device.from_slice(&[5_u32, 0])?);
    /// // SAFETY: the fill does no more to the slots than its refs say.
    /// unsafe { step.take().launch(&[&x])? };
    /// assert_eq!(x.read(|x: &[u32]| x[1])?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn copy(&mut self, from: u64, to: u64, len: u64) -> Result<(), String> {
        self.place(&Command::Copy { from, to, len })
    }

    /// Sets `len` bytes to `byte`.
    ///
    /// # Errors
    ///
    /// If the fill has placed too much.
    ///
    /// # Safety
    ///
    /// The memory is what the fill's refs say, and outlives the work.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use rig_amd::Amd;
    ///
    /// # let device = rig::open(gpu(0))?;
    /// let step = device.submission().fill::<Amd>([rig::write(0)], |encoder, slots| {
    ///     // SAFETY: the slot, whole.
    ///     unsafe { encoder.memset(slots[0].device, 0xff, slots[0].len) }
    /// });
    /// let (step, x) = (step.make()?, device.buffer(1000)?);
    /// // SAFETY: the fill does no more to the slots than its refs say.
    /// unsafe { step.take().launch(&[&x])? };
    /// assert_eq!(x.read(|x: &[u8]| x[999])?, 0xff);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn memset(&mut self, at: u64, byte: u8, len: u64) -> Result<(), String> {
        self.place(&Command::Memset { at, byte, len })
    }

    /// Puts PM4 commands on the compute queue: whole ones, of at most 16 words together.
    ///
    /// # Errors
    ///
    /// If there are none or more, or the fill has placed too much.
    ///
    /// # Safety
    ///
    /// They are commands that the GPU runs from an indirect buffer, which end by themselves, leave the queue as it was, and do to
    /// memory what the fill's refs say.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use rig_amd::Amd;
    ///
    /// # let device = rig::open(gpu(0))?;
    /// let step = device.submission().fill::<Amd>([rig::write(0)], |encoder, slots| {
    ///     let [low, high] = [slots[0].device as u32, (slots[0].device >> 32) as u32];
    ///     // WRITE_DATA of one word, to memory and confirmed.
    ///     // SAFETY: it writes 4 bytes of the slot, and ends by itself.
    ///     unsafe { encoder.commands(&[0xc003_3700, 5 << 8 | 1 << 20, low, high, 42]) }
    /// });
    /// let (step, x) = (step.make()?, device.from_slice(&[0_u32])?);
    /// // SAFETY: the fill does no more to the slots than its refs say.
    /// unsafe { step.take().launch(&[&x])? };
    /// assert_eq!(x.read(|x: &[u32]| x[0])?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn commands(&mut self, words: &[u32]) -> Result<(), String> {
        if words.is_empty() || words.len() > COMMANDS_MOST {
            return Err(format!("{} words of commands: from 1 to {COMMANDS_MOST} go into one packet", words.len()));
        }
        self.place(&Command::Compute(words))
    }

    /// Puts one SDMA packet on the copy queue, of at most 64 words.
    ///
    /// # Errors
    ///
    /// If it has none or more, or the fill has placed too much.
    ///
    /// # Safety
    ///
    /// It is a packet of SDMA 6, which ends by itself, leaves the queue as it was, and does to memory what the fill's refs say.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use rig_amd::Amd;
    ///
    /// # let device = rig::open(gpu(0))?;
    /// let step = device.submission().fill::<Amd>([rig::write(0)], |encoder, slots| {
    ///     let [low, high] = [slots[0].device as u32, (slots[0].device >> 32) as u32];
    ///     // A constant fill: by words, where, the word, and the bytes less those of one word.
    ///     // SAFETY: it writes the 64 bytes of the slot, and ends by itself.
    ///     unsafe { encoder.copy_packet(&[11 | 2 << 30, low, high, 42, 60]) }
    /// });
    /// let (step, x) = (step.make()?, device.from_slice(&[0_u32; 16])?);
    /// // SAFETY: the fill does no more to the slots than its refs say.
    /// unsafe { step.take().launch(&[&x])? };
    /// assert_eq!(x.read(|x: &[u32]| x[15])?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn copy_packet(&mut self, words: &[u32]) -> Result<(), String> {
        if words.is_empty() || words.len() > PACKET_MOST {
            return Err(format!("a packet of {} words: from 1 to {PACKET_MOST} are possible", words.len()));
        }
        self.place(&Command::Copier(words))
    }

    fn place(&mut self, command: &Command<'_>) -> Result<(), String> {
        let taken = self.walk.takes(command);
        self.left = self.left.after(taken).ok_or_else(|| {
            format!(
                "a fill places at most {PACKETS_MOST} packets, {COPIER_MOST} bytes of copies and {ARGUMENTS_MOST} bytes of \
                 arguments: part it in two"
            )
        })?;
        self.walk.place(command);
        Ok(())
    }
}

impl std::fmt::Debug for Encoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("value", &self.value()).field("left", &self.left).finish()
    }
}
