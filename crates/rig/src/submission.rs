//! Submissions: work that is made once and run many times.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use rig_edge::erased::{AnyFill, AnyPart, Bound};
use rig_edge::{Access, Block, Copy, Driver, Memset, PlanError, Ref, Slot};

use crate::device::{Core, Handle, Kept, Retired, SubmissionEnd};
use crate::error::invalid;
use crate::image::ImageCode;
use crate::primitive::Mutex;
use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::run::Run;
use crate::{Device, Error, Function, Result};

/// The most slots a submission may have: more than any kernel takes, and few enough for every index to fit.
const SLOTS_MAX: u32 = 65_536;

/// A ref before its place is known: see [`read()`] and [`write()`].
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
/// // The kernel's parameters are two addresses and a float: slot 0 at byte 0, slot 1 behind it.
/// let refs = [read(0), write(1).at(8)];
/// let step = device.submission().launch(&add, refs).params(20).make()?;
/// assert_eq!(step.slots(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RefSpec {
    slot: u32,
    access: Access,
    at: Option<u32>,
}

/// A ref to `slot` that the part only reads.
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
/// let step = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
/// assert_eq!(step.slots(), 2);
/// # Ok(())
/// # }
/// ```
pub fn read(slot: u32) -> RefSpec {
    RefSpec { slot, access: Access::Read, at: None }
}

/// A ref to `slot` that the part writes, and may read.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let kernels = rig_host::Kernels::new().group("nothing", 8, |_, _| {});
/// let nothing = device.load(&kernels.image())?.function("nothing")?;
/// let step = device.submission().launch(&nothing, [rig::write(0)]).make()?;
/// # Ok(())
/// # }
/// ```
pub fn write(slot: u32) -> RefSpec {
    RefSpec { slot, access: Access::Write, at: None }
}

impl RefSpec {
    /// Puts the ref's 8 bytes at `at` in the launch's parameters: a multiple of 8. Without this, the refs of a launch
    /// stand one after the other, from 0.
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
    /// // The same, with the places of the refs in the parameters spelled out.
    /// device.submission().launch(&add, [read(0).at(0), write(1).at(8)]).params(20).make()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn at(self, at: u32) -> RefSpec {
        RefSpec { at: Some(at), ..self }
    }
}

/// What rig keeps of a part to check runs by.
pub(crate) enum Shape {
    Launch { refs: Box<[Ref]>, name: Arc<str> },
    Copy(Copy),
    Memset(Memset),
    Fill,
}

/// How a submission uses a slot.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SlotUse {
    pub(crate) write: bool,
    /// Whether the first part that uses the slot overwrites every byte of it, reading none.
    pub(crate) whole: bool,
    used: bool,
}

impl SlotUse {
    fn read(&mut self) {
        self.used = true;
    }

    fn write(&mut self, whole: bool) {
        self.write = true;
        self.whole |= whole && !self.used;
        self.used = true;
    }
}

/// Work made once: parts, and the slots that buffers fill at each submit.
///
/// A `Submission` is a handle: clones are further handles to the same one. Several runs of it may be in flight.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let step = device.submission().memset(0, 1).make()?;
/// let buffers = [device.buffer(64)?, device.buffer(64)?];
/// let mut run = step.take();
/// for buffer in &buffers {
///     run.submit(&[buffer])?;
/// }
/// assert_eq!(buffers[1].read(|bytes: &[u8]| bytes[0])?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Submission {
    pub(crate) inner: Arc<Made>,
}

pub(crate) struct Made {
    pub(crate) handle: Arc<Handle>,
    pub(crate) shapes: Box<[Shape]>,
    pub(crate) slots: Box<[SlotUse]>,
    /// The blocks of a new run.
    blocks: Box<[Block]>,
    params_len: usize,
    /// Whether a launch or a fill is among the parts: then only the unsafe call may run it.
    pub(crate) runs_code: bool,
    pub(crate) has_fill: bool,
    bound: Option<Box<dyn Bound>>,
    images: Vec<Arc<ImageCode>>,
    kept: Kept,
    /// The last value submitted of it. Written under the turn.
    pub(crate) last: AtomicU64,
}

impl Made {
    pub(crate) fn core(&self) -> &Core {
        &self.handle.core
    }

    pub(crate) fn bound(&self) -> &dyn Bound {
        // PANIC: taken only by the drop.
        &**self.bound.as_ref().expect("a submission is bound until it is dropped")
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(bound) = self.bound.take() {
            let last = self.last.load(Ordering::Acquire);
            let images = std::mem::take(&mut self.images);
            let kept = std::mem::take(&mut self.kept);
            self.handle.core.retire(Retired::Submission(SubmissionEnd { last, bound, images, kept }));
        }
    }
}

impl Submission {
    /// A run: what one submit needs. Any number may be taken; each is used again as soon as its submit returns.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let step = device.submission().memset(0, 1).make()?;
    /// let (mut one, mut other) = (step.take(), step.take());
    /// let (a, b) = (device.buffer(64)?, device.buffer(64)?);
    /// std::thread::scope(|threads| {
    ///     threads.spawn(|| one.submit(&[&a]));
    ///     threads.spawn(|| other.submit(&[&b]));
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn take(&self) -> Run {
        Run::new(Arc::clone(&self.inner), &self.inner.blocks, self.inner.params_len)
    }

    /// The device that runs it.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let step = device.submission().memset(0, 1).make()?;
    /// assert_eq!(step.device(), device);
    /// # Ok(())
    /// # }
    /// ```
    pub fn device(&self) -> Device {
        Device { handle: Arc::clone(&self.inner.handle) }
    }

    /// How many buffers a submit of it takes: one more than the highest slot that a part names.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let step = device.submission().copy(0, 1).memset(2, 0).make()?;
    /// assert_eq!(step.slots(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn slots(&self) -> usize {
        self.inner.slots.len()
    }
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("device", &self.inner.handle.core.name)
            .field("parts", &self.inner.shapes.len())
            .field("slots", &self.slots())
            .finish()
    }
}

/// Makes a submission part by part. The parts run in the order in which they are added, but that a device may overlap parts
/// which share no memory that one of them writes.
///
/// A mistake in a part is reported by [`make`](Builder::make).
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
/// let step = device.submission().memset(1, 0).launch(&add, [read(0), write(1)]).params(20).copy(1, 2).make()?;
/// assert_eq!(step.slots(), 3);
/// let mistake = device.submission().launch(&add, [read(0).at(4), write(1)]).make();
/// assert!(matches!(mistake, Err(rig::Error::Invalid(_))));
/// # Ok(())
/// # }
/// ```
pub struct Builder {
    device: Device,
    parts: Vec<PartSpec>,
    kept: Vec<Box<dyn Any + Send>>,
    wrong: Option<String>,
}

enum PartSpec {
    Launch { function: Function, refs: Vec<RefSpec>, params: Option<usize> },
    Copy(Copy),
    Memset(Memset),
    Fill { refs: Vec<RefSpec>, fill: AnyFill },
}

impl Builder {
    pub(crate) fn new(device: &Device) -> Builder {
        Builder { device: device.clone(), parts: Vec::new(), kept: Vec::new(), wrong: None }
    }

    /// A launch of `function`. At each ref, the launch's parameters hold 8 bytes, zero until a run stores an offset
    /// there, and the function reads there the address of the slot's buffer plus that offset.
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
    /// let step = device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn launch(mut self, function: &Function, refs: impl IntoIterator<Item = RefSpec>) -> Builder {
        let refs = refs.into_iter().collect();
        self.parts.push(PartSpec::Launch { function: function.clone(), refs, params: None });
        self
    }

    /// Says how many bytes of parameters the last launch has, where it has more than its refs and the function does not
    /// state it.
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
    /// // Two refs of 8 bytes each, and a float behind them.
    /// device.submission().launch(&add, [read(0), write(1)]).params(20).make()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn params(mut self, bytes: usize) -> Builder {
        match self.parts.last_mut() {
            Some(PartSpec::Launch { params, .. }) => *params = Some(bytes),
            _ => self.note("params() says how many bytes the launch before it has, and there is none"),
        }
        self
    }

    /// Copies all of slot `from` to slot `to`, whose buffer has the same length.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let mut run = device.submission().copy(0, 1).make()?.take();
    /// let (a, b) = (device.from_slice(&[1_u8, 2, 3])?, device.from_slice(&[0_u8; 3])?);
    /// run.submit(&[&a, &b])?;
    /// assert_eq!(b.to_vec()?, [1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy(mut self, from: u32, to: u32) -> Builder {
        self.parts.push(PartSpec::Copy(Copy { from, to }));
        self
    }

    /// Sets every byte of slot `slot` to `byte`.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let mut run = device.submission().memset(0, 9).make()?.take();
    /// let a = device.from_slice(&[1_u8, 2, 3])?;
    /// run.submit(&[&a])?;
    /// assert_eq!(a.to_vec()?, [9, 9, 9]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn memset(mut self, slot: u32, byte: u8) -> Builder {
        self.parts.push(PartSpec::Memset(Memset { slot, byte }));
        self
    }

    /// A fill: code that encodes commands of the driver `D`'s own, called in each submit, in the part's place, with the
    /// driver's encoder and the memory of all slots. `refs` say which slots the commands read and write.
    ///
    /// An error or a panic of it loses the device. Inside it, calls of rig that could wait are Invalid.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let step = device
    ///     .submission()
    ///     .fill::<rig_host::Host>([rig::write(0)], |encoder, slots| {
    ///         let (start, len) = (slots[0].host.addr(), slots[0].len as usize);
    ///         // SAFETY: the memory of slot 0 is the task's until it ends.
    ///         encoder.task(move || unsafe {
    ///             let bytes = std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut::<u8>(start), len);
    ///             bytes.reverse();
    ///             Ok(())
    ///         });
    ///         Ok(())
    ///     })
    ///     .make()?;
    /// let a = device.from_slice(&[1_u8, 2, 3])?;
    /// // SAFETY: the fill's task touches the bytes of slot 0, and nothing else.
    /// unsafe { step.take().launch(&[&a])? };
    /// assert_eq!(a.to_vec()?, [3, 2, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fill<D: Driver>(
        mut self,
        refs: impl IntoIterator<Item = RefSpec>,
        code: impl Fn(&mut D::Encoder<'_>, &[Slot]) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Builder {
        let fill = AnyFill::new::<D>(Box::new(code));
        self.parts.push(PartSpec::Fill { refs: refs.into_iter().collect(), fill });
        self
    }

    /// Keeps `object` for the submission's work, such as what a fill's commands or a kernel's parameters point to. It is
    /// dropped once the last handle to the submission is gone and every point submitted from it is reached, or its work can
    /// no longer run: by the next call that makes something on the device or takes memory back
    /// ([`Device::reclaim`]), with no lock held.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let table = std::sync::Arc::new([1, 2, 3]);
    /// let step = device.submission().memset(0, 0).keep(table.clone()).make()?;
    /// assert_eq!(std::sync::Arc::strong_count(&table), 2);
    /// drop(step);
    /// device.reclaim();
    /// assert_eq!(std::sync::Arc::strong_count(&table), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep(mut self, object: impl Send + 'static) -> Builder {
        self.kept.push(Box::new(object));
        self
    }

    fn note(&mut self, wrong: &str) {
        self.wrong.get_or_insert_with(|| wrong.into());
    }

    /// Makes the submission. May block while the driver makes its plan.
    ///
    /// # Errors
    ///
    /// Invalid with the part and the mistake; Refused if the driver cannot run the parts together; OutOfMemory; Lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let step = device.submission().copy(0, 1).make()?;
    /// assert!(device.submission().copy(0, 0).make().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn make(self) -> Result<Submission> {
        let core = &self.device.handle.core;
        if rig_edge::callback::inside() {
            return invalid!("{} makes no submission inside a fill or a kernel: make it before", core.name);
        }
        core.check_open()?;
        if let Some(wrong) = self.wrong {
            return invalid!("{wrong}");
        }
        core.sweep_retired();
        let mut making = Making { kept: self.kept, ..Making::default() };
        for (index, part) in self.parts.into_iter().enumerate() {
            making.part(&self.device.handle, index, part)?;
        }
        making.finish(&self.device.handle)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("device", &self.device).field("parts", &self.parts.len()).finish()
    }
}

/// A submission in the making.
#[derive(Default)]
struct Making {
    parts: Vec<AnyPart>,
    shapes: Vec<Shape>,
    slots: Vec<SlotUse>,
    blocks: Vec<Block>,
    images: Vec<Arc<ImageCode>>,
    kept: Vec<Box<dyn Any + Send>>,
    params_len: usize,
    runs_code: bool,
    has_fill: bool,
}

const NO_LAUNCH: Block = Block { groups: [0; 3], threads: [0; 3], group_bytes: 0, params_at: 0, params_len: 0 };

impl Making {
    fn part(&mut self, handle: &Arc<Handle>, index: usize, part: PartSpec) -> Result<()> {
        let kinds = handle.core.facts.kinds();
        let (runs, what) = match &part {
            PartSpec::Launch { .. } => (kinds.launch, "launch"),
            PartSpec::Copy(_) => (kinds.copy, "copy"),
            PartSpec::Memset(_) => (kinds.memset, "memset"),
            PartSpec::Fill { .. } => (kinds.fill, "fill"),
        };
        if !runs {
            return invalid!(
                "part {index} is a {what}, which no queue of {} runs{}",
                handle.core.name,
                if what == "copy" || what == "memset" { ": use the buffer's own call" } else { "" }
            );
        }
        match part {
            PartSpec::Launch { function, refs, params } => self.launch(handle, index, &function, &refs, params),
            PartSpec::Copy(copy) => {
                if copy.from == copy.to {
                    return invalid!("part {index} copies slot {} to itself: name two slots", copy.from);
                }
                self.slot(index, copy.from)?.read();
                self.slot(index, copy.to)?.write(true);
                self.push(AnyPart::Copy(copy), Shape::Copy(copy), NO_LAUNCH);
                Ok(())
            }
            PartSpec::Memset(memset) => {
                self.slot(index, memset.slot)?.write(true);
                self.push(AnyPart::Memset(memset), Shape::Memset(memset), NO_LAUNCH);
                Ok(())
            }
            PartSpec::Fill { refs, fill } => {
                for spec in &refs {
                    self.refer(index, spec)?;
                }
                self.runs_code = true;
                self.has_fill = true;
                self.push(AnyPart::Fill(fill), Shape::Fill, NO_LAUNCH);
                Ok(())
            }
        }
    }

    fn push(&mut self, part: AnyPart, shape: Shape, block: Block) {
        self.parts.push(part);
        self.shapes.push(shape);
        self.blocks.push(block);
    }

    fn slot(&mut self, index: usize, slot: u32) -> Result<&mut SlotUse> {
        if slot >= SLOTS_MAX {
            return invalid!("part {index} names slot {slot}; slots go up to {}", SLOTS_MAX - 1);
        }
        let slot = slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, SlotUse::default());
        }
        Ok(&mut self.slots[slot])
    }

    fn refer(&mut self, index: usize, spec: &RefSpec) -> Result<()> {
        let of = self.slot(index, spec.slot)?;
        match spec.access {
            Access::Read => of.read(),
            Access::Write => of.write(false),
        }
        Ok(())
    }

    fn launch(
        &mut self,
        handle: &Arc<Handle>,
        index: usize,
        function: &Function,
        specs: &[RefSpec],
        params: Option<usize>,
    ) -> Result<()> {
        if !Arc::ptr_eq(function.handle(), handle) {
            return invalid!(
                "part {index} launches {}, a function loaded on another device ({}) than the submission's ({})",
                function.name(),
                function.handle().core.name,
                handle.core.name
            );
        }
        for spec in specs {
            self.refer(index, spec)?;
        }
        let refs = place_refs(index, function, specs)?;
        let params_len = params_len(index, function, &refs, params)?;
        let params_at = self.params_len;
        self.params_len = params_at + params_len.next_multiple_of(8);
        let (Ok(params_at), Ok(params_len)) = (u32::try_from(params_at), u32::try_from(params_len)) else {
            return invalid!("the launches' parameters take {} bytes together, above 4 GiB", self.params_len);
        };
        self.runs_code = true;
        self.images.push(function.code());
        let block = Block { groups: [1; 3], threads: [1; 3], group_bytes: 0, params_at, params_len };
        let part = AnyPart::Launch { entry: function.any_entry(), refs: refs.clone() };
        self.push(part, Shape::Launch { refs, name: function.shared_name() }, block);
        Ok(())
    }

    fn finish(self, handle: &Arc<Handle>) -> Result<Submission> {
        if let Some(slot) = self.slots.iter().position(|of| !of.used) {
            return invalid!("no part uses slot {slot}, but one uses slot {}", self.slots.len() - 1);
        }
        let bound = bind(&handle.core, self.parts)?;
        let made = Made {
            handle: Arc::clone(handle),
            shapes: self.shapes.into(),
            slots: self.slots.into(),
            blocks: self.blocks.into(),
            params_len: self.params_len,
            runs_code: self.runs_code,
            has_fill: self.has_fill,
            bound: Some(bound),
            images: self.images,
            kept: Mutex::new(self.kept),
            last: AtomicU64::new(0),
        };
        Ok(Submission { inner: Arc::new(made) })
    }
}

/// Gives each ref its place, and checks that the places are disjoint.
fn place_refs(index: usize, function: &Function, specs: &[RefSpec]) -> Result<Box<[Ref]>> {
    let mut next = 0;
    let mut refs = Vec::with_capacity(specs.len());
    for spec in specs {
        let at = spec.at.unwrap_or(next);
        if !at.is_multiple_of(8) {
            return invalid!("part {index} ({}) has a ref at {at}: a ref stands on a multiple of 8", function.name());
        }
        let Some(end) = at.checked_add(8) else {
            return invalid!("part {index} ({}) has a ref at {at}, beyond any parameters", function.name());
        };
        next = end;
        refs.push(Ref { slot: spec.slot, at, access: spec.access });
    }
    refs.sort_by_key(|r| r.at);
    if let Some(pair) = refs.windows(2).find(|pair| pair[0].at + 8 > pair[1].at) {
        return invalid!(
            "part {index} ({}) has two refs at {}: give each its own 8 bytes",
            function.name(),
            pair[1].at
        );
    }
    Ok(refs.into())
}

/// The bytes of a launch's parameters: as the function knows, as the caller says, else what the refs take.
fn params_len(index: usize, function: &Function, refs: &[Ref], said: Option<usize>) -> Result<usize> {
    let refs_end = refs.last().map_or(0, |r| r.at as usize + 8);
    if let (Some(known), Some(said)) = (function.params(), said)
        && known != said
    {
        return invalid!("part {index} says that {} has {said} bytes of parameters; it has {known}", function.name());
    }
    let len = function.params().or(said).unwrap_or(refs_end);
    if refs_end > len {
        return invalid!(
            "part {index} has a ref at {} that leaves the {len} bytes of {}'s parameters",
            refs_end - 8,
            function.name()
        );
    }
    Ok(len)
}

/// Binds the parts to the driver; reclaims memory where the plan finds none.
fn bind(core: &Core, parts: Vec<AnyPart>) -> Result<Box<dyn Bound>> {
    let mut parts = Some(parts);
    let answer = core.counted(|driver| match driver.bind(parts.take().unwrap_or_default()) {
        Err(PlanError::Fault(fault)) => Err(fault),
        other => Ok(other),
    })?;
    match answer {
        Ok(bound) => Ok(bound),
        Err(PlanError::Refused(why)) => Err(Error::Refused(format!("{} refuses the submission: {why}", core.name))),
        Err(PlanError::NoMemory(bytes)) => Err(Error::OutOfMemory { bytes }),
        Err(PlanError::Fault(fault)) => {
            core.lose(fault);
            Err(core.lost_error())
        }
    }
}
