//! Packets with bits that fell over: whatever a ring holds, the machine answers with a violation, a fault or the work, and
//! never ends.

use super::kit::*;
use super::work::add_arguments;
use crate::rng::Rng;

/// Turns a few bits over.
fn spoil(rng: &mut Rng, bytes: &mut [u8]) {
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len());
        bytes[at] ^= 1 << rng.below(8);
    }
}

fn spoil_words(rng: &mut Rng, words: &mut [u32]) {
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(words.len());
        words[at] ^= 1 << rng.below(32);
    }
}

#[test]
fn spoiled_packets_of_a_compute_queue_do_not_end_the_machine() {
    let mut rng = Rng::new(7);
    for round in 0..400 {
        let driver = Driver::open(crate::Machine::builder().held().seed(round).wave_budget(2_000));
        let (image, mut queue, word) = (driver.suite(), driver.aql(), driver.zeroed(4096, SHARED));
        let x = driver.zeroed(4096, SHARED);
        let arguments = add_arguments(&driver, x, x, 64).va;
        let kernel = image.kernel("add");
        let mut packet = if round % 2 == 0 {
            Launch { header: DISPATCH, kernel, arguments, groups: 2, threads: 64, group_bytes: 0 }.packet()
        } else {
            let mut words = [release(word.va, 1), wait(word.va, 1), acquire()].concat();
            if round % 4 == 1 {
                spoil_words(&mut rng, &mut words);
            }
            queue.buffer(&words)
        };
        if round % 4 != 1 {
            spoil(&mut rng, &mut packet);
        }
        queue.push(&packet);
        queue.ring();
        driver.machine.run(20_000);
    }
}

#[test]
fn spoiled_packets_of_a_copy_queue_do_not_end_the_machine() {
    let mut rng = Rng::new(8);
    for round in 0..600 {
        let driver = Driver::held(round);
        let (mut queue, x, y) = (driver.sdma(), driver.zeroed(4096, SHARED), driver.zeroed(4096, OWN));
        let add = |operation: u32| vec![10 | operation << 25, x.va as u32, (x.va >> 32) as u32, 1, 0, 0, 0, 0];
        let stamp = vec![13 | 2 << 8, x.va as u32, (x.va >> 32) as u32];
        let write = vec![2, y.va as u32, (y.va >> 32) as u32, 1, 5, 6];
        let copy = sdma_copy(x.va, y.va, 4096);
        let all = [copy, sdma_fill(y.va, 1, 64), sdma_fence(x.va, 1), sdma_poll(x.va, 1), sdma_acquire()];
        let mut words = [&all[..], &[add(47), add(15), stamp, write]].concat();
        let spoiled = rng.below(words.len());
        spoil_words(&mut rng, &mut words[spoiled]);
        words.iter().for_each(|words| queue.push(words));
        queue.ring();
        driver.machine.run(20_000);
    }
}

#[test]
fn calls_with_spoiled_structs_do_not_end_the_machine() {
    let mut rng = Rng::new(9);
    let driver = Driver::held(1);
    let (plan, ..) = driver.aql_plan(64);
    for _ in 0..2_000 {
        let mut value = plan;
        match rng.below(8) {
            0 => value.ring_base_address ^= 1 << rng.below(64),
            1 => value.write_pointer_address ^= 1 << rng.below(64),
            2 => value.read_pointer_address ^= 1 << rng.below(64),
            3 => value.ring_size ^= 1 << rng.below(32),
            4 => value.eop_buffer_address ^= 1 << rng.below(64),
            5 => value.ctx_save_restore_address ^= 1 << rng.below(64),
            6 => value.ctx_save_restore_size ^= 1 << rng.below(32),
            _ => value.queue_type ^= 1 << rng.below(32),
        }
        if driver.create_queue(&mut value).is_ok() {
            driver.call(crate::abi::BOTH, 0x03, &mut crate::abi::Id { id: value.queue_id, pad: 0 }).unwrap();
        }
        let va = driver.try_alloc(1 << rng.below(64), 1 << rng.below(64), SHARED ^ 1 << rng.below(32));
        if let Ok(made) = va {
            driver.free(Mem { va: made.va_addr, len: made.size, handle: made.handle }).unwrap();
        }
    }
    driver.machine.take_violations();
}
