//! Faults that no call of the program's meets first, traps, devices that stop answering, and chains of devices.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use rig::{Buffer, Error, Point, Result};
use rig_edge::{Completion, Reach};

use super::super::Fixtures;
use super::super::kit::{Kit, launch, lost, not_here, spun};
use super::super::process::in_child;

/// TIMEOUT: how long a fault may take to show on a loaded machine. A fault of a GPU is told in milliseconds.
const FAULT: Duration = Duration::from_secs(60);

/// Makes the device fault, and calls until a call has the reason; no call may panic. False where the fixtures cannot.
fn until_lost<F: Fixtures>(kit: &Kit<'_, F>, call: impl Fn(&Buffer) -> Result<()>) -> bool {
    let y = kit.words(&[0; 64]);
    if !kit.f.lose(&kit.device) {
        not_here("its fixtures cannot make it fault");
        return false;
    }
    let start = Instant::now();
    let why = loop {
        match catch_unwind(AssertUnwindSafe(|| call(&y))) {
            Ok(Ok(())) => assert!(start.elapsed() < FAULT, "no call has the fault's reason"),
            Ok(Err(Error::Lost { why, .. })) => break why,
            Ok(Err(other)) => panic!("Lost was due, not {other:?}"),
            Err(_) => panic!("a panic crossed into the program's call"),
        }
    };
    assert!(!why.is_empty());
    assert_eq!(kit.device.lost(), Some(why), "the reason is the device's from then on");
    true
}

/// Has the process end with handles that nobody drops, as a program's statics are. Nothing of them is lost, so that a search for
/// leaks finds none.
fn kept_to_the_end(kept: impl Send + 'static) {
    static KEPT: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
    KEPT.lock().unwrap().push(Box::new(kept));
}

/// Promises C20, C23.
pub fn a_fault_behind_the_programs_back_ends_the_next_wait<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    until_lost(&kit, |y| kit.iota(y, 0)?.wait());
}

/// Promises C20, C23.
pub fn a_fault_behind_the_programs_back_ends_the_next_submits<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    until_lost(&kit, |y| kit.iota(y, 0).map(drop));
}

/// Promises C20, C23.
pub fn a_fault_behind_the_programs_back_ends_the_next_read<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    until_lost(&kit, |y| {
        kit.iota(y, 0)?;
        y.read(|words: &[u32]| assert_eq!(words[1], 1, "garbage passed as done"))
    });
}

/// Promises C02, C20.
pub fn a_process_ends_after_work_that_traps<F: Fixtures>(f: &F) {
    in_child(|| {
        let kit = Kit::new(f);
        let kept = (kit.device.clone(), kit.words(&[0; 64]), kit.busy());
        if until_lost(&kit, |y| kit.iota(y, 0)?.wait()) {
            let _ = kept.2.wait();
        }
        kept_to_the_end(kept);
    });
}

/// Promises C02, C20, E39.
pub fn a_device_that_stops_answering_ends_waits_at_its_bound_and_drops_finish<F: Fixtures>(f: &F) {
    let Some(opener) = f.hanging() else { return not_here("it has no hang bound") };
    let kit = Kit::of(f, rig::open(opener).unwrap());
    let bound = kit.device.facts().hang.expect("a device with a hang bound");
    let (x, y) = (kit.words(&[0; 1000]), kit.words(&[0; 1000]));
    let Some(held) = f.hold(&kit.device) else { return not_here("its fixtures cannot hold its work") };
    let points = [kit.spin(&y, 1).unwrap(), kit.iota(&x, 1).unwrap(), kit.spin(&y, 1).unwrap()];
    let start = Instant::now();
    // Each ends, whoever is the first to find out.
    std::thread::scope(|scope| {
        for point in points {
            scope.spawn(move || assert!(lost(point.wait()).contains("hung")));
        }
        scope.spawn(|| lost(x.read(|_: &[u8]| ())));
    });
    let took = start.elapsed();
    assert!(took >= bound, "{took:?} is less than the bound {bound:?}");
    assert!(took < bound + FAULT, "{took:?} for waits with a bound of {bound:?}");
    lost(kit.iota(&y, 1));
    lost(kit.device.buffer(4));
    // Nothing here waits for the work, which does not end.
    drop((x, y));
    kit.device.close();
    drop(kit);
    assert!(start.elapsed() < bound + FAULT);
    drop(held);
}

/// Promises C02, E13.
pub fn a_process_ends_while_its_device_does_not_answer<F: Fixtures>(f: &F) {
    in_child(|| {
        let bounded = f.hanging();
        let waits = bounded.is_some();
        let kit = Kit::of(f, rig::open(bounded.unwrap_or_else(|| f.opener())).unwrap());
        let (x, y) = (kit.words(&[0; 1000]), kit.words(&[0; 1000]));
        let Some(held) = f.hold(&kit.device) else { return not_here("its fixtures cannot hold its work") };
        // Held until the process has ended, as a device would be that never answers.
        kept_to_the_end(held);
        let point = kit.spin(&x, 1).unwrap();
        kit.spin(&y, 1).unwrap();
        if waits {
            lost(point.wait());
        }
        // Some handles drop, and of the others the process ends with.
        drop(x);
        kept_to_the_end((y, kit.device.clone()));
    });
}

/// What came of one device's link of a chain: its submit's point, or the reason why there is none.
type Link = Result<Point>;

/// Submits to a device after the link before it, once that is known, and tells the next one.
fn link<F: Fixtures>(kit: &Kit<'_, F>, y: &Buffer, before: Link) -> Link {
    let mut run = kit.run(&kit.spin, y.len() / 4, 8);
    run.part(0).set(12, 1_u32);
    run.after(&[before?]);
    launch(&mut run, &[y])
}

/// Sees that a chain ended alike everywhere: all of it done and right, or Lost from some link on.
fn same_end(links: &[Link; 3], buffers: [&Buffer; 3], reason: &str) {
    let mut failed = false;
    for (link, buffer) in links.iter().zip(buffers) {
        let end = link.as_ref().map_err(Clone::clone).and_then(Point::wait);
        match end {
            Ok(()) => {
                assert!(!failed, "a link is done, and the one before it is lost");
                match buffer.read(|words: &[u32]| words.iter().all(|&word| word == spun(7, 1))) {
                    Ok(right) => assert!(right, "garbage passed as done"),
                    // The device was lost with later work.
                    Err(why) => assert_eq!(lost::<()>(Err(why)), reason),
                }
            }
            Err(why) => {
                failed = true;
                assert_eq!(lost::<()>(Err(why)), reason, "the reason is the first device's");
            }
        }
    }
}

/// Promises C20, C26, C32.
pub fn the_loss_of_the_first_of_three_devices_reaches_the_last<F: Fixtures>(f: &F) {
    let (a, b, c) = (Kit::new(f), Kit::second(f), Kit::second(f));
    let far = a.device.facts().reach == Reach::Driver;
    let buffers: Vec<[Buffer; 3]> = (0..2).map(|_| [&a, &b, &c].map(|kit| kit.words(&[7; 256]))).collect();
    let beside = c.words(&[0; 64]);
    // One chain from work before the fault, which may still be done, and one from work behind it, which never is.
    a.busy();
    let before = a.spin(&buffers[0][0], 1);
    if !f.lose(&a.device) {
        return not_here("its fixtures cannot make it fault");
    }
    let behind = a.spin(&buffers[1][0], 1);
    // A submit may wait for another device's work, where no queue can: so each device's links are a thread's.
    let chains: Vec<[Link; 3]> = std::thread::scope(|scope| {
        let (to_c, of_b) = mpsc::channel::<Link>();
        let (b, c, buffers, firsts) = (&b, &c, &buffers, [before.clone(), behind.clone()]);
        let starts = firsts.clone();
        let on_b = scope.spawn(move || {
            let links = starts.into_iter().zip(buffers).map(|(start, buffers)| link(b, &buffers[1], start));
            links.inspect(|link| to_c.send(link.clone()).unwrap()).collect::<Vec<Link>>()
        });
        let on_c = scope.spawn(move || {
            buffers.iter().map(|buffers| link(c, &buffers[2], of_b.recv().unwrap())).collect::<Vec<Link>>()
        });
        // Whoever waits for the device itself learns of the fault.
        let _ = firsts[1].as_ref().map_err(Clone::clone).and_then(Point::wait);
        let (of_b, of_c) = (on_b.join().unwrap(), on_c.join().unwrap());
        let links = firsts.into_iter().zip(of_b).zip(of_c);
        links.map(|((first, second), third)| [first, second, third]).collect()
    });
    let reason = a.device.lost().expect("the device has faulted").to_string();
    // A queue that waits for the lost device's word goes on once that one is stopped (C20): a read that takes a queue would
    // stand behind the wait until then.
    a.device.close();
    for (links, [x, y, z]) in chains.iter().zip(&buffers) {
        same_end(links, [x, y, z], &reason);
    }
    assert!(chains[1].iter().all(|link| link.as_ref().map_or(true, |point| point.wait().is_err())), "never done");
    if !far {
        c.iota(&beside, 5).unwrap().wait().unwrap();
        beside.read(|words: &[u32]| assert_eq!(words[63], 68)).unwrap();
    }
}

/// Promises C15, C20, C32.
pub fn a_wait_behind_a_lost_device_that_nobody_closes_names_it<F: Fixtures>(f: &F) {
    // Alone: an open of the lost device's name, in any thread of the process, closes it (C20).
    in_child(|| {
        let (a, b) = (Kit::new(f), Kit::second(f));
        let waits = &b.device.facts().waits;
        let queued = match a.device.facts().completion {
            Completion::Store => waits.stores,
            Completion::Host => waits.hosts,
        };
        if !queued {
            return not_here("its queues wait for no other device");
        }
        let (x, y, z) = (a.words(&[7; 64]), b.words(&[7; 64]), b.words(&[0; 64]));
        // Once each, so that nothing is loaded or compiled while work is held.
        link(&b, &y, a.spin(&x, 1)).unwrap().wait().unwrap();
        b.iota(&z, 1).unwrap().wait().unwrap();
        let Some(held) = f.hold(&a.device) else { return not_here("its fixtures cannot hold its work") };
        let first = a.spin(&x, 1).unwrap();
        let second = link(&b, &y, Ok(first)).unwrap();
        let beside = b.iota(&z, 5).unwrap();
        a.device.lose("the program said so");
        assert_eq!([lost(first.wait()), lost(second.wait())], ["the program said so"; 2]);
        // Right, and not to be reached before the other device's work has ended or is cut off.
        match beside.wait() {
            Err(Error::Refused(why)) => assert!(why.contains(&format!("close {}", a.device.name())), "{why}"),
            other => panic!("Refused was due, not {other:?}"),
        }
        assert_eq!(b.device.lost(), None);
        a.device.close();
        drop(held);
        beside.wait().unwrap();
        z.read(|words: &[u32]| assert_eq!(words[63], 68)).unwrap();
    });
}
