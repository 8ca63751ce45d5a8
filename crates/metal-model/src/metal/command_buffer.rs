//! Command buffers.

use std::sync::Arc;

use block2::RcBlock;
use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{AnyObject, NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSError, NSString, NSUInteger};
use parking_lot::Mutex;

use super::{
    again, blit,
    command_queue::{CommandQueue, set_of},
    compute, create, errors,
    residency::objects,
};
use crate::{
    machine::{Machine, What},
    protocol::{
        CFTimeInterval, MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandBufferErrorOption, MTLCommandBufferHandler,
        MTLCommandBufferStatus, MTLCommandQueue, MTLComputeCommandEncoder, MTLDevice, MTLDispatchType,
    },
    queue::{
        SETS,
        work::{Handler, Running, Work},
    },
};

/// What a command buffer's object holds.
pub(crate) struct Variables {
    work: Arc<Work>,
    queue: Retained<CommandQueue>,
    label: Mutex<Option<String>>,
}

impl Drop for Variables {
    fn drop(&mut self) {
        let status = self.work.status();
        if status < MTLCommandBufferStatus::Committed {
            let queue = &self.work.queue;
            if status == MTLCommandBufferStatus::Enqueued {
                queue.forget(&self.work);
            }
            // What it keeps goes with it, also where an encoder's object still has the state.
            let mut state = self.work.state.lock();
            let (passes, handlers) = (std::mem::take(&mut state.passes), std::mem::take(&mut state.completed));
            drop(state);
            drop((passes, handlers));
            queue.give_place();
        }
    }
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelCommandBuffer"]
    #[ivars = Variables]
    pub(crate) struct CommandBuffer;

    unsafe impl NSObjectProtocol for CommandBuffer {}

    unsafe impl MTLCommandBuffer for CommandBuffer {
        #[unsafe(method_id(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
            ProtocolObject::from_retained(self.ivars().queue.device_object().clone())
        }

        #[unsafe(method_id(commandQueue))]
        fn queue_object(&self) -> Retained<ProtocolObject<dyn MTLCommandQueue>> {
            ProtocolObject::from_retained(self.ivars().queue.clone())
        }

        #[unsafe(method(retainedReferences))]
        fn retained_references(&self) -> bool {
            self.ivars().work.retains
        }

        #[unsafe(method(errorOptions))]
        fn error_options(&self) -> MTLCommandBufferErrorOption {
            MTLCommandBufferErrorOption::None
        }

        #[unsafe(method_id(label))]
        fn label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.lock().as_deref().map(NSString::from_str)
        }

        #[unsafe(method(setLabel:))]
        fn set_label(&self, label: Option<&NSString>) {
            *self.ivars().label.lock() = label.map(ToString::to_string);
        }

        #[unsafe(method(kernelStartTime))]
        fn kernel_start(&self) -> CFTimeInterval {
            self.ivars().work.state.lock().times.kernel.0
        }

        #[unsafe(method(kernelEndTime))]
        fn kernel_end(&self) -> CFTimeInterval {
            self.ivars().work.state.lock().times.kernel.1
        }

        #[unsafe(method(GPUStartTime))]
        fn gpu_start(&self) -> CFTimeInterval {
            self.ivars().work.state.lock().times.gpu.0
        }

        #[unsafe(method(GPUEndTime))]
        fn gpu_end(&self) -> CFTimeInterval {
            self.ivars().work.state.lock().times.gpu.1
        }

        #[unsafe(method(enqueue))]
        fn enqueue(&self) {
            if self.ivars().work.status() > MTLCommandBufferStatus::NotEnqueued {
                self.machine().violate("-[MTLCommandBuffer enqueue]", "the command buffer is enqueued already");
                return;
            }
            self.ivars().work.enqueue();
        }

        #[unsafe(method(commit))]
        fn commit(&self) {
            let call = "-[MTLCommandBuffer commit]";
            let work = &self.ivars().work;
            self.machine().permits(What::Commit);
            let (status, open) = {
                let state = work.state.lock();
                (state.status, state.encoder_open)
            };
            if status >= MTLCommandBufferStatus::Committed {
                self.machine().violate(call, "the command buffer is committed already");
                return;
            }
            if open {
                self.machine().violate(call, "an encoder of the command buffer is open");
                return;
            }
            work.commit(Running(again(self)));
        }

        #[unsafe(method(addScheduledHandler:))]
        fn add_scheduled(&self, block: MTLCommandBufferHandler) {
            if let Some(handler) = self.handler("-[MTLCommandBuffer addScheduledHandler:]", block) {
                self.ivars().work.state.lock().scheduled.push(handler);
            }
        }

        #[unsafe(method(waitUntilScheduled))]
        fn await_scheduled(&self) {
            if self.is_committed("-[MTLCommandBuffer waitUntilScheduled]") {
                self.ivars().work.await_scheduled();
            }
        }

        #[unsafe(method(addCompletedHandler:))]
        fn add_completed(&self, block: MTLCommandBufferHandler) {
            if let Some(handler) = self.handler("-[MTLCommandBuffer addCompletedHandler:]", block) {
                self.ivars().work.state.lock().completed.push(handler);
            }
        }

        #[unsafe(method(waitUntilCompleted))]
        fn await_completed(&self) {
            if self.is_committed("-[MTLCommandBuffer waitUntilCompleted]") {
                self.ivars().work.await_completed();
            }
        }

        #[unsafe(method(status))]
        fn status(&self) -> MTLCommandBufferStatus {
            self.ivars().work.status()
        }

        #[unsafe(method_id(error))]
        fn error(&self) -> Option<Retained<NSError>> {
            let failed = self.ivars().work.state.lock().failed.clone();
            failed
                .filter(|_| self.ivars().work.status() == MTLCommandBufferStatus::Error)
                .map(|why| errors::command_buffer(&why))
        }

        #[unsafe(method_id(blitCommandEncoder))]
        fn blit_encoder(&self) -> Option<Retained<ProtocolObject<dyn MTLBlitCommandEncoder>>> {
            self.begin_encoder("-[MTLCommandBuffer blitCommandEncoder]")
                .map(|work| blit::new(work, &self.ivars().queue))
        }

        #[unsafe(method_id(computeCommandEncoder))]
        fn compute_encoder(&self) -> Option<Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>> {
            self.begin_encoder("-[MTLCommandBuffer computeCommandEncoder]")
                .map(|work| compute::new(work, &self.ivars().queue, MTLDispatchType::Serial))
        }

        #[unsafe(method_id(computeCommandEncoderWithDispatchType:))]
        fn typed_compute_encoder(
            &self,
            dispatch_type: MTLDispatchType,
        ) -> Option<Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>> {
            self.begin_encoder("-[MTLCommandBuffer computeCommandEncoderWithDispatchType:]")
                .map(|work| compute::new(work, &self.ivars().queue, dispatch_type))
        }

        #[unsafe(method(pushDebugGroup:))]
        fn push_group(&self, _name: &NSString) {}

        #[unsafe(method(popDebugGroup))]
        fn pop_group(&self) {}

        #[unsafe(method(useResidencySet:))]
        fn use_set(&self, set: &AnyObject) {
            self.add_set("-[MTLCommandBuffer useResidencySet:]", set);
        }

        #[unsafe(method(useResidencySets:count:))]
        fn use_sets(&self, sets: *const *const AnyObject, count: NSUInteger) {
            // SAFETY: the message hands as many objects as it counts.
            for set in unsafe { objects(sets, count) } {
                self.add_set("-[MTLCommandBuffer useResidencySets:count:]", set);
            }
        }
    }
);

impl CommandBuffer {
    fn machine(&self) -> &Machine {
        self.ivars().queue.machine()
    }

    fn is_committed(&self, call: &'static str) -> bool {
        let committed = self.ivars().work.status() >= MTLCommandBufferStatus::Committed;
        if !committed {
            self.machine().violate(call, "the command buffer is not committed, so it would never return");
        }
        committed
    }

    /// A copy of a handler, where one may still be added.
    fn handler(&self, call: &'static str, block: MTLCommandBufferHandler) -> Option<Handler> {
        if self.ivars().work.status() >= MTLCommandBufferStatus::Committed {
            self.machine().violate(call, "the command buffer is committed already");
            return None;
        }
        // SAFETY: the message hands a block.
        let block = unsafe { RcBlock::copy(block) };
        if block.is_none() {
            self.machine().violate(call, "the handler is nil");
        }
        block.map(Handler)
    }

    /// The state, where an encoder may begin.
    fn begin_encoder(&self, call: &'static str) -> Option<&Arc<Work>> {
        if !self.machine().permits(What::Encoder) {
            return None;
        }
        let work = &self.ivars().work;
        let mut state = work.state.lock();
        let why = if state.status >= MTLCommandBufferStatus::Committed {
            "the command buffer is committed already"
        } else if state.encoder_open {
            "another encoder of the command buffer is open"
        } else {
            state.encoder_open = true;
            return Some(work);
        };
        drop(state);
        self.machine().violate(call, why);
        None
    }

    fn add_set(&self, call: &'static str, set: &AnyObject) {
        if self.ivars().work.status() >= MTLCommandBufferStatus::Committed {
            self.machine().violate(call, "the command buffer is committed already");
            return;
        }
        let Some(set) = set_of(self.machine(), call, set) else { return };
        let mut state = self.ivars().work.state.lock();
        if state.sets.len() < SETS {
            state.sets.push(set);
            return;
        }
        drop(state);
        self.machine().violate(call, format!("a command buffer has {SETS} residency sets at most"));
    }
}

/// The object of a new command buffer. Blocks while its queue has as many as it holds.
pub(crate) fn new(queue: &CommandQueue, retains: bool) -> Option<Retained<ProtocolObject<dyn MTLCommandBuffer>>> {
    let machine = queue.machine();
    if !machine.permits(What::CommandBuffer) {
        return None;
    }
    queue.queue().take_place();
    let variables = Variables { work: Work::new(queue.queue(), retains), queue: again(queue), label: Mutex::new(None) };
    Some(ProtocolObject::from_retained(create!(CommandBuffer, machine, variables)))
}
