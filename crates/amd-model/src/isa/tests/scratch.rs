//! Kernels with private memory against the same work in plain Rust, and what of it is refused.

use super::kit::{Arguments, Memory, Object, dispatch, launch, run};
use crate::isa::{Access, FaultKind};

pub(super) const SCRATCH: &[u8] = include_bytes!("../../../fixtures/scratch.co");

fn words(n: u32) -> Vec<u32> {
    (0..n).map(|i| i.wrapping_mul(2_654_435_761) ^ i >> 3).collect()
}

/// Runs a kernel over `x` in groups of 96 threads: three waves, the last group's in part outside of `n`.
fn over(kernel: &str, x: &[u32], n: u32, recursion: Option<u32>) -> Vec<u32> {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SCRATCH);
    let (from, to) = (memory.words(x), memory.words(&vec![0; n as usize]));
    let arguments = match recursion {
        Some(depth) => Arguments::default().long(to).word(n).word(depth),
        None if kernel == "huge" => Arguments::default().long(to).word(n),
        None => Arguments::default().long(from).long(to).word(n),
    };
    let mut dispatch = dispatch(&mut memory, &object, kernel, [n.div_ceil(96), 1, 1], [96, 1, 1], arguments).unwrap();
    dispatch.private_bytes += if recursion.is_some() { 16 << 10 } else { 0 };
    run(&mut memory, &dispatch, 5).unwrap();
    memory.read_words(to)
}

#[test]
fn an_array_that_values_index_is_each_work_items_own() {
    let x = words(16);
    let due: Vec<u32> = (0..500_u32)
        .map(|i| {
            let mut array: Vec<u32> = x.iter().map(|x| x.wrapping_add(i)).collect();
            let mut sum = 0_u32;
            for k in 0..16 {
                let at = (k + i as usize) % 16;
                sum = sum.wrapping_mul(31).wrapping_add(array[at]);
                let to = &mut array[(at * 7 + 3) % 16];
                *to = to.wrapping_add(sum);
            }
            sum.wrapping_add(array[i as usize % 16])
        })
        .collect();
    assert_eq!(over("scratch", &x, 500, None), due);
}

#[test]
fn a_kilobyte_and_two_hundred_of_them_for_each_work_item_are_had() {
    let x = words(16);
    let due: Vec<u32> = (0..300_u32)
        .map(|i| {
            let value = |k: u32| x[k as usize % 16] ^ k.wrapping_mul(i);
            (0..64).fold(i, |at, k| value(at % 256).wrapping_add(k))
        })
        .collect();
    assert_eq!(over("large", &x, 300, None), due);
    assert_eq!(over("huge", &x, 100, None), (0..100).collect::<Vec<_>>());
}

#[test]
fn accesses_of_every_width_reach_their_bytes() {
    let x: Vec<u32> = words(200);
    let n = x.len();
    let due: Vec<u32> = (0..n)
        .map(|i| {
            let mut bytes = [0_u8; 16];
            let values: Vec<u32> = (0..4).map(|k| x[(i + k) % n]).collect();
            for (k, v) in values.iter().enumerate() {
                bytes[k * 4] = (v >> 3) as u8;
                bytes[(*v as usize + k) % 16] = (v >> 3) as u8;
            }
            let floats: Vec<u32> = values.iter().flat_map(|v| [v % 64, v % 32]).collect();
            let at = x[i] as usize % 4;
            let (v, byte) = (values[at], bytes[at * 4]);
            let sum = [u32::from(byte), byte as i8 as u32, u32::from(v as u16), v as i16 as u32, v];
            let sum = sum.iter().fold(0_u32, |sum, part| sum.wrapping_add(*part));
            let plus = |n: u32| v.wrapping_add(n);
            let halves = floats[2 * at] + floats[(2 * at + 1) % 8] * 4;
            [
                sum.wrapping_mul(7),
                plus(0).wrapping_mul(3),
                plus(1),
                plus(0).wrapping_mul(5),
                plus(1),
                plus(2),
                plus(0),
                plus(1).wrapping_mul(9),
                plus(2),
                plus(3),
                halves,
            ]
            .iter()
            .fold(0, |sum: u32, part| sum.wrapping_add(*part))
        })
        .collect();
    assert_eq!(over("widths", &x, n as u32, None), due);
}

#[test]
fn registers_that_are_spilled_come_back() {
    const VALUES: usize = 220;
    let x = words(400);
    let due: Vec<u32> = (0..150)
        .map(|i| {
            let mut v: Vec<u32> = x[i..i + VALUES].to_vec();
            for k in 0..VALUES {
                v[k] ^= v[(k + 97) % VALUES] << 1;
            }
            (0..VALUES).fold(0, |sum: u32, k| sum.wrapping_mul(3).wrapping_add(v[k * 7 % VALUES]))
        })
        .collect();
    assert_eq!(over("spills", &x, 150, None), due);
}

fn mix(values: &mut [u32; 8], n: u32) -> u32 {
    let kept: Vec<u32> = (0..8).map(|k| values[(k * 3 + n) as usize % 8]).collect();
    for (k, value) in (0..).zip(values.iter_mut()) {
        *value = kept[value.wrapping_add(k) as usize % 8].wrapping_add(n);
    }
    kept[n as usize % 8]
}

#[test]
fn calls_keep_their_stacks() {
    let x = words(8);
    let due: Vec<u32> = (0..300_u32)
        .map(|i| {
            let mut values: [u32; 8] = std::array::from_fn(|k| x[k].wrapping_mul(i + 1));
            let n = i % 5;
            let sum = mix(&mut values, n).wrapping_mul(31).wrapping_add(mix(&mut values, n + 1));
            (0..8).fold(sum, |sum, k| sum.wrapping_mul(17).wrapping_add(values[(k + i) as usize % 8]))
        })
        .collect();
    assert_eq!(over("calls", &x, 300, None), due);
}

#[test]
fn flat_pointers_lead_to_private_group_and_global_memory_in_one_wave() {
    let x = words(288);
    let due: Vec<u32> = (0..288_u32)
        .map(|i| {
            let (mut own, mut shared) = (i + 100 * (i % 4), 3 * i);
            let old = [own, shared, x[i as usize]][i as usize % 3];
            let new = old.wrapping_add(i + 1);
            own = if i % 3 == 0 { new } else { own };
            shared = if i % 3 == 1 { new } else { shared };
            let got = old.wrapping_mul(2).wrapping_add(new);
            got.wrapping_add(own.wrapping_mul(5)).wrapping_add(shared.wrapping_mul(7))
        })
        .collect();
    assert_eq!(over("flat", &x, 288, None), due);
}

#[test]
fn stacks_of_a_depth_that_values_choose_are_had_up_to_what_the_packet_gives() {
    fn deeper(n: u32) -> u32 {
        if n < 2 { n } else { deeper(n - 1) + n + n % 4 }
    }
    let due: Vec<u32> = (0..200).map(|i| deeper(i % 40)).collect();
    assert_eq!(over("recurses", &[0], 200, Some(40)), due);
}

#[test]
fn what_leaves_the_private_memory_of_a_work_item_is_a_fault_with_the_place() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SCRATCH);
    let to = memory.words(&[0; 32]);
    // No more than the descriptor's fixed part: the second call leaves it.
    let arguments = Arguments::default().long(to).word(32).word(32);
    let fault = launch(&mut memory, &object, "recurses", [1; 3], [32, 1, 1], arguments).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Private { size: 32, offset: 32.., access: Access::Store, .. }), "{fault}");
    assert!(fault.to_string().contains("scratch_store_b32"), "{fault}");
}

#[test]
fn a_kernel_whose_descriptor_does_not_ask_for_scratch_gets_none() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SCRATCH);
    let (_, mut bytes) = object.descriptor("scratch");
    // The lowest bit of rsrc2.
    bytes[52] &= !1;
    let refusal = crate::isa::Descriptor::read(&bytes).refusal();
    assert!(refusal.is_some_and(|why| why.contains("rsrc2")), "{refusal:?}");
}
