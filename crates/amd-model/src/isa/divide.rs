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
