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

/// How long it takes to read two clocks one after the other, unless the thread is taken from its core between.
const CLOCKS_APART_NS: u64 = 10_000;

/// How often two clocks are read for readings that lie so close: a machine that is busy enough never gives them.
const CLOCKS_TRIES: u32 = 8;

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
    let clocks = Clocks::read(times::now, || NSProcessInfo::processInfo().systemUptime());
    times.note(Span { start: clocks.host(start), end: clocks.host(end) });
    times.note_error(clocks.error_ns);
}

/// What the host's clock and the system's time of being up showed at the same time, but for an error.
#[derive(Debug, PartialEq)]
struct Clocks {
    now: u64,
    up: f64,
    error_ns: u64,
}

impl Clocks {
    /// Reads the time of being up between two readings of the host's clock, again while these lie far apart, and keeps the closest.
    fn read(mut now: impl FnMut() -> u64, mut up: impl FnMut() -> f64) -> Clocks {
        let mut read = || {
            let before = now();
            let up = up();
            let apart = now().saturating_sub(before);
            Clocks { now: before + apart / 2, up, error_ns: apart.div_ceil(2).max(1) }
        };
        let mut best = read();
        for _ in 1..CLOCKS_TRIES {
            if best.error_ns <= CLOCKS_APART_NS / 2 {
                break;
            }
            let again = read();
            if again.error_ns < best.error_ns {
                best = again;
            }
        }
        best
    }

    /// A time of being up, in the past, on the host's clock.
    fn host(&self, up: f64) -> u64 {
        self.now.saturating_sub(((self.up - up).max(0.0) * 1e9) as u64)
    }
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

#[cfg(test)]
mod tests {
    use super::Clocks;

    /// Clocks of which the host's passes so much at each of its readings.
    fn read(passes: &[u64]) -> Clocks {
        let (mut passes, mut now) = (passes.iter(), 1_000_000);
        let mut ups = 0.0;
        let now = || {
            now += passes.next().expect("no more readings than these");
            now
        };
        let up = || {
            ups += 1.0;
            ups
        };
        Clocks::read(now, up)
    }

    #[test]
    fn clocks_that_were_read_far_apart_are_read_again_and_the_error_is_what_lay_between() {
        assert_eq!(read(&[0, 400]), Clocks { now: 1_000_200, up: 1.0, error_ns: 200 });
        assert_eq!(read(&[0, 5_000_000, 0, 400]), Clocks { now: 6_000_200, up: 2.0, error_ns: 200 });
        let busy = read(&[0, 50_000, 0, 30_000, 0, 40_000, 0, 90_000, 0, 90_000, 0, 90_000, 0, 90_000, 0, 90_000]);
        assert_eq!(busy, Clocks { now: 1_065_000, up: 2.0, error_ns: 15_000 });
    }

    #[test]
    fn a_time_of_being_up_is_as_long_ago_on_the_hosts_clock() {
        let clocks = Clocks { now: 3_000_000_000, up: 70.5, error_ns: 1 };
        assert_eq!([clocks.host(70.5), clocks.host(70.0), clocks.host(60.0)], [3_000_000_000, 2_500_000_000, 0]);
    }
}
