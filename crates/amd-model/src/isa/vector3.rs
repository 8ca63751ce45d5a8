//! The vector instructions that VOP3 alone has: three sources, 64 bits, and scalar destinations.

use super::LANES;
use super::divide;
use super::float::{self, Mode, narrow};
use super::inst::{Extra, Inst, Row, Shape, row, shape, with};
use super::vector::{V11, carry, difference, maximum, minimum, signed24, sum};
use super::wave::Wave;

pub(super) const V111: Shape = shape(1, [1, 1, 1]);
const V12: Shape = shape(2, [1, 2, 0]);
const V22: Shape = shape(2, [2, 2, 0]);
const V222: Shape = shape(2, [2, 2, 2]);
const CARRY: Shape = with(1, [1, 1, 0], Extra::CarryOut);
const SCALED: Shape = with(1, [1, 1, 1], Extra::CarryOut);
const WIDE: Shape = with(2, [1, 1, 2], Extra::CarryOut);

/// Opcodes from 512.
pub(super) static VOP3: &[Row] = &[
    row(521, "v_fma_dx9_zero_f32", V111, |w, i| {
        w.float3(i, |m, a, b, c| if a == 0.0 || b == 0.0 { c } else { float::fma(m, a, b, c) });
    }),
    row(522, "v_mad_i32_i24", V111, |w, i| {
        w.bits3(i, |a, b, c| (signed24(a).wrapping_mul(signed24(b)) as u32).wrapping_add(c));
    }),
    row(523, "v_mad_u32_u24", V111, |w, i| {
        w.bits3(i, |a, b, c| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c));
    }),
    row(528, "v_bfe_u32", V111, |w, i| w.bits3(i, |a, b, c| a >> (b & 31) & ((1 << (c & 31)) - 1))),
    row(529, "v_bfe_i32", V111, |w, i| {
        w.bits3(i, |a, b, c| match c & 31 {
            0 => 0,
            // A field that ends past the value ends with its sign.
            width => ((((a as i32 >> (b & 31)) as u32) << (32 - width)) as i32 >> (32 - width)) as u32,
        });
    }),
    row(530, "v_bfi_b32", V111, |w, i| w.bits3(i, |a, b, c| a & b | !a & c)),
    row(531, "v_fma_f32", V111, |w, i| w.float3(i, float::fma)),
    row(532, "v_fma_f64", V222, |w, i| double3(w, i, f64::mul_add)),
    row(533, "v_lerp_u8", V111, |w, i| {
        w.bits3(i, |a, b, c| bytes(|n| (((a >> n & 0xff) + (b >> n & 0xff) + (c >> n & 1)) / 2) << n).sum());
    }),
    row(534, "v_alignbit_b32", V111, |w, i| w.bits3(i, |a, b, c| (joined(a, b) >> (c & 31)) as u32)),
    row(535, "v_alignbyte_b32", V111, |w, i| w.bits3(i, |a, b, c| (joined(a, b) >> (8 * (c & 3))) as u32)),
    row(537, "v_min3_f32", V111, |w, i| w.float3(i, |m, a, b, c| minimum(m, minimum(m, a, b), c))),
    row(538, "v_min3_i32", V111, |w, i| w.bits3(i, |a, b, c| (a as i32).min(b as i32).min(c as i32) as u32)),
    row(539, "v_min3_u32", V111, |w, i| w.bits3(i, |a, b, c| a.min(b).min(c))),
    row(540, "v_max3_f32", V111, |w, i| w.float3(i, |m, a, b, c| maximum(m, maximum(m, a, b), c))),
    row(541, "v_max3_i32", V111, |w, i| w.bits3(i, |a, b, c| (a as i32).max(b as i32).max(c as i32) as u32)),
    row(542, "v_max3_u32", V111, |w, i| w.bits3(i, |a, b, c| a.max(b).max(c))),
    row(543, "v_med3_f32", V111, |w, i| {
        w.float3(i, |m, a, b, c| {
            if a.is_nan() || b.is_nan() || c.is_nan() {
                minimum(m, minimum(m, a, b), c)
            } else {
                maximum(m, minimum(m, a, b), minimum(m, maximum(m, a, b), c))
            }
        });
    }),
    row(544, "v_med3_i32", V111, |w, i| {
        w.bits3(i, |a, b, c| {
            let (a, b, c) = (a as i32, b as i32, c as i32);
            a.min(b).max(a.max(b).min(c)) as u32
        });
    }),
    row(545, "v_med3_u32", V111, |w, i| w.bits3(i, |a, b, c| a.min(b).max(a.max(b).min(c)))),
    row(546, "v_sad_u8", V111, |w, i| {
        w.bits3(i, |a, b, c| bytes(|n| (a >> n & 0xff).abs_diff(b >> n & 0xff)).sum::<u32>().wrapping_add(c));
    }),
    row(549, "v_sad_u32", V111, |w, i| w.bits3(i, |a, b, c| a.abs_diff(b).wrapping_add(c))),
    row(551, "v_div_fixup_f32", V111, |w, i| w.float3(i, |_, a, b, c| divide::fixup(a, b, c))),
    row(552, "v_div_fixup_f64", V222, |w, i| double3(w, i, divide::fixup64)),
    row(567, "v_div_fmas_f32", V111, divide::fused),
    row(568, "v_div_fmas_f64", V222, divide::fused64),
    row(576, "v_xor3_b32", V111, |w, i| w.bits3(i, |a, b, c| a ^ b ^ c)),
    row(577, "v_mad_u16", V111, |w, i| halves3(w, i, |a, b, c| a.wrapping_mul(b).wrapping_add(c))),
    row(584, "v_fma_f16", V111, |w, i| half_floats3(w, i, |_, a, b, c| float::fma_of_halves(a, b, c))),
    row(585, "v_min3_f16", V111, |w, i| half_floats3(w, i, |m, a, b, c| minimum(m, minimum(m, a, b), c).into())),
    row(586, "v_min3_i16", V111, |w, i| halves3(w, i, |a, b, c| (a as i16).min(b as i16).min(c as i16) as u16)),
    row(587, "v_min3_u16", V111, |w, i| halves3(w, i, |a, b, c| a.min(b).min(c))),
    row(588, "v_max3_f16", V111, |w, i| half_floats3(w, i, |m, a, b, c| maximum(m, maximum(m, a, b), c).into())),
    row(589, "v_max3_i16", V111, |w, i| halves3(w, i, |a, b, c| (a as i16).max(b as i16).max(c as i16) as u16)),
    row(590, "v_max3_u16", V111, |w, i| halves3(w, i, |a, b, c| a.max(b).max(c))),
    row(580, "v_perm_b32", V111, |w, i| w.bits3(i, permute)),
    row(581, "v_xad_u32", V111, |w, i| w.bits3(i, |a, b, c| (a ^ b).wrapping_add(c))),
    row(582, "v_lshl_add_u32", V111, |w, i| w.bits3(i, |a, b, c| (a << (b & 31)).wrapping_add(c))),
    row(583, "v_add_lshl_u32", V111, |w, i| w.bits3(i, |a, b, c| a.wrapping_add(b) << (c & 31))),
    row(596, "v_div_fixup_f16", V111, |w, i| half_floats3(w, i, |_, a, b, c| divide::fixup(a, b, c).into())),
    row(597, "v_add3_u32", V111, |w, i| w.bits3(i, |a, b, c| a.wrapping_add(b).wrapping_add(c))),
    row(598, "v_lshl_or_b32", V111, |w, i| w.bits3(i, |a, b, c| a << (b & 31) | c)),
    row(599, "v_and_or_b32", V111, |w, i| w.bits3(i, |a, b, c| a & b | c)),
    row(600, "v_or3_b32", V111, |w, i| w.bits3(i, |a, b, c| a | b | c)),
    row(601, "v_mad_u32_u16", V111, |w, i| {
        w.bits3(i, |a, b, c| (half(i, 0, a) * half(i, 1, b)).wrapping_add(c));
    }),
    row(602, "v_mad_i32_i16", V111, |w, i| {
        w.bits3(i, |a, b, c| {
            let product = i32::from(half(i, 0, a) as i16) * i32::from(half(i, 1, b) as i16);
            (product as u32).wrapping_add(c)
        });
    }),
    row(606, "v_maxmin_f32", V111, |w, i| w.float3(i, |m, a, b, c| minimum(m, maximum(m, a, b), c))),
    row(607, "v_minmax_f32", V111, |w, i| w.float3(i, |m, a, b, c| maximum(m, minimum(m, a, b), c))),
    row(610, "v_maxmin_u32", V111, |w, i| w.bits3(i, |a, b, c| a.max(b).min(c))),
    row(611, "v_minmax_u32", V111, |w, i| w.bits3(i, |a, b, c| a.min(b).max(c))),
    row(612, "v_maxmin_i32", V111, |w, i| w.bits3(i, |a, b, c| (a as i32).max(b as i32).min(c as i32) as u32)),
    row(613, "v_minmax_i32", V111, |w, i| w.bits3(i, |a, b, c| (a as i32).min(b as i32).max(c as i32) as u32)),
    row(764, "v_div_scale_f32", SCALED, divide::scale),
    row(765, "v_div_scale_f64", with(2, [2, 2, 2], Extra::CarryOut), divide::scale64),
    row(766, "v_mad_u64_u32", WIDE, |w, i| {
        multiply_add(w, i, |a, b, c| (u64::from(a) * u64::from(b)).overflowing_add(c))
    }),
    row(767, "v_mad_i64_i32", WIDE, |w, i| {
        multiply_add(w, i, |a, b, c| {
            let (value, over) = (i64::from(a as i32) * i64::from(b as i32)).overflowing_add(c as i64);
            (value as u64, over)
        })
    }),
    row(768, "v_add_co_u32", CARRY, |w, i| carry(w, i, false, sum)),
    row(769, "v_sub_co_u32", CARRY, |w, i| carry(w, i, false, difference)),
    row(770, "v_subrev_co_u32", CARRY, |w, i| carry(w, i, false, |a, b, c| difference(b, a, c))),
    row(771, "v_add_nc_u16", V11, |w, i| halves2(w, i, u16::wrapping_add)),
    row(772, "v_sub_nc_u16", V11, |w, i| halves2(w, i, u16::wrapping_sub)),
    row(773, "v_mul_lo_u16", V11, |w, i| halves2(w, i, u16::wrapping_mul)),
    row(777, "v_max_u16", V11, |w, i| halves2(w, i, u16::max)),
    row(778, "v_max_i16", V11, |w, i| halves2(w, i, |a, b| (a as i16).max(b as i16) as u16)),
    row(779, "v_min_u16", V11, |w, i| halves2(w, i, u16::min)),
    row(780, "v_min_i16", V11, |w, i| halves2(w, i, |a, b| (a as i16).min(b as i16) as u16)),
    row(781, "v_add_nc_i16", V11, |w, i| halves2(w, i, u16::wrapping_add)),
    row(782, "v_sub_nc_i16", V11, |w, i| halves2(w, i, u16::wrapping_sub)),
    row(785, "v_pack_b32_f16", V11, |w, i| {
        let (a, b) = (w.half_float(i, 0), w.half_float(i, 1));
        let half = |x: f32| u32::from(float::half(float::Round::Even, f64::from(x)));
        w.write(usize::from(i.dst), &std::array::from_fn(|lane| half(a[lane]) | half(b[lane]) << 16));
    }),
    row(796, "v_ldexp_f32", V11, |w, i| {
        let (mode, a, b) = (w.mode, w.float(i, 0), w.source(i, 1));
        // Past these bounds every f32 has gone to infinity or below the least.
        let scaled = |a: f32, b: u32| f64::from(a) * 2f64.powi((b as i32).clamp(-400, 400));
        w.write_float(i, std::array::from_fn(|lane| narrow(mode.round32(), scaled(a[lane], b[lane]), 0.0)));
    }),
    row(797, "v_bfm_b32", V11, |w, i| w.bits2(i, |a, b| ((1 << (a & 31)) - 1) << (b & 31))),
    row(798, "v_bcnt_u32_b32", V11, |w, i| w.bits2(i, |a, b| a.count_ones().wrapping_add(b))),
    row(799, "v_mbcnt_lo_u32_b32", V11, |w, i| {
        let (a, b) = (w.source(i, 0), w.source(i, 1));
        let below = |lane: usize| (a[lane] & ((1 << lane) - 1)).count_ones();
        w.write(usize::from(i.dst), &std::array::from_fn(|lane| below(lane).wrapping_add(b[lane])));
    }),
    // Counts among lanes from 32 on, of which there are none.
    row(800, "v_mbcnt_hi_u32_b32", V11, |w, i| w.bits2(i, |_, b| b)),
    row(805, "v_sub_nc_i32", V11, |w, i| {
        w.bits2(i, |a, b| if i.clamp { (a as i32).saturating_sub(b as i32) as u32 } else { a.wrapping_sub(b) })
    }),
    row(806, "v_add_nc_i32", V11, |w, i| {
        w.bits2(i, |a, b| if i.clamp { (a as i32).saturating_add(b as i32) as u32 } else { a.wrapping_add(b) })
    }),
    row(807, "v_add_f64", V22, |w, i| double2(w, i, |a, b| a + b)),
    row(808, "v_mul_f64", V22, |w, i| double2(w, i, |a, b| a * b)),
    row(809, "v_min_f64", V22, |w, i| double2(w, i, f64::min)),
    row(810, "v_max_f64", V22, |w, i| double2(w, i, f64::max)),
    row(811, "v_ldexp_f64", shape(2, [2, 1, 0]), |w, i| {
        let (a, b) = (w.double(i, 0), w.source(i, 1));
        w.write64(usize::from(i.dst), &std::array::from_fn(|lane| divide::scaled64(a[lane], b[lane] as i32).to_bits()));
    }),
    row(812, "v_mul_lo_u32", V11, |w, i| w.bits2(i, u32::wrapping_mul)),
    row(813, "v_mul_hi_u32", V11, |w, i| w.bits2(i, |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32)),
    row(814, "v_mul_hi_i32", V11, |w, i| {
        w.bits2(i, |a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32);
    }),
    row(828, "v_lshlrev_b64", V12, |w, i| shift(w, i, |a, b| b << (a & 63))),
    row(829, "v_lshrrev_b64", V12, |w, i| shift(w, i, |a, b| b >> (a & 63))),
    row(830, "v_ashrrev_i64", V12, |w, i| shift(w, i, |a, b| (b as i64 >> (a & 63)) as u64)),
    row(824, "v_lshlrev_b16", V11, |w, i| halves2(w, i, |a, b| b << (a & 15))),
    row(825, "v_lshrrev_b16", V11, |w, i| halves2(w, i, |a, b| b >> (a & 15))),
    row(826, "v_ashrrev_i16", V11, |w, i| halves2(w, i, |a, b| (b as i16 >> (a & 15)) as u16)),
    row(864, "v_readlane_b32", with(1, [1, 1, 0], Extra::ScalarDst), |w, i| {
        let lane = w.scalar(i, i.src[1]) as usize % LANES;
        let value = w.source(i, 0)[lane];
        w.set_scalar(i.dst, value);
    }),
    // Writes the lane whether it runs or not.
    row(865, "v_writelane_b32", V11, |w, i| {
        let lane = w.scalar(i, i.src[1]) as usize % LANES;
        w.v[usize::from(i.dst)][lane] = w.scalar(i, i.src[0]);
    }),
    row(866, "v_and_b16", V11, |w, i| halves2(w, i, |a, b| a & b)),
    row(867, "v_or_b16", V11, |w, i| halves2(w, i, |a, b| a | b)),
    row(868, "v_xor_b16", V11, |w, i| halves2(w, i, |a, b| a ^ b)),
];

/// A result of 16 bits, to the half that the instruction names; the other half stays.
fn halves3(w: &mut Wave, i: &Inst, f: impl Fn(u16, u16, u16) -> u16) {
    let (a, b, c) = (w.half(i, 0), w.half(i, 1), w.half(i, 2));
    w.write_half(i, std::array::from_fn(|lane| f(a[lane], b[lane], c[lane])));
}

/// A result of 16 bits from two sources.
fn halves2(w: &mut Wave, i: &Inst, f: impl Fn(u16, u16) -> u16) {
    let (a, b) = (w.half(i, 0), w.half(i, 1));
    w.write_half(i, std::array::from_fn(|lane| f(a[lane], b[lane])));
}

/// A result of f16 from three, which are f32 that hold them.
fn half_floats3(w: &mut Wave, i: &Inst, f: impl Fn(Mode, f32, f32, f32) -> f64) {
    let (mode, a, b, c) = (w.mode, w.half_float(i, 0), w.half_float(i, 1), w.half_float(i, 2));
    w.write_half_float(i, std::array::from_fn(|lane| f(mode, a[lane], b[lane], c[lane])));
}

/// What `f` makes of each byte, by its lowest bit.
fn bytes(f: impl Fn(u32) -> u32) -> impl Iterator<Item = u32> {
    [0, 8, 16, 24].into_iter().map(f)
}

fn joined(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The half of a source that the instruction takes.
fn half(i: &Inst, source: usize, a: u32) -> u32 {
    a >> (16 * (i.op_sel >> source & 1)) & 0xffff
}

/// Each byte of `c` picks a byte of `b` (0-3) or `a` (4-7), the sign of a half of them (8-11), or 0 or 0xff.
fn permute(a: u32, b: u32, c: u32) -> u32 {
    let bytes = joined(a, b);
    let pick = |select: u32| match select {
        0..=7 => (bytes >> (8 * select)) as u32 & 0xff,
        8..=11 => ((bytes >> (16 * (select - 8) + 15)) as u32 & 1) * 0xff,
        12 => 0,
        _ => 0xff,
    };
    (0..4).fold(0, |value, byte| value | pick(c >> (8 * byte) & 0xff) << (8 * byte))
}

fn double3(w: &mut Wave, i: &Inst, f: impl Fn(f64, f64, f64) -> f64) {
    let (a, b, c) = (w.double(i, 0), w.double(i, 1), w.double(i, 2));
    w.write64(usize::from(i.dst), &std::array::from_fn(|lane| f(a[lane], b[lane], c[lane]).to_bits()));
}

fn multiply_add(w: &mut Wave, i: &Inst, f: impl Fn(u32, u32, u64) -> (u64, bool)) {
    let (a, b, c) = (w.source(i, 0), w.source(i, 1), w.source64(i, 2));
    let mut out = 0;
    let value = std::array::from_fn(|lane| {
        let (value, over) = f(a[lane], b[lane], c[lane]);
        out |= u32::from(over) << lane;
        value
    });
    w.write64(usize::from(i.dst), &value);
    w.set_mask(i.sdst, out);
}

fn shift(w: &mut Wave, i: &Inst, f: impl Fn(u32, u64) -> u64) {
    let (a, b) = (w.source(i, 0), w.source64(i, 1));
    w.write64(usize::from(i.dst), &std::array::from_fn(|lane| f(a[lane], b[lane])));
}

fn double2(w: &mut Wave, i: &Inst, f: impl Fn(f64, f64) -> f64) {
    let (a, b) = (w.double(i, 0), w.double(i, 1));
    w.write64(usize::from(i.dst), &std::array::from_fn(|lane| f(a[lane], b[lane]).to_bits()));
}
