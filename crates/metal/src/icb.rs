//! Indirect command buffers: launches that are recorded once and run by one command of a fill.
//!
//! # Invariants
//!
//! 1. What is recorded keeps what it runs: the pipelines, the parameters and the commands live until the last handle is
//!    dropped and every command buffer that runs them has completed.
//! 2. The parameters and the commands are in the device's residency set for as long.

use std::sync::{Arc, Weak};

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use rig_edge::Block;

use crate::code::Entry;
use crate::limits::{GROUP_MEMORY, Limits};
use crate::memory::located;
use crate::object::Held;
use crate::running::Running;
use crate::state::Shared;
use crate::sys::{
    MTLAllocation, MTLBuffer, MTLDevice, MTLIndirectCommandBuffer, MTLIndirectCommandBufferDescriptor,
    MTLIndirectCommandType, MTLIndirectComputeCommand, MTLResourceOptions, guard,
};
use crate::work::size;

/// The most launches that one records, as many as Metal takes.
const LAUNCHES_MOST: usize = 16384;

/// One launch of an indirect command buffer.
///
/// Its parameters are read by the kernel as they stand: where rig would put the address of a slot's memory, they hold that
/// address. The memory is the device's, and a slot of each fill that runs the launch, so that rig orders the work.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
/// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
/// use rig_metal::IndirectLaunch;
/// // The kernel's struct is an address, how many numbers are there, and the first of them.
/// let [low, high] = [(0_u64, 5_u32), (4 * 32, 500)].map(|(offset, start)| {
///     [&(address + offset).to_ne_bytes()[..], &32_u32.to_ne_bytes(), &start.to_ne_bytes()].concat()
/// });
/// let launches = [&low, &high]
///     .map(|params| IndirectLaunch { entry, params, groups: [1; 3], threads: [32, 1, 1], group_bytes: 0 });
/// let icb = capability.icb(&launches)?;
/// let step = device.submission().fill::<rig_metal::Metal>([rig::write(0)], move |encoder, _| encoder.execute(&icb));
/// // SAFETY: what is recorded writes the 64 numbers of slot 0.
/// unsafe { step.make()?.take().launch(&[&y])? };
/// assert_eq!(y.read(|y| (y[0], y[32]))?, (5, 500));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct IndirectLaunch<'a> {
    /// The function.
    pub entry: &'a Entry,
    /// Its parameters, kernel buffer 0; none where they are empty.
    pub params: &'a [u8],
    /// Groups along x, y, z.
    pub groups: [u32; 3],
    /// Threads of a group along x, y, z.
    pub threads: [u32; 3],
    /// The bytes of threadgroup memory 0.
    pub group_bytes: u32,
}

/// Recorded launches, which [`execute`](crate::Encoder::execute) runs one after the other. Another handle is a clone.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
/// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
/// # let params = [&address.to_ne_bytes()[..], &64_u32.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
/// # let launch =
/// #     rig_metal::IndirectLaunch { entry, params: &params, groups: [1; 3], threads: [64, 1, 1], group_bytes: 0 };
/// // The launch has `iota` write 64 numbers from 7 on to y.
/// // Recorded once, with its parameters, and run by any number of fills.
/// let icb = capability.icb(&[launch, launch])?;
/// let in_fill = icb.clone();
/// let step =
///     device.submission().fill::<rig_metal::Metal>([rig::write(0)], move |encoder, _| encoder.execute(&in_fill));
/// // SAFETY: the fill writes the 64 numbers of slot 0, and touches nothing else.
/// unsafe { step.make()?.take().launch(&[&y])? };
/// assert_eq!(y.read(|y| y[63])?, 7 + 63);
/// assert_eq!(icb.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Icb {
    recorded: Arc<Recorded>,
    /// Which device's: by the address of what its threads share.
    device: Weak<Shared>,
}

/// What is recorded, with all that it runs.
pub(crate) struct Recorded {
    pub commands: Held<dyn MTLIndirectCommandBuffer>,
    pub count: usize,
    params: Option<Held<dyn MTLBuffer>>,
    /// Indirect command buffers retain no pipelines.
    entries: Vec<Entry>,
    running: Weak<Running>,
}

impl Icb {
    /// How many launches it records.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
    /// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    /// # let params = [&address.to_ne_bytes()[..], &64_u32.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
    /// # let launch =
    /// #     rig_metal::IndirectLaunch { entry, params: &params, groups: [1; 3], threads: [64, 1, 1], group_bytes: 0 };
    /// let icb = capability.icb(&[launch, launch, launch])?;
    /// assert_eq!(icb.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        self.recorded.count
    }

    /// Whether it records none.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
    /// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    /// # let params = [&address.to_ne_bytes()[..], &64_u32.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
    /// # let launch =
    /// #     rig_metal::IndirectLaunch { entry, params: &params, groups: [1; 3], threads: [64, 1, 1], group_bytes: 0 };
    /// assert!(!capability.icb(&[launch])?.is_empty());
    /// // One of no launches is not made.
    /// assert!(capability.icb(&[]).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.recorded.count == 0
    }

    pub(crate) fn recorded(&self) -> &Arc<Recorded> {
        &self.recorded
    }

    /// Sees that it is of this device.
    pub(crate) fn of(&self, shared: &Shared) -> Result<(), String> {
        if std::ptr::eq(self.device.as_ptr(), shared) {
            Ok(())
        } else {
            Err("the indirect command buffer was recorded on another device".into())
        }
    }

    /// Records launches, with parameters at multiples of `alignment`.
    pub(crate) fn record(
        gpu: &Held<dyn MTLDevice>,
        shared: &Arc<Shared>,
        limits: &Limits,
        alignment: usize,
        launches: &[IndirectLaunch<'_>],
    ) -> Result<Icb, String> {
        if rig_edge::callback::inside() {
            return Err("a fill or a kernel makes no indirect command buffer: make it before".into());
        }
        let running = shared.running().ok_or("the device is stopped")?;
        check(limits, launches)?;
        let recorded = autoreleasepool(|_| {
            let made = guard(|| record(gpu, Arc::downgrade(&running), alignment, launches)).and_then(|made| made)?;
            for allocation in made.allocations() {
                running.reside(allocation)?;
            }
            Ok::<_, String>(made)
        })?;
        Ok(Icb { recorded: Arc::new(recorded), device: Arc::downgrade(shared) })
    }
}

/// Sees that every launch can run.
fn check(limits: &Limits, launches: &[IndirectLaunch<'_>]) -> Result<(), String> {
    if launches.is_empty() || launches.len() > LAUNCHES_MOST {
        return Err(format!(
            "an indirect command buffer records 1 to {LAUNCHES_MOST} launches, not {}",
            launches.len()
        ));
    }
    for (index, launch) in launches.iter().enumerate() {
        let params_len =
            u32::try_from(launch.params.len()).map_err(|_| format!("launch {index} has parameters of 4 GiB"))?;
        let block = Block {
            groups: launch.groups,
            threads: launch.threads,
            group_bytes: launch.group_bytes,
            params_at: 0,
            params_len,
        };
        if let Some(why) = limits.refuse(launch.entry, &block) {
            return Err(format!("launch {index} asks for {why}"));
        }
    }
    Ok(())
}

/// Records the launches. Inside a pool and a guard.
#[expect(unsafe_code, reason = "records commands and writes their parameters")]
fn record(
    gpu: &Held<dyn MTLDevice>,
    running: Weak<Running>,
    alignment: usize,
    launches: &[IndirectLaunch<'_>],
) -> Result<Recorded, String> {
    let bytes = launches.iter().map(|launch| launch.params.len().next_multiple_of(alignment)).sum::<usize>();
    let params = if bytes == 0 { None } else { Some(params_buffer(gpu, bytes)?) };
    let descriptor = MTLIndirectCommandBufferDescriptor::new();
    descriptor.setCommandTypes(MTLIndirectCommandType::ConcurrentDispatch);
    descriptor.setInheritPipelineState(false);
    descriptor.setInheritBuffers(false);
    descriptor.setMaxKernelBufferBindCount(1);
    // SAFETY: kernels bind threadgroup memory 0 alone.
    unsafe { descriptor.setMaxKernelThreadgroupMemoryBindCount(1) };
    let (count, options) = (launches.len(), MTLResourceOptions::StorageModeShared);
    // SAFETY: the count was seen to be what Metal takes.
    let commands =
        unsafe { gpu.newIndirectCommandBufferWithDescriptor_maxCommandCount_options(&descriptor, count, options) };
    let commands = commands.ok_or_else(|| format!("Metal makes no indirect command buffer of {count} launches"))?;
    let mut offset = 0;
    for (index, launch) in launches.iter().enumerate() {
        // SAFETY: the index is below the count.
        let command = unsafe { commands.indirectComputeCommandAtIndex(index) };
        command.setComputePipelineState(launch.entry.pipeline());
        if let (Some(buffer), false) = (&params, launch.params.is_empty()) {
            let at = buffer.contents().as_ptr().cast::<u8>().wrapping_add(offset);
            // SAFETY: the buffer has room for all parameters, and nothing else uses it yet.
            unsafe { std::ptr::copy_nonoverlapping(launch.params.as_ptr(), at, launch.params.len()) };
            // SAFETY: the offset is in the buffer, which what is recorded keeps.
            unsafe { command.setKernelBuffer_offset_atIndex(buffer, offset, 0) };
            offset += launch.params.len().next_multiple_of(alignment);
        }
        if launch.group_bytes > 0 {
            let length = launch.group_bytes.next_multiple_of(GROUP_MEMORY) as usize;
            // SAFETY: `check` saw that the GPU has as much.
            unsafe { command.setThreadgroupMemoryLength_atIndex(length, 0) };
        }
        // A command waits for those before it.
        command.setBarrier();
        command.concurrentDispatchThreadgroups_threadsPerThreadgroup(size(launch.groups), size(launch.threads));
    }
    let entries = launches.iter().map(|launch| launch.entry.clone()).collect();
    Ok(Recorded { commands: commands.into(), count, params, entries, running })
}

/// A buffer for all parameters.
fn params_buffer(gpu: &Held<dyn MTLDevice>, bytes: usize) -> Result<Held<dyn MTLBuffer>, String> {
    let buffer: Option<Retained<ProtocolObject<dyn MTLBuffer>>> = if bytes <= gpu.maxBufferLength() {
        gpu.newBufferWithLength_options(bytes, MTLResourceOptions::StorageModeShared)
    } else {
        None
    };
    let buffer = Held::from(buffer.ok_or_else(|| format!("Metal has no memory for {bytes} bytes of parameters"))?);
    located(&buffer)?;
    Ok(buffer)
}

impl Recorded {
    /// What must be resident for its launches.
    fn allocations(&self) -> impl Iterator<Item = &ProtocolObject<dyn MTLAllocation>> {
        let commands = ProtocolObject::from_ref(&*self.commands);
        let params = self.params.as_ref().map(|params| ProtocolObject::from_ref(&**params));
        std::iter::once(commands).chain(params)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        autoreleasepool(|_| {
            if let Some(running) = self.running.upgrade() {
                // What the set does not give up now stays resident until the device stops.
                self.allocations().for_each(|allocation| drop(running.leave(allocation)));
            }
        });
    }
}

impl std::fmt::Debug for Icb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Icb of {} launches of {} entries", self.recorded.count, self.recorded.entries.len())
    }
}
