//! Timelines: each device counts its submits, and a point is a device and a value of that count.
//!
//! A point says when work is done: it is asked, waited for, and named as what other work follows, on any device. It is two
//! numbers, copied freely, and keeps nothing alive.
//!
//! `cargo run --release --example timelines`
#![expect(unsafe_code, reason = "a launch runs a kernel")]

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rig::{Device, Point, Run};
use rig_host::Kernels;

/// How long a kernel of the cores works once it may: long beside a submit, so that work which does not follow comes first.
const WORK_TIME: Duration = Duration::from_millis(20);

/// The numbers of what was done, in the order in which it was done.
type Log = Arc<Mutex<Vec<u64>>>;

/// A run of a kernel that calls `work` and then writes its number into the log.
fn run_on(device: &Device, log: &Log, work: impl Fn() + Send + Sync + 'static) -> rig::Result<Run> {
    let log = Arc::clone(log);
    let kernels = Kernels::new().group("note", 8, move |params, _| {
        work();
        log.lock().push(params.get(0));
    });
    let note = device.load(&kernels.image())?.function("note")?;
    Ok(device.submission().launch(&note, []).make()?.take())
}

/// As `run_on`, with a kernel that works once the host has met it at the gate.
fn gated_on(device: &Device, log: &Log) -> rig::Result<(Run, Arc<Barrier>)> {
    let gate = Arc::new(Barrier::new(2));
    let kernels = Arc::clone(&gate);
    let work = move || {
        kernels.wait();
        thread::sleep(WORK_TIME);
    };
    Ok((run_on(device, log, work)?, gate))
}

fn submit(run: &mut Run, number: u64) -> rig::Result<Point> {
    run.part(0).set(0, number);
    // SAFETY: the kernel touches no memory but the log, under its lock; one group of one thread is what a run starts with.
    unsafe { run.launch(&[]) }
}

fn main() -> rig::Result<()> {
    let (cores, memory) = (rig::open(rig_host::cores())?, rig::open(rig_host::memory())?);
    let log = Log::default();
    let (mut on_cores, gate) = gated_on(&cores, &log)?;
    let mut on_memory = run_on(&memory, &log, || ())?;

    // A submit returns its point at once. The value is one more than that of the device's submit before.
    let [first, second, third] = [submit(&mut on_cores, 1)?, submit(&mut on_cores, 2)?, submit(&mut on_cores, 3)?];
    println!("{cores} counts {}, {}, {}", first.value(), second.value(), third.value());
    println!("{} is reached before its work may begin: {}", third.value(), third.reached()?);

    // A device runs its values one after the other, so a later point says all that the earlier ones say.
    for _ in 0..3 {
        gate.wait();
    }
    third.wait()?;
    println!("{} was waited for, so 1 and 2 are reached: {}", third.value(), first.reached()? && second.reached()?);

    // These two share no memory, so their order is not rig's to know: the point says it. Where a device's queues cannot
    // wait for other devices, as here, the submit waits.
    let slow = submit(&mut on_cores, 4)?;
    gate.wait();
    on_memory.after(&[slow]);
    let next = submit(&mut on_memory, 5)?;
    println!("{memory} counts for itself: {} follows {} of {cores}", next.value(), slow.value());
    Point::wait_all(&[slow, next])?;
    println!("done in the order {:?}", log.lock());

    // A device closes with the last handle to it. What was reached stays reached.
    drop((on_cores, cores));
    println!("the device is gone, and {} stays reached: {}", slow.value(), slow.reached()?);

    // What was not reached is lost for ever, and a wait says so at once.
    let again = rig::open(rig_host::cores())?;
    let (mut run, _) = gated_on(&again, &log)?;
    let never = submit(&mut run, 6)?;
    again.close();
    match never.wait() {
        Err(lost) => println!("a wait for the work of a closed device: {lost}"),
        Ok(()) => println!("unexpected: the work went on though nobody met it"),
    }
    Ok(())
}
