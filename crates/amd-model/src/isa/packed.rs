//! VOP3P: two halves a register, and products of mixed widths.
//!
//! The low result takes of each source the half that op_sel names, and the high one the half that op_sel_hi names; signs
//! likewise. A constant is a value of 16 bits in the low half.

use super::LANES;
use super::float::{self, Mode, Round};
use super::inst::{Inst, Row, row};
use super::vector::{V11, maximum, minimum};
use super::vector3::V111;
use super::wave::{FLOATS, Wave};

/// Halves in pairs.
pub(super) static VOP3P: &[Row] = &[
    row(0, "v_pk_mad_i16", V111, |w, i| integers(w, i, |[a, b, c]| a.wrapping_mul(b).wrapping_add(c))),
    row(1, "v_pk_mul_lo_u16", V11, |w, i| integers(w, i, |[a, b, _]| a.wrapping_mul(b))),
    row(2, "v_pk_add_i16", V11, |w, i| integers(w, i, |[a, b, _]| a.wrapping_add(b))),
    row(3, "v_pk_sub_i16", V11, |w, i| integers(w, i, |[a, b, _]| a.wrapping_sub(b))),
    row(4, "v_pk_lshlrev_b16", V11, |w, i| integers(w, i, |[a, b, _]| b << (a & 15))),
    row(5, "v_pk_lshrrev_b16", V11, |w, i| integers(w, i, |[a, b, _]| b >> (a & 15))),
    row(6, "v_pk_ashrrev_i16", V11, |w, i| integers(w, i, |[a, b, _]| (b as i16 >> (a & 15)) as u16)),
    row(7, "v_pk_max_i16", V11, |w, i| integers(w, i, |[a, b, _]| (a as i16).max(b as i16) as u16)),
    row(8, "v_pk_min_i16", V11, |w, i| integers(w, i, |[a, b, _]| (a as i16).min(b as i16) as u16)),
    row(9, "v_pk_mad_u16", V111, |w, i| integers(w, i, |[a, b, c]| a.wrapping_mul(b).wrapping_add(c))),
    row(10, "v_pk_add_u16", V11, |w, i| integers(w, i, |[a, b, _]| a.wrapping_add(b))),
    row(11, "v_pk_sub_u16", V11, |w, i| integers(w, i, |[a, b, _]| a.wrapping_sub(b))),
    row(12, "v_pk_max_u16", V11, |w, i| integers(w, i, |[a, b, _]| a.max(b))),
    row(13, "v_pk_min_u16", V11, |w, i| integers(w, i, |[a, b, _]| a.min(b))),
    row(14, "v_pk_fma_f16", V111, |w, i| floats(w, i, |_, [a, b, c]| float::fma_of_halves(a, b, c))),
    row(15, "v_pk_add_f16", V11, |w, i| floats(w, i, |_, [a, b, _]| f64::from(a) + f64::from(b))),
    row(16, "v_pk_mul_f16", V11, |w, i| floats(w, i, |_, [a, b, _]| f64::from(a) * f64::from(b))),
    row(17, "v_pk_min_f16", V11, |w, i| floats(w, i, |m, [a, b, _]| minimum(m, a, b).into())),
    row(18, "v_pk_max_f16", V11, |w, i| floats(w, i, |m, [a, b, _]| maximum(m, a, b).into())),
    row(22, "v_dot4_i32_iu8", V111, |w, i| dot4(w, i, [i.neg & 1 != 0, i.neg & 2 != 0])),
    row(23, "v_dot4_u32_u8", V111, |w, i| dot4(w, i, [false; 2])),
    row(32, "v_fma_mix_f32", V111, |w, i| {
        let (mode, [a, b, c]) = (w.mode, mixed(w, i));
        w.write_float(i, std::array::from_fn(|lane| float::fma(mode, a[lane], b[lane], c[lane])));
    }),
    row(33, "v_fma_mixlo_f16", V111, |w, i| mix_to_half(w, i, 0)),
    row(34, "v_fma_mixhi_f16", V111, |w, i| mix_to_half(w, i, 8)),
];

/// The low and the high half of each source, of both results.
fn sources(w: &Wave, i: &Inst) -> [[[u16; 3]; 2]; LANES] {
    let float = i.row.name.ends_with("_f16");
    let registers: [_; 3] = std::array::from_fn(|n| match i.src[n] {
        constant @ 240..=248 if float => {
            [u32::from(float::half(Round::Even, f64::from(FLOATS[usize::from(constant) - 240]))); LANES]
        }
        _ => w.source(i, n),
    });
    std::array::from_fn(|lane| {
        [i.op_sel, i.op_sel_hi]
            .map(|select| std::array::from_fn(|n| (registers[n][lane] >> (16 * (select >> n & 1))) as u16))
    })
}

fn integers(w: &mut Wave, i: &Inst, f: impl Fn([u16; 3]) -> u16) {
    let value = sources(w, i).map(|[low, high]| u32::from(f(low)) | u32::from(f(high)) << 16);
    w.write(usize::from(i.dst), &value);
}

fn floats(w: &mut Wave, i: &Inst, f: impl Fn(Mode, [f32; 3]) -> f64) {
    let mode = w.mode;
    let value = sources(w, i).map(|halves| {
        let [low, high] = [(halves[0], i.neg), (halves[1], i.abs)].map(|(half, neg)| {
            let exact = f(mode, std::array::from_fn(|n| float::from_half(half[n] ^ u16::from(neg >> n & 1) << 15)));
            u32::from(mode.half(if i.clamp { exact.clamp(0.0, 1.0) } else { exact }))
        });
        low | high << 16
    });
    w.write(usize::from(i.dst), &value);
}

/// The sum of the products of four bytes, signed where it is said so, and of the third source.
fn dot4(w: &mut Wave, i: &Inst, signed: [bool; 2]) {
    let (a, b, c) = (w.source(i, 0), w.source(i, 1), w.source(i, 2));
    let byte = |word: u32, n: u32, signed: bool| {
        let byte = (word >> (8 * n)) as u8;
        if signed { i64::from(byte as i8) } else { i64::from(byte) }
    };
    let whole = signed[0] || signed[1];
    let value = std::array::from_fn(|lane| {
        let start = if whole { i64::from(c[lane] as i32) } else { i64::from(c[lane]) };
        let sum = (0..4).map(|n| byte(a[lane], n, signed[0]) * byte(b[lane], n, signed[1])).sum::<i64>() + start;
        let (low, high) = if whole { (i32::MIN.into(), i32::MAX.into()) } else { (0, u32::MAX.into()) };
        if i.clamp { sum.clamp(low, high) as u32 } else { sum as u32 }
    });
    w.write(usize::from(i.dst), &value);
}

/// Sources that are f16 where op_sel_hi says so, of the half that op_sel names, and else f32.
fn mixed(w: &Wave, i: &Inst) -> [[f32; LANES]; 3] {
    std::array::from_fn(|n| {
        let half = i.op_sel_hi >> n & 1 != 0;
        if half { w.half_float(i, n) } else { w.float(i, n) }
    })
}

/// The result goes to one half; the other stays.
fn mix_to_half(w: &mut Wave, i: &Inst, select: u8) {
    let [a, b, c] = mixed(w, i);
    let mut to = i.clone();
    to.op_sel = select;
    w.write_half_float(&to, std::array::from_fn(|lane| float::fma_of_halves(a[lane], b[lane], c[lane])));
}
