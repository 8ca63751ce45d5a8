//! Memory that a PCI function reaches.

use rig::{Buffer, Dma, Error, HostMemory};
use rig_conformance::model::{Options, Pace};

use crate::support::{Bench, LEN, counted, invalid, values};

const FUNCTION: &str = "0000:41:00.0";

fn bus(buffer: &Buffer) -> Vec<(u64, u64)> {
    match buffer.dma(FUNCTION).unwrap() {
        Dma::Bus(ranges) => ranges,
        other => panic!("{other:?}"),
    }
}

fn refused(result: rig::Result<Dma>) -> String {
    match result {
        Err(Error::Refused(why)) => why,
        other => panic!("not Refused: {other:?}"),
    }
}

/// Promises E34, E35.
#[test]
fn a_function_reaches_the_bytes_of_a_buffer_and_of_a_view_alone() {
    let mut a = Bench::with("DMA", Options::default().dma_bus());
    let x = a.device.buffer(20_000).unwrap();
    let ranges = bus(&x);
    assert!(ranges.len() > 1, "the model's memory is in pieces");
    assert_eq!(ranges.iter().map(|range| range.1).sum::<u64>(), 20_000);
    let head = x.view(0..4 * LEN).unwrap();
    // What a value wrote is seen by the function once the value is reached.
    let point = a.iota(&head, 3).unwrap();
    a.control.complete(point.value()).unwrap();
    let seen = a.control.dma_read(ranges[0].0, 4 * LEN);
    assert_eq!(seen, bytemuck::cast_slice::<u32, u8>(&counted(3)));
    // What the function wrote is seen by work that is submitted later.
    a.control.dma_write(ranges[0].0, bytemuck::cast_slice(&[1.5f32; LEN]));
    let y = a.buffer();
    y.write(|y: &mut [f32]| y.fill(1.0)).unwrap();
    a.add(&head, &y).unwrap();
    a.control.complete_all();
    assert!(y.read(|y: &[f32]| y.iter().all(|y| *y == 2.5)).unwrap());
    // A view's ranges are those of its own bytes.
    let (from, to) = (ranges[0].1 - 8, ranges[0].1 + 24);
    let across = bus(&x.view(from as usize..to as usize).unwrap());
    assert_eq!(across, [(ranges[0].0 + ranges[0].1 - 8, 8), (ranges[1].0, 24)]);
    a.model.assert_clean();
}

/// Promise E36.
#[test]
fn memory_with_a_bus_answer_is_never_used_again() {
    let a = Bench::with("DMA-KEPT", Options::default().dma_bus().pace(Pace::AtOnce));
    let x = a.device.buffer(1 << 20).unwrap();
    let ranges = bus(&x);
    let (live, regions) = (a.device.allocated(), a.control.regions());
    drop(x);
    a.device.reclaim();
    a.device.set_budget(0);
    assert_eq!((a.device.allocated(), a.control.regions()), (live, regions), "it stays, and counts");
    a.device.set_budget(1 << 30);
    let y = a.device.buffer(1 << 20).unwrap();
    y.write(|y: &mut [u8]| y.fill(7)).unwrap();
    a.control.dma_write(ranges[0].0, &[9; 64]);
    assert!(y.read(|y: &[u8]| y.iter().all(|y| *y == 7)).unwrap(), "the function writes no other buffer");
    drop(y);
    let (control, model) = (a.control.clone(), a.model.clone());
    drop(a);
    while control.regions() > 1 {
        std::thread::yield_now();
    }
    control.dma_write(ranges[0].0, &[9; 64]);
    assert_eq!(control.dma_read(ranges[0].0, 64), [9; 64], "also after the device");
    model.assert_clean();
}

/// Promise E34.
#[test]
#[cfg(target_os = "linux")]
fn a_dma_buf_starts_where_the_buffer_does_and_keeps_nothing_from_coming_back() {
    let a = Bench::with("DMA-BUF", Options::default().dma_buf());
    let x = a.device.buffer(1 << 16).unwrap();
    let of = |buffer: &Buffer| match buffer.dma(FUNCTION).unwrap() {
        Dma::DmaBuf { descriptor, offset } => (descriptor, offset),
        other => panic!("{other:?}"),
    };
    let (whole, start) = of(&x);
    let (part, offset) = of(&x.view(512..1024).unwrap());
    assert_eq!(offset, start + 512);
    for descriptor in [whole, part] {
        // SAFETY: the descriptor was just given to this test to close.
        #[expect(unsafe_code, reason = "owns a descriptor that a driver gave away")]
        drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(descriptor) });
    }
    drop(x);
    a.device.set_budget(0);
    a.model.assert_clean();
    let live = a.device.allocated();
    assert!(live < 1 << 16, "the region went back: {live}");
}

/// Promise E34.
#[test]
fn what_no_function_can_reach_is_refused_with_the_cause() {
    let plain = Bench::new("DMA-NONE");
    let why = refused(plain.device.buffer(1 << 16).unwrap().dma(FUNCTION));
    assert!(why.contains(FUNCTION), "{why}");
    let options = Options::default().dma_bus().maps_host().peers().pace(Pace::AtOnce);
    let a = Bench::with("DMA-WRONG", options);
    let b = Bench::of(&a.model);
    let small = invalid(a.buffer().dma(FUNCTION));
    assert!(small.contains("share a region") && small.contains("more than 4096 bytes"), "{small}");
    invalid(a.device.buffer(0).unwrap().dma(FUNCTION));
    let wrapped = Buffer::from_host(&a.device, HostMemory::zeroed(1 << 16).unwrap()).unwrap();
    assert!(invalid(wrapped.dma(FUNCTION)).contains("did not make this memory"));
    let big = a.device.buffer(1 << 16).unwrap();
    assert!(invalid(big.borrow(&b.device).unwrap().dma(FUNCTION)).contains("which owns the memory"));
    big.dma(FUNCTION).unwrap();
    assert_eq!(values(&big.view(0..4).unwrap()).unwrap(), [0]);
    a.model.assert_clean();
}
