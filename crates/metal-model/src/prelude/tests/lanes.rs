//! What the lanes of a SIMD-group tell each other, and matrices: against the definition, with all lanes active and with
//! some.

use super::harness::{Bodies, Plain, meetings};
use crate::prelude::host::{half_bits, half_value};

const MASKS: [u32; 5] = [u32::MAX, 0x0000_ffff, 0xa5a5_5a5a, 0x8000_0000, 0x00ff_ff00];

fn active(mask: u32) -> impl Iterator<Item = usize> {
    (0..32usize).filter(move |lane| mask >> lane & 1 != 0)
}

/// What lane `lane` gives.
fn gives(lane: usize) -> i32 {
    (lane as i32 * 7919) % 61 - 20
}

#[test]
fn reductions_fold_the_active_lanes() {
    let bodies = Bodies::new(&[
        "air.simd_sum.s.i32 i32 (i32)",
        "air.simd_product.u.i16 i16 (i16)",
        "air.simd_min.s.i8 i8 (i8)",
        "air.simd_min.u.i8 i8 (i8)",
        "air.simd_max.s.i64 i64 (i64)",
        "air.simd_max.u.i32 i32 (i32)",
        "air.simd_and.s.i32 i32 (i32)",
        "air.simd_or.u.i32 i32 (i32)",
        "air.simd_xor.u.i32 i32 (i32)",
        "air.simd_sum.f32 float (float)",
        "air.simd_product.f32 float (float)",
        "air.simd_min.f32 float (float)",
        "air.simd_sum.v3f32 <3 x float> (<3 x float>)",
    ]);
    for mask in MASKS {
        let all: Vec<i32> = active(mask).map(gives).collect();
        let check = |name: &str, give: &dyn Fn(usize) -> Vec<u8>, truth: Vec<u8>| {
            let answers = bodies.lanes(name, mask, |lane| vec![give(lane)]);
            for lane in active(mask) {
                assert_eq!(answers[lane][..truth.len()], truth, "{name} on lane {lane} of {mask:x}");
            }
        };
        let whole = |lane: usize| gives(lane).bytes();
        check("air.simd_sum.s.i32", &whole, all.iter().sum::<i32>().bytes());
        let product = all.iter().fold(1u16, |product, x| product.wrapping_mul(*x as u16));
        check("air.simd_product.u.i16", &|lane| (gives(lane) as u16).bytes(), product.bytes());
        check("air.simd_min.s.i8", &|lane| (gives(lane) as i8).bytes(), (*all.iter().min().unwrap() as i8).bytes());
        let least = all.iter().map(|x| *x as u8).min().unwrap();
        check("air.simd_min.u.i8", &|lane| (gives(lane) as u8).bytes(), least.bytes());
        check(
            "air.simd_max.s.i64",
            &|lane| i64::from(gives(lane)).bytes(),
            i64::from(*all.iter().max().unwrap()).bytes(),
        );
        check("air.simd_max.u.i32", &whole, all.iter().map(|x| *x as u32).max().unwrap().bytes());
        check("air.simd_and.s.i32", &whole, all.iter().fold(-1, |all, x| all & x).bytes());
        check("air.simd_or.u.i32", &whole, all.iter().fold(0, |all, x| all | x).bytes());
        check("air.simd_xor.u.i32", &whole, all.iter().fold(0, |all, x| all ^ x).bytes());
        let float = |lane: usize| (gives(lane) as f32).bytes();
        check("air.simd_sum.f32", &float, (all.iter().sum::<i32>() as f32).bytes());
        check("air.simd_min.f32", &float, (*all.iter().min().unwrap() as f32).bytes());
        let sign = |lane: usize| if gives(lane) % 2 == 0 { 2f32 } else { -0.5 };
        check("air.simd_product.f32", &|lane| sign(lane).bytes(), active(mask).map(sign).product::<f32>().bytes());
        let three = |lane: usize| [0, 1, 2].map(|place| (gives(lane) as f32 * (place as f32 - 0.5)).bytes()).concat();
        let sum = all.iter().sum::<i32>() as f32;
        check("air.simd_sum.v3f32", &three, [-0.5 * sum, 0.5 * sum, 1.5 * sum].map(f32::bytes).concat());
    }
}

#[test]
fn reductions_of_halves_are_in_float_and_pass_over_what_is_no_number() {
    let bodies = Bodies::new(&[
        "air.simd_max.f16 half (half)",
        "air.simd_sum.f16 half (half)",
        "air.simd_min.f32 float (float)",
    ]);
    for mask in MASKS {
        // A lane without a number does not count in a maximum.
        let half = |lane: usize| if lane.is_multiple_of(3) { 0x7e00 } else { half_bits(gives(lane) as f32) };
        let greatest = active(mask).map(|lane| half_value(half(lane))).fold(f32::NAN, f32::max);
        if greatest.is_nan() {
            let answers = bodies.lanes("air.simd_max.f16", mask, |lane| vec![half(lane).bytes()]);
            active(mask).for_each(|lane| assert!(half_value(u16::read(&answers[lane])).is_nan()));
        } else {
            let answers = bodies.lanes("air.simd_max.f16", mask, |lane| vec![half(lane).bytes()]);
            active(mask).for_each(|lane| assert_eq!(half_value(u16::read(&answers[lane])), greatest));
        }
        // Where no lane has a number there is none to answer.
        let none = bodies.lanes("air.simd_min.f32", mask, |_| vec![f32::NAN.bytes()]);
        let none_of_half = bodies.lanes("air.simd_max.f16", mask, |_| vec![0x7e00u16.bytes()]);
        for lane in active(mask) {
            assert!(f32::read(&none[lane]).is_nan() && half_value(u16::read(&none_of_half[lane])).is_nan());
        }
        // Rounded once: 2048 ones and one more would stay 2048 in half.
        let large = |lane: usize| half_bits(if lane == 15 { 2048.0 } else { 1.0 });
        let sum: f32 = active(mask).map(|lane| half_value(large(lane))).sum();
        let answers = bodies.lanes("air.simd_sum.f16", mask, |lane| vec![large(lane).bytes()]);
        active(mask).for_each(|lane| assert_eq!(u16::read(&answers[lane]), half_bits(sum), "{mask:x}"));
    }
}

#[test]
fn reductions_of_a_quad_fold_its_active_lanes() {
    let bodies = Bodies::new(&["air.quad_sum.f32 float (float)", "air.quad_max.s.i32 i32 (i32)"]);
    for mask in MASKS {
        let sums = bodies.lanes("air.quad_sum.f32", mask, |lane| vec![(gives(lane) as f32).bytes()]);
        let maxima = bodies.lanes("air.quad_max.s.i32", mask, |lane| vec![gives(lane).bytes()]);
        for lane in active(mask) {
            let quad = || active(mask).filter(|other| other / 4 == lane / 4).map(gives);
            assert_eq!(f32::read(&sums[lane]), quad().sum::<i32>() as f32);
            assert_eq!(i32::read(&maxima[lane]), quad().max().unwrap());
        }
    }
}

#[test]
fn prefixes_fold_the_active_lanes_before_or_up_to_each() {
    let bodies = Bodies::new(&[
        "air.simd_prefix_inclusive_sum.s.i32 i32 (i32)",
        "air.simd_prefix_exclusive_sum.f32 float (float)",
        "air.simd_prefix_inclusive_product.u.i8 i8 (i8)",
        "air.simd_prefix_exclusive_product.f16 half (half)",
        "air.quad_prefix_exclusive_sum.s.i32 i32 (i32)",
    ]);
    for mask in MASKS {
        let sums = bodies.lanes("air.simd_prefix_inclusive_sum.s.i32", mask, |lane| vec![gives(lane).bytes()]);
        let before = bodies.lanes("air.simd_prefix_exclusive_sum.f32", mask, |lane| vec![(gives(lane) as f32).bytes()]);
        let products =
            bodies.lanes("air.simd_prefix_inclusive_product.u.i8", mask, |lane| vec![(gives(lane) as u8).bytes()]);
        let sign = |lane: usize| half_bits(if lane.is_multiple_of(5) { -1.0 } else { 1.0 });
        let signs = bodies.lanes("air.simd_prefix_exclusive_product.f16", mask, |lane| vec![sign(lane).bytes()]);
        let quads = bodies.lanes("air.quad_prefix_exclusive_sum.s.i32", mask, |lane| vec![gives(lane).bytes()]);
        for lane in active(mask) {
            let to = || active(mask).filter(|other| *other <= lane);
            let before_it = || active(mask).filter(|other| *other < lane);
            assert_eq!(i32::read(&sums[lane]), to().map(gives).sum());
            assert_eq!(f32::read(&before[lane]), before_it().map(gives).sum::<i32>() as f32);
            assert_eq!(products[lane][0], to().fold(1u8, |product, other| product.wrapping_mul(gives(other) as u8)));
            let truth: f32 = before_it().map(|other| half_value(sign(other))).product();
            assert_eq!(half_value(u16::read(&signs[lane])), truth);
            let quad = before_it().filter(|other| other / 4 == lane / 4).map(gives).sum();
            assert_eq!(i32::read(&quads[lane]), quad);
        }
    }
}

/// Which lane each shuffle takes from; none: what the lane there gave to fill, `.1`.
fn shuffled(operation: &str, lane: usize, by: usize, size: usize) -> usize {
    let (base, own, last) = (lane / size * size, lane % size, size - 1);
    base + match operation {
        "shuffle" | "broadcast" => by & last,
        "shuffle_xor" => (own ^ by) & last,
        "shuffle_rotate_down" => (own + by) % size,
        "shuffle_rotate_up" => (own + size * 4 - by) % size,
        "shuffle_down" => {
            if own + by > last {
                own
            } else {
                own + by
            }
        }
        "shuffle_up" => {
            if by > own {
                own
            } else {
                own - by
            }
        }
        _ => unreachable!("{operation}"),
    }
}

#[test]
fn shuffles_take_what_another_lane_gave() {
    let operations = [
        "shuffle",
        "broadcast",
        "shuffle_xor",
        "shuffle_rotate_down",
        "shuffle_rotate_up",
        "shuffle_down",
        "shuffle_up",
    ];
    let mut lines = Vec::new();
    for operation in operations {
        for group in ["simd", "quad"] {
            lines.push(format!("air.{group}_{operation}.f32 float (float, i16)"));
            lines.push(format!("air.{group}_{operation}.u.v2i32 <2 x i32> (<2 x i32>, i16)"));
            lines.push(format!("air.{group}_{operation}.s.i8 i8 (i8, i16)"));
        }
    }
    let bodies = Bodies::new(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    for mask in MASKS {
        for operation in operations {
            for (group, size) in [("simd", 32), ("quad", 4)] {
                for by in [0usize, 1, 2, 3, 8, 16, 31].into_iter().filter(|by| *by < size) {
                    let by_bytes = (by as u16).bytes();
                    let float = |lane: usize| (lane as f32 + 0.25).bytes();
                    let name = format!("air.{group}_{operation}");
                    let floats = bodies.lanes(&format!("{name}.f32"), mask, |lane| vec![float(lane), by_bytes.clone()]);
                    let pair = |lane: usize| [lane as u32, !(lane as u32)].map(u32::bytes).concat();
                    let pairs =
                        bodies.lanes(&format!("{name}.u.v2i32"), mask, |lane| vec![pair(lane), by_bytes.clone()]);
                    let bytes = bodies
                        .lanes(&format!("{name}.s.i8"), mask, |lane| vec![vec![lane as u8 | 0x80], by_bytes.clone()]);
                    for lane in active(mask) {
                        let from = shuffled(operation, lane, by, size);
                        let alive = mask >> from & 1 != 0;
                        let what = format!("{name} by {by} on lane {lane} of {mask:x}");
                        assert_eq!(f32::read(&floats[lane]), if alive { from as f32 + 0.25 } else { 0.0 }, "{what}");
                        assert_eq!(pairs[lane][..8], if alive { pair(from) } else { vec![0; 8] }, "{what}");
                        assert_eq!(bytes[lane][0], if alive { from as u8 | 0x80 } else { 0 }, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn shuffles_that_fill_take_from_the_other_end_of_the_vector() {
    let bodies = Bodies::new(&[
        "air.simd_shuffle_and_fill_up.f16 half (half, half, i16, i16)",
        "air.simd_shuffle_and_fill_down.u.v2i32 <2 x i32> (<2 x i32>, <2 x i32>, i16, i16)",
    ]);
    for modulo in [8usize, 16, 32] {
        for by in [0, 1, 3, modulo - 1, modulo] {
            let tail = [(by as u16).bytes(), (modulo as u16).bytes()];
            let half = |lane: usize| [half_bits(lane as f32).bytes(), half_bits(100.0 + lane as f32).bytes()].to_vec();
            let up =
                bodies.lanes("air.simd_shuffle_and_fill_up.f16", u32::MAX, |lane| [half(lane), tail.to_vec()].concat());
            let pair = |lane: u32| [lane, lane * 2].map(u32::bytes).concat();
            let down = bodies.lanes("air.simd_shuffle_and_fill_down.u.v2i32", u32::MAX, |lane| {
                [vec![pair(lane as u32), pair(100 + lane as u32)], tail.to_vec()].concat()
            });
            for lane in 0..32 {
                let (base, own) = (lane / modulo * modulo, lane % modulo);
                let truth = if own >= by { base + own - by } else { 100 + base + own + modulo - by };
                assert_eq!(half_value(u16::read(&up[lane])), truth as f32, "up by {by} of {modulo}, lane {lane}");
                let truth = if own + by < modulo { base + own + by } else { 100 + base + own + by - modulo };
                let truth = truth as u32;
                let pair = [truth, truth * 2];
                let got = [u32::read(&down[lane]), u32::read(&down[lane][4..])];
                assert_eq!(got, pair, "down by {by} of {modulo}, lane {lane}");
            }
        }
    }
}

#[test]
fn votes_and_who_is_active() {
    let bodies = Bodies::new(&[
        "air.simd_any i1 (i1)",
        "air.simd_all i1 (i1)",
        "air.simd_ballot.i64 i64 (i1)",
        "air.quad_ballot i16 (i1)",
        "air.quad_all i1 (i1)",
        "air.simd_active_threads_mask.i64 i64 ()",
        "air.quad_active_threads_mask i16 ()",
        "air.simd_is_first i1 ()",
        "air.quad_is_first i1 ()",
        "air.simd_is_helper_thread i1 ()",
        "air.simd_broadcast_first.f32 float (float)",
        "air.quad_broadcast_first.s.i32 i32 (i32)",
        "air.simd_vote_all.i64 i1 (i64)",
        "air.simd_vote_any.i64 i1 (i64)",
        "air.quad_vote_all i1 (i16)",
    ]);
    for mask in MASKS {
        for truths in [0u32, u32::MAX, 0x0f0f_1111, 0x8000_0001] {
            let vote = |lane: usize| vec![(truths >> lane & 1 != 0).bytes()];
            let of = |name: &str| bodies.lanes(name, mask, vote);
            let (any, all, ballot) = (of("air.simd_any"), of("air.simd_all"), of("air.simd_ballot.i64"));
            let (quad, quad_all) = (of("air.quad_ballot"), of("air.quad_all"));
            for lane in active(mask) {
                assert_eq!(bool::read(&any[lane]), truths & mask != 0);
                assert_eq!(bool::read(&all[lane]), truths & mask == mask);
                assert_eq!(u64::read(&ballot[lane]), u64::from(truths & mask));
                let base = lane / 4 * 4;
                let (quad_set, quad_mask) = ((truths & mask) >> base & 15, mask >> base & 15);
                assert_eq!(u32::from(u16::read(&quad[lane])), quad_set);
                assert_eq!(bool::read(&quad_all[lane]), quad_set == quad_mask);
            }
            let given = |_| vec![u64::from(truths).bytes()];
            let all = bodies.lanes("air.simd_vote_all.i64", mask, given);
            let any = bodies.lanes("air.simd_vote_any.i64", mask, given);
            let in_quad =
                bodies.lanes("air.quad_vote_all", mask, |lane| vec![((truths >> (lane / 4 * 4) & 15) as u16).bytes()]);
            for lane in active(mask) {
                assert_eq!(bool::read(&all[lane]), truths & mask == mask);
                assert_eq!(bool::read(&any[lane]), truths & mask != 0);
                let (base, set) = (lane / 4 * 4, truths & mask);
                assert_eq!(bool::read(&in_quad[lane]), set >> base & 15 == mask >> base & 15);
            }
        }
        let of = |name: &str| bodies.lanes(name, mask, |_| vec![]);
        let (everyone, quads) = (of("air.simd_active_threads_mask.i64"), of("air.quad_active_threads_mask"));
        let (first, quad_first) = (of("air.simd_is_first"), of("air.quad_is_first"));
        let helper = of("air.simd_is_helper_thread");
        let floats = bodies.lanes("air.simd_broadcast_first.f32", mask, |lane| vec![(lane as f32).bytes()]);
        let integers = bodies.lanes("air.quad_broadcast_first.s.i32", mask, |lane| vec![(lane as i32).bytes()]);
        let lowest = active(mask).next().unwrap();
        for lane in active(mask) {
            let in_quad = active(mask).find(|other| other / 4 == lane / 4).unwrap();
            assert_eq!(u64::read(&everyone[lane]), u64::from(mask));
            assert_eq!(u32::from(u16::read(&quads[lane])), mask >> (lane / 4 * 4) & 15);
            assert_eq!(bool::read(&first[lane]), lane == lowest);
            assert_eq!(bool::read(&quad_first[lane]), lane == in_quad);
            assert!(!bool::read(&helper[lane]));
            assert_eq!(f32::read(&floats[lane]), lowest as f32);
            assert_eq!(i32::read(&integers[lane]), in_quad as i32);
        }
    }
}

#[test]
fn barriers_meet() {
    let bodies = Bodies::new(&["air.wg.barrier void (i32, i32)", "air.simdgroup.barrier void (i32, i32)"]);
    let before = meetings();
    bodies.call("air.wg.barrier", &[2u32.bytes(), 1u32.bytes()]);
    assert_eq!(meetings(), before + 1);
    bodies.lanes("air.simdgroup.barrier", u32::MAX, |_| vec![2u32.bytes(), 4u32.bytes()]);
}

/// The row and the first column of a lane, as Metal's library of matrices for Apple's GPUs places them.
fn place(lane: usize) -> (usize, usize) {
    let quad = lane / 4;
    ((quad & 4) + lane / 2 % 4, (quad & 2) * 2 + lane % 2 * 2)
}

#[test]
fn matrices_are_read_and_written_in_every_form() {
    let bodies = Bodies::new(&[
        "air.simdgroup_matrix_8x8_load.v64f32.p1f32 <64 x float> (ptr addrspace(1), i64, <2 x i64>, i1)",
        "air.simdgroup_matrix_8x8_load.v64f16.p3f16 <64 x half> (ptr addrspace(3), <2 x i64>, <2 x i64>, <2 x i64>)",
        "air.simdgroup_matrix_8x8_store.v64f32.p1f32 void (<64 x float>, ptr addrspace(1), i64, <2 x i64>, i1)",
        "air.simdgroup_matrix_8x8_init_filled.v64f32.f32 <64 x float> (float)",
        "air.simdgroup_matrix_8x8_init_diag.v64f16.f16 <64 x half> (half)",
    ]);
    let memory: Vec<f32> = (0..1024).map(|at| at as f32).collect();
    let halves: Vec<u16> = memory.iter().map(|x| half_bits(*x)).collect();
    let origin = [3u64, 2].map(u64::bytes).concat();
    for transposed in [false, true] {
        let at = (memory.as_ptr() as u64).bytes();
        let answers = bodies.lanes("air.simdgroup_matrix_8x8_load.v64f32.p1f32", u32::MAX, |_| {
            vec![at.clone(), 20u64.bytes(), origin.clone(), transposed.bytes()]
        });
        let halves_at = (halves.as_ptr() as u64).bytes();
        let (along, down) = if transposed { (20u64, 1) } else { (1, 20) };
        let half_answers = bodies.lanes("air.simdgroup_matrix_8x8_load.v64f16.p3f16", u32::MAX, |_| {
            let pair = |pair: [u64; 2]| pair.map(u64::bytes).concat();
            vec![halves_at.clone(), pair([20, 8]), pair([along, down]), pair([0, 0])]
        });
        let mut written = vec![0f32; 1024];
        let target = (written.as_mut_ptr() as u64).bytes();
        bodies.lanes("air.simdgroup_matrix_8x8_store.v64f32.p1f32", u32::MAX, |lane| {
            vec![answers[lane].to_vec(), target.clone(), 20u64.bytes(), origin.clone(), transposed.bytes()]
        });
        for (at, value) in written.iter().enumerate() {
            let inside = (3..11).contains(&(at % 20)) && (2..10).contains(&(at / 20));
            assert_eq!(*value, if inside { at as f32 } else { 0.0 }, "{transposed} {at}");
        }
        for lane in 0..32 {
            let (row, column) = place(lane);
            for index in 0..2 {
                let (x, y) = if transposed { (row, column + index) } else { (column + index, row) };
                assert_eq!(
                    f32::read(&answers[lane][index * 4..]),
                    ((y + 2) * 20 + x + 3) as f32,
                    "{transposed} {lane}"
                );
                let half = half_value(u16::read(&half_answers[lane][index * 2..]));
                assert_eq!(half, half_value(halves[y * 20 + x]), "{transposed} {lane}");
            }
        }
    }
    let filled = bodies.lanes("air.simdgroup_matrix_8x8_init_filled.v64f32.f32", u32::MAX, |_| vec![2.5f32.bytes()]);
    let diagonal =
        bodies.lanes("air.simdgroup_matrix_8x8_init_diag.v64f16.f16", u32::MAX, |_| vec![half_bits(3.0).bytes()]);
    for lane in 0..32 {
        let (row, column) = place(lane);
        for index in 0..2 {
            assert_eq!(f32::read(&filled[lane][index * 4..]), 2.5);
            let truth = if row == column + index { 3.0 } else { 0.0 };
            assert_eq!(half_value(u16::read(&diagonal[lane][index * 2..])), truth, "lane {lane}");
        }
    }
}

#[test]
fn matrices_multiply_and_add_in_float() {
    let lines = [
        "air.simdgroup_matrix_8x8_multiply_accumulate.v64f32.v64f32.v64f32.v64f32 \
         <64 x float> (<64 x float>, <64 x float>, <64 x float>)",
        "air.simdgroup_matrix_8x8_multiply_accumulate.v64f32.v64f32.v64f16.v64f32 \
         <64 x float> (<64 x float>, <64 x half>, <64 x float>)",
        "air.simdgroup_matrix_8x8_multiply_accumulate.v64f16.v64f16.v64f16.v64f16 \
         <64 x half> (<64 x half>, <64 x half>, <64 x half>)",
        "air.simdgroup_matrix_8x8_multiply_accumulate.v64f32.v64bf16.v64bf16.v64f32 \
         <64 x float> (<64 x bfloat>, <64 x bfloat>, <64 x float>)",
    ];
    let bodies = Bodies::new(&lines);
    let value = |which: usize, row: usize, column: usize| ((row * 31 + column * 17 + which * 11) % 19) as f32 - 9.0;
    for line in lines {
        let name = line.split(' ').next().unwrap();
        let types: Vec<&str> = name.split('.').skip(2).collect();
        let encode = |ty: &str, x: f32| match ty {
            "v64f32" => x.bytes(),
            "v64f16" => half_bits(x).bytes(),
            _ => crate::prelude::host::bfloat_bits(x).bytes(),
        };
        let answers = bodies.lanes(name, u32::MAX, |lane| {
            let (row, column) = place(lane);
            let give =
                |which: usize| [0, 1].map(|index| encode(types[which + 1], value(which, row, column + index))).concat();
            (0..3).map(give).collect()
        });
        for (lane, answer) in answers.iter().enumerate() {
            let (row, column) = place(lane);
            for index in 0..2 {
                let product: f32 = (0..8).map(|k| value(0, row, k) * value(1, k, column + index)).sum();
                let truth = encode(types[0], product + value(2, row, column + index));
                assert_eq!(answer[index * truth.len()..][..truth.len()], truth, "{name} lane {lane} {index}");
            }
        }
    }
}
