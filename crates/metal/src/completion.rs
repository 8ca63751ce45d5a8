//! What happens when a command buffer has completed: Metal calls the device's handler on a thread of Metal's.
//!
//! Handlers may run late, on any thread and in any order. One block serves all command buffers of a device: it finds the entry
//! by the command buffer's address, so that a submit allocates none. A handler takes the device's lock and never rig's turn.

use std::ptr::NonNull;
use std::sync::Arc;

use block2::RcBlock;
use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSProcessInfo;
use rig_edge::{Span, Times, times};

use crate::object::Held;
use crate::running::Running;
use crate::state::{Shared, State};
use crate::sys::{MTLCommandBuffer, MTLCommandBufferStatus, guard};

/// How far apart two clocks may be that are read one after the other: a thread is seldom taken from its core between.
const CLOCKS_APART_NS: u64 = 10_000;

/// The device's completion handler.
///
/// Each committed command buffer holds it until Metal releases it, and with it what the work needs: the queue, the fence, the
/// residency set and, through the shared state, the arenas.
pub(crate) struct Handler(RcBlock<Completed>);

/// What Metal calls with a command buffer.
type Completed = dyn Fn(NonNull<ProtocolObject<dyn MTLCommandBuffer>>);

// SAFETY: the block's closure is Send and Sync, which `handler` demands of it, and a block's count may be changed on any
// thread.
#[expect(unsafe_code, reason = "a block does not say of itself that its closure may go to other threads")]
unsafe impl Send for Handler {}

impl Handler {
    /// Has Metal call the handler once the command buffer has completed.
    pub fn add_to(&self, buffer: &Held<dyn MTLCommandBuffer>) {
        // SAFETY: the block takes what Metal's handlers get, and may be called on any thread; Metal keeps it until then.
        #[expect(unsafe_code, reason = "gives Metal a block")]
        unsafe {
            buffer.addCompletedHandler(RcBlock::as_ptr(&self.0));
        }
    }
}

/// Makes the handler of a device.
pub(crate) fn handler(shared: Arc<Shared>, running: Arc<Running>) -> Handler {
    fn of_threads(
        closure: impl Fn(NonNull<ProtocolObject<dyn MTLCommandBuffer>>) + Send + Sync + 'static,
    ) -> RcBlock<Completed> {
        RcBlock::new(closure)
    }
    Handler(of_threads(move |buffer| {
        // Kept for as long as a command buffer keeps the handler.
        let _: &Arc<Running> = &running;
        // SAFETY: Metal passes the command buffer, which is alive until the handler has returned.
        #[expect(unsafe_code, reason = "Metal passes a pointer")]
        completed(&shared, unsafe { buffer.as_ref() });
    }))
}

/// What Metal says of a command buffer: when the GPU started and ended it, or why it failed.
fn outcome(buffer: &ProtocolObject<dyn MTLCommandBuffer>) -> Result<(f64, f64), String> {
    let asked = guard(|| {
        if buffer.status() == MTLCommandBufferStatus::Completed {
            return Ok((buffer.GPUStartTime(), buffer.GPUEndTime()));
        }
        let error = buffer.error().map(|error| error.localizedDescription().to_string());
        Err(error.unwrap_or_else(|| "Metal does not say why".into()))
    });
    asked.and_then(|outcome| outcome).map_err(|why| format!("the GPU's work failed: {why}"))
}

/// Notes when the GPU ran a command buffer, before the word can show its value.
#[cold]
fn note(times: &Times, (start, end): (f64, f64)) {
    // Metal's times are seconds of the clock that stands still while the system sleeps; so is the system's time of being up.
    let up = NSProcessInfo::processInfo().systemUptime();
    let now = times::now();
    let at = |seconds: f64| now.saturating_sub(((up - seconds).max(0.0) * 1e9) as u64);
    times.note(Span { start: at(start), end: at(end) });
    times.note_error(CLOCKS_APART_NS);
}

fn completed(shared: &Shared, buffer: &ProtocolObject<dyn MTLCommandBuffer>) {
    autoreleasepool(|_| {
        let outcome = outcome(buffer);
        let address = std::ptr::from_ref(buffer).addr();
        let mut state = shared.lock();
        let Some(sent) = state.ring.complete(address) else { return };
        let times = sent.times.take();
        match outcome {
            Ok(ran) => {
                if let Some(times) = times {
                    note(&times, ran);
                }
            }
            Err(why) => drop(state.fail(why)),
        }
        store(shared, &mut state);
        drop(state);
        shared.wake();
    });
}

/// Stores the word, and commits the open command buffer where the GPU could run dry.
fn store(shared: &Shared, state: &mut State) {
    let value = state.settle();
    if state.stopped {
        // The last handler writes the last value, whatever the work did, and no handler writes after that.
        let ended = state.ring.uncompleted() == 0;
        let value = if ended { state.last } else { value };
        if ended {
            state.release();
        }
        if ended || state.failure.is_none() {
            shared.raise(state, value);
        }
    } else if state.failure.is_none() {
        shared.raise(state, value);
        if state.encoding {
            state.wanted = true;
        } else {
            // A commit that fails is the device's failure.
            let _ = state.commit_open();
        }
    }
}
