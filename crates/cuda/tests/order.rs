//! The order of a submission's parts: those that share no written memory overlap on the GPU, and no others.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod gpu;

use gpu::{device, launch};
use rig::{Buffer, Device, Memory, RefSpec, Run, read, write};

/// How long a kernel of a span runs: far more than a graph takes from one node to the next.
const SPAN_NANOSECONDS: u64 = 200_000;

/// A run of launches of `span`, each with what it writes its times to and one ref more.
fn spans(device: &Device, parts: &[(u32, RefSpec)]) -> Run {
    let span = device.load(gpu::TEST).unwrap().function("span").unwrap();
    let each = parts.iter().map(|&(own, other)| [write(own), other]);
    let builder = each.fold(device.submission(), |builder, refs| builder.launch(&span, refs).params(24));
    let mut run = builder.make().unwrap().take();
    for part in 0..parts.len() {
        run.part(part).groups([1; 3]).threads([1; 3]).set(16, SPAN_NANOSECONDS);
    }
    run
}

/// When each launch of the run began and ended, by the GPU's clock.
fn times(run: &mut Run, buffers: &[&Buffer], launches: usize) -> Vec<[u64; 2]> {
    launch(run, buffers).unwrap().wait().unwrap();
    buffers[..launches].iter().map(|y| y.read(|y: &[u64]| [y[0], y[1]]).unwrap()).collect()
}

fn overlap([a, b]: [u64; 2], [c, d]: [u64; 2]) -> bool {
    a < d && c < b
}

/// The rounds of a case: a wrong overlap may show only now and then.
const ROUNDS: usize = 20;

/// Promise N05.
#[test]
fn parts_that_share_no_written_memory_overlap() {
    let Some(device) = device() else { return };
    // Nothing shared; a slot that both read.
    for (others, slots) in [([read(2), read(3)], 4), ([read(2), read(2)], 3)] {
        let mut run = spans(&device, &[(0, others[0]), (1, others[1])]);
        let mut overlaps = 0;
        for _ in 0..ROUNDS {
            let buffers = [(); 4].map(|()| device.buffer(16).unwrap());
            let times = times(&mut run, &buffers.each_ref()[..slots], 2);
            overlaps += usize::from(overlap(times[0], times[1]));
        }
        println!("{overlaps} of {ROUNDS} overlap");
        assert!(overlaps > ROUNDS / 2, "{overlaps} of {ROUNDS}");
    }
}

/// Promise N05.
#[test]
fn parts_that_share_memory_which_one_writes_never_overlap() {
    let Some(device) = device() else { return };
    // Slots 0 and 1 are what the launches write their times to. A read after the write; a write after the read; two writes
    // of a third slot.
    for others in [[read(2), read(0)], [read(1), read(2)], [write(2), write(2)]] {
        let mut run = spans(&device, &[(0, others[0]), (1, others[1])]);
        for _ in 0..ROUNDS {
            let buffers = [(); 3].map(|()| device.buffer(16).unwrap());
            let times = times(&mut run, &buffers.each_ref()[..], 2);
            assert!(times[0][1] <= times[1][0], "{others:?}: {times:?}");
        }
    }
}

/// Promise N05.
#[test]
fn parts_over_views_of_one_allocation_run_one_after_the_other_and_overlap_again_after() {
    let Some(device) = device() else { return };
    let mut run = spans(&device, &[(0, read(2)), (1, read(3))]);
    let mut overlaps = 0;
    for _ in 0..ROUNDS {
        let whole = device.buffer(64).unwrap();
        let views = [0, 16, 32, 48].map(|at| whole.view(at..at + 16).unwrap());
        let apart = [(); 4].map(|()| device.buffer(16).unwrap());
        let in_turn = times(&mut run, &views.each_ref()[..], 2);
        assert!(in_turn[0][1] <= in_turn[1][0], "{in_turn:?}");
        // One slot shares memory with another: that alone is enough.
        let twice = [&apart[0], &apart[1], &apart[2], &apart[0]];
        let in_turn = times(&mut run, &twice, 2);
        assert!(in_turn[0][1] <= in_turn[1][0], "{in_turn:?}");
        let times = times(&mut run, &apart.each_ref()[..], 2);
        overlaps += usize::from(overlap(times[0], times[1]));
    }
    assert!(overlaps > ROUNDS / 2, "{overlaps} of {ROUNDS}");
}

/// Promises N05, C14.
#[test]
fn a_point_is_reached_once_every_part_is_done_also_those_that_take_longer_than_the_last() {
    let Some(device) = device() else { return };
    let mut run = spans(&device, &[(0, read(3)), (1, read(3)), (2, read(3))]);
    for round in 0..ROUNDS {
        // The host reads these in place, with no work of the device's before it.
        let buffers = [(); 4].map(|()| device.buffer_in(Memory::Pinned, 16).unwrap());
        buffers.iter().for_each(|buffer| buffer.write(|bytes: &mut [u8]| bytes.fill(0)).unwrap());
        let longest = round % 3;
        for part in 0..3 {
            run.part(part).set(16, if part == longest { 2 * SPAN_NANOSECONDS } else { 0 });
        }
        let times = times(&mut run, &buffers.each_ref()[..], 3);
        assert!(times.iter().all(|[start, end]| *start > 0 && end >= start), "{longest} is the longest: {times:?}");
    }
}

/// A number below `bound`, of the `n`th turn: Knuth's multiplicative hash is mixed enough for a test's cases.
fn pick(n: &mut u64, bound: u64) -> usize {
    *n += 1;
    ((n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % bound) as usize
}

#[derive(Clone, Copy)]
enum Step {
    Mix { y: usize, x: usize, c: u32 },
    Copy { from: usize, to: usize },
    Memset { slot: usize, byte: u8 },
}

/// What the steps make of the slots, one after the other.
fn by_hand(steps: &[Step], slots: &mut [Vec<u32>]) {
    for &step in steps {
        match step {
            Step::Mix { y, x, c } => {
                let mixed = slots[y].iter().zip(&slots[x]);
                let mixed = mixed.map(|(y, x)| y.wrapping_mul(3).wrapping_add(*x).wrapping_add(c));
                slots[y] = mixed.collect();
            }
            Step::Copy { from, to } => slots[to] = slots[from].clone(),
            Step::Memset { slot, byte } => slots[slot].fill(u32::from_ne_bytes([byte; 4])),
        }
    }
}

/// Some steps over some slots. A mix reads another slot than it writes.
fn steps(turn: &mut u64, slots: u64) -> Vec<Step> {
    let two = |turn: &mut u64| {
        let a = pick(turn, slots);
        (a, (a + 1 + pick(turn, slots - 1)) % slots as usize)
    };
    let count = 2 + pick(turn, 60);
    let step = |_| {
        let (a, b) = two(turn);
        match pick(turn, 8) {
            0 => Step::Copy { from: a, to: b },
            1 => Step::Memset { slot: a, byte: pick(turn, 256) as u8 },
            _ => Step::Mix { y: a, x: b, c: pick(turn, 1000) as u32 },
        }
    };
    (0..count).map(step).collect()
}

/// A run of the steps.
fn made(device: &Device, steps: &[Step]) -> Run {
    let mix = device.load(gpu::TEST).unwrap().function("mix").unwrap();
    let builder = steps.iter().fold(device.submission(), |builder, &step| match step {
        Step::Mix { y, x, .. } => builder.launch(&mix, [write(y as u32), read(x as u32)]).params(24),
        Step::Copy { from, to } => builder.copy(from as u32, to as u32),
        Step::Memset { slot, byte } => builder.memset(slot as u32, byte),
    });
    let mut run = builder.make().unwrap().take();
    for (part, step) in steps.iter().enumerate() {
        if let Step::Mix { c, .. } = step {
            run.part(part).groups([2, 1, 1]).threads([256, 1, 1]).set(16, WORDS as u32).set(20, *c);
        }
    }
    run
}

/// The words of every slot of `mix`.
const WORDS: usize = 512;

/// Promises N05, C14.
#[test]
fn whatever_parts_a_submission_has_its_results_are_those_of_their_order() {
    let Some(device) = device() else { return };
    let mut turn = 0;
    for case in 0..60 {
        let slots = [2, 4, 8, 16, 32][case % 5];
        let mut steps = steps(&mut turn, slots as u64);
        // So each slot is taken by some step.
        steps.extend((0..slots).map(|y| Step::Mix { y, x: (y + 1) % slots, c: 5 }));
        let mut run = made(&device, &steps);
        for round in 0..6_u32 {
            let bytes = 4 * WORDS;
            let whole = device.buffer(slots * bytes).unwrap();
            let of_slot = |slot: usize| match round % 3 {
                1 => whole.view(slot * bytes..(slot + 1) * bytes).unwrap(),
                _ => device.buffer(bytes).unwrap(),
            };
            let buffers: Vec<Buffer> = (0..slots).map(of_slot).collect();
            let first = |slot: usize| (0..WORDS as u32).map(|i| i * 7 + slot as u32 + round).collect::<Vec<_>>();
            let mut due: Vec<Vec<u32>> = (0..slots).map(first).collect();
            buffers.iter().zip(&due).for_each(|(buffer, due)| buffer.copy_from_slice(due).unwrap());
            launch(&mut run, &buffers.iter().collect::<Vec<_>>()).unwrap();
            by_hand(&steps, &mut due);
            for (slot, buffer) in buffers.iter().enumerate() {
                buffer.read(|y: &[u32]| assert!(y == due[slot], "case {case}, round {round}, slot {slot}")).unwrap();
            }
        }
    }
}
