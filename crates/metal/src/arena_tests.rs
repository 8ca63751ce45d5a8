//! The arena against a plain model: bytes with owners.

use std::collections::VecDeque;

use super::*;

/// What must hold, byte by byte: which submission has each block, and which submissions are in flight.
struct Oracle {
    owner: Vec<Option<u32>>,
    flight: VecDeque<(u32, u64)>,
    next: u32,
}

impl Oracle {
    fn new(blocks: usize) -> Oracle {
        Oracle { owner: vec![None; blocks], flight: VecDeque::new(), next: 0 }
    }

    fn in_use(&self) -> usize {
        self.owner.iter().flatten().count()
    }

    /// Asks for blocks of these sizes, in multiples of [`BLOCK`], and sees that the answer is right.
    fn ask(&mut self, arena: &mut Arena, sizes: &[u64]) -> bool {
        let total: u64 = sizes.iter().sum();
        let before = arena.clone();
        let mut placing = arena.placing();
        let offsets: Option<Vec<u64>> = sizes.iter().map(|size| arena.place(&mut placing, size * BLOCK)).collect();
        assert_eq!((before.head, before.tail), (arena.head, arena.tail), "placing changes nothing");
        let Some(offsets) = offsets else {
            assert!(
                !self.flight.is_empty() || total > self.owner.len() as u64,
                "an empty arena takes what it can hold"
            );
            return false;
        };
        arena.take(placing);
        for (offset, size) in offsets.into_iter().zip(sizes) {
            assert_eq!(offset % BLOCK, 0);
            let first = (offset / BLOCK) as usize;
            for block in first..first + *size as usize {
                assert_eq!(self.owner[block], None, "block {block} is in use");
                self.owner[block] = Some(self.next);
            }
        }
        self.flight.push_back((self.next, arena.head));
        self.next += 1;
        true
    }

    /// The oldest submission completes.
    fn complete(&mut self, arena: &mut Arena) {
        let Some((oldest, head)) = self.flight.pop_front() else { return };
        self.owner.iter_mut().filter(|owner| **owner == Some(oldest)).for_each(|owner| *owner = None);
        arena.give_back(head);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Promises M42, M43.
#[test]
fn random_work_never_shares_a_byte_and_an_empty_arena_holds_all_that_it_says() {
    for seed in 1..200 {
        let mut random = Random(u64::wrapping_mul(seed, 0x9E37_79B9_7F4A_7C15));
        let blocks = 1 + random.below(40);
        let (mut arena, mut oracle) = (Arena::new(blocks * BLOCK), Oracle::new(blocks as usize));
        for _ in 0..2000 {
            if random.below(3) == 0 {
                oracle.complete(&mut arena);
            } else {
                let sizes: Vec<u64> = (0..random.below(5)).map(|_| 1 + random.below(blocks)).collect();
                oracle.ask(&mut arena, &sizes);
            }
            assert!(arena.tail <= arena.head && arena.head - arena.tail <= arena.capacity);
            assert!(oracle.in_use() as u64 * BLOCK <= arena.head - arena.tail);
        }
    }
}

/// Promises M42, M43.
#[test]
fn every_sequence_of_five_steps_at_small_sizes_is_right() {
    // A step: complete, or ask for one or two blocks of one to three.
    let mut steps: Vec<Option<Vec<u64>>> = vec![None];
    for a in 1..=3 {
        steps.push(Some(vec![a]));
        (1..=2).for_each(|b| steps.push(Some(vec![a, b])));
    }
    for blocks in 1..=4u64 {
        for sequence in 0..steps.len().pow(5) {
            let (mut arena, mut oracle) = (Arena::new(blocks * BLOCK), Oracle::new(blocks as usize));
            let mut rest = sequence;
            for _ in 0..5 {
                match &steps[rest % steps.len()] {
                    Some(sizes) => drop(oracle.ask(&mut arena, sizes)),
                    None => oracle.complete(&mut arena),
                }
                rest /= steps.len();
            }
        }
    }
}

#[test]
fn bytes_that_come_back_between_room_and_submit_change_no_place() {
    let mut arena = Arena::new(4 * BLOCK);
    let mut first = arena.placing();
    assert_eq!(arena.place(&mut first, BLOCK), Some(0));
    arena.take(first);
    let mut second = arena.placing();
    assert_eq!(arena.place(&mut second, BLOCK), Some(BLOCK));
    arena.give_back(first.end);
    arena.take(second);
    assert_eq!(arena.head - arena.tail, BLOCK);
    let mut third = arena.placing();
    let offsets: Vec<_> = (0..4).map(|_| arena.place(&mut third, BLOCK)).collect();
    assert_eq!(offsets, [Some(2 * BLOCK), Some(3 * BLOCK), Some(0), None]);
}

/// Promise M44.
#[test]
fn capacities_are_powers_of_two_from_a_mebibyte_up_to_what_metal_allows() {
    let most = 1 << 30;
    assert_eq!(capacity_for(256, most), LEAST);
    assert_eq!(capacity_for(LEAST / 2, most), LEAST);
    assert_eq!(capacity_for(LEAST / 2 + 256, most), 2 * LEAST);
    assert_eq!(capacity_for(LEAST, most), 2 * LEAST);
    assert_eq!(capacity_for(3 * LEAST, most), 8 * LEAST);
    assert_eq!(capacity_for(most, most), most);
    assert_eq!(capacity_for(most - 256, most), most);
    assert_eq!(capacity_for(u64::MAX, most), most);
    assert_eq!(capacity_for(512, 1000), 768, "whole blocks");
    let (arena, mut oracle) = (&mut Arena::new(LEAST), Oracle::new(4096));
    assert!((0..4096).all(|_| oracle.ask(arena, &[1])), "4,096 launches of up to 256 bytes");
    assert!(!oracle.ask(arena, &[1]));
}
