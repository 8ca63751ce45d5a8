//! Single instructions over edge values, against the same in plain Rust, written another way.

use crate::isa::LANES;
use crate::isa::compare::{VOPC, VOPCX};
use crate::isa::decode::decode;
use crate::isa::float::Mode;
use crate::isa::inst::{Inst, Row, Run};
use crate::isa::scalar::{SOP1, SOP2, SOPC};
use crate::isa::vector::{VOP1, VOP2};
use crate::isa::vector3::VOP3;
use crate::isa::wave::{EXEC, State, VCC, Wave};

/// The mode in which clang lets waves start: round to even, keep denormals, IEEE, NaN clamps to 0.
const USUAL: u32 = 0x3f0;

fn wave() -> Wave {
    let mut s = [0x5a5a_5a5a; 128];
    (s[EXEC], s[124]) = (u32::MAX, 0);
    Wave {
        number: 0,
        state: State::Ready,
        pc: 0,
        s,
        v: vec![[0xa5a5_a5a5; LANES]; 16],
        scc: false,
        mode: Mode(USUAL),
        exchanged: [0; LANES],
        scratch: 0,
        private: 0,
        ran: 0,
    }
}

fn run(wave: &mut Wave, inst: &Inst) {
    match inst.row.run {
        Run::Registers(run) => run(wave, inst),
        _ => panic!("{inst} does more than change registers"),
    }
}

fn words() -> Vec<u32> {
    let mut words =
        vec![0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x1_0000];
    words.extend([
        0x7f_ffff,
        0x80_0000,
        0xff_ffff,
        0x100_0000,
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        0xffff_fffe,
        u32::MAX,
    ]);
    words.extend([0x1234_5678, 0x89ab_cdef, 0x0f0f_0f0f, 0x0504_0c0d, 0x0306_080b]);
    words
}

/// The words of an instruction that VOP3 can express: v2 (or v[2:3]) from v4, v6, v8 (or pairs).
fn encoded(name: &str) -> Inst {
    let find = |rows: &[Row], add: u32| rows.iter().find(|row| row.name == name).map(|row| u32::from(row.code) + add);
    let compare = || VOPC.iter().chain(&VOPCX).find_map(|rows| find(rows, 0));
    let code = find(VOP3, 0).or_else(|| find(VOP2, 256)).or_else(|| find(VOP1, 384)).or_else(compare).unwrap();
    let to = if name.starts_with("v_cmp") { 20 } else { 2 };
    let carries = ["_co_", "v_div_scale", "v_mad_u64", "v_mad_i64"].iter().any(|part| name.contains(part));
    let words =
        [0xd400_0000 | code << 16 | to | if carries { 20 << 8 } else { 0 }, 0x104 | 0x106 << 9 | 0x108 << 18, 0];
    let mut inst = decode(words).unwrap();
    // Masks of lanes that go in stand in s22.
    if name.contains("_ci_") || name == "v_cndmask_b32" {
        inst = decode([words[0], 0x104 | 0x106 << 9 | 22 << 18, 0]).unwrap();
    }
    assert_eq!(inst.row.name, name);
    inst
}

/// Runs an instruction over many values at once and gives each lane's result of 64 bits (or of 32 and rubbish), and its bit
/// of the mask that comes out.
fn over(name: &str, mode: u32, values: &[[u64; 3]]) -> Vec<(u64, bool)> {
    let inst = encoded(name);
    let mut results = Vec::new();
    for values in values.chunks(LANES) {
        let mut wave = wave();
        wave.mode = Mode(mode);
        wave.s[22] = 0xaaaa_aaaa;
        wave.s[VCC] = 0xaaaa_aaaa;
        for (lane, values) in values.iter().enumerate() {
            for (n, value) in values.iter().enumerate() {
                wave.v[4 + 2 * n][lane] = *value as u32;
                wave.v[5 + 2 * n][lane] = (*value >> 32) as u32;
            }
        }
        run(&mut wave, &inst);
        let mask = if name.starts_with("v_cmpx") { wave.exec() } else { wave.s[20] };
        let result = |lane: usize| u64::from(wave.v[2][lane]) | u64::from(wave.v[3][lane]) << 32;
        results.extend((0..values.len()).map(|lane| (result(lane), mask >> lane & 1 != 0)));
    }
    results
}

/// All triples of words; the third goes through few, for there are many.
fn triples() -> Vec<[u64; 3]> {
    let words = words();
    let third: Vec<u32> = words.iter().step_by(7).copied().collect();
    let pairs = words.iter().flat_map(|&a| words.iter().map(move |&b| (a, b)));
    pairs.flat_map(|(a, b)| third.iter().map(move |&c| [a, b, c].map(u64::from))).collect()
}

type Three = fn(i128, i128, i128) -> i128;

/// Whole numbers of 32 bits. The reference computes in i128: u is unsigned, s is signed.
const INTEGERS: &[(&str, Three)] = &[
    ("v_add_nc_u32", |a, b, _| a + b),
    ("v_sub_nc_u32", |a, b, _| a - b),
    ("v_subrev_nc_u32", |a, b, _| b - a),
    ("v_mul_lo_u32", |a, b, _| a * b),
    ("v_mul_hi_u32", |a, b, _| (a * b) >> 32),
    ("v_mul_hi_i32", |a, b, _| (s(a) * s(b)) >> 32),
    ("v_mul_u32_u24", |a, b, _| (a % (1 << 24)) * (b % (1 << 24))),
    ("v_mul_hi_u32_u24", |a, b, _| ((a % (1 << 24)) * (b % (1 << 24))) >> 32),
    ("v_mul_i32_i24", |a, b, _| s24(a) * s24(b)),
    ("v_mul_hi_i32_i24", |a, b, _| (s24(a) * s24(b)) >> 32),
    ("v_mad_u32_u24", |a, b, c| (a % (1 << 24)) * (b % (1 << 24)) + c),
    ("v_mad_i32_i24", |a, b, c| s24(a) * s24(b) + c),
    ("v_min_i32", |a, b, _| s(a).min(s(b))),
    ("v_max_i32", |a, b, _| s(a).max(s(b))),
    ("v_min_u32", |a, b, _| a.min(b)),
    ("v_max_u32", |a, b, _| a.max(b)),
    ("v_min3_i32", |a, b, c| *[s(a), s(b), s(c)].iter().min().unwrap()),
    ("v_max3_u32", |a, b, c| *[a, b, c].iter().max().unwrap()),
    ("v_med3_i32", |a, b, c| middle([s(a), s(b), s(c)])),
    ("v_med3_u32", |a, b, c| middle([a, b, c])),
    ("v_maxmin_u32", |a, b, c| a.max(b).min(c)),
    ("v_minmax_i32", |a, b, c| s(a).min(s(b)).max(s(c))),
    ("v_lshlrev_b32", |a, b, _| b * (1 << (a % 32))),
    ("v_lshrrev_b32", |a, b, _| b / (1 << (a % 32))),
    ("v_ashrrev_i32", |a, b, _| s(b).div_euclid(1 << (a % 32))),
    ("v_and_b32", |a, b, _| bits(a, b, |a, b| a && b)),
    ("v_or_b32", |a, b, _| bits(a, b, |a, b| a || b)),
    ("v_xor_b32", |a, b, _| bits(a, b, |a, b| a != b)),
    ("v_xnor_b32", |a, b, _| bits(a, b, |a, b| a == b)),
    ("v_xor3_b32", |a, b, c| bits(bits(a, b, |a, b| a != b), c, |a, b| a != b)),
    ("v_or3_b32", |a, b, c| bits(bits(a, b, |a, b| a || b), c, |a, b| a || b)),
    ("v_and_or_b32", |a, b, c| bits(bits(a, b, |a, b| a && b), c, |a, b| a || b)),
    ("v_bfi_b32", |a, b, c| bits(a, b, |a, b| a && b) + bits(a, c, |a, c| !a && c)),
    ("v_bfe_u32", |a, b, c| a / (1 << (b % 32)) % (1 << (c % 32))),
    ("v_bfe_i32", |a, b, c| signed_field(s(a), b % 32, c % 32)),
    ("v_bfm_b32", |a, b, _| ((1 << (a % 32)) - 1) << (b % 32)),
    ("v_alignbit_b32", |a, b, c| ((a << 32) + b) / (1 << (c % 32))),
    ("v_alignbyte_b32", |a, b, c| ((a << 32) + b) / (1 << (c % 4 * 8))),
    ("v_lshl_add_u32", |a, b, c| a * (1 << (b % 32)) + c),
    ("v_add_lshl_u32", |a, b, c| (a + b) * (1 << (c % 32))),
    ("v_lshl_or_b32", |a, b, c| bits(a << (b % 32), c, |a, b| a || b)),
    ("v_add3_u32", |a, b, c| a + b + c),
    ("v_xad_u32", |a, b, c| bits(a, b, |a, b| a != b) + c),
    ("v_sad_u32", |a, b, c| (a - b).abs() + c),
    ("v_bcnt_u32_b32", |a, b, _| (0..32).map(|n| a >> n & 1).sum::<i128>() + b),
    ("v_perm_b32", |a, b, c| (0..4).map(|n| byte((a << 32) + b, c >> (8 * n) & 0xff) << (8 * n)).sum()),
    ("v_not_b32", |a, _, _| -1 - a),
    ("v_bfrev_b32", |a, _, _| (0..32).map(|n| (a >> n & 1) << (31 - n)).sum()),
    ("v_clz_i32_u32", |a, _, _| (0..32).find(|n| a >> (31 - n) & 1 == 1).unwrap_or(-1)),
    ("v_ctz_i32_b32", |a, _, _| (0..32).find(|n| a >> n & 1 == 1).unwrap_or(-1)),
    ("v_cls_i32", |a, _, _| (1..32).find(|n| a >> (31 - n) & 1 != a >> 31).unwrap_or(-1)),
    ("v_add_nc_i32", |a, b, _| a + b),
    ("v_mad_u32_u16", |a, b, c| (a % (1 << 16)) * (b % (1 << 16)) + c),
    ("v_mad_i32_i16", |a, b, c| s16(a) * s16(b) + c),
    ("v_cvt_i32_i16", |a, _, _| s16(a)),
    ("v_cvt_u32_u16", |a, _, _| a % (1 << 16)),
    ("v_mbcnt_hi_u32_b32", |_, b, _| b),
];

fn s(a: i128) -> i128 {
    if a >= 1 << 31 { a - (1 << 32) } else { a }
}

fn s24(a: i128) -> i128 {
    let a = a % (1 << 24);
    if a >= 1 << 23 { a - (1 << 24) } else { a }
}

fn s16(a: i128) -> i128 {
    let a = a % (1 << 16);
    if a >= 1 << 15 { a - (1 << 16) } else { a }
}

fn middle(mut three: [i128; 3]) -> i128 {
    three.sort_unstable();
    three[1]
}

fn bits(a: i128, b: i128, f: fn(bool, bool) -> bool) -> i128 {
    (0..32).filter(|n| f(a >> n & 1 == 1, b >> n & 1 == 1)).map(|n| 1 << n).sum()
}

/// `a` is signed, and goes on above its bits with its sign, where the field's highest bit is the field's.
fn signed_field(a: i128, offset: i128, width: i128) -> i128 {
    let field = a.div_euclid(1 << offset).rem_euclid(1 << width);
    if width > 0 && field >> (width - 1) == 1 { field - (1 << width) } else { field }
}

fn byte(of: i128, select: i128) -> i128 {
    match select {
        0..8 => of >> (8 * select) & 0xff,
        8..12 => (of >> (16 * (select - 8) + 15) & 1) * 0xff,
        12 => 0,
        _ => 0xff,
    }
}

#[test]
fn integers_of_32_bits_are_those_of_exact_arithmetic() {
    let values = triples();
    for (name, reference) in INTEGERS {
        for ([a, b, c], (result, _)) in values.iter().zip(over(name, USUAL, &values)) {
            let expected = reference(i128::from(*a), i128::from(*b), i128::from(*c)).rem_euclid(1 << 32);
            assert_eq!(i128::from(result as u32), expected, "{name} of {a:#x}, {b:#x}, {c:#x}");
        }
    }
}

#[test]
fn carries_go_in_and_out_by_lane() {
    let values = triples();
    type Carry = fn(i128, i128, i128) -> i128;
    let table: &[(&str, Carry)] = &[
        ("v_add_co_u32", |a, b, _| a + b),
        ("v_sub_co_u32", |a, b, _| a - b),
        ("v_subrev_co_u32", |a, b, _| b - a),
        ("v_add_co_ci_u32", |a, b, carry| a + b + carry),
        ("v_sub_co_ci_u32", |a, b, carry| a - b - carry),
        ("v_subrev_co_ci_u32", |a, b, carry| b - a - carry),
    ];
    for (name, reference) in table {
        for (n, ([a, b, _], (result, carry))) in values.iter().zip(over(name, USUAL, &values)).enumerate() {
            // Odd lanes have a carry.
            let exact = reference(i128::from(*a), i128::from(*b), (n % 2) as i128);
            assert_eq!(i128::from(result as u32), exact.rem_euclid(1 << 32), "{name} of {a:#x}, {b:#x}");
            assert_eq!(carry, !(0..1 << 32).contains(&exact), "{name} of {a:#x}, {b:#x}");
        }
    }
}

fn longs() -> Vec<[u64; 3]> {
    let longs = [0, 1, 2, 63, 64, 65, 0xffff_ffff, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX, 0x1234_5678_9abc_def0];
    let pairs = longs.iter().flat_map(|&a| longs.iter().map(move |&b| (a, b)));
    pairs.flat_map(|(a, b)| [0, 7, u64::MAX, 1 << 63].map(|c| [a, b, c])).collect()
}

#[test]
fn numbers_of_64_bits_are_those_of_exact_arithmetic() {
    let values = longs();
    type Wide = fn(i128, i128, i128) -> i128;
    let table: &[(&str, Wide)] = &[
        ("v_lshlrev_b64", |a, b, _| b << (a % 64)),
        ("v_lshrrev_b64", |a, b, _| b >> (a % 64)),
        ("v_ashrrev_i64", |a, b, _| i128::from(b as i64) >> (a % 64)),
        ("v_mad_u64_u32", |a, b, c| (a % (1 << 32)) * (b % (1 << 32)) + c),
        ("v_mad_i64_i32", |a, b, c| s(a % (1 << 32)) * s(b % (1 << 32)) + c),
    ];
    for (name, reference) in table {
        for ([a, b, c], (result, _)) in values.iter().zip(over(name, USUAL, &values)) {
            let expected = reference(i128::from(*a), i128::from(*b), i128::from(*c)).rem_euclid(1 << 64);
            assert_eq!(i128::from(result), expected, "{name} of {a:#x}, {b:#x}, {c:#x}");
        }
    }
    for (name, reference) in [
        ("v_cmp_lt_u64", (|a, b| a < b) as fn(u64, u64) -> bool),
        ("v_cmp_ge_u64", |a, b| a >= b),
        ("v_cmp_gt_i64", |a, b| a as i64 > b as i64),
        ("v_cmpx_le_i64", |a, b| a as i64 <= b as i64),
        ("v_cmp_ne_u64", |a, b| a != b),
        ("v_cmp_eq_u32", |a, b| a as u32 == b as u32),
        ("v_cmp_lt_i32", |a, b| (a as i32) < b as i32),
        ("v_cmpx_gt_u32", |a, b| a as u32 > b as u32),
        ("v_cmp_le_i16", |a, b| a as i16 <= b as i16),
        ("v_cmp_lt_u16", |a, b| (a as u16) < b as u16),
    ] {
        for ([a, b, _], (_, result)) in values.iter().zip(over(name, USUAL, &values)) {
            assert_eq!(result, reference(*a, *b), "{name} of {a:#x} and {b:#x}");
        }
    }
}

fn floats() -> Vec<[u64; 3]> {
    let floats = super::kernels::floats();
    let third: Vec<f32> = floats.iter().step_by(4).copied().collect();
    let pairs = floats.iter().flat_map(|&a| floats.iter().map(move |&b| (a, b)));
    pairs.flat_map(|(a, b)| third.iter().map(move |&c| [a, b, c].map(|x| u64::from(x.to_bits())))).collect()
}

#[test]
fn sums_and_products_round_to_even_as_the_hosts_do() {
    let values = floats();
    type Float = fn(f32, f32, f32) -> f32;
    let table: &[(&str, Float)] = &[
        ("v_add_f32", |a, b, _| a + b),
        ("v_sub_f32", |a, b, _| a - b),
        ("v_subrev_f32", |a, b, _| b - a),
        ("v_mul_f32", |a, b, _| a * b),
        ("v_fma_f32", f32::mul_add),
        ("v_trunc_f32", |a, _, _| a.trunc()),
        ("v_ceil_f32", |a, _, _| a.ceil()),
        ("v_floor_f32", |a, _, _| a.floor()),
        ("v_rndne_f32", |a, _, _| a.round_ties_even()),
    ];
    for (name, reference) in table {
        for (values, (result, _)) in values.iter().zip(over(name, USUAL, &values)) {
            let [a, b, c] = values.map(|x| f32::from_bits(x as u32));
            let (expected, result) = (reference(a, b, c), f32::from_bits(result as u32));
            let same = expected.to_bits() == result.to_bits() || expected.is_nan() && result.is_nan();
            assert!(same, "{name} of {a:e}, {b:e}, {c:e}: {result:e} for {expected:e}");
        }
    }
}

/// Whether `x` is what `exact` is rounded to in a direction: the mode's number 1 up, 2 down, 3 to zero.
fn rounds(direction: u32, exact: f64, x: f32) -> bool {
    let toward_zero_is_down = exact > 0.0;
    let up = direction == 1 || direction == 3 && !toward_zero_is_down;
    let wide = f64::from(x);
    if up {
        wide >= exact && (x == f32::NEG_INFINITY || f64::from(x.next_down()) < exact)
    } else {
        wide <= exact && (x == f32::INFINITY || f64::from(x.next_up()) > exact)
    }
}

#[test]
fn directed_rounding_gives_the_neighbour_on_that_side() {
    let values = floats();
    for direction in 1..4 {
        let mode = USUAL | direction;
        for (name, exact) in [("v_mul_f32", (|a, b| a * b) as fn(f64, f64) -> f64), ("v_add_f32", |a, b| a + b)] {
            for (values, (result, _)) in values.iter().zip(over(name, mode, &values)) {
                let [a, b, _] = values.map(|x| f64::from(f32::from_bits(x as u32)));
                let result = f32::from_bits(result as u32);
                let wide = exact(a, b);
                // Where f64 has rounded the sum, the test knows less than the core.
                let known = name == "v_mul_f32" || wide - a == b && wide - b == a;
                if wide.is_nan() {
                    assert!(result.is_nan());
                } else if wide.is_finite() && known && wide != 0.0 {
                    assert!(rounds(direction, wide, result), "{name} of {a:e} and {b:e}, way {direction}: {result:e}");
                }
            }
        }
    }
}

#[test]
fn a_fused_product_is_rounded_once_in_every_direction() {
    // 1 + 2^-24 is not a float: a step of a rounding tells itself.
    let tiny = f32::from_bits(1);
    for (direction, expected) in [(0, 1.0f32), (1, 1.0f32.next_up()), (2, 1.0), (3, 1.0)] {
        let values = [[tiny, tiny, 1.0].map(|x| u64::from(x.to_bits()))];
        let result = over("v_fma_f32", USUAL | direction, &values)[0].0 as u32;
        assert_eq!(f32::from_bits(result), expected, "way {direction}");
        let values = [[-tiny, tiny, 1.0].map(|x| u64::from(x.to_bits()))];
        let result = over("v_fma_f32", USUAL | direction, &values)[0].0 as u32;
        let expected = if direction < 2 { 1.0 } else { 1.0f32.next_down() };
        assert_eq!(f32::from_bits(result), expected, "way {direction}, below");
    }
    // A sum that is zero is negative only where rounding goes down.
    let values = [[1.5, 1.0, -1.5].map(|x: f32| u64::from(x.to_bits()))];
    assert_eq!(over("v_fma_f32", USUAL | 2, &values)[0].0 as u32, 1 << 31);
    assert_eq!(over("v_fma_f32", USUAL, &values)[0].0 as u32, 0);
}

#[test]
fn denormals_are_flushed_where_the_mode_says() {
    let (denormal, small, half) = (3e-39f32, f32::MIN_POSITIVE, 0.5f32);
    let value = |a: f32, b: f32| [[a, b, 0.0].map(|x| u64::from(x.to_bits()))];
    let run = |name: &str, denormals: u32, a, b| {
        f32::from_bits(over(name, USUAL & !0x30 | denormals << 4, &value(a, b))[0].0 as u32)
    };
    // Bit 0 keeps operands, bit 1 keeps results.
    assert_eq!(run("v_add_f32", 3, denormal, denormal), denormal + denormal);
    assert_eq!(run("v_add_f32", 2, denormal, 1e-38), 0.0 + if 1e-38f32.is_subnormal() { 0.0 } else { 1e-38 });
    assert_eq!(run("v_mul_f32", 3, small, half), small * half);
    assert_eq!(run("v_mul_f32", 1, small, half), 0.0);
    assert_eq!(run("v_mul_f32", 1, denormal, 1e3), denormal * 1e3);
    assert_eq!(run("v_mul_f32", 0, -small, half).to_bits(), 1 << 31);
}

#[test]
fn the_smaller_and_the_larger_prefer_numbers_and_order_zeros() {
    let run = |name: &str, a: f32, b: f32| {
        f32::from_bits(over(name, USUAL, &[[a, b, 0.0].map(|x| u64::from(x.to_bits()))])[0].0 as u32)
    };
    assert_eq!(run("v_min_f32", f32::NAN, 2.0), 2.0);
    assert_eq!(run("v_max_f32", 2.0, f32::NAN), 2.0);
    assert!(run("v_max_f32", f32::NAN, f32::NAN).is_nan());
    assert!(run("v_min_f32", -0.0, 0.0).is_sign_negative() && run("v_min_f32", 0.0, -0.0).is_sign_negative());
    assert!(run("v_max_f32", -0.0, 0.0).is_sign_positive() && run("v_max_f32", 0.0, -0.0).is_sign_positive());
    // A NaN that signals comes out quiet.
    assert_eq!(run("v_max_f32", f32::from_bits(0x7f80_0001), 2.0).to_bits(), 0x7fc0_0001);
}

#[test]
fn conversions_saturate_and_take_no_nan() {
    for x in super::kernels::floats() {
        let value = [[u64::from(x.to_bits()); 3]];
        let clamped = |low: f64, high: f64| if x.is_nan() { 0 } else { f64::from(x).trunc().clamp(low, high) as i64 };
        assert_eq!(over("v_cvt_u32_f32", USUAL, &value)[0].0 as u32, clamped(0.0, 4_294_967_295.0) as u32, "{x:e}");
        assert_eq!(
            over("v_cvt_i32_f32", USUAL, &value)[0].0 as u32,
            clamped(-2_147_483_648.0, 2_147_483_647.0) as u32,
            "{x:e}"
        );
    }
    // Numbers past 24 bits round to even, or as the mode says.
    assert_eq!(over("v_cvt_f32_u32", USUAL, &[[0x0100_0001; 3]])[0].0 as u32, 16_777_216f32.to_bits());
    assert_eq!(over("v_cvt_f32_u32", USUAL | 1, &[[0x0100_0001; 3]])[0].0 as u32, 16_777_218f32.to_bits());
}

#[test]
fn every_f16_goes_to_f32_and_back_and_every_f32_near_one_rounds_to_it() {
    let all: Vec<[u64; 3]> = (0..=0xffff).map(|bits| [bits, 0, 0]).collect();
    let wide = over("v_cvt_f32_f16", USUAL, &all);
    let values: Vec<[u64; 3]> = wide.iter().map(|(bits, _)| [bits & 0xffff_ffff, 0, 0]).collect();
    for (bits, (back, _)) in over("v_cvt_f16_f32", USUAL, &values).iter().enumerate() {
        let nan = bits & 0x7fff > 0x7c00;
        // The high half stays.
        assert!(nan || *back as u32 == 0xa5a5_0000 | bits as u32, "{bits:#x}: {back:#x}");
        assert!(!nan || back & 0x7c00 == 0x7c00 && back & 0x3ff != 0);
    }
    // Halfway between neighbours it goes to the even one; a step above to the upper.
    let positive = 0..0x7bff;
    let middles: Vec<[u64; 3]> = positive
        .clone()
        .map(|bits: usize| {
            let (low, high) = (f32::from_bits(wide[bits].0 as u32), f32::from_bits(wide[bits + 1].0 as u32));
            [u64::from(((low + high) / 2.0).to_bits()), 0, 0]
        })
        .collect();
    for (bits, (result, _)) in positive.clone().zip(over("v_cvt_f16_f32", USUAL, &middles)) {
        assert_eq!(result as u16 as usize, (bits + 1) & !1, "{bits:#x}");
    }
    let above: Vec<[u64; 3]> = middles.iter().map(|value| [value[0] + 1, 0, 0]).collect();
    for (bits, (result, _)) in positive.zip(over("v_cvt_f16_f32", USUAL, &above)) {
        assert_eq!(result as u16 as usize, bits + 1);
    }
}

#[test]
fn comparisons_of_floats_know_nan() {
    let values = floats();
    type Compare = fn(f32, f32) -> bool;
    let table: &[(&str, Compare)] = &[
        ("v_cmp_lt_f32", |a, b| a < b),
        ("v_cmp_eq_f32", |a, b| a == b),
        ("v_cmp_le_f32", |a, b| a <= b),
        ("v_cmp_gt_f32", |a, b| a > b),
        ("v_cmp_lg_f32", |a, b| a != b && !a.is_nan() && !b.is_nan()),
        ("v_cmpx_ge_f32", |a, b| a >= b),
        ("v_cmp_o_f32", |a, b| !a.is_nan() && !b.is_nan()),
        ("v_cmp_u_f32", |a, b| a.is_nan() || b.is_nan()),
        ("v_cmp_nge_f32", |a, b| a.is_nan() || b.is_nan() || a < b),
        ("v_cmp_nlg_f32", |a, b| a.is_nan() || b.is_nan() || a == b),
        ("v_cmp_ngt_f32", |a, b| a.is_nan() || b.is_nan() || a <= b),
        ("v_cmp_nle_f32", |a, b| a.is_nan() || b.is_nan() || a > b),
        ("v_cmp_neq_f32", |a, b| a.is_nan() || b.is_nan() || a != b),
        ("v_cmp_nlt_f32", |a, b| a.is_nan() || b.is_nan() || a >= b),
    ];
    for (name, reference) in table {
        for (values, (_, result)) in values.iter().zip(over(name, USUAL, &values)) {
            let [a, b, _] = values.map(|x| f32::from_bits(x as u32));
            assert_eq!(result, reference(a, b), "{name} of {a:e} and {b:e}");
        }
    }
}

#[test]
fn lanes_that_do_not_run_keep_their_registers_and_stay_out_of_masks() {
    let mut wave = wave();
    wave.s[EXEC] = 0x0000_ffff;
    run(&mut wave, &encoded("v_not_b32"));
    assert!((0..LANES).all(|lane| wave.v[2][lane] == if lane < 16 { 0x5a5a_5a5a } else { 0xa5a5_a5a5 }));
    run(&mut wave, &encoded("v_cmp_eq_u32"));
    assert_eq!(wave.s[20], 0x0000_ffff);
    wave.s[20] = 0;
    // 0xa5a5a5a5 twice is a carry.
    run(&mut wave, &encoded("v_add_co_u32"));
    assert_eq!(wave.s[20], 0x0000_ffff);
    run(&mut wave, &encoded("v_cmpx_ne_u32"));
    assert_eq!(wave.exec(), 0);
}

/// A scalar instruction: s2 from s4 and s6, or pairs.
fn scalar(name: &str, a: u64, b: u64, scc: bool) -> (u64, bool, u32) {
    let find = |rows: &'static [Row]| rows.iter().find(|row| row.name == name).map(|row| u32::from(row.code));
    let word = find(SOP2)
        .map(|code| 0x8000_0000 | code << 23 | 2 << 16 | 6 << 8 | 4)
        .or_else(|| find(SOP1).map(|code| 0xbe80_0000 | 2 << 16 | code << 8 | 4))
        .or_else(|| find(SOPC).map(|code| 0xbf00_0000 | code << 16 | 6 << 8 | 4))
        .unwrap();
    let mut wave = wave();
    (wave.s[4], wave.s[5], wave.s[6], wave.s[7]) = (a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32);
    wave.s[EXEC] = 0x00ff_00ff;
    wave.scc = scc;
    run(&mut wave, &decode([word, 0, 0]).unwrap());
    (u64::from(wave.s[2]) | u64::from(wave.s[3]) << 32, wave.scc, wave.exec())
}

type Scalar = fn(i128, i128, bool) -> (i128, Option<bool>);

/// Scalar instructions of 32 bits, and what scc is after them; none where it stays.
const SCALARS: &[(&str, Scalar)] = &[
    ("s_add_u32", |a, b, _| (a + b, Some(a + b >= 1 << 32))),
    ("s_sub_u32", |a, b, _| (a - b, Some(a < b))),
    ("s_add_i32", |a, b, _| (a + b, Some(!fits(s(a) + s(b))))),
    ("s_sub_i32", |a, b, _| (a - b, Some(!fits(s(a) - s(b))))),
    ("s_addc_u32", |a, b, c| (a + b + i128::from(c), Some(a + b + i128::from(c) >= 1 << 32))),
    ("s_subb_u32", |a, b, c| (a - b - i128::from(c), Some(a < b + i128::from(c)))),
    ("s_absdiff_i32", |a, b, _| nonzero((s(wrap(s(a) - s(b)))).abs())),
    ("s_lshl_b32", |a, b, _| nonzero(wrap(a << (b % 32)))),
    ("s_lshr_b32", |a, b, _| nonzero(a >> (b % 32))),
    ("s_ashr_i32", |a, b, _| nonzero(wrap(s(a) >> (b % 32)))),
    ("s_lshl3_add_u32", |a, b, _| (a * 8 + b, Some(a * 8 + b >= 1 << 32))),
    ("s_min_i32", |a, b, _| (s(a).min(s(b)), Some(s(a) < s(b)))),
    ("s_max_u32", |a, b, _| (a.max(b), Some(a >= b))),
    ("s_and_b32", |a, b, _| nonzero(bits(a, b, |a, b| a && b))),
    ("s_or_b32", |a, b, _| nonzero(bits(a, b, |a, b| a || b))),
    ("s_xor_b32", |a, b, _| nonzero(bits(a, b, |a, b| a != b))),
    ("s_nand_b32", |a, b, _| nonzero(bits(a, b, |a, b| !(a && b)))),
    ("s_nor_b32", |a, b, _| nonzero(bits(a, b, |a, b| !(a || b)))),
    ("s_xnor_b32", |a, b, _| nonzero(bits(a, b, |a, b| a == b))),
    ("s_and_not1_b32", |a, b, _| nonzero(bits(a, b, |a, b| a && !b))),
    ("s_or_not1_b32", |a, b, _| nonzero(bits(a, b, |a, b| a || !b))),
    ("s_bfe_u32", |a, b, _| nonzero(a >> (b % 32) & ((1 << (b >> 16 & 0x7f).min(64)) - 1))),
    ("s_bfm_b32", |a, b, _| (((1 << (a % 32)) - 1) << (b % 32), None)),
    ("s_mul_i32", |a, b, _| (a * b, None)),
    ("s_mul_hi_u32", |a, b, _| ((a * b) >> 32, None)),
    ("s_mul_hi_i32", |a, b, _| ((s(a) * s(b)) >> 32, None)),
    ("s_cselect_b32", |a, b, c| (if c { a } else { b }, None)),
    ("s_pack_ll_b32_b16", |a, b, _| (a % (1 << 16) + ((b % (1 << 16)) << 16), None)),
    ("s_pack_hh_b32_b16", |a, b, _| ((a >> 16) + ((b >> 16) << 16), None)),
    ("s_mov_b32", |a, _, _| (a, None)),
    ("s_not_b32", |a, _, _| nonzero(wrap(-1 - a))),
    ("s_abs_i32", |a, _, _| nonzero(s(a).abs())),
    ("s_brev_b32", |a, _, _| ((0..32).map(|n| (a >> n & 1) << (31 - n)).sum(), None)),
    ("s_bcnt1_i32_b32", |a, _, _| nonzero((0..32).map(|n| a >> n & 1).sum())),
    ("s_bcnt0_i32_b32", |a, _, _| nonzero((0..32).map(|n| 1 - (a >> n & 1)).sum())),
    ("s_ctz_i32_b32", |a, _, _| ((0..32).find(|n| a >> n & 1 == 1).unwrap_or(-1), None)),
    ("s_clz_i32_u32", |a, _, _| ((0..32).find(|n| a >> (31 - n) & 1 == 1).unwrap_or(-1), None)),
    ("s_sext_i32_i8", |a, _, _| ((a % 256 + 128) % 256 - 128, None)),
    ("s_sext_i32_i16", |a, _, _| (s16(a), None)),
];

fn fits(a: i128) -> bool {
    (-(1 << 31)..1 << 31).contains(&a)
}

fn wrap(a: i128) -> i128 {
    a.rem_euclid(1 << 32)
}

fn nonzero(a: i128) -> (i128, Option<bool>) {
    (a, Some(a != 0))
}

#[test]
fn scalars_and_scc_are_those_of_exact_arithmetic() {
    for (name, reference) in SCALARS {
        for a in words() {
            for b in words() {
                for scc in [false, true] {
                    let (result, after, _) = scalar(name, a.into(), b.into(), scc);
                    let (expected, condition) = reference(a.into(), b.into(), scc);
                    assert_eq!(i128::from(result as u32), wrap(expected), "{name} of {a:#x} and {b:#x}");
                    assert_eq!(after, condition.unwrap_or(scc), "scc after {name} of {a:#x} and {b:#x}");
                }
            }
        }
    }
}

#[test]
fn exec_is_saved_and_changed() {
    let (old, mask) = (0x00ff_00ff_u32, 0x0f0f_f0f0_u32);
    for (name, taken) in [
        ("s_and_saveexec_b32", mask & old),
        ("s_or_saveexec_b32", mask | old),
        ("s_xor_saveexec_b32", mask ^ old),
        ("s_and_not1_saveexec_b32", mask & !old),
        ("s_and_not0_saveexec_b32", !mask & old),
        ("s_or_not1_saveexec_b32", mask | !old),
    ] {
        let (saved, scc, exec) = scalar(name, mask.into(), 0, false);
        assert_eq!((saved as u32, scc, exec), (old, true, taken), "{name}");
    }
    assert!(!scalar("s_and_saveexec_b32", 0xff00_ff00, 0, true).1);
    let (written, _, exec) = scalar("s_and_not1_wrexec_b32", mask.into(), 0, false);
    assert_eq!((written as u32, exec), (mask & !old, mask & !old));
}

#[test]
fn scalars_of_64_bits_are_pairs() {
    let mut longs: Vec<u64> = longs().iter().map(|value| value[0]).collect();
    longs.dedup();
    type Long = fn(u64, u64) -> u64;
    let table: &[(&str, Long)] = &[
        ("s_and_b64", |a, b| a & b),
        ("s_or_b64", |a, b| a | b),
        ("s_and_not1_b64", |a, b| a & !b),
        ("s_lshl_b64", |a, b| a << (b % 64)),
        ("s_lshr_b64", |a, b| a >> (b % 64)),
        ("s_ashr_i64", |a, b| (a as i64 >> (b % 64)) as u64),
        ("s_mov_b64", |a, _| a),
        ("s_not_b64", |a, _| !a),
        ("s_brev_b64", |a, _| a.reverse_bits()),
    ];
    for (name, reference) in table {
        for &a in &longs {
            for &b in &longs {
                assert_eq!(scalar(name, a, b, false).0, reference(a, b), "{name} of {a:#x} and {b:#x}");
            }
        }
    }
    for &a in &longs {
        assert_eq!(scalar("s_cmp_eq_u64", a, 64, false).1, a == 64);
        assert_eq!(scalar("s_bcnt1_i32_b64", a, 0, false).0 as u32, a.count_ones());
    }
}
