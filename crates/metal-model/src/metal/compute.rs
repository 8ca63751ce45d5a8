//! Compute encoders: they check what a program says, and record it into a pass.

use std::{ffi::c_void, sync::Arc};

use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{AnyObject, NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSRange, NSString, NSUInteger};
use parking_lot::{Mutex, MutexGuard};

use super::{
    PipelineFacts, ResourceState, again,
    buffer::Buffer,
    command_queue::CommandQueue,
    concrete, create,
    fence::Fence,
    indirect::{self, IndirectBuffer},
    pipeline::Pipeline,
    residency::{allocation_state, objects},
};
use crate::{
    machine::{Machine, What},
    protocol::{
        MTLBarrierScope, MTLCommandEncoder, MTLComputeCommandEncoder, MTLDevice, MTLDispatchType, MTLGPUFamily,
        MTLResourceUsage, MTLSize,
    },
    queue::{
        pass::{Aligned, Command, FenceState, Grid, Pass, Ref},
        work::Work,
    },
};

/// Buffers that a dispatch can have.
pub(crate) const BUFFERS: usize = 31;
/// Bytes that one `setBytes` copies at most.
const BYTES: usize = 4096;

/// What a buffer index is bound to.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The command that bound it, after which it counts from one: none where zero.
    bound: u32,
    /// Bytes of the buffer, and where the binding starts in it.
    len: u64,
    offset: u64,
}

/// What an encoder knows while it records.
pub(super) struct Recorder {
    open: bool,
    pass: Pass,
    slots: [Slot; BUFFERS],
    threadgroup: [u32; BUFFERS],
    pipeline: Option<Arc<PipelineFacts>>,
}

/// What an encoder's object holds, of either kind.
pub(crate) struct Variables {
    work: Arc<Work>,
    queue: Retained<CommandQueue>,
    dispatch_type: MTLDispatchType,
    recorder: Mutex<Recorder>,
    label: Mutex<Option<String>>,
}

impl Drop for Variables {
    fn drop(&mut self) {
        if self.recorder.get_mut().open {
            self.machine().violate("-[MTLCommandEncoder dealloc]", "an encoder is released without endEncoding");
        }
    }
}

impl Variables {
    pub(super) fn new(work: &Arc<Work>, queue: &Retained<CommandQueue>, dispatch_type: MTLDispatchType) -> Self {
        let (slots, threadgroup) = ([Slot::default(); BUFFERS], [0; BUFFERS]);
        let recorder = Recorder { open: true, pass: Pass::default(), slots, threadgroup, pipeline: None };
        let recorder = Mutex::new(recorder);
        Self { work: work.clone(), queue: queue.clone(), dispatch_type, recorder, label: Mutex::new(None) }
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.work.queue.machine
    }

    pub(super) fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
        ProtocolObject::from_retained(self.queue.device_object().clone())
    }

    pub(super) fn label(&self) -> Option<Retained<NSString>> {
        self.label.lock().as_deref().map(NSString::from_str)
    }

    pub(super) fn set_label(&self, label: Option<&NSString>) {
        *self.label.lock() = label.map(ToString::to_string);
    }

    /// What the encoder records into, while it is open.
    #[inline]
    pub(super) fn open(&self, call: &'static str) -> Option<MutexGuard<'_, Recorder>> {
        let Some(recorder) = self.recorder.try_lock() else {
            self.machine().violate(call, "two threads use the encoder at once");
            return None;
        };
        if !recorder.open {
            drop(recorder);
            self.machine().violate(call, "the encoder has ended");
            return None;
        }
        Some(recorder)
    }

    pub(super) fn end(&self) {
        self.machine().permits(What::EndEncoding);
        let Some(mut recorder) = self.open("-[MTLCommandEncoder endEncoding]") else { return };
        recorder.open = false;
        let pass = std::mem::take(&mut recorder.pass);
        recorder.pipeline = None;
        drop(recorder);
        let mut state = self.work.state.lock();
        state.passes.push(pass);
        state.encoder_open = false;
    }

    /// A buffer of this machine's.
    pub(super) fn buffer<'a>(&self, call: &'static str, buffer: &'a AnyObject) -> Option<&'a Buffer> {
        let found = concrete::<Buffer>(buffer).filter(|buffer| buffer.state().machine.same(self.machine()));
        if found.is_none() {
            self.machine().violate(call, "the buffer is not of this device");
        }
        found
    }

    /// What a command that uses the object holds.
    pub(super) fn refer<S: ?Sized>(&self, state: &Arc<S>, object: &AnyObject) -> Ref<S> {
        Ref::new(state, self.work.retains.then_some(object))
    }

    pub(super) fn fence(&self, call: &'static str, object: &AnyObject) -> Option<Ref<FenceState>> {
        let fence = concrete::<Fence>(object).filter(|fence| fence.device_object().machine().same(self.machine()));
        if fence.is_none() {
            self.machine().violate(call, "the fence is not of this device");
        }
        fence.map(|fence| self.refer(fence.state(), object))
    }

    pub(super) fn update_fence(&self, fence: &AnyObject) {
        let call = "-[MTLCommandEncoder updateFence:]";
        if let (Some(mut recorder), Some(fence)) = (self.open(call), self.fence(call, fence)) {
            recorder.pass.updates.push(fence);
        }
    }

    pub(super) fn wait_for_fence(&self, fence: &AnyObject) {
        let call = "-[MTLCommandEncoder waitForFence:]";
        if let (Some(mut recorder), Some(fence)) = (self.open(call), self.fence(call, fence)) {
            let mine = recorder.pass.updates.iter().any(|update| Arc::ptr_eq(&update.state, &fence.state));
            recorder.pass.waits.push(fence);
            drop(recorder);
            if mine {
                self.machine().violate(call, "the encoder waits for a fence after it updates it");
            }
        }
    }

    /// The pass of an open encoder.
    pub(super) fn pass(recorder: &mut Recorder) -> &mut Pass {
        &mut recorder.pass
    }
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelComputeEncoder"]
    #[ivars = Variables]
    pub(crate) struct ComputeEncoder;

    unsafe impl NSObjectProtocol for ComputeEncoder {}

    unsafe impl MTLCommandEncoder for ComputeEncoder {
        #[unsafe(method_id(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
            self.ivars().device()
        }

        #[unsafe(method_id(label))]
        fn label(&self) -> Option<Retained<NSString>> {
            self.ivars().label()
        }

        #[unsafe(method(setLabel:))]
        fn set_label(&self, label: Option<&NSString>) {
            self.ivars().set_label(label);
        }

        #[unsafe(method(endEncoding))]
        fn end(&self) {
            self.ivars().end();
        }

        #[unsafe(method(insertDebugSignpost:))]
        fn signpost(&self, _name: &NSString) {}

        #[unsafe(method(pushDebugGroup:))]
        fn push_group(&self, _name: &NSString) {}

        #[unsafe(method(popDebugGroup))]
        fn pop_group(&self) {}
    }

    unsafe impl MTLComputeCommandEncoder for ComputeEncoder {
        #[unsafe(method(dispatchType))]
        fn dispatch_type(&self) -> MTLDispatchType {
            self.ivars().dispatch_type
        }

        #[unsafe(method(setComputePipelineState:))]
        fn set_pipeline(&self, pipeline: &AnyObject) {
            let call = "-[MTLComputeCommandEncoder setComputePipelineState:]";
            let Some(mut recorder) = self.setting(call) else { return };
            let found = concrete::<Pipeline>(pipeline).map(Pipeline::facts);
            let Some(facts) = found.filter(|facts| facts.machine.same(self.ivars().machine())) else {
                drop(recorder);
                self.ivars().machine().violate(call, "the pipeline is not of this device");
                return;
            };
            recorder.pipeline = Some(facts.clone());
            recorder.pass.commands.push(Command::Pipeline(self.ivars().refer(facts, pipeline)));
        }

        #[unsafe(method(setBytes:length:atIndex:))]
        fn set_bytes(&self, bytes: *mut c_void, len: NSUInteger, index: NSUInteger) {
            // SAFETY: the message hands as many bytes as it says.
            unsafe { self.copy_bytes(bytes, len, index) };
        }

        #[unsafe(method(setBuffer:offset:atIndex:))]
        fn set_buffer(&self, buffer: Option<&AnyObject>, offset: NSUInteger, index: NSUInteger) {
            self.bind("-[MTLComputeCommandEncoder setBuffer:offset:atIndex:]", buffer, offset, index);
        }

        #[unsafe(method(setBufferOffset:atIndex:))]
        fn set_offset(&self, offset: NSUInteger, index: NSUInteger) {
            self.move_binding(offset, index);
        }

        #[unsafe(method(setBuffers:offsets:withRange:))]
        fn set_buffers(&self, buffers: *const *const AnyObject, offsets: *const NSUInteger, range: NSRange) {
            // SAFETY: the message hands as many buffers, or nils, as its range is long.
            let buffers = unsafe { std::slice::from_raw_parts(buffers, range.length) };
            // SAFETY: and as many offsets.
            let offsets = unsafe { std::slice::from_raw_parts(offsets, range.length) };
            for (at, (buffer, offset)) in buffers.iter().zip(offsets).enumerate() {
                // SAFETY: it is nil, or a living buffer.
                let buffer = unsafe { buffer.as_ref() };
                self.bind(
                    "-[MTLComputeCommandEncoder setBuffers:offsets:withRange:]",
                    buffer,
                    *offset,
                    range.location + at,
                );
            }
        }

        #[unsafe(method(setThreadgroupMemoryLength:atIndex:))]
        fn set_threadgroup_memory(&self, len: NSUInteger, index: NSUInteger) {
            let call = "-[MTLComputeCommandEncoder setThreadgroupMemoryLength:atIndex:]";
            let Some(mut recorder) = self.setting(call) else { return };
            let most = self.ivars().machine().0.config.threadgroup_memory;
            match threadgroup_memory(len, index, most) {
                Ok((len, index)) => {
                    recorder.threadgroup[usize::from(index)] = len;
                    recorder.pass.commands.push(Command::Threadgroup { index, len });
                }
                Err(why) => {
                    drop(recorder);
                    self.ivars().machine().violate(call, why);
                }
            }
        }

        #[unsafe(method(dispatchThreadgroups:threadsPerThreadgroup:))]
        fn dispatch_groups(&self, groups: MTLSize, threads: MTLSize) {
            self.dispatch(
                "-[MTLComputeCommandEncoder dispatchThreadgroups:threadsPerThreadgroup:]",
                groups,
                threads,
                false,
            );
        }

        #[unsafe(method(dispatchThreadgroupsWithIndirectBuffer:indirectBufferOffset:threadsPerThreadgroup:))]
        fn dispatch_indirect(&self, buffer: &AnyObject, offset: NSUInteger, threads: MTLSize) {
            self.dispatch_by_buffer(buffer, offset, threads);
        }

        #[unsafe(method(dispatchThreads:threadsPerThreadgroup:))]
        fn dispatch_threads(&self, grid: MTLSize, threads: MTLSize) {
            self.dispatch("-[MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:]", grid, threads, true);
        }

        #[unsafe(method(updateFence:))]
        fn update_fence(&self, fence: &AnyObject) {
            self.ivars().update_fence(fence);
        }

        #[unsafe(method(waitForFence:))]
        fn wait_for_fence(&self, fence: &AnyObject) {
            self.ivars().wait_for_fence(fence);
        }

        #[unsafe(method(useResource:usage:))]
        fn use_resource(&self, resource: &AnyObject, usage: MTLResourceUsage) {
            self.make_resident("-[MTLComputeCommandEncoder useResource:usage:]", resource, usage);
        }

        #[unsafe(method(useResources:count:usage:))]
        fn use_resources(&self, resources: *const *const AnyObject, count: NSUInteger, usage: MTLResourceUsage) {
            // SAFETY: the message hands as many objects as it counts.
            for resource in unsafe { objects(resources, count) } {
                self.make_resident("-[MTLComputeCommandEncoder useResources:count:usage:]", resource, usage);
            }
        }

        #[unsafe(method(executeCommandsInBuffer:withRange:))]
        fn execute(&self, buffer: &AnyObject, range: NSRange) {
            self.execute_recorded(buffer, range);
        }

        #[unsafe(method(memoryBarrierWithScope:))]
        fn barrier(&self, _scope: MTLBarrierScope) {
            drop(self.ivars().open("-[MTLComputeCommandEncoder memoryBarrierWithScope:]"));
        }

        #[unsafe(method(memoryBarrierWithResources:count:))]
        fn barrier_of(&self, _resources: *const *const AnyObject, _count: NSUInteger) {
            drop(self.ivars().open("-[MTLComputeCommandEncoder memoryBarrierWithResources:count:]"));
        }
    }
);

impl ComputeEncoder {
    /// The recorder, for a message that sets something.
    #[inline]
    fn setting(&self, call: &'static str) -> Option<MutexGuard<'_, Recorder>> {
        self.ivars().machine().permits(What::Set);
        self.ivars().open(call)
    }

    fn bind(&self, call: &'static str, buffer: Option<&AnyObject>, offset: usize, index: usize) {
        let variables = self.ivars();
        let Some(mut recorder) = self.setting(call) else { return };
        let why = if index >= BUFFERS {
            format!("buffer index {index} is past 30")
        } else if let Some(object) = buffer {
            let Some(buffer) = variables.buffer(call, object) else { return };
            let state = buffer.state();
            if offset < state.len() {
                let bound = u32::try_from(recorder.pass.commands.len()).unwrap_or(u32::MAX - 1) + 1;
                recorder.slots[index] = Slot { bound, len: state.len() as u64, offset: offset as u64 };
                let (buffer, index) = (Some(variables.refer(state, object)), narrow(index));
                recorder.pass.commands.push(Command::Buffer { index, buffer, offset: offset as u64 });
                return;
            }
            format!("offset {offset} is past the buffer's {} bytes", state.len())
        } else {
            recorder.slots[index] = Slot::default();
            recorder.pass.commands.push(Command::Buffer { index: narrow(index), buffer: None, offset: 0 });
            return;
        };
        drop(recorder);
        variables.machine().violate(call, why);
    }

    fn move_binding(&self, offset: usize, index: usize) {
        let call = "-[MTLComputeCommandEncoder setBufferOffset:atIndex:]";
        let Some(mut recorder) = self.setting(call) else { return };
        let why = match recorder.slots.get_mut(index) {
            None => format!("buffer index {index} is past 30"),
            Some(slot) if slot.bound == 0 => format!("no buffer is bound at index {index}"),
            Some(slot) if offset as u64 >= slot.len => {
                format!("offset {offset} is past the buffer's {} bytes", slot.len)
            }
            Some(slot) => {
                slot.offset = offset as u64;
                recorder.pass.commands.push(Command::Offset { index: narrow(index), offset: offset as u64 });
                return;
            }
        };
        drop(recorder);
        self.ivars().machine().violate(call, why);
    }

    /// # Safety
    /// There are so many bytes.
    unsafe fn copy_bytes(&self, bytes: *mut c_void, len: usize, index: usize) {
        let call = "-[MTLComputeCommandEncoder setBytes:length:atIndex:]";
        let Some(mut recorder) = self.setting(call) else { return };
        let why = if index >= BUFFERS {
            format!("buffer index {index} is past 30")
        } else if len == 0 {
            "there are no bytes".to_owned()
        } else if len > BYTES {
            format!("{len} bytes are more than {BYTES}")
        } else {
            // SAFETY: the caller's bytes.
            let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
            let bound = u32::try_from(recorder.pass.commands.len()).unwrap_or(u32::MAX - 1) + 1;
            recorder.slots[index] = Slot { bound, len: len as u64, offset: 0 };
            recorder.pass.commands.push(Command::Bytes { index: narrow(index), bytes: Aligned::new(bytes) });
            return;
        };
        drop(recorder);
        self.ivars().machine().violate(call, why);
    }

    fn dispatch(&self, call: &'static str, size: MTLSize, threads: MTLSize, by_threads: bool) {
        let machine = self.ivars().machine();
        machine.permits(What::Dispatch);
        let Some(mut recorder) = self.ivars().open(call) else { return };
        let grid = checked_grid(size, threads, by_threads).and_then(|grid| {
            check(&recorder, machine, grid.threads)?;
            Ok(grid)
        });
        match grid {
            Ok(grid) => {
                track(&mut recorder);
                recorder.pass.commands.push(Command::Dispatch(grid));
            }
            Err(why) => {
                drop(recorder);
                machine.violate(call, why);
            }
        }
    }

    fn dispatch_by_buffer(&self, object: &AnyObject, offset: usize, threads: MTLSize) {
        let call = "-[MTLComputeCommandEncoder dispatchThreadgroupsWithIndirectBuffer:indirectBufferOffset:threadsPerThreadgroup:]";
        let machine = self.ivars().machine();
        machine.permits(What::Dispatch);
        let Some(mut recorder) = self.ivars().open(call) else { return };
        let Some(buffer) = self.ivars().buffer(call, object) else { return };
        let one = MTLSize { width: 1, height: 1, depth: 1 };
        let threads = checked_grid(one, threads, false).and_then(|grid| {
            check(&recorder, machine, grid.threads)?;
            if !offset.is_multiple_of(4) || offset.checked_add(12).is_none_or(|end| end > buffer.state().len()) {
                return Err(format!("offset {offset} leaves no three aligned words in {} bytes", buffer.state().len()));
            }
            Ok(grid.threads)
        });
        match threads {
            Ok(threads) => {
                track(&mut recorder);
                recorder.pass.track(buffer.state(), false);
                let buffer = self.ivars().refer(buffer.state(), object);
                recorder.pass.commands.push(Command::DispatchIndirect { buffer, offset: offset as u64, threads });
            }
            Err(why) => {
                drop(recorder);
                machine.violate(call, why);
            }
        }
    }

    fn make_resident(&self, call: &'static str, object: &AnyObject, usage: MTLResourceUsage) {
        let Some(mut recorder) = self.ivars().open(call) else { return };
        let Some(state) = allocation_state(object) else {
            drop(recorder);
            self.ivars().machine().violate(call, "the resource is not of this device");
            return;
        };
        if let Some(buffer) = concrete::<Buffer>(object) {
            recorder.pass.track(buffer.state(), usage.contains(MTLResourceUsage::Write));
        }
        let state: Ref<dyn ResourceState> = self.ivars().refer(&state, object);
        recorder.pass.commands.push(Command::Use(state));
    }

    fn execute_recorded(&self, object: &AnyObject, range: NSRange) {
        let call = "-[MTLComputeCommandEncoder executeCommandsInBuffer:withRange:]";
        let machine = self.ivars().machine();
        machine.permits(What::Dispatch);
        let Some(mut recorder) = self.ivars().open(call) else { return };
        let Some(buffer) = concrete::<IndirectBuffer>(object).filter(|buffer| buffer.state().machine.same(machine))
        else {
            drop(recorder);
            machine.violate(call, "the indirect command buffer is not of this device");
            return;
        };
        let bound = |index: usize| recorder.slots[index].bound > 0;
        if let Err(why) = indirect::check(buffer.state(), range, recorder.pipeline.as_ref(), bound) {
            drop(recorder);
            machine.violate(call, why);
            return;
        }
        let buffer = self.ivars().refer(buffer.state(), object);
        recorder.pass.commands.push(Command::Indirect { buffer, from: range.location, count: range.length });
    }
}

/// Metal's rules for threadgroup memory.
pub(super) fn threadgroup_memory(len: usize, index: usize, most: usize) -> Result<(u32, u8), String> {
    if index >= BUFFERS {
        return Err(format!("threadgroup memory index {index} is past 30"));
    }
    if !len.is_multiple_of(16) {
        return Err(format!("{len} bytes are no multiple of 16"));
    }
    if len > most {
        return Err(format!("{len} bytes are more than the GPU's {most}"));
    }
    Ok((u32::try_from(len).unwrap_or(u32::MAX), narrow(index)))
}

/// An index that is below 31.
fn narrow(index: usize) -> u8 {
    u8::try_from(index).unwrap_or(u8::MAX)
}

/// The sizes of a dispatch: none is zero, and all fit 32 bits.
pub(super) fn checked_grid(size: MTLSize, threads: MTLSize, by_threads: bool) -> Result<Grid, String> {
    let words = |size: MTLSize, what: &str| {
        let all = [size.width, size.height, size.depth];
        if all.contains(&0) {
            return Err(format!("an axis of the {what} has size 0: {all:?}"));
        }
        let mut words = [0; 3];
        for (word, axis) in words.iter_mut().zip(all) {
            *word = u32::try_from(axis).map_err(|_| format!("an axis of the {what} has size {axis}"))?;
        }
        Ok(words)
    };
    let (size, threads) = (words(size, "grid")?, words(threads, "threadgroup")?);
    if !by_threads {
        return Ok(Grid { groups: size, threads, grid: None });
    }
    let mut groups = [0; 3];
    for ((groups, size), threads) in groups.iter_mut().zip(size).zip(threads) {
        *groups = size.div_ceil(threads);
    }
    Ok(Grid { groups, threads, grid: Some(size) })
}

/// Metal's rules for a threadgroup's size.
pub(super) fn check_threads(facts: &PipelineFacts, machine: &Machine, threads: [u32; 3]) -> Result<(), String> {
    let limits = machine.0.config.max_threads;
    for (axis, (threads, limit)) in threads.into_iter().zip(limits).enumerate() {
        if threads as usize > limit {
            return Err(format!("axis {axis} of the threadgroup has {threads} threads, and the GPU {limit} at most"));
        }
    }
    let all = threads.iter().map(|threads| u64::from(*threads)).product::<u64>();
    if all > facts.max_threads as u64 {
        return Err(format!("{all} threads of a threadgroup are more than {}'s {}", facts.name, facts.max_threads));
    }
    if facts.whole_simdgroups && !all.is_multiple_of(32) {
        return Err(format!("{all} threads of a threadgroup are no multiple of 32, which the pipeline was promised"));
    }
    Ok(())
}

/// Metal's rules for a dispatch.
fn check(recorder: &Recorder, machine: &Machine, threads: [u32; 3]) -> Result<(), String> {
    let facts = recorder.pipeline.as_ref().ok_or("no pipeline is set")?;
    check_threads(facts, machine, threads)?;
    for need in &facts.needs {
        let (name, index) = (&need.name, need.index);
        let slot = recorder.slots.get(usize::from(index)).copied().unwrap_or_default();
        if slot.bound == 0 {
            return Err(format!("{}: no buffer is bound at index {index} for {name}", facts.name));
        }
        if slot.len - slot.offset < need.bytes {
            let (bound, needs) = (slot.len - slot.offset, need.bytes);
            return Err(format!("{}: {bound} bytes are bound at index {index}, and {name} has {needs}", facts.name));
        }
        let alignment = if need.constant { need.alignment.max(constant_alignment(machine)) } else { need.alignment };
        if !slot.offset.is_multiple_of(alignment) {
            return Err(format!("{}: offset {} of {name} is no multiple of {alignment}", facts.name, slot.offset));
        }
    }
    for index in &facts.threadgroup {
        if recorder.threadgroup.get(usize::from(*index)).is_none_or(|len| *len == 0) {
            return Err(format!("{}: no threadgroup memory is set at index {index}", facts.name));
        }
    }
    let memory = facts.static_memory + recorder.threadgroup.iter().map(|len| *len as usize).sum::<usize>();
    if memory > machine.0.config.threadgroup_memory {
        let most = machine.0.config.threadgroup_memory;
        return Err(format!("{}: {memory} bytes of threadgroup memory are more than the GPU's {most}", facts.name));
    }
    Ok(())
}

/// What the offset of a constant buffer is a multiple of: Metal Feature Set Tables, "Minimum constant buffer offset
/// alignment"; for Mac families the largest that they ever gave.
fn constant_alignment(machine: &Machine) -> u64 {
    let apple = MTLGPUFamily::Apple1..=MTLGPUFamily::Apple10;
    if machine.0.config.families.iter().any(|family| apple.contains(family)) { 4 } else { 256 }
}

/// Notes what the dispatch binds.
fn track(recorder: &mut Recorder) {
    let Some(facts) = &recorder.pipeline else { return };
    let mut uses = [None; BUFFERS];
    for need in &facts.needs {
        if let Some(slot) = recorder.slots.get(usize::from(need.index)) {
            uses[usize::from(need.index)] = Some((slot.bound, need.writes));
        }
    }
    for (bound, writes) in uses.into_iter().flatten() {
        let command = recorder.pass.commands.get((bound as usize).wrapping_sub(1));
        if let Some(Command::Buffer { buffer: Some(buffer), .. }) = command {
            let state = buffer.state.clone();
            recorder.pass.track(&state, writes);
        }
    }
}

/// The object of a new encoder.
pub(crate) fn new(
    work: &Arc<Work>,
    queue: &Retained<CommandQueue>,
    dispatch_type: MTLDispatchType,
) -> Retained<ProtocolObject<dyn MTLComputeCommandEncoder>> {
    let machine = &work.queue.machine;
    let queue = again(&**queue);
    ProtocolObject::from_retained(create!(ComputeEncoder, machine, Variables::new(work, &queue, dispatch_type)))
}
