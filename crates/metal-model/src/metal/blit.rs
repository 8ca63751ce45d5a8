//! Blit encoders: fills and copies of buffers.

use std::sync::Arc;

use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{AnyObject, NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSRange, NSString, NSUInteger};

use super::{command_queue::CommandQueue, compute::Variables, create};
use crate::{
    protocol::{MTLBlitCommandEncoder, MTLCommandEncoder, MTLDevice, MTLDispatchType},
    queue::{pass::Command, work::Work},
};

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelBlitEncoder"]
    #[ivars = Variables]
    pub(crate) struct BlitEncoder;

    unsafe impl NSObjectProtocol for BlitEncoder {}

    unsafe impl MTLCommandEncoder for BlitEncoder {
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

    unsafe impl MTLBlitCommandEncoder for BlitEncoder {
        #[unsafe(method(fillBuffer:range:value:))]
        fn fill(&self, object: &AnyObject, range: NSRange, byte: u8) {
            let call = "-[MTLBlitCommandEncoder fillBuffer:range:value:]";
            let Some(mut recorder) = self.ivars().open(call) else { return };
            let Some(buffer) = self.ivars().buffer(call, object) else { return };
            if !within(range.location, range.length, buffer.state().len()) {
                drop(recorder);
                self.ivars().machine().violate(call, "the range is empty, or ends past the buffer");
                return;
            }
            let pass = Variables::pass(&mut recorder);
            pass.track(buffer.state(), true);
            let buffer = self.ivars().refer(buffer.state(), object);
            pass.commands.push(Command::Fill { buffer, offset: range.location, len: range.length, byte });
        }

        #[unsafe(method(copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:))]
        fn copy(
            &self,
            source: &AnyObject,
            source_offset: NSUInteger,
            destination: &AnyObject,
            destination_offset: NSUInteger,
            len: NSUInteger,
        ) {
            let call = "-[MTLBlitCommandEncoder copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:]";
            let Some(mut recorder) = self.ivars().open(call) else { return };
            let (Some(from), Some(to)) = (self.ivars().buffer(call, source), self.ivars().buffer(call, destination))
            else {
                return;
            };
            let fits =
                within(source_offset, len, from.state().len()) && within(destination_offset, len, to.state().len());
            let apart = !Arc::ptr_eq(from.state(), to.state())
                || source_offset + len <= destination_offset
                || destination_offset + len <= source_offset;
            if !fits || !apart {
                drop(recorder);
                self.ivars().machine().violate(call, "the copy is empty, ends past a buffer, or overlaps itself");
                return;
            }
            let pass = Variables::pass(&mut recorder);
            pass.track(from.state(), false);
            pass.track(to.state(), true);
            pass.commands.push(Command::Copy {
                from: self.ivars().refer(from.state(), source),
                from_offset: source_offset,
                to: self.ivars().refer(to.state(), destination),
                to_offset: destination_offset,
                len,
            });
        }

        #[unsafe(method(updateFence:))]
        fn update_fence(&self, fence: &AnyObject) {
            self.ivars().update_fence(fence);
        }

        #[unsafe(method(waitForFence:))]
        fn wait_for_fence(&self, fence: &AnyObject) {
            self.ivars().wait_for_fence(fence);
        }
    }
);

/// Whether a range holds something, and lies in a buffer of so many bytes.
fn within(offset: usize, len: usize, bytes: usize) -> bool {
    len > 0 && offset.checked_add(len).is_some_and(|end| end <= bytes)
}

/// The object of a new encoder.
pub(crate) fn new(
    work: &Arc<Work>,
    queue: &Retained<CommandQueue>,
) -> Retained<ProtocolObject<dyn MTLBlitCommandEncoder>> {
    let machine = &work.queue.machine;
    ProtocolObject::from_retained(create!(BlitEncoder, machine, Variables::new(work, queue, MTLDispatchType::Serial)))
}
