//! Memory: kinds, lengths, closures, views, copies, memsets, neighbours.

use rig::{Buffer, Memory};

use super::Fixtures;
use super::kit::{Kit, bytes, invalid, pattern};

const KINDS: [Memory; 3] = [Memory::Device, Memory::Pinned, Memory::Mapped];

/// Promises C04, C33.
pub fn a_buffer_has_its_length_and_its_bytes_are_initialised<F: Fixtures>(f: &F) {
    for kind in KINDS {
        // A device of its own for each kind: reading memory that the host does not address leaves staging in the cache.
        let device = rig::open(f.opener()).unwrap();
        for len in [1, 3, 4, 5, 255, 256, 4096, 100_003] {
            let buffer = device.buffer_in(kind, len).unwrap();
            assert_eq!(buffer.len(), len);
            let read = bytes(&buffer);
            assert_eq!(read.len(), len, "{kind:?}");
            let host_sees = kind != Memory::Device || device.facts().host_addresses;
            // The device is new, so that no earlier buffer left its bytes here.
            assert!(!host_sees || len < 100_003 || read.iter().all(|&byte| byte == 0), "fresh {kind:?} memory is zero");
        }
    }
}

/// Promise C04.
pub fn a_buffer_of_no_bytes_works<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    for kind in KINDS {
        let buffer = device.buffer_in(kind, 0).unwrap();
        assert!(buffer.is_empty());
        assert_eq!(buffer.read(|bytes: &[u32]| bytes.len()).unwrap(), 0);
        assert_eq!(buffer.write(|bytes: &mut [u8]| bytes.len()).unwrap(), 0);
        buffer.memset(7).unwrap();
        buffer.copy_from_slice::<f32>(&[]).unwrap();
        buffer.copy_to(&device.buffer(0).unwrap()).unwrap();
        assert_eq!(buffer.view(0..0).unwrap().len(), 0);
        invalid(buffer.view(0..1));
    }
}

/// Promises C05, C25.
pub fn what_is_written_is_read_at_every_length<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    for kind in KINDS {
        for len in (1..70).chain([255, 4095, 4097, (1 << 20) + 3]) {
            let buffer = device.buffer_in(kind, len).unwrap();
            let expected = pattern(len, len as u32);
            buffer.write(|bytes: &mut [u8]| bytes.copy_from_slice(&expected)).unwrap();
            assert!(bytes(&buffer) == expected, "{len} bytes of {kind:?}");
            let mut out = vec![0; len];
            buffer.copy_to_slice(&mut out).unwrap();
            assert!(out == expected, "{len} bytes of {kind:?} to a slice");
            invalid(buffer.copy_from_slice(&vec![0_u8; len + 1]));
        }
    }
}

/// Promise C05.
pub fn bytes_that_a_closure_does_not_touch_stay<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    let buffer = device.buffer(1000).unwrap();
    let mut expected = pattern(1000, 1);
    buffer.copy_from_slice(&expected).unwrap();
    buffer.write(|bytes: &mut [u8]| bytes[500] = !bytes[500]).unwrap();
    expected[500] = !expected[500];
    assert_eq!(bytes(&buffer), expected);
    buffer.write(|_: &mut [u8]| ()).unwrap();
    assert_eq!(bytes(&buffer), expected);
}

/// Promise C07.
pub fn views_share_the_bytes_and_keep_their_bounds<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    let buffer = device.buffer(100).unwrap();
    let mut expected = pattern(100, 2);
    buffer.copy_from_slice(&expected).unwrap();
    let view = buffer.view(10..60).unwrap();
    let inner = view.view(5..9).unwrap();
    assert_eq!(bytes(&inner), expected[15..19]);
    inner.copy_from_slice(&[1_u8, 2, 3, 4]).unwrap();
    expected[15..19].copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(bytes(&buffer), expected);
    assert_eq!(bytes(&view), expected[10..60]);
    drop(buffer);
    assert_eq!(bytes(&view), expected[10..60], "a view keeps the allocation");
    invalid(view.view(40..51));
    #[expect(clippy::reversed_empty_ranges, reason = "a range that ends before it starts is what is tested")]
    let reversed = view.view(9..8);
    invalid(reversed);
}

/// Promise C06.
pub fn copies_between_kinds_of_memory_keep_every_byte<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    for from in KINDS {
        for to in KINDS {
            for len in [1, 4, 4099, (1 << 16) + 1] {
                let (a, b) = (device.buffer_in(from, len).unwrap(), device.buffer_in(to, len).unwrap());
                copied(&a, &b);
            }
        }
    }
}

/// Promise C06.
pub fn copies_between_devices_keep_every_byte<F: Fixtures>(f: &F) {
    let (one, two) = (rig::open(f.opener()).unwrap(), rig::open(f.second()).unwrap());
    for kind in KINDS {
        for len in [1, 4, 4099, (1 << 16) + 1] {
            let (a, b) = (one.buffer_in(kind, len).unwrap(), two.buffer(len).unwrap());
            copied(&a, &b);
            copied(&b, &a);
        }
    }
    invalid(one.buffer(4).unwrap().copy_to(&two.buffer(5).unwrap()));
}

fn copied(from: &Buffer, to: &Buffer) {
    let expected = pattern(from.len(), from.len() as u32);
    from.copy_from_slice(&expected).unwrap();
    from.copy_to(to).unwrap();
    // The copy is ordered before this write: it must copy what stood there.
    from.memset(0).unwrap();
    assert!(bytes(to) == expected, "{} bytes", from.len());
}

/// Promise C06.
pub fn copies_onto_themselves_are_as_if_through_a_second_buffer<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    for (from, to) in [(0, 7), (7, 0), (3, 3), (0, 500), (1, 1000)] {
        let buffer = device.buffer(2000).unwrap();
        let mut expected = pattern(2000, 3);
        buffer.copy_from_slice(&expected).unwrap();
        let (a, b) = (buffer.view(from..from + 1000).unwrap(), buffer.view(to..to + 1000).unwrap());
        a.copy_to(&b).unwrap();
        expected.copy_within(from..from + 1000, to);
        assert!(bytes(&buffer) == expected, "from {from} to {to}");
    }
}

/// Promise C06.
pub fn memset_sets_its_bytes_and_no_others<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    for kind in KINDS {
        let buffer = device.buffer_in(kind, 300).unwrap();
        let mut expected = pattern(300, 4);
        buffer.copy_from_slice(&expected).unwrap();
        for (start, len) in [(0, 1), (1, 2), (5, 3), (16, 4), (33, 31), (100, 200), (50, 0)] {
            buffer.view(start..start + len).unwrap().memset(start as u8).unwrap();
            expected[start..start + len].fill(start as u8);
        }
        assert_eq!(bytes(&buffer), expected, "{kind:?}");
    }
}

/// Promises C04, C33.
pub fn neighbours_of_small_buffers_stay_as_they_were<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let buffers: Vec<Buffer> = (0..200).map(|i| kit.device.buffer(1 + i % 9).unwrap()).collect();
    for (i, buffer) in buffers.iter().enumerate() {
        buffer.memset(i as u8).unwrap();
    }
    // A kernel that works by whole words may touch the last word of its buffer, which is no neighbour's.
    let mut run = kit.run(&kit.iota, 3, 8);
    run.part(0).set(12, u32::MAX - 2);
    for buffer in buffers.iter().skip(1).step_by(2).filter(|buffer| buffer.len() == 9) {
        super::kit::launch(&mut run, &[buffer]).unwrap();
    }
    for (i, buffer) in buffers.iter().enumerate().filter(|(i, buffer)| i % 2 == 0 || buffer.len() != 9) {
        assert!(bytes(buffer).iter().all(|&byte| byte == i as u8), "buffer {i} of {} bytes", buffer.len());
    }
}
