//! Counters that fills have the stream raise.

#[expect(dead_code, reason = "each test binary uses some of it")]
mod gpu;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpu::{busy, device, launch};
use rig::write;

/// Promise N07.
#[test]
fn a_counter_shows_what_the_stream_has_come_to_and_not_what_was_put_on_it() {
    let Some(device) = device() else { return };
    let capability = device.capability::<rig_cuda::Cuda>().unwrap();
    let counter = Arc::new(capability.counter().unwrap());
    let (in_fill, next) = (Arc::clone(&counter), AtomicU64::new(1));
    let fill = device.submission().fill::<rig_cuda::Cuda>([write(0)], move |encoder, _| {
        encoder.count(&in_fill, next.fetch_add(1, Ordering::Relaxed))
    });
    let (mut count, y) = (fill.make().unwrap().take(), device.buffer(4).unwrap());
    y.memset(0).unwrap();
    launch(&mut count, &[&y]).unwrap().wait().unwrap();
    assert_eq!(counter.value(), 1);
    let image = device.load(gpu::TEST).unwrap();
    launch(&mut busy(&image, Duration::from_millis(50)), &[&y]).unwrap();
    let second = launch(&mut count, &[&y]).unwrap();
    assert_eq!(counter.value(), 1, "the kernel before it still runs");
    second.wait().unwrap();
    assert_eq!(counter.value(), 2);
}
