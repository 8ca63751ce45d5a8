//! The open command buffer, and how work gets into it: the driver's own launches and what fills encode.
//!
//! # Invariants
//!
//! 1. A command buffer has one compute encoder at a time, of the serial kind: its commands run one after the other.
//! 2. Each encoder first waits for the fence, if one before it updated it, and last updates it: so command buffers run one
//!    after the other too, also over memory that Metal does not track.
//! 3. Command buffers retain nothing that they use. Regions and pipelines outlive the work by rig's promise; the arenas, the
//!    fence, the queue and the residency set by the completion handler; indirect command buffers by the ring. A fill that uses
//!    objects of its own keeps them by the submission (`Builder::keep` of rig).

use std::sync::Arc;

use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSRange;
use rig_edge::Times;

use crate::icb::{Icb, Recorded};
use crate::object::Held;
use crate::params::Taken;
use crate::ring;
use crate::running::Running;
use crate::state::Shared;
use crate::sys::{
    MTLBuffer, MTLCommandBuffer, MTLCommandEncoder, MTLCommandQueue, MTLComputeCommandEncoder, MTLDevice,
    MTLDispatchType, MTLFence, guard,
};

/// The open command buffer.
pub(crate) struct Open {
    pub buffer: Held<dyn MTLCommandBuffer>,
    encoder: Option<Held<dyn MTLComputeCommandEncoder>>,
    running: Arc<Running>,
    /// Values whose work ends in it.
    pub values: u32,
    /// The last value whose work it or one before it holds to the end.
    pub upto: u64,
    pub taken: Option<Taken>,
    pub keep: Vec<Arc<Recorded>>,
    /// Where to note when the GPU ran it, while somebody takes a profile.
    pub times: Option<Arc<Times>>,
    /// Whether an encoder before the next one updated the fence.
    pub fenced: bool,
}

impl Open {
    /// Makes a command buffer. Inside a pool and a guard.
    fn new(running: Arc<Running>, fenced: bool) -> Result<Open, String> {
        let buffer = running.queue.commandBufferWithUnretainedReferences().ok_or("Metal makes no command buffer")?;
        Ok(Open {
            buffer: buffer.into(),
            encoder: None,
            running,
            values: 0,
            upto: 0,
            taken: None,
            keep: Vec::new(),
            times: None,
            fenced,
        })
    }

    /// The compute encoder. Inside a pool and a guard.
    #[inline]
    pub fn compute_encoder(&mut self) -> Result<&Held<dyn MTLComputeCommandEncoder>, String> {
        if self.encoder.is_none() {
            self.start()?;
        }
        self.encoder.as_ref().ok_or_else(|| "no encoder was started".into())
    }

    #[cold]
    fn start(&mut self) -> Result<(), String> {
        let encoder = self.buffer.computeCommandEncoderWithDispatchType(MTLDispatchType::Serial);
        let encoder = encoder.ok_or("Metal makes no compute encoder")?;
        // An encoder that is dropped must have ended: whatever the fence does, `abandon` finds it.
        let encoder = self.encoder.insert(encoder.into());
        if self.fenced {
            encoder.waitForFence(&self.running.fence);
        }
        Ok(())
    }

    /// Ends the compute encoder, if there is one. Inside a guard.
    pub fn end(&mut self) {
        if let Some(encoder) = &self.encoder {
            encoder.updateFence(&self.running.fence);
            encoder.endEncoding();
            self.encoder = None;
            self.fenced = true;
        }
    }

    /// Drops the command buffer uncommitted: its work never runs.
    #[cold]
    pub fn abandon(mut self) {
        autoreleasepool(|_| {
            if let Some(encoder) = self.encoder.take() {
                // The device has failed or stops: that Metal raises here changes nothing.
                let _ = guard(|| encoder.endEncoding());
            }
            drop(self);
        });
    }
}

/// What a fill encodes with: the device's open command buffer, in the place of the fill's part.
///
/// What it encodes runs after all work before it and before all work after it. An error of one of its methods is the fill's to
/// return: it fails the submit, and so does an exception that Metal raises in the fill.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// use rig_metal::sys::{MTLComputeCommandEncoder, MTLSize};
/// use std::ptr::NonNull;
/// let step = device.submission().fill::<rig_metal::Metal>([rig::write(0)], move |encoder, slots| {
///     let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
///     // What `iota` takes: where y is for the GPU, how many numbers it has, and the first of them.
///     let params = [&slots[0].device.to_ne_bytes()[..], &64_u32.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
///     let compute = encoder.compute()?;
///     compute.setComputePipelineState(entry.pipeline());
///     // SAFETY: Metal copies the parameters, which are as many bytes.
///     unsafe { compute.setBytes_length_atIndex(NonNull::from(&params[0]).cast(), params.len(), 0) };
///     let along = |width| MTLSize { width, height: 1, depth: 1 };
///     compute.dispatchThreadgroups_threadsPerThreadgroup(along(1), along(64));
///     Ok(())
/// });
/// // SAFETY: the fill writes the 64 numbers of slot 0, and touches nothing else.
/// unsafe { step.make()?.take().launch(&[&y])? };
/// assert_eq!(y.read(|y| y[63])?, 7 + 63);
/// # Ok(())
/// # }
/// ```
pub struct Encoder<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) gpu: &'a Held<dyn MTLDevice>,
    pub(crate) open: Option<Open>,
    pub(crate) value: u64,
    /// Where to note when the work ran, while somebody takes a profile: then it has command buffers of its own.
    pub(crate) times: Option<&'a Arc<Times>>,
    /// The bytes that the value's launches took.
    pub(crate) taken: Option<Taken>,
    /// The arena of its launches: lasts for the submit.
    pub(crate) arena: Option<(*const ProtocolObject<dyn MTLBuffer>, *mut u8)>,
}

impl Encoder<'_> {
    /// The device.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// use rig_metal::sys::MTLDevice;
    /// let step = device.submission().fill::<rig_metal::Metal>([rig::read(0)], |encoder, _| {
    ///     // Such as whether the GPU has what the fill is written for.
    ///     let bytes = encoder.device().maxThreadgroupMemoryLength();
    ///     if bytes >= 16 << 10 { Ok(()) } else { Err(format!("{bytes} bytes of threadgroup memory are too few")) }
    /// });
    /// // SAFETY: the fill touches nothing.
    /// unsafe { step.make()?.take().launch(&[&y])? };
    /// assert!(device.lost().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn device(&self) -> &ProtocolObject<dyn MTLDevice> {
        self.gpu
    }

    /// The open compute encoder, of the serial kind; a new one where the fill has ended the last. It is the driver's to end.
    ///
    /// # Errors
    ///
    /// If Metal makes no command buffer or encoder, or the device has failed.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// use rig_metal::sys::MTLComputeCommandEncoder;
    /// let step = device.submission().fill::<rig_metal::Metal>([rig::read(0)], move |encoder, _| {
    ///     let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    ///     // It is the fill's to set up, and stays the driver's to end: `Encoder` has a whole launch.
    ///     encoder.compute()?.setComputePipelineState(entry.pipeline());
    ///     Ok(())
    /// });
    /// // SAFETY: the fill touches nothing.
    /// unsafe { step.make()?.take().launch(&[&y])? };
    /// assert!(device.lost().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn compute(&mut self) -> Result<&ProtocolObject<dyn MTLComputeCommandEncoder>, String> {
        let encoder = self.opened()?.compute_encoder()?;
        Ok(encoder)
    }

    /// The open command buffer. It is the driver's to commit.
    ///
    /// # Errors
    ///
    /// If Metal makes none, or the device has failed.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// use rig_metal::sys::{MTLCommandBuffer, MTLCommandEncoder, MTLComputeCommandEncoder, MTLDispatchType};
    /// use std::ptr::NonNull;
    /// # use rig_metal::sys::MTLSize;
    /// let step = device.submission().fill::<rig_metal::Metal>([rig::write(0)], move |encoder, slots| {
    ///     # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    ///     // What `iota` takes: where y is for the GPU, how many numbers it has, and the first of them.
    ///     let params = [&slots[0].device.to_ne_bytes()[..], &64_u32.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
    ///     # let along = |width| MTLSize { width, height: 1, depth: 1 };
    ///     encoder.end()?;
    ///     let fence = objc2::Message::retain(encoder.fence()?);
    ///     // The driver's encoder is serial: dispatches of this one may overlap.
    ///     let own = encoder.command_buffer()?.computeCommandEncoderWithDispatchType(MTLDispatchType::Concurrent);
    ///     let own = own.ok_or("Metal makes no encoder")?;
    ///     own.waitForFence(&fence);
    ///     own.setComputePipelineState(entry.pipeline());
    ///     // SAFETY: Metal copies the parameters, which are as many bytes.
    ///     unsafe { own.setBytes_length_atIndex(NonNull::from(&params[0]).cast(), params.len(), 0) };
    ///     own.dispatchThreadgroups_threadsPerThreadgroup(along(1), along(64));
    ///     own.updateFence(&fence);
    ///     own.endEncoding();
    ///     Ok(())
    /// });
    /// // SAFETY: the fill writes the 64 numbers of slot 0, and touches nothing else.
    /// unsafe { step.make()?.take().launch(&[&y])? };
    /// assert_eq!(y.read(|y| y[63])?, 7 + 63);
    /// # Ok(())
    /// # }
    /// ```
    pub fn command_buffer(&mut self) -> Result<&ProtocolObject<dyn MTLCommandBuffer>, String> {
        let open = self.opened()?;
        Ok(&open.buffer)
    }

    /// The fence that orders the device's encoders: an encoder of the fill's own, such as one that copies textures, waits for it
    /// first and updates it last.
    ///
    /// # Errors
    ///
    /// As [`command_buffer`](Encoder::command_buffer).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// use rig_metal::sys::{MTLCommandBuffer, MTLCommandEncoder, MTLComputeCommandEncoder};
    /// let step = device.submission().fill::<rig_metal::Metal>([rig::read(0)], |encoder, _| {
    ///     encoder.end()?;
    ///     let fence = objc2::Message::retain(encoder.fence()?);
    ///     let own = encoder.command_buffer()?.computeCommandEncoder().ok_or("Metal makes no encoder")?;
    ///     own.waitForFence(&fence);
    ///     // What the fill encodes here runs after what the driver encoded before, and before what it encodes next.
    ///     own.updateFence(&fence);
    ///     own.endEncoding();
    ///     Ok(())
    /// });
    /// // SAFETY: the fill touches nothing.
    /// unsafe { step.make()?.take().launch(&[&y])? };
    /// assert!(device.lost().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence(&mut self) -> Result<&ProtocolObject<dyn MTLFence>, String> {
        let open = self.opened()?;
        Ok(&open.running.fence)
    }

    /// Ends the compute encoder, so that the fill may make encoders of its own in the command buffer. The fill ends those itself,
    /// before the next [`compute`](Encoder::compute) and before it returns.
    ///
    /// # Errors
    ///
    /// As [`command_buffer`](Encoder::command_buffer).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// use rig_metal::sys::{MTLCommandBuffer, MTLCommandEncoder};
    /// let step = device.submission().fill::<rig_metal::Metal>([rig::read(0)], |encoder, _| {
    ///     encoder.end()?;
    ///     // Now the command buffer takes an encoder of the fill's own.
    ///     let own = encoder.command_buffer()?.computeCommandEncoder().ok_or("Metal makes no encoder")?;
    ///     own.endEncoding();
    ///     // And the driver's is a new one.
    ///     encoder.compute().map(drop)
    /// });
    /// // SAFETY: the fill touches nothing.
    /// unsafe { step.make()?.take().launch(&[&y])? };
    /// assert!(device.lost().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn end(&mut self) -> Result<(), String> {
        // Also starts the encoder that carries the order on, where there is none.
        let open = self.opened()?;
        open.compute_encoder()?;
        open.end();
        Ok(())
    }

    /// Commits the command buffer and opens the next one. Blocks while the device has 1,024 command buffers.
    ///
    /// The value completes with its last command buffer.
    ///
    /// # Errors
    ///
    /// As [`command_buffer`](Encoder::command_buffer).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
    /// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    /// # let params = [&address.to_ne_bytes()[..], &64_u32.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
    /// # let launch =
    /// #     rig_metal::IndirectLaunch { entry, params: &params, groups: [1; 3], threads: [64, 1, 1], group_bytes: 0 };
    /// # let icb = capability.icb(&[launch])?;
    /// // Recorded in it is a launch of `iota`, which writes 64 numbers from 7 on to y.
    /// // The GPU starts on the first launch while the fill still encodes the second.
    /// let step = device.submission().fill::<rig_metal::Metal>([rig::write(0)], move |encoder, _| {
    ///     encoder.execute(&icb)?;
    ///     encoder.next_buffer()?;
    ///     encoder.execute(&icb)
    /// });
    /// // SAFETY: the fill writes the 64 numbers of slot 0, and touches nothing else.
    /// unsafe { step.make()?.take().launch(&[&y])? };
    /// assert_eq!(y.read(|y| y[63])?, 7 + 63);
    /// # Ok(())
    /// # }
    /// ```
    pub fn next_buffer(&mut self) -> Result<(), String> {
        self.opened()?;
        if let Some(mut open) = self.open.take() {
            // The values before this one end here, and this one does not.
            open.upto = self.value - 1;
            self.shared.lock().commit(open).map_err(|fault| fault.reason)?;
        }
        self.opened().map(drop)
    }

    /// Runs all launches of an indirect command buffer, which lasts until they are done.
    ///
    /// # Errors
    ///
    /// As [`command_buffer`](Encoder::command_buffer), and if it was recorded on another device.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
    /// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    /// # let params = [&address.to_ne_bytes()[..], &64_u32.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
    /// # let launch =
    /// #     rig_metal::IndirectLaunch { entry, params: &params, groups: [1; 3], threads: [64, 1, 1], group_bytes: 0 };
    /// # let icb = capability.icb(&[launch])?;
    /// // Recorded in it is a launch of `iota`, which writes 64 numbers from 7 on to y.
    /// let step = device.submission().fill::<rig_metal::Metal>([rig::write(0)], move |encoder, _| encoder.execute(&icb)).make()?;
    /// let mut run = step.take();
    /// for _ in 0..2 {
    ///     y.write(|y| y.fill(0))?;
    ///     // SAFETY: what is recorded writes the 64 numbers of slot 0, from 7 on.
    ///     unsafe { run.launch(&[&y])? };
    ///     assert_eq!(y.read(|y| y[63])?, 7 + 63);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn execute(&mut self, icb: &Icb) -> Result<(), String> {
        icb.of(self.shared)?;
        let recorded = icb.recorded();
        let open = self.opened()?;
        open.keep.push(Arc::clone(recorded));
        let encoder = open.compute_encoder()?;
        // SAFETY: the range is the commands that were recorded, and the ring keeps what they use until they are done.
        #[expect(unsafe_code, reason = "runs recorded commands")]
        unsafe {
            encoder.executeCommandsInBuffer_withRange(&recorded.commands, NSRange::new(0, recorded.count));
        }
        Ok(())
    }

    /// The open command buffer, opened where none is.
    #[inline]
    pub(crate) fn opened(&mut self) -> Result<&mut Open, String> {
        if self.open.is_none() {
            self.open()?;
        }
        self.open.as_mut().ok_or_else(|| "no command buffer was opened".into())
    }

    #[cold]
    fn open(&mut self) -> Result<(), String> {
        let mut state = self.shared.lock();
        // Handlers take the lock meanwhile: a completion or a failure ends the wait.
        while state.failure.is_none() && state.ring.uncompleted() >= ring::MOST {
            self.shared.room.wait(&mut state);
        }
        state.check().map_err(|fault| fault.reason)?;
        let running = state.running.clone().ok_or("the device is stopped")?;
        let fenced = state.fenced;
        drop(state);
        let open = self.open.insert(Open::new(running, fenced)?);
        open.times = self.times.cloned();
        Ok(())
    }
}

impl std::fmt::Debug for Encoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoder of value {}", self.value)
    }
}
