//! Comparisons in each lane (VOPC), to a mask of lanes (v_cmp) or to exec (v_cmpx).

use super::LANES;
use super::float::signals;
use super::inst::{Inst, Row, Shape, row, shape};
use super::vector::modified;
use super::wave::{EXEC, Wave};
use std::cmp::Ordering;

/// Takes the mask of what `f` says of both sources' values.
fn compare<T: Copy>(w: &mut Wave, i: &Inst, exec: bool, values: [[T; LANES]; 2], f: impl Fn(T, T) -> bool) {
    let [a, b] = values;
    let mask = (0..LANES).fold(0, |mask, lane| mask | u32::from(f(a[lane], b[lane])) << lane) & w.exec();
    if exec { w.s[EXEC] = mask } else { w.set_scalar(i.sdst, mask) }
}

fn f16(w: &Wave, i: &Inst) -> [[f32; LANES]; 2] {
    [w.half_float(i, 0), w.half_float(i, 1)]
}

fn f32(w: &Wave, i: &Inst) -> [[f32; LANES]; 2] {
    [w.float(i, 0), w.float(i, 1)]
}

fn f64(w: &Wave, i: &Inst) -> [[f64; LANES]; 2] {
    [w.double(i, 0), w.double(i, 1)]
}

fn u16(w: &Wave, i: &Inst) -> [[u16; LANES]; 2] {
    [0, 1].map(|n| w.source(i, n).map(|a| (a >> (16 * (i.op_sel >> n & 1))) as u16))
}

fn i16(w: &Wave, i: &Inst) -> [[i16; LANES]; 2] {
    u16(w, i).map(|side| side.map(|a| a as i16))
}

fn u32(w: &Wave, i: &Inst) -> [[u32; LANES]; 2] {
    [w.source(i, 0), w.source(i, 1)]
}

fn i32(w: &Wave, i: &Inst) -> [[i32; LANES]; 2] {
    u32(w, i).map(|side| side.map(|a| a as i32))
}

fn u64(w: &Wave, i: &Inst) -> [[u64; LANES]; 2] {
    [w.source64(i, 0), w.source64(i, 1)]
}

fn i64(w: &Wave, i: &Inst) -> [[i64; LANES]; 2] {
    u64(w, i).map(|side| side.map(|a| a as i64))
}

const C11: Shape = shape(0, [1, 1, 0]);
const C22: Shape = shape(0, [2, 2, 0]);
const C21: Shape = shape(0, [2, 1, 0]);

/// The sixteen comparisons of floats from a base.
macro_rules! floats {
    ($prefix:literal, $exec:literal, $base:expr, $type:ident, $name:literal, $shape:expr) => {
        [
            row($base, concat!($prefix, "_f_", $name), $shape, |w, i| compare(w, i, $exec, $type(w, i), |_, _| false)),
            row($base + 1, concat!($prefix, "_lt_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a < b);
            }),
            row($base + 2, concat!($prefix, "_eq_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a == b);
            }),
            row($base + 3, concat!($prefix, "_le_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a <= b);
            }),
            row($base + 4, concat!($prefix, "_gt_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a > b);
            }),
            row($base + 5, concat!($prefix, "_lg_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_ne));
            }),
            row($base + 6, concat!($prefix, "_ge_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a >= b);
            }),
            row($base + 7, concat!($prefix, "_o_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a.partial_cmp(&b).is_some());
            }),
            row($base + 8, concat!($prefix, "_u_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a.partial_cmp(&b).is_none());
            }),
            row($base + 9, concat!($prefix, "_nge_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_lt));
            }),
            row($base + 10, concat!($prefix, "_nlg_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_eq));
            }),
            row($base + 11, concat!($prefix, "_ngt_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_le));
            }),
            row($base + 12, concat!($prefix, "_nle_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_gt));
            }),
            row($base + 13, concat!($prefix, "_neq_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a != b);
            }),
            row($base + 14, concat!($prefix, "_nlt_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_ge));
            }),
            row($base + 15, concat!($prefix, "_t_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |_, _| true)
            }),
        ]
    };
}

/// The six comparisons of integers that tell values apart, from a base.
macro_rules! integers {
    ($prefix:literal, $exec:literal, $base:expr, $type:ident, $name:literal, $shape:expr) => {
        [
            row($base + 1, concat!($prefix, "_lt_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a < b);
            }),
            row($base + 2, concat!($prefix, "_eq_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a == b);
            }),
            row($base + 3, concat!($prefix, "_le_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a <= b);
            }),
            row($base + 4, concat!($prefix, "_gt_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a > b);
            }),
            row($base + 5, concat!($prefix, "_ne_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a != b);
            }),
            row($base + 6, concat!($prefix, "_ge_", $name), $shape, |w, i| {
                compare(w, i, $exec, $type(w, i), |a, b| a >= b);
            }),
        ]
    };
}

/// All of one prefix.
macro_rules! tables {
    ($prefix:literal, $exec:literal, $base:literal) => {
        [
            &floats!($prefix, $exec, $base, f16, "f16", C11),
            &floats!($prefix, $exec, $base + 16, f32, "f32", C11),
            &floats!($prefix, $exec, $base + 32, f64, "f64", C22),
            &integers!($prefix, $exec, $base + 48, i16, "i16", C11),
            &integers!($prefix, $exec, $base + 56, u16, "u16", C11),
            &integers!($prefix, $exec, $base + 64, i32, "i32", C11),
            &integers!($prefix, $exec, $base + 72, u32, "u32", C11),
            &integers!($prefix, $exec, $base + 80, i64, "i64", C22),
            &integers!($prefix, $exec, $base + 88, u64, "u64", C22),
            &[
                row($base + 126, concat!($prefix, "_class_f32"), C11, |w, i| {
                    let (a, b) = (w.source(i, 0).map(|a| modified(i, 0, f32::from_bits(a))), w.source(i, 1));
                    compare(w, i, $exec, [a.map(|a| class(a)), b], |a, b| a & b != 0);
                }),
                row($base + 127, concat!($prefix, "_class_f64"), C21, |w, i| {
                    let (a, b) = (w.double(i, 0), w.source(i, 1));
                    compare(w, i, $exec, [a.map(|a| class64(a)), b], |a, b| a & b != 0);
                }),
            ],
        ]
    };
}

/// To a mask.
pub(super) static VOPC: [&[Row]; 10] = tables!("v_cmp", false, 0);
/// To exec.
pub(super) static VOPCX: [&[Row]; 10] = tables!("v_cmpx", true, 128);

/// What a float is, as one bit of ten: NaN that signals, quiet NaN, -infinity, -normal, -denormal, -0, and the positive ones
/// the other way round.
fn class(a: f32) -> u32 {
    if a.is_nan() {
        return if signals(a) { 1 } else { 2 };
    }
    side(a.is_sign_negative(), a.is_infinite(), a.is_subnormal(), a == 0.0)
}

fn class64(a: f64) -> u32 {
    if a.is_nan() {
        return if a.to_bits() & 1 << 51 == 0 { 1 } else { 2 };
    }
    side(a.is_sign_negative(), a.is_infinite(), a.is_subnormal(), a == 0.0)
}

fn side(negative: bool, infinite: bool, denormal: bool, zero: bool) -> u32 {
    let rank = if infinite {
        0
    } else if denormal {
        2
    } else if zero {
        3
    } else {
        1
    };
    1 << if negative { 2 + rank } else { 9 - rank }
}
