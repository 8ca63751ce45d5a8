//! Reclamation: dropping never waits, memory comes back, and what runs out loses nothing.

use rig::{Buffer, Error};

use super::Fixtures;
use super::kit::{Kit, all_are, bytes, pattern};

/// Promise C16.
pub fn a_buffer_may_be_dropped_while_work_uses_it<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let sum = kit.floats(&[0.0; 4096]);
    for i in 0..200 {
        let x = kit.floats(&[1.0; 4096]);
        if i % 50 == 0 {
            kit.busy();
        }
        kit.add(&x, &sum).unwrap();
        drop(x);
        // What takes its memory must wait for the work that reads it.
        kit.device.buffer(4 * 4096).unwrap().memset(0xFF).unwrap();
    }
    all_are(&sum, 200.0);
}

/// Promises C16, C17, C18.
pub fn memory_comes_back_while_a_program_goes_on<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let budget = kit.device.allocated() + kit.device.cached() + (16 << 20);
    kit.device.set_budget(budget);
    assert_eq!(kit.device.budget(), budget);
    for i in 0..200_u32 {
        // Sizes that grow do not strand what smaller ones left.
        let len = (1 << 20) + 4 * 4096 * i as usize;
        let y = kit.device.buffer(len).unwrap();
        kit.iota(&y.view(0..4096).unwrap(), i).unwrap();
        // In this order: memory that comes back between the two is in neither, and not in both.
        let cached = kit.device.cached();
        assert!(cached + kit.device.allocated() <= budget);
    }
}

/// Promise C17.
pub fn memory_that_runs_out_is_an_error_and_loses_nothing<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    kit.device.set_budget(kit.device.allocated() + kit.device.cached() + (8 << 20));
    let mut buffers: Vec<Buffer> = Vec::new();
    let bytes_short = loop {
        match kit.device.buffer(1 << 20) {
            Ok(buffer) => {
                kit.iota(&buffer, buffers.len() as u32).unwrap();
                buffers.push(buffer);
            }
            Err(Error::OutOfMemory { bytes }) => break bytes,
            Err(other) => panic!("{other:?}"),
        }
        assert!(buffers.len() <= 8, "the budget is not kept");
    };
    assert!(bytes_short >= 1 << 20, "{bytes_short}");
    assert!(buffers.len() >= 6, "only {} of 8 fit", buffers.len());
    // Where the host does not address the memory, reading it takes some to stage it in.
    kit.device.set_budget(kit.device.budget() + (4 << 20));
    for (i, buffer) in buffers.iter().enumerate() {
        let last = buffer.read(|words: &[u32]| words[words.len() - 1]).unwrap();
        assert_eq!(last, i as u32 + (1 << 18) - 1);
    }
    drop(buffers.pop());
    kit.device.buffer(1 << 20).unwrap();
    match kit.device.buffer(1 << 50) {
        Err(Error::OutOfMemory { bytes }) => assert!(bytes >= 1 << 50),
        other => panic!("{other:?}"),
    }
}

/// Promise C18.
pub fn allocated_and_cached_add_up<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    let before = device.allocated();
    let buffer = device.buffer(3 << 20).unwrap();
    assert!(device.allocated() >= before + (3 << 20));
    drop(buffer);
    assert!(device.allocated() <= before, "a buffer that nothing uses is back at once");
    assert!(device.cached() >= 3 << 20, "and in the cache");
    let again = device.buffer(3 << 20).unwrap();
    assert!(device.cached() < 3 << 20, "from where the next one comes");
    drop(again);
    device.set_budget(0);
    assert_eq!(device.cached(), 0, "a lower budget gives the cache back");
}

/// Promises C04, C16, C33.
pub fn live_buffers_of_many_sizes_keep_their_bytes<F: Fixtures>(f: &F) {
    let device = rig::open(f.opener()).unwrap();
    let mut live: Vec<(Buffer, Vec<u8>)> = Vec::new();
    for step in 0..600_u32 {
        let dice = super::kit::spun(step, 3);
        if live.len() > 60 || (dice >> 28) < 4 && !live.is_empty() {
            let (buffer, expected) = live.swap_remove((dice >> 8) as usize % live.len());
            assert!(bytes(&buffer) == expected, "step {step}: {} bytes", buffer.len());
            continue;
        }
        let len = 1 + (dice >> 12) as usize % [7, 300, 5000, 70_000][(dice >> 4) as usize % 4];
        let buffer = device.buffer(len).unwrap();
        let expected = pattern(len, step);
        buffer.copy_from_slice(&expected).unwrap();
        live.push((buffer, expected));
    }
    for (buffer, expected) in &live {
        assert!(bytes(buffer) == *expected, "{} bytes", buffer.len());
    }
}
