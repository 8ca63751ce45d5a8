//! Numbers: conversions, integers, floats, atomics, packing.

use super::harness::{Bodies, Plain};
use crate::prelude::host::{bfloat_bits, half_bits, half_value};

/// Floats of every kind: zeros, too small to be normal, halfway between halves and between bfloats, huge, infinite,
/// NaN.
fn floats() -> Vec<f32> {
    let mut all = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.1,
        3.0,
        0.999_999_94,
        1e-45,
        -1e-45,
        1.17e-38,
        1e-38,
        6e-8,
        2.98e-8,
        2.980_232e-8,
        6.1e-5,
        6.097e-5,
        65504.0,
        65519.99,
        65520.0,
        -65520.0,
        1e5,
        255.0,
        255.5,
        256.0,
        -128.5,
        32767.5,
        -32769.0,
        2.147_483_6e9,
        2.147_484e9,
        -2.147_483_6e9,
        4.294_967e9,
        4.3e9,
        9.2e18,
        1.9e19,
        -9.3e18,
        3.4e38,
        -3.4e38,
        f32::MAX,
        f32::MIN_POSITIVE,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1.003_906_2,
        1.011_718_8,
        1.000_488_3,
        1.001_464_8,
        0.333_333_34,
        100.25,
        -7.75,
        12345.678,
    ];
    let mut state = 7u64;
    for _ in 0..300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.push(f32::from_bits((state >> 32) as u32));
        all.push(((state >> 40) as f32 / 16_777_216.0 - 0.5) * 64.0);
    }
    all
}

/// Integers of every size and sign.
fn integers() -> Vec<i64> {
    let mut all = vec![0, 1, -1, 2, 3, 7, 100, -100];
    for bits in [7, 8, 15, 16, 23, 24, 25, 31, 32, 33, 40, 52, 53, 62] {
        for near in [-2, -1, 0, 1, 2] {
            all.extend([(1i64 << bits) + near, -(1i64 << bits) + near, ((1i64 << bits) / 2).wrapping_mul(3) + near]);
        }
    }
    all.extend([i64::MAX, i64::MIN, i64::MIN + 1]);
    let mut state = 11u64;
    for step in 0..300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.push((state as i64) >> (step % 60));
    }
    all
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Within so many units in the last place of the true value.
fn near(got: f32, truth: f64, units: f64) -> bool {
    let rounded = truth as f32;
    if rounded.is_nan() || rounded.is_infinite() || got.is_nan() || got.is_infinite() {
        return same(got, rounded) || (got.is_infinite() && rounded == f32::MAX);
    }
    let unit = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
    (f64::from(got) - truth).abs() <= units * unit
}

#[test]
fn the_hosts_own_roundings_are_those_of_the_definition() {
    // Every half, and the floats halfway between it and the next and on either side of that.
    for bits in 0..0x7c00u16 {
        let value = half_value(bits);
        assert_eq!(half_bits(value), bits);
        assert_eq!(half_bits(-value), bits | 0x8000);
        let next = if bits == 0x7bff { 65536.0 } else { half_value(bits + 1) };
        let middle = (value + next) / 2.0;
        let even = if bits & 1 == 0 { bits } else { bits + 1 };
        assert_eq!(half_bits(middle), even, "{middle}");
        assert_eq!(half_bits(f32::from_bits(middle.to_bits() - 1)), bits, "{middle}");
        assert_eq!(half_bits(f32::from_bits(middle.to_bits() + 1)), bits + 1, "{middle}");
    }
    assert_eq!(half_value(0x3c01), 1.000_976_6);
    assert_eq!(half_value(1), 5.960_464_5e-8);
    assert!(half_value(half_bits(f32::NAN)).is_nan());
    for bits in 0..0x7f80u16 {
        let value = f32::from_bits(u32::from(bits) << 16);
        let even = if bits & 1 == 0 { bits } else { bits + 1 };
        assert_eq!(bfloat_bits(value), bits);
        assert_eq!(bfloat_bits(f32::from_bits(value.to_bits() + 0x8000)), even);
        assert_eq!(bfloat_bits(f32::from_bits(value.to_bits() + 0x7fff)), bits);
        assert_eq!(bfloat_bits(f32::from_bits(value.to_bits() + 0x8001)), bits + 1);
    }
    assert!(f32::from_bits(u32::from(bfloat_bits(f32::from_bits(0x7f80_0001))) << 16).is_nan());
}

#[test]
fn floats_become_integers_without_their_fraction_and_held_to_the_range() {
    macro_rules! each {
        ($($name:literal, $ir:literal, $ty:ty;)*) => {
            let bodies = Bodies::new(&[$(concat!($name, " ", $ir)),*]);
            for x in floats() {
                $(assert_eq!(bodies.one::<$ty>($name, &[x.bytes()]), x as $ty, "{} of {x}", $name);)*
            }
        };
    }
    each! {
        "air.convert.s.i8.f.f32", "i8 (float)", i8;
        "air.convert.s.i16.f.f32", "i16 (float)", i16;
        "air.convert.s.i32.f.f32", "i32 (float)", i32;
        "air.convert.s.i64.f.f32", "i64 (float)", i64;
        "air.convert.u.i8.f.f32", "i8 (float)", u8;
        "air.convert.u.i16.f.f32", "i16 (float)", u16;
        "air.convert.u.i32.f.f32", "i32 (float)", u32;
        "air.convert.u.i64.f.f32", "i64 (float)", u64;
    }
    let bodies = Bodies::new(&[
        "air.convert.u.i1.f.f32 i1 (float)",
        "air.convert.s.i32.f.f16 i32 (half)",
        "air.convert.u.i8.f.bf16 i8 (bfloat)",
        "air.convert.s.i32.f.f32.rte i32 (float)",
        "air.convert.s.i32.f.f32.rtp i32 (float)",
        "air.convert.s.i32.f.f32.rtn i32 (float)",
        "air.convert.s.i32.f.f32.rtz i32 (float)",
    ]);
    for x in floats() {
        assert_eq!(bodies.one::<bool>("air.convert.u.i1.f.f32", &[x.bytes()]), x != 0.0, "{x}");
        let half = half_bits(x);
        assert_eq!(bodies.one::<i32>("air.convert.s.i32.f.f16", &[half.bytes()]), half_value(half) as i32, "{x}");
        let bfloat = bfloat_bits(x);
        let value = f32::from_bits(u32::from(bfloat) << 16);
        assert_eq!(bodies.one::<u8>("air.convert.u.i8.f.bf16", &[bfloat.bytes()]), value as u8, "{x}");
        let forms = [("rte", x.round_ties_even()), ("rtp", x.ceil()), ("rtn", x.floor()), ("rtz", x.trunc())];
        for (form, rounded) in forms {
            let name = format!("air.convert.s.i32.f.f32.{form}");
            assert_eq!(bodies.one::<i32>(&name, &[x.bytes()]), rounded as i32, "{x} {form}");
        }
    }
}

/// An integer as the bfloat nearest to it, ties to even, by the definition: of all bfloats around it.
fn nearest_bfloat(value: i128) -> u16 {
    let start = bfloat_bits(value as f32);
    let candidates = [start.wrapping_sub(1), start, start.wrapping_add(1)];
    let exact = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    let distance = |bits: u16| (exact(bits) as i128 - value).unsigned_abs();
    let usable = candidates.into_iter().filter(|bits| exact(*bits).is_finite());
    usable.min_by_key(|bits| (distance(*bits), bits & 1)).unwrap()
}

#[test]
fn integers_become_floats_rounded_once() {
    let bodies = Bodies::new(&[
        "air.convert.f.f32.s.i32 float (i32)",
        "air.convert.f.f32.u.i32 float (i32)",
        "air.convert.f.f32.s.i64 float (i64)",
        "air.convert.f.f32.u.i64 float (i64)",
        "air.convert.f.f16.s.i32 half (i32)",
        "air.convert.f.f16.u.i64 half (i64)",
        "air.convert.f.f32.u.i1 float (i1)",
        "air.convert.f.bf16.s.i32 bfloat (i32)",
        "air.convert.f.bf16.u.i32 bfloat (i32)",
        "air.convert.f.bf16.s.i64 bfloat (i64)",
        "air.convert.f.bf16.u.i64 bfloat (i64)",
        "air.convert.f.bf16.s.i16 bfloat (i16)",
    ]);
    for x in integers() {
        let (small, unsigned, short) = (x as i32, x as u32, x as i16);
        assert_eq!(bodies.one::<f32>("air.convert.f.f32.s.i32", &[small.bytes()]), small as f32);
        assert_eq!(bodies.one::<f32>("air.convert.f.f32.u.i32", &[unsigned.bytes()]), unsigned as f32);
        assert_eq!(bodies.one::<f32>("air.convert.f.f32.s.i64", &[x.bytes()]), x as f32);
        assert_eq!(bodies.one::<f32>("air.convert.f.f32.u.i64", &[x.bytes()]), x as u64 as f32);
        assert_eq!(bodies.one::<u16>("air.convert.f.f16.s.i32", &[small.bytes()]), half_bits(small as f32));
        assert_eq!(bodies.one::<u16>("air.convert.f.f16.u.i64", &[x.bytes()]), half_bits(x as u64 as f32));
        let of = |name: &str, bytes: Vec<u8>| bodies.one::<u16>(name, &[bytes]);
        assert_eq!(of("air.convert.f.bf16.s.i32", small.bytes()), nearest_bfloat(small.into()), "{small}");
        assert_eq!(of("air.convert.f.bf16.u.i32", unsigned.bytes()), nearest_bfloat(unsigned.into()), "{unsigned}");
        assert_eq!(of("air.convert.f.bf16.s.i64", x.bytes()), nearest_bfloat(x.into()), "{x}");
        assert_eq!(of("air.convert.f.bf16.u.i64", x.bytes()), nearest_bfloat((x as u64).into()), "{}", x as u64);
        assert_eq!(of("air.convert.f.bf16.s.i16", short.bytes()), nearest_bfloat(short.into()), "{short}");
    }
    assert_eq!(bodies.one::<f32>("air.convert.f.f32.u.i1", &[true.bytes()]), 1.0);
}

#[test]
fn conversions_between_floats_round_to_the_nearest_even() {
    let bodies = Bodies::new(&[
        "air.convert.f.f16.f.f32 half (float)",
        "air.convert.f.bf16.f.f32 bfloat (float)",
        "air.convert.f.f32.f.f16 float (half)",
        "air.convert.f.f32.f.bf16 float (bfloat)",
        "air.convert.f.f16.f.bf16 half (bfloat)",
        "air.convert.f.v4f32.f.v4f16 <4 x float> (<4 x half>)",
        "air.convert.s.i16.s.i32.sat i16 (i32)",
        "air.convert.u.i8.s.i32.sat i8 (i32)",
        "air.convert.s.i32.u.i32.sat i32 (i32)",
        "air.convert.s.i64.s.i8 i64 (i8)",
    ]);
    for x in floats().into_iter().filter(|x| !x.is_nan()) {
        let (half, bfloat) = (half_bits(x), bfloat_bits(x));
        let bfloat_value = f32::from_bits(u32::from(bfloat) << 16);
        assert_eq!(bodies.one::<u16>("air.convert.f.f16.f.f32", &[x.bytes()]), half, "{x}");
        // An instruction of the processor's may take numbers too small to be normal for zero.
        if x == 0.0 || x.is_normal() {
            assert_eq!(bodies.one::<u16>("air.convert.f.bf16.f.f32", &[x.bytes()]), bfloat, "{x}");
        }
        assert!(same(bodies.one("air.convert.f.f32.f.f16", &[half.bytes()]), half_value(half)), "{x}");
        assert!(same(bodies.one("air.convert.f.f32.f.bf16", &[bfloat.bytes()]), bfloat_value), "{x}");
        assert_eq!(bodies.one::<u16>("air.convert.f.f16.f.bf16", &[bfloat.bytes()]), half_bits(bfloat_value), "{x}");
        let four = [half, 0x3c00, 0xc000, 1].map(u16::bytes).concat();
        let answer = bodies.call("air.convert.f.v4f32.f.v4f16", &[four]);
        assert!(same(f32::read(&answer), half_value(half)));
        assert_eq!(f32::read(&answer[8..]), -2.0);
        assert_eq!(f32::read(&answer[12..]), half_value(1));
    }
    for x in integers() {
        let small = x as i32;
        let held = small.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        assert_eq!(bodies.one::<i16>("air.convert.s.i16.s.i32.sat", &[small.bytes()]), held);
        assert_eq!(bodies.one::<u8>("air.convert.u.i8.s.i32.sat", &[small.bytes()]), small.clamp(0, 255) as u8);
        let held = (small as u32).min(i32::MAX as u32) as i32;
        assert_eq!(bodies.one::<i32>("air.convert.s.i32.u.i32.sat", &[small.bytes()]), held);
        assert_eq!(bodies.one::<i64>("air.convert.s.i64.s.i8", &[(x as i8).bytes()]), i64::from(x as i8));
    }
}

#[test]
fn unary_functions_of_float_are_within_metals_bounds() {
    type Truth = fn(f64) -> f64;
    let functions: [(&str, f64, Truth); 27] = [
        ("acos", 4.0, f64::acos),
        ("acosh", 4.0, f64::acosh),
        ("asin", 4.0, f64::asin),
        ("asinh", 4.0, f64::asinh),
        ("atan", 5.0, f64::atan),
        ("atanh", 5.0, f64::atanh),
        ("cos", 4.0, f64::cos),
        ("cosh", 4.0, f64::cosh),
        ("sin", 4.0, f64::sin),
        ("sinh", 4.0, f64::sinh),
        ("tan", 6.0, f64::tan),
        ("tanh", 5.0, f64::tanh),
        ("exp", 4.0, f64::exp),
        ("exp2", 4.0, f64::exp2),
        ("exp10", 4.0, |x| 10f64.powf(x)),
        ("log", 4.0, f64::ln),
        ("log2", 4.0, f64::log2),
        ("log10", 4.0, f64::log10),
        ("fabs", 0.0, f64::abs),
        ("floor", 0.0, f64::floor),
        ("ceil", 0.0, f64::ceil),
        ("trunc", 0.0, f64::trunc),
        ("round", 0.0, f64::round),
        ("rint", 0.0, f64::round_ties_even),
        ("sqrt", 0.5, f64::sqrt),
        ("rsqrt", 2.0, |x| 1.0 / x.sqrt()),
        ("saturate", 0.0, |x| if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) }),
    ];
    let mut lines = Vec::new();
    for (name, ..) in functions {
        lines.push(format!("air.{name}.f32 float (float)"));
        lines.push(format!("air.fast_{name}.f32 float (float)"));
        lines.push(format!("air.{name}.f16 half (half)"));
        lines.push(format!("air.{name}.bf16 bfloat (bfloat)"));
        lines.push(format!("air.{name}.v3f32 <3 x float> (<3 x float>)"));
    }
    let bodies = Bodies::new(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, units, truth) in functions {
        for x in floats() {
            let expected = truth(x.into());
            for form in ["", "fast_"] {
                let got = bodies.one::<f32>(&format!("air.{form}{name}.f32"), &[x.bytes()]);
                assert!(near(got, expected, units.max(0.5)), "{form}{name}({x}) is {got}, not {expected}");
            }
            let three = [0.25, x, -0.75].map(f32::bytes).concat();
            let got = f32::read(&bodies.call(&format!("air.{name}.v3f32"), &[three])[4..]);
            assert!(near(got, expected, units.max(0.5)), "the second of {name}({x}) is {got}, not {expected}");
            let half = half_value(half_bits(x));
            let got = bodies.one::<u16>(&format!("air.{name}.f16"), &[half_bits(x).bytes()]);
            let wide = bodies.one::<f32>(&format!("air.{name}.f32"), &[half.bytes()]);
            assert!(same(half_value(got), half_value(half_bits(wide))), "{name} of the half {half}");
        }
        for x in floats().into_iter().filter(|x| x.is_normal()) {
            let bits = bfloat_bits(x);
            let got = bodies.one::<u16>(&format!("air.{name}.bf16"), &[bits.bytes()]);
            let wide = bodies.one::<f32>(&format!("air.{name}.f32"), &[f32::from_bits(u32::from(bits) << 16).bytes()]);
            let (got, expected) = (u32::from(got) << 16, u32::from(bfloat_bits(wide)) << 16);
            let (got, expected) = (f32::from_bits(got), f32::from_bits(expected));
            assert!(same(got, expected) || wide.is_subnormal(), "{name} of the bfloat {x}: {got} {expected}");
        }
    }
}

#[test]
fn functions_of_two_and_three_floats() {
    let bodies = Bodies::new(&[
        "air.fmin.f32 float (float, float)",
        "air.fast_fmax.f32 float (float, float)",
        "air.pow.f32 float (float, float)",
        "air.powr.f32 float (float, float)",
        "air.atan2.f32 float (float, float)",
        "air.fmod.f32 float (float, float)",
        "air.fdim.f32 float (float, float)",
        "air.step.f32 float (float, float)",
        "air.fma.f32 float (float, float, float)",
        "air.mix.f32 float (float, float, float)",
        "air.clamp.f32 float (float, float, float)",
        "air.fmedian3.f32 float (float, float, float)",
        "air.fmin3.f32 float (float, float, float)",
        "air.fmax3.f32 float (float, float, float)",
    ]);
    let all: Vec<f32> = floats().into_iter().take(100).collect();
    for &x in &all {
        for &y in all.iter().step_by(3) {
            let two = |name: &str| bodies.one::<f32>(name, &[x.bytes(), y.bytes()]);
            let (min, max) = (two("air.fmin.f32"), two("air.fast_fmax.f32"));
            assert!(min == x.min(y) || same(min, x.min(y)), "the lesser of {x} and {y} is {min}");
            assert!(max == x.max(y) || same(max, x.max(y)), "the greater of {x} and {y} is {max}");
            assert!(near(two("air.pow.f32"), f64::from(x).powf(y.into()), 16.0), "{x} to the {y}");
            let power = if x < 0.0 { f64::NAN } else { f64::from(x.abs()).powf(y.into()) };
            assert!(near(two("air.powr.f32"), power, 16.0), "{x} to the {y}");
            assert!(near(two("air.atan2.f32"), f64::from(x).atan2(y.into()), 6.0), "the angle of {x} over {y}");
            assert!(same(two("air.fmod.f32"), x % y), "{x} modulo {y} is {}", two("air.fmod.f32"));
            let rest = if x.is_nan() || y.is_nan() {
                f32::NAN
            } else if x > y {
                x - y
            } else {
                0.0
            };
            assert!(same(two("air.fdim.f32"), rest), "{x} above {y}");
            assert_eq!(two("air.step.f32"), if y < x { 0.0 } else { 1.0 });
            for z in [0.25, -3.0, f32::INFINITY, f32::NAN] {
                let three = |name: &str| bodies.one::<f32>(name, &[x.bytes(), y.bytes(), z.bytes()]);
                assert!(same(three("air.fma.f32"), x.mul_add(y, z)), "{x} * {y} + {z}");
                assert!(same(three("air.mix.f32"), x + (y - x) * z), "from {x} to {y} by {z}");
                let same_size = |a: f32, b: f32| a == b || same(a, b);
                assert!(same_size(three("air.clamp.f32"), x.max(y).min(z)), "{x} held to {y}, {z}");
                assert!(same_size(three("air.fmin3.f32"), x.min(y).min(z)));
                assert!(same_size(three("air.fmax3.f32"), x.max(y).max(z)));
                if !x.is_nan() && !y.is_nan() && !z.is_nan() {
                    let mut sorted = [x, y, z];
                    sorted.sort_by(f32::total_cmp);
                    assert_eq!(three("air.fmedian3.f32"), sorted[1]);
                }
            }
        }
    }
}

#[test]
fn the_remaining_functions_of_floats() {
    let bodies = Bodies::new(&[
        "air.sign.f32 float (float)",
        "air.fract.f32 float (float)",
        "air.ldexp.f32 float (float, i32)",
        "air.ilogb.f32 i32 (float)",
        "air.sincos.f32 float (float, ptr)",
        "air.sincos.v2f16 <2 x half> (<2 x half>, ptr)",
        "air.modf.f32 float (float, ptr)",
        "air.frexp.v2f32 <2 x float> (<2 x float>, ptr)",
        "air.dot.v4f32 float (<4 x float>, <4 x float>)",
        "air.dot.v3f16 half (<3 x half>, <3 x half>)",
        "air.smoothstep.f32 float (float, float, float)",
        "air.sinpi.f32 float (float)",
        "air.cospi.f32 float (float)",
        "air.tanpi.f32 float (float)",
    ]);
    for x in floats() {
        let sign = if x.is_nan() {
            0.0
        } else if x == 0.0 {
            x
        } else {
            x.signum()
        };
        assert!(same(bodies.one("air.sign.f32", &[x.bytes()]), sign), "the sign of {x}");
        let fract: f32 = bodies.one("air.fract.f32", &[x.bytes()]);
        let expected = if x.is_infinite() { 0.0 } else { (x - x.floor()).min(f32::from_bits(0x3f7f_ffff)) };
        assert!(same(fract, expected) || (x.is_nan() && fract.is_nan()), "the fraction of {x} is {fract}");
        for by in [-200, -3, 0, 5, 300] {
            let got: f32 = bodies.one("air.ldexp.f32", &[x.bytes(), by.bytes()]);
            assert!(near(got, f64::from(x) * 2f64.powi(by), 0.5), "{x} * 2^{by} is {got}");
        }
        let mut place = [0f32; 2];
        let at = (&raw mut place as u64).bytes();
        let sin: f32 = bodies.one("air.sincos.f32", &[x.bytes(), at.clone()]);
        assert!(near(sin, f64::from(x).sin(), 4.0) && near(place[0], f64::from(x).cos(), 4.0), "{x}");
        let rest: f32 = bodies.one("air.modf.f32", &[x.bytes(), at.clone()]);
        assert!(same(place[0], x.trunc()), "{x}");
        let expected = if x.is_infinite() { 0f32.copysign(x) } else { (x - x.trunc()).copysign(x) };
        assert!(same(rest, expected), "{x}");
        if x.is_finite() && x.abs() < 1e6 {
            let pi = std::f64::consts::PI;
            let got: f32 = bodies.one("air.sinpi.f32", &[x.bytes()]);
            assert!((f64::from(got) - (f64::from(x) % 2.0 * pi).sin()).abs() < 1e-6, "sinpi {x} is {got}");
            let got: f32 = bodies.one("air.cospi.f32", &[x.bytes()]);
            assert!((f64::from(got) - (f64::from(x) % 2.0 * pi).cos()).abs() < 1e-6, "cospi {x} is {got}");
        }
    }
    assert_eq!(bodies.one::<f32>("air.tanpi.f32", &[0.25f32.bytes()]), 1.0);
    assert_eq!(bodies.one::<i32>("air.ilogb.f32", &[20.0f32.bytes()]), 4);
    let mut exponents = [0i32; 2];
    let at = (&raw mut exponents as u64).bytes();
    let answer = bodies.call("air.frexp.v2f32", &[[8.0f32, 0.3].map(f32::bytes).concat(), at]);
    assert_eq!((f32::read(&answer), f32::read(&answer[4..]), exponents), (0.5, 0.6, [4, -1]));
    let mut cosines = [0u16; 2];
    let at = (&raw mut cosines as u64).bytes();
    let angles = [half_bits(0.5), half_bits(-2.0)];
    let answer = bodies.call("air.sincos.v2f16", &[angles.map(u16::bytes).concat(), at]);
    assert_eq!(u16::read(&answer[2..]), half_bits((-2f32).sin()));
    assert_eq!(cosines, [half_bits(0.5f32.cos()), half_bits(2f32.cos())]);
    let (a, b) = ([1f32, 2.0, 3.0, 4.0], [0.5f32, -1.0, 2.0, 10.0]);
    let dot: f32 = bodies.one("air.dot.v4f32", &[a.map(f32::bytes).concat(), b.map(f32::bytes).concat()]);
    assert_eq!(dot, 0.5 - 2.0 + 6.0 + 40.0);
    // In half the first product is too large, and the sum is not.
    let (a, b) = ([300f32, 300.0, 1.0].map(half_bits), [300f32, -300.0, 2.5].map(half_bits));
    let dot: u16 = bodies.one("air.dot.v3f16", &[a.map(u16::bytes).concat(), b.map(u16::bytes).concat()]);
    assert_eq!(half_value(dot), 2.5);
    let smooth = |x: f32| bodies.one::<f32>("air.smoothstep.f32", &[1f32.bytes(), 3f32.bytes(), x.bytes()]);
    assert_eq!([0.0, 1.5, 2.0, 9.0].map(smooth), [0.0, 0.15625, 0.5, 1.0]);
}

/// The bits of an integer, as wide as arithmetic needs.
fn range(bits: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The product without its lowest bits. That of two positive numbers of 64 bits takes 128.
fn product_above(a: i128, b: i128, bits: u32) -> i128 {
    match (u128::try_from(a), u128::try_from(b)) {
        (Ok(a), Ok(b)) => ((a * b) >> bits) as i128,
        _ => (a * b) >> bits,
    }
}

/// What an integer family answers, by arithmetic that does not overflow.
fn integer_truth(family: &str, bits: u32, signed: bool, [a, b, c]: [i128; 3]) -> i128 {
    let (low, high) = range(bits, signed);
    match family {
        "min" => a.min(b),
        "max" => a.max(b),
        "min3" => a.min(b).min(c),
        "max3" => a.max(b).max(c),
        "median3" => {
            let mut sorted = [a, b, c];
            sorted.sort_unstable();
            sorted[1]
        }
        "clamp" => a.max(b).min(c),
        "abs" => a.abs(),
        "abs_diff" => (a - b).abs(),
        "add_sat" => (a + b).clamp(low, high),
        "sub_sat" => (a - b).clamp(low, high),
        "mul_hi" => product_above(a, b, bits),
        "mad_hi" => product_above(a, b, bits) + c,
        "mad_sat" => a.saturating_mul(b).saturating_add(c).clamp(low, high),
        "hadd" => (a + b) >> 1,
        "rhadd" => (a + b + 1) >> 1,
        _ => unreachable!("{family}"),
    }
}

#[test]
fn functions_of_integers_of_every_width_and_sign() {
    let families = [
        ("min", 2),
        ("max", 2),
        ("min3", 3),
        ("max3", 3),
        ("median3", 3),
        ("clamp", 3),
        ("abs", 1),
        ("abs_diff", 2),
        ("add_sat", 2),
        ("sub_sat", 2),
        ("mul_hi", 2),
        ("mad_hi", 3),
        ("mad_sat", 3),
        ("hadd", 2),
        ("rhadd", 2),
    ];
    let mut lines = Vec::new();
    for (family, count) in families {
        for sign in ["s", "u"] {
            for bits in [8, 16, 32, 64] {
                let ty = format!("i{bits}");
                lines.push(format!("air.{family}.{sign}.i{bits} {ty} ({})", vec![ty.as_str(); count].join(", ")));
            }
        }
        let ty = "<4 x i32>";
        lines.push(format!("air.{family}.u.v4i32 {ty} ({})", vec![ty; count].join(", ")));
    }
    let bodies = Bodies::new(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let all = integers();
    for (family, count) in families {
        for (signed, sign) in [(true, "s"), (false, "u")] {
            for bits in [8u32, 16, 32, 64] {
                let cut = |x: i64| {
                    let low = i128::from(x) & range(bits, false).1;
                    if signed && low >> (bits - 1) != 0 { low - (1 << bits) } else { low }
                };
                for (index, &x) in all.iter().enumerate() {
                    let (y, z) = (all[index * 7 % all.len()], all[index * 13 % all.len()]);
                    let values = [cut(x), cut(y), cut(z)];
                    let arguments: Vec<_> = values[..count].iter().map(|x| x.to_le_bytes()[..8].to_vec()).collect();
                    let got: u64 = bodies.one(&format!("air.{family}.{sign}.i{bits}"), &arguments);
                    let truth = integer_truth(family, bits, signed, values);
                    let mask = range(bits, false).1;
                    assert_eq!(i128::from(got) & mask, truth & mask, "{family}.{sign}.i{bits} of {values:?}");
                }
            }
        }
        let (a, b, c) = ([5u32, 7, u32::MAX, 9], [6u32, 1, 3, 0], [4u32, 8, 8, 1]);
        let arguments: Vec<_> = [a, b, c].iter().take(count).map(|x| x.map(u32::bytes).concat()).collect();
        let answer = bodies.call(&format!("air.{family}.u.v4i32"), &arguments);
        for place in 0..4 {
            let values = [a[place], b[place], c[place]].map(i128::from);
            let truth = integer_truth(family, 32, false, values) as u32;
            assert_eq!(u32::read(&answer[place * 4..]), truth, "{family} place {place}");
        }
    }
}

#[test]
fn functions_of_bits() {
    let bodies = Bodies::new(&[
        "air.popcount.i32 i32 (i32)",
        "air.clz.i32 i32 (i32, i1)",
        "air.ctz.i16 i16 (i16, i1)",
        "air.reverse_bits.i8 i8 (i8)",
        "air.bswap.i32 i32 (i32)",
        "air.rotate.i32 i32 (i32, i32)",
        "air.extract_bits.s.i32 i32 (i32, i32, i32)",
        "air.extract_bits.u.i32 i32 (i32, i32, i32)",
        "air.insert_bits.i32 i32 (i32, i32, i32, i32)",
        "air.mul24.s.i32 i32 (i32, i32)",
        "air.mad24.u.i32 i32 (i32, i32, i32)",
        "air.any.v4i1 i1 (<4 x i1>)",
        "air.all.v4i1 i1 (<4 x i1>)",
        "air.normalize_function_constant_predicate.i8 i8 (i8)",
        "air.is_uniform.i32 i1 (i32)",
        "air.get_simdgroup_size.i16 i16 ()",
    ]);
    for x in integers().into_iter().map(|x| x as u32) {
        let one = |name: &str| bodies.one::<u32>(name, &[x.bytes(), true.bytes()]);
        assert_eq!(one("air.popcount.i32"), x.count_ones());
        assert_eq!(one("air.clz.i32"), x.leading_zeros());
        assert_eq!(one("air.bswap.i32"), x.swap_bytes());
        assert_eq!(
            bodies.one::<u16>("air.ctz.i16", &[(x as u16).bytes(), false.bytes()]),
            (x as u16).trailing_zeros() as u16
        );
        assert_eq!(bodies.one::<u8>("air.reverse_bits.i8", &[(x as u8).bytes()]), (x as u8).reverse_bits());
        for by in [0u32, 1, 8, 31, 33] {
            assert_eq!(bodies.one::<u32>("air.rotate.i32", &[x.bytes(), by.bytes()]), x.rotate_left(by % 32));
        }
        for (from, count) in [(0u32, 32u32), (4, 8), (31, 1), (3, 0), (16, 16), (0, 1)] {
            let arguments = [x.bytes(), from.bytes(), count.bytes()];
            let mask = ((1u64 << count) - 1) as u32;
            let field = x.checked_shr(from).unwrap_or(0) & mask;
            assert_eq!(bodies.one::<u32>("air.extract_bits.u.i32", &arguments), field, "{x:x} {from} {count}");
            let spread = if count == 0 { 0 } else { ((field << (32 - count)) as i32) >> (32 - count) };
            assert_eq!(bodies.one::<i32>("air.extract_bits.s.i32", &arguments), spread, "{x:x} {from} {count}");
            let base = 0x1234_5678u32;
            let got: u32 = bodies.one("air.insert_bits.i32", &[base.bytes(), x.bytes(), from.bytes(), count.bytes()]);
            assert_eq!(got, base & !(mask << from) | (x & mask) << from, "{x:x} {from} {count}");
        }
        let (low, y) = ((x << 8) as i32 >> 8, -77_777i32);
        assert_eq!(bodies.one::<i32>("air.mul24.s.i32", &[x.bytes(), y.bytes()]), low.wrapping_mul(y));
        let product = (x & 0xff_ffff).wrapping_mul(12345).wrapping_add(7);
        assert_eq!(bodies.one::<u32>("air.mad24.u.i32", &[x.bytes(), 12345u32.bytes(), 7u32.bytes()]), product);
    }
    for truths in 0u8..16 {
        assert_eq!(bodies.one::<bool>("air.any.v4i1", &[vec![truths]]), truths != 0);
        assert_eq!(bodies.one::<bool>("air.all.v4i1", &[vec![truths]]), truths == 15);
    }
    assert_eq!(bodies.one::<u8>("air.normalize_function_constant_predicate.i8", &[vec![6]]), 1);
    assert!(bodies.one::<bool>("air.is_uniform.i32", &[3u32.bytes()]));
    assert_eq!(bodies.one::<u16>("air.get_simdgroup_size.i16", &[]), 32);
}

#[test]
fn atomic_operations_answer_what_was_there_and_leave_the_result() {
    let tail = "i32, i32, i1)";
    let mut lines = vec![
        format!("air.atomic.global.load.i32 i32 (ptr addrspace(1), {tail}"),
        format!("air.atomic.local.store.f32 void (ptr addrspace(3), float, {tail}"),
        format!("air.atomic.global.xchg.f32 float (ptr addrspace(1), float, {tail}"),
        format!("air.atomic.global.add.f32 float (ptr addrspace(1), float, {tail}"),
        format!("air.atomic.global.sub.f32 float (ptr addrspace(1), float, {tail}"),
        format!("air.atomic.global.max.u.i64 i64 (ptr addrspace(1), i64, {tail}"),
        "air.atomic.global.cmpxchg.weak.i32 i32 (ptr addrspace(1), ptr, i32, i32, i32, i32, i1)".to_owned(),
        "air.atomic.local.cmpxchg.weak.f32 i1 (ptr addrspace(3), ptr, float, i32, i32, i32, i1)".to_owned(),
        "air.atomic.fence void (i32, i32, i32)".to_owned(),
    ];
    type Truth = fn(i32, i32) -> i32;
    let operations: [(&str, Truth); 9] = [
        ("add.s", i32::wrapping_add),
        ("sub.u", i32::wrapping_sub),
        ("min.s", i32::min),
        ("max.s", i32::max),
        ("min.u", |a, b| (a as u32).min(b as u32) as i32),
        ("max.u", |a, b| (a as u32).max(b as u32) as i32),
        ("and.u", |a, b| a & b),
        ("or.s", |a, b| a | b),
        ("xor.u", |a, b| a ^ b),
    ];
    for (name, _) in operations {
        lines.push(format!("air.atomic.local.{name}.i32 i32 (ptr addrspace(3), i32, {tail}"));
    }
    let bodies = Bodies::new(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let order = [0u32.bytes(), 2u32.bytes(), true.bytes()];
    let mut word = 0i32;
    let at = (&raw mut word as u64).bytes();
    let with = |value: Vec<u8>| [vec![at.clone(), value], order.to_vec()].concat();
    for (name, truth) in operations {
        for (a, b) in [(5, 7), (-5, 7), (i32::MAX, 1), (i32::MIN, -1)] {
            word = a;
            let before: i32 = bodies.one(&format!("air.atomic.local.{name}.i32"), &with(b.bytes()));
            let after = bodies.one::<i32>("air.atomic.global.load.i32", &[vec![at.clone()], order.to_vec()].concat());
            assert_eq!((before, after, word), (a, truth(a, b), truth(a, b)), "{name} of {a} and {b}");
        }
    }
    bodies.call("air.atomic.local.store.f32", &with(1.5f32.bytes()));
    assert_eq!(bodies.one::<f32>("air.atomic.global.add.f32", &with(2.25f32.bytes())), 1.5);
    assert_eq!(bodies.one::<f32>("air.atomic.global.sub.f32", &with(0.75f32.bytes())), 3.75);
    assert_eq!(bodies.one::<f32>("air.atomic.global.xchg.f32", &with(9.0f32.bytes())), 3.0);
    word = 10;
    let mut expected = 11i32;
    let place = (&raw mut expected as u64).bytes();
    let exchange =
        |value: Vec<u8>| vec![at.clone(), place.clone(), value, 0u32.bytes(), 0u32.bytes(), 2u32.bytes(), true.bytes()];
    assert_eq!(bodies.one::<i32>("air.atomic.global.cmpxchg.weak.i32", &exchange(20.bytes())), 10);
    assert_eq!((word, expected), (10, 10));
    assert_eq!(bodies.one::<i32>("air.atomic.global.cmpxchg.weak.i32", &exchange(20.bytes())), 10);
    assert_eq!((word, expected), (20, 10));
    expected = 20;
    assert!(bodies.one::<bool>("air.atomic.local.cmpxchg.weak.f32", &exchange(2.0f32.bytes())));
    assert!(!bodies.one::<bool>("air.atomic.local.cmpxchg.weak.f32", &exchange(3.0f32.bytes())));
    assert_eq!((f32::from_bits(word as u32), f32::from_bits(expected as u32)), (2.0, 2.0));
    let mut wide = 5u64;
    let arguments = [vec![(&raw mut wide as u64).bytes(), u64::MAX.bytes()], order.to_vec()].concat();
    assert_eq!(bodies.one::<u64>("air.atomic.global.max.u.i64", &arguments), 5);
    assert_eq!(wide, u64::MAX);
    bodies.call("air.atomic.fence", &[3u32.bytes(), 5u32.bytes(), 2u32.bytes()]);
}

#[test]
fn packing_and_unpacking_of_normalized_numbers() {
    let bodies = Bodies::new(&[
        "air.pack.unorm4x8.v4f32 i32 (<4 x float>)",
        "air.unpack.unorm4x8.v4f32 <4 x float> (i32)",
        "air.pack.snorm2x16.v2f32 i32 (<2 x float>)",
        "air.unpack.snorm2x16.v2f32 <2 x float> (i32)",
        "air.pack.snorm1x8.f16 i8 (half)",
        "air.unpack.unorm4x16.v4f32 <4 x float> (i64)",
        "air.unpack.unorm.rgb10a2.v4f16 <4 x half> (i32)",
        "air.unpack.unorm4x8.srgb.v4f32 <4 x float> (i32)",
        "air.pack.unorm4x8.srgb.v4f32 i32 (<4 x float>)",
    ]);
    let four = |x: [f32; 4]| x.map(f32::bytes).concat();
    let pack = |x: [f32; 4]| bodies.one::<u32>("air.pack.unorm4x8.v4f32", &[four(x)]);
    assert_eq!(pack([0.0, 1.0, 0.5, 2.0]), 0xff80_ff00);
    assert_eq!(pack([-1.0, f32::NAN, 1.0 / 255.0, 0.501]), 0x8001_0000);
    for byte in 0..=255u32 {
        let answer = bodies.call("air.unpack.unorm4x8.v4f32", &[(byte << 16 | 0xff).bytes()]);
        assert_eq!([0, 4, 8].map(|at| f32::read(&answer[at..])), [1.0, 0.0, byte as f32 / 255.0]);
        let answer = bodies.call("air.unpack.unorm4x8.srgb.v4f32", &[(byte << 16 | byte << 24).bytes()]);
        let linear = [8, 12].map(|at| f32::read(&answer[at..]));
        assert_eq!(linear[1], byte as f32 / 255.0, "alpha is linear");
        let packed: u32 = bodies.one("air.pack.unorm4x8.srgb.v4f32", &[four([0.0, 0.0, linear[0], linear[1]])]);
        assert_eq!(packed, byte << 16 | byte << 24);
    }
    let two = [-1.0f32, 0.25].map(f32::bytes).concat();
    assert_eq!(bodies.one::<u32>("air.pack.snorm2x16.v2f32", &[two]), 8192 << 16 | 0x8001);
    let answer = bodies.call("air.unpack.snorm2x16.v2f32", &[0x7fff_8000u32.bytes()]);
    assert_eq!([f32::read(&answer), f32::read(&answer[4..])], [-1.0, 1.0]);
    assert_eq!(bodies.one::<i8>("air.pack.snorm1x8.f16", &[half_bits(-0.5).bytes()]), -64);
    let answer = bodies.call("air.unpack.unorm4x16.v4f32", &[0xffff_0000_0000_0000u64.bytes()]);
    assert_eq!([f32::read(&answer[8..]), f32::read(&answer[12..])], [0.0, 1.0]);
    let answer = bodies.call("air.unpack.unorm.rgb10a2.v4f16", &[(1 << 30 | 1023u32 << 10).bytes()]);
    assert_eq!([2, 6].map(|at| u16::read(&answer[at..])), [0x3c00, half_bits(1.0 / 3.0)]);
}

#[test]
fn half_and_bfloat_are_the_same_without_instructions_for_them() {
    let lines = [
        "air.convert.f.f16.f.f32 half (float)",
        "air.convert.f.bf16.f.f32 bfloat (float)",
        "air.convert.f.f32.f.f16 float (half)",
        "air.fma.f16 half (half, half, half)",
        "air.fmax.bf16 bfloat (bfloat, bfloat)",
        "air.simd_sum.f16 half (half)",
    ];
    let (plain, own) = (Bodies::plain(&lines), Bodies::new(&lines));
    for x in floats().into_iter().filter(|x| *x == 0.0 || x.is_normal()) {
        let (half, bfloat) = (half_bits(x).bytes(), bfloat_bits(x).bytes());
        let same = |name: &str, arguments: &[Vec<u8>]| {
            assert_eq!(plain.one::<u16>(name, arguments), own.one::<u16>(name, arguments), "{name} of {x}");
        };
        same("air.convert.f.f16.f.f32", &[x.bytes()]);
        same("air.convert.f.bf16.f.f32", &[x.bytes()]);
        same("air.fma.f16", &[half.clone(), half_bits(1.5).bytes(), half_bits(0.1).bytes()]);
        same("air.fmax.bf16", &[bfloat, bfloat_bits(0.3).bytes()]);
        assert_eq!(plain.one::<f32>("air.convert.f.f32.f.f16", &[half]), half_value(half_bits(x)), "{x}");
    }
}
