//! A device that the program itself takes for lost.
#![expect(unsafe_code, reason = "launches kernels of this file")]

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use rig::{Error, write};
use rig_host::Kernels;

fn why<T>(answer: rig::Result<T>) -> String {
    match answer {
        Err(Error::Lost { why, .. }) => why.to_string(),
        Err(other) => panic!("Lost was due, not {other}"),
        Ok(_) => panic!("Lost was due, not an answer"),
    }
}

#[test]
fn work_that_runs_when_a_program_loses_its_device_is_lost_with_the_programs_reason() {
    let device = rig::open(rig_host::cores()).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let kernels = Kernels::new().group("stand", 8, move |_, _| {
        let _ = wait.lock().unwrap().recv();
    });
    let stand = device.load(&kernels.image()).unwrap().function("stand").unwrap();
    let done = device.buffer(4).unwrap();
    done.memset(1).unwrap();
    let y = device.buffer(4).unwrap();
    let submission = device.submission().launch(&stand, [write(0)]).make().unwrap();
    // SAFETY: the kernel touches nothing.
    let point = unsafe { submission.take().launch(&[&y]) }.unwrap();
    device.lose("the other machine is gone");
    device.lose("a second reason");
    // The work ends well, and later than the loss.
    go.send(()).unwrap();
    assert_eq!(why(point.wait()), "the other machine is gone");
    assert_eq!(why(y.read(|_: &[u8]| ())), "the other machine is gone");
    assert_eq!(device.lost().as_deref(), Some("the other machine is gone"));
}
