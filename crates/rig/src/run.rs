//! Runs: the grid and the parameters of one submit, used again and again.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::NoUninit;
use rig_edge::{Block, Scratch, Slot, Wait};

use crate::allocation::Allocation;
use crate::error::invalid;
use crate::submission::{Made, Shape};
use crate::timeline::Stamp;
use crate::{Buffer, Point, Result};

/// What one submit of a submission needs: each launch's grid and parameters, and the driver's scratch.
///
/// A run is used again as soon as its submit returns, while the work still runs: a submit copies what it needs. In a
/// steady state a submit allocates nothing on the heap.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let mut run = device.submission().memset(0, 7).make()?.take();
/// let (a, b) = (device.buffer(64)?, device.buffer(64)?);
/// // The same run at once again, with another buffer, while its first work may still run.
/// let points = [run.submit(&[&a])?, run.submit(&[&b])?];
/// rig::Point::wait_all(&points)?;
/// assert_eq!(b.read(|bytes: &[u8]| bytes[63])?, 7);
/// # Ok(())
/// # }
/// ```
pub struct Run {
    pub(crate) made: Arc<Made>,
    pub(crate) blocks: Box<[Block]>,
    /// The launches' parameters, as 8-byte words so that the first byte is on 8.
    pub(crate) params: Box<[u64]>,
    pub(crate) scratch: Box<[Scratch]>,
    /// One a slot, filled by each submit.
    pub(crate) slots: Box<[Slot]>,
    /// The allocations of the submit under way, each once, by their addresses.
    pub(crate) order: Vec<Use>,
    pub(crate) waits: Vec<Wait>,
    /// The caller's points for the next submit.
    pub(crate) after: Vec<Stamp>,
    /// Points to follow, collected under the stamps.
    pub(crate) follow: Vec<Stamp>,
    /// Values of the device's own that this submit's cannot be right without.
    pub(crate) depends: Vec<Stamp>,
    /// A launch parameter that was stored out of bounds: reported by the next submit.
    wrong: Option<String>,
}

/// A slot that no submit has filled.
const NO_SLOT: Slot =
    Slot { device: 0, host: std::ptr::null_mut(), len: 0, handle: std::ptr::null(), handle_offset: 0 };

/// One allocation that a submit uses.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    /// The allocation. The buffers that are lent to the submit keep it for as long as the submit lasts.
    pub(crate) allocation: NonNull<Allocation>,
    /// The slot of a buffer of the allocation, for messages.
    pub(crate) buffer: u32,
    pub(crate) write: bool,
    /// Whether the submit overwrites every byte of the allocation.
    pub(crate) whole: bool,
}

// SAFETY: an address and flags; read only by the submit that wrote it.
#[expect(unsafe_code, reason = "an address that only its own submit follows")]
unsafe impl Send for Use {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "an address that only its own submit follows")]
unsafe impl Sync for Use {}

impl Run {
    pub(crate) fn new(made: Arc<Made>, blocks: &[Block], params_len: usize) -> Run {
        let slots = made.slots.len();
        Run {
            blocks: blocks.into(),
            params: vec![0; params_len.div_ceil(8)].into(),
            scratch: vec![Scratch::default(); blocks.len()].into(),
            slots: vec![NO_SLOT; slots].into(),
            order: Vec::with_capacity(slots),
            waits: Vec::new(),
            after: Vec::new(),
            follow: Vec::new(),
            depends: Vec::new(),
            wrong: None,
            made,
        }
    }

    /// The part at `index`, to set a launch's grid and parameters.
    ///
    /// # Panics
    ///
    /// If the submission has no part at `index`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// # let submission = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
    /// # let mut run = submission.take();
    /// # let (x, y) = (device.from_slice(&[1.0_f32; 64])?, device.from_slice(&[2.0_f32; 64])?);
    /// run.part(0).groups([1, 1, 1]).threads([64, 1, 1]).set(16, 3.0_f32);
    /// // SAFETY: `add` reads 64 floats of slot 0 and writes 64 of slot 1, and touches nothing else.
    /// unsafe { run.launch(&[&x, &y])? };
    /// assert_eq!(y.read(|y| y[0])?, 5.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn part(&mut self, index: usize) -> PartMut<'_> {
        assert!(index < self.blocks.len(), "part {index} of a submission of {} parts", self.blocks.len());
        PartMut { run: self, index }
    }

    /// Lets the next submit's work start only after `points`, beside what its buffers ask. Points of any device.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// # let submission = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
    /// # let mut run = submission.take();
    /// # let (x, y) = (device.from_slice(&[1.0_f32; 64])?, device.from_slice(&[2.0_f32; 64])?);
    /// # run.part(0).set(16, 1.0_f32);
    /// let other = device.buffer(64)?;
    /// let mut clear = device.submission().memset(0, 0).make()?.take();
    /// let cleared = clear.submit(&[&other])?;
    /// // No buffer says so, but the launch starts after the memset.
    /// run.after(&[cleared]);
    /// // SAFETY: `add` reads 64 floats of slot 0 and writes 64 of slot 1, and touches nothing else.
    /// let added = unsafe { run.launch(&[&x, &y])? };
    /// added.wait()?;
    /// assert!(cleared.reached()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn after(&mut self, points: &[Point]) -> &mut Run {
        self.after.extend(points.iter().map(|point| point.stamp()));
        self
    }

    /// Submits a submission of copies and memsets, with one buffer for each slot, and returns its point without waiting
    /// for the work.
    ///
    /// Waits only for what must be done first and no queue can wait for: a host closure over one of the buffers, work of
    /// other devices, room in the device's queues.
    ///
    /// # Errors
    ///
    /// Invalid, OutOfMemory and Refused, where nothing has changed and no value is taken, or Lost. Refused has the driver's reason,
    /// or names the lost device to close, as for [`Point::wait`](crate::Point::wait). A submission with launches or fills is
    /// Invalid here, since it runs code that Rust cannot check: see [`launch`](Run::launch).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let mut run = device.submission().memset(0, 7).copy(0, 1).make()?.take();
    /// let (a, b) = (device.buffer(64)?, device.buffer(64)?);
    /// let point = run.submit(&[&a, &b])?;
    /// point.wait()?;
    /// assert_eq!(b.read(|b: &[u8]| b[63])?, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn submit(&mut self, buffers: &[&Buffer]) -> Result<Point> {
        if self.made.runs_code {
            return invalid!(
                "this submission launches code: run it by the unsafe call launch(), and read its contract"
            );
        }
        self.go(buffers)
    }

    /// Submits any submission, with one buffer for each slot, and returns its point without waiting for the work. It waits
    /// for what [`submit`](Run::submit) waits for.
    ///
    /// # Errors
    ///
    /// As [`submit`](Run::submit), which refuses code.
    ///
    /// # Safety
    ///
    /// A kernel is machine code, and a fill is code over raw memory. For every launch and fill of the submission, until
    /// its work has ended:
    ///
    /// 1. it touches only memory that its refs, with the offsets in its parameters, give it, inside the buffers that fill
    ///    the slots (up to the next whole word after a buffer's end), and memory that it owns otherwise, such as its group
    ///    memory;
    /// 2. it writes only through refs that say write;
    /// 3. its parameters and its grid are as its code expects, and its threads do not race where the code does not allow
    ///    it, also where one allocation fills several slots; and not with those of another part of the submission, which may
    ///    run at once where the two share no buffer that one of them writes, over memory that is in no buffer, such as a
    ///    global variable;
    /// 4. on a device of the host, it does not unwind into rig other than by a Rust panic of a Rust kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// # let submission = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
    /// # let mut run = submission.take();
    /// # let (x, y) = (device.from_slice(&[1.0_f32; 64])?, device.from_slice(&[2.0_f32; 64])?);
    /// run.part(0).threads([64, 1, 1]).set(16, 0.5_f32);
    /// // SAFETY: `add` reads 64 floats of slot 0 and writes 64 of slot 1, and touches nothing else.
    /// let point = unsafe { run.launch(&[&x, &y])? };
    /// point.wait()?;
    /// assert_eq!(y.read(|y| y[63])?, 2.5);
    /// # Ok(())
    /// # }
    /// ```
    #[expect(unsafe_code, reason = "the caller owes the contract of the code that runs")]
    pub unsafe fn launch(&mut self, buffers: &[&Buffer]) -> Result<Point> {
        self.go(buffers)
    }

    fn go(&mut self, buffers: &[&Buffer]) -> Result<Point> {
        if self.wrong.is_some() {
            return self.report();
        }
        let point = crate::submit::submit(self, buffers);
        self.after.clear();
        point
    }

    #[cold]
    fn report(&mut self) -> Result<Point> {
        self.after.clear();
        invalid!("{}", self.wrong.take().unwrap_or_default())
    }

    fn store(&mut self, index: usize, at: usize, bytes: &[u8]) {
        let block = &self.blocks[index];
        let len = block.params_len as usize;
        if !matches!(self.made.shapes[index], Shape::Launch { .. }) {
            self.note(format!("part {index} is no launch and has no parameters to store {} bytes in", bytes.len()));
        } else if at.checked_add(bytes.len()).is_none_or(|end| end > len) {
            self.note(format!("{} bytes at {at} leave the {len} bytes of part {index}'s parameters", bytes.len()));
        } else {
            let at = block.params_at as usize + at;
            bytemuck::cast_slice_mut::<u64, u8>(&mut self.params)[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn note(&mut self, wrong: String) {
        self.wrong.get_or_insert(wrong);
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

/// One part of a run. What is set stays for later submits of the run. A mistake is reported by the next submit.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// # use rig::{read, write};
/// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
/// #     let first = at.group[0] as usize * 64;
/// #     // SAFETY: the launches below have 64 floats of each slot for every group.
/// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
/// #     // SAFETY: as above.
/// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
/// #     let by: f32 = params.get(16);
/// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
/// # });
/// # let add = device.load(&kernels.image())?.function("add")?;
/// # let mut run = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?.take();
/// # let (x, y) = (device.from_slice(&[1.0_f32; 64])?, device.from_slice(&[2.0_f32; 64])?);
/// // Behind the two refs stands how many times x is added to y.
/// run.part(0).threads([64, 1, 1]).set(16, 3.0_f32);
/// for _ in 0..2 {
///     // SAFETY: `add` reads 64 floats of slot 0 and writes 64 of slot 1, and touches nothing else.
///     unsafe { run.launch(&[&x, &y])? };
/// }
/// // What was set stayed for the second launch.
/// assert_eq!(y.read(|y| y[0])?, 2.0 + 3.0 + 3.0);
/// # Ok(())
/// # }
/// ```
pub struct PartMut<'a> {
    run: &'a mut Run,
    index: usize,
}

impl PartMut<'_> {
    /// The groups along x, y and z; each at least 1.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// # let submission = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
    /// # let mut run = submission.take();
    /// # let (x, y) = (device.from_slice(&[1.0_f32; 64])?, device.from_slice(&[2.0_f32; 64])?);
    /// run.part(0).groups([16, 1, 1]).threads([64, 1, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn groups(self, groups: [u32; 3]) -> Self {
        self.run.blocks[self.index].groups = groups;
        self
    }

    /// The threads of a group along x, y and z; each at least 1.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// # let submission = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
    /// # let mut run = submission.take();
    /// # let (x, y) = (device.from_slice(&[1.0_f32; 64])?, device.from_slice(&[2.0_f32; 64])?);
    /// run.part(0).threads([64, 1, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn threads(self, threads: [u32; 3]) -> Self {
        self.run.blocks[self.index].threads = threads;
        self
    }

    /// The bytes of group memory that the launch asks for, beside what the function declares.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// # let submission = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
    /// # let mut run = submission.take();
    /// # let (x, y) = (device.from_slice(&[1.0_f32; 64])?, device.from_slice(&[2.0_f32; 64])?);
    /// // Memory for a float of each of 64 threads, which the group's threads share.
    /// run.part(0).threads([64, 1, 1]).group_bytes(4 * 64);
    /// # Ok(())
    /// # }
    /// ```
    pub fn group_bytes(self, bytes: u32) -> Self {
        self.run.blocks[self.index].group_bytes = bytes;
        self
    }

    /// Stores `value` at `at` in the launch's parameters. At a ref, the 8 bytes are an offset into the slot's buffer.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// # let submission = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
    /// # let mut run = submission.take();
    /// # let (x, y) = (device.from_slice(&[1.0_f32; 64])?, device.from_slice(&[2.0_f32; 64])?);
    /// // Behind the two refs, at 0 and 8, stands a float.
    /// run.part(0).set(16, 2.0_f32);
    /// // At a ref, it is where in the buffer the kernel begins, in bytes: here at float 32 of slot 0.
    /// run.part(0).set(0, 4 * 32_u64);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set<T: NoUninit>(self, at: usize, value: T) -> Self {
        self.run.store(self.index, at, bytemuck::bytes_of(&value));
        self
    }

    /// Stores `bytes` at `at` in the launch's parameters.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// # let submission = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
    /// # let mut run = submission.take();
    /// # let (x, y) = (device.from_slice(&[1.0_f32; 64])?, device.from_slice(&[2.0_f32; 64])?);
    /// run.part(0).bytes(16, &2.0_f32.to_ne_bytes());
    /// # Ok(())
    /// # }
    /// ```
    pub fn bytes(self, at: usize, bytes: &[u8]) -> Self {
        self.run.store(self.index, at, bytes);
        self
    }
}

impl fmt::Debug for PartMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartMut").field("index", &self.index).field("block", &self.run.blocks[self.index]).finish()
    }
}
