//! The state of a command buffer, which its object, its queue and its waiters share.
//!
//! # Invariants
//!
//! 1. The status only rises: not enqueued, enqueued, committed, scheduled, completed or error.
//! 2. A place of the queue is taken when the command buffer is made, and given back once: when it completes, or when the
//!    object of one that was never committed goes.

use std::{
    cell::Cell,
    ptr,
    sync::{Arc, atomic::Ordering},
};

use block2::RcBlock;
use objc2::{rc::Retained, runtime::ProtocolObject};
use parking_lot::{Condvar, Mutex};

use super::{
    Queue,
    pass::{Done, Pass},
};
use crate::{
    machine::Failure,
    metal::{CommandBuffer, Reach, SetState},
    protocol::{MTLCommandBuffer, MTLCommandBufferError, MTLCommandBufferStatus},
};

thread_local! {
    /// The command buffer whose handlers this thread runs.
    static HANDLING: Cell<*const Work> = const { Cell::new(ptr::null()) };
}

/// A block that is told of a command buffer.
pub(crate) type HandlerBlock = RcBlock<dyn Fn(ptr::NonNull<ProtocolObject<dyn MTLCommandBuffer>>)>;

/// A handler on its way to its thread.
pub(crate) struct Handler(pub(crate) HandlerBlock);

// SAFETY: Metal calls handlers on threads of its own, and a program hands it blocks that are fit for it; the block is called
// and released by one thread at a time.
unsafe impl Send for Handler {}

/// The object of a command buffer, kept while the work is under way.
pub(crate) struct Running(pub(crate) Retained<CommandBuffer>);

// SAFETY: the object's state is `Work`, behind locks; messages to it from the model's threads are those that Metal's
// documentation lets handlers send.
unsafe impl Send for Running {}

/// Why a command buffer failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) code: MTLCommandBufferError,
    pub(crate) why: String,
}

/// When things happened, in seconds of the machine. Zero: not yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) kernel: (f64, f64),
    pub(crate) gpu: (f64, f64),
}

pub(crate) struct State {
    pub(crate) status: MTLCommandBufferStatus,
    pub(crate) passes: Vec<Pass>,
    pub(crate) encoder_open: bool,
    pub(crate) failed: Option<Failed>,
    pub(crate) times: Times,
    pub(crate) scheduled: Vec<Handler>,
    pub(crate) completed: Vec<Handler>,
    pub(crate) sets: Vec<Arc<SetState>>,
    /// What pointers may reach, as the sets were when it was committed.
    pub(crate) reach: Reach,
    /// The fault that was asked for.
    pub(crate) fate: Option<Failure>,
    pub(crate) object: Option<Running>,
    pub(crate) handled: bool,
}

/// A command buffer, without its object.
pub(crate) struct Work {
    pub(crate) queue: Arc<Queue>,
    pub(crate) retains: bool,
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
}

impl Work {
    /// A command buffer that records. The caller has taken its place in the queue.
    pub(crate) fn new(queue: &Arc<Queue>, retains: bool) -> Arc<Self> {
        queue.machine.0.tally.made.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            queue: queue.clone(),
            retains,
            state: Mutex::new(State {
                status: MTLCommandBufferStatus::NotEnqueued,
                passes: Vec::new(),
                encoder_open: false,
                failed: None,
                times: Times::default(),
                scheduled: Vec::new(),
                completed: Vec::new(),
                sets: Vec::new(),
                reach: Reach::default(),
                fate: None,
                object: None,
                handled: false,
            }),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn status(&self) -> MTLCommandBufferStatus {
        self.state.lock().status
    }

    /// Gives the command buffer its place in the order, unless it has one.
    pub(crate) fn enqueue(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let fresh = state.status == MTLCommandBufferStatus::NotEnqueued;
        if fresh {
            state.status = MTLCommandBufferStatus::Enqueued;
        }
        // The queue's thread takes a command buffer's lock while it holds the queue's, so never the other way around.
        drop(state);
        if fresh {
            self.queue.enqueue(self);
        }
    }

    /// Hands the command buffer to its queue. It was not committed before.
    pub(crate) fn commit(self: &Arc<Self>, object: Running) {
        self.enqueue();
        let machine = &self.queue.machine;
        let fate = machine.0.faults.lock().commit();
        machine.0.tally.committed.fetch_add(1, Ordering::Relaxed);
        machine.0.gate.begin();
        let queue_sets = self.queue.sets();
        {
            let mut state = self.state.lock();
            state.reach = Reach::of(queue_sets.iter().chain(&state.sets));
            state.fate = fate;
            state.object = Some(object);
            state.times.kernel.0 = crate::machine::Machine::now();
            self.order(&mut state.passes);
            state.status = MTLCommandBufferStatus::Committed;
        }
        self.queue.committed();
    }

    /// Finds what each pass runs after, by the fences.
    fn order(&self, passes: &mut [Pass]) {
        for pass in passes {
            let done = Done::new(self.queue.id);
            for fence in &pass.waits {
                let Some(last) = fence.state.last.lock().clone() else { continue };
                if last.queue != self.queue.id && !last.get() {
                    self.queue.machine.violate(
                        "-[MTLCommandEncoder waitForFence:]",
                        "the fence was updated on another queue; a fence orders the work of one queue",
                    );
                }
                pass.after.push(last);
            }
            for fence in &pass.updates {
                *fence.state.last.lock() = Some(done.clone());
            }
            pass.done = Some(done);
        }
    }

    /// Waits until the command buffer is scheduled.
    pub(crate) fn await_scheduled(&self) {
        let mut state = self.state.lock();
        while state.status < MTLCommandBufferStatus::Scheduled {
            self.changed.wait(&mut state);
        }
    }

    /// Marks that this thread runs the handlers of this command buffer, or of none.
    pub(crate) fn handling(work: *const Self) {
        HANDLING.set(work);
    }

    /// Waits until the command buffer has completed and its handlers have returned.
    pub(crate) fn await_completed(&self) {
        if ptr::eq(HANDLING.get(), self) {
            let why = "a handler of the command buffer waits for its handlers to return";
            self.queue.machine.violate("-[MTLCommandBuffer waitUntilCompleted]", why);
            return;
        }
        let mut state = self.state.lock();
        while !state.handled {
            self.changed.wait(&mut state);
        }
    }

    /// Every handler has returned.
    pub(crate) fn set_handled(&self) {
        self.state.lock().handled = true;
        self.changed.notify_all();
    }
}
