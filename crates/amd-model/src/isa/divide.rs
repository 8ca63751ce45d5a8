//! The steps of a correctly rounded division of f32: scale the operands into a range in which Newton's steps are exact,
//! undo it in the last step, and put in what is special. Conditions are the manual's.

use super::float::{self, Mode, quiet};
use super::inst::Inst;
use super::wave::{VCC, Wave};

/// The exponent's field.
fn exponent(a: f32) -> i32 {
    (a.to_bits() >> 23 & 0xff) as i32
}

fn times(a: f32, power: i32) -> f32 {
    (f64::from(a) * 2f64.powi(power)) as f32
}

/// v_div_scale: scales the source `a`, which is the denominator `b` or the numerator `c`, and says in which lanes the
/// quotient has to be scaled back.
pub(super) fn scale(w: &mut Wave, i: &Inst) {
    // The operands' bits decide which of them the first source is.
    let (a, b, c) = (w.source(i, 0), w.source(i, 1), w.source(i, 2));
    let float = |bits: u32, source: usize| super::vector::modified(i, source, f32::from_bits(bits));
    let mut out = 0;
    let value = std::array::from_fn(|lane| {
        let (a, b, c) = (float(a[lane], 0), float(b[lane], 1), float(c[lane], 2));
        let (value, back) = scaled(a, b, c);
        out |= u32::from(back) << lane;
        value.to_bits()
    });
    w.write(usize::from(i.dst), &value);
    w.set_mask(i.sdst, out);
}

fn scaled(a: f32, b: f32, c: f32) -> (f32, bool) {
    let is = |x: f32| a.to_bits() == x.to_bits();
    let quotient = f64::from(c) / f64::from(b);
    let tiny = |x: f64| x != 0.0 && x.abs() < f64::from(f32::MIN_POSITIVE);
    let inverse_is_tiny = tiny(1.0 / f64::from(b));
    if b == 0.0 || c == 0.0 {
        (f32::NAN, false)
    } else if exponent(c) - exponent(b) >= 96 {
        // The quotient is near the largest: scale the denominator alone.
        (if is(b) { times(a, 64) } else { a }, true)
    } else if b.is_subnormal() {
        (times(a, 64), false)
    } else if inverse_is_tiny && tiny(quotient) {
        // The manual scales up here, to where the denominator is infinite; down is what gives a quotient.
        (if is(b) { times(a, -64) } else { a }, true)
    } else if inverse_is_tiny {
        (times(a, -64), false)
    } else if tiny(quotient) {
        (if is(c) { times(a, 64) } else { a }, true)
    } else if exponent(c) <= 23 {
        // The numerator is tiny.
        (times(a, 64), false)
    } else {
        (a, false)
    }
}

/// v_div_fmas: the last step, scaled back in the lanes of vcc.
pub(super) fn fused(w: &mut Wave, i: &Inst) {
    let (mode, back) = (w.mode, w.s[VCC]);
    let (a, b, c) = (w.float(i, 0), w.float(i, 1), w.float(i, 2));
    let value = std::array::from_fn(|lane| step(mode, a[lane], b[lane], c[lane], back >> lane & 1 != 0));
    w.write_float(i, value);
}

fn step(mode: Mode, a: f32, b: f32, c: f32, back: bool) -> f32 {
    match back {
        false => float::fma(mode, a, b, c),
        true => float::fma_scaled(mode, a, b, c, if exponent(c) > 127 { 64 } else { -64 }),
    }
}

/// v_div_fixup: the quotient `a` of numerator `c` by denominator `b`, or what is special about them.
pub(super) fn fixup(a: f32, b: f32, c: f32) -> f32 {
    let negative = b.is_sign_negative() != c.is_sign_negative();
    let signed = |x: f32| if negative { -x } else { x };
    if c.is_nan() {
        quiet(c)
    } else if b.is_nan() {
        quiet(b)
    } else if (b == 0.0 && c == 0.0) || (b.is_infinite() && c.is_infinite()) {
        f32::from_bits(0xffc0_0000)
    } else if b == 0.0 || c.is_infinite() {
        signed(f32::INFINITY)
    } else if b.is_infinite() || c == 0.0 || exponent(c) - exponent(b) < -150 {
        signed(0.0)
    } else if a.is_nan() {
        // The steps made an infinity of the quotient, and a NaN of its rest: it is past the largest.
        signed(f32::INFINITY)
    } else {
        signed(a.abs())
    }
}

fn exponent64(a: f64) -> i32 {
    (a.to_bits() >> 52 & 0x7ff) as i32
}

/// `a` times a power of 2, rounded once.
pub(super) fn scaled64(a: f64, power: i32) -> f64 {
    if a == 0.0 || !a.is_finite() {
        return a;
    }
    // As a mantissa in [1, 2) times a power, whose product is rounded by the last step alone.
    let lift = if a.is_subnormal() { 64 } else { 0 };
    let wide = a * 2f64.powi(lift);
    let mantissa = f64::from_bits(wide.to_bits() & !(0x7ff << 52) | 1023 << 52);
    let power = (exponent64(wide) - 1023 - lift).saturating_add(power).clamp(-1100, 1100);
    match power {
        1024.. => mantissa * f64::MAX * 2.0,
        -1022.. => mantissa * 2f64.powi(power),
        _ => mantissa * 2f64.powi(-1000) * 2f64.powi(power + 1000),
    }
}

/// v_div_scale of f64, by 2 to the power of 128.
pub(super) fn scale64(w: &mut Wave, i: &Inst) {
    let (a, b, c) = (w.double(i, 0), w.double(i, 1), w.double(i, 2));
    let mut out = 0;
    let value = std::array::from_fn(|lane| {
        let (value, back) = scaled_operand64(a[lane], b[lane], c[lane]);
        out |= u32::from(back) << lane;
        value.to_bits()
    });
    w.write64(usize::from(i.dst), &value);
    w.set_mask(i.sdst, out);
}

fn scaled_operand64(a: f64, b: f64, c: f64) -> (f64, bool) {
    let is = |x: f64| a.to_bits() == x.to_bits();
    let inverse_is_tiny = (1.0 / b).is_subnormal();
    let quotient_is_tiny = (c / b).is_subnormal();
    if b == 0.0 || c == 0.0 {
        (f64::NAN, false)
    } else if exponent64(c) - exponent64(b) >= 768 {
        (if is(b) { scaled64(a, 128) } else { a }, true)
    } else if b.is_subnormal() {
        (scaled64(a, 128), false)
    } else if inverse_is_tiny && quotient_is_tiny {
        (if is(b) { scaled64(a, -128) } else { a }, true)
    } else if inverse_is_tiny {
        (scaled64(a, -128), false)
    } else if quotient_is_tiny {
        (if is(c) { scaled64(a, 128) } else { a }, true)
    } else if exponent64(c) <= 53 {
        (scaled64(a, 128), false)
    } else {
        (a, false)
    }
}

/// v_div_fmas of f64.
pub(super) fn fused64(w: &mut Wave, i: &Inst) {
    let back = w.s[VCC];
    let (a, b, c) = (w.double(i, 0), w.double(i, 1), w.double(i, 2));
    let value = std::array::from_fn(|lane| {
        let (a, b, c) = (a[lane], b[lane], c[lane]);
        let value = a.mul_add(b, c);
        let scaled = match back >> lane & 1 != 0 {
            false => value,
            true if exponent64(c) > 1023 => scaled64(value, 128),
            true => lowered(value, error_of_fma(a, b, c, value)),
        };
        scaled.to_bits()
    });
    w.write64(usize::from(i.dst), &value);
}

/// How much `a * b + c` is off from `value`, which it is rounded to: the sign at least is right.
fn error_of_fma(a: f64, b: f64, c: f64, value: f64) -> f64 {
    let sum = |a: f64, b: f64| {
        let s = a + b;
        let t = s - a;
        (s, (a - (s - t)) + (b - t))
    };
    let product = a * b;
    let (low, lowest) = sum(c, a.mul_add(b, -product));
    let (high, middle) = sum(product, low);
    ((high - value) + middle) + lowest
}

/// `value + error` times 2 to the power of -128, rounded once.
fn lowered(value: f64, error: f64) -> f64 {
    let result = scaled64(value, -128);
    let rest = value - scaled64(result, 128);
    // Half of the least denormal, before it is scaled: there the error decides, which is less than any other rest.
    let tie = rest.abs() == 2f64.powi(-1075 + 128);
    match tie {
        true if error > 0.0 && rest > 0.0 => result.next_up(),
        true if error < 0.0 && rest < 0.0 => result.next_down(),
        _ => result,
    }
}

/// v_div_fixup of f64.
pub(super) fn fixup64(a: f64, b: f64, c: f64) -> f64 {
    let negative = b.is_sign_negative() != c.is_sign_negative();
    let signed = |x: f64| if negative { -x } else { x };
    let quiet = |x: f64| f64::from_bits(x.to_bits() | 1 << 51);
    if c.is_nan() {
        quiet(c)
    } else if b.is_nan() {
        quiet(b)
    } else if (b == 0.0 && c == 0.0) || (b.is_infinite() && c.is_infinite()) {
        f64::from_bits(0xfff8 << 48)
    } else if b == 0.0 || c.is_infinite() {
        signed(f64::INFINITY)
    } else if b.is_infinite() || c == 0.0 || exponent64(c) - exponent64(b) < -1075 {
        signed(0.0)
    } else if a.is_nan() {
        signed(f64::INFINITY)
    } else {
        signed(a.abs())
    }
}
