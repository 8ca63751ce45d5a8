//! Indirect command buffers: commands that are recorded once, and executed by many encoders.
//!
//! What a command records it does not keep alive: the program keeps its pipelines and buffers, and makes the buffers
//! resident wherever the commands run.

use std::sync::Arc;

use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{AnyObject, NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSRange, NSString, NSUInteger};
use parking_lot::Mutex;

use super::{
    BufferState, Life, MTLIndirectCommandBufferDescriptor, PipelineFacts, ResourceState, again,
    buffer::Buffer,
    compute::{BUFFERS, check_threads, checked_grid, threadgroup_memory},
    concrete, create,
    device::Device,
    pipeline::Pipeline,
};
use crate::{
    machine::{Machine, What},
    protocol::{
        MTLAllocation, MTLCPUCacheMode, MTLDevice, MTLHazardTrackingMode, MTLIndirectCommandBuffer,
        MTLIndirectCommandType, MTLIndirectComputeCommand, MTLPurgeableState, MTLResource, MTLResourceOptions, MTLSize,
        MTLStorageMode,
    },
    queue::pass::Grid,
};

/// Commands of one buffer at most: what Metal allows.
const COMMANDS: usize = 16384;

/// One command, as it was recorded.
#[derive(Clone, Default)]
pub(crate) struct Recorded {
    pub(crate) pipeline: Option<Arc<PipelineFacts>>,
    pub(crate) buffers: Vec<(u8, Arc<BufferState>, u64)>,
    pub(crate) threadgroup: Vec<(u8, u32)>,
    /// Whether it waits for the commands before it.
    pub(crate) barrier: bool,
    pub(crate) grid: Option<Grid>,
}

/// An indirect command buffer, without its object.
pub(crate) struct IndirectState {
    life: Life,
    pub(crate) machine: Machine,
    types: MTLIndirectCommandType,
    pub(crate) inherits_pipeline: bool,
    pub(crate) inherits_buffers: bool,
    max_buffers: usize,
    pub(crate) commands: Mutex<Vec<Recorded>>,
}

impl ResourceState for IndirectState {
    fn life(&self) -> &Life {
        &self.life
    }

    fn range(&self) -> Option<(u64, u64)> {
        None
    }

    fn allocated(&self) -> u64 {
        0
    }

    fn describe(&self) -> String {
        format!("the indirect command buffer of {} commands", self.commands.lock().len())
    }
}

/// What the object of an indirect command buffer holds.
pub(crate) struct Variables {
    state: Arc<IndirectState>,
    device: Retained<Device>,
    label: Mutex<Option<String>>,
}

impl Drop for Variables {
    fn drop(&mut self) {
        self.state.life.end();
    }
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelIndirectCommandBuffer"]
    #[ivars = Variables]
    pub(crate) struct IndirectBuffer;

    unsafe impl NSObjectProtocol for IndirectBuffer {}

    unsafe impl MTLAllocation for IndirectBuffer {
        #[unsafe(method(allocatedSize))]
        fn allocated_size(&self) -> NSUInteger {
            0
        }
    }

    unsafe impl MTLResource for IndirectBuffer {
        #[unsafe(method_id(label))]
        fn label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.lock().as_deref().map(NSString::from_str)
        }

        #[unsafe(method(setLabel:))]
        fn set_label(&self, label: Option<&NSString>) {
            *self.ivars().label.lock() = label.map(ToString::to_string);
        }

        #[unsafe(method_id(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
            ProtocolObject::from_retained(self.ivars().device.clone())
        }

        #[unsafe(method(cpuCacheMode))]
        fn cache_mode(&self) -> MTLCPUCacheMode {
            MTLCPUCacheMode::DefaultCache
        }

        #[unsafe(method(storageMode))]
        fn storage_mode(&self) -> MTLStorageMode {
            MTLStorageMode::Shared
        }

        #[unsafe(method(hazardTrackingMode))]
        fn tracking_mode(&self) -> MTLHazardTrackingMode {
            MTLHazardTrackingMode::Untracked
        }

        #[unsafe(method(resourceOptions))]
        fn options(&self) -> MTLResourceOptions {
            MTLResourceOptions::HazardTrackingModeUntracked
        }

        #[unsafe(method(setPurgeableState:))]
        fn set_purgeable(&self, _state: MTLPurgeableState) -> MTLPurgeableState {
            MTLPurgeableState::NonVolatile
        }

        #[unsafe(method(heapOffset))]
        fn heap_offset(&self) -> NSUInteger {
            0
        }

        #[unsafe(method(isAliasable))]
        fn is_aliasable(&self) -> bool {
            false
        }
    }

    unsafe impl MTLIndirectCommandBuffer for IndirectBuffer {
        #[unsafe(method(size))]
        fn size(&self) -> NSUInteger {
            self.ivars().state.commands.lock().len()
        }

        #[unsafe(method(resetWithRange:))]
        fn reset(&self, range: NSRange) {
            let state = &self.ivars().state;
            let mut commands = state.commands.lock();
            let end = range.location.checked_add(range.length).filter(|end| *end <= commands.len());
            if let Some(end) = end {
                commands[range.location..end].fill(Recorded::default());
            } else {
                drop(commands);
                state
                    .machine
                    .violate("-[MTLIndirectCommandBuffer resetWithRange:]", "the range ends past the commands");
            }
        }

        #[unsafe(method_id(indirectComputeCommandAtIndex:))]
        fn command(&self, at: NSUInteger) -> Retained<ProtocolObject<dyn MTLIndirectComputeCommand>> {
            let state = &self.ivars().state;
            if at >= state.commands.lock().len() {
                let call = "-[MTLIndirectCommandBuffer indirectComputeCommandAtIndex:]";
                state.machine.violate(call, format!("command {at} is past the last"));
            }
            let variables = CommandVariables { state: state.clone(), at };
            ProtocolObject::from_retained(create!(IndirectCommand, state.machine, variables))
        }
    }
);

impl IndirectBuffer {
    pub(crate) fn state(&self) -> &Arc<IndirectState> {
        &self.ivars().state
    }
}

/// What the object of a command holds.
pub(crate) struct CommandVariables {
    state: Arc<IndirectState>,
    at: usize,
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelIndirectComputeCommand"]
    #[ivars = CommandVariables]
    pub(crate) struct IndirectCommand;

    unsafe impl NSObjectProtocol for IndirectCommand {}

    unsafe impl MTLIndirectComputeCommand for IndirectCommand {
        #[unsafe(method(setComputePipelineState:))]
        fn set_pipeline(&self, pipeline: &AnyObject) {
            self.change("-[MTLIndirectComputeCommand setComputePipelineState:]", |state, recorded| {
                let facts = concrete::<Pipeline>(pipeline).map(Pipeline::facts);
                let facts = facts
                    .filter(|facts| facts.machine.same(&state.machine))
                    .ok_or("the pipeline is not of this device")?;
                if state.inherits_pipeline {
                    return Err("the command buffer inherits its pipeline".to_owned());
                }
                if !facts.indirect {
                    return Err(format!("the pipeline of {} does not support indirect command buffers", facts.name));
                }
                recorded.pipeline = Some(facts.clone());
                Ok(())
            });
        }

        #[unsafe(method(setKernelBuffer:offset:atIndex:))]
        fn set_buffer(&self, buffer: &AnyObject, offset: NSUInteger, index: NSUInteger) {
            self.change("-[MTLIndirectComputeCommand setKernelBuffer:offset:atIndex:]", |state, recorded| {
                let buffer = concrete::<Buffer>(buffer).map(Buffer::state);
                let buffer = buffer
                    .filter(|buffer| buffer.machine.same(&state.machine))
                    .ok_or("the buffer is not of this device")?;
                if state.inherits_buffers {
                    return Err("the command buffer inherits its buffers".to_owned());
                }
                if index >= state.max_buffers || index >= BUFFERS {
                    return Err(format!("buffer index {index} is past the {} of the descriptor", state.max_buffers));
                }
                if offset >= buffer.len() {
                    return Err(format!("offset {offset} is past the buffer's {} bytes", buffer.len()));
                }
                let index = u8::try_from(index).unwrap_or(u8::MAX);
                recorded.buffers.retain(|(other, ..)| *other != index);
                recorded.buffers.push((index, buffer.clone(), offset as u64));
                Ok(())
            });
        }

        #[unsafe(method(concurrentDispatchThreadgroups:threadsPerThreadgroup:))]
        fn dispatch_groups(&self, groups: MTLSize, threads: MTLSize) {
            self.change(
                "-[MTLIndirectComputeCommand concurrentDispatchThreadgroups:threadsPerThreadgroup:]",
                |state, recorded| {
                    dispatch(
                        state,
                        recorded,
                        MTLIndirectCommandType::ConcurrentDispatch,
                        checked_grid(groups, threads, false)?,
                    )
                },
            );
        }

        #[unsafe(method(concurrentDispatchThreads:threadsPerThreadgroup:))]
        fn dispatch_threads(&self, grid: MTLSize, threads: MTLSize) {
            self.change(
                "-[MTLIndirectComputeCommand concurrentDispatchThreads:threadsPerThreadgroup:]",
                |state, recorded| {
                    let of = MTLIndirectCommandType::ConcurrentDispatchThreads;
                    dispatch(state, recorded, of, checked_grid(grid, threads, true)?)
                },
            );
        }

        #[unsafe(method(setBarrier))]
        fn set_barrier(&self) {
            self.change("-[MTLIndirectComputeCommand setBarrier]", |_, recorded| {
                recorded.barrier = true;
                Ok(())
            });
        }

        #[unsafe(method(clearBarrier))]
        fn clear_barrier(&self) {
            self.change("-[MTLIndirectComputeCommand clearBarrier]", |_, recorded| {
                recorded.barrier = false;
                Ok(())
            });
        }

        #[unsafe(method(reset))]
        fn reset(&self) {
            self.change("-[MTLIndirectComputeCommand reset]", |_, recorded| {
                *recorded = Recorded::default();
                Ok(())
            });
        }

        #[unsafe(method(setThreadgroupMemoryLength:atIndex:))]
        fn set_threadgroup_memory(&self, len: NSUInteger, index: NSUInteger) {
            self.change("-[MTLIndirectComputeCommand setThreadgroupMemoryLength:atIndex:]", |state, recorded| {
                let (len, index) = threadgroup_memory(len, index, state.machine.0.config.threadgroup_memory)?;
                recorded.threadgroup.retain(|(other, _)| *other != index);
                recorded.threadgroup.push((index, len));
                Ok(())
            });
        }
    }
);

impl IndirectCommand {
    /// Changes the command, or says why not.
    fn change(&self, call: &'static str, change: impl FnOnce(&IndirectState, &mut Recorded) -> Result<(), String>) {
        let CommandVariables { state, at } = self.ivars();
        let changed = match state.commands.lock().get_mut(*at) {
            Some(recorded) => change(state, recorded),
            None => Err(format!("command {at} is past the last")),
        };
        if let Err(why) = changed {
            state.machine.violate(call, why);
        }
    }
}

/// Records what a command dispatches.
fn dispatch(
    state: &IndirectState,
    recorded: &mut Recorded,
    of: MTLIndirectCommandType,
    grid: Grid,
) -> Result<(), String> {
    if !state.types.contains(of) {
        return Err("the descriptor does not name this type of command".to_owned());
    }
    if let Some(facts) = &recorded.pipeline {
        check_threads(facts, &state.machine, grid.threads)?;
    }
    recorded.grid = Some(grid);
    Ok(())
}

/// Metal's rules for the execution of a range of commands.
pub(super) fn check(
    state: &IndirectState,
    range: NSRange,
    pipeline: Option<&Arc<PipelineFacts>>,
    bound: impl Fn(usize) -> bool,
) -> Result<(), String> {
    let commands = state.commands.lock();
    let end = range.location.checked_add(range.length).filter(|end| *end <= commands.len());
    let end = end.ok_or_else(|| format!("the range ends past the {} commands", commands.len()))?;
    for (at, recorded) in commands[range.location..end].iter().enumerate() {
        let Some(grid) = recorded.grid else { continue };
        let at = range.location + at;
        let facts = if state.inherits_pipeline { pipeline } else { recorded.pipeline.as_ref() };
        let facts = facts.ok_or_else(|| format!("command {at} has no pipeline"))?;
        if !facts.indirect {
            return Err(format!("the pipeline of {} does not support indirect command buffers", facts.name));
        }
        check_threads(facts, &state.machine, grid.threads)?;
        for need in &facts.needs {
            let index = usize::from(need.index);
            let has = recorded.buffers.iter().any(|(other, ..)| usize::from(*other) == index);
            if !(has || state.inherits_buffers && index < BUFFERS && bound(index)) {
                return Err(format!("command {at}: no buffer is bound at index {index} for {}", need.name));
            }
        }
    }
    Ok(())
}

/// The object of a new indirect command buffer.
pub(crate) fn new(
    device: &Device,
    descriptor: &MTLIndirectCommandBufferDescriptor,
    count: usize,
) -> Option<Retained<ProtocolObject<dyn MTLIndirectCommandBuffer>>> {
    let call = "-[MTLDevice newIndirectCommandBufferWithDescriptor:maxCommandCount:options:]";
    let machine = device.machine();
    if !machine.permits(What::IndirectCommandBuffer) {
        return None;
    }
    let properties = descriptor.ivars();
    let (types, max_buffers) = (properties.types.get(), properties.max_buffers.get());
    let dispatches = MTLIndirectCommandType::ConcurrentDispatch | MTLIndirectCommandType::ConcurrentDispatchThreads;
    if count == 0 || count > COMMANDS {
        machine.violate(call, format!("{count} commands; 1 to {COMMANDS} can be"));
        return None;
    }
    if types.is_empty() || !dispatches.contains(types) {
        machine.violate(call, "the descriptor names no type of command, or one that is no dispatch");
        return None;
    }
    if max_buffers > BUFFERS {
        machine.violate(call, format!("{max_buffers} buffers a command; {BUFFERS} are the most"));
        return None;
    }
    let state = Arc::new(IndirectState {
        life: Life::default(),
        machine: machine.clone(),
        types,
        inherits_pipeline: properties.inherit_pipeline.get(),
        inherits_buffers: properties.inherit_buffers.get(),
        max_buffers,
        commands: Mutex::new(vec![Recorded::default(); count]),
    });
    let variables = Variables { state, device: again(device), label: Mutex::new(None) };
    Some(ProtocolObject::from_retained(create!(IndirectBuffer, machine, variables)))
}
