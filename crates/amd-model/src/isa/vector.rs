//! The vector instructions of one and two sources: VOP1, VOP2, and the halves of VOPD, which are VOP2 in two opcodes a word.

use super::LANES;
use super::float::{self, Mode, narrow, quiet, signals};
use super::inst::{Extra, Inst, Row, Shape, row, shape, with};
use super::transcend;
use super::wave::{M0, VECTOR, Wave};

pub(super) const V1: Shape = shape(1, [1, 0, 0]);
pub(super) const V11: Shape = shape(1, [1, 1, 0]);
const MASKED: Shape = with(1, [1, 1, 1], Extra::CarryIn);
const CARRY: Shape = with(1, [1, 1, 1], Extra::CarryInOut);
const ACCUMULATE: Shape = with(1, [1, 1, 0], Extra::Accumulates);

/// One source.
pub(super) static VOP1: &[Row] = &[
    row(0, "v_nop", shape(0, [0; 3]), |_, _| ()),
    row(1, "v_mov_b32", V1, |w, i| w.bits1(i, |a| a)),
    row(2, "v_readfirstlane_b32", with(1, [1, 0, 0], Extra::ScalarDst), |w, i| {
        let lane = w.exec().trailing_zeros() as usize % LANES;
        let value = w.source(i, 0)[lane];
        w.set_scalar(i.dst, value);
    }),
    row(3, "v_cvt_i32_f64", shape(1, [2, 0, 0]), |w, i| double_to_bits(w, i, |a| a as i32 as u32)),
    row(4, "v_cvt_f64_i32", shape(2, [1, 0, 0]), |w, i| bits_to_double(w, i, |a| f64::from(a as i32))),
    row(5, "v_cvt_f32_i32", V1, |w, i| from_integer(w, i, |a| f64::from(a as i32))),
    row(6, "v_cvt_f32_u32", V1, |w, i| from_integer(w, i, f64::from)),
    row(7, "v_cvt_u32_f32", V1, |w, i| w.float_to_bits(i, |a| a as u32)),
    row(8, "v_cvt_i32_f32", V1, |w, i| w.float_to_bits(i, |a| a as i32 as u32)),
    row(10, "v_cvt_f16_f32", V1, |w, i| {
        let a = w.float(i, 0);
        w.write_half_float(i, a.map(f64::from));
    }),
    row(11, "v_cvt_f32_f16", V1, |w, i| {
        let value = w.half_float(i, 0);
        w.write_float(i, value);
    }),
    row(12, "v_cvt_nearest_i32_f32", V1, |w, i| w.float_to_bits(i, |a| (a + 0.5).floor() as i32 as u32)),
    row(13, "v_cvt_floor_i32_f32", V1, |w, i| w.float_to_bits(i, |a| a.floor() as i32 as u32)),
    row(15, "v_cvt_f32_f64", shape(1, [2, 0, 0]), |w, i| {
        let (mode, a) = (w.mode, w.double(i, 0));
        w.write_float(i, a.map(|a| narrow(mode.round32(), a, 0.0)));
    }),
    row(16, "v_cvt_f64_f32", shape(2, [1, 0, 0]), |w, i| {
        let a = w.float(i, 0);
        w.write64(usize::from(i.dst), &a.map(|a| f64::from(a).to_bits()));
    }),
    row(17, "v_cvt_f32_ubyte0", V1, |w, i| from_integer(w, i, |a| f64::from(a & 0xff))),
    row(18, "v_cvt_f32_ubyte1", V1, |w, i| from_integer(w, i, |a| f64::from(a >> 8 & 0xff))),
    row(19, "v_cvt_f32_ubyte2", V1, |w, i| from_integer(w, i, |a| f64::from(a >> 16 & 0xff))),
    row(20, "v_cvt_f32_ubyte3", V1, |w, i| from_integer(w, i, |a| f64::from(a >> 24))),
    row(21, "v_cvt_u32_f64", shape(1, [2, 0, 0]), |w, i| double_to_bits(w, i, |a| a as u32)),
    row(22, "v_cvt_f64_u32", shape(2, [1, 0, 0]), |w, i| bits_to_double(w, i, f64::from)),
    row(23, "v_trunc_f64", shape(2, [2, 0, 0]), |w, i| double1(w, i, f64::trunc)),
    row(24, "v_ceil_f64", shape(2, [2, 0, 0]), |w, i| double1(w, i, f64::ceil)),
    row(25, "v_rndne_f64", shape(2, [2, 0, 0]), |w, i| double1(w, i, f64::round_ties_even)),
    row(26, "v_floor_f64", shape(2, [2, 0, 0]), |w, i| double1(w, i, f64::floor)),
    row(32, "v_fract_f32", V1, |w, i| w.float1(i, |_, a| (a - a.floor()).min(1.0f32.next_down()))),
    row(33, "v_trunc_f32", V1, |w, i| w.float1(i, |_, a| a.trunc())),
    row(34, "v_ceil_f32", V1, |w, i| w.float1(i, |_, a| a.ceil())),
    row(35, "v_rndne_f32", V1, |w, i| w.float1(i, |_, a| a.round_ties_even())),
    row(36, "v_floor_f32", V1, |w, i| w.float1(i, |_, a| a.floor())),
    row(37, "v_exp_f32", V1, |w, i| w.float1(i, |_, a| transcend::exp2(a))),
    row(39, "v_log_f32", V1, |w, i| w.float1(i, |_, a| transcend::log2(a))),
    row(42, "v_rcp_f32", V1, |w, i| w.float1(i, |_, a| transcend::reciprocal(a))),
    row(43, "v_rcp_iflag_f32", V1, |w, i| w.float1(i, |_, a| transcend::reciprocal(a))),
    row(46, "v_rsq_f32", V1, |w, i| w.float1(i, |_, a| transcend::reciprocal_root(a))),
    row(47, "v_rcp_f64", shape(2, [2, 0, 0]), |w, i| double1(w, i, |a| 1.0 / a)),
    row(49, "v_rsq_f64", shape(2, [2, 0, 0]), |w, i| double1(w, i, |a| 1.0 / a.sqrt())),
    row(51, "v_sqrt_f32", V1, |w, i| w.float1(i, |_, a| transcend::root(a))),
    row(52, "v_sqrt_f64", shape(2, [2, 0, 0]), |w, i| double1(w, i, f64::sqrt)),
    row(53, "v_sin_f32", V1, |w, i| w.float1(i, |_, a| transcend::sine(a))),
    row(54, "v_cos_f32", V1, |w, i| w.float1(i, |_, a| transcend::cosine(a))),
    row(55, "v_not_b32", V1, |w, i| w.bits1(i, |a| !a)),
    row(56, "v_bfrev_b32", V1, |w, i| w.bits1(i, u32::reverse_bits)),
    row(57, "v_clz_i32_u32", V1, |w, i| w.bits1(i, |a| if a == 0 { u32::MAX } else { a.leading_zeros() })),
    row(58, "v_ctz_i32_b32", V1, |w, i| w.bits1(i, |a| if a == 0 { u32::MAX } else { a.trailing_zeros() })),
    row(59, "v_cls_i32", V1, |w, i| w.bits1(i, leading_signs)),
    row(60, "v_frexp_exp_i32_f64", shape(1, [2, 0, 0]), |w, i| double_to_bits(w, i, |a| split64(a).1 as u32)),
    row(61, "v_frexp_mant_f64", shape(2, [2, 0, 0]), |w, i| double1(w, i, |a| split64(a).0)),
    row(62, "v_fract_f64", shape(2, [2, 0, 0]), |w, i| double1(w, i, |a| (a - a.floor()).min(1f64.next_down()))),
    row(63, "v_frexp_exp_i32_f32", V1, |w, i| w.float_to_bits(i, |a| split(a).1 as u32)),
    row(64, "v_frexp_mant_f32", V1, |w, i| w.float1(i, |_, a| split(a).0)),
    row(67, "v_movrels_b32", V1, |w, i| {
        // The source's number and m0 name a register, which the wave has or reads as 0.
        let register = usize::from(i.src[0].saturating_sub(VECTOR)) + w.s[M0] as usize;
        let value = w.v.get(register).copied().unwrap_or([0; LANES]);
        w.write(usize::from(i.dst), &value);
    }),
    row(66, "v_movreld_b32", V1, |w, i| {
        let register = usize::from(i.dst) + w.s[M0] as usize;
        let value = w.source(i, 0);
        if register < w.v.len() {
            w.write(register, &value);
        }
    }),
    row(80, "v_cvt_f16_u16", V1, |w, i| {
        let value = w.half(i, 0).map(f64::from);
        w.write_half_float(i, value);
    }),
    row(81, "v_cvt_f16_i16", V1, |w, i| {
        let value = w.half(i, 0).map(|a| f64::from(a as i16));
        w.write_half_float(i, value);
    }),
    row(82, "v_cvt_u16_f16", V1, |w, i| {
        let value = w.half_float(i, 0).map(|a| a as u16);
        w.write_half(i, value);
    }),
    row(83, "v_cvt_i16_f16", V1, |w, i| {
        let value = w.half_float(i, 0).map(|a| a as i16 as u16);
        w.write_half(i, value);
    }),
    row(84, "v_rcp_f16", V1, |w, i| half_float1(w, i, |a| 1.0 / a)),
    row(85, "v_sqrt_f16", V1, |w, i| half_float1(w, i, f64::sqrt)),
    row(86, "v_rsq_f16", V1, |w, i| half_float1(w, i, |a| 1.0 / a.sqrt())),
    row(87, "v_log_f16", V1, |w, i| half_float1(w, i, f64::log2)),
    row(88, "v_exp_f16", V1, |w, i| half_float1(w, i, f64::exp2)),
    row(91, "v_floor_f16", V1, |w, i| half_float1(w, i, f64::floor)),
    row(92, "v_ceil_f16", V1, |w, i| half_float1(w, i, f64::ceil)),
    row(93, "v_trunc_f16", V1, |w, i| half_float1(w, i, f64::trunc)),
    row(94, "v_rndne_f16", V1, |w, i| half_float1(w, i, f64::round_ties_even)),
    row(101, "v_swap_b32", V1, |w, i| {
        let (a, b) = (w.source(i, 0), w.v[usize::from(i.dst)]);
        w.write(usize::from(i.dst), &a);
        w.write(usize::from(i.src[0] - VECTOR), &b);
    }),
    row(105, "v_not_b16", V1, |w, i| {
        let value = w.half(i, 0).map(|a| !a);
        w.write_half(i, value);
    }),
    row(106, "v_cvt_i32_i16", V1, |w, i| {
        let value = w.half(i, 0).map(|a| a as i16 as u32);
        w.write(usize::from(i.dst), &value);
    }),
    row(107, "v_cvt_u32_u16", V1, |w, i| {
        let value = w.half(i, 0).map(u32::from);
        w.write(usize::from(i.dst), &value);
    }),
];

/// Two sources.
pub(super) static VOP2: &[Row] =
    &[
        row(1, "v_cndmask_b32", MASKED, select),
        row(3, "v_add_f32", V11, |w, i| w.float2(i, float::add)),
        row(4, "v_sub_f32", V11, |w, i| w.float2(i, |m, a, b| float::add(m, a, -b))),
        row(5, "v_subrev_f32", V11, |w, i| w.float2(i, |m, a, b| float::add(m, b, -a))),
        row(6, "v_fmac_dx9_zero_f32", ACCUMULATE, |w, i| {
            w.float3(i, |m, a, b, c| if a == 0.0 || b == 0.0 { c } else { float::fma(m, a, b, c) });
        }),
        row(7, "v_mul_dx9_zero_f32", V11, |w, i| {
            w.float2(i, |m, a, b| if a == 0.0 || b == 0.0 { 0.0 } else { float::mul(m, a, b) });
        }),
        row(8, "v_mul_f32", V11, |w, i| w.float2(i, float::mul)),
        row(9, "v_mul_i32_i24", V11, |w, i| w.bits2(i, |a, b| signed24(a).wrapping_mul(signed24(b)) as u32)),
        row(10, "v_mul_hi_i32_i24", V11, |w, i| {
            w.bits2(i, |a, b| ((i64::from(signed24(a)) * i64::from(signed24(b))) >> 32) as u32);
        }),
        row(11, "v_mul_u32_u24", V11, |w, i| w.bits2(i, |a, b| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff))),
        row(12, "v_mul_hi_u32_u24", V11, |w, i| {
            w.bits2(i, |a, b| ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 32) as u32);
        }),
        row(15, "v_min_f32", V11, |w, i| w.float2(i, minimum)),
        row(16, "v_max_f32", V11, |w, i| w.float2(i, maximum)),
        row(17, "v_min_i32", V11, |w, i| w.bits2(i, |a, b| (a as i32).min(b as i32) as u32)),
        row(18, "v_max_i32", V11, |w, i| w.bits2(i, |a, b| (a as i32).max(b as i32) as u32)),
        row(19, "v_min_u32", V11, |w, i| w.bits2(i, u32::min)),
        row(20, "v_max_u32", V11, |w, i| w.bits2(i, u32::max)),
        row(24, "v_lshlrev_b32", V11, |w, i| w.bits2(i, |a, b| b << (a & 31))),
        row(25, "v_lshrrev_b32", V11, |w, i| w.bits2(i, |a, b| b >> (a & 31))),
        row(26, "v_ashrrev_i32", V11, |w, i| w.bits2(i, |a, b| (b as i32 >> (a & 31)) as u32)),
        row(27, "v_and_b32", V11, |w, i| w.bits2(i, |a, b| a & b)),
        row(28, "v_or_b32", V11, |w, i| w.bits2(i, |a, b| a | b)),
        row(29, "v_xor_b32", V11, |w, i| w.bits2(i, |a, b| a ^ b)),
        row(30, "v_xnor_b32", V11, |w, i| w.bits2(i, |a, b| !(a ^ b))),
        row(32, "v_add_co_ci_u32", CARRY, |w, i| {
            carry(w, i, true, sum);
        }),
        row(33, "v_sub_co_ci_u32", CARRY, |w, i| carry(w, i, true, difference)),
        row(34, "v_subrev_co_ci_u32", CARRY, |w, i| carry(w, i, true, |a, b, c| difference(b, a, c))),
        row(37, "v_add_nc_u32", V11, |w, i| {
            if i.clamp { w.bits2(i, u32::saturating_add) } else { w.bits2(i, u32::wrapping_add) }
        }),
        row(38, "v_sub_nc_u32", V11, |w, i| {
            if i.clamp { w.bits2(i, u32::saturating_sub) } else { w.bits2(i, u32::wrapping_sub) }
        }),
        row(39, "v_subrev_nc_u32", V11, |w, i| {
            if i.clamp { w.bits2(i, |a, b| b.saturating_sub(a)) } else { w.bits2(i, |a, b| b.wrapping_sub(a)) }
        }),
        row(43, "v_fmac_f32", ACCUMULATE, |w, i| w.float3(i, float::fma)),
        row(44, "v_fmamk_f32", with(1, [1, 1, 1], Extra::ConstantMiddle), |w, i| w.float3(i, float::fma)),
        row(45, "v_fmaak_f32", with(1, [1, 1, 1], Extra::ConstantLast), |w, i| w.float3(i, float::fma)),
        row(47, "v_cvt_pk_rtz_f16_f32", V11, |w, i| {
            let (a, b) = (w.float(i, 0), w.float(i, 1));
            let half = |x: f32| u32::from(float::half(float::Round::Zero, f64::from(x)));
            w.write(usize::from(i.dst), &std::array::from_fn(|lane| half(a[lane]) | half(b[lane]) << 16));
        }),
        row(50, "v_add_f16", V11, |w, i| half_floats2(w, i, |_, a, b| f64::from(a) + f64::from(b))),
        row(51, "v_sub_f16", V11, |w, i| half_floats2(w, i, |_, a, b| f64::from(a) - f64::from(b))),
        row(52, "v_subrev_f16", V11, |w, i| half_floats2(w, i, |_, a, b| f64::from(b) - f64::from(a))),
        row(53, "v_mul_f16", V11, |w, i| half_floats2(w, i, |_, a, b| f64::from(a) * f64::from(b))),
        row(54, "v_fmac_f16", ACCUMULATE, |w, i| {
            let (a, b) = (w.half_float(i, 0), w.half_float(i, 1));
            let shift = 16 * u32::from(i.op_sel >> 3 & 1);
            let c = w.v[usize::from(i.dst)].map(|bits| float::from_half((bits >> shift) as u16));
            w.write_half_float(i, std::array::from_fn(|lane| float::fma_of_halves(a[lane], b[lane], c[lane])));
        }),
        row(55, "v_fmamk_f16", with(1, [1, 1, 1], Extra::ConstantMiddle), fused_halves),
        row(56, "v_fmaak_f16", with(1, [1, 1, 1], Extra::ConstantLast), fused_halves),
        row(57, "v_max_f16", V11, |w, i| half_floats2(w, i, |m, a, b| maximum(m, a, b).into())),
        row(58, "v_min_f16", V11, |w, i| half_floats2(w, i, |m, a, b| minimum(m, a, b).into())),
    ];

/// The first instruction of VOPD, by its number there; the opcode is the one of VOP1 or VOP2 that it is.
pub(super) static DUAL: &[(u16, u16)] = &[
    (0, 43),
    (1, 45),
    (2, 44),
    (3, 8),
    (4, 3),
    (5, 4),
    (6, 5),
    (7, 7),
    (8, MOVE),
    (9, 1),
    (10, 16),
    (11, 15),
    (16, 37),
    (17, 24),
    (18, 27),
];

/// Stands in [`DUAL`] for v_mov_b32, which is of VOP1.
pub(super) const MOVE: u16 = 0x100;

/// Takes the second source in the lanes of the mask, else the first; in VOP3 with their signs changed.
fn select(w: &mut Wave, i: &Inst) {
    let mask = w.scalar(i, i.src[2]);
    let (a, b) = (w.source(i, 0), w.source(i, 1));
    let value = std::array::from_fn(|lane| {
        let (bits, source) = if mask >> lane & 1 != 0 { (b[lane], 1) } else { (a[lane], 0) };
        if i.neg | i.abs == 0 { bits } else { modified(i, source, f32::from_bits(bits)).to_bits() }
    });
    w.write(usize::from(i.dst), &value);
}

/// A source's sign, changed as the instruction says.
pub(super) fn modified(i: &Inst, source: usize, x: f32) -> f32 {
    let x = if i.abs >> source & 1 != 0 { x.abs() } else { x };
    if i.neg >> source & 1 != 0 { -x } else { x }
}

pub(super) fn sum(a: u32, b: u32, carry: u32) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

pub(super) fn difference(a: u32, b: u32, borrow: u32) -> (u32, bool) {
    let rest = i64::from(a) - i64::from(b) - i64::from(borrow);
    (rest as u32, rest < 0)
}

/// A sum or difference whose carries are masks of lanes.
pub(super) fn carry(w: &mut Wave, i: &Inst, carries_in: bool, f: impl Fn(u32, u32, u32) -> (u32, bool)) {
    let mask = if carries_in { w.scalar(i, i.src[2]) } else { 0 };
    let (a, b) = (w.source(i, 0), w.source(i, 1));
    let mut out = 0;
    let value = std::array::from_fn(|lane| {
        let (value, carry) = f(a[lane], b[lane], mask >> lane & 1);
        out |= u32::from(carry) << lane;
        value
    });
    w.write(usize::from(i.dst), &value);
    w.set_mask(i.sdst, out);
}

/// The smaller. A NaN gives way to a number; of zeros the negative one is smaller.
#[inline]
pub(super) fn minimum(mode: Mode, a: f32, b: f32) -> f32 {
    pick(mode, a, b, |a, b| a < b || (a == b && a.is_sign_negative()))
}

/// The larger, likewise.
#[inline]
pub(super) fn maximum(mode: Mode, a: f32, b: f32) -> f32 {
    pick(mode, a, b, |a, b| a > b || (a == b && a.is_sign_positive()))
}

#[inline]
fn pick(mode: Mode, a: f32, b: f32, first: impl Fn(f32, f32) -> bool) -> f32 {
    if a.is_nan() || b.is_nan() {
        return match (mode.ieee(), signals(a), signals(b)) {
            (true, true, _) => quiet(a),
            (true, _, true) => quiet(b),
            _ if a.is_nan() => b,
            _ => a,
        };
    }
    if first(a, b) { a } else { b }
}

pub(super) fn signed24(a: u32) -> i32 {
    ((a << 8) as i32) >> 8
}

fn leading_signs(a: u32) -> u32 {
    let run = (if (a as i32) < 0 { !a } else { a }).leading_zeros();
    if run == 32 { u32::MAX } else { run }
}

/// Mantissa in [0.5, 1) and exponent; zeros, infinities and NaNs stay, with exponent 0.
fn split(a: f32) -> (f32, i32) {
    if a == 0.0 || !a.is_finite() {
        return (a, 0);
    }
    let wide = f64::from(a).to_bits();
    let exponent = (wide >> 52 & 0x7ff) as i32 - 1022;
    (f64::from_bits(wide & !(0x7ff << 52) | 1022 << 52) as f32, exponent)
}

/// The same of f64.
fn split64(a: f64) -> (f64, i32) {
    if a == 0.0 || !a.is_finite() {
        return (a, 0);
    }
    let lift = if a.is_subnormal() { 64 } else { 0 };
    let wide = (a * 2f64.powi(lift)).to_bits();
    (f64::from_bits(wide & !(0x7ff << 52) | 1022 << 52), (wide >> 52 & 0x7ff) as i32 - 1022 - lift)
}

fn half_float1(w: &mut Wave, i: &Inst, f: impl Fn(f64) -> f64) {
    let value = w.half_float(i, 0).map(|a| f(f64::from(a)));
    w.write_half_float(i, value);
}

fn fused_halves(w: &mut Wave, i: &Inst) {
    let (a, b, c) = (w.half_float(i, 0), w.half_float(i, 1), w.half_float(i, 2));
    w.write_half_float(i, std::array::from_fn(|lane| float::fma_of_halves(a[lane], b[lane], c[lane])));
}

/// A result of f16 from two, which is exact in f64 before it is rounded.
fn half_floats2(w: &mut Wave, i: &Inst, f: impl Fn(Mode, f32, f32) -> f64) {
    let (mode, a, b) = (w.mode, w.half_float(i, 0), w.half_float(i, 1));
    w.write_half_float(i, std::array::from_fn(|lane| f(mode, a[lane], b[lane])));
}

fn from_integer(w: &mut Wave, i: &Inst, f: impl Fn(u32) -> f64) {
    let (mode, a) = (w.mode, w.source(i, 0));
    w.write_float(i, a.map(|a| narrow(mode.round32(), f(a), 0.0)));
}

fn double1(w: &mut Wave, i: &Inst, f: impl Fn(f64) -> f64) {
    let value = w.double(i, 0).map(|a| f(a).to_bits());
    w.write64(usize::from(i.dst), &value);
}

fn double_to_bits(w: &mut Wave, i: &Inst, f: impl Fn(f64) -> u32) {
    let value = w.double(i, 0).map(f);
    w.write(usize::from(i.dst), &value);
}

fn bits_to_double(w: &mut Wave, i: &Inst, f: impl Fn(u32) -> f64) {
    let value = w.source(i, 0).map(|a| f(a).to_bits());
    w.write64(usize::from(i.dst), &value);
}
