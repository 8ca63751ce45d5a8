//! Host memory that a device works in; claims and donation; objects that a submission keeps.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rig::{Buffer, Device, Error, HostMemory, HostPages, NotWrapped, read, write};
use rig_conformance::model::{Call, Options, Pace};

use crate::support::{Bench, LEN, counted, launch, lost, values};

/// An owner that says when it is dropped.
#[derive(Debug)]
struct Owner {
    memory: HostMemory,
    dropped: Arc<AtomicU32>,
}

impl Owner {
    fn new(len: usize) -> (Owner, Arc<AtomicU32>) {
        let dropped = Arc::new(AtomicU32::new(0));
        (Owner { memory: HostMemory::zeroed(len).unwrap(), dropped: dropped.clone() }, dropped)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the memory's own promise.
#[expect(unsafe_code, reason = "an owner of a test")]
unsafe impl HostPages for Owner {
    fn pages(&mut self) -> NonNull<[u8]> {
        self.memory.pages()
    }
}

/// Closes a lost device whose work lingers: what counts in `dropped` goes once the work has ended, and not before.
fn drops_only_with_the_lost_work(a: &Bench, dropped: &AtomicU32) {
    a.device.reclaim();
    a.device.close();
    a.device.reclaim();
    assert_eq!(dropped.load(Ordering::Relaxed), 0, "its work lingers");
    a.control.end_work();
    while dropped.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    a.model.assert_clean();
}

fn maps(name: &str) -> Bench {
    Bench::with(name, Options::default().maps_host())
}

/// Promises C08, E26.
#[test]
fn wrapped_memory_is_worked_in_where_it_is() {
    let mut a = maps("WRAP");
    let mut memory = HostMemory::from_slice(&counted(3)).unwrap();
    let start = memory.as_mut_ptr();
    let x = Buffer::from_host(&a.device, memory).unwrap();
    assert_eq!(x.len(), 4 * LEN);
    assert_eq!(x.read(|bytes: &[u8]| bytes.as_ptr()).unwrap(), start.cast_const(), "no copy");
    assert_eq!(values(&x).unwrap(), counted(3));
    a.iota(&x, 9).unwrap();
    a.control.complete_all();
    assert_eq!(values(&x).unwrap(), counted(9));
    assert!(Buffer::from_host(&a.device, HostMemory::zeroed(0).unwrap()).unwrap().is_empty());
    a.model.assert_clean();
}

/// Promises C08, C18, E27.
#[test]
fn the_owner_is_kept_until_no_work_can_use_its_memory() {
    let mut a = maps("OWNER");
    let (owner, dropped) = Owner::new(4 * LEN);
    let (regions, live) = (a.control.regions(), a.device.allocated());
    let x = Buffer::from_host(&a.device, owner).unwrap();
    assert_eq!(a.device.allocated(), live, "it counts in no budget");
    let point = a.iota(&x, 1).unwrap();
    drop(x);
    a.device.reclaim();
    assert_eq!((dropped.load(Ordering::Relaxed), a.control.regions()), (0, regions + 1));
    a.control.complete_all();
    assert!(point.reached().unwrap());
    a.device.reclaim();
    assert_eq!(
        (dropped.load(Ordering::Relaxed), a.control.regions()),
        (1, regions),
        "the mapping went, then the owner"
    );
    a.model.assert_clean();
}

/// Promises C08, C31.
#[test]
fn the_owner_is_kept_after_a_loss_until_the_devices_word_shows_the_end() {
    let mut a = maps("OWNER-LOST");
    a.control.lingers(true);
    let (owner, dropped) = Owner::new(4 * LEN);
    let x = Buffer::from_host(&a.device, owner).unwrap();
    let point = a.iota(&x, 1).unwrap();
    a.control.fault("smoke");
    lost(point.wait());
    drop(x);
    drops_only_with_the_lost_work(&a, &dropped);
}

/// Promise C08.
#[test]
fn memory_that_is_not_wrapped_comes_back_with_the_reason() {
    let a = Bench::new("MAPS-NONE");
    let (mut owner, dropped) = Owner::new(100);
    owner.memory[7] = 7;
    let NotWrapped { error, memory } = Buffer::from_host(&a.device, owner).unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("maps no host memory")), "{error}");
    assert_eq!((memory.memory[7], dropped.load(Ordering::Relaxed)), (7, 0));
    drop(memory);
    let b = maps("FAULTS");
    b.control.fault_in(Call::MapHost, "no page tables");
    let (owner, dropped) = Owner::new(100);
    let not = Buffer::from_host(&b.device, owner).unwrap_err();
    assert_eq!(lost(Err::<(), _>(not.error)), "no page tables");
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    fn asks(device: &Device) -> rig::Result<Buffer> {
        Ok(Buffer::from_host(device, HostMemory::zeroed(8)?)?)
    }
    asks(&a.device).unwrap_err();
}

/// Promise C08.
#[test]
#[expect(unsafe_code, reason = "wraps memory that the test keeps")]
fn a_raw_wrapping_is_released_once_and_only_if_it_was_made() {
    let a = maps("RAW");
    let released = Arc::new(AtomicU32::new(0));
    let mut memory = HostMemory::zeroed(3 * 4096).unwrap();
    let mut wrap = |skip: usize| {
        let pages = NonNull::from(&mut memory[skip..]);
        let released = released.clone();
        // SAFETY: the memory outlives the device below and is touched by nothing else meanwhile.
        unsafe {
            Buffer::from_host_raw(&a.device, pages, move || {
                released.fetch_add(1, Ordering::Relaxed);
            })
        }
    };
    let why = wrap(8).unwrap_err().to_string();
    assert!(why.contains("does not start a page"), "{why}");
    assert_eq!(released.load(Ordering::Relaxed), 0);
    let x = wrap(0).unwrap();
    x.write(|bytes: &mut [u8]| bytes.fill(4)).unwrap();
    drop(x);
    a.device.reclaim();
    a.device.reclaim();
    assert_eq!(released.load(Ordering::Relaxed), 1);
    a.device.close();
    assert!(memory.iter().all(|b| *b == 4));
    a.model.assert_clean();
}

/// An owner may do anything in its drop, also call rig and panic.
///
/// Promises C08, C24.
#[test]
fn an_owners_drop_runs_with_no_lock_held_and_its_panic_is_its_own() {
    struct Calls(HostMemory, Device);
    impl Drop for Calls {
        fn drop(&mut self) {
            self.1.buffer(1 << 20).unwrap();
            self.1.reclaim();
            panic!("an owner's own trouble");
        }
    }
    // SAFETY: the memory's own promise.
    #[expect(unsafe_code, reason = "an owner of a test")]
    unsafe impl HostPages for Calls {
        fn pages(&mut self) -> NonNull<[u8]> {
            self.0.pages()
        }
    }
    let a = maps("CALLS");
    drop(Buffer::from_host(&a.device, Calls(HostMemory::zeroed(64).unwrap(), a.device.clone())).unwrap());
    a.device.reclaim();
    a.device.buffer(64).unwrap();
    a.model.assert_clean();
}

/// Promise C19.
#[test]
fn memory_is_given_away_only_where_nobody_else_can_see_it() {
    let a = Bench::new("CLAIMS");
    let x = a.buffer();
    let mut x = x.consume().expect("the only handle");
    type See = fn(&Buffer) -> Box<dyn std::any::Any>;
    let blocked: [See; 3] = [|x| Box::new(x.clone()), |x| Box::new(x.view(0..4).unwrap()), |x| Box::new(x.claim())];
    for other in blocked {
        let other = other(&x);
        x = x.consume().expect_err("somebody else sees it");
        drop(other);
        x = x.consume().expect("and not any more");
    }
    let peers = Bench::with("CLAIMS-PEERS", Options::default().peers().pace(Pace::AtOnce));
    let (b, y) = (Bench::of(&peers.model), peers.buffer());
    let borrow = y.borrow(&b.device).unwrap();
    let y = y.consume().expect_err("a borrow sees it");
    drop(y);
    let borrow = borrow.consume().expect("the borrow is the only handle now");
    borrow.memset(1).unwrap();
    // A view that is the only handle is the memory's only handle.
    let view = x.view(0..8).unwrap();
    drop(x);
    assert_eq!(view.consume().expect("alone").len(), 8);
}

/// Promise C19.
#[test]
fn a_closure_that_runs_keeps_its_buffer_from_being_given_away() {
    let a = Bench::new("CLAIMED-BY-CLOSURE");
    let x = a.buffer();
    let (inside, entered) = std::sync::mpsc::channel();
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let other = x.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The handle is dropped inside the closure: the hold still sees the memory.
            let mut other = Some(other);
            let handle = other.take().unwrap();
            let cell = std::cell::Cell::new(None);
            handle
                .read(|_: &[u8]| {
                    inside.send(()).unwrap();
                    wait.recv().unwrap();
                    cell.set(Some(()));
                })
                .unwrap();
        });
        entered.recv().unwrap();
        let x = x.consume().expect_err("a closure reads it");
        go_on.send(()).unwrap();
        drop(x);
    });
}

/// Promises C14, C19.
#[test]
fn work_over_memory_that_was_given_away_is_ordered_after_earlier_work() {
    let mut a = Bench::new("IN-PLACE");
    let (x, y) = (a.buffer(), a.buffer());
    y.write(|y: &mut [f32]| y.fill(0.0)).unwrap();
    a.iota(&x, 5).unwrap();
    let x = x.consume().expect("work in flight holds no handle");
    a.iota(&x, 70).unwrap();
    a.control.complete_all();
    assert_eq!(values(&x).unwrap(), counted(70));
    a.model.assert_clean();
}

/// Says when it is dropped.
struct Kept(Arc<AtomicU32>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn keeps(a: &Bench, object: impl Send + 'static) -> rig::Run {
    let image = a.device.load(&rig_conformance::model::image(&["add"])).unwrap();
    let add = image.function("add").unwrap();
    let mut run = a.device.submission().launch(&add, [read(0), write(1)]).keep(object).make().unwrap().take();
    run.part(0).threads([LEN as u32, 1, 1]);
    run
}

/// Promise C21.
#[test]
fn a_kept_object_is_dropped_once_every_point_of_its_submission_is_reached() {
    let a = Bench::new("KEEPS");
    let dropped = Arc::new(AtomicU32::new(0));
    let mut run = keeps(&a, Kept(dropped.clone()));
    let (x, y) = (a.buffer(), a.buffer());
    let first = launch(&mut run, &[&x, &y]).unwrap();
    let last = launch(&mut run, &[&x, &y]).unwrap();
    a.control.complete(first.value()).unwrap();
    drop(run);
    a.device.reclaim();
    assert_eq!(dropped.load(Ordering::Relaxed), 0, "the last point is not reached");
    a.control.complete(last.value()).unwrap();
    a.device.reclaim();
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    drop(keeps(&a, Kept(dropped.clone())));
    a.device.reclaim();
    assert_eq!(dropped.load(Ordering::Relaxed), 2, "what was never submitted is kept for nothing");
    a.model.assert_clean();
}

/// Promises C21, C31.
#[test]
fn a_kept_object_of_a_lost_device_is_dropped_once_its_work_can_no_longer_run() {
    let a = Bench::new("KEEPS-LOST");
    a.control.lingers(true);
    let dropped = Arc::new(AtomicU32::new(0));
    let mut run = keeps(&a, Kept(dropped.clone()));
    let (x, y) = (a.buffer(), a.buffer());
    let point = launch(&mut run, &[&x, &y]).unwrap();
    a.control.commit_now();
    a.control.fault("cold");
    lost(point.wait());
    drop(run);
    drops_only_with_the_lost_work(&a, &dropped);
}

/// Promises C21, C24.
#[test]
fn a_kept_objects_drop_runs_with_no_lock_held_and_its_panic_is_its_own() {
    struct Calls(Device);
    impl Drop for Calls {
        fn drop(&mut self) {
            self.0.buffer(1 << 20).unwrap();
            self.0.reclaim();
            panic!("an object's own trouble");
        }
    }
    let a = Bench::new("KEEPS-CALLS");
    drop(keeps(&a, Calls(a.device.clone())));
    a.device.reclaim();
    a.device.buffer(64).unwrap();
    a.model.assert_clean();
}

/// Promise C29.
#[test]
fn a_capability_is_found_by_its_drivers_type_alone() {
    let a = Bench::new("RECORD");
    let record = a.device.capability::<rig_conformance::model::ModelDriver>();
    assert_eq!(record.map(String::as_str), Some("model"));
    assert!(a.device.capability::<rig_host::Host>().is_none(), "another driver's type");
    let host = rig::open(rig_host::memory()).unwrap();
    assert!(host.capability::<rig_conformance::model::ModelDriver>().is_none());
    assert!(host.capability::<rig_host::Host>().is_none(), "a driver without a record");
    a.device.close();
    assert!(a.device.capability::<rig_conformance::model::ModelDriver>().is_some(), "also once it is closed");
}
