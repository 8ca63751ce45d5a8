//! Host memory that a device works in without a copy.
#![expect(unsafe_code, reason = "the cases own the memory that they have wrapped")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rig::{Buffer, Device, Error, HostMemory, HostPages, NotWrapped, Point};

use super::super::Fixtures;
use super::super::kit::{Kit, bytes, invalid, not_here, pattern, words};

/// TIMEOUT: how long memory may take to come back from a device that was closed or lost, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// The larger of the usual pages: memory that is moved by so much starts a page, moved by less it may not.
const PAGE: usize = 64 << 10;

/// Host memory that counts its drops.
pub(super) struct Owner {
    memory: HostMemory,
    dropped: Arc<AtomicUsize>,
}

// SAFETY: as HostMemory, whose pages these are.
unsafe impl HostPages for Owner {
    fn pages(&mut self) -> NonNull<[u8]> {
        self.memory.pages()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// An owner of these bytes, where they lie, and the count of its drops.
pub(super) fn owner(bytes: &[u8]) -> (Owner, usize, Arc<AtomicUsize>) {
    let memory = HostMemory::from_slice(bytes).unwrap();
    let (at, dropped) = (memory.as_ptr().addr(), Arc::default());
    (Owner { memory, dropped: Arc::clone(&dropped) }, at, dropped)
}

/// The memory wrapped; or says why the device cannot.
pub(super) fn wrapped(device: &Device, owner: Owner) -> Option<Buffer> {
    match Buffer::from_host(device, owner) {
        Ok(buffer) => Some(buffer),
        Err(NotWrapped { error: Error::Refused(why), memory }) => {
            assert!(why.len() > 10, "{why:?} is no reason");
            assert_eq!(memory.dropped.load(Ordering::SeqCst), 0, "the memory comes back");
            not_here(&why);
            None
        }
        Err(NotWrapped { error, .. }) => panic!("{error:?}"),
    }
}

/// Sees that an owner is dropped once, and only once the work up to `point` is done or never runs.
pub(super) fn dropped_after(point: Point, device: &Device, dropped: &AtomicUsize) {
    let start = Instant::now();
    loop {
        device.reclaim();
        // In this order: what is dropped at the first look has its work done at the second.
        let early = dropped.load(Ordering::SeqCst);
        let done = point.reached();
        assert!(early == 0 || !matches!(done, Ok(false)), "dropped before its work was done");
        if early > 0 {
            break;
        }
        if device.lost().is_none() {
            point.wait().unwrap();
        }
        assert!(start.elapsed() < PATIENCE, "the owner is not dropped");
        std::thread::yield_now();
    }
    device.reclaim();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

/// Promises C08, H05, C07.
pub fn host_memory_is_worked_in_where_it_is_and_its_owner_outlives_the_work<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    for len in [4000, 4096, 8192 + 4, 1 << 18] {
        let expected = pattern(len, 9);
        let (owner, at, dropped) = owner(&expected);
        let allocated = kit.device.allocated();
        let Some(buffer) = wrapped(&kit.device, owner) else { return };
        assert_eq!(buffer.len(), len);
        assert!(kit.device.allocated() <= allocated, "wrapped memory counts in no budget");
        buffer.read(|bytes: &[u8]| assert!(bytes.as_ptr().addr() == at && bytes == expected)).unwrap();
        // The whole of it, up to the last word; then a part of it, by a view.
        kit.iota(&buffer, 5).unwrap();
        let view = buffer.view(64..128).unwrap();
        kit.iota(&view, 1000).unwrap();
        let due = |i: u32| if (16..32).contains(&i) { 1000 + i - 16 } else { 5 + i };
        buffer
            .read(|words: &[u32]| {
                assert_eq!(words.as_ptr().addr(), at, "the bytes are where the owner has them");
                assert!(words.iter().zip(0..).all(|(&y, i)| y == due(i)), "{len} bytes");
            })
            .unwrap();
        buffer.write(|words: &mut [u32]| words.fill(3)).unwrap();
        let copy = kit.device.buffer(len).unwrap();
        buffer.copy_to(&copy).unwrap();
        assert!(words(&copy).iter().all(|&y| y == 3));
        buffer.memset(0).unwrap();
        let point = kit.spin(&buffer, f.spin_rounds()).unwrap();
        drop(view);
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(buffer);
        dropped_after(point, &kit.device, &dropped);
    }
}

/// Promise C08.
pub fn host_memory_that_is_not_wrapped_comes_back_unharmed<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    let expected = pattern(2 * PAGE, 10);
    let back = |not: Result<Buffer, NotWrapped<Owner>>, at: usize| {
        let NotWrapped { error, memory } = not.expect_err("it was wrapped");
        assert!(error.to_string().len() > 10, "{error}");
        assert_eq!((memory.memory.as_ptr().addr(), memory.dropped.load(Ordering::SeqCst)), (at, 0));
        assert!(memory.memory[..] == expected[..memory.memory.len()]);
        (error, memory)
    };
    let (mut owner, at, dropped) = owner(&expected);
    if !device.facts().maps_host {
        let (error, memory) = back(Buffer::from_host(&device, owner), at);
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        owner = memory;
    }
    assert!(matches!(off(&device), NotWrapped { error: Error::Invalid(_), memory: Off(_) }));
    device.close();
    let (error, memory) = back(Buffer::from_host(&device, owner), at);
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    drop(memory);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

/// An owner that breaks its promise: its bytes start no page.
#[derive(Debug)]
struct Off(HostMemory);

// SAFETY: it is none, and never wrapped.
unsafe impl HostPages for Off {
    fn pages(&mut self) -> NonNull<[u8]> {
        NonNull::from(&mut self.0[64..])
    }
}

fn off(device: &Device) -> NotWrapped<Off> {
    Buffer::from_host(device, Off(HostMemory::zeroed(PAGE).unwrap())).expect_err("its bytes start no page")
}

/// Promises C08, H05.
pub fn a_raw_wrapping_is_released_once_after_its_work<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let memory = HostMemory::from_slice(&pattern(2 * PAGE, 11)).unwrap();
    let released = Arc::new(AtomicUsize::new(0));
    let mut memory = Box::new(memory);
    let pages = memory.pages();
    let (count, alive) = (Arc::clone(&released), Arc::new(()));
    let (inside, at) = (Arc::clone(&alive), pages.cast::<u8>().as_ptr().addr());
    // SAFETY: the closure keeps the pages, and nobody reaches them but through the buffer.
    let buffer = unsafe {
        Buffer::from_host_raw(&kit.device, pages, move || {
            count.fetch_add(1, Ordering::SeqCst);
            drop((memory, inside));
        })
    };
    let buffer = match buffer {
        Ok(buffer) => buffer,
        Err(Error::Refused(why)) => {
            assert_eq!((released.load(Ordering::SeqCst), Arc::strong_count(&alive)), (0, 1), "dropped, and not called");
            return not_here(&why);
        }
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(Arc::strong_count(&alive), 2);
    kit.iota(&buffer, 2).unwrap();
    buffer
        .read(|words: &[u32]| assert_eq!((words.as_ptr().addr(), words[PAGE / 2 - 1]), (at, 1 + PAGE as u32 / 2)))
        .unwrap();
    let point = kit.spin(&buffer, f.spin_rounds()).unwrap();
    drop(buffer);
    dropped_after(point, &kit.device, &released);
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// Promises C08, C16, C31.
pub fn a_wrapped_owner_comes_back_after_a_loss<F: Fixtures>(f: &F) {
    for close in [true, false] {
        let kit = Kit::new(f);
        let (early, _, early_dropped) = owner(&pattern(4096, 12));
        let (late, at, late_dropped) = owner(&[0; 4096]);
        let Some(early) = wrapped(&kit.device, early) else { return };
        let Some(late) = wrapped(&kit.device, late) else { return };
        kit.iota(&late, 1).unwrap();
        late.read(|words: &[u32]| assert_eq!((words.as_ptr().addr(), words[9]), (at, 10))).unwrap();
        kit.busy();
        let first = kit.spin(&early, 1).unwrap();
        let second = kit.spin(&late, 1).unwrap();
        drop(early);
        if !close {
            if !f.lose(&kit.device) {
                return not_here("its fixtures cannot make it fault");
            }
            // A fault is met by whoever calls the driver next: a wait is.
            let start = Instant::now();
            while kit.device.lost().is_none() {
                let _ = kit.spin(&late, 1).and_then(|point| point.wait());
                assert!(start.elapsed() < PATIENCE, "the fault does not show");
            }
        }
        // A lost device is stopped once it is closed.
        kit.device.close();
        kit.device.reclaim();
        assert_eq!(late_dropped.load(Ordering::SeqCst), 0, "a buffer is left");
        drop(late);
        dropped_after(first, &kit.device, &early_dropped);
        dropped_after(second, &kit.device, &late_dropped);
    }
}

/// Promise E34.
pub fn no_pci_function_reaches_what_is_not_the_devices_own<F: Fixtures>(f: &F) {
    let (one, two) = (Kit::new(f), Kit::second(f));
    let nothing = "no function at all";
    let large = one.device.buffer(1 << 20).unwrap();
    match large.dma(nothing) {
        Err(Error::Refused(why)) => assert!(why.contains(nothing), "{why:?} does not name the cause"),
        other => panic!("{other:?}"),
    }
    invalid(one.device.buffer(0).unwrap().dma(nothing));
    invalid(one.device.buffer(4).unwrap().dma(nothing));
    if let Ok(borrow) = large.borrow(&two.device) {
        invalid(borrow.dma(nothing));
    }
    let (memory, ..) = owner(&pattern(1 << 20, 13));
    if one.device.facts().maps_host
        && let Some(buffer) = wrapped(&one.device, memory)
    {
        invalid(buffer.dma(nothing));
    }
    // Nothing was given away: the memory is used as before.
    one.iota(&large, 3).unwrap();
    assert_eq!(words(&large)[1000], 1003);
    assert_eq!(bytes(&large)[..4], 3_u32.to_ne_bytes());
}
