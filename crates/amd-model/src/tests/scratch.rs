//! Scratch of compute queues: what their structs must say of it, and what waves do with it.

use super::kit::*;
use crate::{Group, PacketFault, PublicationFault, Violation};
use std::sync::atomic::Ordering;

const SCRATCH: &[u8] = include_bytes!("../../fixtures/scratch.co");

/// Waves of each of the six engines, and units of 256 bytes of a wave.
#[derive(Clone, Copy)]
struct Size {
    waves: u32,
    units: u32,
}

impl Size {
    fn bytes(self) -> u64 {
        6 * u64::from(self.waves * self.units) * 256
    }
}

/// The ten words of the struct, from compute_tmpring_size on.
fn fields(memory: Mem, size: Size) -> [u32; 10] {
    let (va, bytes) = (memory.va, size.bytes());
    let halves = |value: u64| [value as u32, (value >> 32) as u32];
    let ([low, high], [bytes_low, bytes_high]) = (halves(va), halves(bytes));
    [
        size.waves | size.units << 12,
        low,
        high | 1 << 30,
        bytes_low,
        0x2081_4fac,
        low,
        high,
        bytes_low,
        bytes_high,
        size.units * 4,
    ]
}

fn put_fields(queue: &Aql, fields: &[u32; 10]) {
    for (n, &word) in (0..).zip(fields) {
        queue.page.half(0x8c + 4 * n).store(word, Ordering::Relaxed);
    }
}

/// A machine, a queue whose scratch is as the words say, and a packet of the kernel `scratch` over 500 threads.
struct Case {
    driver: Driver,
    queue: Aql,
    packet: [u8; 64],
    y: Mem,
}

/// Sixteen values of one for each thread: what it makes of them.
fn due(i: u32) -> u32 {
    let mut array = [1 + i; 16];
    let mut sum = 0_u32;
    for k in 0..16 {
        let at = (k + i as usize) % 16;
        sum = sum.wrapping_mul(31).wrapping_add(array[at]);
        array[(at * 7 + 3) % 16] = array[(at * 7 + 3) % 16].wrapping_add(sum);
    }
    sum.wrapping_add(array[i as usize % 16])
}

const THREADS: u32 = 500;

impl Case {
    fn new(seed: u64) -> Case {
        let driver = Driver::held(seed);
        let (image, queue) = (driver.load(SCRATCH), driver.aql());
        let (x, y) = (driver.alloc(4096, SHARED), driver.zeroed(4096, SHARED));
        x.put_words(&[1; 16]);
        let arguments = driver.alloc(4096, SHARED);
        arguments.word(0).store(x.va, Ordering::Relaxed);
        arguments.word(8).store(y.va, Ordering::Relaxed);
        arguments.word(16).store(u64::from(THREADS), Ordering::Relaxed);
        let kernel = image.kernel("scratch");
        let (arguments, group_bytes) = (arguments.va, 0);
        let mut packet = Launch { header: DISPATCH, kernel, arguments, groups: 6, threads: 96, group_bytes }.packet();
        put(&mut packet, 24, &68_u32.to_le_bytes());
        Case { driver, queue, packet, y }
    }

    /// Runs it on scratch of a size that is right, but for one change.
    fn run(change: impl FnOnce(&mut [u32; 10], &mut [u8; 64])) -> Case {
        let mut case = Case::new(1);
        let size = Size { waves: 4, units: 9 };
        let memory = case.driver.hidden(size.bytes().next_multiple_of(4096), OWN);
        let mut fields = fields(memory, size);
        change(&mut fields, &mut case.packet);
        put_fields(&case.queue, &fields);
        case.queue.push(&case.packet);
        case.queue.ring();
        case.driver.run();
        case
    }

    /// Steps until a dispatch has begun.
    fn to_launch(&self) {
        while !self.driver.machine.trace().iter().any(|step| matches!(step, crate::Traced::Launched { .. })) {
            self.driver.machine.step();
        }
    }

    fn field(&self) -> &'static str {
        match self.driver.machine.violations().remove(0) {
            Violation::Publication { fault: PublicationFault::QueueStruct { field, .. }, .. } => field,
            Violation::Packet { fault: PacketFault::TooSmall { field, .. }, .. } => field,
            other => panic!("{other:?}"),
        }
    }

    fn check(&self) {
        self.driver.machine.assert_clean();
        let due: Vec<u32> = (0..THREADS).map(due).collect();
        assert_eq!(self.y.words(THREADS as usize), due);
    }
}

#[test]
fn waves_of_many_groups_keep_apart_in_little_scratch() {
    for seed in 0..20 {
        let mut case = Case::new(seed);
        // No more than one group of each engine has room.
        let size = Size { waves: 3, units: 9 };
        put_fields(&case.queue, &fields(case.driver.hidden(size.bytes().next_multiple_of(4096), OWN), size));
        case.queue.push(&case.packet);
        case.queue.ring();
        case.driver.finish();
        case.check();
    }
}

#[test]
fn a_queue_without_scratch_or_with_too_little_is_a_violation() {
    assert!(Case::run(|fields, _| *fields = [0; 10]).field().contains("WAVESIZE"));
    assert!(Case::run(|fields, _| fields[0] -= 1 << 12).field().contains("WAVESIZE"));
    assert!(Case::run(|_, packet| put(packet, 24, &73_u32.to_le_bytes())).field().contains("WAVESIZE"));
    assert!(Case::run(|_, packet| put(packet, 24, &67_u32.to_le_bytes())).field().contains("private_segment_size"));
    assert!(
        Case::run(|fields, _| fields[0] = fields[0] & !0xfff | 2).field().contains("WAVES of"),
        "three waves a group"
    );
    Case::run(|_, packet| put(packet, 24, &72_u32.to_le_bytes())).check();
}

#[test]
fn fields_of_the_queues_struct_that_disagree_are_a_violation() {
    for (word, by, named) in [
        (0, 1, "byte_size"),
        (0, 1 << 27, "bits 27 to 31"),
        (1, 256, "scratch_resource_descriptor"),
        (2, 1 << 30, "scratch_resource_descriptor"),
        (3, 1, "scratch_resource_descriptor"),
        (4, 1, "scratch_resource_descriptor"),
        (5, 16, "below 256 bytes"),
        (7, 1, "scratch_resource_descriptor"),
        (9, 1, "scratch_wave64_lane_byte_size"),
    ] {
        let case = Case::run(|fields, _| fields[word] = fields[word].wrapping_add(by));
        assert!(case.field().contains(named), "word {word}: {}", case.field());
    }
    // Less memory than the waves need, by the size's own field.
    assert!(
        Case::run(|fields, _| (fields[3], fields[7]) = (fields[3] - 1, fields[7] - 1)).field().contains("byte_size")
    );
}

#[test]
fn scratch_that_is_not_mapped_or_is_freed_under_its_waves_is_a_violation() {
    let case = Case::run(|fields, _| {
        (fields[2], fields[6]) = (fields[2] + 16, fields[6] + 16);
    });
    assert!(matches!(case.driver.machine.assert_found(Group::Memory)[0], Violation::Access { .. }));
    let mut case = Case::new(3);
    let size = Size { waves: 8, units: 9 };
    let memory = case.driver.hidden(size.bytes().next_multiple_of(4096), OWN);
    put_fields(&case.queue, &fields(memory, size));
    case.queue.push(&case.packet);
    case.queue.ring();
    case.to_launch();
    case.driver.unmap(memory).unwrap();
    assert!(matches!(
        case.driver.machine.assert_found(Group::Publication)[0],
        Violation::Publication { fault: PublicationFault::StorageFreed { what: "scratch", .. }, .. }
    ));
}

/// Words that write the struct's fields from the queue itself.
fn write(queue: &Aql, fields: &[u32; 10]) -> Vec<u32> {
    let va = queue.page.va + 0x8c;
    let mut words = vec![0xc000_3700 | (2 + 10) << 16, 5 << 8 | 1 << 20, va as u32, (va >> 32) as u32];
    words.extend(fields);
    words
}

#[test]
fn scratch_grows_between_dispatches_while_earlier_ones_run() {
    for seed in 0..20 {
        let mut case = Case::new(seed);
        let (small, large) = (Size { waves: 3, units: 9 }, Size { waves: 3, units: 40 });
        let memories = [small, large].map(|size| case.driver.hidden(size.bytes().next_multiple_of(4096), OWN));
        for (memory, size) in memories.into_iter().zip([small, large]) {
            let words = write(&case.queue, &fields(memory, size));
            case.queue.push_buffer(&words);
            // Without the barrier bit: it may still run when the fields change.
            let mut packet = case.packet;
            put(&mut packet, 0, &(DISPATCH & !(1 << 8)).to_le_bytes());
            case.queue.push(&packet);
        }
        case.queue.ring();
        case.driver.finish();
        case.check();
    }
}

#[test]
fn scratch_that_changes_between_a_dispatchs_packet_and_its_start_is_a_violation() {
    let mut case = Case::new(2);
    let size = Size { waves: 3, units: 9 };
    let bytes = size.bytes().next_multiple_of(4096);
    put_fields(&case.queue, &fields(case.driver.hidden(bytes, OWN), size));
    case.queue.push(&case.packet);
    case.queue.push(&case.packet);
    case.queue.ring();
    case.to_launch();
    // The second packet is taken while the first runs, and waits for it.
    (0..40).for_each(|_| drop(case.driver.machine.step()));
    put_fields(&case.queue, &fields(case.driver.hidden(bytes, OWN), size));
    case.driver.run();
    assert!(matches!(
        case.driver.machine.assert_found(Group::Publication)[0],
        Violation::Publication { fault: PublicationFault::StorageChanged { what: "the queue's scratch", .. }, .. }
    ));
}
