//! What a fill encodes with: tasks, which are code, launches, copies and memsets that run in the fill's place.
//!
//! # Invariants
//!
//! 1. A task holds all that it needs: copies of parameters, and its function's code. The memory that it reaches by addresses is
//!    kept by the submission, as for every part.

use crate::code::Entry;
use crate::group;
use crate::work::{Task, refusal};
use rig_edge::Block;

/// What a fill of a host device encodes with.
///
/// The fill's code runs inside the submit; it is handed the slots, whose `host` addresses are the memory, and must not
/// touch that memory itself, since earlier work may still use it. It adds tasks: code ([`task`](Encoder::task)),
/// launches, copies and memsets. They run one after the other, in the fill's place in the order of the work, and may then read
/// and write the memory of the slots as the fill's refs say. All tasks of a fill run on one thread, whichever it is: what is to
/// be shared among the cores is best a part of its own. Any call of rig that could wait is Invalid in a task, as in a kernel.
///
/// `include/rig_host.h` gives the same to code in C ([`c_fill`](crate::abi::c_fill)).
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// use rig_host::Host;
/// let step = device
///     .submission()
///     .fill::<Host>([rig::write(0)], |encoder, slots| {
///         let start = slots[0].host;
///         // SAFETY: slot 0 has 4 bytes.
///         unsafe { encoder.memset(start, 7, 2) };
///         // SAFETY: as above. It runs behind the memset.
///         unsafe { encoder.copy(start, start.wrapping_add(2), 2) };
///         Ok(())
///     })
///     .make()?;
/// # let x = device.from_slice(&[1_u8, 2, 3, 4])?;
/// # // SAFETY: the fill's tasks touch the 4 bytes of slot 0, and nothing else.
/// # unsafe { step.take().launch(&[&x])?.wait()? };
/// assert_eq!(x.to_vec()?, [7; 4]);
/// # Ok(())
/// # }
/// ```
pub struct Encoder<'a> {
    pub(crate) tasks: &'a mut Vec<Task>,
}

/// One launch of a fill's own.
///
/// Its parameters are read by the kernel as they stand: where rig would put the address of a slot's memory, they hold that
/// address.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// use rig_host::{FillLaunch, Host, Kernels};
/// let kernels = Kernels::new().group("double", 12, |params, _| {
///     // SAFETY: slot 0 has as many bytes as the parameters say.
///     let x: &mut [u8] = unsafe { params.slice_mut(0, 0, params.get::<u32>(8) as usize) };
///     x.iter_mut().for_each(|x| *x *= 2);
/// });
/// let double = device.load(&kernels.image())?.function("double")?;
/// let step = device
///     .submission()
///     .fill::<Host>([rig::write(0)], move |encoder, slots| {
///         // The address of slot 0, which rig would put at the ref, and how many bytes it has.
///         let (start, len) = (slots[0].host.addr().to_ne_bytes(), (slots[0].len as u32).to_ne_bytes());
///         let params = [&start[..], &len].concat();
///         let entry = double.entry::<Host>().ok_or("not a function of the host's")?;
///         let launch = FillLaunch { entry, params: &params, groups: [1; 3], threads: [1; 3], group_bytes: 0 };
///         // SAFETY: `double` touches the bytes of slot 0.
///         unsafe { encoder.launch(&launch) }
///     })
///     .make()?;
/// # let x = device.from_slice(&[1_u8, 2, 3, 4])?;
/// # // SAFETY: the fill's tasks touch the 4 bytes of slot 0, and nothing else.
/// # unsafe { step.take().launch(&[&x])?.wait()? };
/// assert_eq!(x.to_vec()?, [2, 4, 6, 8]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FillLaunch<'a> {
    /// The function, as `Function::entry` of rig gives it.
    pub entry: &'a Entry,
    /// Its parameters, which are copied.
    pub params: &'a [u8],
    /// Groups along x, y, z.
    pub groups: [u32; 3],
    /// Threads of a group along x, y, z.
    pub threads: [u32; 3],
    /// The bytes of group memory beside what the function declares.
    pub group_bytes: u32,
}

impl std::fmt::Debug for Encoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoder({} tasks)", self.tasks.len())
    }
}

#[expect(unsafe_code, reason = "runs code over memory that addresses name")]
impl Encoder<'_> {
    /// Adds code to run in the fill's place, after the tasks added before it. An error or a panic of the code is a fault
    /// of the device.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// use rig_host::Host;
    /// let step = device
    ///     .submission()
    ///     .fill::<Host>([rig::write(0)], |encoder, slots| {
    ///         let (start, len) = (slots[0].host.addr(), slots[0].len as usize);
    ///         encoder.task(move || {
    ///             let start = std::ptr::with_exposed_provenance_mut::<u8>(start);
    ///             // SAFETY: the memory of slot 0 is the task's until it ends.
    ///             unsafe { std::slice::from_raw_parts_mut(start, len) }.reverse();
    ///             Ok(())
    ///         });
    ///         Ok(())
    ///     })
    ///     .make()?;
    /// # let x = device.from_slice(&[1_u8, 2, 3, 4])?;
    /// # // SAFETY: the fill's tasks touch the 4 bytes of slot 0, and nothing else.
    /// # unsafe { step.take().launch(&[&x])?.wait()? };
    /// assert_eq!(x.to_vec()?, [4, 3, 2, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn task(&mut self, code: impl FnOnce() -> Result<(), String> + Send + 'static) {
        self.tasks.push(Box::new(code));
    }

    /// Adds a launch of a function that rig resolved. It keeps the function's code.
    ///
    /// # Errors
    ///
    /// The reason, where the launch can never run: its parameters are of another size, or its groups too many, too large or
    /// none.
    ///
    /// # Safety
    ///
    /// As for a launch of rig: the kernel touches no memory but that of the fill's slots, reads and writes it as the fill's refs
    /// say, and gets parameters of the form that it expects.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// use rig_host::{FillLaunch, Host, Kernels};
    /// let kernels = Kernels::new().group("increase", 8, |params, _| {
    ///     // SAFETY: slot 0 has 4 bytes, and the launch one group.
    ///     unsafe { params.slice_mut::<u8>(0, 0, 4) }.iter_mut().for_each(|byte| *byte += 1);
    /// });
    /// let increase = device.load(&kernels.image())?.function("increase")?;
    /// let step = device
    ///     .submission()
    ///     .fill::<Host>([rig::write(0)], move |encoder, slots| {
    ///         let launch = FillLaunch {
    ///             entry: increase.entry::<Host>().ok_or("not a function of the host's")?,
    ///             params: &slots[0].host.addr().to_ne_bytes(),
    ///             groups: [1, 1, 1],
    ///             threads: [1, 1, 1],
    ///             group_bytes: 0,
    ///         };
    ///         // SAFETY: `increase` touches 4 bytes of slot 0.
    ///         unsafe { encoder.launch(&launch) }
    ///     })
    ///     .make()?;
    /// # let x = device.from_slice(&[1_u8, 2, 3, 4])?;
    /// # // SAFETY: the fill's tasks touch the 4 bytes of slot 0, and nothing else.
    /// # unsafe { step.take().launch(&[&x])?.wait()? };
    /// assert_eq!(x.to_vec()?, [2, 3, 4, 5]);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn launch(&mut self, launch: &FillLaunch<'_>) -> Result<(), String> {
        let &FillLaunch { entry, params, groups, threads, group_bytes } = launch;
        let name = &entry.function().name;
        if let Some(bytes) = entry.function().params.filter(|&bytes| bytes != params.len()) {
            return Err(format!(
                "{name} has {bytes} bytes of parameters, and a fill launches it with {}",
                params.len()
            ));
        }
        let params_len = u32::try_from(params.len()).map_err(|_| format!("{name} has 4 GiB of parameters at most"))?;
        let block = Block { groups, threads, group_bytes, params_at: 0, params_len };
        if let Some(why) = refusal(entry, &block) {
            return Err(why);
        }
        // Words, so that the parameters stand on 8 bytes.
        let mut words = vec![0_u64; params.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..params.len()].copy_from_slice(params);
        let entry = entry.clone();
        // `refusal` has bounded the product.
        let count = groups.iter().map(|&axis| u64::from(axis)).product();
        self.task(move || {
            let params = &bytemuck::cast_slice(&words)[..block.params_len as usize];
            group::run(entry.function(), &block, params, 0..count)
        });
        Ok(())
    }

    /// Adds a copy of `len` bytes. The ranges may overlap.
    ///
    /// # Safety
    ///
    /// `from` names so many bytes of a slot that the fill's refs read, and `to` of one that they write.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let step = device
    ///     .submission()
    ///     .fill::<rig_host::Host>([rig::write(0)], |encoder, slots| {
    ///         let start = slots[0].host;
    ///         // SAFETY: slot 0 has 4 bytes.
    ///         unsafe { encoder.copy(start, start.wrapping_add(2), 2) };
    ///         Ok(())
    ///     })
    ///     .make()?;
    /// # let x = device.from_slice(&[1_u8, 2, 3, 4])?;
    /// # // SAFETY: the fill's tasks touch the 4 bytes of slot 0, and nothing else.
    /// # unsafe { step.take().launch(&[&x])?.wait()? };
    /// assert_eq!(x.to_vec()?, [1, 2, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn copy(&mut self, from: *const u8, to: *mut u8, len: usize) {
        let (from, to) = (from.expose_provenance(), to.expose_provenance());
        self.task(move || {
            let from = std::ptr::with_exposed_provenance::<u8>(from);
            // SAFETY: the caller's promise, and the task runs in the fill's place, so nothing else writes the bytes.
            unsafe { from.copy_to(std::ptr::with_exposed_provenance_mut(to), len) };
            Ok(())
        });
    }

    /// Adds a memset: sets `len` bytes to `byte`.
    ///
    /// # Safety
    ///
    /// `to` names so many bytes of a slot that the fill's refs write.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let step = device
    ///     .submission()
    ///     .fill::<rig_host::Host>([rig::write(0)], |encoder, slots| {
    ///         // SAFETY: slot 0 has 4 bytes.
    ///         unsafe { encoder.memset(slots[0].host, 9, 4) };
    ///         Ok(())
    ///     })
    ///     .make()?;
    /// # let x = device.from_slice(&[1_u8, 2, 3, 4])?;
    /// # // SAFETY: the fill's tasks touch the 4 bytes of slot 0, and nothing else.
    /// # unsafe { step.take().launch(&[&x])?.wait()? };
    /// assert_eq!(x.to_vec()?, [9; 4]);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn memset(&mut self, to: *mut u8, byte: u8, len: usize) {
        let to = to.expose_provenance();
        self.task(move || {
            let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
            // SAFETY: the caller's promise, and the task runs in the fill's place, so nothing else uses the bytes.
            unsafe { to.write_bytes(byte, len) };
            Ok(())
        });
    }
}
